import { readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import t, { type Test } from "tap";
import type { ConsumeQueue } from "../../lib/consume_queue/consume_queue.ts";
import { fillerUnits, UNIT_BYTES } from "../../lib/consume_queue/queue_unit.ts";
import { createFile } from "../../lib/io/directory.ts";
import { segmentOf } from "../../lib/segment/segment.ts";
import { fill, lose, offsets, QueueRig, RECORD, range } from "../support/queue_rig.ts";
import { randomOf, seedOf, turns } from "../support/random.ts";

const INFINITE = Number.POSITIVE_INFINITY;

function startsOf({ segments }: ConsumeQueue): number[] {
  return segments.map(({ start }) => start);
}

/** What holds at any time: min ≤ max, and nothing on disk that was not appended. */
function check(queue: ConsumeQueue): void {
  if (!(queue.min <= queue.max && queue.max <= queue.nextOffset && queue.unwritten >= 0)) {
    throw new Error(`min ${queue.min}, max ${queue.max}, next ${queue.nextOffset}`);
  }
}

t.test("ConsumeQueue.append() takes the next unit only", async (t) => {
  const queue = new QueueRig(t).queue();
  t.match(queue, { min: 0, max: 0, maxPhysicalOffset: -1, exists: false, nextOffset: 0 });
  t.equal(queue.append(1, 100, 50, 7), "gap");
  t.match(queue, { max: 0, exists: false }, "nothing was done");
  t.equal(queue.append(0, 100, 50, 7), "appended");
  t.equal(queue.append(0, 100, 50, 7), "known");
  t.equal(queue.append(2, 300, 50, 7), "gap");
  t.equal(queue.append(1, 200, 50, 7), "appended");
  t.match(queue, { min: 0, max: 2, maxPhysicalOffset: 250, exists: true, nextOffset: 2 });
  t.equal(queue.unwritten, 2);
  check(queue);
});

t.test("ConsumeQueue.append() leaves a next offset that is further on", async (t) => {
  const queue = new QueueRig(t).queue();
  queue.nextOffset = 5;
  fill(queue, 3);
  t.equal(queue.nextOffset, 5);
  fill(queue, 6);
  t.equal(queue.nextOffset, 6);
});

t.test("ConsumeQueue.units() reads from memory, from files, and across the border", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 7);
  t.strictSame(await offsets(queue), range(0, 7), "all in memory");
  await queue.commit();
  t.equal(queue.unwritten, 0);
  fill(queue, 25);
  t.strictSame(await offsets(queue), range(0, 25), "both");
  for (const [from, count, got] of [
    [0, 0, 0],
    [0, 3, 3],
    [5, 100, 2],
    [7, 100, 3],
    [9, 100, 1],
    [10, 100, 10],
    [20, 100, 5],
    [24, 1, 1],
    [25, 1, 0],
    [-1, 1, 0],
    [1000, 1, 0],
  ] as const) {
    const units = await queue.units(from, count);
    t.equal(units.length, got * UNIT_BYTES, `${count} units at ${from}`);
  }
  await queue.commit();
  t.strictSame(await offsets(queue), range(0, 25), "all in files");
  t.equal(await queue.units(5, 100).then(({ length }) => length), 5 * UNIT_BYTES);
});

t.test("ConsumeQueue.units() gives a copy that a later commit leaves alone", async (t) => {
  const queue = new QueueRig(t).queue();
  fill(queue, 5);
  const units = await queue.units(2, 3);
  const before = units.toString("hex");
  await queue.commit();
  fill(queue, 9);
  t.equal(units.toString("hex"), before);
});

t.test("ConsumeQueue.commit() makes each file with its units inside", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  await queue.commit();
  t.strictSame(rig.starts, [], "an empty queue has no folder");
  t.strictSame(rig.fs.calls, []);
  fill(queue, 4);
  let made = Buffer.alloc(0);
  const held = rig.fs.hold("rename");
  const commit = queue.commit();
  await held.waiting;
  const [name] = rig.fs.calls.filter(({ name }) => name === "rename");
  made = readFileSync(name?.path ?? "");
  held.release();
  await commit;
  t.equal(made.length, 200);
  t.same(made, rig.bytes(), "before it got its name it was as it is now");
  t.ok(made.subarray(80).every((byte) => byte === 0));
  t.notOk(queue.hasUnforcedFiles, "and synced");
  fill(queue, 6);
  await queue.commit();
  t.ok(queue.hasUnforcedFiles);
  await queue.force();
  t.notOk(queue.hasUnforcedFiles);
});

t.test("ConsumeQueue.commit() rolls with units that arrive meanwhile", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 3);
  await queue.commit();
  fill(queue, 8);
  const held = rig.fs.hold("pwritev");
  const commit = queue.commit();
  await held.waiting;
  fill(queue, 33);
  t.strictSame(await offsets(queue), range(0, 33), "readable all the time");
  held.release();
  await commit;
  t.equal(queue.unwritten, 0);
  t.strictSame(rig.starts, [0, 200, 400, 600]);
  t.strictSame(await offsets(queue), range(0, 33));
  const reopened = rig.reopened();
  await reopened.findEnd(INFINITE);
  t.strictSame(await offsets(reopened), range(0, 33));
});

t.test("ConsumeQueue that starts above 0 fills the front of its file", async (t) => {
  for (const start of [1, 7, 9, 10, 13]) {
    const rig = new QueueRig(t);
    const queue = rig.queue();
    queue.startAt(start);
    t.match(queue, { min: start, max: start, nextOffset: start });
    t.equal(queue.append(start - 1, 1, 1, 0), "known");
    fill(queue, start + 4);
    await queue.commit();
    const file = start - (start % 10);
    t.equal(rig.starts[0], file * UNIT_BYTES);
    const front = rig.bytes().subarray(0, (start - file) * UNIT_BYTES);
    t.same(front, fillerUnits(start - file), `from ${start}`);
    t.strictSame(await offsets(queue), range(start, start + 4));
    t.equal((await queue.units(start - 1, 1)).length, 0, "the front holds no messages");

    const reopened = rig.reopened();
    await reopened.findEnd(INFINITE);
    t.equal(reopened.max, start + 4);
    await reopened.correctMin(0);
    t.equal(reopened.min, start, "nor does it after an open");
  }
});

t.test(
  "ConsumeQueue.commit() that fails keeps the units, and a retry writes them right",
  async (t) => {
    for (const call of [
      "open",
      "mkdir",
      "fdatasync",
      "rename",
      "pwritev",
      "syncDirectory",
    ] as const) {
      const rig = new QueueRig(t);
      const queue = rig.queue();
      fill(queue, 13);
      rig.fs.failNext(call, "ENOSPC");
      await t.rejects(queue.commit(), {
        code: "STORE_IO",
        message: /^Cannot write units 0 to 9 of queue T\/0/,
        cause: { code: "ENOSPC" },
      });
      t.match(queue, { unwritten: 13, max: 13, maxPhysicalOffset: 1300 }, call);
      t.strictSame(await offsets(queue), range(0, 13), "still readable");
      t.strictSame(rig.starts, [], `${call}: no half file`);
      fill(queue, 15);
      await queue.commit();
      t.strictSame(await offsets(queue), range(0, 15));
      t.equal(queue.unwritten, 0);
      rig.fs.failNext("pwritev", "EIO", { skip: 1 });
      rig.fs.shorten("pwritev", [7]);
      fill(queue, 18);
      await t.rejects(queue.commit(), { code: "STORE_IO" }, "in the middle of a unit");
      await queue.commit();
      const reopened = rig.reopened();
      await reopened.findEnd(INFINITE);
      t.strictSame(await offsets(reopened), range(0, 18), `${call}: no hole and no shift`);
    }
  },
);

t.test("ConsumeQueue.commit() writes what short writes left", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  rig.fs.shorten("pwritev", [1, 7, "half"]);
  rig.fs.failNext("pwritev", "EAGAIN", { skip: 2 });
  fill(queue, 5);
  await queue.commit();
  fill(queue, 9);
  rig.fs.shorten("pwritev", [1, 7, "half"]);
  await queue.commit();
  t.strictSame(await offsets(rig.reopened(), 9), []);
  const reopened = rig.reopened();
  await reopened.findEnd(INFINITE);
  t.strictSame(await offsets(reopened), range(0, 9));
});

t.test("ConsumeQueue.force() syncs each file that was written, and no other", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 25);
  await queue.commit();
  fill(queue, 27);
  await queue.commit();
  const before = rig.fs.count("fdatasync");
  await queue.force();
  t.equal(rig.fs.count("fdatasync"), before + 1);
  await queue.force();
  t.equal(rig.fs.count("fdatasync"), before + 1);
});

t.test("ConsumeQueue.force() that fails says which file, and leaves it unforced", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 3);
  await queue.commit();
  fill(queue, 5);
  await queue.commit();
  rig.fs.failNext("fdatasync", "EIO");
  await t.rejects(queue.force(), {
    code: "STORE_IO",
    path: rig.path(0),
    cause: { code: "EIO" },
  });
  t.ok(queue.hasUnforcedFiles);
  rmSync(rig.path(0));
  await t.rejects(queue.force(), { code: "STORE_FILES_VANISHED", path: rig.path(0) });
});

t.test("ConsumeQueue.findEnd() knows the last unit below the limit", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 24);
  await queue.commit();
  for (const [limit, max] of [
    [INFINITE, 24],
    [2400, 24],
    [2301, 24],
    [2300, 23],
    [2000, 20],
    [1999, 20],
    [1901, 20],
    [1900, 19],
    [1, 1],
    [0, 0],
  ] as const) {
    const found = rig.reopened();
    t.ok(await found.findEnd(limit));
    t.match(found, { min: 0, max, nextOffset: max }, `below ${limit}`);
    t.equal(found.maxPhysicalOffset, max === 0 ? -1 : max * RECORD);
    check(found);
  }
});

t.test("ConsumeQueue.findEnd() says if units behind the end lead below the limit", async (t) => {
  for (const [index, hex, limit, max, isEnd] of [
    // None at all, then one that leads behind the limit.
    [4, "00".repeat(20), INFINITE, 4, false],
    [4, "00".repeat(20), 2300, 4, false],
    [4, "00".repeat(20), 400, 4, true],
    [0, "00000000ffffffff000000640000000000000000", 2300, 0, false],
    [0, "00000000ffffffff000000640000000000000000", INFINITE, 24, true],
    [23, "00".repeat(20), INFINITE, 23, true],
    [23, "00".repeat(20), 2300, 23, true],
  ] as const) {
    const rig = new QueueRig(t, 30);
    const queue = rig.queue();
    fill(queue, 24);
    await queue.commit();
    const bytes = rig.bytes();
    Buffer.from(hex, "hex").copy(bytes, index * UNIT_BYTES);
    writeFileSync(rig.path(0), bytes);
    const found = rig.reopened();
    const what = `unit ${index} is ${hex}, below ${limit}`;
    t.equal(await found.findEnd(limit), isEnd, what);
    t.equal(found.max, max, what);
  }
});

t.test("ConsumeQueue.findEnd() of a queue without files, or with fillers only", async (t) => {
  const rig = new QueueRig(t);
  const none = rig.reopened();
  await none.findEnd(INFINITE);
  t.match(none, { min: 0, max: 0, maxPhysicalOffset: -1, exists: false });

  const queue = rig.queue();
  queue.startAt(5);
  lose(queue, 8);
  await queue.commit();
  const found = rig.reopened();
  await found.findEnd(INFINITE);
  t.equal(found.max, 8);
  t.equal(found.maxPhysicalOffset, -1, "a filler's size is no record's");
  await found.correctMin(0);
  t.equal(found.min, 8, "and no message");
});

t.test(
  "ConsumeQueue.findEnd() passes over a zero file at the end, and clearBehind() removes it",
  async (t) => {
    for (const messages of [0, 7, 10]) {
      const rig = new QueueRig(t);
      const queue = rig.queue();
      fill(queue, messages);
      await queue.commit();
      const { staging, fileSize } = rig.context;
      for (const start of messages === 0 ? [] : [200, 400]) {
        const { path } = segmentOf(rig.folder, start, fileSize);
        await (await createFile(rig.fs, { staging, path, size: fileSize })).close();
      }
      const found = rig.reopened();
      await found.findEnd(INFINITE);
      t.equal(found.max, messages, `${messages} messages`);
      await found.clearBehind();
      t.strictSame(rig.starts, messages === 0 ? [] : [0]);
      fill(found, messages + 5);
      await found.commit();
      t.strictSame(await offsets(found), range(0, messages + 5));
    }
  },
);

t.test("ConsumeQueue.findEnd() takes no garbage for a unit", async (t) => {
  for (const hex of [
    "ffffffffffffffff ffffffff ffffffffffffffff",
    "0000000000000000 00000000 0000000000000001",
    "7fffffffffffffff 7fffffff 0000000000000000",
    "0020000000000000 00000064 0000000000000000",
    "0000000000001000 80000000 0000000000000000",
  ]) {
    const rig = new QueueRig(t);
    const queue = rig.queue();
    fill(queue, 6);
    await queue.commit();
    const bytes = rig.bytes();
    Buffer.from(hex.replaceAll(" ", ""), "hex").copy(bytes, 6 * UNIT_BYTES);
    writeFileSync(rig.path(0), bytes);
    const found = rig.reopened();
    await found.findEnd(INFINITE);
    t.equal(found.max, 6, hex);
    await found.clearBehind();
    t.ok(
      rig
        .bytes()
        .subarray(120)
        .every((byte) => byte === 0),
      "and it is gone",
    );
  }
});

t.test("ConsumeQueue.findEnd() names a file that is too short", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 6);
  await queue.commit();
  truncateSync(rig.path(0), 90);
  await t.rejects(rig.reopened().findEnd(INFINITE), {
    code: "STORE_QUEUE_DAMAGED",
    path: rig.path(0),
  });
});

t.test("ConsumeQueue.findEnd() and correctMin() agree with a look at every unit", async (t) => {
  const seed = seedOf(t);
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        unitsPerFile: fc.integer({ min: 1, max: 700 }),
        start: fc.integer({ min: 0, max: 900 }),
        count: fc.integer({ min: 0, max: 1500 }),
        gaps: fc.array(fc.integer({ min: 0, max: 1500 }), { maxLength: 4 }),
        limit: fc.integer({ min: -10, max: 2500 }),
        logMin: fc.integer({ min: -10, max: 2500 }),
      }),
      async ({ unitsPerFile, start, count: most, gaps, limit, logMin }) => {
        const count = Math.min(most, unitsPerFile * 8);
        const rig = new QueueRig(t, unitsPerFile, true);
        const queue = rig.queue();
        if (start > 0) queue.startAt(start);
        // Message n lies at n × 100; runs of up to 5 of them are damaged.
        for (let n = start; n < start + count; n++) {
          const gap = gaps.find((at) => n === start + at);
          if (gap !== undefined) {
            lose(queue, Math.min(n + 1 + (gap % 5), start + count));
            n = queue.max - 1;
          } else {
            queue.append(n, n * RECORD, RECORD, 0);
          }
        }
        await queue.commit();
        const all = await offsets(queue);
        const found = rig.reopened(startsOf(queue));
        await found.findEnd(limit * RECORD);
        const end = all.findIndex((offset) => offset >= 0 && offset >= limit * RECORD);
        const first = count === 0 ? 0 : start - (start % unitsPerFile);
        const expected = count === 0 ? 0 : start + (end < 0 ? count : end);
        if (found.max !== expected) {
          throw new Error(`max is ${found.max}, expected ${expected}`);
        }
        if (found.min !== first) throw new Error(`min is ${found.min}, expected ${first}`);

        await queue.correctMin(logMin * RECORD);
        const at = all.findIndex((offset) => offset >= 0 && offset >= logMin * RECORD);
        const min = at < 0 ? queue.max : start + at;
        if (queue.min !== min) throw new Error(`min is ${queue.min}, expected ${min}`);
      },
    ),
    { seed, numRuns: 50, endOnFailure: true },
  );
});

t.test("ConsumeQueue.correctMin() passes over fillers in the middle", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 5);
  lose(queue, 7);
  fill(queue, 12);
  for (const commit of [false, true]) {
    if (commit) await queue.commit();
    for (const [logMin, min] of [
      [0, 0],
      [1, 1],
      [400, 4],
      [401, 7],
      [700, 7],
      [701, 8],
      [1100, 11],
      [1101, 12],
    ] as const) {
      await queue.correctMin(logMin);
      t.equal(queue.min, min, `the log begins at ${logMin}`);
    }
  }
  t.strictSame(queue.maxPhysicalOffset, 1200);
});

t.test("ConsumeQueue.correctMin() passes over a file that is gone", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 45);
  await queue.commit();
  await rig.files.close(rig.path(200));
  rmSync(rig.path(200));
  const found = rig.reopened();
  await found.findEnd(INFINITE);
  t.equal(found.max, 45);
  for (const [logMin, min] of [
    [0, 0],
    [500, 5],
    [950, 20],
    [1500, 20],
    [2050, 21],
  ] as const) {
    await found.correctMin(logMin);
    t.equal(found.min, min, `the log begins at ${logMin}`);
  }
  await found.correctMin(0);
  await t.rejects(found.units(10, 5), { code: "STORE_QUEUE_DAMAGED", path: rig.folder });
});

t.test(
  "ConsumeQueue.clearBehind() removes files from the last one on, and zeroes the rest",
  async (t) => {
    for (const max of [0, 1, 9, 10, 11, 15, 20, 39, 40]) {
      const rig = new QueueRig(t);
      const queue = rig.queue();
      fill(queue, 40);
      await queue.commit();
      const found = rig.reopened();
      await found.findEnd(max * RECORD);
      const before = rig.fs.calls.length;
      const done = await found.clearBehind();
      const removed = rig.fs.calls
        .slice(before)
        .filter(({ name }) => name === "unlink")
        .map(({ path }) => path);
      t.strictSame(removed, [...removed].sort().reverse(), "the last one first");
      const kept = Math.ceil(max / 10);
      t.equal(rig.starts.length, kept, `up to ${max}`);
      t.equal(done.length, 4 - kept + (max % 10 === 0 ? 0 : 1));
      t.ok(
        rig
          .bytes()
          .subarray(max * UNIT_BYTES)
          .every((byte) => byte === 0),
      );
      t.equal(found.hasUnforcedFiles, max % 10 !== 0);
      t.strictSame(await found.clearBehind(), [], "then nothing is left to do");
      t.strictSame(await offsets(found), range(0, max));
      await found.force();
      fill(found, 42);
      await found.commit();
      t.strictSame(await offsets(found), range(0, 42));
    }
  },
);

t.test("ConsumeQueue.reset() leaves nothing, and it can be rebuilt", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 25);
  await queue.commit();
  fill(queue, 27);
  await queue.reset();
  t.match(queue, { min: 0, max: 0, nextOffset: 0, maxPhysicalOffset: -1, exists: false });
  t.notOk(queue.hasUnforcedFiles);
  t.strictSame(rig.starts, []);
  await queue.commit();
  fill(queue, 12);
  await queue.commit();
  t.strictSame(await offsets(queue), range(0, 12));
});

t.test(
  "ConsumeQueue.findEnd() takes what fills the front for nothing behind a message",
  async (t) => {
    for (const start of [0, 5]) {
      const rig = new QueueRig(t);
      const queue = rig.queue();
      if (start > 0) queue.startAt(start);
      fill(queue, start + 3);
      await queue.commit();
      const found = rig.reopened();
      t.ok(await found.findEnd(INFINITE));
      t.match(found, { min: 0, max: start + 3 });

      const bytes = rig.bytes();
      bytes.set(fillerUnits(2), (start + 3) * UNIT_BYTES);
      writeFileSync(found.segments[0]?.path as string, bytes);
      const damaged = rig.reopened();
      t.notOk(await damaged.findEnd(INFINITE), "there is more behind the end");
      t.equal(damaged.max, start + 3);
    }
  },
);

t.test("ConsumeQueue agrees with a plain list, whatever is done with it", async (t) => {
  const seed = seedOf(t);
  for (let run = 0; run < 15; run++) {
    const random = randomOf(seed + run);
    const rig = new QueueRig(t, 1 + random(30), true);
    const queue = rig.queue();
    const model: number[] = [];
    let commit: Promise<void> | undefined;
    for (let step = 0; step < 60; step++) {
      const what = random(6);
      if (what < 2) {
        const end = queue.max + random(40);
        for (let n = queue.max; n < end; n++) model.push(n * RECORD);
        fill(queue, end);
      } else if (what === 2) {
        await commit;
        if (random(3) === 0) rig.fs.failNext(["pwritev", "rename"], "EIO");
        if (random(3) === 0) rig.fs.shorten("pwritev", [3, "half"]);
        commit = queue.commit().catch(() => undefined);
      } else if (what === 3) {
        await commit;
        rig.fs.clear();
        if (random(2) === 0) await queue.force();
      } else if (what === 4) {
        await turns(random(3));
      } else if (model.length > 0) {
        const from = random(model.length);
        const units = await queue.units(from, 1 + random(30));
        for (let at = 0; at < units.length; at += UNIT_BYTES) {
          const found = Number(units.readBigInt64BE(at));
          if (found !== model[from + at / UNIT_BYTES]) {
            t.fail(`unit ${from + at / UNIT_BYTES} leads to ${found} with SEED=${seed + run}`);
          }
        }
      }
      check(queue);
    }
    await commit;
    rig.fs.clear();
    await queue.commit();
    const reopened = rig.reopened(startsOf(queue));
    await reopened.findEnd(INFINITE);
    if (reopened.max !== model.length) t.fail(`max ${reopened.max} with SEED=${seed + run}`);
    t.strictSame(await offsets(reopened), model);
  }
});

/** A queue whose file has other bytes at some of its units. */
async function damagedQueue(t: Test, max: number, units: Readonly<Record<number, string>>) {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, max);
  await queue.commit();
  await rig.files.close(rig.path(0));
  const bytes = readFileSync(rig.path(0));
  for (const [i, hex] of Object.entries(units)) {
    Buffer.from(hex.replaceAll(" ", ""), "hex").copy(bytes, Number(i) * UNIT_BYTES);
  }
  writeFileSync(rig.path(0), bytes);
  return { rig, queue };
}

const BEYOND_NUMBERS = "7fffffffffffffff 00000064 0000000000000000";

t.test("ConsumeQueue.units() ends before a damaged unit, and says where it is", async (t) => {
  const { rig, queue } = await damagedQueue(t, 9, { 5: BEYOND_NUMBERS });
  t.equal((await queue.units(0, 9)).length, 5 * UNIT_BYTES);
  await t.rejects(queue.units(5, 4), {
    code: "STORE_QUEUE_DAMAGED",
    path: rig.path(0),
    position: 5 * UNIT_BYTES,
  });
  t.equal((await queue.units(6, 9)).length, 3 * UNIT_BYTES);
  const all = await queue.unitsAsTheyAre(0, 9);
  t.equal(all.toString("hex", 5 * UNIT_BYTES, 5 * UNIT_BYTES + 8), "7fffffffffffffff");
});

t.test("ConsumeQueue.correctMin() lets a damaged unit stay in the queue", async (t) => {
  for (const hex of [
    BEYOND_NUMBERS,
    "ffffffffffffff00 00000064 0000000000000000",
    "00".repeat(20),
  ]) {
    const { queue } = await damagedQueue(t, 9, { 0: hex, 4: hex });
    await queue.correctMin(0);
    t.equal(queue.min, 0, "whoever reads it is told");
    await queue.correctMin(600);
    t.ok(queue.min === 4 || queue.min === 6, `${queue.min}`);
  }
});

t.test("ConsumeQueue that starts in a file with other units fills its front", async (t) => {
  const { rig } = await damagedQueue(t, 9, { 0: "ff".repeat(20) });
  const found = rig.reopened();
  await found.findEnd(INFINITE);
  t.match(found, { min: 0, max: 0 }, "nothing is believed");
  found.startAt(3);
  found.append(3, 3 * RECORD, RECORD, 3);
  await found.commit();
  await found.clearBehind();
  t.strictSame(rig.bytes().subarray(0, 3 * UNIT_BYTES), fillerUnits(3));
  const again = rig.reopened();
  await again.findEnd(INFINITE);
  await again.correctMin(0);
  t.match(again, { min: 3, max: 4 });
});

t.test("ConsumeQueue.heldFrom() leads to the next file, however far it is", async (t) => {
  const rig = new QueueRig(t);
  const queue = rig.queue();
  fill(queue, 65);
  await queue.commit();
  const found = rig.reopened([0, 200, 1000, 1200]);
  await found.findEnd(INFINITE);
  t.equal(found.max, 65);
  fill(found, 67);
  for (const [offset, held] of [
    [0, 0],
    [19, 19],
    [20, 50],
    [49, 50],
    [64, 64],
    [66, 66],
  ] as const) {
    t.equal(found.heldFrom(offset), held, `from ${offset}`);
  }
});

t.test("ConsumeQueue.clearBehind() zeroes a large file in pieces", async (t) => {
  const rig = new QueueRig(t, 200_000);
  const queue = rig.queue();
  fill(queue, 3);
  await queue.commit();
  await rig.files.close(rig.path(0));
  const bytes = rig.bytes();
  for (const at of [60, 1_048_575, 1_048_640, 3_999_999]) bytes[at] = 1;
  writeFileSync(rig.path(0), bytes);
  t.strictSame(await queue.clearBehind(), [rig.path(0)]);
  t.ok(
    rig
      .bytes()
      .subarray(60)
      .every((byte) => byte === 0),
  );
  t.strictSame(await queue.clearBehind(), [], "nothing is left to do");
});

t.test("ConsumeQueue.clearBehind() reads no hole", async (t) => {
  const rig = new QueueRig(t, 200_000);
  const queue = rig.queue();
  fill(queue, 3);
  await queue.commit();
  t.strictSame(await queue.clearBehind(), []);
  const read = rig.fs.calls
    .filter(({ name }) => name === "pread" || name === "preadIfCached")
    .map(({ length }) => length ?? 0);
  t.ok(Math.max(...read) <= 4096, `reads of ${read} bytes`);
});
