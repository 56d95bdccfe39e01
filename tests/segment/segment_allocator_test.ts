import { existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { segmentName } from "../../lib/segment/segment.ts";
import { SegmentAllocator } from "../../lib/segment/segment_allocator.ts";
import { type CallName, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { turns, until } from "../support/random.ts";
import { testFolder } from "../support/test_folder.ts";

const SIZE = 1000;

function setUp(t: Test, zerosAtFirst = 0) {
  const root = testFolder(t, { log: {}, own: {} });
  const fs = new InterceptedFileSystem(new NodeFileSystem());
  const files = new OpenFiles(fs);
  const settled: unknown[] = [];
  const allocator = new SegmentAllocator({
    fileSystem: fs,
    files,
    directory: join(root, "log"),
    staging: join(root, "own"),
    fileSize: SIZE,
    zerosAtFirst,
    settled: (error) => settled.push(error),
  });
  t.teardown(async () => {
    fs.clear();
    await allocator.close();
    await files.closeAll();
  });
  const path = (start: number) => join(root, "log", segmentName(start));
  const names = () => [readdirSync(join(root, "log")).map(Number), readdirSync(join(root, "own"))];
  return { root, fs, files, settled, allocator, path, names };
}

t.test(
  "SegmentAllocator.prepare() makes a file at full length, synced under its name",
  async (t) => {
    const { fs, allocator, settled, path, root, files } = setUp(t);
    allocator.prepare(2000);
    t.equal(allocator.peek(2000), undefined, "not before it is ready");
    t.equal(allocator.take(2000), undefined);
    await until(() => settled.length === 1);
    const own = join(root, "own", `${segmentName(2000)}.0.tmp`);
    const calls = fs.calls.map(({ name, path }) => [name, path]);
    const order: [CallName, string][] = [
      ["open", own],
      ["ftruncate", own],
      ["fdatasync", own],
      ["rename", own],
      ["syncDirectory", join(root, "log")],
    ];
    const seen = calls.filter(([name]) => order.some(([other]) => other === name));
    t.strictSame(seen.slice(0, order.length), order);
    t.equal(statSync(path(2000)).size, SIZE);
    const segment = allocator.peek(2000);
    t.match(segment, { start: 2000, size: SIZE, path: path(2000) });
    t.equal(segment?.unverifiedIdentity, (await fs.stat(path(2000))).identity);
    t.ok(files.ready(path(2000)), "its handle is at hand");
    t.equal(allocator.take(2000), segment);
    t.equal(allocator.take(2000), undefined, "it is taken once");
  },
);

t.test("SegmentAllocator.prepare() makes one file at a time, in order, each once", async (t) => {
  const { fs, allocator, settled, names } = setUp(t);
  const held = fs.hold("ftruncate");
  for (const start of [0, 1000, 0, 1000]) allocator.prepare(start);
  await held.waiting;
  await turns(5);
  t.equal(held.held, 1);
  t.equal(fs.count("open"), 1);
  held.release();
  await until(() => settled.length === 2);
  allocator.prepare(0);
  await turns(5);
  t.strictSame(names(), [[0, 1000], []]);
  t.equal(settled.length, 2, "what is ready is not made again");
});

t.test("SegmentAllocator says why a file can't be made, and tries again when asked", async (t) => {
  const steps: CallName[] = ["open", "fstat", "ftruncate", "fdatasync", "rename", "syncDirectory"];
  for (const step of steps) {
    const { fs, allocator, settled, names } = setUp(t);
    fs.failNext(step, "ENOSPC");
    allocator.prepare(0);
    await until(() => settled.length === 1);
    t.match(settled[0], { code: "ENOSPC" }, step);
    t.equal(allocator.peek(0), undefined);
    t.strictSame(names(), [[], []], `${step}: nothing is left behind`);
    allocator.prepare(0);
    await until(() => settled.length === 2);
    t.equal(settled[1], undefined, `${step}: the next request makes it`);
    t.strictSame(names(), [[0], []]);
    await allocator.close();
  }
});

t.test("SegmentAllocator goes on with the next file after one that failed", async (t) => {
  const { fs, allocator, settled, names } = setUp(t);
  fs.failNext("ftruncate", "ENOSPC");
  allocator.prepare(0);
  allocator.prepare(1000);
  await until(() => settled.length === 2);
  t.match(settled, [{ code: "ENOSPC" }, undefined]);
  t.strictSame(names(), [[1000], []]);
});

t.test("SegmentAllocator never replaces a file that is there", async (t) => {
  const { allocator, settled, path } = setUp(t);
  writeFileSync(path(0), "foreign");
  allocator.prepare(0);
  await until(() => settled.length === 1);
  t.match(settled[0], { code: "EEXIST" });
  t.equal(statSync(path(0)).size, 7);
});

t.test("SegmentAllocator.close() waits and removes what nobody took", async (t) => {
  const { fs, allocator, settled, names, files, path } = setUp(t);
  allocator.prepare(0);
  await until(() => settled.length === 1);
  allocator.take(0);
  const held = fs.hold("rename");
  allocator.prepare(1000);
  await held.waiting;
  const close = allocator.close();
  held.release();
  await close;
  t.strictSame(names(), [[0], []]);
  t.equal(files.ready(path(1000)), undefined);
  t.equal(fs.calls.at(-1)?.name, "syncDirectory", "and the removal is durable");
});

t.test("SegmentAllocator.close() removes only its own files", async (t) => {
  const { allocator, settled, path } = setUp(t);
  allocator.prepare(0);
  allocator.prepare(1000);
  await until(() => settled.length === 2);
  rmSync(path(0));
  // Kept under another name, so that the new file can't have its inode.
  renameSync(path(1000), `${path(1000)}.old`);
  writeFileSync(path(1000), "foreign");
  await allocator.close();
  t.notOk(existsSync(path(0)));
  t.ok(existsSync(path(1000)), "somebody else's file stays");
});

t.test("SegmentAllocator.prepare() writes the zeros that a file is to begin with", async (t) => {
  for (const [zeros, written] of [
    [400, 400],
    [5000, SIZE],
  ] as const) {
    const { fs, allocator, settled, path } = setUp(t, zeros);
    allocator.prepare(0);
    await until(() => settled.length === 1);
    t.match(
      fs.calls.find(({ name }) => name === "pwritev"),
      { position: 0, length: written },
    );
    t.equal(statSync(path(0)).size, SIZE);
    t.strictSame(fs.names().slice(0, 4), ["open", "ftruncate", "pwritev", "fstat"]);
  }
});
