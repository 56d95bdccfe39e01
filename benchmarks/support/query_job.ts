/**
 * A store is filled with messages that have a key each, with or without an index of them, and then
 * asked for some by key.
 *
 * @module
 */

import { MessageStore } from "../../lib/mod.ts";
import { QUEUES, TOPIC } from "./forcelog_subject.ts";
import { type LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import { Latencies, type Percentiles, randomBytes, randomOf } from "./numbers.ts";

/** Puts under way. */
const CALLERS = 64;

export interface QueryInput {
  /** It must be empty. */
  readonly directory: string;
  readonly indexed: boolean;
  readonly bodyBytes: number;
  /** Messages, and keys. */
  readonly keys: number;
  readonly queries: number;
  readonly seed: number;
}

export interface QueryMeasured {
  readonly messagesPerSecond: number;
  /** While messages are put. */
  readonly loopDelayMs: LoopDelay;
  /** Of a query whose files are in the page cache; without an index there is none. */
  readonly queryMs: Percentiles | undefined;
}

/** @throws {Error} if a key is not found. */
export async function measureQueries(input: QueryInput): Promise<QueryMeasured> {
  const { directory, indexed, bodyBytes, keys, queries, seed } = input;
  const monitor = await LoopDelayMonitor.make();
  const body = randomBytes(bodyBytes, seed);
  const store = await MessageStore.open(directory, { messageIndexEnable: indexed });
  try {
    let next = 0;
    const fillTo = (end: number): Promise<unknown> =>
      Promise.all(
        Array.from({ length: CALLERS }, async () => {
          while (next < end) {
            const uniqKey = keyOf(next);
            await store.put({ topic: TOPIC, queueId: next++ % QUEUES, body, uniqKey });
          }
        }),
      );
    const warmUp = Math.floor(keys / 10);
    await fillTo(warmUp);
    monitor.start();
    const startedAt = performance.now();
    await fillTo(keys);
    const seconds = (performance.now() - startedAt) / 1000;
    const loopDelayMs = monitor.stop();
    await store.checkpoint();
    const random = randomOf(seed);
    const latencies = new Latencies();
    for (let i = indexed ? -queries : queries; i < queries; i++) {
      const key = keyOf(random(keys));
      const askedAt = performance.now();
      const { messages } = await store.query({ topic: TOPIC, key });
      if (i >= 0) latencies.add(performance.now() - askedAt);
      if (messages.length !== 1) throw new Error(`${messages.length} messages have key ${key}`);
    }
    return {
      messagesPerSecond: (keys - warmUp) / seconds,
      loopDelayMs,
      queryMs: indexed ? latencies.percentiles() : undefined,
    };
  } finally {
    await store.close();
  }
}

/** As long as those that RocketMQ's clients make. */
function keyOf(number: number): string {
  return `C0A8010A1F4018B4AAC25ED7${number.toString(16).toUpperCase().padStart(8, "0")}`;
}
