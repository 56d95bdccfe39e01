// Reported faults and weaknesses of stores of this kind that have to do with the index of keys.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { MessageStore, QueryRequest, StoreOptions } from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { rejection } from "../support/rejections.ts";
import {
  eachBinding,
  killedCopy,
  logFile,
  message,
  openStore,
  overwrite,
  storePath,
} from "../support/stores.ts";

const SYNC: StoreOptions = { flushDiskType: "SYNC_FLUSH" };

async function offsets(
  store: MessageStore,
  key: string,
  more: Partial<QueryRequest> = {},
): Promise<number[]> {
  const found: number[] = [];
  for (let cursor: string | undefined; ; ) {
    const request = { topic: "T", key, ...more, ...(cursor === undefined ? {} : { cursor }) };
    const result = await store.query(request);
    found.push(...result.messages.map(({ queueOffset }) => queueOffset));
    cursor = result.cursor;
    if (cursor === undefined) return found;
  }
}

/** Puts messages with the keys `k<i>` and `all`, whose queue offset is `i`. */
async function putKeyed(store: MessageStore, count: number, from = 0): Promise<void> {
  for (let i = from; i < from + count; i++) {
    await store.put(message(`${i}`.padEnd(1000), { keys: [`k${i}`, "all"] }));
  }
}

/** Every key is found, each message once. */
async function checkKeys(t: Test, store: MessageStore, count: number, text = ""): Promise<void> {
  const all = Array.from({ length: count }, (_, i) => count - 1 - i);
  t.same(await offsets(store, "all"), all, text);
  for (let i = 0; i < count; i++) t.same(await offsets(store, `k${i}`), [i], `${text} k${i}`);
}

/** The index has recovered from a failure. */
async function answered(store: MessageStore, key: string): Promise<void> {
  for (let i = 0; i < 500; i++) {
    if (await offsets(store, key).catch(() => undefined)) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("the index does not recover");
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 2000 && !condition(); i++) await new Promise((r) => setTimeout(r, 1));
}

t.test("F23, W10 query() returns no message of another key or topic", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await store.put(message("a", { topic: "AaTopic", keys: "Aa" }));
  await store.put(message("b", { topic: "BBTopic", keys: "BB" }));
  t.same(await offsets(store, "BB", { topic: "AaTopic" }), []);
  t.same(await offsets(store, "Aa", { topic: "BBTopic" }), []);
  t.same(await offsets(store, "Aa", { topic: "AaTopic" }), [0]);
  await store.put(message("tag", { tags: "x" }));
  await store.put(message("key", { keys: "T#x" }));
  t.same(await offsets(store, "x", { indexType: "T" }), [0]);
  t.same(await offsets(store, "T#x"), [1]);
});

t.test("F24 query() finds each of several keys, and the unique one", async (t) => {
  const { store } = await openStore(t, storePath(t));
  await store.put(message("1", { uniqKey: "U1" }));
  await store.put(message("2", { keys: "k1 k2  k3" }));
  await store.put(message("3", { uniqKey: "U1" }));
  t.same(await offsets(store, "U1"), [2, 0]);
  for (const key of ["k1", "k2", "k3"]) t.same(await offsets(store, key), [1], key);
  t.same(await offsets(store, ""), []);
  t.same(await offsets(store, "k1 k2"), []);
  t.match(await store.indexFiles(), [{ count: 6 }]);
});

t.test("F25 a slot counts once, however many keys come to it", async (t) => {
  for (const [slots, keys] of [
    [1, ["a", "b", "c"]],
    [100, ["a", "a", "a"]],
  ] as const) {
    const options = { maxHashSlotNum: slots };
    const { store } = await openStore(t, storePath(t, `slots-${slots}`), options);
    for (const key of keys) await store.put(message("m", { keys: key }));
    t.equal((await offsets(store, "a")).length, keys.filter((key) => key === "a").length);
    t.match(await store.indexFiles(), [{ usedSlots: 1, count: 4 }], `${slots} slots`);
  }
});

eachBinding(t, "F26, W9 a killed store finds all keys again, each once", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, { maxIndexNum: 150 }, { binding });
  await putKeyed(store, 50);
  await store.checkpoint();
  const early = killedCopy(t, dir);
  await putKeyed(store, 60, 50);
  for (const [copy, count] of [
    [early, 50],
    [killedCopy(t, dir), 110],
  ] as const) {
    const again = await openStore(t, copy, { maxIndexNum: 150 }, { binding });
    await checkKeys(t, again.store, count);
    await putKeyed(again.store, 5, count);
    await checkKeys(t, again.store, count + 5);
    t.same(again.warnings, []);
    await again.store.close();
    const clean = await openStore(t, copy, { maxIndexNum: 150 }, { binding });
    await checkKeys(t, clean.store, count + 5);
  }
});

t.test("F27 query() compares the real store time", async (t) => {
  const clock = new FakeClock();
  const { store } = await openStore(t, storePath(t), {}, { clock });
  const start = clock.now();
  clock.setWall(start + 1000);
  await store.put(message("first", { keys: "k" }));
  clock.setWall(start + 1999);
  await store.put(message("second", { keys: "k" }));
  const window = (begin: number, end?: number) =>
    offsets(store, "k", {
      begin: start + begin,
      ...(end === undefined ? {} : { end: start + end }),
    });
  t.same(await window(1999, 1999), [1]);
  t.same(await window(1500), [1]);
  t.same(await window(2000), []);
  t.same(await window(1000, 1998), [0]);
  t.same(await window(0, 999), []);
  t.same(await window(0), [1, 0]);
});

t.test("F27 query() finds the first message of a file by its time", async (t) => {
  const clock = new FakeClock();
  const start = clock.now();
  const options = { maxIndexNum: 4 };
  const { store } = await openStore(t, storePath(t), options, { clock });
  for (let i = 0; i < 9; i++) {
    clock.setWall(start + i * 100_000);
    await store.put(message(`${i}`, { keys: "k" }));
  }
  for (let i = 0; i < 9; i++) {
    const time = start + i * 100_000;
    t.same(await offsets(store, "k", { begin: time, end: time }), [i]);
    t.same(await offsets(store, "k", { begin: time + 1, end: time + 99_999 }), []);
  }
});

t.test("F28 query() with any limit is capped, and pages lead on", async (t) => {
  const { store } = await openStore(t, storePath(t), { maxIndexNum: 20, maxHashSlotNum: 3 });
  for (let i = 0; i < 150; i++) await store.put(message(`${i}`, { keys: "k" }));
  const count = async (maxNum: number) =>
    (await store.query({ topic: "T", key: "k", maxNum })).messages.length;
  t.equal(await count(3), 3);
  t.equal(await count(2 ** 31 - 1), 64);
  t.equal(await count(0), 0);
  t.equal((await store.query({ topic: "T", key: "k" })).messages.length, 32);
  const all = Array.from({ length: 150 }, (_, i) => 149 - i);
  for (const maxNum of [1, 7, 64, 1000]) t.same(await offsets(store, "k", { maxNum }), all);
  for (const bad of [{ maxNum: -1 }, { maxNum: 0.5 }, { begin: -1 }, { cursor: "x" }]) {
    t.match(await rejection(store.query({ topic: "T", key: "k", ...bad })), RangeError);
  }
});

t.test(
  "F29 index files roll within a message and a millisecond, and when the clock goes back",
  async (t) => {
    const dir = storePath(t);
    const clock = new FakeClock();
    const options = { maxIndexNum: 4 };
    const { store } = await openStore(t, dir, options, { clock });
    const put = (i: number) => store.put(message(`${i}`, { keys: [`a${i}`, `b${i}`] }));
    for (let i = 0; i < 10; i++) await put(i);
    clock.setWall(clock.now() - 3_600_000);
    for (let i = 10; i < 14; i++) await put(i);
    await store.close();
    const names = readdirSync(join(dir, "index"));
    t.equal(names.length, Math.ceil(28 / 3));
    const again = await openStore(t, dir, options);
    t.same(
      (await again.store.indexFiles()).map(({ name }) => name),
      names.sort(),
    );
    for (let i = 0; i < 14; i++) {
      for (const key of [`a${i}`, `b${i}`]) t.same(await offsets(again.store, key), [i], key);
    }
  },
);

t.test("F01 query() finds nothing behind the place where the log was cut", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putKeyed(store, 20);
  const { messages } = await store.query({ topic: "T", key: "k15" });
  await store.close();
  const at = messages[0]?.physicalOffset ?? 0;
  overwrite(logFile(dir), at + 4, Buffer.alloc(4));
  const again = await openStore(t, dir, { damagedLogPolicy: "cut" });
  for (let i = 0; i < 20; i++) {
    t.same(await offsets(again.store, `k${i}`), i < 15 ? [i] : [], `k${i}`);
  }
  await putKeyed(again.store, 3, 15);
  await checkKeys(t, again.store, 18);
});

t.test("W9 an index of a log that is gone blocks nothing", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putKeyed(store, 20);
  await store.close();
  rmSync(join(dir, "commitlog"), { recursive: true });
  // As a Java store leaves it that came in between: nothing vouches for the index.
  unlinkSync(join(dir, "checkpoint"));
  const again = await openStore(t, dir, { unsafeAcceptLostCommitLog: true });
  t.same(await offsets(again.store, "all"), []);
  await putKeyed(again.store, 3);
  await checkKeys(t, again.store, 3);
  await again.store.close();
  const third = await openStore(t, dir);
  await checkKeys(t, third.store, 3);
});

t.test("W9 an index that leads to other messages of the log is made anew", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putKeyed(store, 10);
  await store.close();
  const other = storePath(t, "other");
  const made = await openStore(t, other);
  for (let i = 0; i < 10; i++) await made.store.put(message(`x${i}`, { keys: `x${i}` }));
  await putKeyed(made.store, 20);
  await made.store.close();
  rmSync(join(other, "index"), { recursive: true });
  mkdirSync(join(other, "index"));
  for (const name of readdirSync(join(dir, "index"))) {
    writeFileSync(join(other, "index", name), readFileSync(join(dir, "index", name)));
  }
  unlinkSync(join(other, "checkpoint"));
  const again = await openStore(t, other);
  for (let i = 0; i < 10; i++) t.same(await offsets(again.store, `x${i}`), [i]);
  t.equal((await offsets(again.store, "all")).length, 20);
});

eachBinding(
  t,
  "W4 an index that cannot be made holds nothing up, and catches up later",
  async (t, binding) => {
    const dir = storePath(t);
    mkdirSync(dir);
    writeFileSync(join(dir, "index"), "x");
    const clock = new FakeClock();
    const { store, warnings } = await openStore(t, dir, SYNC, { binding, clock });
    await putKeyed(store, 30);
    t.equal(store.maxOffset("T"), 30);
    await store.checkpoint();
    await until(() => warnings.length > 0);
    t.match(warnings.join(), /index/);
    t.equal(store.state, "open");
    t.match(await rejection(store.query({ topic: "T", key: "k1" })), { code: "STORE_IO" });
    await putKeyed(store, 5, 30);
    unlinkSync(join(dir, "index"));
    await clock.advance(1000);
    await until(() => existsSync(join(dir, "index")));
    for (let i = 0; i < 100; i++) {
      const found = await offsets(store, "k34").catch(() => undefined);
      if (found) break;
      await clock.advance(1000);
    }
    await checkKeys(t, store, 35);
    await store.close();
    const again = await openStore(t, dir, SYNC, { binding });
    await checkKeys(t, again.store, 35);
  },
);

eachBinding(
  t,
  "W4 a sync of the index that fails is no loss: it begins anew where it was durable",
  async (t, binding) => {
    const dir = storePath(t);
    const { store, fileSystem, warnings } = await openStore(t, dir, {}, { binding });
    await putKeyed(store, 10);
    await store.checkpoint();
    await putKeyed(store, 10, 10);
    fileSystem.failNext("fdatasync", "EIO", { path: /\/index\// });
    await store.checkpoint();
    t.equal(store.state, "open");
    t.match(warnings.join(), /later, from the log/);
    await putKeyed(store, 5, 20);
    await answered(store, "k24");
    await checkKeys(t, store, 25);
    await store.checkpoint();
    const again = await openStore(t, killedCopy(t, dir), {}, { binding });
    await checkKeys(t, again.store, 25);
  },
);

eachBinding(t, "W4 a device without space for the index stops no query", async (t, binding) => {
  const dir = storePath(t);
  const { store, fileSystem, warnings } = await openStore(t, dir, {}, { binding });
  await putKeyed(store, 10);
  await store.checkpoint();
  const full = { path: /\/index\//, times: Number.POSITIVE_INFINITY };
  fileSystem.failNext(["pwritev", "ftruncate"], "ENOSPC", full);
  await putKeyed(store, 10, 10);
  await store.checkpoint();
  t.match(warnings.join(), /later, from the log/);
  await checkKeys(t, store, 20);
  const copy = killedCopy(t, dir);
  fileSystem.clear();
  await putKeyed(store, 5, 20);
  await store.close();
  for (const [directory, count] of [
    [copy, 20],
    [dir, 25],
  ] as const) {
    const again = await openStore(t, directory, {}, { binding });
    await checkKeys(t, again.store, count);
  }
});

t.test("an index file that somebody removes under an open store is made anew", async (t) => {
  const dir = storePath(t);
  const { store, warnings } = await openStore(t, dir);
  await putKeyed(store, 10);
  await store.checkpoint();
  for (const name of readdirSync(join(dir, "index"))) unlinkSync(join(dir, "index", name));
  await putKeyed(store, 10, 10);
  await store.checkpoint();
  t.match(warnings.join(), /removed by somebody else/);
  await answered(store, "k19");
  await checkKeys(t, store, 20);
  await store.close();
  t.ok(readdirSync(join(dir, "index")).length > 0);
});

t.test("a store that was written without an index gets one", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putKeyed(store, 10);
  await store.close();
  const off = await openStore(t, dir, { messageIndexEnable: false });
  await putKeyed(off.store, 40, 10);
  t.equal((await offsets(off.store, "all")).length, 10, "what there is");
  await off.store.close();
  const killed = await openStore(t, dir, { indexFileWriteEnable: false });
  await putKeyed(killed.store, 10, 50);
  const copy = killedCopy(t, dir);
  await killed.store.close();
  for (const directory of [dir, copy]) {
    const on = await openStore(t, directory);
    await checkKeys(t, on.store, 60);
    await on.store.close();
    rmSync(join(directory, "index"), { recursive: true });
    const anew = await openStore(t, directory);
    await checkKeys(t, anew.store, 60, "without the folder");
    await anew.store.close();
  }
});

t.test("index files of another shape are made anew", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putKeyed(store, 20);
  await store.close();
  const { store: other, warnings } = await openStore(t, dir, {
    maxIndexNum: 10,
    maxHashSlotNum: 7,
  });
  await checkKeys(t, other, 20);
  t.match(warnings.join(), /bytes, .* are due/);
  t.equal((await other.indexFiles()).length, Math.ceil(40 / 9));
});

t.test("a reader makes up for the index in memory, and changes nothing", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putKeyed(store, 20);
  await store.checkpoint();
  await putKeyed(store, 20, 20);
  const copy = killedCopy(t, dir);
  const before = readdirSync(copy, { recursive: true }).sort();
  const { store: reader } = await openStore(t, copy, {}, { readOnly: true });
  await checkKeys(t, reader, 40);
  await reader.close();
  t.same(readdirSync(copy, { recursive: true }).sort(), before);
});

t.test("query() waits for what a resolved put has written, in every turn", async (t) => {
  const { store } = await openStore(t, storePath(t), SYNC);
  await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const { queueOffset } = await store.put(message(`${i}`, { keys: `k${i}` }));
      t.same(await offsets(store, `k${i}`), [queueOffset]);
    }),
  );
});

t.test("query() of damaged messages tells where they are", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putKeyed(store, 5);
  const { messages } = await store.query({ topic: "T", key: "k2" });
  const at = messages[0]?.physicalOffset ?? 0;
  overwrite(logFile(dir), at + 100, Buffer.from("damage"));
  const result = await store.query({ topic: "T", key: "k2" });
  t.match(result, { messages: [], unreadable: [at], cursor: undefined });
  t.same(await offsets(store, "all"), [4, 3, 1, 0]);
});

t.test("query() ends with its signal, and with the store", async (t) => {
  const { store } = await openStore(t, storePath(t));
  await putKeyed(store, 5);
  const signal = AbortSignal.abort(new Error("enough"));
  const request = { topic: "T", key: "all" };
  t.match(await rejection(store.query({ ...request, signal })), { message: "enough" });
  await store.close();
  t.match(await rejection(store.query(request)), { code: "STORE_CLOSED" });
});
