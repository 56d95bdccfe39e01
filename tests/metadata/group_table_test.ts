// Consumer groups, in a file that a broker reads.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { rejection } from "../support/rejections.ts";
import { openStore, storePath } from "../support/stores.ts";

const DEFAULTS = {
  attributes: {},
  brokerId: 0,
  consumeBroadcastEnable: true,
  consumeEnable: true,
  consumeFromMinEnable: true,
  consumeMessageOrderly: false,
  consumeTimeoutMinute: 15,
  groupRetryPolicy: { type: "CUSTOMIZED" },
  groupSysFlag: 0,
  notifyConsumerIdsChangedEnable: true,
  retryMaxTimes: 16,
  retryQueueNums: 1,
  whichBrokerWhenConsumeSlowly: 1,
};

t.test("update() makes and changes a group; the file is RocketMQ's", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  const { groups } = store;
  t.strictSame(await groups.update("group-a"), { ...DEFAULTS, groupName: "group-a" });
  const text = readFileSync(join(dir, "config/subscriptionGroup.json"), "utf8");
  t.match(text, '\n\t"forbiddenTable":{},\n\t"subscriptionGroupTable":{\n\t\t"group-a":{\n');
  t.strictSame(JSON.parse(text).subscriptionGroupTable, {
    "group-a": { ...DEFAULTS, groupName: "group-a" },
  });
  const changed = await groups.update("group-a", {
    consumeEnable: false,
    retryMaxTimes: -1,
    attributes: { "priority.factor": "0.5" },
    groupRetryPolicy: { type: "EXPONENTIAL", initial: 5000, max: 7_200_000, multiplier: 2 },
  });
  t.match(changed, { consumeEnable: false, retryMaxTimes: -1, consumeTimeoutMinute: 15 });
  await groups.update("b", { groupRetryPolicy: { type: "CUSTOMIZED", next: [1000, 2000] } });
  const table = () =>
    JSON.parse(readFileSync(join(dir, "config/subscriptionGroup.json"), "utf8"))
      .subscriptionGroupTable;
  t.same(table()["group-a"].groupRetryPolicy, {
    exponentialRetryPolicy: { initial: 5000, max: 7_200_000, multiplier: 2 },
    type: "EXPONENTIAL",
  });
  t.same(table().b.groupRetryPolicy, {
    customizedRetryPolicy: { next: [1000, 2000] },
    type: "CUSTOMIZED",
  });
  const all = groups.list();
  t.same(
    all.map(({ groupName }) => groupName),
    ["b", "group-a"],
  );
  await store.close();
  const again = await openStore(t, dir);
  t.strictSame(again.store.groups.list(), all);
  t.equal(await again.store.groups.delete("b"), true);
  t.equal(await again.store.groups.delete("b"), false);
  t.same(Object.keys(table()), ["group-a"]);
});

t.test("a file of RocketMQ 4.9 is read, and what is not known stays", async (t) => {
  const dir = storePath(t);
  mkdirSync(join(dir, "config"), { recursive: true });
  const path = join(dir, "config/subscriptionGroup.json");
  writeFileSync(
    path,
    `{"dataVersion":{"counter":1,"timestamp":5},"subscriptionGroupTable":{
      "g":{"brokerId":0,"consumeEnable":true,"groupName":"g","retryQueueNums":2,
        "subscriptionDataSet":[{"topic":"T","expression":"*"}],
        "groupRetryPolicy":{"type":"FUTURE","futurePolicy":{"a":1}}}},
      "forbiddenTable":{"g":{"T":4,"U":6},"other":{"T":4}}}`,
  );
  const { store } = await openStore(t, dir);
  const { groups } = store;
  t.match(groups.get("g"), { ...DEFAULTS, retryQueueNums: 2 });
  t.same(
    [groups.forbidden("g", "T"), groups.forbidden("g", "V"), groups.forbidden("x", "T")],
    [4, 0, 0],
  );
  await groups.update("g", { consumeEnable: false });
  const written = JSON.parse(readFileSync(path, "utf8"));
  t.match(written.subscriptionGroupTable.g, {
    consumeEnable: false,
    subscriptionDataSet: [{ topic: "T", expression: "*" }],
    groupRetryPolicy: { type: "FUTURE", futurePolicy: { a: 1 } },
    consumeTimeoutMinute: 15,
  });
  // RocketMQ forgets all topics of the group here, and does not write it.
  await groups.setForbidden("g", "T", 0);
  t.same(JSON.parse(readFileSync(path, "utf8")).forbiddenTable, { g: { U: 6 }, other: { T: 4 } });
  await groups.setForbidden("new", "T", 4);
  await groups.setForbidden("g", "U", 0);
  await groups.delete("other");
  t.same(JSON.parse(readFileSync(path, "utf8")).forbiddenTable, { new: { T: 4 } });
});

t.test("what is no group is refused", async (t) => {
  const { store } = await openStore(t, storePath(t));
  const { groups } = store;
  for (const [name, settings, type] of [
    ["", {}, RangeError],
    ["a b", {}, RangeError],
    ["x".repeat(121), {}, RangeError],
    ["g", { consumeEnable: 1 }, TypeError],
    ["g", { retryMaxTimes: -2 }, RangeError],
    ["g", { nothing: 1 }, TypeError],
    ["g", { attributes: { x: "1" } }, RangeError],
    ["g", { groupRetryPolicy: { type: "NONE" } }, RangeError],
    ["g", { groupRetryPolicy: { type: "CUSTOMIZED", next: [-1] } }, RangeError],
    ["g", { groupRetryPolicy: { type: "EXPONENTIAL", next: [1] } }, TypeError],
  ] as const) {
    t.type(
      await rejection(groups.update(name, settings as object)),
      type,
      JSON.stringify(settings),
    );
  }
  t.type(await rejection(groups.setForbidden("g", "T", -1)), RangeError);
  t.same(groups.list(), []);
});
