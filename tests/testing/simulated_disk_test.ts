import * as nodeFs from "node:fs";
import { join } from "node:path";
import t from "tap";
import { SimulatedDisk, SimulatedFileSystem } from "../../lib/testing/mod.ts";
import { counted } from "../support/file_system_contract.ts";
import { filled, outcomes, sectors, seen } from "../support/outcomes.ts";
import { type Random, randomOf, seedOf } from "../support/random.ts";
import { testFolder } from "../support/test_folder.ts";

const KIB = 1024;
const BLOCK = 4 * KIB;

t.test("SimulatedDisk.write() makes files and folders that survive every power cut", async (t) => {
  const disk = new SimulatedDisk();
  disk.write("/d/e/f", counted(10));
  disk.write("/d/a", counted(5000));
  disk.write("/d/a", counted(3));
  t.strictSame(disk.list("/d"), [
    { name: "a", kind: "file" },
    { name: "e", kind: "directory" },
  ]);
  t.strictSame(
    outcomes(disk, undefined, (disk) => disk.digest()),
    [disk.digest()],
  );
  t.strictSame(disk.read("/d/a"), counted(3));
  t.equal(disk.size("/d/e/f"), 10);
  t.throws(() => disk.write("/d/a/b", counted(1)), { code: "ENOTDIR" });
});

t.test("SimulatedDisk.remove() removes a file or a tree for good", async (t) => {
  const disk = new SimulatedDisk();
  disk.write("/d/e/f", counted(10));
  disk.write("/d/a", counted(10));
  disk.remove("/d/e");
  t.strictSame(
    outcomes(disk, undefined, (disk) =>
      disk
        .list("/d")
        .map(({ name }) => name)
        .join(),
    ),
    ["a"],
  );
  disk.remove("/d/a");
  t.strictSame(disk.list("/d"), []);
  t.throws(() => disk.remove("/d/a"), { code: "ENOENT" });
});

t.test("SimulatedDisk.read(), size() and list() tell what is not there", async (t) => {
  const disk = new SimulatedDisk();
  t.throws(() => disk.read("/a"), { code: "ENOENT", path: "/a" });
  t.throws(() => disk.size("/a/b"), { code: "ENOENT", path: "/a/b" });
  t.throws(() => disk.read("a"), TypeError, "paths are absolute");
  t.strictSame(disk.list("/a"), []);
  t.strictSame(disk.list("/"), []);
});

t.test("SimulatedDisk.digest() is that of names, sizes and contents", async (t) => {
  const made = (...steps: ((disk: SimulatedDisk) => void)[]) => {
    const disk = new SimulatedDisk();
    for (const step of steps) step(disk);
    return disk.digest();
  };
  const a = (disk: SimulatedDisk) => disk.write("/d/a", counted(10_000));
  const b = (disk: SimulatedDisk) => disk.write("/d/b", counted(10_000, 1));
  t.equal(made(a, b), made(b, a));
  const digests = [
    made(),
    made(a),
    made(b),
    made(a, b),
    made((disk) => disk.write("/d/a", counted(10_001))),
    made((disk) => disk.write("/d/a", Buffer.alloc(10_000))),
    made((disk) => disk.write("/e/a", counted(10_000))),
    made(a, (disk) => disk.remove("/d/a")),
  ];
  t.equal(new Set(digests).size, digests.length, "whatever differs shows");
  const [zeros, hole] = [new SimulatedDisk(), new SimulatedDisk()];
  zeros.write("/a", Buffer.alloc(10_000));
  const file = await new SimulatedFileSystem(hole).open("/a", "create");
  await file.ftruncate(10_000);
  t.equal(zeros.digest(), hole.digest(), "a hole is the same as zeros");
  await file.pwritev([Buffer.from("x")], 5000);
  t.not(zeros.digest(), hole.digest());
  await file.pwritev([Buffer.alloc(1)], 5000);
  t.equal(zeros.digest(), hole.digest());
});

t.test("SimulatedDisk.fromDirectory() and writeTo() copy a tree of the machine", async (t) => {
  const root = testFolder(t, { a: "text", d: { b: "x".repeat(10_000), e: {} } });
  const sparse = join(root, "sparse");
  nodeFs.writeFileSync(sparse, "");
  nodeFs.truncateSync(sparse, 2 ** 27);
  const fd = nodeFs.openSync(sparse, "r+");
  nodeFs.writeSync(fd, "in the middle", 2 ** 26);
  nodeFs.closeSync(fd);
  const disk = SimulatedDisk.fromDirectory(root, "/store");
  t.equal(disk.read("/store/a").toString(), "text");
  t.equal(disk.size("/store/sparse"), 2 ** 27);
  t.strictSame(
    outcomes(disk, undefined, (disk) => disk.digest(), 20),
    [disk.digest()],
  );
  const copy = join(root, "copy");
  nodeFs.mkdirSync(copy);
  disk.writeTo(copy, "/store");
  t.strictSame(nodeFs.readdirSync(copy).sort(), ["a", "d", "sparse"]);
  t.strictSame(nodeFs.readdirSync(join(copy, "d")).sort(), ["b", "e"]);
  t.equal(nodeFs.readFileSync(join(copy, "d", "b"), "utf8"), "x".repeat(10_000));
  t.ok(nodeFs.statSync(join(copy, "sparse")).blocks < 100, "it stays sparse");
  t.equal(SimulatedDisk.fromDirectory(copy, "/store").digest(), disk.digest());
});

t.test("SimulatedDisk.kill() keeps what was done, and no more of it is durable", async (t) => {
  const disk = new SimulatedDisk();
  disk.write("/a", filled("ab"));
  const fs = new SimulatedFileSystem(disk);
  const file = await fs.open("/a", "write");
  await file.pwritev([filled("x")], 0);
  await fs.rename("/a", "/b");
  const killed = disk.kill(randomOf(1));
  t.equal(killed.digest(), disk.digest());
  t.equal(seen(killed, "/b"), "xb");
  const look = (disk: SimulatedDisk) => `${seen(disk, "/a")} ${seen(disk, "/b")}`;
  t.strictSame(
    outcomes(killed, undefined, look),
    ["ab absent", "absent ab", "absent xb", "xb absent"],
    "a power cut after it",
  );
  const again = new SimulatedFileSystem(killed);
  await (await again.open("/b", "write")).fdatasync();
  await again.syncDirectory("/");
  t.strictSame(outcomes(killed, undefined, look), ["absent xb"]);
  t.strictSame(outcomes(disk, { data: "none", names: "none" }, look), ["ab absent"]);
});

/** Everything that `look` has found after killing so many times. */
function kills(disk: SimulatedDisk, look: (found: SimulatedDisk) => string): string[] {
  const found = new Set<string>();
  for (let seed = 0; seed < 400; seed++) found.add(look(disk.kill(randomOf(seed * 7919))));
  return [...found].sort();
}

t.test("SimulatedDisk.kill() lets calls under way happen, or not, a write in part", async (t) => {
  const disk = new SimulatedDisk();
  disk.write("/a", filled("a"));
  const fs = new SimulatedFileSystem(disk);
  const file = await fs.open("/a", "write");
  await (await fs.open("/f", "create")).close();
  const calls = [file.pwritev([Buffer.from("xyz")], 0), fs.mkdir("/d"), fs.unlink("/f")];
  t.strictSame(
    kills(disk, (disk) => disk.read("/a").toString("utf8", 0, 4)),
    ["aaaa", "xaaa", "xyaa", "xyza"],
  );
  const look = (disk: SimulatedDisk) =>
    disk
      .list("/")
      .map(({ name }) => name)
      .join("");
  t.strictSame(kills(disk, look), ["a", "ad", "adf", "af"]);
  await Promise.all(calls);
  t.equal(kills(disk, look).join(), "ad");
});

t.test("SimulatedDisk.kill() gives back the space of what was open and unlinked", async (t) => {
  const disk = new SimulatedDisk({ spaceBytes: 4 * BLOCK });
  const fs = new SimulatedFileSystem(disk);
  const file = await fs.open("/a", "create");
  await file.pwritev([Buffer.alloc(3 * BLOCK, 1)], 0);
  await fs.unlink("/a");
  const closed = await fs.open("/closed", "create");
  await closed.pwritev([Buffer.alloc(10, 1)], 0);
  await closed.close();
  await fs.unlink("/closed");
  t.equal((await fs.statfs("/")).freeBytes, BLOCK);
  for (const found of [disk.kill(randomOf(1)), disk.cutPower(randomOf(1))]) {
    const { freeBytes } = await new SimulatedFileSystem(found).statfs("/");
    t.equal(freeBytes, seen(found, "/a") === "absent" ? 4 * BLOCK : 4 * BLOCK - taken(found));
  }
  await file.close();
  t.equal((await fs.statfs("/")).freeBytes, 4 * BLOCK);
});

/** Space that the file `/a` takes. */
function taken(disk: SimulatedDisk): number {
  return disk.tree.stat(disk.tree.inodeOf("/a", "stat")).allocatedBytes;
}

t.test("SimulatedDisk keeps what is open, unlinked and gone for good", async (t) => {
  const disk = new SimulatedDisk();
  const fs = new SimulatedFileSystem(disk);
  const file = await fs.open("/a", "create");
  await file.pwritev([counted(10)], 0);
  await fs.unlink("/a");
  await fs.syncDirectory("/");
  await file.commitAndForce([counted(10)], 10);
  t.equal((await file.stat()).size, 20);
  await file.close();
  t.strictSame(
    outcomes(disk, undefined, (disk) => seen(disk, "/a"), 20),
    ["absent"],
  );
});

t.test("SimulatedDisk.spaceBytes ends a write at the last block that is free", async (t) => {
  const disk = new SimulatedDisk({ spaceBytes: 3 * BLOCK });
  const fs = new SimulatedFileSystem(disk);
  const file = await fs.open("/a", "create");
  t.equal(await file.pwritev([Buffer.alloc(100, 1)], BLOCK - 50), 100, "takes two blocks");
  t.equal(await file.pwritev([Buffer.alloc(3 * BLOCK, 2)], BLOCK + 10), 2 * BLOCK - 10);
  t.strictSame(await fs.statfs("/"), {
    totalBytes: 3 * BLOCK,
    freeBytes: 0,
    availableBytes: 0,
  });
  t.equal((await file.stat()).allocatedBytes, 3 * BLOCK);
  const full = { code: "ENOSPC", syscall: "pwritev", path: "/a" };
  await t.rejects(file.pwritev([Buffer.alloc(1)], 3 * BLOCK), full);
  t.throws(() => file.pwritevNow([Buffer.alloc(1)], 9 * BLOCK), full);
  await t.rejects(file.commitAndForce([Buffer.alloc(1)], 9 * BLOCK), full);
  await t.rejects(file.allocate(0, 4 * BLOCK), { code: "ENOSPC" });
  t.equal((await file.stat()).size, 3 * BLOCK);
  t.equal(await file.pwritev([Buffer.alloc(3 * BLOCK, 3)], 0), 3 * BLOCK, "over what is there");
  await file.ftruncate(100 * BLOCK);
  await file.punch(BLOCK, BLOCK);
  t.equal((await fs.statfs("/")).freeBytes, BLOCK, "a hole has given it back");
  t.equal(await file.pwritev([Buffer.alloc(10)], 50 * BLOCK), 10);
  disk.spaceBytes = 4 * BLOCK;
  t.equal(await file.pwritev([Buffer.alloc(10)], 60 * BLOCK), 10, "space has come");
  await file.ftruncate(0);
  t.equal((await fs.statfs("/")).freeBytes, 4 * BLOCK);
  await file.allocate(0, 4 * BLOCK);
  const other = await fs.open("/b", "create");
  await t.rejects(other.pwritev([Buffer.alloc(1)], 0), { code: "ENOSPC" });
  t.equal(await file.pwritev([Buffer.alloc(4 * BLOCK)], 0), 4 * BLOCK, "it was reserved");
  await fs.unlink("/a");
  await t.rejects(other.pwritev([Buffer.alloc(1)], 0), { code: "ENOSPC" }, "as it is still open");
  await file.close();
  t.equal(await other.pwritev([Buffer.alloc(1)], 0), 1);
  disk.spaceBytes = 0;
  t.equal((await fs.statfs("/")).freeBytes, 0);
});

t.test("SimulatedDisk keeps the space that is taken through fork, kill and cut", async (t) => {
  const disk = new SimulatedDisk({ spaceBytes: 10 * BLOCK });
  const fs = new SimulatedFileSystem(disk);
  const file = await fs.open("/a", "create");
  await file.commitAndForce([Buffer.alloc(3 * BLOCK, 1)], 0);
  await fs.syncDirectory("/");
  for (const found of [disk.fork(), disk.kill(randomOf(1)), disk.cutPower(randomOf(1))]) {
    t.equal(found.spaceBytes, 10 * BLOCK);
    t.equal((await new SimulatedFileSystem(found).statfs("/")).freeBytes, 7 * BLOCK);
  }
});

t.test("SimulatedDisk keeps identities through fork, kill and cut", async (t) => {
  const disk = new SimulatedDisk();
  disk.write("/d/a", counted(1));
  const fs = new SimulatedFileSystem(disk);
  const { identity } = await fs.stat("/d/a");
  t.match(identity, /^\d+:\d+$/);
  await fs.rename("/d/a", "/d/b");
  await fs.syncDirectory("/d");
  for (const found of [disk, disk.fork(), disk.kill(randomOf(1)), disk.cutPower(randomOf(1))]) {
    const fs = new SimulatedFileSystem(found);
    t.equal((await fs.stat("/d/b")).identity, identity);
    await (await fs.open("/d/a", "create")).close();
    t.not((await fs.stat("/d/a")).identity, identity);
  }
});

t.test("SimulatedDisk.cutPower() finds all there is in a file with two names", async (t) => {
  const disk = new SimulatedDisk({ spaceBytes: 10 * BLOCK });
  disk.write("/A/a", filled("x"));
  disk.write("/B/b", filled("y"));
  await new SimulatedFileSystem(disk).rename("/A/a", "/B/a");
  let seed = 0;
  let found = disk;
  while (seen(found, "/A/a") === "absent" || seen(found, "/B/a") === "absent") {
    found = disk.cutPower(randomOf(++seed), { data: "all", names: "subset" });
  }
  const fs = new SimulatedFileSystem(found);
  t.equal((await fs.stat("/A/a")).identity, (await fs.stat("/B/a")).identity);
  t.equal((await fs.statfs("/")).freeBytes, 8 * BLOCK);
  await fs.rename("/A/a", "/B/a");
  t.equal(seen(found, "/A/a"), "x", "rename(2) does nothing with two names of one file");
  await fs.unlink("/A/a");
  t.equal(seen(found, "/B/a"), "x");
  t.equal((await fs.statfs("/")).freeBytes, 8 * BLOCK);
  await fs.unlink("/B/a");
  t.equal((await fs.statfs("/")).freeBytes, 9 * BLOCK);
});

t.test("SimulatedDisk.fork(), kill() and cutPower() share nothing that is changed", async (t) => {
  for (const make of [
    (disk: SimulatedDisk) => disk.fork(),
    (disk: SimulatedDisk) => disk.kill(randomOf(1)),
    (disk: SimulatedDisk) => disk.cutPower(randomOf(1), { data: "all", names: "all" }),
  ]) {
    const disk = new SimulatedDisk();
    disk.write("/d/a", filled("a"));
    const fs = new SimulatedFileSystem(disk);
    const file = await fs.open("/d/a", "write");
    const change = async (letter: string) => {
      await file.pwritev([filled(letter)], 0);
      await (await fs.open(`/d/${letter}`, "create")).close();
    };
    await change("b");
    await file.fdatasync();
    await fs.syncDirectory("/d");
    const other = make(disk);
    await change("c");
    t.equal(seen(other, "/d/a"), "b");
    t.equal(seen(other, "/d/c"), "absent");
    await file.fdatasync();
    await fs.syncDirectory("/d");
    const look = (disk: SimulatedDisk) => `${seen(disk, "/d/a")} ${seen(disk, "/d/c")}`;
    t.strictSame(outcomes(other, { data: "all", names: "all" }, look, 5), ["b absent"]);
    other.write("/d/a", filled("x"));
    t.equal(seen(disk, "/d/a"), "c");
  }
});

/** Does something at random, wholly. */
function step({ tree }: SimulatedDisk, random: Random): void {
  const path = ["/a", "/b", "/d/a", "/d/b", "/d"][random(5)]!;
  try {
    const kind = random(9);
    if (kind === 0) tree.mkdir(path);
    else if (kind === 1) tree.unlink(path);
    else if (kind === 2) tree.rename(path, ["/a", "/b", "/d/a"][random(3)]!);
    else if (kind === 3) tree.sync(tree.inodeOf(path, "open"), tree.lastChange - random(3));
    else if (kind === 4) tree.failSync(tree.inodeOf(path, "open"), tree.lastChange, random);
    else {
      const inode = tree.openOrCreate(path);
      const position = random(20_000);
      if (kind === 5) tree.truncate(inode, position);
      else if (kind === 6) tree.punch(inode, position, 1 + random(10_000));
      else tree.write(inode, Buffer.alloc(1 + random(6000), 1 + random(255)), position);
      tree.release(inode);
    }
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
  }
}

/** All that can be known of a disk: what is to be seen, and what cuts leave. */
function portrait(disk: SimulatedDisk): string {
  const cuts = [1, 2, 3, 4, 5, 6].map((seed) => disk.cutPower(randomOf(seed)).digest());
  const { freeBytes } = disk.tree.space("/");
  return [disk.digest(), freeBytes, ...cuts].join();
}

t.test("SimulatedDisk.fork() and the disk it comes from know nothing of each other", async (t) => {
  const seed = seedOf(t);
  for (let i = 0; i < 150 && t.passing(); i++) {
    const random = randomOf(seed + i);
    const disk = new SimulatedDisk();
    for (let n = 0; n < 15; n++) step(disk, random);
    const others = [disk.fork(), disk.kill(random), disk.cutPower(random), disk.fork().fork()];
    const disks = [disk, ...others];
    const portraits = disks.map(portrait);
    if (portraits[1] !== portraits[0]) t.fail(`seed ${seed} + ${i}: a fork is another`);
    for (let round = 0; round < 10; round++) {
      const changed = random(disks.length);
      step(disks[changed]!, random);
      portraits[changed] = portrait(disks[changed]!);
      const bad = disks.findIndex((disk, n) => portrait(disk) !== portraits[n]);
      if (bad !== -1) t.fail(`seed ${seed} + ${i}: a change of ${changed} shows in ${bad}`);
    }
  }
  t.ok(t.passing());
});

t.test("SimulatedDisk.cutPower() is the same for the same seed", async (t) => {
  const disk = new SimulatedDisk();
  const random = randomOf(seedOf(t));
  for (let n = 0; n < 40; n++) step(disk, random);
  t.equal(portrait(disk), portrait(disk));
  t.equal(portrait(disk.fork()), portrait(disk));
});

t.test("SimulatedDisk holds a file of 1 GiB as easily as a small one", async (t) => {
  const disk = new SimulatedDisk();
  const file = await new SimulatedFileSystem(disk).open("/a", "create");
  await file.ftruncate(2 ** 30);
  await file.pwritev([counted(100)], 2 ** 29);
  await file.punch(0, 2 ** 30);
  await file.allocate(0, 2 ** 30);
  await file.pwritev([counted(100)], 2 ** 29);
  const before = process.memoryUsage().arrayBuffers;
  for (let seed = 0; seed < 20; seed++) {
    t.match(disk.cutPower(randomOf(seed), { data: "random", names: "all" }).size("/a"), Number);
  }
  t.ok(process.memoryUsage().arrayBuffers - before < 2 ** 26);
  t.equal(sectors(Buffer.alloc(512)), ".");
});
