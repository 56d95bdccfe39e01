/**
 * Kills processes that put messages, and knows what has to be there afterwards.
 *
 * A {@linkcode Ledger} stands for one store's directory over all processes that had it open: it
 * keeps what they acknowledged and what was found after each kill, and compares.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { MessageStore, type StoredMessage, type StoreOptions } from "../../lib/mod.ts";
import { type Identity, identityOf, nameOf, type Plan, type Step, stepOf } from "./kill_plan.ts";

export interface StoreSpec {
  readonly dir: string;
  readonly options: StoreOptions;
  readonly plan: Plan;
  /** Number of the process among those that had this store open. */
  readonly generation: number;
  /** The process kills itself at its n-th call that changes a file or a folder. */
  readonly dies?: {
    readonly atChange: number;
    /** And if that is a write, so many bytes of it are still done. */
    readonly tornBytes?: number;
    /** Only changes of what lies there count: `/commitlog/`. */
    readonly under?: string;
  };
  /** It acknowledges before the put has resolved. */
  readonly lies?: boolean;
}

export interface ChildSpec {
  readonly stores: readonly StoreSpec[];
}

/** Where a put says that it stored its message. */
export interface Place {
  readonly queueOffset: number;
  readonly physicalOffset: number;
  readonly size: number;
  readonly storeTimestamp: number;
}

export type Report =
  | { readonly is: "opening" | "done"; readonly store: number }
  | { readonly is: "open"; readonly store: number; readonly end: number }
  | { readonly is: "failed"; readonly store: number; readonly error: string }
  | ({ readonly is: "acknowledged"; readonly store: number } & Acknowledged);

export interface Acknowledged {
  readonly generation: number;
  readonly lane: number;
  readonly step: number;
  readonly at?: Place | undefined;
}

const CHILD = join(import.meta.dirname, "kill_child.ts");

/** A running child, with what it has told so far. */
export class Child {
  readonly reports: Report[] = [];
  /** Resolves once it is gone and all that it told has been read. */
  readonly gone: Promise<void>;
  readonly #process: ChildProcess;
  #wake: () => void = () => undefined;
  #ended = false;

  constructor(spec: ChildSpec) {
    this.#process = spawn(process.execPath, ["--import=tsx", CHILD, JSON.stringify(spec)], {
      stdio: ["ignore", "ignore", "inherit", "pipe"],
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    const lines = createInterface({ input: this.#process.stdio[3] as Readable });
    lines.on("line", (line) => {
      this.reports.push(JSON.parse(line) as Report);
      this.#wake();
    });
    const exited = new Promise((resolve) => this.#process.once("exit", resolve));
    const read = new Promise((resolve) => lines.once("close", resolve));
    this.gone = Promise.all([exited, read]).then(() => {
      this.#ended = true;
      this.#wake();
    });
  }

  /** Waits until it is so, until the child is gone, or for so many ms. */
  async until(condition: (reports: readonly Report[]) => boolean, ms: number): Promise<void> {
    const deadline = performance.now() + ms;
    while (!this.#ended && !condition(this.reports)) {
      const left = deadline - performance.now();
      if (left <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** SIGKILL; resolves once it is gone. */
  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.gone;
  }

  count(is: Report["is"], store?: number): number {
    return this.reports.filter(
      (report) => report.is === is && (store === undefined || report.store === store),
    ).length;
  }

  /** Why a store of the child gave up, if one did. */
  get failure(): string | undefined {
    for (const report of this.reports) if (report.is === "failed") return report.error;
    return undefined;
  }
}

/** A message as it was found. */
interface Found {
  readonly identity: Identity;
  readonly place: Place;
  readonly topic: string;
  readonly queueId: number;
  /** It enters no queue. */
  readonly queueless: boolean;
}

/** What the acknowledgements of a mode are worth. */
export type Keeps = "all" | "all but the newest";

export class Ledger {
  readonly dir: string;
  readonly options: StoreOptions;
  readonly plan: Plan;
  readonly keeps: Keeps;
  /** How often something was found after a kill. */
  kills = 0;
  acknowledgedMessages = 0;
  lostMessages = 0;
  #generation = -1;
  #acknowledged: Acknowledged[] = [];
  /** In the order of the log, as of the last look. */
  #found: readonly Found[] = [];

  constructor(dir: string, options: StoreOptions, plan: Plan, keeps: Keeps) {
    this.dir = dir;
    this.options = options;
    this.plan = plan;
    this.keeps = keeps;
  }

  /** Messages in the log. */
  get messages(): number {
    return this.#found.length;
  }

  /** Files of the log. */
  get logFiles(): number {
    return readdirSync(join(this.dir, "commitlog")).length;
  }

  /** What the next process gets. */
  next(more: Pick<StoreSpec, "dies" | "lies"> = {}): StoreSpec {
    this.#generation++;
    const { dir, options, plan } = this;
    return { dir, options, plan, generation: this.#generation, ...more };
  }

  /** Takes down what a child that is gone acknowledged as its store number `index`. */
  note(child: Child, index: number): void {
    this.kills++;
    for (const report of child.reports) {
      if (report.is !== "acknowledged" || report.store !== index) continue;
      const { generation, lane, step, at } = report;
      this.#acknowledged.push({ generation, lane, step, at });
      this.acknowledgedMessages += this.#stepOf(report).items.length;
    }
  }

  /** Looks at the directory as recovery would leave it, without changing it, and compares. */
  async look(dir = this.dir): Promise<string[]> {
    const store = await MessageStore.open(dir, this.options, {
      readOnly: true,
      onWarning: () => undefined,
    });
    try {
      return await this.compare(store);
    } finally {
      await store.close();
    }
  }

  /**
   * Compares an open store with what has to be in it.
   *
   * @returns What is wrong, at most a dozen of it.
   */
  async compare(store: MessageStore): Promise<string[]> {
    const wrong: string[] = [];
    const blame = (text: string): void => {
      if (wrong.length < 12) wrong.push(text);
    };
    const found = await this.#readLog(store, blame);
    this.#compareWithLastLook(found, blame);
    this.#compareWithPlan(found, blame);
    this.#compareWithAcknowledged(found, store.watermarks.wrote, blame);
    await this.#compareQueues(found, store, blame);
    if (wrong.length === 0) this.#found = found;
    return wrong;
  }

  #stepOf({ generation, lane, step }: Omit<Identity, "item">): Step {
    return stepOf(this.plan, { generation, lane, step });
  }

  /** Every record of the log, each byte for byte one that was put. */
  async #readLog(store: MessageStore, blame: (text: string) => void): Promise<Found[]> {
    const found: Found[] = [];
    for await (const entry of store.records()) {
      if (entry.kind === "blank") continue;
      if (entry.kind !== "record") {
        blame(`${entry.kind} in the log at ${entry.offset}`);
        continue;
      }
      const { message } = entry;
      const identity = identityOf(message.body);
      const put = identity && this.#stepOf(identity);
      const item = put?.items[identity?.item ?? 0];
      if (!identity || !put || !item) {
        blame(`the message at ${entry.offset} was never put`);
        continue;
      }
      const same =
        item.body.equals(message.body) &&
        item.tags === message.tags &&
        put.topic === message.topic &&
        put.queueId === message.queueId;
      if (!same) blame(`message ${nameOf(identity)} at ${entry.offset} is not what was put`);
      found.push({
        identity,
        place: placeOf(message),
        topic: message.topic,
        queueId: message.queueId,
        queueless: put.kind === "prepared",
      });
    }
    return found;
  }

  /** What was there after the last kill is there for good, at its place. */
  #compareWithLastLook(found: readonly Found[], blame: (text: string) => void): void {
    for (const [i, before] of this.#found.entries()) {
      const now = found[i];
      if (now && sameMessage(before, now)) continue;
      blame(
        `message ${nameOf(before.identity)} was at ${before.place.physicalOffset} after an earlier kill; now ${now ? `${nameOf(now.identity)} is at ${now.place.physicalOffset}` : "the log ends before it"}`,
      );
      return;
    }
  }

  /** Each lane's puts in their order, without a gap, none twice, and none that was not yet due. */
  #compareWithPlan(found: readonly Found[], blame: (text: string) => void): void {
    const next = new Map<string, { step: number; item: number }>();
    const acknowledged = new Map<string, number>();
    for (const { generation, lane } of this.#acknowledged) {
      const key = `${generation}.${lane}`;
      acknowledged.set(key, (acknowledged.get(key) ?? 0) + 1);
    }
    let generation = 0;
    for (const { identity, place } of found) {
      const key = `${identity.generation}.${identity.lane}`;
      const due = next.get(key) ?? { step: 0, item: 0 };
      if (identity.step !== due.step || identity.item !== due.item) {
        blame(
          `lane ${key}: message ${nameOf(identity)} at ${place.physicalOffset}, but ${due.step}.${due.item} is due`,
        );
      }
      if (identity.generation < generation) blame(`${nameOf(identity)} is in the wrong order`);
      generation = identity.generation;
      const last = identity.item + 1 === this.#stepOf(identity).items.length;
      next.set(
        key,
        last
          ? { step: identity.step + 1, item: 0 }
          : { step: identity.step, item: identity.item + 1 },
      );
      if (identity.step >= (acknowledged.get(key) ?? 0) + this.plan.window) {
        blame(`message ${nameOf(identity)} is there, but it can't have been put yet`);
      }
    }
  }

  /** What was acknowledged is there, where it was said to be; with the pool, up to some point. */
  #compareWithAcknowledged(
    found: readonly Found[],
    end: number,
    blame: (text: string) => void,
  ): void {
    const byName = new Map(found.map((one) => [nameOf(one.identity), one]));
    const lost: Acknowledged[] = [];
    for (const acknowledged of this.#acknowledged) {
      const { at } = acknowledged;
      const put = this.#stepOf(acknowledged);
      const isNew = acknowledged.generation === this.#generation;
      if (this.keeps === "all but the newest" && isNew && at && at.physicalOffset >= end) {
        lost.push(acknowledged);
        continue;
      }
      put.items.forEach((_, item) => {
        const { generation, lane, step } = acknowledged;
        const name = nameOf({ generation, lane, step, item });
        const one = byName.get(name);
        if (!one) {
          blame(
            `message ${name} was acknowledged${at ? ` at ${at.physicalOffset}` : ""} and is lost`,
          );
        } else if (at && item === 0) {
          const { place } = one;
          const moved =
            place.physicalOffset !== at.physicalOffset ||
            place.queueOffset !== at.queueOffset ||
            place.storeTimestamp !== at.storeTimestamp;
          if (moved) {
            blame(
              `message ${name} was acknowledged with ${JSON.stringify(at)} and has ${JSON.stringify(place)}`,
            );
          }
        }
      });
    }
    for (const one of lost) this.lostMessages += this.#stepOf(one).items.length;
    const gone = new Set(lost);
    this.#acknowledged = this.#acknowledged.filter((one) => !gone.has(one));
  }

  /** Every queue has exactly the log's messages of it, in its order, from 0 on. */
  async #compareQueues(
    found: readonly Found[],
    store: MessageStore,
    blame: (text: string) => void,
  ): Promise<void> {
    const due = new Map<string, Found[]>();
    for (const one of found) {
      if (one.queueless) continue;
      const key = `${one.topic}/${one.queueId}`;
      const queue = due.get(key);
      if (queue) queue.push(one);
      else due.set(key, [one]);
    }
    for (const { topic, queueId, minOffset, maxOffset } of store.queues()) {
      const key = `${topic}/${queueId}`;
      const messages = due.get(key) ?? [];
      due.delete(key);
      if (minOffset !== 0 || maxOffset !== messages.length) {
        blame(`queue ${key} is ${minOffset}..${maxOffset}, the log has ${messages.length}`);
        continue;
      }
      for await (const [offset, message] of readQueue(store, topic, queueId)) {
        const wanted = messages[offset] as Found;
        const identity = identityOf(message.body);
        const same =
          identity !== undefined &&
          message.queueOffset === offset &&
          wanted.place.queueOffset === offset &&
          sameMessage(wanted, { ...wanted, identity, place: placeOf(message) });
        if (!same) {
          blame(
            `queue ${key} has ${identity && nameOf(identity)} (${message.physicalOffset}) as ${offset}; ${nameOf(wanted.identity)} (${wanted.place.physicalOffset}) is due`,
          );
          break;
        }
      }
    }
    for (const [key, messages] of due) blame(`queue ${key} with ${messages.length} is lost`);
  }
}

/** The messages of a queue with the queue offset that each was read at. */
async function* readQueue(
  store: MessageStore,
  topic: string,
  queueId: number,
): AsyncGenerator<[number, StoredMessage]> {
  let offset = 0;
  while (offset < store.maxOffset(topic, queueId)) {
    const { status, messages, nextBeginOffset } = await store.get({ topic, queueId, offset });
    if (nextBeginOffset <= offset || messages.length !== nextBeginOffset - offset) {
      throw new Error(`queue ${topic}/${queueId}: ${status} at ${offset}, next ${nextBeginOffset}`);
    }
    for (const message of messages) yield [offset++, message];
  }
}

function placeOf(message: StoredMessage): Place {
  const { queueOffset, physicalOffset, size, storeTimestamp } = message;
  return { queueOffset, physicalOffset, size, storeTimestamp };
}

function sameMessage(a: Found, b: Found): boolean {
  return (
    nameOf(a.identity) === nameOf(b.identity) &&
    a.place.physicalOffset === b.place.physicalOffset &&
    a.place.queueOffset === b.place.queueOffset &&
    a.place.storeTimestamp === b.place.storeTimestamp &&
    a.place.size === b.place.size
  );
}
