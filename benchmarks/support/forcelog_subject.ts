/**
 * Our store as something to put to, with default options but for the mode.
 *
 * @module
 */

import { type BatchItem, MessageStore, type PutResult } from "../../lib/mod.ts";
import { MODE_OPTIONS, type Mode } from "./modes.ts";
import type { PutCounters, PutSubject } from "./subject.ts";

/** As in the benchmark of the Java store, so that records have the same size. */
export const TOPIC = "BenchmarkTest";
export const QUEUES = 8;

export class ForcelogSubject implements PutSubject<PutResult> {
  readonly #directory: string;
  readonly #mode: Mode;
  readonly #store: MessageStore;
  /** A producer's batch is made once: what it holds changes, not its members. */
  readonly #batches = new WeakMap<readonly Buffer[], readonly BatchItem[]>();

  private constructor(directory: string, mode: Mode, store: MessageStore) {
    this.#directory = directory;
    this.#mode = mode;
    this.#store = store;
  }

  static async open(directory: string, mode: Mode): Promise<ForcelogSubject> {
    const store = await MessageStore.open(directory, MODE_OPTIONS[mode]);
    return new ForcelogSubject(directory, mode, store);
  }

  put(queueId: number, body: Buffer): Promise<PutResult> {
    return this.#store.put({ topic: TOPIC, queueId, body });
  }

  putBatch(queueId: number, bodies: readonly Buffer[]): Promise<PutResult> {
    let messages = this.#batches.get(bodies);
    if (!messages) {
      messages = bodies.map((body) => ({ body }));
      this.#batches.set(bodies, messages);
    }
    return this.#store.putBatch({ topic: TOPIC, queueId, messages });
  }

  offsetOf(result: PutResult): number {
    return result.physicalOffset;
  }

  /** No put may be under way. @throws {Error} if one resolved before its promise was kept. */
  counters(): PutCounters {
    const { forces, commits } = this.#store.stats();
    const { wrote, committed, flushed } = this.#store.watermarks;
    if (this.#mode === "SYNC_FLUSH" && flushed < wrote) throw new Error("A put was not forced");
    if (this.#mode === "ASYNC_FLUSH" && committed < wrote) {
      throw new Error("A put was not committed");
    }
    return { forces, commits, bytes: wrote };
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async check(messages: number, last: { offset: number; body: Buffer }): Promise<void> {
    const store = await MessageStore.open(this.#directory, MODE_OPTIONS[this.#mode]);
    try {
      let found = 0;
      for (let queueId = 0; queueId < QUEUES; queueId++) {
        found += store.maxOffset(TOPIC, queueId) - store.minOffset(TOPIC, queueId);
      }
      if (found !== messages) {
        throw new Error(`${messages} messages were acknowledged, ${found} are there`);
      }
      const message = await store.lookup(last.offset);
      if (!message || !last.body.equals(message.body)) {
        throw new Error("The last message is not the one that was put");
      }
    } finally {
      await store.close();
    }
  }
}
