/**
 * A writer for each queue, readers of all kinds, and the cleaner, at once on one store of tiny files:
 * whatever is deleted meanwhile, an answer is right or says why there is none, the disk holds a bounded
 * number of bytes, and no file stays open.
 *
 * A message's body tells its place, so that any answer can be checked by itself.
 *
 * @module
 */

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MessageStore, type StoredMessage, StoreError, type StoreOptions } from "../../lib/mod.ts";
import { type Random, randomOf } from "../../lib/testing/random.ts";

const KIB = 1024;
const FILE_BYTES = 64 * KIB;
const LOG_BYTES_MAX = 16 * FILE_BYTES;
const UNITS_PER_FILE = 100;
const BODY_BYTES_MAX = 3000;
const TOPICS = ["orders", "payments", "events"] as const;
const QUEUES = 2;
const READERS = 4;
/** Between two runs of the cleaner, and two looks at the disk, in ms. */
const CLEAN_MS = 30;
const LOOK_MS = 20;
/** Between two puts of a writer, on average, in ms: some files of the log a second. */
const WRITE_PAUSE_MS = 15;
const OFFSETS_KEPT = 4096;
/** Files that are deleted at least, however slow the machine is. */
const DELETED_LEAST = 5;

const OPTIONS: StoreOptions = {
  mappedFileSizeCommitLog: FILE_BYTES,
  mappedFileSizeConsumeQueue: UNITS_PER_FILE * 20,
  maxHashSlotNum: 100,
  maxIndexNum: 2000,
  commitLogMaxBytes: LOG_BYTES_MAX,
  deleteCommitLogFilesInterval: 0,
  deleteConsumeQueueFilesInterval: 0,
};

export interface LoadResult {
  readonly puts: number;
  readonly reads: number;
  /** Messages that were read. */
  readonly messages: number;
  /** By status, `STORE_*` code, or what was asked. */
  readonly answers: ReadonlyMap<string, number>;
  readonly deletedLogFiles: number;
  /** The most that lay on disk at once. */
  readonly mostBytes: number;
  readonly mostFiles: number;
  /** Open descriptors of the process: before the store was opened, the most, and after it was closed. */
  readonly descriptors: readonly [before: number, most: number, after: number];
}

/** @throws {Error} telling the first wrong answer. */
export async function retentionLoad(
  directory: string,
  seed: number,
  seconds: number,
  options: StoreOptions = {},
): Promise<LoadResult> {
  return new Load(directory, seed, { ...OPTIONS, ...options }).run(seconds * 1000);
}

class Load {
  readonly #directory: string;
  readonly #seed: number;
  readonly #options: StoreOptions;
  readonly #answers = new Map<string, number>();
  readonly #places: { readonly at: number; readonly body: string }[] = [];
  #store: MessageStore | undefined;
  #isOver = false;
  #puts = 0;
  #reads = 0;
  #messages = 0;
  #mostBytes = 0;
  #mostFiles = 0;
  #mostDescriptors = 0;

  constructor(directory: string, seed: number, options: StoreOptions) {
    this.#directory = directory;
    this.#seed = seed;
    this.#options = options;
  }

  async run(ms: number): Promise<LoadResult> {
    const before = descriptors();
    this.#store = await MessageStore.open(this.#directory, this.#options, {
      onWarning: (text) => {
        throw new Error(`Nobody expected this: ${text}`);
      },
    });
    const store = this.#store;
    const queues = TOPICS.flatMap((topic) =>
      Array.from({ length: QUEUES }, (_, queueId) => ({ topic, queueId })),
    );
    const workers = [
      ...queues.map(({ topic, queueId }, i) => this.#write(topic, queueId, this.#random(i))),
      ...queues.map(({ topic, queueId }) => this.#consume(topic, queueId)),
      ...Array.from({ length: READERS }, (_, i) => this.#read(this.#random(100 + i))),
      this.#clean(),
      this.#watch(),
    ];
    const startedAt = performance.now();
    const timer = setInterval(() => {
      const isLong = performance.now() - startedAt >= ms;
      if (isLong && store.stats().deletedLogFiles >= DELETED_LEAST) this.#isOver = true;
    }, LOOK_MS);
    try {
      await Promise.all(workers);
    } finally {
      this.#isOver = true;
      clearInterval(timer);
      await Promise.allSettled(workers);
      await store.close();
    }
    const { deletedLogFiles } = store.stats();
    await this.#readAll();
    return {
      puts: this.#puts,
      reads: this.#reads,
      messages: this.#messages,
      answers: this.#answers,
      deletedLogFiles,
      mostBytes: this.#mostBytes,
      mostFiles: this.#mostFiles,
      descriptors: [before, this.#mostDescriptors, descriptors()],
    };
  }

  get #open(): MessageStore {
    return this.#store as MessageStore;
  }

  #random(number: number): Random {
    return randomOf(Math.imul(this.#seed, 0x9e3779b1) + number);
  }

  async #write(topic: string, queueId: number, random: Random): Promise<void> {
    for (let offset = 0; !this.#isOver; offset++) {
      const text = bodyAt(topic, queueId, offset);
      const body = Buffer.alloc(Math.max(text.length, random(BODY_BYTES_MAX)), ".");
      body.write(text, "latin1");
      const tags = `t${offset % 3}`;
      const put = await this.#open.put({ topic, queueId, body, tags, keys: `k${offset}` });
      if (put.queueOffset !== offset) {
        throw new Error(`${text} was put as message ${put.queueOffset}`);
      }
      this.#puts++;
      this.#places[this.#puts % OFFSETS_KEPT] = { at: put.physicalOffset, body: text };
      // A log that rolls faster than files are deleted grows for as long as that goes on.
      await sleep(random(2 * WRITE_PAUSE_MS));
    }
  }

  /** In order, from the first to the last; what was deleted before it was read is passed over. */
  async #consume(topic: string, queueId: number): Promise<void> {
    while (!this.#isOver && this.#open.maxOffset(topic, queueId) === 0) await sleep(1);
    let next = 0;
    while (!this.#isOver) {
      const { messages, nextBeginOffset, minOffset, status } = await this.#open.get({
        topic,
        queueId,
        offset: next,
      });
      this.#count(`consume ${status}`);
      for (const message of messages) {
        this.#check(message, topic, queueId, next);
        // One is missing only if it has been deleted.
        if (message.queueOffset > next && this.#open.minOffset(topic, queueId) <= next) {
          throw new Error(`Message ${next} of ${topic}/${queueId} was passed over`);
        }
        next = message.queueOffset + 1;
      }
      if (nextBeginOffset > next && minOffset <= next) {
        throw new Error(
          `${status} leads from ${next} to ${nextBeginOffset}: it begins at ${minOffset}`,
        );
      }
      next = Math.max(next, nextBeginOffset);
      if (messages.length === 0) await sleep(1);
    }
  }

  async #read(random: Random): Promise<void> {
    while (!this.#isOver) {
      const topic = TOPICS[random(TOPICS.length)] as string;
      const queueId = random(QUEUES);
      this.#reads++;
      try {
        await this.#ask(random(5), topic, queueId, random);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        throw new Error(`An undamaged store answers with ${error.code}`, { cause: error });
      }
      if (this.#reads % 16 === 0) await sleep(1);
    }
  }

  async #ask(what: number, topic: string, queueId: number, random: Random): Promise<void> {
    const store = this.#open;
    const { min, max } = {
      min: store.minOffset(topic, queueId),
      max: store.maxOffset(topic, queueId),
    };
    if (what <= 1) {
      const offset = Math.max(0, min - 3) + random(max - Math.max(0, min - 3) + 3);
      const filter = what === 1 ? { filter: `t${random(3)}` } : {};
      const answer = await store.get({ topic, queueId, offset, ...filter });
      this.#count(answer.status);
      for (const message of answer.messages) this.#check(message, topic, queueId, offset);
      if (answer.status === "OFFSET_TOO_SMALL" && offset >= store.minOffset(topic, queueId)) {
        throw new Error(`${offset} is too small for ${topic}/${queueId}, says an answer`);
      }
    } else if (what === 2) {
      const place = this.#places[random(Math.max(1, this.#places.length))];
      // In the pool a put does not wait until it can be read.
      if (!place || place.at >= store.watermarks.dispatched) return;
      const message = await store.lookup(place.at);
      this.#count(message ? "lookup found" : "lookup gone");
      if (!message && place.at >= store.minPhysicalOffset) {
        throw new Error(`The message at ${place.at} is gone before its time`);
      }
      if (message && textOf(message) !== place.body)
        throw new Error(`At ${place.at}: ${textOf(message)}`);
    } else if (what === 3) {
      const key = `k${min + random(Math.max(1, max - min))}`;
      const { messages, unreadable } = await store.query({ topic, key });
      this.#count(messages.length > 0 ? "query found" : "query without");
      if (unreadable.length > 0)
        throw new Error(`The index leads to ${unreadable}, where nothing is`);
      for (const message of messages) {
        this.#check(message, topic, message.queueId, 0);
        if (message.keys[0] !== key) throw new Error(`${key} finds ${message.keys}`);
      }
    } else {
      const timestamp = Date.now() - random(2000);
      const offset = await store.offsetByTime({ topic, queueId, timestamp });
      this.#count("offsetByTime");
      const last = store.maxOffset(topic, queueId);
      if (offset < min || offset > last) {
        throw new Error(`The time leads to ${offset}, not within ${min} and ${last}`);
      }
    }
  }

  #check(message: StoredMessage, topic: string, queueId: number, least: number): void {
    this.#messages++;
    const wanted = bodyAt(topic, queueId, message.queueOffset);
    if (message.queueOffset < least || textOf(message) !== wanted) {
      throw new Error(
        `Message ${message.queueOffset} of ${topic}/${queueId} is ${textOf(message)}`,
      );
    }
  }

  async #clean(): Promise<void> {
    while (!this.#isOver) {
      const { wrote } = this.#open.watermarks;
      await this.#open.clean();
      const left = wrote - this.#open.minPhysicalOffset;
      if (left > LOG_BYTES_MAX + FILE_BYTES) throw new Error(`A run left ${left} bytes of the log`);
      await sleep(CLEAN_MS);
    }
  }

  /** Looks at the disk again and again. */
  async #watch(): Promise<void> {
    while (!this.#isOver) {
      const { bytes, files } = usageOf(this.#directory);
      this.#mostBytes = Math.max(this.#mostBytes, bytes);
      this.#mostFiles = Math.max(this.#mostFiles, files);
      this.#mostDescriptors = Math.max(this.#mostDescriptors, descriptors());
      await sleep(LOOK_MS);
    }
  }

  /** What is left after a clean stop is whole. */
  async #readAll(): Promise<void> {
    const store = await MessageStore.open(this.#directory, this.#options);
    try {
      if (!store.recovery.cleanStop) throw new Error("The store was closed, and was not");
      for (const { topic, queueId, minOffset, maxOffset } of store.queues()) {
        let next = minOffset;
        while (next < maxOffset) {
          const { messages, status } = await store.get({ topic, queueId, offset: next });
          if (messages.length === 0) throw new Error(`${status} at ${next} of ${topic}/${queueId}`);
          for (const message of messages) {
            this.#check(message, topic, queueId, next);
            if (message.queueOffset !== next) throw new Error(`Message ${next} is missing`);
            next++;
          }
        }
      }
    } finally {
      await store.close();
    }
  }

  #count(answer: string): void {
    this.#answers.set(answer, (this.#answers.get(answer) ?? 0) + 1);
  }
}

/**
 * Most bytes that the store may take, queues, index and what is put between two runs of the cleaner
 * included: without it they are more after a few seconds.
 */
export const BYTES_BOUND = 8 * LOG_BYTES_MAX;

function bodyAt(topic: string, queueId: number, offset: number): string {
  return `${topic}/${queueId}/${offset};`;
}

function textOf({ body }: StoredMessage): string {
  return body.toString("latin1", 0, body.indexOf(";") + 1);
}

function usageOf(directory: string): { bytes: number; files: number } {
  let bytes = 0;
  let files = 0;
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    files++;
    // It may be gone by now.
    bytes += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  }
  return { bytes, files };
}

function descriptors(): number {
  return process.platform === "linux" ? readdirSync("/proc/self/fd").length : 0;
}
