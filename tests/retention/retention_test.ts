import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { FakeClock } from "../../lib/testing/mod.ts";
import { until } from "../support/random.ts";
import {
  EXPIRES,
  FILE,
  fillFiles,
  HOUR,
  logStarts,
  PER_FILE,
  queueStarts,
  retentionRig,
  setFileTime,
} from "../support/retention_rig.ts";
import {
  BINDINGS,
  type Binding,
  bodies,
  checkStore,
  logFile,
  message,
  openStore,
  putMany,
  storePath,
} from "../support/stores.ts";

t.test("clean() deletes expired files, the oldest first, and never the newest", async (t) => {
  const rig = await retentionRig(t, { ...EXPIRES, mappedFileSizeConsumeQueue: 200 });
  const { store, events, dir } = rig;
  await fillFiles(store, 4);
  await store.clean();
  t.same(logStarts(rig), [4 * FILE]);
  t.equal(store.minPhysicalOffset, 4 * FILE);
  t.match(
    events.filter(({ kind }) => kind === "logFile"),
    [
      { path: logFile(dir, 0), offset: 0, size: FILE, reason: "age", needed: false },
      { offset: FILE },
      { offset: 2 * FILE },
      { offset: 3 * FILE },
    ],
  );
  t.same(
    events.filter(({ kind }) => kind === "queue"),
    [{ kind: "queue", topic: "T", queueId: 0, from: 0, to: 4 * PER_FILE }],
  );
  t.same(queueStarts(dir), [400], "queue files that hold only what is gone, go");
  t.equal(store.stats().deletedLogFiles, 4);
  t.same(await bodies(store), ["24"]);
  await store.clean();
  t.same(logStarts(rig), [4 * FILE]);
  await fillFiles(store, 1);
  t.equal((await bodies(store)).length, PER_FILE + 2, "it goes on");
  await checkStore(t, store, dir);
});

t.test("an expired file goes at its hours only", async (t) => {
  for (const deleteWhenUtc of [true, false]) {
    const clock = new FakeClock(Date.now());
    const hourOf = (date: Date): number => (deleteWhenUtc ? date.getUTCHours() : date.getHours());
    const other = (hourOf(new Date(clock.now())) + 2) % 24;
    const rig = await retentionRig(
      t,
      { fileReservedTime: 1, deleteWhen: `${other};${(other + 5) % 24}`, deleteWhenUtc },
      { clock, dir: storePath(t, `utc-${deleteWhenUtc}`) },
    );
    const { store } = rig;
    await fillFiles(store, 2);
    await store.clean();
    t.equal(logStarts(rig).length, 3, "too young, and not the hour");
    clock.setWall(clock.now() + 1.5 * HOUR);
    if (hourOf(new Date(clock.now())) !== other) {
      await store.clean();
      t.equal(logStarts(rig).length, 3, "old enough, and not the hour");
    }
    while (hourOf(new Date(clock.now())) !== other) clock.setWall(clock.now() + HOUR / 2);
    await store.clean();
    t.equal(logStarts(rig).length, 1);
  }
});

t.test("clean({ manual }) deletes what has expired at any hour, and nothing else", async (t) => {
  const rig = await retentionRig(t, { fileReservedTime: 1, deleteWhen: "", deleteFileBatchMax: 2 });
  const { store, clock, dir } = rig;
  await fillFiles(store, 7);
  for (const start of [0, 1, 2, 3, 4]) setFileTime(dir, start * FILE, clock.now() - 2 * HOUR);
  await store.clean();
  t.equal(logStarts(rig).length, 8, "not without it");
  await store.clean({ manual: true });
  t.same(logStarts(rig), [5 * FILE, 6 * FILE, 7 * FILE]);
});

/** Lets time pass until it is so: between two steps the device has some of its own. */
async function passUntil(clock: FakeClock, ms: number, condition: () => boolean): Promise<void> {
  for (let i = 0; i < 1000 && !condition(); i++) {
    await clock.advance(ms);
    await sleep(2);
  }
}

t.test("a run deletes deleteFileBatchMax files, with pauses", async (t) => {
  const rig = await retentionRig(t, {
    ...EXPIRES,
    deleteFileBatchMax: 2,
    deleteCommitLogFilesInterval: 100,
  });
  const { store, clock } = rig;
  await fillFiles(store, 6);
  let isOver = false;
  void store.clean().finally(() => {
    isOver = true;
  });
  await until(() => store.minPhysicalOffset === FILE);
  await sleep(50);
  t.equal(store.minPhysicalOffset, FILE, "it pauses");
  await passUntil(clock, 100, () => isOver);
  t.equal(store.minPhysicalOffset, 2 * FILE, "and has had its share");
});

t.test("it runs by itself, a minute after opening, and goes on", async (t) => {
  const rig = await retentionRig(t, { ...EXPIRES, deleteFileBatchMax: 1 });
  const { store, clock } = rig;
  await fillFiles(store, 4);
  await store.checkpoint();
  await clock.advance(59_000);
  t.equal(store.minPhysicalOffset, 0);
  await clock.advance(2000);
  await until(() => store.minPhysicalOffset === FILE);
  await passUntil(clock, 1000, () => store.minPhysicalOffset === 2 * FILE);
  await store.close();
  t.equal(clock.pendingTimers, 0, "nothing of it is left");
});

t.test("without retentionEnable nothing goes by itself, and no disk is asked", async (t) => {
  const rig = await retentionRig(t, { ...EXPIRES, retentionEnable: false });
  const { store, clock, fileSystem, disk } = rig;
  disk.log = 99;
  await fillFiles(store, 2);
  await clock.advance(200_000);
  t.equal(store.minPhysicalOffset, 0);
  t.equal(fileSystem.calls.filter(({ name }) => name === "statfs").length, 0);
  await rig.store.clean();
  t.equal(store.minPhysicalOffset, 2 * FILE, "asked for, it goes");
});

t.test("what is not yet in queue files is put there first", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store, dir } = rig;
  await store.put(message("only", { topic: "Only", queueId: 3 }));
  await fillFiles(store, 3);
  t.same(queueStarts(dir, "Only", 3), []);
  await store.clean();
  t.same(queueStarts(dir, "Only", 3), [0], "it knows where it goes on");
  t.match(store.queues()[0], { topic: "Only", minOffset: 1, maxOffset: 1 });
  await store.close();
  const { store: again } = await openStore(t, dir);
  t.match(again.queues()[0], { topic: "Only", minOffset: 1, maxOffset: 1 });
  t.equal((await again.put(message("next", { topic: "Only", queueId: 3 }))).queueOffset, 1);
});

t.test("a file that is being read stays readable until the read has ended", async (t) => {
  // Without the addon a read never ends at once.
  const binding = BINDINGS.at(-1) as Binding;
  const clock = new FakeClock(Date.now() + 30_000);
  const options = { ...EXPIRES, deleteFileBatchMax: 100 };
  const { store, fileSystem } = await openStore(t, storePath(t), options, { binding, clock });
  // The first ones are no longer in memory.
  await fillFiles(store, 20);
  await store.checkpoint();
  const held = fileSystem.hold("pread", { path: /commitlog/ });
  const read = store.get({ topic: "T", offset: 0, maxMessages: 3 });
  await held.waiting;
  const cleaned = store.clean();
  await until(() => store.minPhysicalOffset === FILE);
  t.equal(await store.lookup(0), undefined, "nobody else finds it");
  held.release();
  const { messages, status } = await read;
  t.equal(status, "FOUND");
  t.same(
    messages.map(({ body }) => body.toString().replace(/\.+$/, "")),
    ["0", "1", "2"],
  );
  await cleaned;
  t.match(await store.get({ topic: "T", offset: 0 }), {
    status: "OFFSET_TOO_SMALL",
    nextBeginOffset: 20 * PER_FILE,
  });
  t.equal(await store.lookup(0), undefined);
});

t.test("a file that can't be deleted stays, and is tried again later", async (t) => {
  const rig = await retentionRig(t, { ...EXPIRES, redeleteHangedFileInterval: 5000 });
  const { store, clock, fileSystem, warnings } = rig;
  await fillFiles(store, 3);
  fileSystem.failNext("unlink", "EACCES", { path: /commitlog/ });
  await store.clean();
  t.equal(store.minPhysicalOffset, 0);
  t.match(warnings, [/^Cannot delete .*0: EACCES/]);
  t.equal((await bodies(store)).length, 3 * PER_FILE + 1);
  await store.clean();
  t.equal(store.minPhysicalOffset, 0, "not at once");
  await clock.advance(5000);
  await store.clean();
  t.equal(store.minPhysicalOffset, 3 * FILE);
  t.equal(warnings.length, 1);
});

t.test("a deletion that may not be durable ends deleting", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store, fileSystem, warnings } = rig;
  await fillFiles(store, 3);
  await store.checkpoint();
  fileSystem.failNext("syncDirectory", "EIO", { path: /commitlog/ });
  await store.clean();
  t.equal(store.minPhysicalOffset, FILE);
  t.match(warnings, [/^Cannot make the deletion of .* durable/]);
  await store.clean();
  t.equal(store.minPhysicalOffset, FILE);
  await store.put(message("it goes on"));
});

t.test("a file that somebody else deleted is no error", async (t) => {
  const rig = await retentionRig(t, { ...EXPIRES, fileAgeBy: "storeTimestamp" });
  const { store, dir, warnings } = rig;
  await fillFiles(store, 3);
  await store.checkpoint();
  rmSync(logFile(dir, 0));
  await store.clean();
  t.equal(store.minPhysicalOffset, 3 * FILE);
  t.same(warnings, []);
});

t.test("commitLogMaxBytes bounds the log", async (t) => {
  const rig = await retentionRig(t, { commitLogMaxBytes: 3 * FILE, deleteFileBatchMax: 1 });
  const { store, events } = rig;
  await fillFiles(store, 6);
  await store.clean();
  t.same(logStarts(rig), [4 * FILE, 5 * FILE, 6 * FILE]);
  t.match(events[0], { kind: "logFile", reason: "size" });
});

t.test("what a consumer needs is kept, up to a limit", async (t) => {
  let needed: number | undefined = FILE + 1;
  const rig = await retentionRig(
    t,
    { ...EXPIRES, consumerHoldMaxRatio: 80 },
    { neededFrom: () => needed },
  );
  const { store, disk, events } = rig;
  await fillFiles(store, 5);
  await store.clean();
  t.equal(store.minPhysicalOffset, FILE, "the second file is needed");
  t.match(events[0], { needed: false });
  disk.log = 80;
  await store.clean();
  t.equal(store.minPhysicalOffset, FILE);
  needed = 2 * FILE;
  await store.clean();
  t.equal(store.minPhysicalOffset, 2 * FILE);
  disk.log = 81;
  events.length = 0;
  await store.clean();
  t.equal(store.minPhysicalOffset, 5 * FILE, "beyond the limit it goes");
  t.match(events[0], { kind: "logFile", offset: 2 * FILE, reason: "age", needed: true });
});

/** What a group that was active in the last day has still to read is kept. */
const HOLDS = { ...EXPIRES, consumerActiveHours: 24 };

t.test("what an active group has still to read is kept", async (t) => {
  const rig = await retentionRig(t, { ...HOLDS, consumerHoldMaxRatio: 80 });
  const { store, disk, events, clock, dir } = rig;
  await fillFiles(store, 5);
  await store.checkpoint();
  const commit = (group: string, offset: number, topic = "T"): unknown =>
    store.offsets.commit({ group, topic, offset });
  commit("fast", 5 * PER_FILE);
  commit("slow", PER_FILE);
  commit("elsewhere", 0, "none");
  await store.clean();
  t.equal(store.minPhysicalOffset, FILE, "the slow one begins in the second file");
  t.match(events[0], { kind: "logFile", needed: false });
  commit("slow", PER_FILE + 1);
  await store.clean();
  t.equal(store.minPhysicalOffset, FILE, "and is still there");
  commit("slow", 2 * PER_FILE);
  await store.clean();
  t.equal(store.minPhysicalOffset, 2 * FILE);
  await clock.advance(25 * HOUR);
  commit("fast", 3 * PER_FILE);
  await store.clean();
  t.equal(store.minPhysicalOffset, 3 * FILE, "a group that rests for a day holds nothing");
  disk.log = 81;
  events.length = 0;
  await store.clean();
  t.equal(store.minPhysicalOffset, 5 * FILE, "beyond the limit it goes");
  t.match(events[0], { kind: "logFile", offset: 3 * FILE, needed: true });
  commit("fast", 0);
  await fillFiles(store, 1);
  await store.close();
  const again = await retentionRig(t, HOLDS, { dir, clock });
  const start = again.store.minPhysicalOffset;
  await again.store.clean();
  t.equal(again.store.minPhysicalOffset, start, "an offset before the first message: all of it");
  t.strictSame(again.warnings, []);
  await clock.advance(25 * HOUR);
  await again.store.clean();
  t.ok(again.store.minPhysicalOffset > start);
});

t.test(
  "without consumerActiveHours it deletes as RocketMQ does, whoever has read it",
  async (t) => {
    const { store } = await retentionRig(t, EXPIRES);
    await fillFiles(store, 3);
    store.offsets.commit({ group: "g", topic: "T", offset: 0 });
    await store.clean();
    t.equal(store.minPhysicalOffset, 3 * FILE);
  },
);

t.test("a queue that can't be read holds nothing, and is told", async (t) => {
  const { store, fileSystem, warnings } = await retentionRig(t, HOLDS);
  await fillFiles(store, 3);
  await store.checkpoint();
  store.offsets.commit({ group: "g", topic: "T", offset: 0 });
  fileSystem.failNext(["preadIfCached", "pread"], "EIO", { path: /consumequeue/ });
  await store.clean();
  t.match(warnings, [/^Cannot read .*; what consumers need of it is not kept$/]);
  t.equal(store.minPhysicalOffset, FILE, "once it can be read it holds the log again");
});

t.test("close() ends a run after the file that it is at", async (t) => {
  const rig = await retentionRig(t, { ...EXPIRES, deleteCommitLogFilesInterval: 1000 });
  const { store, dir } = rig;
  await fillFiles(store, 4);
  await store.checkpoint();
  const run = store.clean();
  await until(() => store.minPhysicalOffset === FILE);
  await store.close();
  await run;
  await t.rejects(store.clean(), { code: "STORE_CLOSED" });
  const { store: again } = await openStore(t, dir);
  t.equal(again.minPhysicalOffset, FILE);
  t.equal(again.recovery.cleanStop, true);
  t.equal((await bodies(again)).length, 3 * PER_FILE + 1);
  await checkStore(t, again, dir);
});

t.test("a store that is open for reading only is not cleaned", async (t) => {
  const dir = storePath(t);
  const { store: writer } = await openStore(t, dir, EXPIRES);
  await putMany(writer, 10);
  await writer.close();
  const { store } = await openStore(t, dir, EXPIRES, { readOnly: true });
  await t.rejects(store.clean(), TypeError);
});

t.test("a directory in the folder of the log is left alone", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  mkdirSync(join(rig.dir, "commitlog", "mine"));
  await fillFiles(rig.store, 2);
  await rig.store.clean();
  t.equal(rig.store.minPhysicalOffset, 2 * FILE);
});
