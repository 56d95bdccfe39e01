import t from "tap";
import {
  type Call,
  type CallName,
  FakeClock,
  type Fault,
  SimulatedDisk,
  SimulatedFileSystem,
  type SimulatedOptions,
} from "../../lib/testing/mod.ts";
import { counted, fileSystemContract } from "../support/file_system_contract.ts";
import { outcomes } from "../support/outcomes.ts";
import { randomOf, turns } from "../support/random.ts";

/** With this seed the first reads find all that they ask for in the cache. */
const CACHED_SEED = 1;

fileSystemContract(t, "SimulatedFileSystem", () => {
  const disk = new SimulatedDisk();
  disk.write("/root/.keep", new Uint8Array());
  disk.remove("/root/.keep");
  return { fs: new SimulatedFileSystem(disk, { seed: CACHED_SEED }), root: "/root", punches: true };
});

/** A file system with an open file, and what happens to its calls. */
async function setUp(options: Omit<SimulatedOptions, "onCall"> = {}) {
  const disk = new SimulatedDisk();
  const calls: Call[] = [];
  const faults = new Map<CallName, Fault>();
  const watch = { onCall: (_call: Call): void => {} };
  const fs = new SimulatedFileSystem(disk, {
    ...options,
    onCall: (call) => {
      calls.push(call);
      watch.onCall(call);
      return faults.get(call.name);
    },
  });
  const file = await fs.open("/a", "create");
  const names = () => calls.map(({ name }) => name);
  return { disk, fs, file, calls, names, faults, watch };
}

t.test("SimulatedFileSystem announces each call with its number and place", async (t) => {
  const { fs, file, calls } = await setUp();
  await file.pwritev([counted(3), counted(4)], 5);
  file.pwritevNow([counted(2)], 12);
  await file.ftruncate(100);
  await fs.rename("/a", "/b");
  await file.fdatasync();
  await fs.mkdir("/d");
  await fs.rename("/b", "/d/b");
  await fs.rename("/d", "/e");
  await file.stat();
  t.strictSame(calls, [
    { number: 1, name: "open", path: "/a", mode: "create" },
    { number: 2, name: "pwritev", path: "/a", position: 5, length: 7 },
    { number: 3, name: "pwritevNow", path: "/a", position: 12, length: 2 },
    { number: 4, name: "ftruncate", path: "/a", position: 100 },
    { number: 5, name: "rename", path: "/a", to: "/b" },
    { number: 6, name: "fdatasync", path: "/b" },
    { number: 7, name: "mkdir", path: "/d" },
    { number: 8, name: "rename", path: "/b", to: "/d/b" },
    { number: 9, name: "rename", path: "/d", to: "/e" },
    { number: 10, name: "fstat", path: "/e/b" },
  ]);
  t.equal(fs.calls, 10);
  t.equal(file.path, "/a");
});

t.test("SimulatedFileSystem announces a call before it is under way", async (t) => {
  const { disk, fs, watch } = await setUp();
  let before: SimulatedDisk | undefined;
  watch.onCall = () => {
    before = disk.fork();
  };
  const made = fs.mkdir("/d");
  const after = disk.fork();
  const all = { data: "all", names: "all" } as const;
  t.strictSame(before!.cutPower(randomOf(1), all).list("/"), [{ name: "a", kind: "file" }]);
  t.equal(after.cutPower(randomOf(1), all).list("/").length, 2);
  await made;
});

t.test("FileHandle.commitAndForce() is announced as the calls that it stands for", async (t) => {
  const { disk, file, names, faults, watch } = await setUp();
  const before: string[] = [];
  watch.onCall = ({ name }) => {
    const fork = disk.fork();
    const durable = fork.tree.file("/a", "open").isDurable ? "durable" : "not durable";
    before.push(`${name}: ${fork.read("/a").toString()} ${durable}`);
  };
  t.equal(await file.commitAndForce([Buffer.from("x")], 0), 1);
  t.strictSame(before, [
    "commitAndForce:  durable",
    "pwritev:  durable",
    "fdatasync: x not durable",
  ]);
  const refused = async (name: CallName, code: string) => {
    faults.set(name, { kind: "error", code });
    await t.rejects(file.commitAndForce([Buffer.from(name)], 0), { code });
    faults.delete(name);
    return disk.read("/a").toString();
  };
  t.equal(await refused("commitAndForce", "EIO"), "x");
  t.equal(await refused("pwritev", "ENOSPC"), "x");
  t.equal(await refused("fdatasync", "EIO"), "fdatasync");
  const syncs = () => names().filter((name) => name === "fdatasync").length;
  const count = syncs();
  for (const name of ["commitAndForce", "pwritev"] as const) {
    faults.set(name, { kind: "short", bytes: 2 });
    t.equal(await file.commitAndForce([Buffer.from("12345")], 0), 2);
    faults.delete(name);
  }
  t.equal(syncs(), count, "a short write is not synced");
  t.equal(disk.read("/a").toString(), "12atasync");
});

t.test("SimulatedFileSystem fails any call, which then does nothing", async (t) => {
  const { disk, fs, file, faults } = await setUp();
  await file.pwritev([counted(10)], 0);
  const before = disk.digest();
  const buffer = Buffer.alloc(4);
  const lock = await fs.lock("/a");
  const failing = async (name: CallName, syscall: string, call: () => unknown) => {
    faults.set(name, { kind: "error", code: "EMFILE" });
    const error = await (async () => call())().then(
      () => undefined,
      (error) => error,
    );
    faults.delete(name);
    t.match(error, { code: "EMFILE", syscall, path: String }, name);
    t.equal(disk.digest(), before);
  };
  await failing("open", "open", () => fs.open("/b", "create"));
  await failing("mkdir", "mkdir", () => fs.mkdir("/d"));
  await failing("rmdir", "rmdir", () => fs.rmdir("/d"));
  await failing("readdir", "readdir", () => fs.readdir("/"));
  await failing("stat", "stat", () => fs.stat("/"));
  await failing("statfs", "statfs", () => fs.statfs("/"));
  await failing("rename", "rename", () => fs.rename("/a", "/b"));
  await failing("unlink", "unlink", () => fs.unlink("/a"));
  await failing("syncDirectory", "fsync", () => fs.syncDirectory("/"));
  await failing("lock", "lock", () => fs.lock("/l"));
  await failing("pwritev", "pwritev", () => file.pwritev([buffer], 0));
  await failing("pwritevNow", "pwritev", () => file.pwritevNow([buffer], 0));
  await failing("pread", "pread", () => file.pread(buffer, 0));
  await failing("preadIfCached", "preadv2", () => file.preadIfCached(buffer, 0));
  await failing("nextData", "lseek", () => file.nextData(0));
  await failing("fdatasync", "fdatasync", () => file.fdatasync());
  await failing("commitAndForce", "pwritev", () => file.commitAndForce([buffer], 0));
  await failing("ftruncate", "ftruncate", () => file.ftruncate(0));
  await failing("allocate", "fallocate", () => file.allocate(0, 1));
  await failing("punch", "fallocate", () => file.punch(0, 10));
  await failing("advise", "posix_fadvise", () => file.advise(0, 0, "normal"));
  await failing("fstat", "fstat", () => file.stat());
  await failing("lock.write", "pwritev", () => lock.write(buffer));
  await failing("lock.close", "close", () => lock.close());
  await failing("close", "close", () => file.close());
  await t.rejects(file.stat(), { code: "EBADF" }, "closed all the same");
  await (await fs.lock("/a")).close();
});

t.test("SimulatedFileSystem shortens reads and writes, to 1 byte at least", async (t) => {
  const { file, faults } = await setUp({ seed: CACHED_SEED });
  faults.set("pwritev", { kind: "short", bytes: 3 });
  t.equal(await file.pwritev([counted(2), counted(2, 2)], 0), 3);
  faults.set("pwritev", { kind: "short", bytes: 0 });
  t.equal(await file.pwritev([counted(4)], 0), 1);
  faults.set("pwritevNow", { kind: "short", bytes: 5 });
  t.equal(file.pwritevNow([counted(8)], 0), 5);
  t.equal(file.pwritevNow([counted(3)], 0), 3);
  faults.set("pread", { kind: "short", bytes: 2 });
  const buffer = Buffer.alloc(8, 0xee);
  t.equal(await file.pread(buffer, 0), 2);
  t.strictSame(buffer, Buffer.from([0, 1, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]));
  faults.set("preadIfCached", { kind: "short", bytes: 3 });
  t.equal(file.preadIfCached(buffer, 0), 3);
});

t.test("SimulatedFileSystem lets a call hang, which never happens", async (t) => {
  const { disk, fs, file, faults } = await setUp();
  const before = disk.digest();
  const settled: string[] = [];
  const hanging = (name: CallName, call: () => Promise<unknown>) => {
    faults.set(name, { kind: "hang" });
    const note = () => settled.push(name);
    call().then(note, note);
    faults.delete(name);
  };
  hanging("mkdir", () => fs.mkdir("/d"));
  hanging("pwritev", () => file.pwritev([counted(5)], 0));
  hanging("commitAndForce", () => file.commitAndForce([counted(5)], 0));
  hanging("fdatasync", () => file.fdatasync());
  hanging("unlink", () => fs.unlink("/a"));
  file.close().then(() => settled.push("close"));
  await turns(20);
  t.strictSame(settled, [], "close waits for the calls of its handle");
  t.equal(disk.digest(), before);
  t.equal(disk.kill(randomOf(1)).digest(), before);
  t.equal(disk.cutPower(randomOf(1), { data: "all", names: "all" }).digest(), before);
});

t.test("SimulatedFileSystem lets calls that are under way overtake each other", async (t) => {
  const orders = new Set<string>();
  for (let seed = 0; seed < 50; seed++) {
    const { disk, file } = await setUp({ seed });
    const done: string[] = [];
    const note = (name: string) => () => done.push(name);
    await Promise.all([
      file.pwritev([Buffer.from("1")], 0).then(note("1")),
      file.pwritev([Buffer.from("2")], 0).then(note("2")),
    ]);
    orders.add(`${done.join("")} ${disk.read("/a")}`);
    for (let i = 0; i < 5; i++) {
      await file.pwritev([Buffer.from(String(i))], 0);
      t.equal(disk.read("/a").toString(), String(i), "those that are awaited keep their order");
    }
  }
  t.strictSame([...orders].sort(), ["12 2", "21 1"]);
});

t.test("FileHandle.close() waits for the calls of its handle", async (t) => {
  for (let seed = 0; seed < 20; seed++) {
    const { fs, file } = await setUp({ seed });
    const done: string[] = [];
    const note = (name: string) => () => done.push(name);
    const calls = [
      file.commitAndForce([counted(4)], 0).then(note("forced")),
      file.close().then(note("closed")),
      file.close().then(note("closed again")),
    ];
    await t.rejects(file.pwritev([counted(1)], 0), {
      code: "EBADF",
      syscall: "pwritev",
      path: "/a",
    });
    await Promise.all(calls);
    t.strictSame(done, ["forced", "closed", "closed again"]);
    t.equal(fs.calls, 5, "a second close is no call");
  }
});

t.test("FileHandle.pwritev() rejects if its buffers are changed meanwhile", async (t) => {
  const { file } = await setUp();
  const buffer = Buffer.from("good");
  const writing = file.pwritev([buffer], 0);
  buffer.write("bad!");
  await t.rejects(writing, { message: /Buffers of "\/a" were changed/ });
});

t.test("FileHandle.preadIfCached() finds all, a part, or nothing", async (t) => {
  const { file } = await setUp();
  await file.pwritev([counted(100)], 0);
  const counts = new Map<string, number>();
  for (let i = 0; i < 400; i++) {
    const buffer = Buffer.alloc(50, 0xee);
    const count = file.preadIfCached(buffer, 20);
    const read = Math.max(0, count);
    t.ok(buffer.subarray(0, read).equals(counted(read, 20)));
    t.ok(buffer.subarray(read).every((byte) => byte === 0xee));
    const kind = count === 50 ? "all" : count > 0 ? "part" : String(count);
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  t.strictSame([...counts.keys()].sort(), ["-1", "all", "part"]);
  t.ok(counts.get("all")! > 200);
});

t.test("FileSystem.lock() keeps out every other of the disk, until it is closed", async (t) => {
  const { disk, fs, names } = await setUp();
  const other = new SimulatedFileSystem(disk);
  const lock = await fs.lock("/lock");
  t.equal(lock.excludes, "ofd");
  const taken = { code: "EAGAIN", syscall: "lock", path: "/lock" };
  await t.rejects(other.lock("/lock"), taken);
  await t.rejects(fs.lock("/lock"), taken);
  await (await other.lock("/another")).close();
  await lock.write(Buffer.from("a longer text"));
  await lock.write(Buffer.from("lock"));
  t.equal(disk.read("/lock").toString(), "lock");
  t.equal(
    outcomes(disk, { data: "none", names: "all" }, (disk) => `${disk.read("/lock")}`)[0],
    "lock",
  );
  for (const found of [disk.fork(), disk.kill(randomOf(1))]) {
    await (await new SimulatedFileSystem(found).lock("/lock")).close();
  }
  await lock.close();
  const again = await other.lock("/lock");
  t.equal(disk.read("/lock").toString(), "lock", "it is never emptied");
  await again.close();
  t.strictSame(names().slice(1), ["lock", "lock", "lock.write", "lock.write", "lock.close"]);
});

t.test("SimulatedFileSystem dates changes by its clock", async (t) => {
  const clock = new FakeClock(1_000_000);
  const { fs, file } = await setUp({ clock });
  t.equal((await file.stat()).mtimeMs, 1_000_000);
  await clock.advance(500);
  await file.pwritev([counted(1)], 0);
  t.equal((await fs.stat("/a")).mtimeMs, 1_000_500);
  await clock.advance(500);
  await file.fdatasync();
  t.equal((await fs.stat("/a")).mtimeMs, 1_000_500);
});

/** The same for each seed: many calls at once, some of them failing. */
async function play(seed: number, choices: number): Promise<SimulatedFileSystem> {
  const random = randomOf(choices);
  const fs = new SimulatedFileSystem(new SimulatedDisk(), {
    seed,
    onCall: () => (random(10) === 0 ? { kind: "error", code: "EIO" } : undefined),
  });
  const work = async (name: string) => {
    const file = await fs.open(name, random(4) === 0 ? "write" : "create");
    for (let i = 0; i < 5; i++) {
      await file.pwritev([counted(random(3000), random(256))], random(9000));
      file.preadIfCached(Buffer.alloc(100), random(5000));
      await file.commitAndForce([counted(random(3000), random(256))], random(9000));
    }
    await fs.rename(name, "/same");
    await fs.syncDirectory("/");
  };
  await Promise.allSettled(["/a", "/b", "/c", "/a", "/d"].map(work));
  return fs;
}

t.test("SimulatedFileSystem.trace is equal for equal runs, and for no others", async (t) => {
  const traces = new Map<string, string>();
  for (let seed = 0; seed < 20; seed++) {
    const [one, two] = [await play(seed, seed), await play(seed, seed)];
    t.equal(one.trace, two.trace);
    t.equal(one.calls, two.calls);
    t.equal(one.disk.digest(), two.disk.digest());
    traces.set(one.trace, `${seed}`);
    traces.set((await play(seed + 100, seed)).trace, `${seed}, in another time`);
  }
  t.equal(traces.size, 40);
  const traceOf = async (bytes: Buffer, fault?: Fault) => {
    const { fs, file, faults } = await setUp();
    if (fault !== undefined) faults.set("pwritev", fault);
    await file.pwritev([bytes], 0).catch(() => {});
    return fs.trace;
  };
  const different = await Promise.all([
    traceOf(counted(10)),
    traceOf(counted(10, 1)),
    traceOf(counted(10), { kind: "short", bytes: 3 }),
    traceOf(counted(10), { kind: "error", code: "EIO" }),
    traceOf(counted(10), { kind: "error", code: "ENOSPC" }),
  ]);
  t.equal(new Set(different).size, 5, "what is written counts, and what comes of it");
});
