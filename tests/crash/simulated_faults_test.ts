// Reported faults of stores of this kind that have to do with crashes and damage, once more on a disk
// that keeps what is durable apart from what is not (tests/cases/ has them on a real one).

import t from "tap";
import { MessageStore, type PutResult, type StoreOptions } from "../../lib/mod.ts";
import {
  type Call,
  FakeClock,
  type Fault,
  randomOf,
  SimulatedDisk,
  SimulatedFileSystem,
} from "../../lib/testing/mod.ts";
import {
  type Base,
  baseOf,
  changeLog,
  evidenceOn,
  type Opened,
  openOn,
  placeIn,
  problemsOf,
  ROOT,
  segmentsOf,
  TINY,
} from "../support/damaged_store.ts";
import { seedOf, turns, until } from "../support/random.ts";
import { rejection } from "../support/rejections.ts";
import { bodies, message, putMany } from "../support/stores.ts";

const NOW = Date.UTC(2024, 0, 1);
const SYNC: StoreOptions = { ...TINY, flushDiskType: "SYNC_FLUSH" };
const MODES: Readonly<Record<string, StoreOptions>> = {
  SYNC_FLUSH: SYNC,
  ASYNC_FLUSH: TINY,
  pool: { ...TINY, transientStorePoolEnable: true },
};
const FILE_BYTES = TINY.mappedFileSizeCommitLog as number;

/** Nothing survives that was not synced. */
const NOTHING = { data: "none", names: "none" } as const;

interface Ruled extends Opened {
  /** What becomes of a call. */
  readonly rules: { fault: (call: Call) => Fault | undefined };
  readonly calls: Call[];
}

async function openRuled(disk: SimulatedDisk, options: StoreOptions, now = NOW): Promise<Ruled> {
  const calls: Call[] = [];
  const rules: Ruled["rules"] = { fault: () => undefined };
  const onCall = (call: Call) => {
    calls.push(call);
    return rules.fault(call);
  };
  const opened = await openOn(disk, options, now, new SimulatedFileSystem(disk, { onCall }));
  return { ...opened, rules, calls };
}

/** What is found there by whoever opens it next. */
async function found(disk: SimulatedDisk, options: StoreOptions): Promise<MessageStore> {
  return (await openOn(disk, options, NOW + 60_000)).store;
}

/** Some messages of one queue, over three files. */
function manyOf(options: StoreOptions = {}): Promise<Base> {
  return baseOf(options, (store) => putMany(store, 50, { size: 120 }));
}

const numbers = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => String(i + from));

t.test("F01 a record that can't be read after a clean stop: its place, and no other", async (t) => {
  const base = await baseOf({}, (store) => putMany(store, 20));
  const { offset } = base.records[15]!;
  for (const damagedLogPolicy of ["keep", "cut"] as const) {
    const disk = base.closed.fork();
    changeLog(disk, base.options, offset + 4, offset + 8, () => 0);
    const store = await found(disk, { ...base.options, damagedLogPolicy });
    const kept = damagedLogPolicy === "keep";
    t.equal(store.maxOffset("T"), kept ? 20 : 15);
    t.equal(store.watermarks.wrote, kept ? base.end : offset);
    t.equal((await store.put(message("new"))).queueOffset, kept ? 20 : 15);
    await store.close();
    const cut = await found(disk.cutPower(randomOf(1), NOTHING), base.options);
    t.equal((await bodies(cut)).at(-1), "new");
    await cut.close();
  }
});

t.test("F02 the marker of a clean stop comes last of all", async (t) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const disk = new SimulatedDisk();
    const { store, rules } = await openRuled(disk, options);
    await store.put(message("0"));
    const puts = Promise.all(numbers(9, 1).map((text) => store.put(message(text))));
    // Whatever is lost while it closes: with the marker there, everything is.
    const disks: SimulatedDisk[] = [];
    rules.fault = () => {
      disks.push(disk.cutPower(randomOf(disks.length), NOTHING));
      return undefined;
    };
    await store.close();
    await puts;
    disks.push(disk.cutPower(randomOf(7), NOTHING));
    let clean = 0;
    for (const cut of disks) {
      const isClean = !cut.list(ROOT).some(({ name }) => name === "abort");
      const again = await found(cut, options);
      if (isClean && clean++ >= 0) t.same(await bodies(again), numbers(10), mode);
      await again.close();
    }
    t.ok(clean > 0, `${mode}: ${disks.length} cuts`);
  }
});

t.test("F03 the checkpoint on disk is never ahead of the queues on disk", async (t) => {
  const random = randomOf(seedOf(t));
  const disk = new SimulatedDisk();
  const { store, clock } = await openOn(disk, TINY, NOW);
  const wrong: string[] = [];
  for (let i = 0; i < 40; i++) {
    await store.put(message(`${i}`.padEnd(100, "."), { queueId: i % 3 }));
    await clock.advance(300);
    if (i % 9 === 8) await store.checkpoint();
    const cut = disk.cutPower(random, NOTHING);
    const longs = cut.list(ROOT).some(({ name }) => name === "checkpoint")
      ? cut.read(`${ROOT}/checkpoint`)
      : Buffer.alloc(48);
    const claimed = Number(longs.readBigInt64BE(40));
    const again = await found(cut, TINY);
    // Units of records up to the one that is claimed were there before any recovery.
    const { scanStart } = again.recovery;
    if (claimed > 0 && scanStart.offset < claimed) wrong.push(`${i}: ${claimed} is not believed`);
    if (again.recovery.rebuiltQueues.length > 0) wrong.push(`${i}: a queue was rebuilt`);
    await again.close();
  }
  t.same(wrong, []);
  await store.close();
});

t.test("F04 SYNC_FLUSH: what is readable survives", async (t) => {
  const disk = new SimulatedDisk();
  const { store, rules } = await openRuled(disk, SYNC);
  await store.put(message("first"));
  const puts = numbers(5).map((text) => store.put(message(text)));
  const wrong: string[] = [];
  rules.fault = () => {
    const readable = store.maxOffset("T");
    const cut = disk.cutPower(randomOf(1), NOTHING);
    const bytes = cut.read(placeIn(SYNC, 0).path);
    let records = 0;
    for (let at = 0; bytes.readInt32BE(at) > 0; at += bytes.readInt32BE(at)) records++;
    if (records < readable) wrong.push(`${readable} readable, ${records} durable`);
    return undefined;
  };
  await Promise.all(puts);
  t.same(wrong, []);
  t.equal(store.maxOffset("T"), 6);
  rules.fault = () => undefined;
  await store.close();
});

t.test("F05 a newest file that is empty or short is made whole", async (t) => {
  const base = await manyOf();
  const nextLog = placeIn(base.options, base.end + FILE_BYTES).path;
  const units = base.options.mappedFileSizeConsumeQueue as number;
  const nextQueue = `${ROOT}/consumequeue/T/0/${String(units * 3).padStart(20, "0")}`;
  for (const size of [0, 1, 100]) {
    for (const stop of ["killed", "closed"] as const) {
      const disk = base[stop].fork();
      disk.write(nextLog, Buffer.alloc(size));
      disk.write(nextQueue, Buffer.alloc(size));
      const store = await found(disk, base.options);
      t.same(await problemsOf(store, base, { lost: new Set() }), [], `${size} bytes, ${stop}`);
      await putMany(store, 60, { size: 120 });
      t.equal((await bodies(store)).length, 110);
      await store.close();
    }
  }
});

t.test("F06 torn and garbled tails end the log at the last whole record", async (t) => {
  const base = await manyOf();
  const last = base.records.at(-1)!;
  const end = last.offset + last.size;
  for (const [name, from, to, change, lost] of [
    ["half of the last record is zero", last.offset + last.size / 2, end, () => 0, true],
    [
      "its size is 2^30",
      last.offset,
      last.offset + 4,
      (_: number, at: number) => (at === last.offset ? 64 : 0),
      true,
    ],
    ["garbage follows", end, end + 500, (_: number, at: number) => (at * 7919 + 13) & 255, false],
  ] as const) {
    const disk = base.killed.fork();
    changeLog(disk, base.options, Math.floor(from), to, change);
    const { store, warnings } = await openOn(disk, base.options, NOW);
    t.equal(store.watermarks.wrote, lost ? last.offset : end, name);
    t.equal(store.maxOffset("T"), lost ? 49 : 50);
    t.equal(warnings.length, 1, "blanks between files are no damage");
    t.equal(evidenceOn(disk).size, 1);
    await store.close();
  }
});

t.test("F07 a missing middle file is a gap: nobody reads a neighbour", async (t) => {
  const base = await manyOf();
  for (const stop of ["killed", "closed"] as const) {
    const disk = base[stop].fork();
    disk.remove(placeIn(base.options, FILE_BYTES).path);
    const store = await found(disk, base.options);
    const isGone = (offset: number) => offset >= FILE_BYTES && offset < 2 * FILE_BYTES;
    for (const [i, { offset, bytes }] of base.records.entries()) {
      const looked = await store.lookup(offset);
      const { status, messages, nextBeginOffset } = await store.get({ topic: "T", offset: i });
      if (isGone(offset)) {
        t.equal(looked, undefined);
        t.ok(nextBeginOffset > i, status);
      } else if (!looked?.bytes.equals(bytes) || !messages[0]?.bytes.equals(bytes)) {
        t.fail(`message ${i} at ${offset}`);
      }
    }
    const tells = store.recovery.gaps.length > 0;
    t.equal(tells, stop === "killed", "the part that is read again after a kill has the gap");
    await store.close();
  }
});

t.test("F09 recovery again and again changes nothing", async (t) => {
  const base = await manyOf();
  let disk = base.killed.fork();
  const digests: string[] = [];
  for (let i = 0; i < 4; i++) {
    const store = await found(disk, base.options);
    t.equal(store.maxOffset("T"), 50);
    digests.push(segmentsOf(disk));
    disk = i % 2 === 0 ? disk.kill(randomOf(i)) : disk.cutPower(randomOf(i), NOTHING);
    await store.close();
  }
  t.equal(new Set(digests).size, 1);
});

t.test("F11 no unit leads behind the end of the log", async (t) => {
  const base = await manyOf();
  const last = base.records.at(-1)!;
  for (const stop of ["killed", "closed"] as const) {
    const disk = base[stop].fork();
    changeLog(disk, base.options, last.offset + 90, last.offset + 94, (byte) => byte ^ 255);
    const store = await found(disk, base.options);
    t.equal(store.maxOffset("T"), 49);
    const units = await store.units({ topic: "T", from: 40, count: 100 });
    t.ok(units.every(({ physicalOffset, size }) => physicalOffset + size <= last.offset));
    await store.close();
  }
});

t.test("F44 short writes are gone on with, wherever the power goes then", async (t) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const disk = new SimulatedDisk();
    const { store, rules } = await openRuled(disk, options);
    let count = 0;
    rules.fault = ({ name }) =>
      /^pwritev/.test(name)
        ? { kind: "short", bytes: [1, 7, 100, 4000][count++ % 4] as number }
        : undefined;
    await putMany(store, 20, { size: 300 });
    await store.flush();
    await store.checkpoint();
    const cut = await found(disk.cutPower(randomOf(3), NOTHING), options);
    t.same(await bodies(cut), numbers(20), mode);
    await cut.close();
    await store.close();
  }
});

t.test("F45 a later success hides no failed sync, nor does a restart", async (t) => {
  const disk = new SimulatedDisk();
  const { store, rules, calls } = await openRuled(disk, SYNC);
  await store.put(message("before"));
  let failed = false;
  rules.fault = ({ name, path }) => {
    if (name !== "fdatasync" || !path.includes("commitlog") || failed) return undefined;
    failed = true;
    return { kind: "error", code: "EIO" };
  };
  t.match(await rejection(store.put(message("A"))), { outcome: "unknown" });
  const syncs = calls.filter(
    ({ name, path }) => name === "fdatasync" && path.includes("commitlog"),
  );
  t.match(await rejection(store.put(message("B"))), { outcome: "not stored" });
  t.match(await rejection(store.durable(store.watermarks.wrote)), { code: "STORE_IO" });
  t.equal(
    calls.filter(({ name, path }) => name === "fdatasync" && path.includes("commitlog")).length,
    syncs.length,
    "it was not tried again",
  );
  await store.close();
  // The next process finds A in the page cache: what it acknowledges then must survive a cut.
  const again = await found(disk, SYNC);
  await again.put(message("C"));
  const there = await bodies(again);
  const cut = await found(disk.cutPower(randomOf(4), NOTHING), SYNC);
  t.same(await bodies(cut), there);
  await cut.close();
  await again.close();
});

t.test("F46 a device that takes no more writes ends the acknowledgements", async (t) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const disk = new SimulatedDisk();
    const { store, clock, rules } = await openRuled(disk, options);
    await putMany(store, 2);
    await store.flush();
    rules.fault = ({ name }) =>
      /^(?:pwrite|fdatasync|commitAndForce)/.test(name)
        ? { kind: "error", code: "EROFS" }
        : undefined;
    const third = store.put(message("third"));
    if (mode === "pool") {
      await third;
      await clock.advance(500);
      await until(() => store.state === "failed");
    } else {
      t.match(await rejection(third), { outcome: "unknown" });
    }
    t.match(await rejection(store.put(message("fourth"))), { status: "SERVICE_NOT_AVAILABLE" });
    t.same(await bodies(store), ["0", "1"], "reads go on");
    await store.close();
    t.ok(disk.list(ROOT).some(({ name }) => name === "abort"));
    const cut = await found(disk.cutPower(randomOf(5), NOTHING), options);
    t.same((await bodies(cut)).slice(0, 2), ["0", "1"], mode);
    await cut.close();
  }
});

t.test("F47 names of new files are durable before the first put in them resolves", async (t) => {
  const disk = new SimulatedDisk();
  const { store } = await openOn(disk, SYNC, NOW);
  for (let i = 0; i < 60; i++) {
    await store.put(message(`${i}`.padEnd(300, ".")));
    const cut = disk.cutPower(randomOf(i), NOTHING);
    const { path } = placeIn(SYNC, store.watermarks.flushed - 1);
    t.ok(
      cut.list(`${ROOT}/commitlog`).some(({ name }) => path.endsWith(name)),
      `put ${i}`,
    );
    if (i % 10 > 0) continue;
    const again = await found(cut, SYNC);
    t.equal(again.maxOffset("T"), i + 1);
    await again.close();
  }
  await store.close();
});

t.test("F61 with its first files and all queues gone the rest keeps its offsets", async (t) => {
  const base = await manyOf();
  for (const stop of ["killed", "closed"] as const) {
    const disk = base[stop].fork();
    disk.remove(`${ROOT}/consumequeue`);
    disk.remove(placeIn(base.options, 0).path);
    const store = await found(disk, base.options);
    const first = base.records.findIndex(({ offset }) => offset >= FILE_BYTES);
    t.equal(store.minOffset("T"), first);
    t.equal(store.maxOffset("T"), 50);
    t.same(await bodies(store), numbers(50 - first, first));
    t.equal((await store.get({ topic: "T", offset: 0 })).nextBeginOffset, first);
    t.equal((await store.put(message("next"))).queueOffset, 50);
    await store.close();
  }
});

t.test("F62 a wall clock that jumps delays nothing, and times never go back", async (t) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const disk = new SimulatedDisk();
    const clock = new FakeClock(NOW);
    const fileSystem = new SimulatedFileSystem(disk);
    const store = await MessageStore.open(ROOT, options, {
      fileSystem,
      clock,
      onWarning: () => undefined,
    });
    const puts: PutResult[] = [];
    for (const jump of [0, -3_600_000, 7_200_000, -1]) {
      clock.setWall(clock.now() + jump);
      for (let i = 0; i < 5; i++) puts.push(await store.put(message(`${puts.length}`)));
      await clock.advance(1000);
      await turns(5);
    }
    const times = puts.map(({ storeTimestamp }) => storeTimestamp);
    t.same(
      times,
      [...times].sort((a, b) => a - b),
      mode,
    );
    await clock.advance(20_000);
    await until(() => store.watermarks.flushed === store.watermarks.wrote);
    t.ok(store.stats().longestForceMs >= 0);
    await store.close();
    const again = await found(disk, options);
    t.same(await bodies(again), numbers(20));
    await again.close();
  }
});

t.test("F68 whoever opens and closes leaves no handle", async (t) => {
  const disk = new SimulatedDisk();
  const { calls, store } = await openRuled(disk, TINY);
  await putMany(store, 100, { size: 100 });
  await store.close();
  const count = (name: string) => calls.filter((call) => call.name === name).length;
  t.equal(count("close"), count("open"));
  t.equal(count("lock.close"), count("lock"));
  const again = await openRuled(disk, TINY);
  await again.store.close();
  const opened = again.calls.filter(({ name }) => name === "open").length;
  t.equal(again.calls.filter(({ name }) => name === "close").length, opened);
});

t.test("F72 damage in an old file is told apart from what is not there", async (t) => {
  const base = await manyOf();
  const { offset } = base.records[3]!;
  const disk = base.closed.fork();
  changeLog(disk, base.options, offset + 100, offset + 101, (byte) => byte ^ 1);
  const store = await found(disk, base.options);
  const place = {
    code: "STORE_RECORD_DAMAGED",
    path: placeIn(base.options, 0).path,
    position: offset,
  };
  t.match(await rejection(store.lookup(offset)), place);
  t.match(await rejection(store.get({ topic: "T", offset: 3 })), place);
  t.equal(await store.lookup(base.end + 1000), undefined);
  t.equal((await store.get({ topic: "T", offset: 4 })).status, "FOUND");
  t.equal(store.maxOffset("T"), 50, "nothing was cut");
  await store.close();
});
