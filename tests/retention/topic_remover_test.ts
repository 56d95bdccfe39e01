// Deleting topics: what goes, what stays, and where a topic goes on that is put to again.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { MessageStore } from "../../lib/mod.ts";
import { rejection } from "../support/rejections.ts";
import {
  bodies,
  checkStore,
  eachBinding,
  killedCopy,
  message,
  openStore,
  putMany,
  SMALL,
  storePath,
} from "../support/stores.ts";

/** Units in a queue file of these stores. */
const PER_FILE = (SMALL.mappedFileSizeConsumeQueue as number) / 20;

const topicsOn = (dir: string): string[] => readdirSync(join(dir, "consumequeue")).sort();
const topicsOf = (store: MessageStore): string[] => [
  ...new Set(store.queues().map(({ topic }) => topic)),
];

eachBinding(t, "deleteTopics() removes all that a topic has, but no record", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  await store.topics.update("A", { readQueueNums: 2 });
  await putMany(store, 3, { topic: "A" });
  await store.put(message("with a key", { topic: "A", queueId: 1, keys: ["k"] }));
  await putMany(store, 3, { topic: "B" });
  store.offsets.commit({ group: "g", topic: "A", offset: 2 });
  store.offsets.commit({ group: "g", topic: "B", offset: 2 });
  await store.checkpoint();
  const [unit] = await store.units({ topic: "A", from: 0 });
  const end = store.watermarks.wrote;
  t.equal(await store.deleteTopics(["A", "unknown", "A"]), 1);
  t.strictSame(topicsOn(dir), ["B"]);
  t.strictSame(topicsOf(store), ["B"]);
  t.equal(store.topics.get("A"), undefined);
  t.strictSame(
    store.offsets.list().map(({ topic }) => topic),
    ["B"],
  );
  t.equal(store.maxOffset("A"), 0);
  t.match(await store.get({ topic: "A", offset: 0 }), { status: "NO_MATCHED_LOGIC_QUEUE" });
  t.equal(store.watermarks.wrote, end);
  t.equal((await store.lookup(unit?.physicalOffset ?? -1))?.topic, "A");
  t.equal((await store.query({ topic: "A", key: "k" })).messages.length, 1);
  t.match(store.deletedTopics, [{ topic: "A", below: end }]);
  t.equal(await store.deleteTopics(["A"]), 0);
  await checkStore(t, store, dir);
  await store.close();
});

t.test("a topic that was deleted goes on with the next file of its queue", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, PER_FILE + 1, { topic: "A" });
  await store.put(message("of queue 1", { topic: "A", queueId: 1 }));
  await store.deleteTopics(["A"]);
  const { queueOffset } = await store.put(message("new", { topic: "A" }));
  t.equal(queueOffset, 2 * PER_FILE);
  t.equal((await store.put(message("", { topic: "A", queueId: 2 }))).queueOffset, 0);
  const check = async (of: MessageStore, place: string): Promise<void> => {
    t.equal(of.minOffset("A"), queueOffset);
    t.equal(of.maxOffset("A"), queueOffset + 1);
    t.strictSame(await bodies(of, "A"), ["new"]);
    t.match(await of.get({ topic: "A", offset: 1 }), {
      status: "OFFSET_TOO_SMALL",
      nextBeginOffset: queueOffset,
    });
    await checkStore(t, of, place);
  };
  await check(store, dir);
  const killed = killedCopy(t, dir);
  await store.close();
  for (const place of [dir, killed]) {
    const { store: again } = await openStore(t, place);
    await check(again, place);
    t.equal(again.maxOffset("A", 1), 0);
    t.strictSame(again.recovery.rebuiltQueues, []);
    const put = await again.put(message("", { topic: "A", queueId: 1 }));
    t.equal(put.queueOffset, PER_FILE);
    await again.close();
    const { store: whole } = await openStore(t, place, { recoverWholeLog: true });
    await check(whole, place);
    t.equal(whole.maxOffset("A", 1), PER_FILE + 1);
    t.strictSame(whole.recovery.misplaced, []);
    await whole.close();
  }
});

t.test("a consumer goes on with what is put to its topic after the deletion", async (t) => {
  const { store } = await openStore(t, storePath(t));
  await putMany(store, 2, { topic: "A" });
  const seen: string[] = [];
  for await (const { body } of store.consume({ topic: "A" })) {
    seen.push(body.toString());
    if (seen.length === 2) {
      await store.deleteTopics(["A"]);
      setImmediate(() => void store.put(message("new", { topic: "A" })));
    }
    if (seen.length === 3) break;
  }
  t.strictSame(seen, ["0", "1", "new"]);
  await store.close();
});

t.test("queues of a topic that was deleted are not rebuilt", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, 3, { topic: "A" });
  await putMany(store, 3, { topic: "B" });
  await store.deleteTopics(["A"]);
  await putMany(store, 3, { topic: "B" });
  const killed = killedCopy(t, dir);
  await store.close();
  for (const place of [dir, killed]) {
    for (const options of [{}, { recoverWholeLog: true }]) {
      const { store: again } = await openStore(t, place, options);
      t.strictSame(topicsOn(place), ["B"]);
      t.equal(again.maxOffset("A"), 0);
      t.equal(again.maxOffset("B"), 6);
      if (!options.recoverWholeLog) t.strictSame(again.recovery.rebuiltQueues, []);
      await again.close();
    }
  }
});

/** A store that was closed after its topic A had been deleted, and the file that tells so. */
async function closedAfterDeletion(t: Test): Promise<{ dir: string; list: string }> {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, 3, { topic: "A" });
  await store.deleteTopics(["A"]);
  await store.close();
  return { dir, list: join(dir, "forcelog/deleted-topics") };
}

t.test("what another store has built of a deleted topic goes, unless it was put to", async (t) => {
  const { dir, list } = await closedAfterDeletion(t);
  const text = readFileSync(list);
  // As a Java store does, which knows nothing of the list.
  const asAnother = async (count: number): Promise<void> => {
    unlinkSync(list);
    const { store: other } = await openStore(t, dir, { recoverWholeLog: true });
    t.equal(other.maxOffset("A"), 3);
    await putMany(other, count, { topic: "A" });
    await other.close();
    writeFileSync(list, text);
  };
  await asAnother(0);
  const { store: cleared } = await openStore(t, dir);
  t.equal(cleared.maxOffset("A"), 0);
  t.strictSame(topicsOn(dir), []);
  await cleared.close();
  await asAnother(1);
  const { store: kept } = await openStore(t, dir);
  t.equal(kept.maxOffset("A"), 4);
  await checkStore(t, kept, dir);
  await kept.close();
});

t.test("deleted topics are forgotten with the log", async (t) => {
  const dir = storePath(t);
  const most = {
    commitLogMaxBytes: 2 * (SMALL.mappedFileSizeCommitLog as number),
    deleteCommitLogFilesInterval: 0,
    deleteConsumeQueueFilesInterval: 0,
  };
  const { store } = await openStore(t, dir, most);
  await putMany(store, 3, { topic: "A" });
  await store.deleteTopics(["A"]);
  t.equal(store.deletedTopics.length, 1);
  await putMany(store, 12, { topic: "B", size: 20_000 });
  await store.clean();
  t.ok(store.minPhysicalOffset > 0);
  t.strictSame(store.deletedTopics, []);
  t.equal((await store.put(message("", { topic: "A" }))).queueOffset, 0);
  await store.close();
  const { store: again } = await openStore(t, dir, most);
  t.strictSame(again.deletedTopics, []);
  t.equal(again.maxOffset("A"), 1);
  await again.close();
});

t.test("a damaged list of deleted topics is not believed", async (t) => {
  const { dir, list } = await closedAfterDeletion(t);
  writeFileSync(list, readFileSync(list, "utf8").replace('"A"', '"B"'));
  t.match(await rejection(MessageStore.open(dir, SMALL)), {
    code: "STORE_CONFIG_DAMAGED",
    path: list,
  });
  const warnings: string[] = [];
  const reading = await MessageStore.open(dir, SMALL, {
    readOnly: true,
    onWarning: (warning) => warnings.push(warning),
  });
  t.match(warnings, [/deleted-topics: damaged/]);
  await t.rejects(reading.deleteTopics(["A"]), TypeError);
  await reading.close();
});

t.test("folders of other kinds of queues go with the topic", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await store.put(message("", { topic: "A" }));
  const kinds = ["consumequeue_ext", "batchconsumequeue"];
  for (const kind of kinds) {
    mkdirSync(join(dir, kind, "A/0"), { recursive: true });
    writeFileSync(join(dir, kind, "A/0/00000000000000000000"), "units");
  }
  await store.deleteTopics(["A"]);
  for (const kind of [...kinds, "consumequeue"]) t.notOk(existsSync(join(dir, kind, "A")), kind);
  await store.close();
});

t.test("cleanUnusedTopics() leaves what is named, RocketMQ's own and light queues", async (t) => {
  const options = { enableLmq: true, enableMultiDispatch: true };
  const { store } = await openStore(t, storePath(t), options);
  for (const topic of ["A", "B", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x"]) {
    await store.put(message("", { topic }));
  }
  const light = { topic: "C", properties: { INNER_MULTI_DISPATCH: "%LMQ%a" } };
  await store.put(message("", light));
  t.strictSame(await store.cleanUnusedTopics(["B"]), ["A", "C"]);
  t.strictSame(topicsOf(store), ["%LMQ%a", "B", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x"]);
  await t.rejects(store.deleteTopics(["B", "SCHEDULE_TOPIC_XXXX"]), RangeError);
  t.equal(store.maxOffset("B"), 1);
  t.equal(await store.deleteTopics(["%LMQ%a"]), 1);
  t.strictSame(topicsOf(store), ["B", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x"]);
  await store.put(message("again", light));
  t.equal(store.minOffset("%LMQ%a"), PER_FILE);
  t.strictSame(await bodies(store, "%LMQ%a"), ["again"]);
  await store.close();
});

t.test("close() waits for a deletion, and none comes after it", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  for (const topic of ["A", "B", "C"]) await putMany(store, 3, { topic });
  await store.topics.update("B");
  const deletions = Promise.allSettled(["A", "B", "C"].map((topic) => store.deleteTopics([topic])));
  const put = store.put(message("", { topic: "A" }));
  await store.close();
  await put;
  const outcomes = await deletions;
  const { store: again } = await openStore(t, dir);
  t.equal(again.recovery.cleanStop, true);
  for (const [i, topic] of ["A", "B", "C"].entries()) {
    const outcome = outcomes[i];
    if (outcome?.status === "rejected") t.match(outcome.reason, { code: "STORE_CLOSED" });
    // What was told in time is so.
    else t.notOk(topicsOf(again).includes(topic) && again.minOffset(topic) === 0, topic);
  }
  await checkStore(t, again, dir);
  await again.close();
});

t.test("a store that has failed deletes no topic", async (t) => {
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir);
  await putMany(store, 3, { topic: "A" });
  await store.topics.update("A");
  fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
  await t.rejects(store.flush());
  t.match(await rejection(store.deleteTopics(["A"])), { code: "STORE_IO" });
  t.ok(store.topics.get("A"));
  t.equal(store.maxOffset("A"), 3);
  await store.close();
});

eachBinding(t, "a deletion that can't be written down changes nothing", async (t, binding) => {
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir, {}, { binding });
  await putMany(store, 3, { topic: "A" });
  fileSystem.failNext("rename", "ENOSPC", { path: /deleted-topics/ });
  t.match(await rejection(store.deleteTopics(["A"])), { code: "STORE_IO" });
  t.equal(store.maxOffset("A"), 3);
  t.equal((await store.put(message("", { topic: "A" }))).queueOffset, 3);
  await checkStore(t, store, dir);
  t.equal(await store.deleteTopics(["A"]), 1);
  await store.close();
});

eachBinding(t, "a deletion whose files can't be removed is completed later", async (t, binding) => {
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir, {}, { binding });
  await putMany(store, 2 * PER_FILE, { topic: "A" });
  await store.checkpoint();
  fileSystem.failNext("unlink", "EACCES", { path: /consumequeue\/A/ });
  t.match(await rejection(store.deleteTopics(["A"])), { code: "STORE_IO" });
  t.equal(store.maxOffset("A"), 0);
  t.equal((await store.put(message("new", { topic: "A" }))).queueOffset, 2 * PER_FILE);
  await checkStore(t, store, dir);
  const killed = killedCopy(t, dir);
  await store.close();
  for (const place of [dir, killed]) {
    const { store: again } = await openStore(t, place);
    t.equal(again.minOffset("A"), 2 * PER_FILE);
    t.strictSame(await bodies(again, "A"), ["new"]);
    t.strictSame(readdirSync(join(place, "consumequeue/A/0")), [
      String(2 * PER_FILE * 20).padStart(20, "0"),
    ]);
    await again.close();
  }
});
