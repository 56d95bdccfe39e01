/**
 * What one record costs as a log grows: batches of small messages, window after window.
 *
 * @module
 */

import { MessageStore } from "../../lib/mod.ts";
import { TOPIC } from "./forcelog_subject.ts";
import { type LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import { randomBytes } from "./numbers.ts";

export interface CostInput {
  /** Of a new store, or of one that has all the queues. */
  readonly directory: string;
  readonly bodyBytes: number;
  readonly seed: number;
  /** Batches go to them in turn. */
  readonly queues: number;
  /** Messages of a batch, and producers that await theirs. */
  readonly batch: number;
  readonly callers: number;
  readonly windowRecords: number;
  readonly windows: number;
  readonly end: "close" | "kill";
}

/** Some records, one after the other. */
export interface CostWindow {
  /** Processor time of all threads for one record, in µs. */
  readonly cpuMicros: number;
  /** Time for one record, in µs. */
  readonly wallMicros: number;
}

export interface Cost {
  readonly windows: readonly CostWindow[];
  readonly loopDelayMs: LoopDelay;
  readonly residentBytes: number;
}

export async function measureCost(input: CostInput): Promise<Cost> {
  const { directory, queues, batch, callers, windowRecords, end } = input;
  const monitor = await LoopDelayMonitor.make();
  const store = await MessageStore.open(directory);
  const body = randomBytes(input.bodyBytes, input.seed);
  const messages = Array.from({ length: batch }, () => ({ body }));
  let next = 0;
  const put = async (puts: number): Promise<void> => {
    let left = puts;
    const caller = async (): Promise<void> => {
      while (left-- > 0) {
        await store.putBatch({ topic: TOPIC, queueId: next++ % queues, messages });
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
  };
  // Every queue is there before anything counts.
  await put(queues);
  const windows: CostWindow[] = [];
  const puts = Math.ceil(windowRecords / batch);
  monitor.start();
  for (let i = 0; i < input.windows; i++) {
    const cpuBefore = process.cpuUsage();
    const startedAt = performance.now();
    await put(puts);
    const wallMs = performance.now() - startedAt;
    const { user, system } = process.cpuUsage(cpuBefore);
    windows.push({
      cpuMicros: (user + system) / (puts * batch),
      wallMicros: (wallMs * 1000) / (puts * batch),
    });
  }
  const loopDelayMs = monitor.stop();
  const residentBytes = process.memoryUsage.rss();
  if (end === "close") await store.close();
  return { windows, loopDelayMs, residentBytes };
}
