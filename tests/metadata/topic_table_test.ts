// Topics: made, changed, listed and removed as a broker does it, in a file that a broker reads.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { FakeClock } from "../../lib/testing/mod.ts";
import { rejection } from "../support/rejections.ts";
import { message, openStore, storePath } from "../support/stores.ts";

/** As a broker of 5.x writes it, with members that are not known here. */
const FILE = `{
	"dataVersion":{
		"counter":3,
		"stateVersion":5,
		"timestamp":1726740000123,
		"futureVersion":1
	},
	"futureTable":{7:"x"},
	"topicConfigTable":{
		"TopicTest":{
			"attributes":{
				"message.type":"NORMAL",
				"future.attribute":"y"
			},
			"future":[1,2],
			"order":false,
			"perm":6,
			"readQueueNums":4,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"TopicTest",
			"topicSysFlag":0,
			"writeQueueNums":4
		},
		"bare":{},
		"texts":{"perm":"4","order":"true","readQueueNums":"2"}
	}
}`;

function withFile(directory: string, text = FILE, name = "topics.json"): string {
  mkdirSync(join(directory, "config"), { recursive: true });
  const path = join(directory, "config", name);
  writeFileSync(path, text);
  return path;
}

t.test("a store without config/ gets none until something is written", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await store.put(message("a"));
  t.equal(store.topics.get("T"), undefined, "the store needs no topic");
  t.same(store.topics.list(), []);
  await store.close();
  t.notOk(existsSync(join(dir, "config")));
});

t.test("update() makes and changes a topic, durably, and tells the version", async (t) => {
  const dir = storePath(t);
  const clock = new FakeClock(1_700_000_000_000);
  const { store, fileSystem } = await openStore(t, dir, {}, { clock });
  const made = await store.topics.update("orders", {
    readQueueNums: 4,
    writeQueueNums: 8,
    attributes: { "message.type": "FIFO", "queue.type": "SimpleCQ" },
  });
  t.same(made, {
    topicName: "orders",
    attributes: { "message.type": "FIFO", "queue.type": "SimpleCQ" },
    order: false,
    perm: 6,
    readQueueNums: 4,
    topicFilterType: "SINGLE_TAG",
    topicSysFlag: 0,
    writeQueueNums: 8,
  });
  t.equal(store.topics.get("orders"), made);
  t.equal(
    readFileSync(join(dir, "config/topics.json"), "utf8"),
    `{
	"dataVersion":{
		"counter":1,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"topicConfigTable":{
		"orders":{
			"attributes":{
				"message.type":"FIFO",
				"queue.type":"SimpleCQ"
			},
			"order":false,
			"perm":6,
			"readQueueNums":4,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"orders",
			"topicSysFlag":0,
			"writeQueueNums":8
		}
	}
}`,
  );
  t.equal(fileSystem.calls.at(-1)?.name, "syncDirectory");
  clock.setWall(1_700_000_000_500);
  const changed = await store.topics.update("orders", {
    perm: 2,
    order: true,
    attributes: { "message.type": null },
  });
  t.match(changed, { perm: 2, order: true, readQueueNums: 4, attributes: {} });
  t.same(changed.attributes, { "queue.type": "SimpleCQ" });
  t.match(store.topics.version, { counter: 2, timestamp: 1_700_000_000_500 });
  await store.topics.update("a");
  t.same(
    store.topics
      .list()
      .map(({ topicName, readQueueNums, perm }) => [topicName, readQueueNums, perm]),
    [
      ["a", 16, 6],
      ["orders", 4, 2],
    ],
  );
  t.equal(await store.topics.delete("a"), true);
  t.equal(await store.topics.delete("a"), false);
  await store.close();
  const again = await openStore(t, dir);
  t.same(again.store.topics.list(), [changed]);
  t.equal(again.store.topics.version.counter, 4);
});

t.test("what a broker wrote is read, and what is not known stays as it is", async (t) => {
  const dir = storePath(t);
  const path = withFile(dir);
  const filter = withFile(dir, '{"filterDataByTopic":{"T":{7:1}}}', "consumerFilter.json");
  const { store, warnings } = await openStore(t, dir);
  const { topics } = store;
  t.match(topics.get("TopicTest"), { readQueueNums: 4, attributes: { "future.attribute": "y" } });
  t.match(topics.get("bare"), { readQueueNums: 16, writeQueueNums: 16, perm: 6, order: false });
  t.match(topics.get("texts"), { readQueueNums: 2, perm: 4, order: true });
  t.match(topics.version, { counter: 3, timestamp: 1726740000123 });
  await topics.update("TopicTest", { perm: 4 });
  await store.close();
  const written = JSON.parse(readFileSync(path, "utf8"));
  t.same(written.futureTable, { 7: "x" });
  t.match(written.dataVersion, { counter: 4, stateVersion: 5, futureVersion: 1 });
  const { TopicTest, bare, texts } = written.topicConfigTable;
  t.match(TopicTest, { future: [1, 2], perm: 4 });
  t.same(TopicTest.attributes, { "future.attribute": "y", "message.type": "NORMAL" });
  t.same([bare, texts], [{}, { perm: "4", order: "true", readQueueNums: "2" }]);
  t.equal(readFileSync(`${path}.bak`, "utf8"), FILE);
  t.equal(readFileSync(filter, "utf8"), '{"filterDataByTopic":{"T":{7:1}}}');
  t.same(readdirSync(join(dir, "config")).sort(), [
    "consumerFilter.json",
    "topics.json",
    "topics.json.bak",
  ]);
  t.same(warnings, []);
});

t.test("update() refuses what RocketMQ refuses, and changes nothing then", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  const { topics } = store;
  await topics.update("fixed", { attributes: { "cleanup.policy": "DELETE" } });
  const before = readFileSync(join(dir, "config/topics.json"), "utf8");
  for (const [name, settings, type] of [
    ["", {}, RangeError],
    ["a b", {}, RangeError],
    ["../x", {}, RangeError],
    ["a@b", {}, RangeError],
    ["x".repeat(128), {}, RangeError],
    [7, {}, TypeError],
    ["TBW102", {}, RangeError],
    ["SCHEDULE_TOPIC_XXXX", {}, RangeError],
    ["rmq_sys_x", {}, RangeError],
    ["x", { perm: 8 }, RangeError],
    ["x", { perm: -1 }, RangeError],
    ["x", { perm: "6" }, TypeError],
    ["x", { readQueueNums: 1.5 }, RangeError],
    ["x", { writeQueueNums: 2 ** 31 }, RangeError],
    ["x", { order: 1 }, TypeError],
    ["x", { topicFilterType: "ALL" }, RangeError],
    ["x", { queues: 4 }, TypeError],
    ["x", { attributes: { nothing: "x" } }, RangeError],
    ["x", { attributes: { toString: "x" } }, RangeError],
    ["x", { attributes: { "message.type": "ODD" } }, RangeError],
    ["x", { attributes: { "message.type": 1 } }, TypeError],
    ["x", { attributes: { "reserve.time": "-2" } }, RangeError],
    ["fixed", { attributes: { "cleanup.policy": "COMPACTION" } }, RangeError],
    ["fixed", { attributes: { "queue.type": "BatchCQ" } }, RangeError],
  ] as const) {
    const call = topics.update(name as string, settings as object);
    t.type(await rejection(call), type, `${name} ${JSON.stringify(settings)}`);
  }
  t.type(await rejection(topics.delete("TBW102")), RangeError);
  t.equal(readFileSync(join(dir, "config/topics.json"), "utf8"), before);
  await topics.update("x".repeat(127), { attributes: { "reserve.time": "-1" } });
  await topics.update("%RETRY%g|1", { attributes: { "cleanup.policy": "DELETE" } });
  await topics.update("fixed", { attributes: { "cleanup.policy": "DELETE" } });
});

t.test("ensure() makes a topic as a broker does for its first message", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  const { topics } = store;
  const shape = async (name: string, options?: { queues: number }) => {
    const { readQueueNums, writeQueueNums, perm } = await topics.ensure(name, options);
    return [readQueueNums, writeQueueNums, perm];
  };
  t.same(await shape("a"), [4, 4, 6]);
  t.same(await shape("b", { queues: 20 }), [8, 8, 6]);
  t.same(await shape("c", { queues: -1 }), [0, 0, 6]);
  t.same(await shape("a", { queues: 20 }), [4, 4, 6], "it is there already");
  t.same(await shape("%RETRY%g"), [1, 1, 6]);
  t.same(await shape("%DLQ%g"), [1, 1, 6]);
  t.same(await shape("SCHEDULE_TOPIC_XXXX"), [18, 18, 6]);
  t.same(await shape("TBW102"), [8, 8, 7]);
  t.type(await rejection(topics.ensure("a b")), RangeError);
  await store.close();
  const other = storePath(t, "other");
  withFile(other, '{"topicConfigTable":{"TBW102":{"perm":7,"writeQueueNums":2}}}');
  const inheriting = await openStore(t, other);
  t.match(await inheriting.store.topics.ensure("a"), { readQueueNums: 2, perm: 6 });
  const third = storePath(t, "third");
  withFile(third, '{"topicConfigTable":{"TBW102":{"perm":6}}}');
  const refusing = await openStore(t, third);
  t.type(await rejection(refusing.store.topics.ensure("a")), RangeError);
});

t.test("a write that fails is told, and made good later", async (t) => {
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir);
  fileSystem.failNext("rename", "EIO", { path: /topics/ });
  t.match(await rejection(store.topics.update("a")), {
    code: "STORE_IO",
    path: join(dir, "config/topics.json"),
  });
  t.ok(store.topics.get("a"));
  t.ok(store.topics.isDirty);
  t.equal(store.state, "open", "the log has nothing to do with it");
  await store.close();
  const again = await openStore(t, dir);
  t.ok(again.store.topics.get("a"));
});

t.test(
  "a damaged file keeps the store from opening only if its backup is damaged, too",
  async (t) => {
    const dir = storePath(t);
    const path = withFile(dir, '{"topicConfigTable":{"a":{"perm":"x"}}}');
    withFile(dir, '{"topicConfigTable":{"b":{}}}', "topics.json.bak");
    const { store, warnings } = await openStore(t, dir);
    t.same(
      store.topics.list().map(({ topicName }) => topicName),
      ["b"],
    );
    t.match(warnings, [
      /topics\.json: damaged at position 25: "perm" is "x", expected a whole number/,
    ]);
    await store.close();
    const other = storePath(t, "other");
    const bad = withFile(other, '{"topicConfigTable":[]}');
    withFile(other, "{", "topics.json.bak");
    const refused = await rejection(openStore(t, other));
    t.match(refused, { code: "STORE_CONFIG_DAMAGED", path: bad, position: 0 });
    const reader = await openStore(t, other, {}, { readOnly: true });
    t.same(reader.store.topics.list(), [], "looking at it is possible");
    t.match(reader.warnings, [/it starts empty/, /topics\.json\.bak/]);
    t.notOk(existsSync(path));
  },
);

t.test("a store that is open for reading, or closed, takes no changes", async (t) => {
  const dir = storePath(t);
  withFile(dir);
  const first = await openStore(t, dir);
  await first.store.close();
  const { store } = await openStore(t, dir, {}, { readOnly: true });
  t.equal(store.topics.list().length, 3);
  t.type(await rejection(store.topics.update("x")), TypeError);
  t.type(await rejection(store.topics.ensure("x")), TypeError);
  t.equal((await store.topics.ensure("bare")).topicName, "bare");
  t.type(await rejection(store.topics.delete("TopicTest")), TypeError);
  t.match(await rejection(first.store.topics.update("x")), { code: "STORE_CLOSED" });
  t.equal(first.store.topics.list().length, 3, "looking is possible");
});
