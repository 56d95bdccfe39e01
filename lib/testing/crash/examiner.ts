/**
 * Looks at what a crash has left: at the files as they lie there, at the store that is opened on
 * them, and at how it goes on.
 *
 * What is found is one thing, and what had been promised at the moment of the crash another: two
 * crashes that leave the same bytes are looked at once.
 *
 * @module
 */

import { resolveOptions, type StoreOptions } from "../../options.ts";
import type { PhysicalOffset } from "../../units.ts";
import type { SimulatedDisk } from "../simulated_disk.ts";
import type { CrashEvent, Entry, Ledger, LedgerView, Place } from "./ledger.ts";
import { numberOf } from "./planned_message.ts";
import { RawStore } from "./raw_store.ts";
import { randomFor } from "./seeds.ts";
import { placeOf, ROOT, SimulatedStage } from "./simulated_stage.ts";
import { survey } from "./survey.ts";
import type { Workload } from "./workload.ts";

/** What is looked at. */
export interface Examined {
  /** What is wrong, whatever had been promised. */
  readonly problems: readonly string[];
  /** Where the messages lie that the opened store has, by number. */
  readonly found: ReadonlyMap<number, Place>;
  /** Of these, those that are not what was put: see `Survey.mangled`. */
  readonly mangled: ReadonlyMap<number, string>;
  /** Messages whose topic was deleted behind them: see `Survey.deleted`. */
  readonly deleted: ReadonlySet<number>;
  /** What was put and lies whole on the disk at the place that was told. */
  readonly onDisk: ReadonlySet<number>;
  /** The disk before each call of the opening, if that was asked for. */
  readonly opening: readonly SimulatedDisk[];
  /** The log was damaged in its middle, now or before. */
  readonly hadHoles: boolean;
  /** Where the log of the opened store begins; 0 if it could not be opened. */
  readonly logMin: PhysicalOffset;
}

export interface ExaminerContext {
  readonly ledger: Ledger;
  readonly options: StoreOptions;
  readonly workload: Workload;
  /** A recovery in the play has found the log damaged in its middle. */
  readonly hadHoles: boolean;
  /** Names the play, for whatever is left to chance. */
  readonly play: string;
}

/** How far an examination goes. */
export interface HowToLook {
  /** A recovery before this crash has found the log damaged in its middle. */
  readonly hadHoles?: boolean;
  /** Keep the disk before each call of its opening. @default false */
  readonly keepOpening?: boolean;
  /** Put more, and open and close the store twice. @default true */
  readonly goOn?: boolean;
}

/** Topics that are put to after a crash: one that nobody knew. */
const NEW_TOPIC = "after";

export class Examiner {
  readonly #context: ExaminerContext;
  readonly #known = new Map<string, Examined>();
  /** Disks that were looked at. */
  count = 0;

  constructor(context: ExaminerContext) {
    this.#context = context;
  }

  /** Looks at a disk, unless one with the same content has been looked at. */
  async examine(image: SimulatedDisk, event: CrashEvent, how: HowToLook = {}): Promise<Examined> {
    const { hadHoles = this.#context.hadHoles } = how;
    const key = `${contentOf(image, event)} ${hadHoles}`;
    const known = this.#known.get(key);
    if (known) return known;
    const examined = await this.look(image, event, how);
    this.#known.set(key, examined);
    return examined;
  }

  async look(image: SimulatedDisk, event: CrashEvent, how: HowToLook = {}): Promise<Examined> {
    this.count++;
    const { options, play, ledger, workload } = this.#context;
    const { hadHoles = this.#context.hadHoles, keepOpening = false, goOn = true } = how;
    const raw = new RawStore(image, ROOT, resolveOptions(options));
    const problems = [...raw.strangers(), ...raw.falseClaims()];
    const onDisk = new Set<number>();
    for (const { place, planned } of ledger.entries) {
      const record = place && raw.recordAt(place.offset);
      if (record && numberOf(record) === planned.number) onDisk.add(planned.number);
    }
    const opening: SimulatedDisk[] = [];
    const found = new Map<number, Place>();
    const mangled = new Map<number, string>();
    const deleted = new Set<number>();
    let logMin: PhysicalOffset = 0;
    let isOpen = false;
    const stage: SimulatedStage = new SimulatedStage(
      {
        options,
        random: randomFor(play, "afterwards", event),
        ledger: ledger.forgotten(),
        hadHoles,
        onCall: () => {
          if (keepOpening && !isOpen) opening.push(stage.disk.fork());
          return undefined;
        },
      },
      image.fork(),
    );
    await stage.perform(async () => {
      await stage.open();
      isOpen = true;
      logMin = Math.max(stage.store?.minPhysicalOffset ?? 0, 0);
      await look("after the crash");
      if (workload.check && stage.store) problems.push(...(await workload.check(stage.store)));
      if (!goOn) return this.#crashAgain(stage, problems);
      await this.#goOn(stage);
      await stage.cut({ data: "none", names: "none" });
      await look("after a second crash");
      await this.#reopenTwice(stage, problems);
      await look("at last");
    });
    stage.leave();
    problems.push(...stage.violations);
    return { problems, found, mangled, deleted, onDisk, opening, hadHoles: stage.hadHoles, logMin };

    async function look(when: string): Promise<void> {
      if (!stage.store) return;
      const seen = await survey(stage.store, stage.ledger.entries, stage.hadHoles);
      problems.push(...seen.problems.map((problem) => `${when}: ${problem}`));
      if (found.size > 0) return;
      for (const [number, message] of seen.messages) found.set(number, placeOf(message));
      for (const [number, difference] of seen.mangled) mangled.set(number, difference);
      for (const number of seen.deleted) deleted.add(number);
    }
  }

  /** What recovery has found is durable: a cut that leaves nothing else must change nothing. */
  async #crashAgain(stage: SimulatedStage, problems: string[]): Promise<void> {
    const before = this.#segmentsOf(stage);
    await stage.cut({ data: "none", names: "none" });
    if (this.#segmentsOf(stage) !== before) {
      problems.push("a second recovery changed what the first one had left");
    }
  }

  /** Puts and reads. */
  async #goOn(stage: SimulatedStage): Promise<void> {
    const known = stage.store?.queues().find(({ topic }) => Buffer.byteLength(topic) < 100);
    const { topic, queueId } = known ?? { topic: NEW_TOPIC, queueId: 1 };
    await stage.put({ topic, queueId, tags: "a" });
    await Promise.all([
      stage.put({ topic: NEW_TOPIC, bodyBytes: 700 }),
      stage.putBatch([
        { topic, queueId, bodyBytes: 10 },
        { topic, queueId, bodyBytes: 0 },
      ]),
    ]);
    await stage.readBack(3);
  }

  /** A clean stop leaves what the next open leaves alone. */
  async #reopenTwice(stage: SimulatedStage, problems: string[]): Promise<void> {
    await stage.reopen();
    const before = this.#segmentsOf(stage);
    if (stage.store && !stage.store.recovery.cleanStop) problems.push("a clean stop is none");
    await stage.reopen();
    if (this.#segmentsOf(stage) !== before) {
      problems.push("opening after a clean stop, and closing, changed the files");
    }
  }

  #segmentsOf(stage: SimulatedStage): string {
    return new RawStore(stage.disk, ROOT, stage.resolved).segmentsDigest();
  }

  /** Holds what was found against what had been promised. */
  judge(examined: Examined, view: LedgerView, event: CrashEvent): string[] {
    const { ledger } = this.#context;
    const wrong = [...examined.problems];
    const { logMin } = examined;
    if (logMin > view.mayBeGoneBelow || logMin < view.goneBelow) {
      wrong.push(
        `the log begins at ${logMin}: files below ${view.goneBelow} had been deleted, and none behind ${view.mayBeGoneBelow} were to be`,
      );
    }
    for (const entry of ledger.entries) {
      const { number } = entry.planned;
      const place = examined.found.get(number);
      const isDue = ledger.isDue(view, number, event);
      const difference = examined.mangled.get(number);
      if (!place || difference) {
        const isExpired = entry.place !== undefined && entry.place.offset < logMin;
        if (isDue && !isExpired)
          wrong.push(lost(entry, examined), ...(difference ? [difference] : []));
        continue;
      }
      if (!ledger.mayBeThere(view, number)) {
        wrong.push(`message ${number} is there, which was never put, or was gone before`);
      }
      const isQueued = ledger.isQueued(view, number);
      if (isQueued !== undefined && isQueued === examined.deleted.has(number)) {
        wrong.push(
          `message ${number} ${isQueued ? "was deleted with no call for it" : "is back after the deletion of its topic"}`,
        );
      }
      const told = entry.place;
      if (told && told.offset !== place.offset) {
        wrong.push(`message ${number} is at ${place.offset}, it was told ${told.offset}`);
      }
      for (const name of ["queueOffset", "storeTimestamp", "messageId"] as const) {
        if (told?.[name] === undefined || told[name] === place[name]) continue;
        wrong.push(`message ${number} has ${name} ${place[name]}, it was told ${told[name]}`);
      }
    }
    return wrong;
  }
}

/**
 * What can be seen on the disk and, since a killed process leaves both apart, what of it is durable.
 */
function contentOf(image: SimulatedDisk, event: CrashEvent): string {
  if (event === "cut") return image.digest();
  const durable = image.cutPower(randomFor(), { data: "none", names: "none" });
  return `${image.digest()} ${durable.digest()}`;
}

function lost({ planned, place }: Entry, { onDisk }: Examined): string {
  const where = onDisk.has(planned.number)
    ? "its record is on the disk"
    : "its record is not on the disk";
  return `message ${planned.number} at ${place?.offset} is lost: ${where}`;
}
