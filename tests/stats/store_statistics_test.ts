// The figures of a store: right for singles, batches and light load; of all modes; and channels that cost
// nothing while nobody listens.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import t from "tap";
import {
  type FailureEvent,
  type ForceEvent,
  type GetEvent,
  PUT_TIME_SLOTS,
  type PutEvent,
} from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { turns } from "../support/random.ts";
import { rejection } from "../support/rejections.ts";
import { MODES, message, openStore, putMany, storePath } from "../support/stores.ts";

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

t.test("F75 a batch counts as its messages, once", async (t) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const { store } = await openStore(t, storePath(t, mode), options);
    const results = [await store.put(message("a")), await store.put(message("bb", { topic: "U" }))];
    const messages = ["c", "dd", "eee"].map((text) => ({ body: Buffer.from(text) }));
    results.push(await store.putBatch({ topic: "T", messages }));
    await store.flush();
    const bytes = sum(results.map(({ size }) => size));
    t.equal(bytes, store.watermarks.wrote);
    const first = await store.get({ topic: "T", offset: 0, group: "g" });
    const second = await store.get({ topic: "U", offset: 0, group: "g" });
    await store.get({ topic: "U", offset: 1, group: "g" });
    const stats = store.stats();
    t.match(stats, { messagesPut: 5, bytesPut: bytes, putsFailed: 0 }, mode);
    t.match(stats.gets, { found: 2, missed: 1, messages: 5, bytes });
    t.equal(first.bytes + second.bytes, bytes);
    t.equal(sum(stats.putTimes.thisMinute), 3, "one time for each put");
    t.same(stats.putTimes.minuteBefore.length, PUT_TIME_SLOTS.length);
    t.same(stats.topics, [
      { topic: "T", messages: 4, bytes: first.bytes },
      { topic: "U", messages: 1, bytes: second.bytes },
    ]);
    t.same(stats.behind, { commit: 0, flush: 0, dispatch: 0 });
    t.same(stats.forceQueue, { length: 0, oldestMs: 0 });
    t.equal(stats.forceTimes.count, stats.forces);
    t.equal(sum(stats.forceTimes.buckets.map(({ count }) => count)), stats.forces);
    t.ok(stats.perSecond.put[0] > 0 && stats.perSecond.getTotal[2] > 0);
    const items = new Map(store.statItems().map((item) => [`${item.name} ${item.key}`, item]));
    for (const [key, value, times] of [
      ["TOPIC_PUT_NUMS T", 4, 2],
      ["TOPIC_PUT_NUMS U", 1, 1],
      ["TOPIC_PUT_SIZE T", first.bytes, 2],
      ["BROKER_PUT_NUMS ", 5, 3],
      ["GROUP_GET_NUMS T@g", 4, 1],
      ["GROUP_GET_SIZE U@g", second.bytes, 1],
      ["BROKER_GET_NUMS ", 5, 2],
    ] as const) {
      t.match(items.get(key), { value, times, minute: { sum: value, times } }, `${mode} ${key}`);
    }
    t.ok(items.has("GROUP_GET_FALL_SIZE 0@U@g"));
    t.equal(store.statItems("TOPIC_PUT_NUMS").length, 2);
  }
});

t.test(
  "refused puts are counted, and nothing is negative when the clock is set back",
  async (t) => {
    const clock = new FakeClock();
    const { store } = await openStore(t, storePath(t), {}, { clock });
    await rejection(store.put(message("a", { topic: "" })));
    await putMany(store, 3);
    clock.setWall(clock.now() - 3_600_000);
    await putMany(store, 3);
    await clock.advance(2000);
    await putMany(store, 3);
    const { messagesPut, putsFailed, putTimes, perSecond } = store.stats();
    t.same([messagesPut, putsFailed], [9, 1]);
    t.equal(putTimes.maxMs, 0);
    for (const rates of Object.values(perSecond)) t.ok(rates.every((rate) => rate >= 0));
  },
);

t.test("rates and minutes, with time in our hands", async (t) => {
  const clock = new FakeClock();
  const { store } = await openStore(t, storePath(t), {}, { clock });
  for (let second = 0; second < 60; second++) {
    await putMany(store, 3);
    await clock.advance(1000);
  }
  t.same(
    store.stats().perSecond.put.map((rate) => Math.round(rate)),
    [3, 3, 3],
  );
  await putMany(store, 1);
  t.ok(sum(store.stats().putTimes.minuteBefore) > 150);
  // A sync under way would end at some time of the next ten minutes.
  await store.flush();
  await clock.advance(600_000);
  t.same(
    store.stats().perSecond.put.map((rate) => Math.round(rate * 1000)),
    [0, 0, 0],
  );
  t.same(store.stats().putTimes.minuteBefore, Array(13).fill(0));
});

t.test("what waits for a force is seen while it does", async (t) => {
  const clock = new FakeClock();
  const { store, fileSystem } = await openStore(
    t,
    storePath(t),
    { flushDiskType: "SYNC_FLUSH" },
    { clock },
  );
  await store.put(message("a"));
  const held = fileSystem.hold(["fdatasync", "commitAndForce"], { path: /commitlog/ });
  const puts = Promise.all([store.put(message("b")), store.put(message("c"))]);
  await held.waiting;
  await clock.advance(300);
  const { forceQueue, behind } = store.stats();
  t.same(forceQueue, { length: 2, oldestMs: 300 });
  t.ok(behind.flush > 0);
  held.release();
  await puts;
  const { forceTimes, putTimes, longestForceMs } = store.stats();
  t.equal(longestForceMs, 300);
  t.equal(forceTimes.maxMs, 300);
  t.equal(putTimes.maxMs, 300);
  t.same(putTimes.thisMinute[5], 2, "200 to 500 ms");
});

t.test("runtimeInfo() has RocketMQ's names and texts", async (t) => {
  const clock = new FakeClock(1_700_000_000_000);
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { clock });
  t.match(await store.runtimeInfo(), {
    putMessageTimesTotal: "1",
    putMessageAverageSize: "0.0",
    earliestMessageTimeStamp: "-1",
    commitLogMinOffset: "-1",
  });
  await putMany(store, 4);
  store.delayOffsets.set(3, 0);
  await store.get({ topic: "T", offset: 0 });
  await store.flush();
  await clock.advance(93_784_000);
  const info = await store.runtimeInfo();
  const { size } = (await store.get({ topic: "T", offset: 0 })).messages[0] as { size: number };
  t.match(info, {
    bootTimestamp: "1700000000000",
    runtime: "[ 1 days, 2 hours, 3 minutes, 4 seconds ]",
    putMessageEntireTimeMax: "0",
    putMessageTimesTotal: "4",
    putMessageFailedTimes: "0",
    putMessageSizeTotal: String(4 * size),
    putMessageDistributeTime:
      "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 ",
    putMessageAverageSize: `${size}.0`,
    dispatchMaxBuffer: "0",
    getMessageEntireTimeMax: "0",
    putTps: "0.0 0.0 0.0",
    getTransferredTps: "0.0 0.0 0.0",
    putLatency99: "0.00",
    putLatency999: "0.00",
    commitLogMinOffset: "0",
    commitLogMaxOffset: String(4 * size),
    dispatchBehindBytes: "0",
    remainHowManyDataToFlush: "0 B",
    earliestMessageTimeStamp: "1700000000000",
    scheduleMessageOffset_3: "0,0",
  });
  for (const name of ["commitLogDiskRatio", "consumeQueueDiskRatio"]) {
    t.match(info[name], /^(0|1)\.\d{1,2}$/);
  }
  t.equal(info[`commitLogDiskRatio_${dir}/commitlog`], info.commitLogDiskRatio);
  t.ok(Object.values(info).every((text) => typeof text === "string"));
});

t.test("channels tell who listens, and only those", async (t) => {
  const heard: { name: string; event: unknown }[] = [];
  const names = ["put", "get", "force", "roll", "recovery", "failure"].map((n) => `forcelog:${n}`);
  const listen = (event: unknown, name: string | symbol) =>
    void heard.push({ name: String(name).slice(9), event });
  const { store: silent } = await openStore(t, storePath(t, "silent"));
  await putMany(silent, 2);
  t.same(heard, []);
  for (const name of names) subscribe(name, listen);
  t.teardown(() => names.map((name) => unsubscribe(name, listen)));
  const of = (name: string) => heard.filter((one) => one.name === name).map(({ event }) => event);
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir);
  t.match(of("recovery"), [{ directory: dir, recovery: { cleanStop: true } }]);
  const result = await store.put(message("a"));
  t.equal((of("put") as PutEvent[])[0]?.result, result);
  await store.flush();
  const [force] = of("force") as ForceEvent[];
  t.match(force, { directory: dir, flushed: store.watermarks.wrote });
  await store.get({ topic: "T", offset: 0, group: "g" });
  t.match(of("get") as GetEvent[], [
    { topic: "T", queueId: 0, group: "g", status: "FOUND", messageCount: 1, bytes: result.size },
  ]);
  await putMany(store, 5, { size: 20_000 });
  t.same(of("roll"), [
    { directory: dir, offset: 0 },
    { directory: dir, offset: 65_536 },
  ]);
  const pool = await openStore(t, storePath(t, "pool"), MODES.pool);
  const before = of("put").length;
  await pool.store.put(message("a"));
  t.equal(of("put").length, before + 1);
  fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
  await rejection(store.flush());
  t.match(of("failure") as FailureEvent[], [{ directory: dir, error: { code: "STORE_IO" } }]);
  await turns(2);
});
