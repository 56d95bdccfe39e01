import { readdirSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { findNextRecord, type ScanStep, scanLog } from "../../lib/commit_log/log_scanner.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { encodeBlank, encodeRecord, MAGIC_V1 } from "../../lib/message/record.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { segmentName, segmentOf } from "../../lib/segment/segment.ts";
import { SegmentQueue } from "../../lib/segment/segment_queue.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { type GoldenRecord, goldenNames, openGolden } from "../support/golden.ts";
import { recordOf } from "../support/log_rig.ts";
import { testFolder } from "../support/test_folder.ts";

const KIB = 1024;
/** What the scanner reads at once. */
const PIECE = 512 * KIB;
const CHECK = { checkCrc: true };

/** A log of these record sizes; a file is closed where the next record does not fit. */
function logOf(t: Test, fileSize: number, sizes: readonly number[]) {
  const files = new Map<number, Buffer>();
  const offsets: number[] = [];
  let offset = 0;
  const fileAt = (start: number): Buffer => {
    const file = files.get(start) ?? Buffer.alloc(fileSize);
    files.set(start, file);
    return file;
  };
  sizes.forEach((size, i) => {
    let start = offset - (offset % fileSize);
    const room = start + fileSize - offset;
    if (size + 8 > room) {
      encodeBlank(fileAt(start), offset - start, room);
      start += fileSize;
      offset = start;
    }
    encodeRecord(fileAt(start), offset - start, recordOf(size), i, offset, 1_700_000_000_000);
    offsets.push(offset);
    offset += size;
  });
  const root = testFolder(t);
  const write = (): void => {
    for (const [start, file] of files) writeFileSync(join(root, segmentName(start)), file);
  };
  write();
  const fs = new InterceptedFileSystem(new NodeFileSystem());
  const open = new OpenFiles(fs);
  t.teardown(() => open.closeAll());
  const segments = new SegmentQueue(
    root,
    fileSize,
    open,
    [...files.keys()].map((start) => segmentOf(root, start, fileSize)),
  );
  return { segments, offsets, end: offset, files, write, root, fs };
}

/** Steps without the bytes: `record 0 92`. */
async function walk(segments: SegmentQueue, from = 0, onBad?: (step: ScanStep) => number) {
  const steps: string[] = [];
  const end = await scanLog(segments, from, CHECK, (step) => {
    steps.push(`${step.kind} ${step.offset} ${step.size}`);
    return step.kind === "bad" ? onBad?.(step) : undefined;
  });
  return { steps, end };
}

t.test("scanLog() visits records and blanks file by file, up to what is no record", async (t) => {
  const { segments, end } = logOf(t, 1000, [400, 500, 92, 900, 300]);
  t.strictSame(await walk(segments), {
    steps: [
      "record 0 400",
      "record 400 500",
      "record 900 92",
      "blank 992 8",
      "record 1000 900",
      "blank 1900 100",
      "record 2000 300",
      "bad 2300 0",
    ],
    end,
  });
});

t.test("scanLog() hands out the bytes of each record", async (t) => {
  const sizes = [92, 1000, 93, 5000];
  const { segments, files } = logOf(t, 8192, sizes);
  let seen = 0;
  await scanLog(segments, 0, CHECK, (step) => {
    if (step.kind !== "record") return "stop";
    const { bytes, at, size, offset } = step;
    const expected = files.get(0)?.subarray(offset, offset + size);
    t.ok(expected?.equals(bytes.subarray(at, at + size)));
    seen++;
    return undefined;
  });
  t.equal(seen, sizes.length);
});

t.test("scanLog() stops where it is told to, and can begin there again", async (t) => {
  const { segments, offsets } = logOf(t, 1000, [300, 300, 300, 300]);
  for (const stop of offsets) {
    const seen: number[] = [];
    const end = await scanLog(segments, 0, CHECK, ({ offset, kind }) => {
      if (kind === "record" && offset === stop) return "stop";
      seen.push(offset);
      return undefined;
    });
    t.equal(end, stop);
    const { steps } = await walk(segments, stop);
    t.equal(steps[0], `record ${stop} 300`);
  }
  const end = await scanLog(segments, 0, CHECK, ({ kind }) =>
    kind === "blank" ? "stop" : undefined,
  );
  t.equal(end, 900, "at a blank too");
});

t.test("scanLog() walks records that straddle its pieces, and larger ones", async (t) => {
  const fileSize = 4 * PIECE;
  for (const first of [
    PIECE - 200,
    PIECE - 100,
    PIECE - 92,
    PIECE - 9,
    PIECE - 8,
    PIECE - 7,
    PIECE - 1,
    PIECE,
    PIECE + 1,
    2 * PIECE + 12_345,
  ]) {
    const { segments, end } = logOf(t, fileSize, [first, 92, 150, PIECE + 300, 92]);
    const { steps, end: found } = await walk(segments);
    t.equal(found, end, `a first record of ${first} bytes`);
    t.equal(steps.filter((step) => step.startsWith("record")).length, 5);
  }
});

t.test("scanLog() reads large pieces, each about once", async (t) => {
  const sizes = Array.from({ length: 1000 }, (_, i) => 1500 + (i % 7));
  const { segments, fs } = logOf(t, 2 * 1024 * KIB, sizes);
  const { steps } = await walk(segments);
  t.equal(steps.length, 1001);
  const bytes = fs.calls
    .filter(({ name }) => name === "pread")
    .reduce((sum, { length = 0 }) => sum + length, 0);
  t.ok(bytes <= 3 * 1024 * KIB, `${bytes} bytes`);
});

t.test("scanLog() visits so many records in a turn, however small they are", async (t) => {
  const { segments } = logOf(t, 1024 * KIB, Array(6000).fill(92));
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const { steps } = await walk(segments);
  isOver = true;
  t.ok(steps.length >= 6000);
  t.ok(turns >= 5, `${turns} turns`);
});

t.test("scanLog() names what is bad, and goes on where it is told", async (t) => {
  const damages: Record<string, [position: number, bytes: number[], reason: RegExp]> = {
    "a magic": [4, [0, 0, 0, 0], /MAGICCODE/],
    "a size": [0, [0, 0, 0, 5], /TOTALSIZE is 5/],
    "a negative size": [0, [0xff, 0, 0, 0], /TOTALSIZE/],
    "a size beyond the file": [0, [0x7f, 0, 0, 0], /BODYLENGTH|end of its file/],
    "the body": [90, [0], /BODYCRC/],
    "the place": [35, [0xee], /PHYSICALOFFSET/],
    "the body's length": [84, [0x7f], /BODYLENGTH/],
    zeros: [0, [0, 0, 0, 0, 0, 0, 0, 0], /zeros/],
  };
  for (const [what, [position, bytes, reason]] of Object.entries(damages)) {
    const { segments, files, write, root } = logOf(t, 2000, [300, 300, 300, 300]);
    files.get(0)?.set(bytes, 300 + position);
    write();
    let bad: Extract<ScanStep, { kind: "bad" }> | undefined;
    const end = await scanLog(segments, 0, CHECK, (step) => {
      if (step.kind === "bad") bad = step;
      return undefined;
    });
    t.equal(end, 300, what);
    t.match(bad, { offset: 300, position: 300, path: join(root, segmentName(0)), reason }, what);
    const next = await findNextRecord(segments, 300, CHECK);
    t.equal(next, 600, `${what}: the next record is found`);
    const { steps } = await walk(segments, 0, ({ offset }) => (offset === 300 ? 600 : offset));
    t.strictSame(steps.slice(0, 4), [
      "record 0 300",
      `bad 300 ${files.get(0)?.readInt32BE(300)}`,
      "record 600 300",
      "record 900 300",
    ]);
  }
});

t.test("scanLog() takes an answer that does not move on for a stop", async (t) => {
  const { segments } = logOf(t, 1000, [300]);
  for (const answer of [0, 299, 300]) {
    t.equal((await walk(segments, 0, () => answer)).end, 300);
  }
  t.equal((await walk(segments, 0, () => 5000)).end, 1000, "and never leaves the file");
});

t.test("scanLog() meets a record that would run over the end of its file", async (t) => {
  const { segments, files, write } = logOf(t, 1000, [300, 300]);
  const record = Buffer.alloc(800);
  encodeRecord(record, 0, recordOf(800), 0, 600, 1);
  files.get(0)?.set(record.subarray(0, 400), 600);
  write();
  const { steps, end } = await walk(segments);
  t.equal(end, 600);
  t.equal(steps.at(-1), "bad 600 800");
});

t.test("scanLog() tells missing files, and goes on behind them", async (t) => {
  const { segments } = logOf(t, 1000, [900, 900, 900, 900]);
  segments.dropFrom(1000).forEach((segment) => {
    if (segment.start === 3000) segments.add(segment);
  });
  t.strictSame(await walk(segments), {
    steps: ["record 0 900", "blank 900 100", "gap 1000 2000", "record 3000 900", "bad 3900 0"],
    end: 3900,
  });
  const end = await scanLog(segments, 0, CHECK, ({ kind }) =>
    kind === "gap" ? "stop" : undefined,
  );
  t.equal(end, 1000);
  t.equal(await scanLog(segments, 9000, CHECK, () => undefined), 9000, "nothing there");
});

t.test("scanLog() ends where a file ends too soon", async (t) => {
  for (const length of [0, 3, 7, 8, 100, 300, 303, 500, 599, 600]) {
    const { segments, root } = logOf(t, 1000, [300, 300]);
    truncateSync(join(root, segmentName(0)), length);
    const { end } = await walk(segments);
    t.equal(end, Math.floor(length / 300) * 300, `${length} bytes`);
    t.equal(await findNextRecord(segments, 301, CHECK), 1000);
  }
});

t.test("scanLog() passes on a failed read", async (t) => {
  const { segments, fs } = logOf(t, 1000, [300]);
  fs.failNext("preadIfCached", "EIO");
  await t.rejects(walk(segments), { code: "STORE_IO", position: 0 }, "from the page cache");
  fs.shorten("preadIfCached", ["half"]);
  fs.failNext("pread", "EIO");
  await t.rejects(walk(segments), { code: "STORE_IO", position: 0 }, "on a thread");
});

t.test("findNextRecord() finds a record wherever it lies in the pieces", async (t) => {
  for (const first of [200, PIECE - 8, PIECE - 7, PIECE - 5, PIECE - 4, PIECE, PIECE + 1]) {
    const { segments, offsets } = logOf(t, 3 * PIECE, [first, 700_000, 92]);
    t.equal(await findNextRecord(segments, 1, CHECK), offsets[1], `${first}`);
    t.equal(await findNextRecord(segments, (offsets[1] ?? 0) + 1, CHECK), offsets[2]);
    t.equal(
      await findNextRecord(segments, (offsets[2] ?? 0) + 1, CHECK),
      3 * PIECE,
      "none is left",
    );
  }
});

t.test("findNextRecord() believes no magic in a body", async (t) => {
  const { segments, files, write, offsets, fs } = logOf(t, 2 * 1024 * KIB, [PIECE + 5000, 300]);
  const file = files.get(0) as Buffer;
  for (let at = 100; at < PIECE; at += 40) {
    file.writeInt32BE(0x10_0000, at);
    file.writeInt32BE(MAGIC_V1, at + 4);
  }
  // A whole record, but of another place.
  encodeRecord(file, 2000, recordOf(400), 0, 12_345, 1);
  write();
  t.equal(await findNextRecord(segments, 1, CHECK), offsets[1]);
  t.ok(fs.count("pread") + fs.count("preadIfCached") < 20, "nor reads behind each");
});

t.test("findNextRecord() in a hole stays where it is", async (t) => {
  const { segments } = logOf(t, 1000, [300]);
  t.equal(await findNextRecord(segments, 5000, CHECK), 5000);
});

t.test("scanLog() sees in golden stores what RocketMQ sees", async (t) => {
  for (const name of goldenNames()) {
    const { dir, recipe, expected } = openGolden(t, name);
    const root = join(dir, "commitlog");
    const { mappedFileSizeCommitLog: fileSize } = recipe.config;
    const starts = readdirSync(root)
      .sort()
      .filter((file) => statSync(join(root, file)).size === fileSize)
      .map(Number);
    const files = new OpenFiles(new NodeFileSystem());
    const segments = new SegmentQueue(
      root,
      fileSize,
      files,
      starts.map((start) => segmentOf(root, start, fileSize)),
    );
    const found = new Set<string>();
    for (let from: number | undefined = segments.minOffset; from !== undefined; ) {
      let bad = false;
      const end: number = await scanLog(segments, from, CHECK, (step) => {
        found.add(`${step.kind} ${step.offset} ${step.size}`);
        bad ||= step.kind === "bad";
        return undefined;
      });
      const next: number = bad ? await findNextRecord(segments, end, CHECK) : end;
      from = next > from && next < (segments.last?.start ?? 0) + fileSize ? next : undefined;
    }
    for (const entry of expected.commitLog.records) {
      if ("bad" in entry) continue;
      const what =
        "blank" in entry
          ? `blank ${entry.offset} ${entry.blank}`
          : `record ${entry.offset} ${(entry as GoldenRecord).size}`;
      if (!found.has(what)) t.fail(`${name}: ${what}`);
    }
    t.ok(found.size >= 0, name);
    await files.closeAll();
  }
});
