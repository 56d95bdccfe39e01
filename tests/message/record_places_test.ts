/**
 * What the addon says of the records that a queue leads to, beside what TypeScript says of each.
 */

import t from "tap";
import { loadNativeBinding, type NativeBinding, standIns } from "../../lib/io/native_binding.ts";
import {
  checkRecord,
  isTopic,
  type RecordCheckOptions,
  readQueueId,
  readQueueOffset,
} from "../../lib/message/record.ts";
import { RecordPlaces } from "../../lib/message/record_places.ts";
import { type Random, randomOf, seedOf } from "../support/random.ts";
import { anyRecord, damage, encodeRaw, USUAL } from "../support/raw_record.ts";

const native = loadNativeBinding();
const skip = native?.checkPlaces === undefined || native.checkPlaces === standIns.checkPlaces;

type Checker = Pick<NativeBinding, "checkPlaces">;

interface Place {
  readonly at: number;
  readonly offset: number;
  readonly size: number;
  readonly queueOffset: number;
}

interface Queue {
  readonly topic: Buffer;
  readonly queueId: number;
}

interface Tally {
  vouched: number;
  /** Right, but left to TypeScript. */
  left: number;
  bad: number;
  readonly wrong: string[];
}

const CRC: RecordCheckOptions = { checkCrc: true };

function isRight(
  bytes: Buffer,
  { at, offset, size, queueOffset }: Place,
  { topic, queueId }: Queue,
  options: RecordCheckOptions,
): boolean {
  if (at + size > bytes.length) return false;
  const check = checkRecord(bytes, at, at + size, offset, options);
  return (
    check.kind === "record" &&
    check.size === size &&
    readQueueOffset(bytes, at) === queueOffset &&
    readQueueId(bytes, at) === queueId &&
    isTopic(bytes, at, topic)
  );
}

function compare(
  checker: Checker,
  bytes: Buffer,
  places: readonly Place[],
  queue: Queue,
  options: RecordCheckOptions,
  into: Tally,
): void {
  // From each place on: what lies behind one that is not vouched for is not looked at.
  for (let first = 0; first < places.length; first++) {
    const here = places.slice(first);
    const all = new RecordPlaces(here.length);
    here.forEach(({ at, offset, size, queueOffset }, i) => {
      all.add(offset, size, queueOffset);
      all.setAt(i, at);
    });
    const { topic, queueId } = queue;
    const count = all.check(bytes, all.count, topic, queueId, options, checker);
    here.slice(0, count + 1).forEach((place, i) => {
      const right = isRight(bytes, place, queue, options);
      if (i < count) into.vouched++;
      else if (right) into.left++;
      else into.bad++;
      if (i < count && !right) into.wrong.push(JSON.stringify(place));
    });
  }
}

/** Several records of any kind, of which a queue expects what the first says, or something near. */
function trial(random: Random, checker: Checker, into: Tally): void {
  const oneIn = (count: number): boolean => random(count) === 0;
  const start = oneIn(3) ? 2 ** 40 : 0;
  const pieces: Buffer[] = [];
  const places: Place[] = [];
  let end = 0;
  for (let count = 1 + random(5); count > 0; count--) {
    const queueOffset = random(1e6);
    const isUsual = !oneIn(3);
    const record = isUsual
      ? encodeRaw({
          ...USUAL,
          offset: start + end,
          queueId: oneIn(8) ? 1 : 0,
          queueOffset: BigInt(queueOffset),
          topic: Buffer.from(oneIn(8) ? "U" : "T"),
          ownCrc: oneIn(2),
        })
      : anyRecord(random, start + end);
    if (oneIn(4)) damage(random, record);
    places.push({
      at: end,
      offset: start + end + (oneIn(16) ? random(3) - 1 : 0),
      size: record.length + (oneIn(16) ? random(3) - 1 : 0),
      queueOffset: oneIn(16) ? queueOffset + random(3) - 1 : queueOffset,
    });
    pieces.push(record);
    end += record.length;
  }
  const all = Buffer.concat(pieces);
  // Exactly as long as it is: a read behind it would be one of other memory.
  const bytes = Buffer.alloc(all.length - (oneIn(4) ? random(all.length) : 0));
  all.copy(bytes);
  const queue = { topic: Buffer.from(oneIn(16) ? "" : "T"), queueId: 0 };
  for (const checkCrc of [true, false]) compare(checker, bytes, places, queue, { checkCrc }, into);
}

function tally(): Tally {
  return { vouched: 0, left: 0, bad: 0, wrong: [] };
}

t.test("RecordPlaces vouches for nothing that checkRecord() refuses", { skip }, async (t) => {
  const random = randomOf(seedOf(t));
  const all = tally();
  for (let i = 0; i < 8000; i++) trial(random, native as Checker, all);
  t.strictSame(all.wrong.slice(0, 5), []);
  t.comment(`${all.vouched} vouched for, ${all.left} left, ${all.bad} bad`);
  t.ok(all.vouched > 10_000 && all.bad > 10_000 && all.left < all.vouched / 20);
});

t.test("RecordPlaces is compared so that a wrong checker is seen", { skip }, async (t) => {
  const { checkPlaces } = native as NativeBinding;
  const liars: Record<string, Checker["checkPlaces"]> = {
    "one that computes no CRC": (bytes, places, count, topic, queueId) =>
      checkPlaces(bytes, places, count, topic, queueId, false),
    "one that vouches for all": (_, __, count) => count,
    "one that knows no queues": (bytes, places, count, topic, _, checkCrc) =>
      checkPlaces(bytes, places, count, topic, 0, checkCrc) ||
      checkPlaces(bytes, places, count, topic, 1, checkCrc),
  };
  for (const [what, liar] of Object.entries(liars)) {
    const random = randomOf(1);
    const all = tally();
    for (let i = 0; i < 500; i++) trial(random, { checkPlaces: liar }, all);
    t.ok(all.wrong.length > 0, what);
  }
});

t.test(
  "RecordPlaces leaves all to checkRecord() without the addon, or with a CRC that must be",
  (t) => {
    const record = encodeRaw({ ...USUAL, queueOffset: 5n });
    const places = new RecordPlaces(1);
    places.add(0, record.length, 5);
    places.setAt(0, 0);
    const topic = USUAL.topic;
    t.equal(places.check(record, 1, topic, 0, CRC, standIns), 0);
    t.equal(places.check(record, 1, topic, 0, { ...CRC, forceVerifyPropCRC: true }), 0);
    const free: RecordCheckOptions = { checkCrc: false, forceVerifyPropCRC: true };
    t.equal(places.check(record, 1, topic, 0, free), skip ? 0 : 1);
    t.equal(places.check(record, 1, topic, 0, CRC), skip ? 0 : 1);
    t.end();
  },
);

t.test("NativeBinding.checkPlaces() stays within what it is given", { skip }, async (t) => {
  const { checkPlaces } = native as NativeBinding;
  const record = encodeRaw(USUAL);
  const { length } = record;
  const { topic } = USUAL;
  const row = (offset: number, size: number, queueOffset: number, at: number) =>
    checkPlaces(record, Float64Array.of(offset, size, queueOffset, at), 1, topic, 0, true);
  t.equal(row(0, length, 0, 0), 1);
  const odd = [-1, 0.5, length + 1, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 63, 2 ** 64, Infinity, NaN];
  for (const number of odd) {
    t.equal(row(number, length, 0, 0), 0, `at offset ${number}`);
    t.equal(row(0, number, 0, 0), 0, `of ${number} bytes`);
    t.equal(row(0, length, number, 0), 0, `message ${number}`);
    t.equal(row(0, length, 0, number), 0, `at ${number}`);
  }
  for (const size of [length - 1, 1, 0]) t.equal(row(0, size, 0, 0), 0);
  const rows = Float64Array.of(0, length, 0, 0);
  for (const count of [2, 1000, 2 ** 53 - 1]) {
    t.equal(checkPlaces(record, rows, count, topic, 0, true), 1, "no more than there are");
  }
  t.equal(checkPlaces(record, rows.subarray(0, 3), 1, topic, 0, true), 0);
  t.equal(checkPlaces(record, rows, 1, topic, 2 ** 32, true), 0);
  t.equal(checkPlaces(new Uint8Array(0), rows, 1, new Uint8Array(0), 0, true), 0);
  t.throws(() => checkPlaces(record, rows, -1, topic, 0, true), RangeError);
  t.throws(() => checkPlaces(record, rows, 1, topic, -1, true), RangeError);
  t.throws(
    () => checkPlaces(record, record as unknown as Float64Array, 1, topic, 0, true),
    TypeError,
  );
});
