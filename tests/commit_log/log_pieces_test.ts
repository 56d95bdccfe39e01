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

/** A file of so many bytes, each of which tells its place, in a log whose files should have `size`. */
function setUp(t: Test, length: number, size = length) {
  const directory = testFolder(t);
  const content = Buffer.alloc(length);
  for (let i = 0; i < length; i++) content[i] = (i * 31 + (i >> 8)) & 0xff;
  const segment = segmentOf(directory, START, size);
  writeFileSync(join(segment.path), content);
  const files = new OpenFiles(new NodeFileSystem());
  t.teardown(() => files.closeAll());
  const segments = new SegmentQueue(directory, size, files, [segment]);
  segments.startOf = () => START;
  let reads = 0;
  const { read } = segments;
  segments.read = (offset, length) => {
    reads++;
    return read.call(segments, offset, length);
  };
  const pieces = new LogPieces(segments, segment, PIECE);
  const check = (offset: number, length: number): void => {
    const at = offset - pieces.offset;
    const bytes = pieces.bytes.subarray(at, at + length);
    if (!bytes.equals(content.subarray(offset - START, offset - START + length))) {
      throw new Error(`wrong bytes at ${offset}`);
    }
  };
  return { pieces, segments, check, reads: () => reads };
}

t.test("LogPieces reads a file from front to back, ahead of who looks at it", async (t) => {
  const { pieces, check, reads } = setUp(t, 1_000_000);
  t.notOk(pieces.holds(START, 1));
  for (let offset = START; offset < pieces.end; offset += 1000) {
    if (!pieces.holds(offset, 1000)) await pieces.read(offset, 1000);
    check(offset, 1000);
  }
  t.equal(pieces.end, START + 1_000_000);
  t.equal(reads(), 1, "only the first piece was waited for");
  await pieces.close();
});

t.test("LogPieces agrees with the file, whatever is asked for", async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(400_000), fc.integer({ min: 1, max: 150_000 })), { maxLength: 20 }),
      async (steps) => {
        const { pieces, check } = setUp(t, 300_000, 350_000);
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
    segments.readAhead = async () => {
      fails++;
      throw new Error("EIO");
    };
    await pieces.read(START, 100);
    await pieces.read(START + 300_000, 100);
    t.ok(pieces.holds(START + 300_000, 100));
    segments.read = async () => {
      throw new Error("EIO");
    };
    await t.rejects(pieces.read(START, 100), { message: "EIO" });
    await pieces.close();
    t.equal(fails, 2);
  },
);
