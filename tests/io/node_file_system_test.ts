import * as fs from "node:fs";
import { join } from "node:path";
import t from "tap";
import { BYTES_PER_CALL_MAX, totalBytes } from "../../lib/io/fully.ts";
import { loadNativeBinding, type NativeBinding, standIns } from "../../lib/io/native_binding.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { systemError } from "../../lib/io/system_error.ts";
import { counted, fileSystemContract } from "../support/file_system_contract.ts";

const native = loadNativeBinding();
const withoutAddon = native === undefined && "the addon isn't loaded";

if (native !== undefined) {
  fileSystemContract(t, "NodeFileSystem with the addon", (t) => {
    return { fs: new NodeFileSystem({ native }), root: t.testdir(), punches: true };
  });
}
fileSystemContract(t, "NodeFileSystem without the addon", (t) => {
  return { fs: new NodeFileSystem({ native: "off" }), root: t.testdir(), punches: false };
});

/** Writes and syncs 50 ms late. */
const slow: NativeBinding = {
  ...standIns,
  async pwritevThenFdatasync(...given) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return standIns.pwritevThenFdatasync(...given);
  },
};

t.test("FileHandle.close() waits for calls under way, so that no number is reused", async (t) => {
  const system = new NodeFileSystem({ native: slow });
  const root = t.testdir();
  const file = await system.open(join(root, "mine"), "create");
  const order: string[] = [];
  const note = (text: string) => () => order.push(text);
  const forced = file.commitAndForce([counted(10)], 0).then(note("forced"));
  const read = file.pread(Buffer.alloc(10), 0).then(note("read"));
  const closed = file.close().then(note("closed"));
  await t.rejects(file.pwritev([counted(10)], 0), { code: "EBADF" });

  // Other files come and go meanwhile: a number that was set free would go to one of them.
  const others = await Promise.all(
    Array.from({ length: 8 }, (_, i) => system.open(join(root, `other${i}`), "create")),
  );
  await Promise.all([forced, read, closed]);
  t.strictSame(order, ["read", "forced", "closed"]);
  for (const other of others) {
    t.equal((await other.stat()).size, 0, "no foreign bytes");
    await other.close();
  }
  t.strictSame(fs.readFileSync(join(root, "mine")), counted(10));
});

t.test("FileHandle.close() waits also for a call that fails, and for any number", async (t) => {
  let fail = (_: Error) => {};
  const system = new NodeFileSystem({
    native: {
      ...standIns,
      pwritevThenFdatasync: () =>
        new Promise((_, reject) => {
          fail = reject;
        }),
    },
  });
  const file = await system.open(join(t.testdir(), "a"), "create");
  const forced = file.commitAndForce([counted(1)], 0);
  const writes = Array.from({ length: 20 }, (_, i) => file.pwritev([counted(1, i)], i));
  let isClosed = false;
  const closed = file.close().then(() => {
    isClosed = true;
  });
  await Promise.all(writes);
  t.notOk(isClosed);
  fail(systemError("EIO", "fdatasync"));
  await t.rejects(forced, { code: "EIO" });
  await closed;
});

t.test("FileHandle gives no call of the system more than 2147479552 bytes", async (t) => {
  const given: number[] = [];
  const system = new NodeFileSystem({
    native: {
      ...standIns,
      async pwritevThenFdatasync(_, buffers) {
        given.push(totalBytes(buffers));
        return totalBytes(buffers);
      },
    },
  });
  // It takes any number of bytes and keeps none.
  const file = await system.open("/dev/null", "write");
  const gibibyte = new Uint8Array(2 ** 30);
  for (const pending of [[gibibyte, gibibyte, gibibyte], [new Uint8Array(3 * 2 ** 30)]]) {
    t.equal(await file.pwritev(pending, 0), BYTES_PER_CALL_MAX);
    t.equal(file.pwritevNow(pending, 0), BYTES_PER_CALL_MAX);
    t.equal(await file.commitAndForce(pending, 0), BYTES_PER_CALL_MAX);
  }
  const mebibyte = new Uint8Array(2 ** 20);
  const many = Array.from({ length: 3 * 2 ** 10 }, () => mebibyte);
  t.equal(await file.commitAndForce(many, 0), 2 ** 30, "nor more than 1024 buffers");
  t.strictSame(given, [], "a part is not synced as if it were all");
  t.equal(await file.commitAndForce([gibibyte], 0), 2 ** 30);
  t.strictSame(given, [2 ** 30]);
  await file.close();
});

t.test(
  "FileHandle.preadIfCached() says -1 for what isn't in the page cache",
  {
    skip: withoutAddon,
  },
  async (t) => {
    const system = new NodeFileSystem();
    const file = await system.open(join(t.testdir(), "a"), "create");
    await file.pwritev([Buffer.alloc(1 << 20, 7)], 0);
    const buffer = Buffer.alloc(4096);
    t.equal(file.preadIfCached(buffer, 8192), 4096);
    t.strictSame(buffer, Buffer.alloc(4096, 7));
    t.equal(file.preadIfCached(buffer, 1 << 20), 0, "0 at the end of the file");
    await file.fdatasync();
    await file.advise(0, 0, "dontneed");
    if (file.preadIfCached(buffer, 8192) !== -1) {
      t.comment("this file system keeps its pages against advice: nothing to see here");
    } else {
      t.equal(await file.pread(buffer, 8192), 4096);
      t.equal(file.preadIfCached(buffer, 8192), 4096, "cached by the read");
    }
    await file.close();
  },
);

t.test("FileHandle.nextData() can do without a file system that knows holes", async (t) => {
  let code = "EINVAL";
  const lseekData = async () => {
    throw systemError(code, "lseek");
  };
  const system = new NodeFileSystem({ native: { ...standIns, lseekData } });
  const file = await system.open(join(t.testdir(), "a"), "create");
  await file.ftruncate(10);
  t.equal(await file.nextData(0), 0);
  t.equal(await file.nextData(9), 9);
  t.equal(await file.nextData(10), 10);
  t.equal(await file.nextData(11), 10);
  code = "EIO";
  await t.rejects(file.nextData(0), { code: "EIO" });
  await file.close();
});

t.test("FileHandle.punch() gives the space back", { skip: withoutAddon }, async (t) => {
  const system = new NodeFileSystem();
  const file = await system.open(join(t.testdir(), "a"), "create");
  await file.pwritev([Buffer.alloc(1 << 20, 7)], 0);
  await file.fdatasync();
  const before = await file.stat();
  await file.punch(0, 1 << 19);
  const after = await file.stat();
  t.equal(after.size, before.size);
  t.equal(before.allocatedBytes - after.allocatedBytes, 1 << 19);
  await file.allocate(0, 1 << 19);
  t.equal((await file.stat()).allocatedBytes, before.allocatedBytes);
  await file.close();
});

t.test("FileSystem.stat() has one identity for two names of a file", async (t) => {
  const system = new NodeFileSystem();
  const root = t.testdir({ a: "x", link: t.fixture("symlink", "a"), d: {} });
  fs.linkSync(join(root, "a"), join(root, "hard"));
  const { identity } = await system.stat(join(root, "a"));
  t.equal((await system.stat(join(root, "link"))).identity, identity);
  t.equal((await system.stat(join(root, "hard"))).identity, identity);
});

t.test("FileSystem.readdir() takes a link for what it leads to", async (t) => {
  const root = t.testdir({
    d: { f: "" },
    toDirectory: t.fixture("symlink", "d"),
    toFile: t.fixture("symlink", "d/f"),
    toNothing: t.fixture("symlink", "none"),
  });
  const entries = await new NodeFileSystem().readdir(root);
  t.strictSame(Object.fromEntries(entries.map(({ name, kind }) => [name, kind])), {
    d: "directory",
    toDirectory: "directory",
    toFile: "file",
    toNothing: "other",
  });
});

t.test("FileSystem.lock() tells whom it excludes, and keeps the file's content", async (t) => {
  const flock = native?.flock ?? (() => true);
  for (const [excludes, binding] of [
    ...(native === undefined ? [] : ([["ofd", native]] as const)),
    ["flock", { ...standIns, flock }],
  ] as const) {
    const path = join(t.testdir({ lock: "something longer than before" }), "lock");
    const system = new NodeFileSystem({ native: binding });
    const lock = await system.lock(path);
    t.equal(lock.excludes, excludes);
    t.equal(fs.readFileSync(path, "utf8"), "something longer than before");
    await lock.write(Buffer.from("lock"));
    t.equal(fs.readFileSync(path, "utf8"), "lock");
    await lock.close();
    await (await system.lock(path)).close();
  }
});

t.test("FileSystem.lock() fails with ENOLCK where there is no lock at all", async (t) => {
  const nothing = () => {
    throw systemError("ENOSYS", "flock");
  };
  const system = new NodeFileSystem({ native: { ...standIns, flock: nothing } });
  await t.rejects(system.lock(join(t.testdir(), "lock")), { code: "ENOLCK" });
});

t.test("FileSystem.lock() closes its file when it fails", async (t) => {
  const held = { ...standIns, flock: () => false };
  const path = join(t.testdir(), "lock");
  const fdsOfLock = () =>
    fs.readdirSync("/proc/self/fd").filter((fd) => {
      try {
        return fs.readlinkSync(`/proc/self/fd/${fd}`) === path;
      } catch {
        return false;
      }
    });
  await t.rejects(new NodeFileSystem({ native: held }).lock(path), { code: "EAGAIN", path });
  if (process.platform === "linux") t.strictSame(fdsOfLock(), []);
});

t.test("FileSystem.syncDirectory() ignores only that a file system can't", async (t) => {
  // procfs has no sync of a directory: EINVAL.
  if (process.platform === "linux") await new NodeFileSystem().syncDirectory("/proc/self");
  await t.rejects(new NodeFileSystem().syncDirectory(join(t.testdir(), "none")), {
    code: "ENOENT",
  });
});
