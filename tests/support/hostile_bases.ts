/**
 * Stores that are damaged afterwards: those that RocketMQ wrote, and some of our own in every mode.
 *
 * @module
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Message, MessageStore, type StoreOptions } from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { goldenNames, goldenRecipe, unpackGolden } from "./golden.ts";
import { ImageFileSystem } from "./image_file_system.ts";
import { StoreImage } from "./store_image.ts";
import { type Survey, surveyOf } from "./store_mutator.ts";

export interface Base {
  readonly name: string;
  /** Never changed: to be forked. */
  readonly image: StoreImage;
  readonly options: StoreOptions;
  readonly survey: Survey;
}

/** Names of all bases: the same list on every machine. */
export function baseNames(): readonly string[] {
  names ??= [...Object.keys(OWN), ...goldenNames().map((name) => `golden:${name}`)];
  return names;
}

let names: readonly string[] | undefined;

/** These take several times as long as the others. */
const LARGE =
  /deep|queue-rolled|queues-absent|checkpoint-absent|crash-(?:a?sync|queues|pool)|v498|v551|roll-boundaries/;

/** Names to draw from: a large base is there once. */
export function basesByCost(): readonly string[] {
  byCost ??= baseNames().flatMap((name) => (LARGE.test(name) ? [name] : [name, name, name]));
  return byCost;
}

let byCost: readonly string[] | undefined;

const made = new Map<string, Promise<Base>>();

/** Makes or unpacks a base, once. */
export function baseOf(name: string): Promise<Base> {
  let base = made.get(name);
  if (!base) {
    base = name.startsWith("golden:") ? golden(name) : own(name);
    made.set(name, base);
  }
  return base;
}

async function golden(name: string): Promise<Base> {
  const dir = mkdtempSync(join(tmpdir(), "forcelog-golden-"));
  try {
    const short = name.slice("golden:".length);
    unpackGolden(short, dir);
    return baseWith(name, StoreImage.load(dir), goldenRecipe(short).config as StoreOptions);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

function baseWith(name: string, image: StoreImage, options: StoreOptions): Base {
  const { mappedFileSizeCommitLog = 0 } = options;
  return { name, image, options, survey: surveyOf(image, mappedFileSizeCommitLog) };
}

/** What is put into a store, and how it ends. */
interface Plan {
  readonly options: StoreOptions;
  readonly fill: (store: MessageStore) => Promise<void>;
  /** The store is left as a killed process leaves it. */
  readonly killed?: true;
}

const TINY_FILES: StoreOptions = {
  mappedFileSizeCommitLog: 4096,
  mappedFileSizeConsumeQueue: 400,
  maxHashSlotNum: 100,
  maxIndexNum: 60,
  maxMessageSize: 3000,
};

const EXTENDED: StoreOptions = {
  ...TINY_FILES,
  enableConsumeQueueExt: true,
  mappedFileSizeConsumeQueueExt: 210,
  mapperFileSizeBatchConsumeQueue: 460,
};

const OWN: Readonly<Record<string, Plan>> = {
  empty: { options: TINY_FILES, fill: async () => undefined },
  one: { options: TINY_FILES, fill: (store) => putMixed(store, 1) },
  sync: { options: { ...TINY_FILES, flushDiskType: "SYNC_FLUSH" }, fill: (s) => putMixed(s, 60) },
  async: { options: TINY_FILES, fill: (store) => putMixed(store, 60) },
  pool: {
    options: { ...TINY_FILES, transientStorePoolEnable: true },
    fill: (store) => putMixed(store, 40),
  },
  batches: { options: TINY_FILES, fill: (store) => putBatches(store, 12) },
  crc: { options: { ...TINY_FILES, enabledAppendPropCRC: true }, fill: (s) => putMixed(s, 40) },
  "killed-sync": {
    options: { ...TINY_FILES, flushDiskType: "SYNC_FLUSH" },
    fill: async (store) => {
      await putMixed(store, 30);
      await store.checkpoint();
      await putMixed(store, 20);
    },
    killed: true,
  },
  "killed-early": { options: TINY_FILES, fill: (store) => putMixed(store, 30), killed: true },
  light: {
    options: { ...TINY_FILES, enableLmq: true, enableMultiDispatch: true },
    fill: putLight,
  },
  extensions: { options: EXTENDED, fill: (store) => putExtended(store, 60) },
  "killed-extensions": {
    options: EXTENDED,
    fill: async (store) => {
      await putExtended(store, 40);
      await store.checkpoint();
      await putExtended(store, 20);
    },
    killed: true,
  },
  /** Units of many pages in one file. */
  deep: {
    options: {
      mappedFileSizeCommitLog: 131072,
      mappedFileSizeConsumeQueue: 20000,
      maxHashSlotNum: 100,
      maxIndexNum: 2000,
      maxMessageSize: 1000,
    },
    fill: (store) => putSmall(store, 900),
  },
  "killed-deep": {
    options: {
      mappedFileSizeCommitLog: 65536,
      mappedFileSizeConsumeQueue: 8000,
      maxHashSlotNum: 100,
      maxIndexNum: 2000,
      maxMessageSize: 1000,
    },
    fill: async (store) => {
      await putSmall(store, 500);
      await store.checkpoint();
      await putSmall(store, 200);
    },
    killed: true,
  },
};

async function own(name: string): Promise<Base> {
  const plan = OWN[name];
  if (!plan) throw new Error(`There is no base "${name}"`);
  const image = new StoreImage();
  const fileSystem = new ImageFileSystem(image);
  const clock = new FakeClock();
  const store = await MessageStore.open(fileSystem.root, plan.options, {
    fileSystem,
    clock,
    onWarning: () => undefined,
  });
  await plan.fill(store);
  // What waits in a write buffer or in memory is on its way.
  await clock.advance(1000);
  const killed = plan.killed ? image.fork() : undefined;
  await store.close();
  return baseWith(name, killed ?? image, plan.options);
}

async function putMixed(store: MessageStore, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const message: Message = {
      topic: i % 10 === 9 ? `long-${"t".repeat(120)}` : i % 3 === 0 ? "Other" : "T",
      queueId: i % 10 === 9 ? 0 : i % 2,
      body: Buffer.from(`message ${i} `.padEnd(40 + ((i * 37) % 200), ".")),
      ...(i % 2 === 0 ? { tags: i % 4 === 0 ? "TagA" : "TagB" } : {}),
      ...(i % 5 === 0 ? { keys: `k-${i}`, properties: { a: "b", ü: "ä" } } : {}),
      ...(i % 7 === 0 ? { bornHost: "[2001:db8::1]:5", storeHost: "[2001:db8::7]:10911" } : {}),
    };
    const isLong = message.topic.length > 127;
    await store.put(isLong ? { ...message, topic: `%RETRY%${message.topic}` } : message);
  }
}

async function putBatches(store: MessageStore, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await store.putBatch({
      topic: "B",
      queueId: i % 2,
      messages: Array.from({ length: 1 + (i % 5) }, (_, j) => ({
        body: Buffer.from(`${i}/${j}`.padEnd(30 + 10 * j, "-")),
        tags: "TagA",
      })),
    });
  }
}

/** Messages with units in extensions, and inner batches beside single messages. */
async function putExtended(store: MessageStore, count: number): Promise<void> {
  if (!store.topics.get("B")) {
    await store.topics.update("B", { attributes: { "queue.type": "BatchCQ" } });
  }
  for (let i = 0; i < count; i++) {
    const tags = i % 4 === 0 ? "TagA" : "TagB";
    const queueId = i % 2;
    await store.put({ topic: "T", queueId, body: Buffer.from(`extended ${i}`), tags });
    if (i % 3 === 0) await store.put({ topic: "B", queueId, body: Buffer.from(`${i}`), tags });
    if (i % 3 !== 1) continue;
    await store.putBatch({
      topic: "B",
      queueId,
      properties: { UNIQ_KEY: `U-${i}`, TAGS: tags },
      messages: Array.from({ length: 1 + (i % 5) }, (_, j) => ({ body: Buffer.from(`${i}/${j}`) })),
    });
  }
}

async function putLight(store: MessageStore): Promise<void> {
  for (let i = 0; i < 20; i++) {
    const names = i % 3 === 0 ? "%LMQ%a,%LMQ%b" : "%LMQ%a";
    await store.put({
      topic: "Parent",
      body: Buffer.from(`light ${i}`),
      ...(i % 4 === 3 ? {} : { properties: { INNER_MULTI_DISPATCH: names } }),
    });
  }
}

async function putSmall(store: MessageStore, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await store.put({ topic: "D", queueId: i % 50 === 0 ? 1 : 0, body: Buffer.from("d") });
  }
}
