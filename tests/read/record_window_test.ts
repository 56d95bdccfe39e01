import t, { type Test } from "tap";
import type { CommitLog } from "../../lib/commit_log/commit_log.ts";
import type { RecordPlace } from "../../lib/consume_queue/queue_unit.ts";
import { StoreError } from "../../lib/errors.ts";
import { RecordPlaces } from "../../lib/message/record_places.ts";
import { RecordWindow } from "../../lib/read/record_window.ts";

const KIB = 1024;
const FILE = 1024 * KIB;

type Range = [offset: number, size: number];

/** A log whose byte at an offset is the offset's, and that notes what is read together. */
function setUp(
  t: Test,
  limit = 10 * FILE,
  fails: (offset: number, size: number) => boolean = () => false,
) {
  const reads: Range[][] = [];
  const log = {
    segments: {
      startOf: (offset: number) => offset - (offset % FILE),
      fileSize: FILE,
      find: () => ({}),
    },
    readEach: async (start: number, ranges: Float64Array, length: number) => {
      const read: Range[] = [];
      for (let i = 0; i < ranges.length; i += 2) read.push([start + ranges[i]!, ranges[i + 1]!]);
      reads.push(read);
      if (read.some(([offset, size]) => fails(offset, size))) {
        throw new StoreError("STORE_IO", "Cannot read");
      }
      const parts = read.map(([offset, size]) =>
        Buffer.from(Array.from({ length: size }, (_, i) => (offset + i) % 251)),
      );
      const bytes = Buffer.concat(parts);
      t.equal(bytes.length, length);
      return { bytes, recent: false };
    },
  } as unknown as CommitLog;
  const vouched: number[] = [];
  const window = new RecordWindow(log, limit, (bytes, places, count) => {
    const ats = Array.from({ length: count }, (_, i) => places.at(i));
    if (ats.some((at, i) => at + places.size(i) > bytes.length)) t.fail("outside of the bytes");
    return vouched.shift() ?? 0;
  });
  const take = ({ offset, size }: RecordPlace) => {
    const at = window.take(offset, size);
    if (at < 0) return undefined;
    const bytes = window.bytes.subarray(at, at + size);
    if (bytes.some((byte, i) => byte !== (offset + i) % 251)) t.fail("wrong bytes");
    t.equal(bytes.length, size);
    return bytes;
  };
  const load = async (place: RecordPlace, following: RecordPlace[] = []) => {
    const places = new RecordPlaces(1 + following.length);
    for (const { offset, size } of [place, ...following]) places.add(offset, size, 0);
    return window.load(places);
  };
  return { reads, load, take, kept: () => window.bytes.length, vouched, window };
}

const at = (offset: number, size: number): RecordPlace => ({ offset, size });

t.test("RecordWindow.load() reads neighbours along, and not again", async (t) => {
  const { reads, load, take } = setUp(t);
  const places = [at(100, 50), at(150, 30), at(200, 10)] as const;
  t.equal(await load(places[0], places.slice(1)), true);
  for (const place of places) t.ok(take(place));
  t.equal(take(places[0]), undefined, "each is taken once");
  t.strictSame(reads, [[[100, 110]]]);
});

t.test("RecordWindow.take() passes over what is not asked for", async (t) => {
  const { load, take } = setUp(t);
  await load(at(100, 50), [at(150, 30), at(9000, 10), at(9010, 20)]);
  t.ok(take(at(9000, 10)));
  t.equal(take(at(150, 30)), undefined);
  t.equal(take(at(9010, 20)), undefined);
});

t.test("RecordWindow.load() reads along what is in one file, and readable", async (t) => {
  for (const [what, following, ranges] of [
    ["a gap of 4 KiB", at(150 + 4 * KIB, 10), [[100, 50 + 4 * KIB + 10]]],
    [
      "a larger gap",
      at(151 + 4 * KIB, 10),
      [
        [100, 50],
        [151 + 4 * KIB, 10],
      ],
    ],
    ["up to 256 KiB", at(150, 256 * KIB - 50), [[100, 256 * KIB]]],
    ["more than 256 KiB", at(150, 256 * KIB - 49), [[100, 50]]],
    [
      "a place before it",
      at(90, 100),
      [
        [100, 50],
        [90, 100],
      ],
    ],
    [
      "a place inside it",
      at(120, 10),
      [
        [100, 50],
        [120, 10],
      ],
    ],
    ["a size of 0", at(150, 0), [[100, 50]]],
    ["a negative size", at(150, -20), [[100, 50]]],
    ["a negative place", at(-10, 20), [[100, 50]]],
    ["behind the limit", at(150, 9 * FILE), [[100, 50]]],
    ["over the end of the file", at(FILE - 10, 20), [[100, 50]]],
    ["another file", at(FILE, 10), [[100, 50]]],
  ] as const) {
    const { reads, load, take } = setUp(t, 2 * FILE);
    t.ok(await load(at(100, 50), [following]));
    t.same(reads, [ranges], what);
    t.ok(take(at(100, 50)));
    if (ranges.length > 1 || ranges[0][1] > 50) t.ok(take(following), what);
  }
  const { reads, load } = setUp(t);
  await load(
    at(0, 1),
    Array.from({ length: 100 }, (_, i) => at(i + 1, 1)),
  );
  t.strictSame(reads, [[[0, 64]]], "at most so many");
});

t.test("RecordWindow keeps little besides the records", async (t) => {
  const { load, take, kept } = setUp(t);
  await load(at(0, 50), [at(150, 50)]);
  t.equal(kept(), 200);
  await load(at(0, 50), [at(151, 50), at(2000, 20)]);
  t.equal(kept(), 120);
  for (const place of [at(0, 50), at(151, 50), at(2000, 20)]) t.ok(take(place));
});

t.test("RecordWindow.load() of what is not there is false", async (t) => {
  const { load, take } = setUp(t, 1000);
  t.equal(await load(at(990, 20)), false);
  t.equal(take(at(990, 20)), undefined);
  t.equal(await load(at(990, 10)), true);
  t.ok(take(at(990, 10)));
});

t.test("RecordWindow.load() lets a bad place behind a record not take it along", async (t) => {
  const { reads, load, take } = setUp(
    t,
    10 * FILE,
    (offset, size) => offset <= 150 && offset + size > 150,
  );
  t.equal(await load(at(100, 50), [at(150, 10)]), true);
  t.ok(take(at(100, 50)));
  t.strictSame(reads, [[[100, 60]], [[100, 50]]]);
  await t.rejects(load(at(150, 10)), { code: "STORE_IO" });
});

t.test("RecordWindow knows for which records somebody has vouched", async (t) => {
  const { load, take, vouched, window } = setUp(t);
  const places = [at(100, 50), at(150, 30), at(9000, 10)] as const;
  const isVouched = (place: RecordPlace) => take(place) && window.isVouched;
  vouched.push(2);
  await load(places[0], places.slice(1));
  t.strictSame(places.map(isVouched), [true, true, false]);
  vouched.push(3);
  await load(places[0], places.slice(1));
  t.strictSame([isVouched(places[0]), isVouched(places[2])], [true, true], "one is passed over");
  await load(places[0]);
  t.equal(isVouched(places[0]), false, "not those of the load before");
});

t.test("RecordWindow.takeVouched() takes those at once, and no others", async (t) => {
  const { load, take, vouched, window } = setUp(t);
  const places = [at(100, 50), at(150, 30), at(9000, 10)] as const;
  t.equal(window.takeVouched(), 0, "nothing is loaded");
  for (const [vouches, before, expected] of [
    [2, 0, 2],
    [3, 1, 2],
    [1, 2, 0],
    [0, 0, 0],
  ] as const) {
    vouched.push(vouches);
    await load(places[0], places.slice(1));
    for (const place of places.slice(0, before)) t.ok(take(place));
    t.equal(window.takeVouched(), expected);
    t.equal(window.takeVouched(), 0);
    for (const place of places.slice(before + expected)) t.ok(take(place), "the next one");
  }
  vouched.push(3);
  await load(places[0], places.slice(1));
  t.equal(await load(at(11 * FILE, 10)), false);
  t.equal(window.takeVouched(), 0, "not those of a load before");
});
