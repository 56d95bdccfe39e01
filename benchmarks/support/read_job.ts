/**
 * Reading whole queues, 32 messages at a time, as the benchmark of the Java store does.
 *
 * @module
 */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { MessageStore, NodeFileSystem, type StoredMessage } from "../../lib/mod.ts";
import { QUEUES, TOPIC } from "./forcelog_subject.ts";
import { type LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import { Latencies, type Percentiles, randomBytes } from "./numbers.ts";

/** Messages of one `get`. */
export const READ_BATCH = 32;
/** Log bytes between two looks at what the page cache holds. */
const SAMPLE_BYTES = 1024 * 1024;

/**
 * `tail`: messages that were put just before. `cached`: queues from their start, whose bytes are in
 * the page cache. `consume`: the same through the iterator, message by message.
 */
export type ReadKind = "tail" | "cached" | "consume";

export interface ReadInput {
  readonly kind: ReadKind;
  /** Empty. */
  readonly directory: string;
  readonly bodyBytes: number;
  readonly seed: number;
  /** Messages in the log before it is read; for the tail: that are put and read. */
  readonly messages: number;
  /** All is read so often to warm up, and so often again. The tail is read once each. */
  readonly passes: number;
}

export interface ReadMeasured {
  readonly messages: number;
  readonly messagesPerSecond: number;
  /** Of a `get`; of a message with the iterator. In ms. */
  readonly latencyMs: Percentiles;
  readonly loopDelayMs: LoopDelay;
  /** Of the last bytes of all bodies. */
  readonly checksum: number;
}

export async function measureReads(input: ReadInput): Promise<ReadMeasured> {
  const monitor = await LoopDelayMonitor.make();
  const store = await MessageStore.open(input.directory);
  const reader = new Reader(store, monitor);
  const body = randomBytes(input.bodyBytes, input.seed);
  const { kind, messages, passes } = input;
  try {
    if (kind !== "tail") await fillQueues(store, body, messages);
    const read = (): Promise<ReadMeasured> => {
      if (kind === "tail") return reader.tail(body, messages);
      return kind === "cached" ? reader.queues(passes) : reader.iterators(passes);
    };
    await read();
    return await read();
  } finally {
    await store.close();
  }
}

export interface ColdInput {
  readonly directory: string;
  readonly fileBytes: number;
}

export interface ColdMeasured extends ReadMeasured {
  /** Of the log's pages that were looked at, how many were still in the page cache: 0 to 1. */
  readonly cachedShare: number;
}

/** Opens a store, drops its pages from the page cache, and reads all of it once. */
export async function measureColdRead({ directory, fileBytes }: ColdInput): Promise<ColdMeasured> {
  const monitor = await LoopDelayMonitor.make();
  const store = await MessageStore.open(directory, { mappedFileSizeCommitLog: fileBytes });
  try {
    const cachedShare = await dropPages(directory, store.watermarks.wrote);
    return { ...(await new Reader(store, monitor).queues(1)), cachedShare };
  } finally {
    await store.close();
  }
}

/**
 * Writes all files below a folder to the device and drops their pages from the page cache.
 *
 * @param logBytes Of the commit log that are looked at afterwards.
 * @returns The share of the pages that were looked at that are still cached.
 */
export async function dropPages(directory: string, logBytes: number): Promise<number> {
  const fileSystem = new NodeFileSystem();
  const page = Buffer.alloc(1);
  let looked = 0;
  let cached = 0;
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name === "lock") continue;
    const handle = await fileSystem.open(join(entry.parentPath, entry.name), "write");
    try {
      await handle.fdatasync();
      await handle.advise(0, 0, "dontneed");
      if (!entry.parentPath.endsWith("commitlog")) continue;
      const { size } = await handle.stat();
      const end = Math.min(size, logBytes - Number(entry.name));
      for (let at = 0; at < end; at += SAMPLE_BYTES, looked++) {
        if (handle.preadIfCached(page, at) > 0) cached++;
      }
    } finally {
      await handle.close();
    }
  }
  return looked === 0 ? 0 : cached / looked;
}

async function fillQueues(store: MessageStore, body: Buffer, messages: number): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: QUEUES * READ_BATCH }, async () => {
      while (next < messages) await store.put({ topic: TOPIC, queueId: next++ % QUEUES, body });
    }),
  );
  await store.flush();
}

class Reader {
  readonly #store: MessageStore;
  readonly #monitor: LoopDelayMonitor;
  #latencies = new Latencies();
  #messages = 0;
  #checksum = 0;

  constructor(store: MessageStore, monitor: LoopDelayMonitor) {
    this.#store = store;
    this.#monitor = monitor;
  }

  /** All queues from their start, so many times. */
  queues(passes: number): Promise<ReadMeasured> {
    return this.#measure(passes, async (queueId) => {
      const end = this.#store.maxOffset(TOPIC, queueId);
      for (let offset = this.#store.minOffset(TOPIC, queueId); offset < end; ) {
        offset = await this.#get(queueId, offset);
      }
    });
  }

  /** The same, through the iterator. */
  iterators(passes: number): Promise<ReadMeasured> {
    return this.#measure(passes, async (queueId) => {
      let left = this.#store.maxOffset(TOPIC, queueId) - this.#store.minOffset(TOPIC, queueId);
      if (left === 0) return;
      let startedAt = performance.now();
      for await (const message of this.#store.consume({ topic: TOPIC, queueId })) {
        this.#read(message);
        const now = performance.now();
        this.#latencies.add(now - startedAt);
        startedAt = now;
        if (--left === 0) break;
      }
    });
  }

  /** Puts a batch to each queue and reads them; only the reads count. */
  async tail(body: Buffer, messages: number): Promise<ReadMeasured> {
    const batch = Array.from({ length: READ_BATCH }, () => ({ body }));
    this.#start();
    let tookMs = 0;
    for (let left = messages; left > 0; left -= QUEUES * READ_BATCH) {
      const places = await Promise.all(
        Array.from({ length: QUEUES }, (_, queueId) =>
          this.#store.putBatch({ topic: TOPIC, queueId, messages: batch }),
        ),
      );
      const startedAt = performance.now();
      for (const { queueId, queueOffset } of places) await this.#get(queueId, queueOffset);
      tookMs += performance.now() - startedAt;
    }
    return this.#result(tookMs);
  }

  async #get(queueId: number, offset: number): Promise<number> {
    const startedAt = performance.now();
    const request = { topic: TOPIC, queueId, offset, maxMessages: READ_BATCH };
    const { status, messages, nextBeginOffset } = await this.#store.get(request);
    if (status !== "FOUND") throw new Error(`Queue ${queueId} answers ${status} at ${offset}`);
    for (const message of messages) this.#read(message);
    this.#latencies.add(performance.now() - startedAt);
    return nextBeginOffset;
  }

  /** Touches the body, as somebody would for whom it is. */
  #read({ body }: StoredMessage): void {
    this.#messages++;
    this.#checksum = (this.#checksum + (body[body.length - 1] ?? 0)) >>> 0;
  }

  async #measure(
    passes: number,
    readQueue: (queueId: number) => Promise<void>,
  ): Promise<ReadMeasured> {
    this.#start();
    const startedAt = performance.now();
    for (let pass = 0; pass < passes; pass++) {
      for (let queueId = 0; queueId < QUEUES; queueId++) await readQueue(queueId);
    }
    return this.#result(performance.now() - startedAt);
  }

  #start(): void {
    this.#messages = 0;
    this.#checksum = 0;
    this.#latencies = new Latencies();
    this.#monitor.start();
  }

  #result(tookMs: number): ReadMeasured {
    return {
      messages: this.#messages,
      messagesPerSecond: (this.#messages * 1000) / tookMs,
      latencyMs: this.#latencies.percentiles(),
      loopDelayMs: this.#monitor.stop(),
      checksum: this.#checksum,
    };
  }
}
