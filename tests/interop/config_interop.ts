// The files of config/: RocketMQ's broker reads what we wrote, we read what it wrote, and both go on with
// what the other one left.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { MessageStore } from "../../lib/mod.ts";
import { JAVA_VERSIONS } from "../support/oracle.ts";
import { openStore, putMany, storePath } from "../support/stores.ts";
import { BrokerConfig } from "./broker_config.ts";

/** Whose groups a broker adds to every file. */
const BUILT_IN = /^group\t(CID_|TOOLS_|FILTERSRV_|SELF_TEST_)/;

/** What a store has, in the words of `ConfigFiles.java`. */
function linesOf(store: MessageStore): string[] {
  const line = (...fields: readonly unknown[]): string =>
    fields
      .map((field) =>
        typeof field === "object"
          ? `{${Object.entries(field as object)
              .sort(([a], [b]) => (a < b ? -1 : 1))
              .map((pair) => pair.join("="))
              .join(", ")}}`
          : String(field),
      )
      .join("\t");
  const groups = store.groups.list();
  const topics = store.topics.list();
  return [
    ...topics.map((topic) =>
      line(
        ...["topic", topic.topicName, topic.perm, topic.readQueueNums, topic.writeQueueNums],
        ...[topic.topicFilterType, topic.topicSysFlag, topic.order, topic.attributes],
      ),
    ),
    ...groups.map((group) =>
      line(
        ...["group", group.groupName, group.consumeEnable, group.consumeFromMinEnable],
        ...[group.consumeBroadcastEnable, group.consumeMessageOrderly, group.retryQueueNums],
        ...[group.retryMaxTimes, group.brokerId, group.whichBrokerWhenConsumeSlowly],
        ...[group.consumeTimeoutMinute, group.attributes],
      ),
    ),
    ...groups.flatMap(({ groupName }) =>
      topics
        .map(({ topicName }) => [topicName, store.groups.forbidden(groupName, topicName)] as const)
        .filter(([, mask]) => mask !== 0)
        .map(([topic, mask]) => line("forbidden", groupName, topic, mask)),
    ),
    ...store.offsets
      .list()
      .map(({ topic, group, queueId, offset }) =>
        line("offset", `${topic}@${group}`, queueId, offset),
      ),
    ...store.delayOffsets.list().map(({ level, offset }) => line("delay", level, offset)),
    ...Object.entries({ "topics.json": store.topics, "subscriptionGroup.json": store.groups }).map(
      ([name, { version }]) => line("version", name, version.counter, version.timestamp, 0),
    ),
  ].sort();
}

const own = (lines: readonly string[]): string[] =>
  lines.filter((line) => !BUILT_IN.test(line)).sort();

async function fill(store: MessageStore): Promise<void> {
  await putMany(store, 3, { topic: "T", queueId: 1 });
  await store.topics.update("T", { readQueueNums: 2, writeQueueNums: 3, perm: 4, order: true });
  await store.topics.update("with-attributes", {
    topicFilterType: "MULTI_TAG",
    topicSysFlag: 3,
    attributes: { "message.type": "FIFO", "reserve.time": "5" },
  });
  await store.topics.ensure("%RETRY%g");
  await store.topics.ensure("TBW102");
  await store.groups.update("g", {
    consumeEnable: false,
    consumeMessageOrderly: true,
    retryMaxTimes: 3,
    brokerId: 2,
    groupRetryPolicy: { type: "EXPONENTIAL", initial: 10, max: 1000, multiplier: 3 },
  });
  await store.groups.update("h", { consumeTimeoutMinute: 1 });
  await store.groups.setForbidden("g", "T", 4);
  store.offsets.commit({ group: "g", topic: "T", queueId: 1, offset: 2 });
  store.offsets.commit({ group: "h", topic: "T", queueId: 1, offset: 3 });
  store.offsets.commit({ group: "h", topic: "U", queueId: 12, offset: Number.MAX_SAFE_INTEGER });
  store.delayOffsets.set(3, 0);
  store.delayOffsets.set(4, 7);
}

function tests(t: Test, broker: BrokerConfig): void {
  t.test("it reads what we wrote, and we read what it makes of that", async (t) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir);
    await fill(store);
    const ours = linesOf(store);
    const groups = store.groups.list();
    await store.close();
    const config = join(dir, "config");
    t.strictSame(own(broker.run("read", config)), ours);
    t.strictSame(own(broker.run("rewrite", config)), ours);
    const { store: again, warnings } = await openStore(t, dir);
    t.strictSame(own(linesOf(again)), ours);
    for (const { groupName, groupRetryPolicy } of groups) {
      t.match(again.groups.get(groupName)?.groupRetryPolicy, groupRetryPolicy);
    }
    t.notOk(
      warnings.some((warning) => warning.includes("config")),
      "nothing is damaged",
    );
    await again.close();
  });

  t.test("we read what it wrote, and it reads what we make of that", async (t) => {
    const dir = storePath(t);
    const config = join(dir, "config");
    mkdirSync(config, { recursive: true });
    const theirs = own(broker.run("write", config));
    t.equal(theirs.length, 10);
    const { store } = await openStore(t, dir);
    t.strictSame(own(linesOf(store)), theirs);
    await fill(store);
    const both = linesOf(store);
    await store.close();
    const seen = broker.run("read", config);
    t.strictSame(own(seen), own(both));
    t.ok(seen.some((line) => BUILT_IN.test(line)));
    for (const line of theirs.filter((line) => !line.startsWith("version"))) {
      t.ok(seen.includes(line), line);
    }
  });
}

t.test("config", async (t) => {
  // 5 and later: the broker of 4.9 has these classes elsewhere.
  for (const version of JAVA_VERSIONS.filter((version) => version.startsWith("5."))) {
    t.test(version, async (t) => {
      const broker = BrokerConfig.make(t, version);
      if (broker instanceof BrokerConfig) tests(t, broker);
      else t.pass("skipped", { skip: `RocketMQ's broker is not at hand: ${broker}` });
    });
  }
});
