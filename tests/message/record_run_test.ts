/**
 * What the addon says of records, beside what TypeScript says: of those that RocketMQ wrote, and of
 * made-up ones of every kind, most of them damaged.
 */

import t from "tap";
import { loadNativeBinding, type NativeBinding, standIns } from "../../lib/io/native_binding.ts";
import { dispatchRequestOf, type QueueRequest } from "../../lib/message/dispatch_request.ts";
import { isHoleRecordAt } from "../../lib/message/hole_record.ts";
import { checkRecord, type RecordCheckOptions } from "../../lib/message/record.ts";
import { RecordRun } from "../../lib/message/record_run.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import { isTornRecord } from "../../lib/message/torn_record.ts";
import { goldenNames, openGolden, readLog } from "../support/golden.ts";
import { type Random, randomOf, seedOf } from "../support/random.ts";
import { anyRecord, damage, encodeRaw, USUAL } from "../support/raw_record.ts";

const LEVELS = DelayLevels.parse();
const native = loadNativeBinding();
const skip = native?.checkRecords === undefined || native.checkRecords === standIns.checkRecords;

type Checker = Pick<NativeBinding, "checkRecords">;

/** How the records of some bytes were told. */
interface Tally {
  /** Vouched for, and of these those with all that queues need to know. */
  whole: number;
  plain: number;
  /** Whole, but left to TypeScript. */
  left: number;
  bad: number;
  readonly wrong: string[];
}

function tally(): Tally {
  return { whole: 0, plain: 0, left: 0, bad: 0, wrong: [] };
}

/**
 * Looks at what lies at each of some places, and behind whole records.
 *
 * @param offset Where in the log the bytes begin.
 */
function compare(
  checker: Checker,
  bytes: Buffer,
  places: readonly number[],
  offset: number,
  options: RecordCheckOptions,
  into: Tally,
): void {
  const run = new RecordRun(checker);
  for (const place of places) {
    for (let at = place; at < bytes.length; ) {
      const where = offset + at;
      const size = run.next(bytes, at, where, options);
      const check = checkRecord(bytes, at, bytes.length, where, options);
      if (size === 0) {
        if (check.kind !== "record") {
          into.bad++;
          break;
        }
        into.left++;
        at += check.size;
        continue;
      }
      into.whole++;
      if (check.kind !== "record" || check.size !== size) {
        into.wrong.push(`at ${where}: ${size} bytes, not ${JSON.stringify(check)}`);
        break;
      }
      const request = run.request(where);
      if (request) {
        into.plain++;
        const fault = requestFault(request, bytes, at);
        if (fault) into.wrong.push(`at ${where}: ${fault}`);
      }
      at += size;
    }
  }
}

/** What is wrong with what queues are told of a record. */
function requestFault(request: QueueRequest, bytes: Buffer, at: number): string | undefined {
  const expected = dispatchRequestOf(bytes, at, LEVELS);
  for (const [key, value] of Object.entries(request)) {
    const due = expected[key as keyof QueueRequest];
    if (!Object.is(value, due)) return `${key} is ${value}, not ${due}`;
  }
  if (isHoleRecordAt(bytes, at)) return "it stands for a hole";
  // It may lie anywhere in its file.
  for (let position = 0; position < 512; position += 7) {
    if (isTornRecord(bytes, at, position)) return `it is torn at ${position}`;
  }
  return undefined;
}

/** Several records one behind the other, some damaged, cut off somewhere at times. */
function trial(random: Random, checker: Checker, into: Tally): void {
  const offset = random(3) === 0 ? 2 ** 40 + random(1000) : random(1000);
  const front = random(3);
  const pieces: Buffer[] = [Buffer.alloc(front, 1)];
  const places: number[] = [];
  let end = front;
  for (let count = 1 + random(6); count > 0; count--) {
    const record = anyRecord(random, offset + end);
    if (random(2) === 0) damage(random, record);
    places.push(end);
    pieces.push(record);
    end += record.length;
  }
  const all = Buffer.concat(pieces);
  const cut = random(4) === 0 ? random(all.length) : 0;
  // Exactly as long as it is: a read behind it would be one of other memory.
  const bytes: Buffer = Buffer.alloc(all.length - cut);
  all.copy(bytes);
  for (const checkCrc of [true, false]) {
    compare(checker, bytes, places, offset, { checkCrc }, into);
  }
}

t.test("RecordRun agrees with checkRecord() about RocketMQ's records", { skip }, async (t) => {
  const all = tally();
  for (const name of goldenNames()) {
    const { dir, recipe, expected } = openGolden(t, name);
    const fileSize = recipe.config.mappedFileSizeCommitLog;
    const places = expected.commitLog.records.map(({ offset }) => offset);
    for (const [start, file] of readLog(dir)) {
      const here = places.filter((offset) => offset >= start && offset < start + fileSize);
      const within = here.map((offset) => offset - start);
      compare(native as Checker, file, within, start, { checkCrc: true }, all);
    }
  }
  t.strictSame(all.wrong, []);
  t.comment(`${all.plain} plain of ${all.whole}, ${all.left} left`);
  t.ok(all.plain > 1000 && all.plain > 5 * all.left, "nearly all are vouched for");
});

t.test("RecordRun agrees with checkRecord() about any bytes", { skip }, async (t) => {
  const random = randomOf(seedOf(t));
  const all = tally();
  for (let i = 0; i < 8000; i++) trial(random, native as Checker, all);
  t.strictSame(all.wrong.slice(0, 5), []);
  t.comment(`${all.plain} plain of ${all.whole}, ${all.left} left, ${all.bad} bad`);
  t.ok(all.plain > 10_000 && all.whole > all.plain && all.left > 100 && all.bad > 1000);
});

t.test(
  "RecordRun vouches for no byte that another one has taken the place of",
  { skip },
  async (t) => {
    const random = randomOf(seedOf(t));
    const all = tally();
    for (let i = 0; i < 4; i++) {
      const record = anyRecord(randomOf(i), 0);
      for (let at = 0; at < record.length; at++) {
        const was = record[at] as number;
        record[at] = was ^ (1 + random(255));
        compare(native as Checker, record, [0], 0, { checkCrc: i % 2 === 0 }, all);
        record[at] = was;
      }
    }
    t.strictSame(all.wrong, []);
  },
);

t.test("RecordRun tells many topics apart, and runs longer than a look", { skip }, async (t) => {
  const records: Buffer[] = [];
  let end = 0;
  for (let i = 0; i < 5000; i++) {
    const record = encodeRaw({
      ...USUAL,
      queueId: i % 7,
      queueOffset: BigInt(i),
      offset: end,
      body: Buffer.alloc(i % 50),
      topic: Buffer.from(`topic-${(i * 7919) % 300}`),
    });
    records.push(record);
    end += record.length;
  }
  const all = tally();
  compare(native as Checker, Buffer.concat(records), [0], 0, { checkCrc: true }, all);
  t.match(all, { plain: 5000, wrong: [], left: 0 });
});

t.test(
  "RecordRun leaves all to checkRecord() without the addon, or with a CRC that must be",
  async (t) => {
    const record = encodeRaw(USUAL);
    t.equal(new RecordRun(standIns).next(record, 0, 0, { checkCrc: true }), 0);
    const forced = { checkCrc: true, forceVerifyPropCRC: true };
    t.equal(new RecordRun().next(record, 0, 0, forced), 0);
    t.equal(new RecordRun().next(record, 0, 0, { checkCrc: true }), skip ? 0 : record.length);
  },
);

t.test("NativeBinding.checkRecords() stays within what it is given", { skip }, async (t) => {
  const { checkRecords } = native as NativeBinding;
  const record = encodeRaw(USUAL);
  const rows = new Float64Array(16);
  t.equal(checkRecords(record, 0, 0, true, rows), 1);
  t.equal(checkRecords(record, 0, 0, true, rows.subarray(0, 7)), 0, "no room for a row");
  for (const start of [1, record.length - 1, record.length, record.length + 1, 2 ** 53 - 1]) {
    t.equal(checkRecords(record, start, start, true, rows), 0, `from ${start}`);
  }
  for (let size = 0; size < record.length; size++) {
    t.equal(checkRecords(Uint8Array.prototype.slice.call(record, 0, size), 0, 0, false, rows), 0);
  }
  t.throws(() => checkRecords(record, -1, 0, true, rows), RangeError);
  t.throws(() => checkRecords(record, 0, 2 ** 53, true, rows), RangeError);
  const bytes = new Uint8Array(64) as unknown as Float64Array;
  t.throws(() => checkRecords(record, 0, 0, true, bytes), TypeError);
});

t.test("RecordRun is compared so that a wrong checker is seen", { skip }, async (t) => {
  const { checkRecords } = native as NativeBinding;
  const liars: Record<string, Checker["checkRecords"]> = {
    "one that computes no CRC": (bytes, start, offset, _, rows) =>
      checkRecords(bytes, start, offset, false, rows),
    "one with other tags": (bytes, start, offset, checkCrc, rows) => {
      const count = checkRecords(bytes, start, offset, checkCrc, rows);
      for (let row = 0; row < count; row++) if (row === 2) rows[row * 8 + 6]! += 1;
      return count;
    },
    "one that vouches for the next, too": (bytes, start, offset, checkCrc, rows) => {
      const count = checkRecords(bytes, start, offset, checkCrc, rows);
      if (count === 0) return 0;
      const last = (count - 1) * 8;
      const at = rows[last]! + rows[last + 1]!;
      if (at + 4 > bytes.length) return count;
      rows.copyWithin(last + 8, last, last + 8);
      rows[last + 8] = at;
      rows[last + 9] = Buffer.from(bytes.buffer, bytes.byteOffset).readInt32BE(at);
      return count + 1;
    },
  };
  for (const [what, liar] of Object.entries(liars)) {
    const random = randomOf(1);
    const all = tally();
    for (let i = 0; i < 500; i++) trial(random, { checkRecords: liar }, all);
    t.ok(all.wrong.length > 0, what);
  }
});
