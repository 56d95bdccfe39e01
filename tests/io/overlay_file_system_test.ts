import * as fs from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import t, { type Test } from "tap";
import type { FileHandle } from "../../lib/io/file_system.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OverlayFileSystem } from "../../lib/io/overlay_file_system.ts";
import { FakeClock, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { counted, fileSystemContract } from "../support/file_system_contract.ts";

fileSystemContract(t, "OverlayFileSystem", (t) => {
  return { fs: new OverlayFileSystem(new NodeFileSystem()), root: t.testdir(), punches: true };
});

fileSystemContract(t, "OverlayFileSystem without the addon beneath", (t) => {
  const base = new NodeFileSystem({ native: "off" });
  return { fs: new OverlayFileSystem(base), root: t.testdir(), punches: true };
});

function setUp(t: Test) {
  const root = t.testdir({ log: { 0: "aaaaaaaaaa", 1: "bbbbbbbbbb" }, empty: {}, checkpoint: "c" });
  const base = new InterceptedFileSystem(new NodeFileSystem());
  return { root, base, overlay: new OverlayFileSystem(base, new FakeClock()) };
}

async function textOf(handle: FileHandle): Promise<string> {
  const buffer = Buffer.alloc((await handle.stat()).size + 10, "!");
  return buffer.toString("latin1", 0, await handle.pread(buffer, 0));
}

/** Everything below a directory: names, content, and when each was last changed or looked into. */
function pictureOf(directory: string): unknown {
  const names = fs.readdirSync(directory, { recursive: true, encoding: "utf8" }).sort();
  return [".", ...names].map((name) => {
    const path = join(directory, name);
    const { ino, mtimeMs, ctimeMs, size } = fs.statSync(path);
    const content = fs.statSync(path).isFile() ? fs.readFileSync(path, "hex") : "";
    return { name, ino, mtimeMs, ctimeMs, size, content };
  });
}

t.test("OverlayFileSystem changes no byte and no name beneath", async (t) => {
  const { root, base, overlay } = setUp(t);
  const before = pictureOf(root);

  const log = await overlay.open(join(root, "log", "0"), "write");
  await log.pwritev([Buffer.from("XY")], 3);
  log.pwritevNow([Buffer.from("Z")], 9);
  t.equal(await textOf(log), "aaaXYaaaaZ");
  await log.punch(0, 2);
  await log.ftruncate(6);
  await log.ftruncate(8);
  t.equal(await textOf(log), "\0\0aXYa\0\0", "what was cut does not come back");
  await log.allocate(0, 100);
  await log.commitAndForce([Buffer.from("W")], 7);
  await log.fdatasync();
  await log.close();

  await overlay.unlink(join(root, "log", "1"));
  await overlay.rename(join(root, "checkpoint"), join(root, "empty", "moved"));
  await overlay.mkdir(join(root, "made"));
  await (await overlay.open(join(root, "made", "new"), "create")).close();
  await overlay.rename(join(root, "log"), join(root, "made", "log"));
  await overlay.rmdir(join(root, "empty")).catch(() => {});
  await overlay.syncDirectory(join(root, "made"));
  const lock = await overlay.lock();
  await lock.write(Buffer.from("lock"));
  t.equal(lock.excludes, "ofd");
  await lock.close();

  t.strictSame(pictureOf(root), before);
  const writing = base.calls.filter(
    ({ name, mode }) =>
      (mode ?? "read") !== "read" ||
      !/^(open|stat|fstat|readdir|pread|preadIf.*|close)$/.test(name),
  );
  t.strictSame(writing, [], "and makes no call that could");

  const seen = await overlay.open(join(root, "made", "log", "0"), "read");
  t.equal(await textOf(seen), "\0\0aXYa\0W", "a file below a directory that was renamed");
  await seen.close();
  t.strictSame((await overlay.readdir(root)).map(({ name }) => name).sort(), ["empty", "made"]);
  t.strictSame(await overlay.readdir(join(root, "made", "log")), [{ name: "0", kind: "file" }]);
  t.equal((await overlay.stat(join(root, "empty", "moved"))).size, 1);
});

t.test("OverlayFileSystem keeps a file's identity through a rename and a change", async (t) => {
  const { root, overlay } = setUp(t);
  const path = join(root, "log", "0");
  const { identity } = await new NodeFileSystem().stat(path);
  const handle = await overlay.open(path, "write");
  await handle.pwritev([Buffer.from("x")], 100);
  await overlay.rename(path, `${path}.moved`);
  const stat = await overlay.stat(`${path}.moved`);
  t.equal(stat.identity, identity);
  t.equal(stat.size, 101);
  t.equal(stat.mtimeMs, new FakeClock().now());
  await handle.close();
});

t.test("OverlayFileSystem takes a page of memory for a small write to a large file", async (t) => {
  const root = t.testdir({ large: "" });
  fs.truncateSync(join(root, "large"), 2 ** 30);
  const overlay = new OverlayFileSystem(new NodeFileSystem());
  const handle = await overlay.open(join(root, "large"), "write");
  const allocatedBefore = (await handle.stat()).allocatedBytes;
  await handle.pwritev([Buffer.alloc(4096, 1)], 2 ** 30 - 4096);
  await handle.punch(0, 2 ** 29);
  t.equal((await handle.stat()).allocatedBytes - allocatedBefore, 64 * 1024);
  const buffer = Buffer.alloc(4097);
  t.equal(await handle.pread(buffer, 2 ** 30 - 4097), 4097);
  t.strictSame(buffer, Buffer.concat([Buffer.alloc(1), Buffer.alloc(4096, 1)]));
  await handle.close();
});

t.test("OverlayFileSystem shows what is added beneath, and keeps the sizes it saw", async (t) => {
  const { root, overlay } = setUp(t);
  const handle = await overlay.open(join(root, "log", "0"), "read");
  fs.appendFileSync(join(root, "log", "0"), "more");
  t.equal(await textOf(handle), "aaaaaaaaaa");
  await handle.close();
  fs.writeFileSync(join(root, "log", "2"), "ccc");
  t.equal((await overlay.stat(join(root, "log", "2"))).size, 3);
  t.equal((await overlay.readdir(join(root, "log"))).length, 3);
});

t.test("OverlayFileSystem reads zeros where a file was cut beneath", async (t) => {
  const { root, overlay } = setUp(t);
  const handle = await overlay.open(join(root, "log", "0"), "read");
  fs.truncateSync(join(root, "log", "0"), 4);
  t.equal(await textOf(handle), "aaaa\0\0\0\0\0\0");
  t.equal(handle.preadIfCached(Buffer.alloc(4), 6), -1, "not to be told at once");
  await handle.close();
});

t.test("FileHandle.nextData() of an overlay skips nothing that is seen through it", async (t) => {
  const { root, base, overlay } = setUp(t);
  const path = join(root, "log", "0");
  const handle = await overlay.open(path, "write");
  await handle.ftruncate(30);
  t.equal(await handle.nextData(4), 4, "what lies beneath");
  t.equal(await handle.nextData(10), 30, "nothing does there");
  await handle.pwritev([Buffer.from("XY")], 20);
  t.equal(await handle.nextData(10), 20);
  t.equal(await handle.nextData(21), 21);
  t.equal(await handle.nextData(22), 30);
  await handle.ftruncate(2);
  await handle.ftruncate(30);
  t.equal(await handle.nextData(2), 30, "what was cut does not come back");

  const other = await overlay.open(join(root, "log", "1"), "read");
  fs.truncateSync(join(root, "log", "1"), 4);
  t.equal(await other.nextData(6), 10, "cut beneath");
  fs.truncateSync(join(root, "log", "1"), 100);
  const held = base.hold("nextData");
  const next = other.nextData(0);
  await held.waiting;
  fs.appendFileSync(join(root, "log", "1"), "more");
  held.release();
  t.ok((await next) <= 10, "added beneath: no part of it");
  await handle.close();
  await other.close();
});

t.test(
  "FileHandle.preadIfCached() of an overlay needs nothing beneath for its pages",
  async (t) => {
    const { root, base, overlay } = setUp(t);
    const handle = await overlay.open(join(root, "log", "0"), "write");
    await handle.pwritev([Buffer.from("XYZ")], 2);
    const buffer = Buffer.alloc(3);
    t.equal(handle.preadIfCached(buffer, 2), 3);
    t.equal(buffer.toString(), "XYZ");
    t.equal(base.count("preadIfCached"), 0);
    base.shorten("preadIfCached", [4]);
    const more = Buffer.alloc(10);
    const count = handle.preadIfCached(more, 0);
    if (count !== -1) t.equal(more.toString("latin1", 0, count), "aaXY");
    await handle.close();
  },
);

t.test("OverlayFileSystem has one winner when two calls want the same name", async (t) => {
  const { root, overlay } = setUp(t);
  const path = join(root, "log", "9");
  const opened = await Promise.allSettled([
    overlay.open(path, "create"),
    overlay.open(path, "create"),
    overlay.mkdir(path),
  ]);
  t.equal(opened.filter(({ status }) => status === "fulfilled").length, 1);
});

t.test("OverlayFileSystem agrees with a real file, whatever is done to it", async (t) => {
  const length = 200_000;
  const place = fc.oneof(fc.nat(length), fc.constantFrom(0, 65_535, 65_536, 65_537, 131_072));
  const operation = fc.record({
    name: fc.constantFrom("write", "writeNow", "punch", "truncate", "read"),
    place,
    size: fc.oneof(fc.nat(10), fc.nat(100_000)),
    byte: fc.nat(255),
  });
  const root = t.testdir({ overlaid: "", real: "" });
  const node = new NodeFileSystem();
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { maxLength: 10 }), async (operations) => {
      fs.writeFileSync(join(root, "overlaid"), counted(length));
      fs.writeFileSync(join(root, "real"), counted(length));
      const overlay = new OverlayFileSystem(node);
      const overlaid = await overlay.open(join(root, "overlaid"), "write");
      const real = await node.open(join(root, "real"), "write");
      try {
        for (const { name, place, size, byte } of operations) {
          const bytes = Buffer.alloc(size, byte);
          for (const handle of [overlaid, real]) {
            if (name === "write") await handle.pwritev([bytes], place);
            if (name === "writeNow") handle.pwritevNow([bytes], place);
            if (name === "truncate") await handle.ftruncate(place);
            if (name !== "punch") continue;
            if (handle === overlaid) await handle.punch(place, size);
            else {
              const rest = Math.max(0, Math.min(size, (await handle.stat()).size - place));
              await handle.pwritev([Buffer.alloc(rest)], place);
            }
          }
          const [a, b] = [Buffer.alloc(size), Buffer.alloc(size)];
          const counts = [await overlaid.pread(a, place), await real.pread(b, place)];
          if (counts[0] !== counts[1] || !a.equals(b)) return false;
        }
        const { size } = await real.stat();
        const [a, b] = [Buffer.alloc(size), Buffer.alloc(size)];
        await overlaid.pread(a, 0);
        await real.pread(b, 0);
        for (const { place } of operations) {
          const next = await overlaid.nextData(place);
          if (next < Math.min(place, size) || next > size) return false;
          if (b.subarray(place, next).some((byte) => byte !== 0)) return false;
        }
        return (await overlaid.stat()).size === size && a.equals(b);
      } finally {
        await overlaid.close();
        await real.close();
      }
    }),
    { numRuns: 40 },
  );
});
