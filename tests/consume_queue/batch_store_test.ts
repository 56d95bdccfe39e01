import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import {
  explainRecovery,
  innerMessagesOf,
  MessageStore,
  type StoredMessage,
  type StoreOptions,
} from "../../lib/mod.ts";
import { rejection } from "../support/rejections.ts";
import { openStore, SMALL, storePath } from "../support/stores.ts";

/** Queue files of five units. */
const BATCHES: StoreOptions = { ...SMALL, mapperFileSizeBatchConsumeQueue: 230 };
const BATCH_TOPIC = { attributes: { "queue.type": "BatchCQ" } };

/** An inner batch; its messages say which they are. */
function putInner(store: MessageStore, from: number, count: number, tags = "TagA") {
  return store.putBatch({
    topic: "B",
    properties: { UNIQ_KEY: `U-${from}`, TAGS: tags },
    messages: Array.from({ length: count }, (_, i) => ({ body: Buffer.from(`m${from + i}`) })),
  });
}

function putSingle(store: MessageStore, n: number) {
  return store.put({ topic: "B", body: Buffer.from(`m${n}`), tags: "TagB" });
}

/** Messages from `from` up to `end`, by threes and alone in turn. */
async function putUpTo(store: MessageStore, from: number, end: number): Promise<void> {
  for (let n = from; n < end; n += 4) {
    const { queueOffset, messageCount } = await putInner(store, n, 3);
    if (queueOffset !== n || messageCount !== 3) throw new Error(`${n} is ${queueOffset}`);
    await putSingle(store, n + 3);
  }
}

function texts(messages: readonly StoredMessage[]): string[] {
  return messages.flatMap((message) => {
    const inner = innerMessagesOf(message);
    if (!inner) return [`${message.queueOffset} ${message.body}`];
    return inner.map(({ queueOffset, body }) => `${queueOffset} ${Buffer.from(body)}`);
  });
}

async function readAll(store: MessageStore, filter?: string): Promise<string[]> {
  const found: string[] = [];
  for (let offset = store.minOffset("B"); offset < store.maxOffset("B"); ) {
    const result = await store.get({ topic: "B", offset, ...(filter ? { filter } : {}) });
    found.push(...texts(result.messages));
    if (result.nextBeginOffset <= offset) throw new Error(`No way on from ${offset}`);
    offset = result.nextBeginOffset;
  }
  return found;
}

const upTo = (end: number, from = 0) =>
  Array.from({ length: end - from }, (_, i) => `${from + i} m${from + i}`);

async function opened(t: Parameters<typeof openStore>[0], dir: string, more: StoreOptions = {}) {
  return openStore(t, dir, { ...BATCHES, ...more });
}

t.test(
  "inner batches are put, read at every offset, and found again after all stops",
  async (t) => {
    const dir = storePath(t);
    const { store } = await opened(t, dir);
    await store.topics.update("B", BATCH_TOPIC);
    await putUpTo(store, 0, 40);
    t.equal(store.maxOffset("B"), 40);
    t.same(await readAll(store), upTo(40));
    for (let offset = 0; offset < 40; offset++) {
      const { status, messages, nextBeginOffset, messageCount } = await store.get({
        topic: "B",
        offset,
        maxMessages: 1,
      });
      const first = offset % 4 === 3 ? offset : offset - (offset % 4);
      const count = offset % 4 === 3 ? 1 : 3;
      t.match(
        { status, nextBeginOffset, messageCount },
        {
          status: "FOUND",
          nextBeginOffset: first + count,
          messageCount: count,
        },
      );
      t.same(texts(messages), upTo(first + count, first));
    }
    const { messages } = await store.query({ topic: "B", key: "U-8" });
    t.same(texts(messages), upTo(11, 8));
    t.equal(store.stats().messagesPut, 40);
    await store.checkpoint();
    await putUpTo(store, 40, 60);
    const killed = `${dir}-killed`;
    cpSync(dir, killed, { recursive: true });
    await store.close();
    for (const folder of [dir, killed]) {
      const { store: again, warnings } = await opened(t, folder);
      t.same(warnings, []);
      t.same(await readAll(again), upTo(60));
      await putUpTo(again, 60, 64);
      t.same(await readAll(again), upTo(64));
      await again.close();
    }
  },
);

t.test("batch queues that are lost or damaged are rebuilt from the log", async (t) => {
  const dir = storePath(t);
  const { store } = await opened(t, dir);
  await store.topics.update("B", BATCH_TOPIC);
  await putUpTo(store, 0, 40);
  await store.close();
  const folder = join("batchconsumequeue", "B", "0");
  const before = readdirSync(join(dir, folder)).map((name) =>
    readFileSync(join(dir, folder, name)),
  );
  const damages: Record<string, (copy: string) => void> = {
    "all of it": (copy) => rmSync(join(copy, "batchconsumequeue"), { recursive: true }),
    "its last file": (copy) => {
      const name = readdirSync(join(copy, folder)).sort().at(-1) as string;
      rmSync(join(copy, folder, name));
    },
    "its last unit": (copy) => {
      const name = readdirSync(join(copy, folder)).sort().at(-1) as string;
      const bytes = readFileSync(join(copy, folder, name));
      bytes.writeInt16BE(77, 184 + 36);
      writeFileSync(join(copy, folder, name), bytes);
    },
  };
  for (const [what, damage] of Object.entries(damages)) {
    for (const wasKilled of [false, true]) {
      const copy = storePath(t, `${what.replaceAll(" ", "-")}-${wasKilled}`);
      cpSync(dir, copy, { recursive: true });
      if (wasKilled) writeFileSync(join(copy, "abort"), "");
      damage(copy);
      const { store: again } = await opened(t, copy);
      t.same(await readAll(again), upTo(40), `${what}, killed ${wasKilled}`);
      await again.close();
      const after = readdirSync(join(copy, folder)).map((name) =>
        readFileSync(join(copy, folder, name)),
      );
      t.same(after, before, "the same bytes");
    }
  }
});

t.test("a damaged inner batch costs its messages, and their places stay", async (t) => {
  const dir = storePath(t);
  const { store } = await opened(t, dir);
  await store.topics.update("B", BATCH_TOPIC);
  await putUpTo(store, 0, 20);
  const { messages } = await store.get({ topic: "B", offset: 8, maxMessages: 1 });
  const at = (messages[0] as StoredMessage).physicalOffset;
  await store.close();
  const log = join(dir, "commitlog", "0".repeat(20));
  const bytes = readFileSync(log);
  bytes.fill(0xee, at + 90, at + 100);
  writeFileSync(log, bytes);
  writeFileSync(join(dir, "abort"), "");
  const { store: again } = await opened(t, dir, { recoverWholeLog: true });
  t.equal(again.maxOffset("B"), 20);
  t.same(await readAll(again), [...upTo(8), ...upTo(20, 11)]);
  t.match(await again.get({ topic: "B", offset: 9, maxMessages: 1 }), {
    status: "MESSAGE_WAS_REMOVING",
    nextBeginOffset: 11,
  });
  await putUpTo(again, 20, 24);
  t.same((await readAll(again)).slice(-4), upTo(24, 20));
});

t.test("reads of batch queues: filter, times, consume, units", async (t) => {
  const dir = storePath(t);
  const { store } = await opened(t, dir);
  await store.topics.update("B", BATCH_TOPIC);
  await putUpTo(store, 0, 24);
  t.same(
    await readAll(store, "TagB"),
    upTo(24).filter((_, i) => i % 4 === 3),
  );
  t.same(
    await readAll(store, "TagA"),
    upTo(24).filter((_, i) => i % 4 !== 3),
  );
  const { messages } = await store.get({ topic: "B", offset: 0 });
  for (const { queueOffset, storeTimestamp } of messages) {
    const times = { topic: "B", timestamp: storeTimestamp };
    t.ok((await store.offsetByTime(times)) <= queueOffset);
    t.ok((await store.offsetByTime({ ...times, boundary: "upper" })) >= queueOffset);
    t.equal(await store.messageStoreTime("B", 0, queueOffset), storeTimestamp);
  }
  t.equal(await store.offsetByTime({ topic: "B", timestamp: 0 }), 0);
  t.equal(await store.offsetByTime({ topic: "B", timestamp: Date.now() + 1e6 }), 24);
  t.equal(await store.messageStoreTime("B", 0, 1), messages[0]?.storeTimestamp);
  const consumed: StoredMessage[] = [];
  for await (const message of store.consume({ topic: "B", from: 5 })) {
    consumed.push(message);
    if (message.queueOffset === 23) break;
  }
  t.same(texts(consumed), upTo(24, 4));
  const units = await store.units({ topic: "B", from: 5, count: 2 });
  t.match(units, [
    { queueOffset: 4, messages: 3 },
    { queueOffset: 7, messages: 1 },
  ]);
  t.match(store.queues(), [{ topic: "B", queueType: "BatchCQ", minOffset: 0, maxOffset: 24 }]);
  t.match(await store.get({ topic: "B", offset: 24 }), { status: "OFFSET_OVERFLOW_ONE" });
  t.match(await store.get({ topic: "B", offset: 25 }), { status: "OFFSET_OVERFLOW_BADLY" });
});

t.test("inner batches that cannot be are refused", async (t) => {
  const { store } = await opened(t, storePath(t));
  await store.topics.update("B", BATCH_TOPIC);
  const inner = { topic: "B", body: Buffer.alloc(10), sysFlag: 0xc0 };
  const wrong = { status: "MESSAGE_ILLEGAL", outcome: "not stored" };
  for (const INNER_NUM of ["0", "-3", "32768", "x"]) {
    t.match(await rejection(store.put({ ...inner, properties: { INNER_NUM } })), wrong, INNER_NUM);
  }
  t.match(await rejection(store.put({ ...inner, topic: "Plain" })), wrong);
  t.match(
    await rejection(store.put({ ...inner, sysFlag: 0, properties: { INNER_NUM: "2" } })),
    wrong,
  );
  const properties = { UNIQ_KEY: "U" };
  t.match(await rejection(store.putBatch({ topic: "B", properties, messages: [] })), wrong);
  const large = { body: Buffer.alloc(20_000) };
  t.match(
    await rejection(store.putBatch({ topic: "B", properties, messages: [large, large] })),
    wrong,
  );
  t.equal(store.watermarks.wrote, 0);
  // Elsewhere a batch is as many records, whatever its key.
  const { messageId } = await store.putBatch({
    topic: "Plain",
    properties,
    messages: [{ body: Buffer.alloc(1) }, { body: Buffer.alloc(1) }],
  });
  t.match(messageId, /,/);
});

t.test("queues that are not of the type of their topic are refused, and named", async (t) => {
  const dir = storePath(t);
  const { store } = await opened(t, dir);
  await store.topics.update("B", BATCH_TOPIC);
  await putUpTo(store, 0, 4);
  await store.put({ topic: "S", body: Buffer.from("x") });
  // A topic that has queues can only be made as what they are.
  t.match(await rejection(store.topics.update("S", BATCH_TOPIC)), { name: "RangeError" });
  await store.topics.update("S", {});
  t.same(store.topics.get("S")?.attributes, {});
  await store.topics.delete("B");
  await store.close();
  const topics = join(dir, "config", "topics.json");
  // Without settings the queues tell.
  const { store: without } = await opened(t, dir);
  await putUpTo(without, 4, 8);
  t.same(await readAll(without), upTo(8));
  t.same((await without.topics.ensure("B")).attributes, { "queue.type": "BatchCQ" });
  await without.close();
  const text = readFileSync(topics, "utf8");
  writeFileSync(topics, text.replace("BatchCQ", "SimpleCQ"));
  for (const attempt of [
    () => MessageStore.open(dir, BATCHES),
    () => MessageStore.open(dir, BATCHES, { readOnly: true }),
    () => explainRecovery(dir, BATCHES),
  ]) {
    t.match(await rejection(attempt()), {
      code: "STORE_UNEXPECTED_FILE",
      message: /queue 0 of topic "B" is BatchCQ, and its queue.type in .*topics.json is SimpleCQ/,
      path: join(dir, "batchconsumequeue", "B", "0"),
    });
  }
  writeFileSync(topics, text);
  mkdirSync(join(dir, "consumequeue", "B", "0"), { recursive: true });
  await (await opened(t, dir)).store.close();
  cpSync(join(dir, "consumequeue", "S", "0"), join(dir, "consumequeue", "B", "0"), {
    recursive: true,
  });
  t.match(await rejection(MessageStore.open(dir, BATCHES)), {
    code: "STORE_UNEXPECTED_FILE",
    path: join(dir, "batchconsumequeue", "B", "0"),
  });
});

t.test("a batch queue's files go when its messages have gone", async (t) => {
  const dir = storePath(t);
  const { store } = await opened(t, dir, {
    commitLogMaxBytes: 2 * 65536,
    deleteCommitLogFilesInterval: 0,
    deleteConsumeQueueFilesInterval: 0,
  });
  await store.topics.update("B", BATCH_TOPIC);
  for (let n = 0; n < 60; n += 3) {
    await store.putBatch({
      topic: "B",
      properties: { UNIQ_KEY: `${n}` },
      messages: Array.from({ length: 3 }, () => ({ body: Buffer.alloc(5000, n) })),
    });
  }
  await store.checkpoint();
  const folder = join(dir, "batchconsumequeue", "B", "0");
  const before = readdirSync(folder).length;
  await store.clean();
  const min = store.minOffset("B");
  t.ok(min > 0 && min % 3 === 0, `min is ${min}`);
  t.ok(readdirSync(folder).length < before);
  t.match(await store.get({ topic: "B", offset: min - 1 }), {
    status: "OFFSET_TOO_SMALL",
    nextBeginOffset: min,
  });
  t.match(await store.get({ topic: "B", offset: min }), { status: "FOUND" });
  await store.close();
  const { store: again } = await opened(t, dir);
  t.equal(again.minOffset("B"), min);
  t.equal(again.maxOffset("B"), 60);
});

t.test("explainRecovery() tells what becomes of batch queues", async (t) => {
  const dir = storePath(t);
  const { store } = await opened(t, dir);
  await store.topics.update("B", BATCH_TOPIC);
  await putUpTo(store, 0, 20);
  const killed = `${dir}-killed`;
  cpSync(dir, killed, { recursive: true });
  const { ours, rocketmq } = await explainRecovery(killed, BATCHES);
  t.equal(ours.end, store.watermarks.wrote);
  for (const { queues, version } of rocketmq) {
    if (version !== "4.9") t.match(queues, [{ topic: "B", before: 0, max: 20, misplaced: 0 }]);
  }
});
