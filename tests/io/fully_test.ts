import * as fs from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { FileHandle } from "../../lib/io/file_system.ts";
import {
  BYTES_PER_CALL_MAX,
  commitAndForceFully,
  partOf,
  readFully,
  totalBytes,
  writeFully,
  writeFullyNow,
} from "../../lib/io/fully.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { counted } from "../support/file_system_contract.ts";
import { testFolder } from "../support/test_folder.ts";

async function openIn(t: Test): Promise<[InterceptedFileSystem, FileHandle, string]> {
  const fileSystem = new InterceptedFileSystem(new NodeFileSystem());
  const path = join(testFolder(t), "a");
  const handle = await fileSystem.open(path, "create");
  t.teardown(() => handle.close());
  return [fileSystem, handle, path];
}

const writers = [
  { name: "writeFully", call: "pwritev", write: writeFully },
  { name: "writeFullyNow", call: "pwritevNow", write: writeFullyNow },
  { name: "commitAndForceFully", call: "pwritev", write: commitAndForceFully },
] as const;

for (const { name, call, write } of writers) {
  t.test(`${name}() ends with all bytes in place after 1, 7, half, EAGAIN, the rest`, async (t) => {
    const [fileSystem, handle, path] = await openIn(t);
    fileSystem.shorten(call, [1, 7, "half"]);
    fileSystem.failNext(call, "EAGAIN", { skip: 3 });
    fileSystem.failNext(call, "EINTR", { skip: 3 });
    await write(handle, [counted(30), counted(0), counted(70, 30)], 5);
    t.strictSame(fs.readFileSync(path), Buffer.concat([Buffer.alloc(5), counted(100)]));
    const positions = fileSystem.calls.filter((c) => c.name === call).map((c) => c.position);
    t.strictSame(positions, [5, 6, 13, 59, 59, 59]);
  });

  t.test(`${name}() ends with EIO when a call takes no bytes`, async (t) => {
    const [fileSystem, handle] = await openIn(t);
    fileSystem.shorten(call, [3, 0]);
    await t.rejects(async () => write(handle, [counted(10)], 0), {
      code: "EIO",
      message: "EIO: moved 0 of 7 bytes at position 3, pwritev",
    });
    t.equal(fileSystem.count(call), 2);
    t.equal(fileSystem.count("fdatasync"), 0);
  });

  t.test(`${name}() gives up interruptions without progress`, async (t) => {
    const [fileSystem, handle] = await openIn(t);
    fileSystem.failNext(call, "EINTR", { times: Number.POSITIVE_INFINITY });
    await t.rejects(async () => write(handle, [counted(10)], 0), { code: "EINTR" });
    const calls = fileSystem.count(call);
    t.ok(calls > 1 && calls < 100, `after ${calls} calls`);
  });

  t.test(`${name}() counts interruptions anew after progress`, async (t) => {
    const [, handle, path] = await openIn(t);
    let calls = 0;
    const fileSystem = new InterceptedFileSystem(new NodeFileSystem(), (made, proceed) => {
      if (made.name !== call) return proceed();
      calls += 1;
      if (calls % 10 === 0) return proceed();
      throw Object.assign(new Error("interrupted"), { code: "EINTR", syscall: "pwritev" });
    });
    fileSystem.shorten(call, Array(10).fill(1));
    const other = await fileSystem.open(handle.path, "write");
    await write(other, [counted(10)], 0);
    await other.close();
    t.equal(calls, 100);
    t.strictSame(fs.readFileSync(path), counted(10));
  });

  t.test(`${name}() passes other errors on as they come`, async (t) => {
    const [fileSystem, handle] = await openIn(t);
    fileSystem.failNext(call, "ENOSPC");
    await t.rejects(async () => write(handle, [counted(10)], 0), { code: "ENOSPC" });
    t.equal(fileSystem.count(call), 1);
  });
}

t.test("commitAndForceFully() syncs once, after the last byte", async (t) => {
  const [fileSystem, handle] = await openIn(t);
  fileSystem.shorten("pwritev", [4, 3]);
  await commitAndForceFully(handle, [counted(10)], 0);
  const calls = fileSystem.names().filter((name) => name !== "open" && name !== "commitAndForce");
  t.strictSame(calls, ["pwritev", "pwritev", "pwritev", "fdatasync"]);
});

t.test("commitAndForceFully() of no bytes syncs", async (t) => {
  const [fileSystem, handle] = await openIn(t);
  await commitAndForceFully(handle, [], 0);
  await commitAndForceFully(handle, [counted(0)], 0);
  t.strictSame(fileSystem.names(), ["open", "fdatasync", "fdatasync"]);
});

t.test("commitAndForceFully() never repeats a sync, whatever it failed with", async (t) => {
  for (const code of ["EIO", "EINTR", "EAGAIN"]) {
    const [fileSystem, handle] = await openIn(t);
    fileSystem.failNext("fdatasync", code);
    await t.rejects(commitAndForceFully(handle, [counted(10)], 0), { code, syscall: "fdatasync" });
    t.equal(fileSystem.count("fdatasync"), 1);
  }
});

t.test("readFully() goes on after short reads and stops at the end of the file", async (t) => {
  const [fileSystem, handle] = await openIn(t);
  await writeFully(handle, [counted(100)], 0);
  fileSystem.shorten("pread", [1, 7, "half"]);
  fileSystem.failNext("pread", "EINTR", { skip: 2 });
  const buffer = Buffer.alloc(80, 0xee);
  t.equal(await readFully(handle, buffer, 10), 80);
  t.strictSame(buffer, counted(80, 10));
  fileSystem.shorten("pread", [5]);
  t.equal(await readFully(handle, buffer, 90), 10);
  t.equal(await readFully(handle, buffer, 100), 0);
  t.equal(await readFully(handle, Buffer.alloc(0), 0), 0);
  fileSystem.failNext("pread", "EIO");
  await t.rejects(readFully(handle, buffer, 0), { code: "EIO", syscall: "pread" });
});

t.test("no call is given more than 2147479552 bytes", async (t) => {
  const gibibyte = new Uint8Array(1 << 30);
  const buffers = [gibibyte, gibibyte, gibibyte];
  const asked: { call: string; position: number; bytes: number }[] = [];
  const note =
    (call: string) =>
    async (part: readonly Uint8Array[], position: number): Promise<number> => {
      asked.push({ call, position, bytes: totalBytes(part) });
      // The first call comes back short, as it may.
      return asked.length === 1 ? 1000 : totalBytes(part);
    };
  const stub = {
    pwritev: note("pwritev"),
    commitAndForce: note("commitAndForce"),
  } as unknown as FileHandle;
  const total = 3 * 2 ** 30;
  for (const write of [writeFully, commitAndForceFully]) {
    asked.length = 0;
    await write(stub, buffers, 100);
    t.ok(asked.every(({ bytes }) => bytes <= 2_147_479_552));
    t.strictSame(
      asked.map(({ position }) => position),
      [100, 1100, 1100 + BYTES_PER_CALL_MAX],
    );
    t.equal(asked.at(-1)!.bytes, total - 1000 - BYTES_PER_CALL_MAX);
  }
  t.strictSame(
    asked.map(({ call }) => call),
    ["pwritev", "pwritev", "commitAndForce"],
    "only the last part is synced",
  );
});

t.test("partOf() takes the bytes asked for and copies none", async (t) => {
  const buffers = [counted(3), counted(0), counted(4, 3), counted(3, 7)];
  for (let skip = 0; skip <= 10; skip++) {
    for (let bytesMax = 0; bytesMax <= 11; bytesMax++) {
      const part = Buffer.concat(partOf(buffers, skip, bytesMax));
      t.strictSame(part, counted(10).subarray(skip, skip + bytesMax), `${skip}, ${bytesMax}`);
    }
  }
  t.equal(partOf(buffers, 3, 7)[0], buffers[2], "a whole buffer is passed on as it is");
  t.equal(partOf(buffers, 0, 10, 2).length, 2);
});
