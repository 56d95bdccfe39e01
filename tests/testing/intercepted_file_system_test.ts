import { join } from "node:path";
import t, { type Test } from "tap";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { type Hook, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { counted, fileSystemContract } from "../support/file_system_contract.ts";
import { testFolder } from "../support/test_folder.ts";

fileSystemContract(t, "InterceptedFileSystem", (t) => {
  const base = new NodeFileSystem({ native: "off" });
  return { fs: new InterceptedFileSystem(base), root: testFolder(t), punches: false };
});

async function setUp(t: Test, hook?: Hook) {
  const fs = new InterceptedFileSystem(new NodeFileSystem(), hook);
  const path = join(testFolder(t), "a");
  const file = await fs.open(path, "create");
  t.teardown(() => file.close());
  return { fs, path, file };
}

t.test("InterceptedFileSystem.calls has each call with its number and place", async (t) => {
  const { fs, path, file } = await setUp(t);
  await file.pwritev([counted(3), counted(4)], 5);
  file.pwritevNow([counted(2)], 12);
  await file.ftruncate(100);
  await fs.rename(path, `${path}.b`);
  await file.fdatasync();
  t.strictSame(fs.calls, [
    { number: 1, name: "open", path, mode: "create" },
    { number: 2, name: "pwritev", path, position: 5, length: 7 },
    { number: 3, name: "pwritevNow", path, position: 12, length: 2 },
    { number: 4, name: "ftruncate", path, position: 100 },
    { number: 5, name: "rename", path, to: `${path}.b` },
    { number: 6, name: "fdatasync", path: `${path}.b` },
  ]);
  t.strictSame(fs.names({ path: /\.b$/ }), ["fdatasync"]);
  t.equal(fs.count("pwritev"), 1);
  t.equal(file.path, path, "the handle itself keeps the name that it was opened by");
});

t.test("InterceptedFileSystem follows a handle when a directory above is renamed", async (t) => {
  const root = testFolder(t, { d: {} });
  const fs = new InterceptedFileSystem(new NodeFileSystem());
  const file = await fs.open(join(root, "d", "a"), "create");
  await fs.rename(join(root, "d"), join(root, "e"));
  await file.fdatasync();
  t.equal(fs.calls.at(-1)!.path, join(root, "e", "a"));
  await file.close();
});

t.test("InterceptedFileSystem.failNext() fails the nth call, once or for ever", async (t) => {
  const { fs, file, path } = await setUp(t);
  fs.failNext("fdatasync", "EIO", { skip: 1 });
  await file.fdatasync();
  await t.rejects(file.fdatasync(), {
    code: "EIO",
    syscall: "fdatasync",
    path,
    message: `EIO: i/o error, fdatasync '${path}'`,
  });
  await file.fdatasync();
  fs.failNext(["pwritev", "pwritevNow"], "ENOSPC", { times: Number.POSITIVE_INFINITY });
  for (let i = 0; i < 3; i++) {
    await t.rejects(file.pwritev([counted(1)], 0), { code: "ENOSPC" });
    t.throws(() => file.pwritevNow([counted(1)], 0), { code: "ENOSPC", syscall: "pwritev" });
  }
  fs.clear();
  t.equal(await file.pwritev([counted(1)], 0), 1);
  fs.failNext("pwritev", "EIO", { path: /other/ });
  t.equal(await file.pwritev([counted(1)], 0), 1, "only where the path matches");
});

t.test("InterceptedFileSystem.hold() stops a call until it is released", async (t) => {
  const { fs, file } = await setUp(t);
  const hold = fs.hold("fdatasync");
  let synced = false;
  const first = file.fdatasync().then(() => {
    synced = true;
  });
  const second = file.fdatasync();
  await hold.waiting;
  t.equal(hold.held, 2);
  await file.pwritev([counted(1)], 0);
  t.notOk(synced);
  fs.failNext("fdatasync", "EIO", { skip: 1 });
  const refused = t.rejects(second, { code: "EIO" }, "a rule that was set meanwhile counts");
  hold.release();
  await first;
  await refused;
  t.equal(hold.held, 0);
  await file.fdatasync();
});

t.test("InterceptedFileSystem.clear() lets go what is held", async (t) => {
  const { fs, file } = await setUp(t);
  const hold = fs.hold(["fdatasync", "pwritev"], { path: /a$/ });
  const synced = file.fdatasync();
  await hold.waiting;
  fs.clear();
  await synced;
});

t.test("InterceptedFileSystem.shorten() cuts writes and reads", async (t) => {
  const { fs, file } = await setUp(t);
  fs.shorten("pwritev", [1, "half", 0, 100]);
  const counts = [];
  for (let i = 0; i < 5; i++) counts.push(await file.pwritev([counted(4), counted(4, 4)], 0));
  t.strictSame(counts, [1, 4, 0, 8, 8]);
  fs.shorten("pwritevNow", [3]);
  t.equal(file.pwritevNow([counted(8)], 0), 3);
  fs.shorten(["pread", "preadIfCached"], [5]);
  t.equal(await file.pread(Buffer.alloc(8), 0), 5);
});

t.test("FileHandle.commitAndForce() passes as the two calls that it stands for", async (t) => {
  const { fs, file } = await setUp(t);
  await file.commitAndForce([counted(4)], 0);
  t.strictSame(fs.names().slice(1), ["commitAndForce", "pwritev", "fdatasync"]);
  fs.failNext("fdatasync", "EIO");
  await t.rejects(file.commitAndForce([counted(4)], 0), { code: "EIO", syscall: "fdatasync" });
  fs.failNext("pwritev", "ENOSPC");
  await t.rejects(file.commitAndForce([counted(4)], 0), { code: "ENOSPC", syscall: "pwritev" });
  fs.failNext("commitAndForce", "EIO");
  await t.rejects(file.commitAndForce([counted(4)], 0), { code: "EIO" });
  const syncs = fs.count("fdatasync");
  fs.shorten("commitAndForce", [3]);
  t.equal(await file.commitAndForce([counted(4)], 0), 3);
  fs.shorten("pwritev", [2]);
  t.equal(await file.commitAndForce([counted(4)], 0), 2);
  t.equal(fs.count("fdatasync"), syncs, "a short write is not synced");
});

t.test("InterceptedFileSystem hands each call to its hook", async (t) => {
  const seen: string[] = [];
  const { fs, file } = await setUp(t, async (call, proceed) => {
    seen.push(call.name);
    if (call.name === "pread") return 0;
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (call.name === "unlink") throw new Error("no");
    return proceed();
  });
  t.equal(await file.pwritev([counted(4)], 0), 4);
  t.equal(await file.pread(Buffer.alloc(4), 0), 0);
  await t.rejects(fs.unlink(file.path), { message: "no" });
  t.strictSame(seen, ["open", "pwritev", "pread", "unlink"]);
});

t.test("InterceptedFileSystem has the lock's calls too", async (t) => {
  const { fs, path } = await setUp(t);
  fs.failNext("lock", "EAGAIN");
  await t.rejects(fs.lock(path), { code: "EAGAIN" });
  const lock = await fs.lock(path).catch((error) => {
    t.match(error, { code: "ENOLCK" }, "no lock on this system");
  });
  if (lock === undefined) return;
  fs.failNext("lock.write", "EIO");
  await t.rejects(lock.write(counted(4)), { code: "EIO" });
  await lock.close();
  t.strictSame(fs.names().slice(-2), ["lock.write", "lock.close"]);
});
