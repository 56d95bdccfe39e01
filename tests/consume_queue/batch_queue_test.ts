import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { BatchQueue } from "../../lib/consume_queue/batch_queue.ts";
import {
  BATCH_UNIT_BYTES,
  batchBase,
  batchMessages,
  isBatchUnit,
} from "../../lib/consume_queue/batch_unit.ts";
import { segmentName, segmentOf } from "../../lib/segment/segment.ts";
import { QueueRig, RECORD } from "../support/queue_rig.ts";

/** Units in a file. */
const PER_FILE = 4;

class BatchRig extends QueueRig {
  get #context() {
    return { ...this.context, fileSize: PER_FILE * BATCH_UNIT_BYTES };
  }

  /** The queue as an open finds its files. */
  batches(): BatchQueue {
    const { fileSize } = this.#context;
    const names = existsSync(this.folder) ? readdirSync(this.folder).sort() : [];
    const segments = names.map((name) => segmentOf(this.folder, Number(name), fileSize));
    return new BatchQueue(this.#context, "T", 0, segments);
  }

  fileOf(unit: number): string {
    const start = Math.floor(unit / PER_FILE) * PER_FILE * BATCH_UNIT_BYTES;
    return join(this.folder, segmentName(start));
  }

  /** Changes a unit on the disk. */
  change(unit: number, change: (unit: Buffer) => void): void {
    const bytes = readFileSync(this.fileOf(unit));
    const at = (unit % PER_FILE) * BATCH_UNIT_BYTES;
    change(bytes.subarray(at, at + BATCH_UNIT_BYTES));
    writeFileSync(this.fileOf(unit), bytes);
  }
}

/** Unit n is of n + 1 messages: 0, 1-2, 3-5, 6-9, 10-14, ... Its record lies at n × 100. */
function fillUnits(queue: BatchQueue, from: number, end: number): void {
  for (let n = from; n < end; n++) {
    if (queue.append(queue.max, n * RECORD, RECORD, n, 1000 + n, n + 1) !== "appended") {
      throw new Error(`Unit ${n} was not appended`);
    }
  }
}

const firstOf = (unit: number) => (unit * (unit + 1)) / 2;

async function written(queue: BatchQueue): Promise<void> {
  await queue.commit();
  await queue.force();
}

/** First messages of the units from a message on, one file after the other. */
async function bases(queue: BatchQueue, from = queue.min): Promise<number[]> {
  const found: number[] = [];
  for (let next = from; next < queue.max; ) {
    const units = await queue.units(next, 100);
    if (units.length === 0) throw new Error(`No units at ${next}`);
    for (let at = 0; at < units.length; at += BATCH_UNIT_BYTES) {
      found.push(batchBase(units, at));
      next = batchBase(units, at) + batchMessages(units, at);
    }
  }
  return found;
}

const upTo = (end: number, from = 0) => Array.from({ length: end - from }, (_, i) => from + i);

t.test("BatchQueue finds the unit of every message, in memory and in files", async (t) => {
  const rig = new BatchRig(t);
  const queue = rig.batches();
  fillUnits(queue, 0, 11);
  t.equal(queue.max, firstOf(11));
  t.equal(queue.nextOffset, firstOf(11));
  t.equal(queue.maxPhysicalOffset, 11 * RECORD);
  const check = async (what: string): Promise<void> => {
    for (let n = 0; n < 11; n++) {
      for (let message = firstOf(n); message < firstOf(n + 1); message++) {
        const unit = await queue.units(message, 1);
        t.equal(batchBase(unit, 0), firstOf(n), `${what}: message ${message}`);
      }
    }
    t.same(await bases(queue), upTo(11).map(firstOf), what);
  };
  await check("in memory");
  await queue.commit();
  t.equal(rig.starts.length, 3);
  await check("in files");
  fillUnits(queue, 11, 13);
  t.same(await bases(queue, firstOf(9)), upTo(13, 9).map(firstOf), "in both");
  t.equal((await queue.units(firstOf(13), 1)).length, 0);
});

t.test("BatchQueue.append() takes what comes next, and nothing else", async (t) => {
  const queue = new BatchRig(t).batches();
  fillUnits(queue, 0, 3);
  t.equal(queue.append(5, 900, RECORD, 0, 0, 1), "known");
  t.equal(queue.append(7, 900, RECORD, 0, 0, 1), "gap");
  t.equal(queue.append(6, 300, RECORD, 0, 0, 32_767), "appended");
  t.equal(queue.max, 6 + 32_767);
});

t.test("BatchQueue begins with unit 0, whatever its first message", async (t) => {
  const rig = new BatchRig(t);
  const queue = rig.batches();
  queue.startAt(1000);
  t.equal(queue.append(1000, 0, RECORD, 0, 0, 5), "appended");
  await written(queue);
  t.same(rig.starts, [0]);
  const again = rig.batches();
  t.ok(await again.findEnd(Number.POSITIVE_INFINITY));
  t.match(again, { min: 1000, max: 1005, nextOffset: 1005 });
});

t.test("BatchQueue.findEnd() drops the units of what lies behind a limit", async (t) => {
  const rig = new BatchRig(t);
  const queue = rig.batches();
  fillUnits(queue, 0, 10);
  await written(queue);
  for (const [limit, units] of [
    [Number.POSITIVE_INFINITY, 10],
    [9 * RECORD, 9],
    [8 * RECORD, 8],
    [5 * RECORD + 1, 6],
    [0, 0],
  ] as const) {
    const again = rig.batches();
    t.ok(await again.findEnd(limit));
    t.match(again, { min: 0, max: firstOf(units), nextOffset: firstOf(units) });
    t.equal(again.maxPhysicalOffset, units === 0 ? -1 : units * RECORD);
  }
  const again = rig.batches();
  await again.findEnd(5 * RECORD);
  await again.clearBehind();
  fillUnits(again, 5, 7);
  await written(again);
  t.same(rig.starts, [0, PER_FILE * BATCH_UNIT_BYTES]);
  const third = rig.batches();
  t.ok(await third.findEnd(Number.POSITIVE_INFINITY));
  t.same(await bases(third), upTo(7).map(firstOf));
});

t.test("BatchQueue.findEnd() says that a queue with a damaged end is none", async (t) => {
  for (const [what, change] of [
    ["its base", (unit: Buffer) => unit.writeBigInt64BE(-5n, 28)],
    ["its number", (unit: Buffer) => unit.writeInt16BE(0, 36)],
  ] as const) {
    const rig = new BatchRig(t);
    const queue = rig.batches();
    fillUnits(queue, 0, 6);
    await written(queue);
    await rig.files.close(rig.fileOf(5));
    rig.change(5, change);
    t.notOk(await rig.batches().findEnd(Number.POSITIVE_INFINITY), what);
  }
});

t.test("BatchQueue reads around a damaged unit, and says where it is", async (t) => {
  const rig = new BatchRig(t);
  const queue = rig.batches();
  fillUnits(queue, 0, 12);
  await written(queue);
  rig.change(5, (unit) => unit.writeInt16BE(-1, 36));
  for (const n of upTo(12)) {
    if (n === 5) continue;
    for (const message of [firstOf(n), firstOf(n + 1) - 1]) {
      const unit = await queue.units(message, 1);
      t.equal(batchBase(unit, 0), firstOf(n), `message ${message}`);
    }
  }
  const damaged = await queue.unitsAsTheyAre(firstOf(5) + 2, 1);
  t.notOk(isBatchUnit(damaged, 0));
  await t.rejects(queue.units(firstOf(5), 1), {
    code: "STORE_QUEUE_DAMAGED",
    message: /^Cannot read the unit of message 15 of queue T\/0/,
    path: rig.fileOf(5),
    position: BATCH_UNIT_BYTES,
  });
});

t.test("BatchQueue goes on behind a file that is missing", async (t) => {
  const rig = new BatchRig(t);
  const queue = rig.batches();
  fillUnits(queue, 0, 12);
  await written(queue);
  for (const unit of [0, 4, 8]) await rig.files.close(rig.fileOf(unit));
  rmSync(rig.fileOf(4));
  const again = rig.batches();
  await again.findEnd(Number.POSITIVE_INFINITY);
  t.equal(again.max, firstOf(12));
  for (const message of upTo(firstOf(8), firstOf(4))) {
    t.equal(batchBase(await again.units(message, 1), 0), firstOf(8), `message ${message}`);
  }
  t.equal(batchBase(await again.units(firstOf(4) - 1, 1), 0), firstOf(3));
});

t.test("BatchQueue files go with their messages, and the queue goes on", async (t) => {
  const rig = new BatchRig(t);
  const queue = rig.batches();
  fillUnits(queue, 0, 10);
  await written(queue);
  await queue.expire(5 * RECORD);
  t.equal(queue.min, firstOf(5));
  t.ok(queue.hasExpiredFiles);
  t.same(await queue.removeExpiredFiles(), [rig.fileOf(0)]);
  t.same(await bases(queue), upTo(10, 5).map(firstOf));
  t.equal((await queue.units(firstOf(5) - 1, 1)).length, 0);
  await queue.expire(100 * RECORD);
  t.match(queue, { min: firstOf(10), max: firstOf(10) });
  await queue.removeExpiredFiles();
  t.equal(rig.starts.length, 1);
  const again = rig.batches();
  await again.findEnd(Number.POSITIVE_INFINITY);
  await again.correctMin(100 * RECORD);
  t.match(again, { min: firstOf(10), max: firstOf(10) });
  fillUnits(again, 10, 12);
  t.same(await bases(again), [firstOf(10), firstOf(11)]);
});

t.test("BatchQueue.reset() leaves nothing", async (t) => {
  const rig = new BatchRig(t);
  const queue = rig.batches();
  fillUnits(queue, 0, 10);
  await written(queue);
  await queue.reset();
  t.same(rig.starts, []);
  t.match(queue, { min: 0, max: 0, nextOffset: 0 });
  fillUnits(queue, 0, 2);
  t.same(await bases(queue), [0, 1]);
});
