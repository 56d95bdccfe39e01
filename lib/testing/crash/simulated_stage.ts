/**
 * The stage on which a workload plays: a store on a simulated disk, with time that passes only when
 * nothing else happens, and a ledger that takes down what was promised.
 *
 * @module
 */

import { basename, dirname } from "node:path";
import { StoreError } from "../../errors.ts";
import type { FileSystem } from "../../io/file_system.ts";
import type { PutResult } from "../../message/put_result.ts";
import type { StoredMessage } from "../../message/record.ts";
import { MessageStore, type StoreWatermarks } from "../../message_store.ts";
import type { TopicSettings } from "../../metadata/topic_table.ts";
import { type ResolvedOptions, resolveOptions, type StoreOptions } from "../../options.ts";
import type { RetentionEvent } from "../../retention/retention_event.ts";
import { FakeClock } from "../fake_clock.ts";
import type { Random } from "../random.ts";
import { SimulatedDisk, type Survival } from "../simulated_disk.ts";
import { type Call, type Fault, SimulatedFileSystem } from "../simulated_file_system.ts";
import { type CrashEvent, describe, type Entry, Ledger, type Place } from "./ledger.ts";
import { type Ending, Pace } from "./pace.ts";
import { type MessageSpec, numberOf, PlannedMessage } from "./planned_message.ts";
import { RawStore } from "./raw_store.ts";
import { oneOf } from "./seeds.ts";
import type { Outcome, Stage, Workload } from "./workload.ts";

/** Where the store lies on every simulated disk. */
export const ROOT = "/store";

/** What dies with a process goes on for nobody: time between two processes, in ms. */
const RESTART_MS = 1000;

/** What a cut in the middle of a workload leaves. */
const SURVIVALS: readonly Survival[] = [
  { data: "none", names: "none" },
  { data: "random", names: "prefix" },
  { data: "random", names: "subset" },
];

/** What is done to a store while a workload plays. */
export interface StageDirections {
  readonly options: StoreOptions;
  readonly random: Random;
  /** Called before each call, with its number from the beginning of the play. */
  readonly onCall?: (number: number, call: Call) => Fault | undefined;
  /** What the store gets in place of the simulated file system. */
  readonly wrap?: (fileSystem: FileSystem) => FileSystem;
  /** Calls will fail: an error that is told is none of the stage's. */
  readonly expectsErrors?: boolean;
  /** What was put before. @default an empty one */
  readonly ledger?: Ledger;
  /** A recovery before has found the log damaged in its middle. @default false */
  readonly hadHoles?: boolean;
}

/** A process that has, or had, the store open. */
interface Process {
  readonly fileSystem: SimulatedFileSystem;
  readonly clock: FakeClock;
  /** Calls of the processes before it. */
  readonly callsBefore: number;
  readonly traceBefore: string;
  dead: boolean;
}

/** Something that was asked of the store and has not ended. */
interface Pending {
  readonly what: string;
  readonly end: (outcome: Outcome) => void;
}

/** What went otherwise than with a store whose calls all succeed. */
export interface Incident {
  readonly what: string;
  readonly outcome: Outcome;
  readonly error?: unknown;
}

export class SimulatedStage implements Stage {
  readonly random: Random;
  readonly options: StoreOptions;
  readonly resolved: ResolvedOptions;
  readonly ledger: Ledger;
  /** What must not be, whatever fails. */
  readonly violations: string[] = [];
  /** What was told to a caller, or never came to its end. */
  readonly incidents: Incident[] = [];
  readonly warnings: string[] = [];
  /** A recovery has found the log damaged in its middle. */
  hadHoles: boolean;
  readonly #directions: StageDirections;
  readonly #pace: Pace;
  readonly #pending = new Set<Pending>();
  #process: Process;
  #store: MessageStore | undefined;
  #ended = 0;

  constructor(directions: StageDirections, disk = new SimulatedDisk()) {
    this.#directions = directions;
    this.random = directions.random;
    this.options = directions.options;
    this.resolved = resolveOptions(directions.options);
    this.ledger = directions.ledger ?? new Ledger();
    this.hadHoles = directions.hadHoles ?? false;
    this.#process = this.#start(disk, new FakeClock(), 0, "");
    this.#pace = new Pace(
      this.#process.clock,
      () => this.calls + this.ledger.changes + this.#ended,
      () => this.#ended,
    );
  }

  get store(): MessageStore | undefined {
    return this.#store;
  }

  get disk(): SimulatedDisk {
    return this.#process.fileSystem.disk;
  }

  /** Calls so far, of all processes. */
  get calls(): number {
    return this.#process.callsBefore + this.#process.fileSystem.calls;
  }

  /** Digest of everything that was called so far, by all processes. */
  get trace(): string {
    return `${this.#process.traceBefore}${this.#process.fileSystem.trace}`;
  }

  /** How far the store has got; `undefined` while there is none. */
  get watermarks(): StoreWatermarks | undefined {
    return this.#store?.watermarks;
  }

  /** Opens the store and sees the workload through. The store is left open. */
  async play(workload: Workload): Promise<Ending> {
    return this.perform(async () => {
      await this.open();
      await workload.run(this);
    });
  }

  /** Sees `what` through, which may use the stage. */
  async perform(what: () => Promise<void>): Promise<Ending> {
    const ending = await this.#pace.play(
      what().catch((error: unknown) => {
        this.violations.push(`the workload failed with ${describe(error)}`);
      }),
      () => this.#giveUp(),
    );
    if (ending !== "over") this.violations.push(`the store is ${ending}`);
    return ending;
  }

  /** What was started is no more: whatever it still calls never ends. */
  leave(): void {
    this.#process.dead = true;
    this.#endAll("died");
  }

  async put(spec: MessageSpec): Promise<Outcome> {
    const [planned] = this.#plan([spec]) as [PlannedMessage];
    return this.#put([planned], spec, (store) => store.put(planned.message));
  }

  async putBatch(specs: readonly MessageSpec[]): Promise<Outcome> {
    const planned = this.#plan(specs);
    const [{ topic, queueId, bornTimestamp }] = planned as [PlannedMessage];
    const spec = specs[0] as MessageSpec;
    const { waitStoreMsgOK } = spec;
    const wait = waitStoreMsgOK === undefined ? {} : { waitStoreMsgOK };
    const messages = planned.map(({ item }) => item);
    return this.#put(planned, spec, (store) =>
      store.putBatch({ topic, queueId, bornTimestamp, messages, ...wait }),
    );
  }

  async flush(): Promise<Outcome> {
    const before = this.ledger.acknowledgedEntries();
    const outcome = await this.#ask("flush", (store) => store.flush());
    if (outcome === "done") this.ledger.flushed(before);
    return outcome;
  }

  topic(name: string, settings: TopicSettings): Promise<Outcome> {
    return this.#ask("topic", async (store) => {
      await store.topics.update(name, settings);
    });
  }

  checkpoint(): Promise<Outcome> {
    return this.#ask("checkpoint", (store) => store.checkpoint());
  }

  clean(): Promise<Outcome> {
    return this.#ask("clean", (store) => store.clean());
  }

  async deleteTopics(topics: readonly string[]): Promise<Outcome> {
    const ended = this.ledger.deletingTopics(topics);
    const outcome = await this.#ask("deleteTopics", async (store) => {
      await store.deleteTopics(topics);
    });
    ended(outcome === "done");
    return outcome;
  }

  async durable(): Promise<Outcome> {
    const offset = this.watermarks?.wrote ?? 0;
    const before = this.ledger
      .acknowledgedEntries()
      .filter(({ place }) => (place as Place).offset < offset);
    const outcome = await this.#ask("durable", (store) => store.durable(offset));
    if (outcome === "done") this.ledger.flushed(before);
    return outcome;
  }

  async readBack(count: number): Promise<void> {
    const readable = this.readable();
    for (let i = 0; i < count && readable.length > 0; i++) {
      await this.read(oneOf(this.random, readable));
    }
  }

  /** Acknowledged messages that can be read now. */
  readable(): Entry[] {
    const dispatched = this.watermarks?.dispatched ?? 0;
    const logMin = this.#store?.minPhysicalOffset ?? 0;
    return this.ledger
      .acknowledgedEntries()
      .filter(({ place }) => (place as Place).offset >= logMin)
      .filter(
        ({ place, generation }) =>
          generation < this.ledger.generation || (place as Place).offset < dispatched,
      );
  }

  /** Reads a message and compares. */
  async read(entry: Entry): Promise<Outcome> {
    const { planned, place } = entry;
    const { topic, queueId, isQueued, number } = planned;
    const { messageId, queueOffset: offset = 0 } = place as Place;
    const seen = (how: string, message: StoredMessage | undefined): void => {
      const wrong = message
        ? (this.#misplaced(entry, message) ?? planned.difference(message))
        : "there is none";
      // Its file may have been deleted meanwhile.
      const isExpired = !message && (place as Place).offset < (this.#store?.minPhysicalOffset ?? 0);
      if (wrong && !isExpired)
        this.violations.push(`message ${number} as read by ${how}: ${wrong}`);
    };
    const outcome = await this.#ask("lookup", async (store) => {
      seen("its id", await store.lookup(messageId as string));
    });
    if (!isQueued || outcome !== "done" || this.ledger.mayBeDeleted(number)) return outcome;
    return this.#ask("get", async (store) => {
      const { messages } = await store.get({ topic, queueId, offset, maxMessages: 1 });
      seen("its queue", messages[0]);
    });
  }

  pass(ms: number): Promise<void> {
    return this.#pace.pass(ms);
  }

  async reopen(): Promise<void> {
    const before = this.watermarks;
    const outcome = await this.#ask("close", (store) => store.close());
    if (outcome === "died") return;
    if (outcome === "hung") return this.kill();
    // A store that had failed just closes.
    if (outcome === "done" && !this.#store?.failure) {
      this.ledger.flushed(this.ledger.acknowledgedEntries());
    }
    // Without a clean close it ends as a process does that is told to.
    this.ledger.crashed("kill", this.watermarks ?? before);
    this.#store = undefined;
    await this.open();
  }

  kill(): Promise<void> {
    return this.#restart("kill", () => this.disk.kill(this.random));
  }

  cut(given?: Survival): Promise<void> {
    const survival = given ?? oneOf(this.random, SURVIVALS);
    return this.#restart("cut", () => this.disk.cutPower(this.random, survival));
  }

  async #restart(event: CrashEvent, crash: () => SimulatedDisk): Promise<void> {
    this.ledger.crashed(event, this.watermarks);
    const disk = crash();
    const { clock } = this.#process;
    this.leave();
    this.#store = undefined;
    const restartedAt = new FakeClock(clock.now() + RESTART_MS);
    this.#process = this.#start(disk, restartedAt, this.calls, `${this.trace}.`);
    this.#pace.clock = this.#process.clock;
    await this.open();
  }

  /** Opens the store, for the first time or after it was left closed. */
  async open(): Promise<void> {
    // A call fails only once: what could not be opened can be opened then.
    const attempts = this.#directions.expectsErrors ? 2 : 1;
    for (let attempt = 0; attempt < attempts && !this.#store; attempt++) {
      const { fileSystem: base, clock } = this.#process;
      const environment = {
        fileSystem: this.#directions.wrap?.(base) ?? base,
        clock,
        onWarning: (warning: string) => this.warnings.push(warning),
        onRetention: (event: RetentionEvent) => {
          if (event.kind === "logFile") this.ledger.deleted(event.offset + event.size);
        },
      };
      let opened: MessageStore | undefined;
      const outcome = await this.#watch("open", async () => {
        opened = await MessageStore.open(ROOT, this.options, environment);
      });
      if (outcome === "died") return;
      if (outcome === "hung") return this.kill();
      this.#store = opened;
    }
    if (!this.#store) return;
    if (this.#store.recovery.holes.length > 0) this.hadHoles = true;
    const found = new Map<number, Place>();
    for (const record of new RawStore(this.disk, ROOT, this.resolved).records()) {
      const planned = this.ledger.entries[numberOf(record) ?? -1]?.planned;
      // One that passes for whole and is not, nobody was promised.
      if (planned && !planned.difference(record)) found.set(planned.number, placeOf(record));
    }
    const logMin = Math.max(this.#store.minPhysicalOffset, 0);
    this.violations.push(...this.ledger.reopened(found, logMin));
  }

  #start(disk: SimulatedDisk, clock: FakeClock, callsBefore: number, traceBefore: string): Process {
    const { onCall } = this.#directions;
    const started = {
      callsBefore,
      traceBefore,
      clock,
      dead: false,
      fileSystem: new SimulatedFileSystem(disk, {
        seed: this.random(2 ** 31),
        clock,
        onCall: (call) => {
          if (started.dead) return { kind: "hang" };
          this.#noteDeletion(call);
          return onCall?.(callsBefore + call.number, call);
        },
      }),
    };
    return started;
  }

  /** A file of the log that goes, and is none behind its end, goes by retention. */
  #noteDeletion({ name, path }: Call): void {
    if (name !== "unlink" || basename(dirname(path)) !== "commitlog") return;
    const end = Number(basename(path)) + this.resolved.mappedFileSizeCommitLog;
    if (end <= (this.watermarks?.flushed ?? 0)) this.ledger.deleting(end);
  }

  #plan(specs: readonly MessageSpec[]): PlannedMessage[] {
    const now = this.#process.clock.now();
    const first = this.ledger.entries.length;
    return specs.map((spec, i) => new PlannedMessage(first + i, now - 7, spec));
  }

  async #put(
    planned: readonly PlannedMessage[],
    { waitStoreMsgOK = true }: MessageSpec,
    put: (store: MessageStore) => Promise<PutResult>,
  ): Promise<Outcome> {
    if (!this.#store) return "refused";
    this.ledger.submitted(planned);
    const started = this.#process;
    const failedBefore = this.#store.failure !== undefined;
    return this.#ask(
      waitStoreMsgOK ? "put" : "loose put",
      async (store) => {
        const result = await put(store);
        if (started.dead) return;
        if (failedBefore) this.violations.push("a put was acknowledged after the store had failed");
        this.ledger.acknowledged(planned, result, this.options, waitStoreMsgOK);
      },
      (error) => this.ledger.rejected(planned, error),
    );
  }

  /** @param told Takes the error; returns what is wrong with it. */
  #ask(
    what: string,
    action: (store: MessageStore) => Promise<void>,
    told: (error: unknown) => string | undefined = () => undefined,
  ): Promise<Outcome> {
    const store = this.#store;
    if (!store) return Promise.resolve("refused");
    return this.#watch(what, () => action(store), told);
  }

  /** Waits for an action, for as long as it may come to its end. */
  #watch(
    what: string,
    action: () => Promise<void>,
    told: (error: unknown) => string | undefined = () => undefined,
  ): Promise<Outcome> {
    const started = this.#process;
    return new Promise((resolve) => {
      const end = (outcome: Outcome, error?: unknown): void => {
        if (!this.#pending.delete(pending)) return;
        this.#ended++;
        if (outcome === "refused" || outcome === "hung") this.#note({ what, outcome, error });
        resolve(outcome);
      };
      const pending: Pending = { what, end };
      this.#pending.add(pending);
      action().then(
        () => {
          if (!started.dead) end("done");
        },
        (error: unknown) => {
          if (started.dead || !this.#pending.has(pending)) return;
          const wrong = told(error) ?? (error instanceof StoreError ? undefined : "no StoreError");
          if (wrong) this.violations.push(`${what}: ${describe(error)}: ${wrong}`);
          end("refused", error);
        },
      );
    });
  }

  #note(incident: Incident): void {
    this.incidents.push(incident);
    if (this.#directions.expectsErrors) return;
    const { what, outcome, error } = incident;
    if (outcome === "hung") this.violations.push(`${what} never comes to its end`);
    // A put that was not stored is an answer.
    else if (!what.endsWith("put") || (error as { outcome?: unknown }).outcome !== "not stored") {
      this.violations.push(`${what} failed: ${describe(error)}`);
    }
  }

  /** Nothing moves any more: those who wait are told. */
  #giveUp(): boolean {
    const some = this.#pending.size > 0;
    this.#endAll("hung");
    return some;
  }

  #endAll(outcome: Outcome): void {
    for (const { end } of [...this.#pending]) end(outcome);
  }

  #misplaced({ place, planned }: Entry, message: StoredMessage): string | undefined {
    return misplaced(place as Place, planned.number, message);
  }
}

/** Where a stored message lies. */
export function placeOf(message: StoredMessage): Place {
  const { physicalOffset: offset, queueOffset, storeTimestamp, messageId } = message;
  return { offset, queueOffset, storeTimestamp, messageId };
}

/** What is wrong with the place of a message, if anything is. */
export function misplaced(
  place: Place,
  number: number,
  message: StoredMessage,
): string | undefined {
  if (numberOf(message) !== number) return `it is message ${numberOf(message)}`;
  const found = placeOf(message);
  for (const name of ["offset", "queueOffset", "storeTimestamp", "messageId"] as const) {
    if (place[name] !== undefined && place[name] !== found[name]) {
      return `its ${name} is ${found[name]}, ${place[name]} was told`;
    }
  }
  return undefined;
}
