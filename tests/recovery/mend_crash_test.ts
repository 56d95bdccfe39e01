// A recovery that mends the log is killed, loses its power or fails, before each of its calls: the
// next one ends where it would have ended, and what was damaged is kept all the same.

import t from "tap";
import { StoreError } from "../../lib/mod.ts";
import {
  type Call,
  randomOf,
  type SimulatedDisk,
  SimulatedFileSystem,
  type Survival,
} from "../../lib/testing/mod.ts";
import { judge, someMessages } from "../support/damage_trial.ts";
import {
  type Base,
  baseOf,
  changeLog,
  evidenceOn,
  openOn,
  problemsOf,
  readLog,
  segmentsOf,
  touchedBy,
} from "../support/damaged_store.ts";
import { sliceSeedOf } from "../support/random.ts";

/** Three holes (in a file, up to its end, over a border) and a torn end with garbage behind it. */
const base = await baseOf({ mappedFileSizeCommitLog: 2048 }, (store) => someMessages(store, 60));
const last = base.records.at(-1)!;
const blank = base.blanks[2]!;
const RANGES = [
  { from: base.records[3]!.offset + 5, to: base.records[3]!.offset + 300 },
  { from: blank - 40, to: blank + 10 },
  { from: base.blanks[3]! - 150, to: 4 * 2048 + 30 },
];
const CUT = { from: last.offset + 4, to: base.end + 500 };

interface Wanted {
  readonly damaged: SimulatedDisk;
  readonly lost: ReadonlySet<number>;
  readonly holes: readonly { readonly offset: number; readonly end: number }[];
  /** What an undisturbed recovery leaves. */
  readonly segments: string;
  /** The calls that it takes. */
  readonly opening: readonly Call[];
}

/** Damages a copy and recovers another one undisturbed. */
async function wantedOf(base: Base): Promise<Wanted> {
  const damaged = base.killed.fork();
  const lost = new Set([last.offset]);
  const holes: { offset: number; end: number }[] = [];
  for (const { from, to } of RANGES) {
    changeLog(damaged, base.options, from, to, (byte) => byte ^ 0x5a);
    const touched = touchedBy(base, from, to);
    holes.push(touched);
    for (const offset of touched.lost) lost.add(offset);
  }
  changeLog(damaged, base.options, CUT.from, CUT.to, (byte) => byte ^ 0x5a);
  const disk = damaged.fork();
  const calls: Call[] = [];
  const onCall = (call: Call) => {
    calls.push(call);
    return undefined;
  };
  const { store } = await openOn(
    disk,
    base.options,
    base.now,
    new SimulatedFileSystem(disk, { onCall }),
  );
  if (store.recovery.holes.length !== 3 || store.recovery.cut?.offset !== last.offset) {
    throw new Error(`recovery found ${JSON.stringify(store.recovery)}`);
  }
  const segments = segmentsOf(disk);
  const opening = [...calls];
  await store.close();
  return { damaged, lost, holes, segments, opening };
}

const wanted = await wantedOf(base);

/** What is wrong once the store has been opened again on what an interrupted recovery left. */
async function openAgain(disk: SimulatedDisk): Promise<string[]> {
  const { store } = await openOn(disk, base.options, base.now + 1000);
  const wrong = await problemsOf(store, { ...base, end: last.offset }, { lost: wanted.lost });
  if (segmentsOf(disk) !== wanted.segments) wrong.push("log and queues are not as they should be");
  if (store.watermarks.wrote !== last.offset) wrong.push(`it ends at ${store.watermarks.wrote}`);
  const evidence = [...evidenceOn(disk)];
  for (const { offset, end } of wanted.holes) {
    const bytes = readLog(wanted.damaged, base.options, offset, end);
    const prefix = `hole-${String(offset).padStart(20, "0")}-`;
    const isKept = evidence.some(
      ([name, kept]) => name.startsWith(prefix) && bytes.subarray(0, kept.length).equals(kept),
    );
    if (!isKept) wrong.push(`what was at ${offset} is kept nowhere`);
  }
  const tail = readLog(wanted.damaged, base.options, last.offset, CUT.to);
  const isTailKept = evidence.some(([name, kept]) => name.startsWith("cut-") && kept.equals(tail));
  if (!isTailKept) wrong.push("what was cut is kept nowhere");
  await store.close();
  return wrong;
}

/** Calls that change something. */
const CHANGES =
  /^(?:open|mkdir|rename|unlink|pwritev|pwritevNow|commitAndForce|ftruncate|fdatasync|syncDirectory)$/;
const changing = wanted.opening.filter(
  ({ name, mode }) => CHANGES.test(name) && mode !== "read" && mode !== "write",
);

/** Disks as they are before some calls of an opening. */
async function disksBefore(numbers: ReadonlySet<number>): Promise<SimulatedDisk[]> {
  const disk = wanted.damaged.fork();
  const disks: SimulatedDisk[] = [];
  const onCall = ({ number }: Call) => {
    if (numbers.has(number)) disks.push(disk.fork());
    return undefined;
  };
  const opened = await openOn(
    disk,
    base.options,
    base.now,
    new SimulatedFileSystem(disk, { onCall }),
  );
  await opened.store.close();
  return disks;
}

t.test(
  "recover() that is killed before any of its calls ends the same the next time",
  async (t) => {
    const wrong: string[] = [];
    const disks = await disksBefore(new Set(changing.map(({ number }) => number)));
    for (const [i, disk] of disks.entries()) {
      const { number, name, path } = changing[i]!;
      const found = await openAgain(disk.kill(randomOf(number)));
      wrong.push(...found.map((text) => `before call ${number}, ${name} ${path}: ${text}`));
    }
    t.ok(disks.length > 40, `${disks.length} calls change something`);
    judge(t, "kills", wrong);
  },
);

t.test(
  "recover() that loses its power before any of its calls ends the same the next time",
  async (t) => {
    const wrong: string[] = [];
    const seed = sliceSeedOf(t);
    const disks = await disksBefore(new Set(changing.map(({ number }) => number)));
    const extremes: Survival[] = [
      { data: "none", names: "none" },
      { data: "all", names: "none" },
      { data: "none", names: "all" },
    ];
    for (const [i, disk] of disks.entries()) {
      const { number, name, path } = changing[i]!;
      for (let round = 0; round < 2; round++) {
        const random = randomOf(seed + number * 10 + round);
        const found = await openAgain(disk.cutPower(random, extremes[(i + round) % 5]));
        wrong.push(...found.map((text) => `before call ${number}, ${name} ${path}: ${text}`));
      }
    }
    judge(t, "power cuts", wrong);
  },
);

t.test(
  "recover() that fails in any of its calls says so, and ends the same the next time",
  async (t) => {
    const wrong: string[] = [];
    for (const [i, { number, name, path }] of changing.entries()) {
      const disk = wanted.damaged.fork();
      const code = i % 2 === 0 ? "EIO" : "ENOSPC";
      const onCall = (call: Call) =>
        call.number === number ? ({ kind: "error", code } as const) : undefined;
      const fileSystem = new SimulatedFileSystem(disk, { onCall });
      const opening = openOn(disk, base.options, base.now, fileSystem);
      const failed = await opening.catch((error: Error) => error);
      if (!(failed instanceof Error)) {
        // Who holds the lock is told in a file of its own: that may fail.
        if (!/lock|holder/.test(path)) wrong.push(`call ${number}, ${name} ${path}: it opens`);
        await failed.store.close();
        continue;
      }
      if (!(failed instanceof StoreError && failed.code === "STORE_IO")) {
        wrong.push(`call ${number}, ${name} ${path}: ${failed.name} ${failed.message}`);
      }
      const found = await openAgain(disk.kill(randomOf(number)));
      wrong.push(...found.map((text) => `${code} of call ${number}, ${name} ${path}: ${text}`));
    }
    judge(t, "failures", wrong);
  },
);

t.test("recover() never replaces older evidence", async (t) => {
  // The same damage again and again, at the same time of day.
  const disk = base.killed.fork();
  const { offset, size } = base.records[5]!;
  const kept: Buffer[] = [];
  for (let round = 0; round < 4; round++) {
    changeLog(disk, base.options, offset + 4, offset + 30, (_, at) => (at + round) & 255);
    kept.push(readLog(disk, base.options, offset, offset + size));
    const { store } = await openOn(disk, { ...base.options, recoverWholeLog: true }, base.now);
    t.equal(store.recovery.holes.length, 1);
    await store.close();
  }
  const found = [...evidenceOn(disk)].map(([name, bytes]) => [name, bytes] as const);
  const name = `hole-${String(offset).padStart(20, "0")}-${base.now}`;
  t.same(
    found.map(([name]) => name),
    [name, `${name}.1`, `${name}.2`, `${name}.3`],
  );
  for (const [i, [, bytes]] of found.entries()) t.ok(bytes.equals(kept[i]!), `round ${i}`);
});

t.test("recover() rebuilds lost queues of a mended log to the same units", async (t) => {
  const disk = wanted.damaged.fork();
  await (await openOn(disk, base.options, base.now)).store.close();
  const before = segmentsOf(disk);
  for (const abort of [false, true]) {
    const copy = disk.fork();
    copy.remove("/store/consumequeue");
    if (abort) copy.write("/store/abort", Buffer.from("1"));
    const { store } = await openOn(copy, base.options, base.now);
    const lost = wanted.lost;
    t.same(await problemsOf(store, { ...base, end: last.offset }, { lost }), []);
    t.ok(store.recovery.rebuiltQueues.length > 0);
    await store.close();
    t.equal(segmentsOf(copy), before);
  }
});
