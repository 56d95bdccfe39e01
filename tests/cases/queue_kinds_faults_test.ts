// Faults that were reported of queues, in those that are more than plain ones: batch queues (F05, F07, F10,
// F12, F19, F20, F54, F75, W7, W8) and extensions of queues (F35, W8).

import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { innerMessagesOf, type MessageStore, type StoreOptions } from "../../lib/mod.ts";
import { rejection } from "../support/rejections.ts";
import { openStore, SMALL, storePath } from "../support/stores.ts";

/** Files of five units. */
const OPTIONS: StoreOptions = {
  ...SMALL,
  mapperFileSizeBatchConsumeQueue: 230,
  mappedFileSizeConsumeQueue: 100,
  enableConsumeQueueExt: true,
  mappedFileSizeConsumeQueueExt: 104,
  deleteCommitLogFilesInterval: 0,
  deleteConsumeQueueFilesInterval: 0,
};

async function batchStore(t: Parameters<typeof openStore>[0], dir: string, more = {}) {
  const { store } = await openStore(t, dir, { ...OPTIONS, ...more });
  if (!store.topics.get("B")) {
    await store.topics.update("B", { attributes: { "queue.type": "BatchCQ" } });
  }
  return store;
}

function putThree(store: MessageStore, tags = "TagA", bytes = 10) {
  return store.putBatch({
    topic: "B",
    properties: { UNIQ_KEY: "U", TAGS: tags },
    messages: Array.from({ length: 3 }, (_, i) => ({ body: Buffer.alloc(bytes, i) })),
  });
}

/** First messages of the records that reading on from `from` gives. */
async function bases(store: MessageStore, from = store.minOffset("B")): Promise<number[]> {
  const found: number[] = [];
  for (let offset = from; offset < store.maxOffset("B"); ) {
    const { messages, nextBeginOffset } = await store.get({ topic: "B", offset });
    if (nextBeginOffset <= offset) throw new Error(`No way on from ${offset}`);
    found.push(...messages.map(({ queueOffset }) => queueOffset));
    offset = nextBeginOffset;
  }
  return found;
}

const threes = (end: number, from = 0) =>
  Array.from({ length: (end - from) / 3 }, (_, i) => from + 3 * i);

t.test("F75 an inner batch counts as its messages, once", async (t) => {
  const store = await batchStore(t, storePath(t));
  const sizes = [
    await store.put({ topic: "B", body: Buffer.from("1") }),
    await store.put({ topic: "B", body: Buffer.from("2") }),
    await putThree(store),
  ].map(({ size }) => size);
  const bytes = sizes.reduce((sum, size) => sum + size);
  const result = await store.get({ topic: "B", offset: 0, group: "g" });
  t.equal(result.messageCount, 5);
  t.equal(result.bytes, bytes);
  t.equal(
    result.messages.reduce((sum, message) => sum + (innerMessagesOf(message)?.length ?? 1), 0),
    5,
  );
  const stats = store.stats();
  t.match(stats, { messagesPut: 5, bytesPut: bytes });
  t.match(stats.topics, [{ topic: "B", messages: 5, bytes }]);
  t.match(stats.gets, { messages: 5, bytes });
});

t.test("F05, W8 a queue file of zeros or of nothing at the end is no message", async (t) => {
  const dir = storePath(t);
  const store = await batchStore(t, dir);
  // Just as many as fill their files.
  for (let i = 0; i < 5; i++) await putThree(store);
  for (let i = 0; i < 5; i++) await store.put({ topic: "P", body: Buffer.alloc(1), tags: "x" });
  await store.close();
  const next = {
    "batchconsumequeue/B/0": 230,
    "consumequeue/P/0": 100,
    "consumequeue_ext/P/0": 104,
  };
  for (const wasKilled of [false, true]) {
    for (const isWhole of [true, false]) {
      const copy = storePath(t, `${wasKilled}-${isWhole}`);
      cpSync(dir, copy, { recursive: true });
      if (wasKilled) writeFileSync(join(copy, "abort"), "");
      for (const [folder, size] of Object.entries(next)) {
        const last = Number(readdirSync(join(copy, folder)).sort().at(-1));
        const name = String(last + size).padStart(20, "0");
        writeFileSync(join(copy, folder, name), Buffer.alloc(isWhole ? size : 0));
      }
      const again = await batchStore(t, copy);
      t.equal(again.maxOffset("B"), 15);
      t.equal(again.maxOffset("P"), 5);
      await putThree(again);
      await again.put({ topic: "P", body: Buffer.alloc(1), tags: "x" });
      t.same(await bases(again), threes(18));
      const { messages } = await again.get({ topic: "P", offset: 0, filter: "x" });
      t.equal(messages.length, 5, "up to the end of a file");
      await again.close();
    }
  }
});

t.test("F07 a reader steps over a missing file of a batch queue", async (t) => {
  const dir = storePath(t);
  const store = await batchStore(t, dir);
  for (let i = 0; i < 15; i++) await putThree(store);
  await store.close();
  rmSync(join(dir, "batchconsumequeue", "B", "0", "230".padStart(20, "0")));
  const { store: reader } = await openStore(t, dir, OPTIONS, { readOnly: true });
  t.equal(reader.maxOffset("B"), 45);
  for (const offset of [15, 20, 29]) {
    t.match(await reader.get({ topic: "B", offset }), {
      status: "OFFSET_FOUND_NULL",
      nextBeginOffset: 30,
      messages: [],
    });
  }
  t.same(await bases(reader), [...threes(15), ...threes(45, 30)]);
});

t.test("F10, W7 a batch that is refused takes no queue offset", async (t) => {
  const store = await batchStore(t, storePath(t));
  await putThree(store);
  await rejection(putThree(store, "TagA", 20_000));
  const sysFlag = 0xc0;
  const properties = { INNER_NUM: "0" };
  await rejection(store.put({ topic: "B", body: Buffer.alloc(1), sysFlag, properties }));
  t.equal((await putThree(store)).queueOffset, 3);
  t.same(await bases(store), [0, 3]);
});

t.test("F12 a batch queue whose messages are all gone begins where it ends", async (t) => {
  const dir = storePath(t);
  const store = await batchStore(t, dir, { commitLogMaxBytes: 2 * 65536 });
  for (let i = 0; i < 8; i++) await putThree(store);
  for (let i = 0; i < 20; i++) await store.put({ topic: "P", body: Buffer.alloc(20_000) });
  await store.clean();
  const gone = { status: "OFFSET_OVERFLOW_ONE", minOffset: 24, maxOffset: 24 };
  t.match(await store.get({ topic: "B", offset: 24 }), gone);
  t.match(await store.get({ topic: "B", offset: 0 }), { status: "OFFSET_TOO_SMALL" });
  t.equal(await store.offsetByTime({ topic: "B", timestamp: 0 }), 24);
  await store.close();
  const again = await batchStore(t, dir);
  t.match(await again.get({ topic: "B", offset: 24 }), gone);
  t.equal((await putThree(again)).queueOffset, 24);
  t.same(await bases(again), [24]);
});

t.test("F19 a reader outside a batch queue is sent to its nearer end", async (t) => {
  const store = await batchStore(t, storePath(t));
  t.match(await store.get({ topic: "B", offset: 0 }), { status: "NO_MATCHED_LOGIC_QUEUE" });
  for (let i = 0; i < 3; i++) await putThree(store);
  for (const [offset, status, nextBeginOffset] of [
    [-1, "OFFSET_TOO_SMALL", 0],
    [8, "FOUND", 9],
    [9, "OFFSET_OVERFLOW_ONE", 9],
    [10, "OFFSET_OVERFLOW_BADLY", 9],
    [1000, "OFFSET_OVERFLOW_BADLY", 9],
  ] as const) {
    t.match(await store.get({ topic: "B", offset }), { status, nextBeginOffset }, `${offset}`);
  }
});

t.test("F20 a filtered read of a batch queue always moves on", async (t) => {
  const store = await batchStore(t, storePath(t), { mapperFileSizeBatchConsumeQueue: 46_000 });
  for (let i = 0; i < 200; i++) await putThree(store);
  await putThree(store, "TagB");
  // 16,000 bytes of units of 46 bytes, counted as messages.
  const end = Math.ceil(16_000 / 46);
  const first = await store.get({ topic: "B", offset: 0, filter: "TagB" });
  t.match(first, { status: "NO_MATCHED_MESSAGE", nextBeginOffset: 3 * Math.ceil(end / 3) });
  const offset = first.nextBeginOffset;
  t.match(await store.get({ topic: "B", offset, filter: "TagB" }), {
    status: "FOUND",
    messages: [{ queueOffset: 600 }],
  });
});

t.test("F35 tags with one hash are told apart by their text, through extensions too", async (t) => {
  const dir = storePath(t);
  const store = await batchStore(t, dir);
  for (const tags of ["Aa", "BB", "BB"])
    await store.put({ topic: "P", body: Buffer.alloc(0), tags });
  for (const [offset, found] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const { messages, nextBeginOffset } = await store.get({ topic: "P", offset, filter: "Aa" });
    t.equal(messages.length, found);
    t.equal(nextBeginOffset, 3);
  }
});
