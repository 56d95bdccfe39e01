import { spawnSync } from "node:child_process";
import { pbkdf2 } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import t from "tap";
import { loadNativeBinding, nativeBindingStatus, standIns } from "../../lib/io/native_binding.ts";

const native = loadNativeBinding();

t.test("loadNativeBinding() loads once and says what became of it", async (t) => {
  t.equal(loadNativeBinding(), native);
  t.match(
    nativeBindingStatus(),
    native === undefined ? /off|not loaded/ : /^loaded from .*\.node$/,
  );
});

t.test("loadNativeBinding() obeys FORCELOG_NATIVE=off", async (t) => {
  const path = join(import.meta.dirname, "../../lib/io/native_binding.ts");
  const script = `
    const { loadNativeBinding, nativeBindingStatus } = await import(${JSON.stringify(pathToFileURL(path).href)});
    console.log(loadNativeBinding() === undefined, nativeBindingStatus());`;
  const { stdout } = spawnSync(
    process.execPath,
    ["--import=tsx", "--input-type=module", "--eval", script],
    { env: { ...process.env, FORCELOG_NATIVE: "off" }, encoding: "utf8" },
  );
  t.match(stdout, /^true switched off/);
});

t.test("standIns has every call of the addon", async (t) => {
  for (const name of Object.keys(native ?? {})) t.ok(name in standIns, name);
});

t.test("standIns.lseekData() takes all up to the end for data", async (t) => {
  const fd = fs.openSync(join(t.testdir(), "a"), "w+");
  t.equal(await standIns.lseekData(fd, 0), -1);
  fs.ftruncateSync(fd, 100);
  t.equal(await standIns.lseekData(fd, 0), 0);
  t.equal(await standIns.lseekData(fd, 99), 99);
  t.equal(await standIns.lseekData(fd, 100), -1);
  fs.closeSync(fd);
});

t.test("NativeBinding", { skip: native === undefined && "the addon isn't loaded" }, async (t) => {
  const addon = native!;

  t.test("reports errors as Node does", async (t) => {
    const notOpen = 1_000_000;
    const buffer = Buffer.alloc(1);
    const { errno } = await standIns.pwritevThenFdatasync(notOpen, [buffer], 0).catch((e) => e);
    const error = { code: "EBADF", errno };
    await t.rejects(addon.pwritevThenFdatasync(notOpen, [buffer], 0), {
      ...error,
      syscall: "pwritev",
      message: "EBADF: bad file descriptor, pwritev",
    });
    await t.rejects(addon.fdatasync(notOpen), { ...error, syscall: "fdatasync" });
    await t.rejects(addon.lseekData(notOpen, 0), error);
    await t.rejects(addon.fallocate(notOpen, "punch", 0, 1), { ...error, syscall: "fallocate" });
    await t.rejects(addon.posixFadvise(notOpen, 0, 0, "normal"), error);
    t.throws(() => addon.preadv2NoWait(notOpen, buffer, 0), { ...error, syscall: "preadv2" });
    t.throws(() => addon.flock(notOpen), { ...error, syscall: "flock" });
    t.throws(() => addon.setOfdLock(notOpen, 0, 1), { ...error, syscall: "fcntl" });
  });

  t.test("names the call that failed of a write and a sync", async (t) => {
    // /dev/full takes no bytes, /dev/null no sync.
    for (const [path, error] of Object.entries({
      "/dev/full": { code: "ENOSPC", syscall: "pwritev" },
      "/dev/null": { code: "EINVAL", syscall: "fdatasync" },
    })) {
      const fd = fs.openSync(path, "r+");
      await t.rejects(addon.pwritevThenFdatasync(fd, [Buffer.alloc(1)], 0), error);
      fs.closeSync(fd);
    }
  });

  t.test("calls what a file system can't do by the name of the man pages", async (t) => {
    // A regular file of procfs can neither be allocated nor say what is cached.
    const fd = fs.openSync("/proc/self/comm", "r+");
    const refused = addon.fallocate(fd, "punch", 0, 1);
    await t.rejects(refused, {
      code: "EOPNOTSUPP",
      message: "EOPNOTSUPP: operation not supported, fallocate",
    });
    t.equal(addon.preadv2NoWait(fd, Buffer.alloc(1), 0), -1);
    await t.rejects(addon.lseekData(fd, 0), { code: "EINVAL", syscall: "lseek" });
    fs.closeSync(fd);
  });

  t.test("checks its arguments before it does anything", async (t) => {
    const buffer = Buffer.alloc(8);
    const wrong = {
      "a negative fd": () => addon.flock(-1),
      "no fd": () => addon.flock(undefined as unknown as number),
      "a position below 0": () => addon.pwritevThenFdatasync(1, [buffer], -1),
      "a sync of no fd": () => addon.fdatasync(-1),
      "data from below 0": () => addon.lseekData(1, -1),
      "a position with a fraction": () => addon.pwritevThenFdatasync(1, [buffer], 0.5),
      "a position of 2^53": () => addon.pwritevThenFdatasync(1, [buffer], 2 ** 53),
      "NaN for a position": () => addon.preadv2NoWait(1, buffer, Number.NaN),
      "no array": () => addon.pwritevThenFdatasync(1, buffer as unknown as Buffer[], 0),
      "a text for a buffer": () => addon.pwritevThenFdatasync(1, ["x" as unknown as Buffer], 0),
      "nothing for memory": () => addon.mlock(undefined as unknown as Buffer),
      "a getter's error": () => {
        const buffers = Object.defineProperty([buffer], 0, {
          get: () => {
            throw new Error("Cannot take what a getter refuses");
          },
        });
        return addon.pwritevThenFdatasync(1, buffers, 0);
      },
      "an array of numbers other than bytes": () =>
        addon.mlock(new Float64Array(1) as unknown as Uint8Array),
      "an unknown mode": () => addon.fallocate(1, "collapse" as "punch", 0, 1),
      "an unknown advice": () => addon.madvise(buffer, "dontneed" as "willneed"),
    };
    for (const [text, call] of Object.entries(wrong)) {
      t.throws(call, { message: /^Cannot take / }, text);
    }
  });

  t.test(
    "pwritevThenFdatasync() keeps its buffers alive, whatever becomes of the array",
    async (t) => {
      const fd = fs.openSync(join(t.testdir(), "a"), "w+");
      const pending: Promise<number>[] = [];
      for (let i = 0; i < 64; i++) {
        const buffers = [Buffer.alloc(4096, i), Buffer.alloc(4096, i)];
        pending.push(addon.pwritevThenFdatasync(fd, buffers, i * 8192));
        buffers.length = 0;
        // Memory that was set free is likely to come back here.
        Buffer.alloc(1 << 20, 0xff);
      }
      await Promise.all(pending);
      const content = fs.readFileSync(fd);
      t.ok(content.every((byte, position) => byte === Math.floor(position / 8192)));
      fs.closeSync(fd);
    },
  );

  t.test("pwritevThenFdatasync() and fdatasync() don't wait for libuv's threads", async (t) => {
    // It takes bytes and has no sync: there is no device to wait for.
    const sink = fs.openSync("/dev/null", "r+");
    let ended = 0;
    const jobs = Array.from(
      { length: 8 },
      () =>
        new Promise<void>((resolve) => {
          pbkdf2("password", "salt", 100_000, 64, "sha512", () => {
            ended += 1;
            resolve();
          });
        }),
    );
    const error = { code: "EINVAL", syscall: "fdatasync" };
    await t.rejects(addon.pwritevThenFdatasync(sink, [Buffer.alloc(1)], 0), error);
    await t.rejects(addon.fdatasync(sink), error);
    // Four run at once: on one of libuv's threads either would have begun after the fourth.
    t.ok(ended < 4, `${ended} of 8 jobs had ended`);
    await Promise.all(jobs);
    fs.closeSync(sink);
  });

  t.test("calls that hang keep no force, sync or write waiting", async (t) => {
    const root = t.testdir();
    const pipe = join(root, "pipe");
    spawnSync("mkfifo", [pipe]);
    // Each of these takes a thread until somebody writes.
    const hanging = Array.from({ length: 4 }, () => addon.callEach(`o0 ${pipe}\0`));
    const fd = fs.openSync(join(root, "a"), "w+");
    t.equal(await addon.pwritevThenFdatasync(fd, [Buffer.alloc(3)], 0), 3);
    t.equal(await addon.pwritev(fd, [Buffer.alloc(4)], 3), 4);
    await addon.fdatasync(fd);
    t.equal(fs.fstatSync(fd).size, 7);
    const writer = fs.openSync(pipe, "r+");
    for (const opened of await Promise.all(hanging)) fs.closeSync(JSON.parse(opened)[0]);
    for (const open of [fd, writer]) fs.closeSync(open);
  });

  t.test("pwritevThenFdatasync() overtakes every fdatasync() that waits", async (t) => {
    const fd = fs.openSync(join(t.testdir(), "a"), "w+");
    fs.writeSync(fd, "a");
    // No device to wait for, only a thread.
    const sink = fs.openSync("/dev/null", "r+");
    const count = 500;
    // On a busy machine the syncs may have come to their end before the force is even called. In
    // one line with them it would always be told last.
    let isFirst = false;
    for (let attempt = 0; attempt < 50 && !isFirst; attempt++) {
      let ended = 0;
      const syncs = Array.from({ length: count }, async () => {
        await addon.fdatasync(fd);
        ended += 1;
      });
      await t.rejects(addon.pwritevThenFdatasync(sink, [Buffer.alloc(1)], 0), { code: "EINVAL" });
      isFirst = ended < count / 2;
      await Promise.all(syncs);
    }
    t.ok(isFirst);
    for (const open of [fd, sink]) fs.closeSync(open);
  });

  t.test("each promise is followed by all that it releases, then by the next", async (t) => {
    const fd = fs.openSync(join(t.testdir(), "a"), "w+");
    const order: number[] = [];
    const calls = Array.from({ length: 20 }, async (_, i) => {
      await (i % 2 === 0 ? addon.pwritevThenFdatasync(fd, [], 0) : addon.fdatasync(fd));
      order.push(i);
      await undefined;
      process.nextTick(() => order.push(i));
    });
    // They end meanwhile, and are told in one turn.
    const until = performance.now() + 50;
    while (performance.now() < until);
    await Promise.all(calls);
    await new Promise((resolve) => setImmediate(resolve));
    t.equal(order.length, 40);
    for (let i = 0; i < 40; i += 2) t.equal(order[i], order[i + 1]);
    fs.closeSync(fd);
  });

  t.test("every call is told, however many there are at once", async (t) => {
    const fd = fs.openSync(join(t.testdir(), "a"), "w+");
    for (let round = 0; round < 20; round++) {
      const calls = Array.from({ length: 50 }, async (_, i) => {
        for (let j = 0; j < 5; j++) {
          if ((i + j) % 3 === 0) await addon.fdatasync(fd);
          else await addon.pwritevThenFdatasync(fd, [], 0);
        }
      });
      await Promise.all(calls);
    }
    fs.closeSync(fd);
  });

  t.test("a process ends once nothing is under way, and not before", async (t) => {
    const path = join(t.testdir(), "a");
    const ends = (script: string) => {
      const text = `
        const fd = require("node:fs").openSync(${JSON.stringify(path)}, "w+");
        const addon = require(${JSON.stringify(nativeBindingStatus().replace("loaded from ", ""))});
        const force = () => addon.pwritevThenFdatasync(fd, [Buffer.alloc(4096)], 0);
        ${script}`;
      const { status, stdout } = spawnSync(process.execPath, ["--eval", text], {
        encoding: "utf8",
        timeout: 30_000,
      });
      return [status, stdout];
    };
    t.strictSame(ends(`force().then(() => console.log("told"))`), [0, "told\n"]);
    t.strictSame(ends(`for (let i = 0; i < 50; i++) force(); process.exit(7)`), [7, ""]);
    t.strictSame(
      ends(`
        for (let i = 0; i < 50; i++) addon.fdatasync(fd);
        force().then(() => process.exit(7));`),
      [7, ""],
    );
  });

  t.test("lseekData() finds what was written, and skips holes", async (t) => {
    const fd = fs.openSync(join(t.testdir(), "a"), "w+");
    t.equal(await addon.lseekData(fd, 0), -1, "there is nothing in an empty file");
    fs.ftruncateSync(fd, 1 << 30);
    fs.writeSync(fd, "x", 1 << 29);
    const found = await addon.lseekData(fd, 0);
    if (found === 0) t.comment("this file system knows no holes: nothing to see here");
    else {
      t.ok(found > (1 << 29) - (1 << 21) && found <= 1 << 29, `found ${found}`);
      t.equal(await addon.lseekData(fd, (1 << 30) - 1), -1);
    }
    t.equal(await addon.lseekData(fd, 1 << 29), 1 << 29);
    t.equal(await addon.lseekData(fd, 1 << 30), -1);
    t.equal(await addon.lseekData(fd, 2 ** 40), -1);
    fs.closeSync(fd);
  });

  t.test("a worker thread may be terminated while its calls are under way", async (t) => {
    const path = join(t.testdir(), "a");
    const script = `
      const { parentPort, workerData } = require("node:worker_threads");
      const fd = require("node:fs").openSync(workerData.path, "w+");
      const addon = require(workerData.addon);
      const buffers = [Buffer.alloc(4096)];
      setInterval(() => {
        for (let i = 0; i < 50; i++) addon.pwritevThenFdatasync(fd, buffers, 0);
        for (let i = 0; i < 50; i++) addon.fdatasync(fd);
        for (let i = 0; i < 50; i++) addon.pwritev(fd, buffers, 0);
        for (let i = 0; i < 50; i++) addon.callEach("s0 /dev/null\\0r0 /dev\\0");
        for (let i = 0; i < 50; i++) addon.fdatasync(1_000_000).catch(() => {});
        for (let i = 0; i < 50; i++) addon.fallocate(1_000_000, "punch", 0, 1).catch(() => {});
        parentPort.postMessage("called");
      }, 0);`;
    const workerData = { path, addon: nativeBindingStatus().replace("loaded from ", "") };
    for (let i = 0; i < 10; i++) {
      const worker = new Worker(script, { eval: true, workerData });
      await once(worker, "message");
      t.equal(await worker.terminate(), 1, "and nothing else comes to harm");
    }
  });

  t.test("madvise() and mlock() take memory of any length and place", async (t) => {
    const memory = Buffer.alloc(1 << 20, 7);
    for (const advice of ["willneed", "dontdump", "hugepage", "nohugepage"] as const) {
      addon.madvise(memory, advice);
      addon.madvise(memory.subarray(1, 5), advice);
      addon.madvise(memory.subarray(0, 0), advice);
    }
    try {
      addon.madvise(memory, "populate_write");
    } catch (error) {
      t.match(error, { code: "EINVAL", syscall: "madvise" }, "a kernel before 5.14");
    }
    addon.mlock(memory.subarray(0, 4096));
    addon.munlock(memory.subarray(0, 4096));
    t.strictSame(memory, Buffer.alloc(1 << 20, 7), "no advice changed what it holds");
  });
});
