// Damage in the middle of the log: over several files, several times, in stores of every kind, before
// missing files, too small for a record, and beside what RocketMQ leaves behind a cut.

import t from "tap";
import { isHoleRecord } from "../../lib/message/hole_record.ts";
import { parseHost } from "../../lib/message/host.ts";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import { encodeBlank, encodeRecord } from "../../lib/message/record.ts";
import type { Message, MessageStore, StoreOptions } from "../../lib/mod.ts";
import { randomOf, SimulatedDisk } from "../../lib/testing/mod.ts";
import {
  goOn,
  judge,
  openAgain,
  type Range,
  STOPS,
  someMessages,
  trial,
} from "../support/damage_trial.ts";
import {
  type Base,
  baseOf,
  changeLog,
  evidenceOn,
  openOn,
  placeIn,
  problemsOf,
  ROOT,
  readLog,
  reportProblems,
  segmentsOf,
  TINY,
  touchedBy,
} from "../support/damaged_store.ts";
import { sliceSeedOf } from "../support/random.ts";

const base = await baseOf({ mappedFileSizeCommitLog: 2048 }, (store) => someMessages(store, 60));

t.test("recover() covers damage over two, three and more files", async (t) => {
  for (const [stop, options] of STOPS) {
    const wrong: string[] = [];
    for (const from of [0, 700, 1890, 2048, 2300]) {
      for (const length of [1500, 2048, 3000, 4096, 4500, 6100]) {
        const to = Math.min(from + length, base.end - 200);
        const found = await trial(base, [{ from, to }], { stop, options, again: true });
        wrong.push(...found.map((problem) => `${from} to ${to}: ${problem}`));
      }
    }
    judge(t, stop, wrong);
  }
});

t.test("recover() covers several places at once", async (t) => {
  const random = randomOf(sliceSeedOf(t));
  for (const [stop, options] of STOPS) {
    const wrong: string[] = [];
    for (let round = 0; round < 40; round++) {
      const ranges: Range[] = [];
      for (let offset = random(600); ranges.length < 6; offset += 300 + random(900)) {
        const record = base.records.find((one) => one.offset >= offset);
        if (!record || record.offset + record.size > base.end - 400) break;
        ranges.push({ from: record.offset + 4, to: record.offset + 5 + random(250) });
        offset = record.offset + 250;
      }
      const found = await trial(base, ranges, { stop, options, again: round % 8 === 0 });
      wrong.push(...found.map((problem) => `${JSON.stringify(ranges)}: ${problem}`));
    }
    judge(t, stop, wrong);
  }
});

/** Each kind of store, and what is put to it. */
const KINDS: Readonly<
  Record<string, readonly [StoreOptions, (store: MessageStore) => Promise<void>]>
> = {
  "records of version 2": [
    { brokerChecks: false },
    async (store) => {
      for (let i = 0; i < 24; i++) {
        const topic = "t".repeat(i % 2 ? 130 : 127);
        await store.put({ topic, body: Buffer.alloc(20, i) });
      }
    },
  ],
  batches: [
    {},
    async (store) => {
      for (let i = 0; i < 10; i++) {
        const messages = ["a", "b", "c"].map((text) => ({ body: Buffer.from(`${i}${text}`) }));
        await store.putBatch({ topic: "T", queueId: i % 2, messages });
      }
    },
  ],
  "light queues": [
    { enableLmq: true, enableMultiDispatch: true },
    async (store) => {
      for (let i = 0; i < 24; i++) {
        const queues = [`%LMQ%${i % 3}`, "%LMQ%all"].slice(i % 2);
        const properties = { INNER_MULTI_DISPATCH: queues.join(",") };
        await store.put({ topic: "T", body: Buffer.from(`${i}`), properties });
      }
    },
  ],
  "transaction messages": [
    {},
    async (store) => {
      for (let i = 0; i < 24; i++) {
        const sysFlag = [0, 4, 8, 12][i % 4] as number;
        await store.put({
          topic: "T",
          queueId: i % 3 === 0 ? 1 : 0,
          body: Buffer.from(`${i}`),
          sysFlag,
        });
      }
    },
  ],
  "records with a CRC": [{ enabledAppendPropCRC: true }, (store) => someMessages(store, 24)],
  "records that must have a CRC": [
    { enabledAppendPropCRC: true, forceVerifyPropCRC: true },
    (store) => someMessages(store, 24),
  ],
  "IPv6 hosts": [
    { bornHost: "[fe80::1]:1", storeHost: "[::1]:10911" },
    (store) => someMessages(store, 24),
  ],
  SYNC_FLUSH: [{ flushDiskType: "SYNC_FLUSH" }, (store) => someMessages(store, 24)],
  "the pool": [
    { transientStorePoolEnable: true },
    (store) => someMessages(store, 24).then(() => store.flush()),
  ],
};

for (const [kind, [options, play]] of Object.entries(KINDS)) {
  t.test(
    `recover() keeps what is around each damaged record of a store with ${kind}`,
    async (t) => {
      const base = await baseOf({ mappedFileSizeCommitLog: 2048, ...options }, play);
      for (const [stop, more] of STOPS) {
        const wrong: string[] = [];
        for (const [i, { offset, size }] of base.records.slice(0, -1).entries()) {
          // At its front, or in the last byte of its body.
          const hasBody = i % 2 === 1 && size > 120;
          const from = hasBody ? offset + 84 + base.records[i]!.bytes.readInt32BE(84) : offset + 5;
          const to = hasBody ? from + 3 : from + 2;
          const isV6 = kind === "IPv6 hosts";
          const range = isV6 ? { from: offset + 5, to: offset + 7 } : { from, to };
          const found = await trial(base, [range], { stop, options: more, again: i % 6 === 0 });
          wrong.push(...found.map((problem) => `record ${i}: ${problem}`));
        }
        judge(t, stop, wrong);
      }
    },
  );
}

t.test(
  "recover() after a clean stop finds damage in the last file alone, and keeps what follows",
  async (t) => {
    const wrong: string[] = [];
    const last = base.end - (base.end % 2048);
    for (const { offset } of base.records.slice(0, -1)) {
      const disk = base.closed.fork();
      changeLog(disk, base.options, offset + 4, offset + 6, (byte) => byte ^ 1);
      const { store } = await openOn(disk, base.options, base.now);
      const isSeen = offset >= last;
      if (store.recovery.holes.length !== (isSeen ? 1 : 0))
        wrong.push(`holes with damage at ${offset}`);
      const lost = new Set(isSeen ? [offset] : []);
      const found = await problemsOf(store, base, { lost, uncovered: new Set([offset]) });
      const isOthers = (problem: string) => isSeen || !problem.includes(`${offset}`);
      wrong.push(...found.filter((problem) => isOthers(problem) && !/has \d+ of/.test(problem)));
      t.equal(store.recovery.rebuiltQueues.length, 0);
      await store.close();
    }
    judge(t, "damage in each record", wrong);
  },
);

t.test("recover() keeps what follows a missing file behind damage", async (t) => {
  for (const [stop, options] of STOPS) {
    const disk = base[stop].fork();
    const [from, to] = [base.records.findLast(({ offset }) => offset < 2048)!.offset, 2048];
    changeLog(disk, base.options, from + 4, to, (byte) => byte ^ 1);
    disk.remove(placeIn(base.options, 2048).path);
    const damaged = disk.fork();
    const lost = new Set(
      base.records.map(({ offset }) => offset).filter((offset) => offset >= from && offset < 4096),
    );
    const { store } = await openOn(disk, { ...base.options, ...options }, base.now);
    const end = base.records.find(({ offset }) => offset >= 4096)!.offset;
    t.same(await problemsOf(store, base, { lost, gaps: true }), []);
    t.same(
      reportProblems(store.recovery, disk, damaged, base.options, [{ offset: from, end }]),
      [],
    );
    t.same(store.recovery.gaps, [{ offset: 2048, size: 2048 }], "what is missing is told as well");
    t.same(await openAgain(disk.fork(), base, base.options, lost, true), []);
    t.same(await goOn(store), []);
    await store.close();
  }
});

t.test("recover() covers more than a MiB with records of at most one", async (t) => {
  const big = await baseOf(
    {
      mappedFileSizeCommitLog: 4 * 1024 * 1024,
      mappedFileSizeConsumeQueue: 40_000,
      maxMessageSize: 40_000,
    },
    async (store) => {
      const body = Buffer.alloc(40_000, 1);
      for (let i = 0; i < 75; i++) await store.put({ topic: "T", queueId: i % 2, body });
    },
  );
  for (const [from, to] of [
    [100_000, 100_000 + 1024 * 1024],
    [50_000, 2_900_000],
  ] as const) {
    const disk = big.killed.fork();
    changeLog(disk, big.options, from, to, (byte) => byte ^ 0x5a);
    const damaged = disk.fork();
    const touched = touchedBy(big, from, to);
    const { store } = await openOn(disk, big.options, big.now);
    t.same(await problemsOf(store, big, touched), []);
    t.same(reportProblems(store.recovery, disk, damaged, big.options, [touched]), []);
    const covers: number[] = [];
    for await (const entry of store.records({ from: touched.offset, to: touched.end })) {
      if (entry.kind === "record" && isHoleRecord(entry.message)) covers.push(entry.size);
    }
    t.equal(
      covers.reduce((sum, size) => sum + size, 0),
      touched.end - touched.offset,
    );
    t.ok(covers.every((size) => size <= 1024 * 1024 && size >= 104));
    t.same(await openAgain(disk.fork(), big, big.options, touched.lost), []);
    await store.close();
  }
});

/** A log made by hand: records one behind the other, some bytes of something else before some. */
function handMade(gaps: readonly number[], fill = 0x5a): { disk: SimulatedDisk; base: Base } {
  const log = Buffer.alloc(TINY.mappedFileSizeCommitLog as number);
  const host = parseHost("127.0.0.1:1");
  const defaults = {
    bornHost: host,
    storeHost: host,
    now: 1000,
    appendPropertyCrc: false,
    autoVersion: true,
  };
  const records: Base["records"][number][] = [];
  let offset = 0;
  gaps.forEach((gap, i) => {
    log.fill(fill, offset, offset + gap);
    offset += gap;
    const record = prepareRecord({ topic: "T", body: Buffer.from(`${i}`) }, defaults);
    encodeRecord(log, offset, record, i, offset, 1000 + i);
    const bytes = Buffer.from(log.subarray(offset, offset + record.size));
    records.push({
      offset,
      size: record.size,
      bytes,
      storeTimestamp: 1000 + i,
      places: [["T/0", i]],
    });
    offset += record.size;
  });
  const disk = new SimulatedDisk();
  disk.write(`${ROOT}/commitlog/${"0".repeat(20)}`, log);
  disk.write(`${ROOT}/abort`, Buffer.from("1"));
  const base = {
    options: TINY,
    killed: disk,
    closed: disk,
    records,
    blanks: [],
    end: offset,
    now: 5000,
  };
  return { disk, base };
}

t.test("recover() steps over a hole that is too small for a record, each time", async (t) => {
  for (let size = 1; size <= 120; size++) {
    const { disk, base } = handMade([0, 0, size, 0]);
    const damaged = disk.fork();
    const offset = base.records[2]!.offset - size;
    const covered = size >= 92;
    const lost = new Set<number>();
    const uncovered = new Set(covered ? [] : [offset]);
    const holes = [{ offset, end: offset + size, covered }];
    const opened = await openOn(disk, TINY, 5000);
    const wrong = await problemsOf(opened.store, base, { lost, uncovered });
    wrong.push(...reportProblems(opened.store.recovery, disk, damaged, TINY, holes));
    if (!covered && evidenceOn(disk).size > 0) wrong.push("there is evidence");
    if (!covered) {
      const there = readLog(disk, TINY, offset, offset + size);
      if (!there.equals(Buffer.alloc(size, 0x5a))) wrong.push("it was changed");
      if (!opened.warnings.some((text) => /too small for a record/.test(text)))
        wrong.push("no warning");
    }
    // After a clean stop, and after a kill: it is met again, and nothing else happens.
    for (const again of [disk.fork(), disk]) {
      if (again === disk) await opened.store.close();
      const before = segmentsOf(again);
      const next = await openOn(again, { ...TINY, recoverWholeLog: again !== disk }, 6000);
      wrong.push(...(await problemsOf(next.store, base, { lost, uncovered })));
      if (next.store.recovery.holes.length !== (covered ? 0 : 1)) wrong.push("other holes");
      if (again !== disk) wrong.push(...(await goOn(next.store)));
      await next.store.close();
      if (again === disk && segmentsOf(again) !== before)
        wrong.push("a second recovery changed it");
    }
    if (wrong.length > 0) t.same(wrong, [], `${size} bytes`);
  }
  t.pass("1 to 120 bytes");
});

t.test("recover() takes a blank for damage where whole records follow in its file", async (t) => {
  for (const declared of [8, 100, 4000, -1, 2 ** 31 - 1]) {
    const { disk, base } = handMade([0, 0, 100, 0]);
    const { path } = placeIn(TINY, 0);
    const log = disk.read(path);
    const at = base.records[2]!.offset - 100;
    encodeBlank(log, at, declared);
    disk.write(path, log);
    for (const damagedLogPolicy of ["keep", "cut"] as const) {
      const copy = disk.fork();
      const { store } = await openOn(copy, { ...TINY, damagedLogPolicy }, 5000);
      if (damagedLogPolicy === "keep") {
        t.match(store.recovery.holes, [{ offset: at, size: 100, covered: true }]);
        t.match(store.recovery.holes[0]?.reason, `a blank record of ${declared} bytes`);
        t.same(await problemsOf(store, base, { lost: new Set() }), []);
      } else {
        t.equal(store.watermarks.wrote, at, "as RocketMQ, which goes on there");
      }
      await store.close();
    }
  }
  // With nothing behind it, it closes the file whatever it says.
  const { disk, base } = handMade([0, 0]);
  const { path } = placeIn(TINY, 0);
  const log = disk.read(path);
  encodeBlank(log, base.end, 77);
  disk.write(path, log);
  const { store, warnings } = await openOn(disk, TINY, 5000);
  t.same(store.recovery.holes, []);
  t.equal(store.watermarks.wrote, base.end);
  t.same(warnings, []);
  await store.close();
});

/** A log as RocketMQ leaves it: it cut before record `at`, zeroed nothing, and put others there. */
async function cutByRocketMQ(
  at: number,
  put: readonly Message[],
  pauseMs: number,
): Promise<{ disk: SimulatedDisk; base: Base; kept: Base }> {
  const base = await baseOf({}, (store) => someMessages(store, 20));
  const cut = base.records[at]!;
  // Ours, which zeroes, gives the records that were put after the cut ...
  const ours = base.killed.fork();
  changeLog(ours, base.options, cut.offset, TINY.mappedFileSizeCommitLog as number, () => 0);
  const { store, clock } = await openOn(
    ours,
    { ...base.options, damagedLogPolicy: "cut" },
    base.now + pauseMs,
  );
  for (const message of put) await store.put(message);
  const records: Base["records"][number][] = [];
  for await (const entry of store.records()) {
    if (entry.kind !== "record") continue;
    const { offset, size, message } = entry;
    const { bytes, storeTimestamp, topic, queueId, queueOffset } = message;
    records.push({
      offset,
      size,
      bytes: Buffer.from(bytes),
      storeTimestamp,
      places: [[`${topic}/${queueId}`, queueOffset]],
    });
  }
  const end = store.watermarks.wrote;
  // ... and its own log keeps what was behind them.
  const disk = base.killed.fork();
  disk.remove(`${ROOT}/consumequeue`);
  disk.remove(`${ROOT}/checkpoint`);
  const written = readLog(ours, base.options, 0, end);
  changeLog(disk, base.options, 0, end, (_, i) => written[i] as number);
  const kept = { ...base, records, end, now: clock.now() };
  await store.close();
  return { disk, base, kept };
}

t.test("recover() does not take back what RocketMQ left behind a cut", async (t) => {
  // Their sizes are such that no old record begins where the new ones end.
  const some = [1, 2, 3].map((i) => ({ topic: "T", queueId: i % 2, body: Buffer.alloc(61 * i) }));
  const others = [{ topic: "Other", body: Buffer.alloc(333) }];
  for (const [name, put] of [
    ["other messages of its queues", some],
    ["another queue", others],
  ] as const) {
    const { disk, base, kept } = await cutByRocketMQ(9, put, 4000);
    t.ok(
      base.records.some(({ offset }) => offset > kept.end),
      "old records lie behind",
    );
    t.notOk(base.records.some(({ offset }) => offset === kept.end));
    for (const options of [{}, { recoverWholeLog: true }]) {
      const copy = disk.fork();
      const { store } = await openOn(copy, { ...base.options, ...options }, kept.now + 4000);
      t.equal(store.watermarks.wrote, kept.end, name);
      t.same(store.recovery.holes, []);
      t.match(store.recovery.cut, { offset: kept.end, evidence: [/cut-/] });
      t.same(await problemsOf(store, kept, { lost: new Set() }), []);
      await store.close();
    }
  }
});

t.test(
  "recover() takes back what a cut left if its places in the queues are still free",
  async (t) => {
    // Nothing was put since: the records that follow the damage are the newest that there are.
    const { disk, base, kept } = await cutByRocketMQ(9, [], 4000);
    const damaged = base.records[9]!;
    changeLog(disk, base.options, damaged.offset + 4, damaged.offset + 6, (byte) => byte ^ 1);
    const { store } = await openOn(disk, base.options, kept.now + 4000);
    t.match(store.recovery.holes, [{ offset: damaged.offset, size: damaged.size }]);
    t.same(await problemsOf(store, base, { lost: new Set([damaged.offset]) }), []);
    await store.close();
  },
);

t.test("recover() believes a record behind damage whose clock was set back a little", async (t) => {
  const base = await baseOf({}, async (store) => {
    for (let i = 0; i < 6; i++) await store.put({ topic: "T", body: Buffer.from(`${i}`) });
  });
  for (const [back, isKept] of [
    [999, true],
    [60_000, false],
  ] as const) {
    const disk = base.killed.fork();
    for (const [i, { offset }] of base.records.entries()) {
      const time = Buffer.alloc(8);
      time.writeBigInt64BE(BigInt(base.now + 100_000 - (i > 2 ? back : 0)));
      changeLog(
        disk,
        base.options,
        offset + 56,
        offset + 64,
        (_, at) => time[at - offset - 56] as number,
      );
    }
    const { offset } = base.records[2]!;
    changeLog(disk, base.options, offset + 4, offset + 5, () => 0);
    const { store } = await openOn(disk, base.options, base.now);
    t.equal(store.recovery.holes.length, isKept ? 1 : 0, `${back} ms`);
    t.equal(store.recovery.cut?.offset, isKept ? undefined : offset);
    await store.close();
  }
});

t.test("recover() tells what the checkpoint vouches for and is gone", async (t) => {
  const last = base.records.at(-1)!;
  for (const stop of ["killed", "closed"] as const) {
    const disk = base[stop].fork();
    if (stop === "killed") disk.write(`${ROOT}/checkpoint`, base.closed.read(`${ROOT}/checkpoint`));
    changeLog(disk, base.options, last.offset, base.end, () => 0);
    const { store, warnings } = await openOn(disk, base.options, base.now);
    t.same(store.recovery.vanished, { offset: last.offset, size: last.size }, stop);
    t.equal(store.recovery.cut, undefined, "there is nothing to cut");
    t.match(warnings.join(), `${last.size} bytes behind that had been durable: they are gone`);
    await store.close();
    const again = await openOn(disk, base.options, base.now);
    t.equal(again.store.recovery.vanished, undefined);
    await again.store.close();
  }
});

t.test("a reader sees what recovery makes of damage, and changes nothing", async (t) => {
  const { offset, size } = base.records[7]!;
  const disk = base.killed.fork();
  changeLog(disk, base.options, offset + 4, offset + 6, (byte) => byte ^ 1);
  const before = disk.digest();
  const { store } = await openOn(disk, base.options, base.now, undefined, true);
  t.match(store.recovery.holes, [{ offset, size, covered: true }]);
  t.same(await problemsOf(store, base, { lost: new Set([offset]) }), []);
  await store.close();
  t.equal(disk.digest(), before);
});
