import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { type Segment, segmentOf } from "../../lib/segment/segment.ts";
import { ZeroFiller } from "../../lib/segment/zero_filler.ts";
import { FakeClock, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { until } from "../support/random.ts";
import { testFolder } from "../support/test_folder.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

function setUp(t: Test, size = 64 * MIB) {
  const root = testFolder(t);
  const fs = new InterceptedFileSystem(new NodeFileSystem());
  const files = new OpenFiles(fs);
  const clock = new FakeClock();
  const failures: string[] = [];
  const filler = new ZeroFiller({
    files,
    clock,
    failed: async ({ path }, position, cause) => {
      failures.push(`${path.slice(-2)} ${position} ${(cause as { code: string }).code}`);
    },
  });
  t.teardown(async () => {
    fs.clear();
    await filler.close();
    await files.closeAll();
  });
  const make = async (start: number): Promise<Segment> => {
    const segment = segmentOf(root, start, size);
    const file = await fs.open(segment.path, "create");
    await file.ftruncate(size);
    await file.close();
    return segment;
  };
  const pieces = (): [from: number, to: number][] =>
    fs.calls
      .filter(({ name }) => name === "pwritev")
      .map(({ position = 0, length = 0 }) => [position, position + length]);
  return { root, fs, clock, filler, failures, make, pieces };
}

t.test("ZeroFiller.advance() writes and syncs zeros ahead, piece by piece", async (t) => {
  const { filler, make, pieces, fs } = setUp(t);
  const segment = await make(0);
  let position = 0;
  for (let i = 0; i < 200; i++) {
    filler.advance(segment, position);
    await filler.close();
    position += 100 * KIB;
  }
  const found = pieces();
  t.strictSame(found.slice(0, 2), [
    [0, 256 * KIB],
    [256 * KIB, 512 * KIB],
  ]);
  for (const [i, [from, to]] of found.entries()) {
    if (i > 0) t.equal(from, found[i - 1]?.[1], "piece behind piece");
    t.equal(to - from, 256 * KIB);
  }
  const zeroed = found.at(-1)?.[1] ?? 0;
  t.ok(zeroed - position <= MIB && zeroed > position, `${position} < ${zeroed}`);
  t.equal(fs.count("fdatasync"), found.length);
  t.ok(statSync(segment.path).blocks * 512 >= zeroed);
  t.equal(statSync(segment.path).size, segment.size);
});

t.test(
  "ZeroFiller.advance() writes nothing below the log's end, nor behind the file's",
  async (t) => {
    const { filler, make, pieces, root } = setUp(t, 300 * KIB);
    const segment = await make(0);
    const content = Buffer.alloc(300 * KIB);
    content.fill("x", 0, 100_001);
    writeFileSync(join(root, segment.path.slice(-20)), content);
    filler.advance(segment, 100_001);
    await filler.close();
    filler.advance(segment, 100_001);
    await filler.close();
    for (const [from, to] of pieces()) t.ok(from >= 100_001 && to <= segment.size, `${from} ${to}`);
    t.ok(readFileSync(segment.path).equals(content));
  },
);

t.test("ZeroFiller.advance() does nothing where enough is there", async (t) => {
  const { filler, make, pieces } = setUp(t);
  const segment = await make(0);
  for (let i = 0; i < 5; i++) {
    filler.advance(segment, 0);
    await filler.close();
  }
  t.equal(pieces().length, 3);
  filler.advance(segment, 1000);
  await filler.close();
  t.equal(pieces().length, 3);
});

t.test("ZeroFiller.clear() holds a write back that would meet the zeros under way", async (t) => {
  const { filler, make, fs } = setUp(t);
  const segment = await make(0);
  filler.advance(segment, 0);
  await filler.close();
  t.equal(filler.clear(segment, 1000), undefined, "nothing is under way");
  const held = fs.hold("pwritev");
  filler.advance(segment, 1000);
  await held.waiting;
  t.equal(filler.clear(segment, 256 * KIB), undefined, "below it");
  let clear = false;
  const waiting = filler.clear(segment, 256 * KIB + 1)?.then(() => {
    clear = true;
  });
  const other = await make(segment.size);
  t.equal(filler.clear(other, 256 * KIB + 1), undefined);
  t.equal(clear, false);
  held.release();
  await waiting;
  t.equal(clear, true);
});

t.test("ZeroFiller gives way to a log that is faster", async (t) => {
  const { filler, make, pieces, clock } = setUp(t);
  const segment = await make(0);
  filler.advance(segment, 0);
  await filler.close();
  filler.advance(segment, 5 * MIB);
  await filler.close();
  t.equal(pieces().length, 1, "not at once");
  await clock.advance(100);
  filler.advance(segment, 5 * MIB + 100 * KIB);
  await filler.close();
  const [from] = pieces()[1] as [number, number];
  t.ok(from > 5 * MIB + 100 * KIB, "some way ahead");
});

t.test("ZeroFiller begins anew in the next file", async (t) => {
  const { filler, make, fs } = setUp(t);
  const [first, second] = [await make(0), await make(64 * MIB)];
  filler.advance(first, 0);
  await filler.close();
  filler.advance(second, 0);
  await filler.close();
  t.match(fs.calls.filter(({ name }) => name === "pwritev").at(-1), {
    path: second.path,
    position: 0,
  });
});

t.test(
  "ZeroFiller lets the log find out about failed writes, but tells failed syncs",
  async (t) => {
    const { filler, make, fs, clock, failures, pieces } = setUp(t);
    const segment = await make(0);
    fs.failNext("pwritev", "ENOSPC");
    filler.advance(segment, 0);
    await filler.close();
    t.strictSame(failures, []);
    filler.advance(segment, 0);
    await filler.close();
    t.equal(pieces().length, 1, "it waits before it tries again");
    await clock.advance(100);
    fs.failNext("fdatasync", "EIO");
    filler.advance(segment, 0);
    await filler.close();
    await until(() => failures.length === 1);
    t.strictSame(failures, ["00 0 EIO"]);
  },
);
