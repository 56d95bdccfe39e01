/**
 * Stores that are filled, opened, and left alone.
 *
 * @module
 */

import { setTimeout as sleep } from "node:timers/promises";
import { MessageStore, type StoreOptions } from "../../lib/mod.ts";
import { QUEUES, TOPIC } from "./forcelog_subject.ts";
import { type LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import { randomBytes } from "./numbers.ts";

/** Puts under way while a store is filled. */
const FILLERS = 256;
/** No round of the queue flusher makes the checkpoint newer by itself. */
const NEVER_MS = 2 ** 31 - 1;

export interface FillInput {
  readonly directory: string;
  readonly bodyBytes: number;
  readonly seed: number;
  /** Until the log has so many bytes, one message after the other over the queues. */
  readonly logBytes: number;
  /** So many bytes before the end the queues and the checkpoint are made durable; else never. */
  readonly checkpointBytesBefore?: number;
  readonly fileBytes: number;
  readonly end: "close" | "kill";
}

export interface Filled {
  readonly records: number;
  readonly logBytes: number;
  readonly seconds: number;
  readonly closeMs: number;
}

/** Fills a store with ASYNC_FLUSH. Its log is on the device afterwards, closed or not. */
export async function fill(input: FillInput): Promise<Filled> {
  const { directory, bodyBytes, seed, logBytes, fileBytes, end } = input;
  const startedAt = performance.now();
  const store = await MessageStore.open(directory, {
    mappedFileSizeCommitLog: fileBytes,
    flushConsumeQueueThoroughInterval: NEVER_MS,
  });
  const body = randomBytes(bodyBytes, seed);
  let records = 0;
  const fillTo = (bytes: number): Promise<unknown> =>
    Promise.all(
      Array.from({ length: FILLERS }, async () => {
        while (store.watermarks.wrote < bytes) {
          await store.put({ topic: TOPIC, queueId: records++ % QUEUES, body });
        }
      }),
    );
  if (input.checkpointBytesBefore !== undefined) {
    await fillTo(logBytes - input.checkpointBytesBefore);
    await store.checkpoint();
  }
  await fillTo(logBytes);
  await store.flush();
  const { wrote } = store.watermarks;
  const closedAt = performance.now();
  if (end === "close") await store.close();
  return {
    records,
    logBytes: wrote,
    seconds: (closedAt - startedAt) / 1000,
    closeMs: performance.now() - closedAt,
  };
}

export interface OpenInput {
  readonly directory: string;
  readonly options: StoreOptions;
  readonly end: "close" | "kill";
}

export interface Opened {
  readonly openMs: number;
  readonly closeMs: number;
  readonly loopDelayMs: LoopDelay;
  /** Most memory that the process had, in bytes. */
  readonly peakBytes: number;
  readonly cleanStop: boolean;
  readonly scanStart: string;
  readonly scannedRecords: number;
  /** In all queues. */
  readonly messages: number;
}

export async function measureOpen({ directory, options, end }: OpenInput): Promise<Opened> {
  const monitor = await LoopDelayMonitor.make();
  monitor.start();
  const startedAt = performance.now();
  const store = await MessageStore.open(directory, options, { onWarning: () => undefined });
  const openMs = performance.now() - startedAt;
  const loopDelayMs = monitor.stop();
  const { cleanStop, scanStart, scannedRecords } = store.recovery;
  const messages = store
    .queues()
    .reduce((sum, { minOffset, maxOffset }) => sum + maxOffset - minOffset, 0);
  const closedAt = performance.now();
  if (end === "close") await store.close();
  return {
    openMs,
    closeMs: performance.now() - closedAt,
    loopDelayMs,
    peakBytes: process.resourceUsage().maxRSS * 1024,
    cleanStop,
    scanStart: scanStart.why,
    scannedRecords,
    messages,
  };
}

export interface IdleInput {
  /** Without one: bare Node.js. */
  readonly directory?: string;
}

export interface Idle {
  readonly residentBytes: number;
  readonly heapBytes: number;
  readonly openMs: number;
}

/** For the services of a store to come to rest, in ms. */
const REST_MS = 300;

/** Memory of a process that has a store open and does nothing. */
export async function measureIdle({ directory }: IdleInput): Promise<Idle> {
  const startedAt = performance.now();
  const store = directory === undefined ? undefined : await MessageStore.open(directory);
  const openMs = performance.now() - startedAt;
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await sleep(REST_MS / 3);
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  await store?.close();
  return { residentBytes: rss, heapBytes: heapUsed + external, openMs };
}
