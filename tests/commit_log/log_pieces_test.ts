import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import t, { type Test } from "tap";
import { LogPieces } from "../../lib/commit_log/log_pieces.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { segmentOf } from "../../lib/segment/segment.ts";
import { SegmentQueue } from "../../lib/segment/segment_queue.ts";
import { seedOf } from "../support/random.ts";
import { testFolder } from "../support/test_folder.ts";

const PIECE = 64 * 1024;
const START = 1_000_000;

/**
 * A file of so many bytes, each of which tells its place, in a log whose files should have `size`.
 *
 * @param isCached Whether the page cache has what is asked for, from an offset on.
 */
function setUp(
  t: Test,
  length: number,
  size = length,
  isCached: (offset: number) => boolean = () => false,
) {
  const directory = testFolder(t);
  const content = Buffer.alloc(length);
  for (let i = 0; i < length; i++) content[i] = (i * 31 + (i >> 8)) & 0xff;
  const segment = segmentOf(directory, START, size);
  writeFileSync(join(segment.path), content);
  const files = new OpenFiles(new NodeFileSystem());
  t.teardown(() => files.closeAll());
  const segments = new SegmentQueue(directory, size, files, [segment]);
  segments.startOf = () => START;
  let onThread = 0;
  let cached = 0;
  const { readOnThread } = segments;
  segments.readOnThread = (offset, buffer) => {
    onThread++;
    return readOnThread.call(segments, offset, buffer);
  };
  segments.readIfCached = async (offset, buffer) => {
    if (!isCached(offset)) return false;
    cached++;
    return (await readOnThread.call(segments, offset, buffer))?.length === buffer.length;
  };
  const pieces = new LogPieces(segments, segment, PIECE);
  const check = (offset: number, length: number): void => {
    const at = offset - pieces.offset;
    const bytes = pieces.bytes.subarray(at, at + length);
    if (!bytes.equals(content.subarray(offset - START, offset - START + length))) {
      throw new Error(`wrong bytes at ${offset}`);
    }
  };
  const walk = async (): Promise<void> => {
    for (let offset = START; offset < pieces.end; offset += 1000) {
      if (!pieces.holds(offset, 1000)) await pieces.read(offset, 1000);
      check(offset, 1000);
    }
    await pieces.close();
  };
  return { pieces, segments, check, walk, reads: () => ({ cached, onThread }) };
}

t.test("LogPieces reads a file from front to back, ahead of who looks at it", async (t) => {
  let asked = 0;
  const { pieces, walk, reads } = setUp(t, 1_000_000, 1_000_000, () => {
    asked++;
    return false;
  });
  t.notOk(pieces.holds(START, 1));
  await walk();
  t.equal(pieces.end, START + 1_000_000);
  t.equal(asked, 2, "pieces in between were on their way already");
  t.strictSame(reads(), { cached: 0, onThread: 20 });
});

t.test("LogPieces copies what is cached, and nothing ahead of it", async (t) => {
  const { walk, reads } = setUp(t, 1_000_000, 1_000_000, () => true);
  await walk();
  t.strictSame(reads(), { cached: 16, onThread: 0 });
});

t.test("LogPieces asks the cache again after a place that it does not have", async (t) => {
  const hole = START + 200_000;
  const isCached = (offset: number) => offset + PIECE <= hole || offset > hole;
  const { walk, reads } = setUp(t, 4_000_000, 4_000_000, isCached);
  await walk();
  const { cached, onThread } = reads();
  t.equal(onThread, 17);
  t.ok(cached > 40, `${cached} pieces`);
});

t.test("LogPieces agrees with the file, whatever is asked for", async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(400_000), fc.integer({ min: 1, max: 150_000 })), { maxLength: 20 }),
      fc.array(fc.boolean()),
      async (steps, isCachedAt) => {
        let place = 0;
        const isCached = () => isCachedAt[place++ % isCachedAt.length] ?? false;
        const { pieces, check } = setUp(t, 300_000, 350_000, isCached);
        let offset = START;
        for (const [skip, length] of steps) {
          offset += skip % 90_000;
          if (offset >= pieces.end) break;
          const wanted = Math.min(length, 350_000 - (offset - START));
          if (!pieces.holds(offset, wanted)) await pieces.read(offset, wanted);
          if (!pieces.holds(offset, wanted)) throw new Error("read() and holds() disagree");
          check(offset, wanted);
        }
        await pieces.close();
      },
    ),
    { seed: seedOf(t), numRuns: 60 },
  );
});

t.test("LogPieces finds out where a file ends too early", async (t) => {
  const { pieces } = setUp(t, 100_000, 200_000);
  for (let offset = START; offset < pieces.end; offset += 500) {
    if (!pieces.holds(offset, 500)) await pieces.read(offset, 500);
  }
  t.equal(pieces.end, START + 100_000);
  await pieces.close();
});

t.test(
  "LogPieces takes a failed read ahead for none, and fails where it is asked for",
  async (t) => {
    const { pieces, segments } = setUp(t, 500_000);
    let fails = 0;
    const { readOnThread } = segments;
    // Every other one: what is read ahead.
    let reads = 0;
    segments.readOnThread = async (offset, buffer) => {
      if (reads++ % 2 === 0) return readOnThread.call(segments, offset, buffer);
      fails++;
      throw new Error("EIO");
    };
    await pieces.read(START, 100);
    await pieces.read(START + 300_000, 100);
    t.ok(pieces.holds(START + 300_000, 100));
    segments.readOnThread = async () => {
      throw new Error("EIO");
    };
    await t.rejects(pieces.read(START, 100), { message: "EIO" });
    t.notOk(pieces.holds(START + 300_000, 100), "its memory may hold anything");
    await pieces.close();
    t.equal(fails, 2);
  },
);
