import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { loadNativeBinding, standIns } from "../../lib/io/native_binding.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { StoreLock, type StoreLockOptions } from "../../lib/io/store_lock.ts";
import { systemError } from "../../lib/io/system_error.ts";
import { FakeClock, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { testFolder } from "../support/test_folder.ts";

const native = loadNativeBinding();
const withoutAddon = native === undefined && "the addon isn't loaded";
const withoutPython = spawnSync("python3", ["-c", "import fcntl"]).status !== 0 && "no python3";

function optionsFor(root: string, more: Partial<StoreLockOptions> = {}): StoreLockOptions {
  return {
    lockPath: join(root, "lock"),
    holderPath: join(root, "forcelog", "holder.json"),
    description: "a test",
    ...more,
  };
}

const nothing = () => {
  throw systemError("ENOSYS", "flock");
};
const flockOnly = { ...standIns, flock: native?.flock ?? (() => true) };
const noLock = { ...standIns, flock: nothing };

/** Starts a program and waits for its first line. */
async function start(t: Test, command: string, args: string[]): Promise<ChildProcess> {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  t.teardown(() => child.kill("SIGKILL"));
  await once(child.stdout!, "data");
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** Everything in a directory, with content and time of change. */
function pictureOf(directory: string): unknown {
  return fs
    .readdirSync(directory, { recursive: true, encoding: "utf8" })
    .sort()
    .map((name) => {
      const path = join(directory, name);
      const { mtimeMs, ino } = fs.statSync(path);
      return [name, ino, mtimeMs, fs.statSync(path).isFile() && fs.readFileSync(path, "hex")];
    });
}

t.test("StoreLock", { skip: withoutAddon }, async (t) => {
  t.test("acquire() writes RocketMQ's text and who we are, and syncs both", async (t) => {
    const root = testFolder(t);
    const fileSystem = new InterceptedFileSystem(new NodeFileSystem());
    const clock = new FakeClock(Date.UTC(2024, 4, 6, 7, 8, 9));
    const lock = await StoreLock.acquire(fileSystem, optionsFor(root, { clock }));
    t.equal(lock.excludes, "ofd");
    t.equal(fs.readFileSync(join(root, "lock"), "utf8"), "lock");
    t.strictSame(JSON.parse(fs.readFileSync(join(root, "forcelog", "holder.json"), "utf8")), {
      pid: process.pid,
      host: hostname(),
      startedAt: "2024-05-06T07:08:09.000Z",
      program: "a test",
    });
    t.strictSame(fileSystem.names().slice(0, 3), ["lock", "lock.write", "syncDirectory"]);
    t.equal(fileSystem.calls[2]!.path, root);
    await lock.close();
    await lock.close();
    t.strictSame(fs.readdirSync(root).sort(), ["forcelog", "lock"], "the lock file stays");
    t.strictSame(fs.readdirSync(join(root, "forcelog")), [], "the holder is gone");
  });

  t.test("acquire() keeps a second store of this process out, until close()", async (t) => {
    const root = testFolder(t, { abort: "" });
    const lock = await StoreLock.acquire(new NodeFileSystem(), optionsFor(root));
    const before = pictureOf(root);
    for (const binding of [native!, flockOnly]) {
      const second = StoreLock.acquire(new NodeFileSystem({ native: binding }), optionsFor(root));
      await t.rejects(second, {
        code: "STORE_LOCKED",
        path: join(root, "lock"),
        message: new RegExp(
          `"${root}/lock" is locked by process ${process.pid} on .* \\(a test\\)`,
        ),
        cause: { code: "EAGAIN" },
      });
    }
    t.strictSame(pictureOf(root), before, "nothing changed on disk");
    // A POSIX record lock would be lost with this.
    fs.closeSync(fs.openSync(join(root, "lock"), "r+"));
    await t.rejects(StoreLock.acquire(new NodeFileSystem(), optionsFor(root)));
    await lock.close();
    await (await StoreLock.acquire(new NodeFileSystem(), optionsFor(root))).close();
  });

  t.test("acquire() sees the same store behind a symbolic link", async (t) => {
    const root = testFolder(t, { store: {}, link: t.fixture("symlink", "store") });
    const lock = await StoreLock.acquire(new NodeFileSystem(), optionsFor(join(root, "store")));
    const second = StoreLock.acquire(new NodeFileSystem(), optionsFor(join(root, "link")));
    await t.rejects(second, { code: "STORE_LOCKED" });
    await lock.close();
  });

  t.test(
    "acquire() is refused while another process holds it, and not after kill -9",
    async (t) => {
      const root = testFolder(t);
      const { lockPath, holderPath } = optionsFor(root);
      const script = join(import.meta.dirname, "../support/hold_store_lock.ts");
      const args = ["--import=tsx", script, lockPath, holderPath];
      const holder = await start(t, process.execPath, args);
      const before = pictureOf(root);
      await t.rejects(StoreLock.acquire(new NodeFileSystem(), optionsFor(root)), {
        code: "STORE_LOCKED",
        message: new RegExp(`process ${holder.pid} on ${hostname()} \\(the holder\\) since 20`),
      });
      t.strictSame(pictureOf(root), before);
      await kill(holder);
      t.ok(fs.existsSync(holderPath), "left behind");
      await (await StoreLock.acquire(new NodeFileSystem(), optionsFor(root))).close();
    },
  );

  // Java's FileChannel.tryLock(0, 1, false) is this very call: fcntl(F_SETLK) on byte 0.
  const takesRecordLock = `
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    print("held", flush=True)
    sys.stdin.read()
except OSError:
    print("refused", flush=True)
`;

  t.test("acquire() names a Java broker by its process", { skip: withoutPython }, async (t) => {
    const root = testFolder(t, { forcelog: { "holder.json": '{"pid":1,"host":"h"}' } });
    const broker = await start(t, "python3", ["-c", takesRecordLock, join(root, "lock")]);
    await t.rejects(StoreLock.acquire(new NodeFileSystem(), optionsFor(root)), {
      code: "STORE_LOCKED",
      message: new RegExp(`"${root}/lock" is locked by process ${broker.pid} `),
      cause: { code: "EAGAIN", holderPid: broker.pid },
    });
    t.equal(fs.readFileSync(join(root, "lock"), "utf8"), "", "the broker's file is untouched");
    await kill(broker);
    await (await StoreLock.acquire(new NodeFileSystem(), optionsFor(root))).close();
  });

  t.test("acquire() keeps a Java broker out", { skip: withoutPython }, async (t) => {
    const root = testFolder(t);
    const attempt = () =>
      spawnSync("python3", ["-c", takesRecordLock, join(root, "lock")], {
        input: "",
        encoding: "utf8",
      }).stdout;
    const lock = await StoreLock.acquire(new NodeFileSystem(), optionsFor(root));
    t.equal(attempt(), "refused\n");
    await lock.close();
    t.equal(attempt(), "held\n");
  });

  t.test("acquire() has no name for a holder that left none", async (t) => {
    for (const text of [undefined, "", "null", "{", '{"pid":"x"}']) {
      const root = testFolder(t, { forcelog: text === undefined ? {} : { "holder.json": text } });
      const lock = await new NodeFileSystem().lock(join(root, "lock"));
      await t.rejects(StoreLock.acquire(new NodeFileSystem(), optionsFor(root)), {
        code: "STORE_LOCKED",
        message: /is locked by another process, which has not said who it is$/,
      });
      await lock.close();
    }
  });

  t.test("acquire() releases the lock when it can't write its files", async (t) => {
    const root = testFolder(t);
    for (const call of ["lock.write", "syncDirectory", "rename"] as const) {
      const fileSystem = new InterceptedFileSystem(new NodeFileSystem());
      fileSystem.failNext(call, "EIO");
      await t.rejects(StoreLock.acquire(fileSystem, optionsFor(root)), {
        code: "STORE_IO",
        cause: { code: "EIO" },
      });
      await (await StoreLock.acquire(fileSystem, optionsFor(root))).close();
    }
  });

  t.test("close() releases the lock though the holder file can't be removed", async (t) => {
    const root = testFolder(t);
    const fileSystem = new InterceptedFileSystem(new NodeFileSystem());
    const lock = await StoreLock.acquire(fileSystem, optionsFor(root));
    fileSystem.failNext("unlink", "EIO");
    await t.rejects(lock.close(), { code: "EIO" });
    await (await StoreLock.acquire(fileSystem, optionsFor(root))).close();
  });
});

t.test("StoreLock.acquire() warns where a Java broker would not see the lock", async (t) => {
  const warnings: string[] = [];
  const options = optionsFor(testFolder(t), { onWarning: (text) => warnings.push(text) });
  const lock = await StoreLock.acquire(new NodeFileSystem({ native: flockOnly }), options);
  t.equal(lock.excludes, "flock");
  t.match(warnings, [/a Java broker does not see/]);
  t.equal(warnings.length, 1);
  await lock.close();
});

t.test("StoreLock.acquire() refuses where there is no lock, unless told otherwise", async (t) => {
  const warnings: string[] = [];
  const root = testFolder(t);
  const onWarning = (text: string) => warnings.push(text);
  const system = new NodeFileSystem({ native: noLock });
  await t.rejects(StoreLock.acquire(system, optionsFor(root, { onWarning })), {
    code: "STORE_LOCK_UNAVAILABLE",
    cause: { code: "ENOLCK" },
  });
  t.strictSame(warnings, []);
  const options = optionsFor(root, { onWarning, unsafeOpenWithoutLock: true });
  const lock = await StoreLock.acquire(system, options);
  t.equal(lock.excludes, "nobody");
  t.match(warnings, [/is not locked/]);
  await lock.close();
});

t.test("StoreLock.acquire() passes on what else goes wrong", async (t) => {
  const root = join(testFolder(t), "none");
  await t.rejects(StoreLock.acquire(new NodeFileSystem(), optionsFor(root)), {
    code: "STORE_IO",
    cause: { code: "ENOENT" },
  });
});
