import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { abortExists, createAbort, removeAbort } from "../../lib/checkpoint/abort_file.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";

function setUp(t: Test) {
  const root = t.testdir();
  const fs = new InterceptedFileSystem(new NodeFileSystem());
  const staging = join(root, "forcelog");
  mkdirSync(staging);
  return { root, fs, path: join(root, "abort"), staging };
}

t.test("createAbort() writes the process id, durably, and removeAbort() removes it", async (t) => {
  const { root, fs, path, staging } = setUp(t);
  t.equal(await abortExists(fs, path), false);
  const before = fs.calls.length;
  await createAbort(fs, { path, staging }, 4711);
  t.equal(readFileSync(path, "latin1"), "4711", "as RocketMQ 5 does");
  const calls = fs.calls.slice(before).map(({ name }) => name);
  t.ok(calls.includes("fdatasync"));
  t.equal(calls.at(-1), "syncDirectory", "its name survives a power cut");
  t.equal(fs.calls.at(-1)?.path, root);
  t.equal(await abortExists(fs, path), true);
  await removeAbort(fs, path);
  t.notOk(existsSync(path));
  t.equal(fs.calls.at(-1)?.name, "syncDirectory");
});

t.test("createAbort() takes over a file that a killed store left", async (t) => {
  const { fs, path, staging } = setUp(t);
  for (const content of ["", "123456789", "7"]) {
    writeFileSync(path, content);
    await createAbort(fs, { path, staging }, 4711);
    t.equal(readFileSync(path, "latin1"), "4711", `over "${content}"`);
  }
});

t.test(
  "createAbort(), abortExists() and removeAbort() name the file they failed with",
  async (t) => {
    const { fs, path, staging } = setUp(t);
    for (const call of ["open", "pwritev", "fdatasync", "syncDirectory"] as const) {
      fs.failNext(call, "EIO");
      await t.rejects(
        createAbort(fs, { path, staging }, 1),
        { code: "STORE_IO", path, cause: { code: "EIO" } },
        call,
      );
      t.notOk(existsSync(path), `${call}: the next open must not take its sync for done`);
    }
    t.equal(fs.count("open") - 1, fs.count("close"), "every handle is closed");
    fs.failNext("stat", "EACCES");
    await t.rejects(abortExists(fs, path), { code: "STORE_IO", path, cause: { code: "EACCES" } });
    for (const call of ["unlink", "syncDirectory"] as const) {
      writeFileSync(path, "");
      fs.failNext(call, "EIO");
      await t.rejects(removeAbort(fs, path), { code: "STORE_IO", path, cause: { code: "EIO" } });
    }
  },
);

t.test("abortExists() and createAbort() refuse what is no file", async (t) => {
  const { fs, path, staging } = setUp(t);
  mkdirSync(path);
  const refusal = { code: "STORE_IO", path, message: /it is no file/ };
  await t.rejects(abortExists(fs, path), refusal);
  await t.rejects(createAbort(fs, { path, staging }, 1), refusal);
});
