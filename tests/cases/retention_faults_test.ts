// Reported faults (F..) and RocketMQ's weaknesses (12.x, W..) of retention and of search by time: what
// is right here.

import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { FakeClock } from "../../lib/testing/mod.ts";
import { openGolden } from "../support/golden.ts";
import { rejection } from "../support/rejections.ts";
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
  bodies,
  checkStore,
  eachBinding,
  killedCopy,
  logFile,
  message,
  openStore,
  putMany,
  storePath,
} from "../support/stores.ts";

const NOT_NOW = { deleteWhen: "" } as const;

t.test("F12 a queue whose messages are all gone begins where it ends", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store, dir } = rig;
  await putMany(store, 250, { topic: "A", size: 1500 });
  await putMany(store, 250, { topic: "B", size: 1500 });
  await store.checkpoint();
  const [last] = await store.units({ topic: "A", from: 249, count: 1 });
  const first = (await store.units({ topic: "B", from: 0, count: 1 }))[0]?.physicalOffset ?? 0;
  await store.clean();
  t.ok(store.minPhysicalOffset > (last?.physicalOffset ?? 0));
  t.ok(store.minPhysicalOffset > first);
  const check = async (of: typeof store): Promise<void> => {
    t.equal(of.minOffset("A"), 250);
    t.equal(of.maxOffset("A"), 250);
    t.match(await of.get({ topic: "A", offset: 0 }), {
      status: "OFFSET_TOO_SMALL",
      nextBeginOffset: 250,
    });
    for (const boundary of ["lower", "upper"] as const) {
      t.equal(await of.offsetByTime({ topic: "A", timestamp: 5, boundary }), 250);
    }
    t.equal(of.maxOffset("B"), 250);
    t.ok(of.minOffset("B") > 0 && of.minOffset("B") < 250);
  };
  await check(store);
  await store.close();
  const { store: again } = await openStore(t, dir);
  await check(again);
  t.equal((await again.put(message("next", { topic: "A" }))).queueOffset, 250, "it goes on");
});

t.test("F18 nothing is deleted from the middle, and never the newest", async (t) => {
  const rig = await retentionRig(t, { ...EXPIRES, fileReservedTime: 1 });
  const { store, clock, dir } = rig;
  await fillFiles(store, 4);
  const old = clock.now() - 2 * HOUR;
  setFileTime(dir, FILE, old);
  setFileTime(dir, 2 * FILE, old);
  await store.clean();
  t.equal(logStarts(rig).length, 5);
  setFileTime(dir, 0, old);
  await store.clean();
  t.same(logStarts(rig), [3 * FILE, 4 * FILE]);
  t.same(
    rig.events.flatMap((event) => (event.kind === "logFile" ? [event.offset] : [])),
    [0, FILE, 2 * FILE],
  );
  for (const start of [3, 4]) setFileTime(dir, start * FILE, old);
  await store.clean();
  t.same(logStarts(rig), [4 * FILE]);
});

t.test("F19 a reader beyond an end is sent to that end", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store } = rig;
  await fillFiles(store, 2);
  await store.clean();
  const { min, max } = { min: store.minOffset("T"), max: store.maxOffset("T") };
  t.same([min, max], [2 * PER_FILE, 2 * PER_FILE + 1]);
  for (const [offset, status, next] of [
    [2, "OFFSET_TOO_SMALL", min],
    [max, "OFFSET_OVERFLOW_ONE", max],
    [max + 1, "OFFSET_OVERFLOW_BADLY", max],
    [1000, "OFFSET_OVERFLOW_BADLY", max],
  ] as const) {
    t.match(await store.get({ topic: "T", offset }), { status, nextBeginOffset: next });
  }
});

t.test("F21 equal, missing, too early and too late times", async (t) => {
  const clock = new FakeClock(1000);
  const { store } = await openStore(t, storePath(t), {}, { clock });
  for (const time of [100, 100, 100, 200, 200]) {
    clock.setWall(1000 + time);
    await store.put(message("m"));
  }
  for (const [time, lower, upper] of [
    [50, 0, 0],
    [100, 0, 2],
    [150, 3, 2],
    [200, 3, 4],
    [250, 5, 4],
  ] as const) {
    const request = { topic: "T", timestamp: 1000 + time };
    t.equal(await store.offsetByTime(request), lower, `lower ${time}`);
    t.equal(await store.offsetByTime({ ...request, boundary: "upper" }), upper, `upper ${time}`);
  }
});

t.test("F22 a time before what is left leads to the first message", async (t) => {
  const clock = new FakeClock(Date.now() + 30_000);
  const rig = await retentionRig(t, EXPIRES, { clock });
  const { store } = rig;
  const times: number[] = [];
  for (let i = 0; i < 100; i++) {
    clock.setWall(clock.now() + 10);
    times.push((await store.put(message(`${i}`.padEnd(5000, ".")))).storeTimestamp);
  }
  await store.clean();
  const min = store.minOffset("T");
  t.ok(min > 0);
  for (const boundary of ["lower", "upper"] as const) {
    for (const timestamp of [0, times[0] as number, times[min - 1] as number]) {
      t.equal(await store.offsetByTime({ topic: "T", timestamp, boundary }), min);
    }
    const timestamp = times[min] as number;
    t.equal(await store.offsetByTime({ topic: "T", timestamp, boundary }), min);
  }
});

t.test("F42 a disk that can't be asked counts as one with space", async (t) => {
  const rig = await retentionRig(t, { ...NOT_NOW, fileReservedTime: 0 });
  const { store, fileSystem, warnings } = rig;
  await fillFiles(store, 2);
  fileSystem.failNext("statfs", "ENOENT", { times: 1000 });
  for (let i = 0; i < 10; i++) await store.clean();
  t.equal(logStarts(rig).length, 3);
  t.match(store.stats(), { diskFull: false, commitLogDiskRatio: undefined });
  t.equal(warnings.length, 2, "one for each disk");
  await store.put(message("taken"));
});

t.test("F43, 12.28 each reason to refuse puts has its own state, and ends by itself", async (t) => {
  const disk = { log: 95, queues: 95 };
  const rig = await retentionRig(t, { ...NOT_NOW, cleanFileForciblyEnable: false }, { disk });
  const { store, warnings } = rig;
  const refused = async (): Promise<string> =>
    ((await rejection(store.put(message("refused")))) as Error).message;
  t.match(await refused(), /commitlog is 95 per cent full/, "from the first put on");
  disk.log = 10;
  await store.clean();
  t.match(await refused(), /consumequeue is 95 per cent full/);
  disk.log = 95;
  disk.queues = 10;
  await store.clean();
  t.match(await refused(), /commitlog is 95 per cent full/);
  disk.log = 88;
  await store.clean();
  t.match(await refused(), /commitlog is 88 per cent full/, "between the limits it stays");
  disk.log = 85;
  await store.clean();
  await store.put(message("taken"));
  t.match(warnings, [/^Puts are refused/, /^There is space again/]);
  t.match(await store.stats(), { diskFull: false, commitLogDiskRatio: 0.85, putsFailed: 4 });
  // A failed sync beside a full disk: space clears only the one.
  rig.fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/, times: 100 });
  await rejection(store.flush());
  disk.log = 10;
  await store.clean();
  t.match(await refused(), /an earlier write or sync failed/);
  t.equal(store.state, "failed");
});

t.test("12.3 what was accepted is flushed while the disk is full, at a close too", async (t) => {
  const rig = await retentionRig(t, {
    flushDiskType: "ASYNC_FLUSH",
    cleanFileForciblyEnable: false,
  });
  const { store, disk, clock, dir } = rig;
  const { physicalOffset, size } = await store.put(message("before"));
  t.ok(store.watermarks.flushed < physicalOffset + size);
  disk.log = 99;
  await store.clean();
  t.match(await rejection(store.put(message("refused"))), {
    status: "SERVICE_NOT_AVAILABLE",
    outcome: "not stored",
  });
  await clock.advance(11_000);
  await store.durable(physicalOffset + size);
  await store.close();
  t.notOk(existsSync(join(dir, "abort")), "W19 it is a clean stop");
  const { store: again } = await openStore(t, dir);
  t.ok(again.recovery.cleanStop);
  t.same(await bodies(again), ["before"]);
});

t.test("12.26, W14 the age of messages, not of files, if it is asked for", async (t) => {
  for (const fileAgeBy of ["mtime", "storeTimestamp"] as const) {
    const clock = new FakeClock(Date.now() - 5 * HOUR);
    const dir = storePath(t, fileAgeBy);
    const rig = await retentionRig(
      t,
      { ...EXPIRES, fileReservedTime: 2, fileAgeBy },
      { clock, dir },
    );
    const { store } = rig;
    await fillFiles(store, 2);
    await store.checkpoint();
    clock.setWall(clock.now() + HOUR);
    await fillFiles(store, 1);
    // All files were copied just now.
    clock.setWall(Date.now());
    await store.clean();
    const starts = logStarts(rig);
    t.same(starts, fileAgeBy === "mtime" ? [0, FILE, 2 * FILE, 3 * FILE] : [3 * FILE], fileAgeBy);
    t.same(rig.warnings, []);
  }
});

t.test("12.27 a clock that goes back disorders no search by time", async (t) => {
  const clock = new FakeClock(10_000_000);
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { clock });
  for (const time of [10, 20, 5, 7, 30]) {
    clock.setWall(10_000_000 + time);
    await store.put(message("m"));
  }
  const search = (timestamp: number) =>
    store.offsetByTime({ topic: "T", timestamp: 10_000_000 + timestamp });
  t.same([await search(10), await search(20), await search(21)], [0, 1, 4]);
});

t.test(
  "F63 a file from the future is kept, with one warning, but not by a full disk",
  async (t) => {
    const rig = await retentionRig(t, { ...EXPIRES, fileReservedTime: 1 });
    const { store, clock, dir, disk, warnings } = rig;
    await fillFiles(store, 3);
    await store.checkpoint();
    setFileTime(dir, 0, clock.now() + 24 * HOUR);
    await store.clean();
    await store.clean();
    t.equal(logStarts(rig).length, 4);
    t.match(warnings, [/which is still to come/]);
    disk.log = 88;
    await store.clean();
    t.same(logStarts(rig), [3 * FILE], "it stays so full: all but the newest");
    disk.log = 50;
    await fillFiles(store, 1);
    const starts = logStarts(rig);
    for (const start of starts) setFileTime(dir, start, 0);
    await store.clean();
    t.same(logStarts(rig), starts.slice(-1), "a time of 0 is an old one, as in RocketMQ");
    t.equal((await bodies(store)).at(-1), String(PER_FILE));
  },
);

t.test("W11 a full disk costs no more than it has to, and who is concerned is told", async (t) => {
  const rig = await retentionRig(t, NOT_NOW, { neededFrom: () => FILE });
  const { store, disk, events, fileSystem } = rig;
  await fillFiles(store, 5);
  await store.checkpoint();
  disk.log = 88;
  // Each file that goes makes room for one per cent.
  const before = fileSystem.calls.filter(({ name }) => name === "unlink").length;
  const relief = setInterval(() => {
    const gone = fileSystem.calls.filter(({ name }) => name === "unlink").length - before;
    disk.log = 88 - gone;
  }, 0);
  await store.clean();
  clearInterval(relief);
  const files = events.flatMap((event) => (event.kind === "logFile" ? [event] : []));
  t.ok(files.length >= 3 && files.length <= 4, `${files.length} of 5 went`);
  t.match(files[0], { reason: "disk", needed: false });
  t.match(files[1], { reason: "disk", needed: true });
  const [queue] = events.filter(({ kind }) => kind === "queue");
  t.match(queue, { topic: "T", from: 0, to: files.length * PER_FILE });
});

t.test("W12 a queue that is empty keeps its number over restarts and crashes", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store, dir } = rig;
  await putMany(store, 7, { topic: "Rare" });
  await fillFiles(store, 2);
  await store.clean();
  t.equal(store.maxOffset("Rare"), 7);
  const killed = killedCopy(t, dir);
  await store.close();
  for (const directory of [killed, dir]) {
    const { store: again } = await openStore(t, directory);
    t.equal(again.minOffset("Rare"), 7);
    t.equal((await again.put(message("m", { topic: "Rare" }))).queueOffset, 7);
    await checkStore(t, again, directory);
  }
});

t.test("W13 a second opener cannot delete anything", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store, dir } = rig;
  await fillFiles(store, 2);
  const files = readdirSync(join(dir, "commitlog"));
  t.match(await rejection(openStore(t, dir, EXPIRES)), { code: "STORE_LOCKED" });
  // One more may have been made ahead.
  t.same(readdirSync(join(dir, "commitlog")).slice(0, files.length), files);
});

t.test("W4 files that can't follow the log stop no dispatch", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store, fileSystem } = rig;
  await fillFiles(store, 2);
  await store.checkpoint();
  // The queues can't follow: their files stay, and everything goes on.
  fileSystem.failNext("unlink", "EACCES", { path: /consumequeue/, times: 3 });
  await rejection(store.clean()).catch(() => undefined);
  await fillFiles(store, 1);
  t.equal(store.maxOffset("T"), 3 * PER_FILE + 2);
  t.equal((await bodies(store)).length, store.maxOffset("T") - store.minOffset("T"));
});

t.test("F61 queues are built from the first file that is left", async (t) => {
  const rig = await retentionRig(t, EXPIRES);
  const { store, dir } = rig;
  await fillFiles(store, 5);
  await store.close();
  rmSync(join(dir, "consumequeue"), { recursive: true });
  for (const start of [0, 1, 2]) rmSync(logFile(dir, start * FILE));
  const { store: again } = await openStore(t, dir);
  t.equal(again.minOffset("T"), 3 * PER_FILE);
  t.equal(again.maxOffset("T"), 5 * PER_FILE + 1);
  await checkStore(t, again, dir);
});

eachBinding(t, "F54 deleting beside writes that are slow mixes nothing up", async (t, binding) => {
  const clock = new FakeClock(Date.now() + 30_000);
  const dir = storePath(t);
  const options = { ...EXPIRES, mappedFileSizeConsumeQueue: 200 };
  const { store, fileSystem } = await openStore(t, dir, options, { binding, clock });
  for (let round = 0; round < 4; round++) {
    await fillFiles(store, 2);
    const held = fileSystem.hold("fdatasync", { path: /consumequeue|commitlog/ });
    const written = store.checkpoint();
    const cleaned = store.clean();
    await Promise.race([held.waiting, written]);
    const more = fillFiles(store, 1);
    held.release();
    await Promise.all([written, cleaned, more]);
    fileSystem.clear();
  }
  await store.clean();
  await checkStore(t, store, dir);
  t.ok(queueStarts(dir).length <= 2);
});

t.test("a store whose front RocketMQ has deleted is cleaned further", async (t) => {
  const { dir, recipe } = openGolden(t, "expired-front");
  const rig = await retentionRig(t, { ...recipe.config, deleteFileBatchMax: 10 }, { dir });
  const { store } = rig;
  t.equal(store.minPhysicalOffset, 131_072);
  const before = await bodies(store, "Old", 0);
  await store.clean();
  t.equal(logStarts(rig).length, 1);
  const after = await bodies(store, "Old", 0);
  t.same(before.slice(-after.length), after);
  await checkStore(t, store, dir);
});
