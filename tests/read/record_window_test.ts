import t, { type Test } from "tap";
import type { CommitLog } from "../../lib/commit_log/commit_log.ts";
import { StoreError } from "../../lib/errors.ts";
import { type RecordPlace, RecordWindow } from "../../lib/read/record_window.ts";

const KIB = 1024;
const FILE = 1024 * KIB;

/** A log whose byte at an offset is the offset's, and that notes what is read. */
function setUp(
  t: Test,
  limit = 10 * FILE,
  fails: (offset: number, size: number) => boolean = () => false,
) {
  const reads: [offset: number, size: number][] = [];
  const log = {
    segments: { startOf: (offset: number) => offset - (offset % FILE), fileSize: FILE },
    read: async (offset: number, size: number) => {
      reads.push([offset, size]);
      if (fails(offset, size)) throw new StoreError("STORE_IO", "Cannot read");
      if (offset + size > limit) return undefined;
      return Buffer.from(Array.from({ length: size }, (_, i) => (offset + i) % 251));
    },
  } as unknown as CommitLog;
  const window = new RecordWindow(log, limit);
  const read = async (offset: number, size: number, following: RecordPlace[] = []) => {
    const bytes = await window.read({ offset, size }, following);
    if (bytes && (bytes.length !== size || bytes[0] !== offset % 251)) t.fail("wrong bytes");
    return bytes;
  };
  return { reads, read };
}

const at = (offset: number, size: number): RecordPlace => ({ offset, size });

t.test("RecordWindow.read() reads neighbours along, and not again", async (t) => {
  const { reads, read } = setUp(t);
  await read(100, 50, [at(150, 30), at(200, 10)]);
  await read(150, 30);
  await read(200, 10);
  t.strictSame(reads, [[100, 110]]);
  await read(210, 10);
  await read(100, 50);
  t.strictSame(reads.slice(1), [
    [210, 10],
    [100, 50],
  ]);
});

t.test(
  "RecordWindow.read() reads along only what is close, in one file, and readable",
  async (t) => {
    for (const [what, following, size] of [
      ["a gap of 4 KiB", at(150 + 4 * KIB, 10), 50 + 4 * KIB + 10],
      ["a larger gap", at(151 + 4 * KIB, 10), 50],
      ["up to 256 KiB", at(150, 256 * KIB - 50), 256 * KIB],
      ["more than 256 KiB", at(150, 256 * KIB - 49), 50],
      ["a place before it", at(90, 100), 50],
      ["a place inside it", at(120, 10), 50],
      ["a size of 0", at(150, 0), 50],
      ["a negative size", at(150, -20), 50],
      ["behind the limit", at(150, 9 * FILE), 50],
    ] as const) {
      const { reads, read } = setUp(t, 2 * FILE);
      await read(100, 50, [following]);
      t.strictSame(reads, [[100, size]], what);
    }
    const { reads, read } = setUp(t);
    await read(FILE - 100, 90, [at(FILE, 10)]);
    t.strictSame(reads, [[FILE - 100, 90]], "another file");
  },
);

t.test("RecordWindow.read() stops at the first place that is not close", async (t) => {
  const { reads, read } = setUp(t);
  await read(0, 10, [at(10, 10), at(100_000, 10), at(20, 10)]);
  t.strictSame(reads, [[0, 20]]);
});

t.test("RecordWindow.read() of what is not there is undefined", async (t) => {
  const { read } = setUp(t, 1000);
  t.equal(await read(990, 20), undefined);
  t.equal((await read(990, 10))?.length, 10);
});

t.test("RecordWindow.read() lets a bad place behind a record not take it along", async (t) => {
  const { reads, read } = setUp(
    t,
    10 * FILE,
    (offset, size) => offset <= 150 && offset + size > 150,
  );
  t.equal((await read(100, 50, [at(150, 10)]))?.length, 50);
  t.strictSame(reads, [
    [100, 60],
    [100, 50],
  ]);
  await t.rejects(read(150, 10), { code: "STORE_IO" });
});
