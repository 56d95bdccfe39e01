// Consumer offsets: committed, asked for, reset, written in time and at the end, and never ahead of what
// is durable of the log.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { FakeClock } from "../../lib/testing/mod.ts";
import { turns, until } from "../support/random.ts";
import { rejection } from "../support/rejections.ts";
import { killedCopy, message, openStore, putMany, storePath } from "../support/stores.ts";

const FILE = "config/consumerOffset.json";

function tableIn(directory: string, file = FILE): unknown {
  return JSON.parse(readFileSync(join(directory, file), "utf8")).offsetTable;
}

t.test("commit() and get(): the last call counts", async (t) => {
  const { store } = await openStore(t, storePath(t));
  const { offsets } = store;
  const queue = { group: "g", topic: "T", queueId: 1 };
  t.equal(offsets.get(queue), undefined);
  t.equal(offsets.commit({ ...queue, offset: 7 }), true);
  t.equal(offsets.get(queue), 7);
  offsets.commit({ ...queue, offset: 3 });
  t.equal(offsets.get(queue), 3);
  offsets.commit({ group: "g", topic: "T", offset: 0 });
  offsets.commit({ group: "a", topic: "T", offset: 5 });
  offsets.commit({ group: "g", topic: "%RETRY%g", offset: 1 });
  t.same(offsets.list(), [
    { topic: "%RETRY%g", group: "g", queueId: 0, offset: 1 },
    { topic: "T", group: "a", queueId: 0, offset: 5 },
    { topic: "T", group: "g", queueId: 0, offset: 0 },
    { topic: "T", group: "g", queueId: 1, offset: 3 },
  ]);
  t.equal(offsets.list({ group: "g" }).length, 3);
  t.equal(offsets.list({ group: "g", topic: "T" }).length, 2);
  for (const wrong of [
    { ...queue, offset: -1 },
    { ...queue, offset: 1.5 },
    { ...queue, offset: Number.NaN },
    { ...queue, queueId: -1, offset: 0 },
    { ...queue, topic: "a@b", offset: 0 },
  ]) {
    t.throws(() => offsets.commit(wrong), RangeError);
  }
  t.throws(() => offsets.commit({ ...queue, group: "", offset: 0 }), TypeError);
});

t.test("reset(): commits of a consumer that has not heard of it are not taken", async (t) => {
  const { store } = await openStore(t, storePath(t));
  const { offsets } = store;
  const queue = { group: "g", topic: "T", queueId: 1 };
  offsets.commit({ ...queue, offset: 9 });
  offsets.reset({ ...queue, offset: 2 });
  t.equal(offsets.get(queue), 2);
  t.equal(offsets.commit({ ...queue, offset: 10 }), false);
  t.equal(offsets.commit({ ...queue, queueId: 0, offset: 10 }), true, "another queue");
  offsets.reset({ ...queue, offset: 4 });
  t.equal(offsets.takeReset(queue), 4);
  t.equal(offsets.takeReset(queue), undefined);
  t.equal(offsets.commit({ ...queue, offset: 5 }), true);
  t.equal(offsets.get(queue), 5);
});

t.test("removeTopic() and removeGroup() leave what belongs to a third party", async (t) => {
  const dir = storePath(t);
  mkdirSync(join(dir, "config"), { recursive: true });
  writeFileSync(
    join(dir, FILE),
    '{"offsetTable":{"T@g":{0:1,1:2},"T@h":{0:1},"U@g":{0:1},"T@g@broadcast":{0:7},"odd":{0:1}}}',
  );
  const { store } = await openStore(t, dir, { unsafeAcceptLostCommitLog: true });
  const { offsets } = store;
  offsets.reset({ group: "g", topic: "T", offset: 1 });
  t.equal(offsets.removeTopic("T"), 3);
  t.equal(offsets.commit({ group: "g", topic: "T", offset: 1 }), true, "the reset is gone, too");
  t.equal(offsets.removeGroup("g"), 2);
  t.equal(offsets.removeGroup("g"), 0);
  await offsets.flush();
  t.same(tableIn(dir), { "T@g@broadcast": { 0: 7 }, odd: { 0: 1 } });
});

t.test("they are written after 5 s, all in one, and only if there are new ones", async (t) => {
  const dir = storePath(t);
  const clock = new FakeClock();
  const { store, fileSystem } = await openStore(t, dir, {}, { clock });
  await putMany(store, 10);
  const queue = { group: "g", topic: "T" };
  store.offsets.commit({ ...queue, offset: 1 });
  await clock.advance(4000);
  store.offsets.commit({ ...queue, offset: 4 });
  t.notOk(existsSync(join(dir, FILE)));
  t.same(killedWith(killedCopy(t, dir)), undefined);
  await clock.advance(1000);
  await until(() => !store.offsets.isDirty);
  t.same(tableIn(dir), { "T@g": { 0: 4 } });
  const writes = () => fileSystem.count("pwritev", { path: /config|consumerOffset/ });
  const before = writes();
  await clock.advance(60_000);
  t.equal(writes(), before, "nothing new");
  store.offsets.commit({ ...queue, offset: 6 });
  await clock.advance(5000);
  await until(() => !store.offsets.isDirty);
  t.same(tableIn(dir), { "T@g": { 0: 6 } });
  t.same(tableIn(dir, `${FILE}.bak`), { "T@g": { 0: 4 } });
  store.offsets.commit({ ...queue, offset: 8 });
  await store.close();
  t.same(tableIn(dir), { "T@g": { 0: 8 } });
  t.throws(() => store.offsets.commit({ ...queue, offset: 9 }), { code: "STORE_CLOSED" });
  const again = await openStore(t, dir);
  t.equal(again.store.offsets.get(queue), 8);

  function killedWith(copy: string): unknown {
    return existsSync(join(copy, FILE)) ? tableIn(copy) : undefined;
  }
});

t.test("the version grows with every 500th commit", async (t) => {
  const { store } = await openStore(t, storePath(t));
  for (let offset = 0; offset < 1499; offset++) {
    store.offsets.commit({ group: "g", topic: "T", offset });
  }
  t.equal(store.offsets.version.counter, 2);
  store.offsets.commit({ group: "g", topic: "T", offset: 1 });
  t.equal(store.offsets.version.counter, 3);
});

t.test(
  "the log is synced before an offset is: no group skips what comes after a crash",
  async (t) => {
    const dir = storePath(t);
    const clock = new FakeClock();
    const { store, fileSystem } = await openStore(t, dir, {}, { clock });
    await putMany(store, 5);
    t.ok(store.watermarks.flushed < store.watermarks.wrote);
    store.offsets.commit({ group: "g", topic: "T", offset: 5 });
    const end = store.watermarks.wrote;
    const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
    const flushing = store.offsets.flush();
    await held.waiting;
    await turns(5);
    t.notOk(existsSync(join(dir, FILE)), "not before the log");
    // What is committed meanwhile leads into what that sync does not cover.
    await store.put(message("5"));
    store.offsets.commit({ group: "g", topic: "T", offset: 6 });
    held.release();
    await flushing;
    t.ok(store.watermarks.flushed >= end);
    t.same(tableIn(dir), { "T@g": { 0: 5 } });
    t.ok(store.offsets.isDirty);
    await store.offsets.flush();
    t.same(tableIn(dir), { "T@g": { 0: 6 } });
  },
);

t.test("a store that has failed writes no offsets; one whose file fails tries again", async (t) => {
  const dir = storePath(t);
  const clock = new FakeClock();
  const { store, fileSystem, warnings } = await openStore(t, dir, {}, { clock });
  await putMany(store, 5);
  store.offsets.commit({ group: "g", topic: "T", offset: 3 });
  fileSystem.failNext("rename", "EIO", { path: /consumerOffset/ });
  await clock.advance(5000);
  const told = () => warnings.filter((warning) => /offsets/.test(warning));
  await until(() => told().length > 0);
  t.match(told(), [/Cannot write .*consumerOffset\.json; consumer offsets are only in memory/]);
  t.equal(store.state, "open");
  await clock.advance(5000);
  await until(() => !store.offsets.isDirty);
  t.same(tableIn(dir), { "T@g": { 0: 3 } });
  await store.put(message("x"));
  store.offsets.commit({ group: "g", topic: "T", offset: 6 });
  fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
  t.match(await rejection(store.offsets.flush()), { code: "STORE_IO" });
  t.equal(store.state, "failed");
  const before = told().length;
  await clock.advance(60_000);
  t.equal(told().length, before, "nothing is tried any more");
  await store.close();
  t.same(tableIn(dir), { "T@g": { 0: 3 } }, "these messages are delivered again");
});

t.test("offsets beyond the end of their queue are reported", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, 5);
  store.offsets.commit({ group: "g", topic: "T", offset: 5 });
  store.offsets.commit({ group: "h", topic: "T", offset: 9 });
  await store.close();
  const { warnings, store: again } = await openStore(t, dir);
  t.match(warnings, [/: 1, the first that of group h at 9 in T\/0, which ends at 5$/]);
  t.equal(again.offsets.get({ group: "h", topic: "T" }), 9, "it is left");
});

t.test("files of all versions load equal", async (t) => {
  const old = `{
	"dataVersion":{
		"counter":12,
		"stateVersion":0,
		"timestamp":1726740000123
	},
	"groupTopicMap":{
		"group-a":["%RETRY%group-a","TopicTest"]
	},
	"offsetTable":{
		"TopicTest@group-a":{0:250,1:250,2:251,3:250
		},
		"%RETRY%group-a@group-a":{0:0
		}
	}
}`;
  const newer = old.replace(
    "{0:250,1:250,2:251,3:250",
    "{\n\t\t\t0:250,\n\t\t\t1:250,\n\t\t\t2:251,\n\t\t\t3:250",
  );
  const oldest =
    '{"offsetTable":{"TopicTest@group-a":{0:250,1:250,2:251,3:250},"%RETRY%group-a@group-a":{0:0}}}';
  const lists = [];
  for (const [i, text] of [old, newer, oldest].entries()) {
    const dir = storePath(t, `${i}`);
    mkdirSync(join(dir, "config"), { recursive: true });
    writeFileSync(join(dir, FILE), text);
    const { store } = await openStore(t, dir);
    lists.push(store.offsets.list());
    store.offsets.commit({ group: "group-a", topic: "TopicTest", offset: 251 });
    await store.close();
    const written = JSON.parse(readFileSync(join(dir, FILE), "utf8"));
    t.same(written.offsetTable, {
      "TopicTest@group-a": { 0: 251, 1: 250, 2: 251, 3: 250 },
      "%RETRY%group-a@group-a": { 0: 0 },
    });
    t.notOk("groupTopicMap" in written, "a broker makes it anew");
    t.equal(written.dataVersion.counter, text === oldest ? 0 : 12);
  }
  t.equal(lists[0]?.length, 5);
  t.same(lists[1], lists[0]);
  t.same(lists[2], lists[0]);
});

t.test("with enableLmq there is another file, and light queues are plain numbers", async (t) => {
  const dir = storePath(t);
  const file = "config/lmqConsumerOffset.json";
  const { store } = await openStore(t, dir, { enableLmq: true });
  store.offsets.commit({ group: "%LMQ%g", topic: "%LMQ%q", offset: 17 });
  store.offsets.commit({ group: "g", topic: "T", offset: 3 });
  await store.close();
  const written = JSON.parse(readFileSync(join(dir, file), "utf8"));
  t.same(written.lmqOffsetTable, { "%LMQ%q@%LMQ%g": 17 });
  t.same(written.offsetTable, { "T@g": { 0: 3 } });
  const again = await openStore(t, dir, { enableLmq: true });
  t.equal(again.store.offsets.get({ group: "%LMQ%g", topic: "%LMQ%q" }), 17);
  t.equal(again.store.offsets.removeGroup("%LMQ%g"), 1);
});

t.test("20,000 queues of groups are written in a moment", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  for (let i = 0; i < 20_000; i++) {
    store.offsets.commit({ group: `g${i % 100}`, topic: `t${i >> 4}`, queueId: i % 16, offset: i });
  }
  const startedAt = performance.now();
  await store.offsets.flush();
  t.comment(`${Math.round(performance.now() - startedAt)} ms`);
  await store.close();
  const again = await openStore(t, dir);
  t.equal(again.store.offsets.list().length, 20_000);
});
