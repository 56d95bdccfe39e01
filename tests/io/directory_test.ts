import * as fs from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { createDirectory } from "../../lib/io/create_directory.ts";
import { createFile, moveFile, removeFile, replaceFile } from "../../lib/io/directory.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { type CallName, InterceptedFileSystem } from "../../lib/testing/mod.ts";

function setUp(t: Test) {
  const root = t.testdir({ staging: {}, log: {} });
  const fileSystem = new InterceptedFileSystem(new NodeFileSystem());
  /** The calls so far, each with its path from the root. */
  const calls = () =>
    fileSystem.calls.map(({ name, path }) => `${name} ${path.slice(root.length + 1) || "."}`);
  return { root, fileSystem, calls, staging: join(root, "staging"), path: join(root, "log", "0") };
}

t.test(
  "createFile() makes the size durable before the name, and the name before it ends",
  async (t) => {
    const { fileSystem, calls, staging, path } = setUp(t);
    const handle = await createFile(fileSystem, { staging, path, size: 1 << 30 });
    t.strictSame(calls(), [
      "open staging/0.0.tmp",
      "ftruncate staging/0.0.tmp",
      "fdatasync staging/0.0.tmp",
      "stat log/0",
      "rename staging/0.0.tmp",
      "syncDirectory log",
      "syncDirectory staging",
    ]);
    const { size, allocatedBytes } = await handle.stat();
    t.equal(size, 1 << 30);
    t.ok(allocatedBytes < 1 << 20, "sparse");
    await handle.pwritev([Buffer.from("x")], 0);
    await handle.close();
    t.strictSame(fs.readdirSync(staging), []);
    t.equal(fs.statSync(path).size, 1 << 30);
  },
);

t.test("createFile() refuses to replace a file", async (t) => {
  const { fileSystem, staging, path } = setUp(t);
  fs.writeFileSync(path, "precious");
  const made = createFile(fileSystem, { staging, path, size: 100 });
  await t.rejects(made, { code: "EEXIST", path });
  t.equal(fs.readFileSync(path, "utf8"), "precious");
  t.strictSame(fs.readdirSync(staging), []);
});

t.test("createFile() leaves nothing behind, whatever fails", async (t) => {
  const failing: CallName[] = ["open", "ftruncate", "fdatasync", "stat", "rename", "syncDirectory"];
  for (const name of failing) {
    const { fileSystem, staging, path } = setUp(t);
    fileSystem.failNext(name, "ENOSPC");
    await t.rejects(createFile(fileSystem, { staging, path, size: 100 }), { code: "ENOSPC" }, name);
    t.strictSame(fs.readdirSync(staging), [], name);
    t.notOk(fs.existsSync(path), name);
    t.equal(fileSystem.count("close"), name === "open" ? 0 : 1, `${name}: closed`);
  }
});

t.test("createFile() reports the first error, even if cleaning up fails too", async (t) => {
  const { fileSystem, staging, path } = setUp(t);
  fileSystem.failNext("ftruncate", "ENOSPC");
  fileSystem.failNext("unlink", "EIO");
  await t.rejects(createFile(fileSystem, { staging, path, size: 100 }), { code: "ENOSPC" });
});

t.test("createFile() passes over what a killed store left in the staging folder", async (t) => {
  const { fileSystem, staging, path } = setUp(t);
  fs.writeFileSync(join(staging, "0.0.tmp"), "left behind");
  const others = ["1", "2", "3"].map((name) => join(staging, "..", name));
  for (const other of others) fs.mkdirSync(other);
  const paths = [path, ...others.map((other) => join(other, "0"))];
  const handles = await Promise.all(
    paths.map((path) => createFile(fileSystem, { staging, path, size: 100 })),
  );
  for (const handle of handles) await handle.close();
  for (const path of paths) t.equal(fs.statSync(path).size, 100, "several of one name at a time");
  t.strictSame(fs.readdirSync(staging), ["0.0.tmp"]);
});

t.test("replaceFile() makes the content durable before the name", async (t) => {
  const { fileSystem, calls, staging, path } = setUp(t);
  fs.writeFileSync(path, "old and longer");
  fileSystem.shorten("pwritev", [1, 1]);
  await replaceFile(fileSystem, { staging, path, content: Buffer.from("new") });
  t.equal(fs.readFileSync(path, "utf8"), "new");
  t.strictSame(calls(), [
    "open staging/0.0.tmp",
    "pwritev staging/0.0.tmp",
    "pwritev staging/0.0.tmp",
    "pwritev staging/0.0.tmp",
    "fdatasync staging/0.0.tmp",
    "rename staging/0.0.tmp",
    "close log/0",
    "syncDirectory log",
  ]);
  await replaceFile(fileSystem, { staging, path: `${path}.new`, content: Buffer.alloc(0) });
  t.equal(fs.statSync(`${path}.new`).size, 0);
});

t.test("replaceFile() keeps the old content, whatever fails before the rename", async (t) => {
  for (const name of ["open", "pwritev", "fdatasync", "rename"] as const) {
    const { fileSystem, staging, path } = setUp(t);
    fs.writeFileSync(path, "old");
    fileSystem.failNext(name, "EIO");
    const content = Buffer.from("new");
    await t.rejects(replaceFile(fileSystem, { staging, path, content }), { code: "EIO" }, name);
    t.equal(fs.readFileSync(path, "utf8"), "old", name);
    t.strictSame(fs.readdirSync(staging), [], name);
  }
  const { fileSystem, staging, path } = setUp(t);
  fileSystem.failNext("syncDirectory", "EIO");
  const replaced = replaceFile(fileSystem, { staging, path, content: Buffer.from("new") });
  await t.rejects(replaced, { code: "EIO" }, "a name that may not be durable is an error");
});

t.test("createDirectory() syncs the parent of each level that it makes", async (t) => {
  const { root, fileSystem } = setUp(t);
  await createDirectory(fileSystem, join(root, "a", "b", "c"));
  t.ok(fs.statSync(join(root, "a", "b", "c")).isDirectory());
  const synced = () =>
    fileSystem.calls
      .filter(({ name }) => name === "syncDirectory")
      .map(({ path }) => path.slice(root.length + 1) || ".");
  t.strictSame(synced(), [".", "a", "a/b"]);
});

t.test("createDirectory() of one that exists syncs its name all the same", async (t) => {
  const { root, fileSystem, calls } = setUp(t);
  await createDirectory(fileSystem, join(root, "log"));
  t.strictSame(calls(), ["mkdir log", "stat log", "syncDirectory ."]);
  fileSystem.failNext("syncDirectory", "EACCES");
  await createDirectory(fileSystem, join(root, "log"));
  fileSystem.failNext("syncDirectory", "EIO");
  await t.rejects(createDirectory(fileSystem, join(root, "log")), { code: "EIO" });
});

t.test("createDirectory() takes back what it could not sync, for the next attempt", async (t) => {
  const { root, fileSystem } = setUp(t);
  const path = join(root, "a", "b");
  fileSystem.failNext("syncDirectory", "EIO", { path: /a$/ });
  await t.rejects(createDirectory(fileSystem, path), { code: "EIO" });
  t.notOk(fs.existsSync(path), "a second sync would prove nothing");
  await createDirectory(fileSystem, path);
  t.equal(fileSystem.count("mkdir", { path: /b$/ }), 3, "without its parent, failed, made anew");
  t.ok(fs.existsSync(path));
});

t.test("createDirectory() refuses where a file is", async (t) => {
  const { fileSystem, path } = setUp(t);
  fs.writeFileSync(path, "");
  await t.rejects(createDirectory(fileSystem, path), { code: "EEXIST" });
  await t.rejects(createDirectory(fileSystem, join(path, "below")), { code: "ENOTDIR" });
});

t.test("createDirectory() fails when a parent can't be synced", async (t) => {
  const { root, fileSystem } = setUp(t);
  fileSystem.failNext("syncDirectory", "EIO");
  await t.rejects(createDirectory(fileSystem, join(root, "a", "b")), { code: "EIO" });
});

t.test("removeFile() and moveFile() sync the directories that they change", async (t) => {
  const { root, fileSystem, calls, path } = setUp(t);
  fs.writeFileSync(path, "x");
  await moveFile(fileSystem, path, join(root, "log", "1"));
  await moveFile(fileSystem, join(root, "log", "1"), join(root, "staging", "2"));
  await removeFile(fileSystem, join(root, "staging", "2"));
  t.strictSame(calls(), [
    "rename log/0",
    "syncDirectory log",
    "rename log/1",
    "syncDirectory staging",
    "syncDirectory log",
    "unlink staging/2",
    "syncDirectory staging",
  ]);
  await t.rejects(removeFile(fileSystem, path), { code: "ENOENT" });
  await t.rejects(moveFile(fileSystem, path, join(root, "x")), { code: "ENOENT" });
});

t.test("createDirectory() makes those of one parent together, with one sync for all", async (t) => {
  const { root, fileSystem, calls } = setUp(t);
  const names = ["x", "y", "z"];
  const make = () => names.map((name) => createDirectory(fileSystem, join(root, "log", name)));
  fileSystem.failNext("syncDirectory", "EIO");
  for (const { status } of await Promise.allSettled(make())) t.equal(status, "rejected");
  t.strictSame(fs.readdirSync(join(root, "log")), [], "to be made anew");
  const before = calls().length;
  const again = [...make(), createDirectory(fileSystem, join(root, "log", "x"))];
  await Promise.all(again);
  t.strictSame(calls().slice(before), [
    ...names.map((name) => `mkdir log/${name}`),
    "syncDirectory log",
  ]);
});

t.test("createDirectory() makes nothing in a parent whose sync is under way", async (t) => {
  const { root, fileSystem, calls } = setUp(t);
  const first = createDirectory(fileSystem, join(root, "log", "x"));
  while (!calls().includes("mkdir log/x")) await new Promise((resolve) => setImmediate(resolve));
  await Promise.all([
    first,
    createDirectory(fileSystem, join(root, "log", "y")),
    createDirectory(fileSystem, join(root, "log", "z")),
  ]);
  t.strictSame(calls(), [
    "mkdir log/x",
    "syncDirectory log",
    "mkdir log/y",
    "mkdir log/z",
    "syncDirectory log",
  ]);
});
