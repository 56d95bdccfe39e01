import { truncateSync, writeFileSync } from "node:fs";
import t, { type Test } from "tap";
import { loadNativeBinding } from "../../lib/io/native_binding.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { type Segment, segmentOf } from "../../lib/segment/segment.ts";
import { SegmentQueue } from "../../lib/segment/segment_queue.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { turns } from "../support/random.ts";
import { testFolder } from "../support/test_folder.ts";

const SIZE = 100;

/** Files at these starts; each is full of its own number. */
function setUp(t: Test, starts: readonly number[], native?: "off") {
  const root = testFolder(t);
  const segments: Segment[] = starts.map((start) => segmentOf(root, start, SIZE));
  for (const { path, start } of segments) writeFileSync(path, Buffer.alloc(SIZE, start / SIZE));
  const fs = new InterceptedFileSystem(new NodeFileSystem(native ? { native } : {}));
  const files = new OpenFiles(fs);
  t.teardown(() => files.closeAll());
  return { fs, files, segments, queue: new SegmentQueue(root, SIZE, files, segments) };
}

t.test("SegmentQueue.find() gives the file that holds the offset, never a neighbour", async (t) => {
  for (const starts of [[], [0], [0, 100, 200], [300, 400], [0, 100, 300, 400, 700], [200, 900]]) {
    const { queue } = setUp(t, starts);
    for (let offset = -1; offset < 1001; offset += offset % SIZE === 99 ? 1 : 49) {
      const expected = starts.find((start) => offset >= start && offset < start + SIZE);
      t.equal(queue.find(offset)?.start, expected, `${offset} in ${starts}`);
      t.equal(
        queue.nextFrom(offset)?.start,
        starts.find((start) => start >= offset),
        `next from ${offset} in ${starts}`,
      );
    }
    t.equal(queue.first?.start, starts[0]);
    t.equal(queue.last?.start, starts.at(-1));
    t.equal(queue.minOffset, starts[0]);
  }
});

t.test("SegmentQueue.startOf() is arithmetic", async (t) => {
  const { queue } = setUp(t, []);
  for (const [offset, start] of [
    [0, 0],
    [99, 0],
    [100, 100],
    [12_345, 12_300],
  ] as const) {
    t.equal(queue.startOf(offset), start);
  }
});

t.test("SegmentQueue.add() keeps the order, and refuses a second file of one start", async (t) => {
  const { queue } = setUp(t, [100, 300]);
  for (const start of [200, 0, 400]) queue.add(segmentOf(queue.directory, start, SIZE));
  t.strictSame(
    queue.segments.map(({ start }) => start),
    [0, 100, 200, 300, 400],
  );
  for (const start of [0, 200, 400]) {
    t.throws(() => queue.add(segmentOf(queue.directory, start, SIZE)), /already/);
  }
  t.equal(queue.segments.length, 5);
});

t.test("SegmentQueue.dropFrom() forgets the files behind an offset", async (t) => {
  for (const [offset, kept, dropped] of [
    [0, [], [0, 100, 300]],
    [1, [0], [100, 300]],
    [100, [0], [100, 300]],
    [101, [0, 100], [300]],
    [250, [0, 100], [300]],
    [300, [0, 100], [300]],
    [301, [0, 100, 300], []],
    [9999, [0, 100, 300], []],
  ] as const) {
    const { queue } = setUp(t, [0, 100, 300]);
    const starts = queue.dropFrom(offset).map(({ start }) => start);
    t.strictSame(starts, dropped, `dropped from ${offset}`);
    t.strictSame(
      queue.segments.map(({ start }) => start),
      kept,
    );
  }
});

t.test("SegmentQueue.read() stays within one file", async (t) => {
  for (const native of [undefined, "off"] as const) {
    const { queue } = setUp(t, [100, 300], native);
    t.same(await queue.read(150, 10), Buffer.alloc(10, 1));
    t.same(await queue.read(150, 10), Buffer.alloc(10, 1), "once more, now that it is open");
    t.same(await queue.read(190, 500), Buffer.alloc(10, 1), "up to the end of the file");
    t.same(await queue.read(399, 1), Buffer.alloc(1, 3));
    t.same(await queue.read(300, 0), Buffer.alloc(0));
    for (const offset of [0, 99, 200, 299, 400]) {
      t.equal(await queue.read(offset, 10), undefined, `no file holds ${offset}`);
    }
  }
});

const skip = loadNativeBinding() === undefined && "the addon isn't loaded";
t.test(
  "SegmentQueue answers at once from the page cache, until the turn is over",
  { skip },
  async (t) => {
    const { queue, fs } = setUp(t, [100]);
    const ranges = Float64Array.of(0, 30, 50, 30);
    const buffer = Buffer.alloc(60);
    t.ok(queue.read(150, 10) instanceof Promise, "it is not open yet");
    await queue.read(150, 10);
    for (let i = 0; i < 2; i++) {
      t.same(queue.read(150, 10), Buffer.alloc(10, 1));
      t.equal(queue.readEach(100, ranges, buffer), true);
      for (let step = 0; step < 64; step++) queue.read(150, 10);
      const read = queue.read(150, 10);
      const readEach = queue.readEach(100, ranges, buffer);
      t.ok(read instanceof Promise && readEach instanceof Promise);
      t.same(await read, Buffer.alloc(10, 1));
      t.equal(await readEach, true);
      await turns(1);
    }
    fs.shorten(["preadIfCached"], [1]);
    t.ok(queue.read(150, 10) instanceof Promise, "it was cached in part");
  },
);

t.test("SegmentQueue.read() gives fewer bytes where the file itself is shorter", async (t) => {
  const { queue, segments } = setUp(t, [0]);
  truncateSync((segments[0] as Segment).path, 60);
  t.same(await queue.read(50, 20), Buffer.alloc(10, 0));
  t.same(await queue.read(70, 20), Buffer.alloc(0));
});

t.test("SegmentQueue.read() reads what a short read left", async (t) => {
  const { queue, fs } = setUp(t, [0, 100]);
  fs.shorten(["pread", "preadIfCached"], [1, 3, "half"]);
  t.same(await queue.read(100, 60), Buffer.alloc(60, 1));
  fs.shorten(["preadIfCached"], ["half"]);
  t.same(await queue.read(110, 60), Buffer.alloc(60, 1));
});

t.test("SegmentQueue.read() names file and position of a failed read", async (t) => {
  const { queue, fs, segments } = setUp(t, [0, 100], "off");
  fs.failNext("pread", "EIO");
  await t.rejects(async () => queue.read(130, 10), {
    code: "STORE_IO",
    path: (segments[1] as Segment).path,
    position: 30,
    cause: { code: "EIO" },
  });
  fs.failNext("open", "EMFILE");
  await t.rejects(async () => queue.read(30, 10), { code: "STORE_IO", cause: { code: "EMFILE" } });
  t.same(await queue.read(30, 10), Buffer.alloc(10));
});
