// What of a file's content survives a power cut.

import t from "tap";
import type { FileHandle } from "../../lib/io/file_system.ts";
import { type Fault, SimulatedDisk, SimulatedFileSystem } from "../../lib/testing/mod.ts";
import { SimulatedFile } from "../../lib/testing/simulated_file.ts";
import { ANY_DATA, filled, outcomes, SECTOR_BYTES, sectors, seen } from "../support/outcomes.ts";
import { type Random, randomOf, seedOf } from "../support/random.ts";

const FILE = "/a";

/** A disk with a durable file of this content, and the file open. */
async function setUp(content: string, seed = 1) {
  const disk = new SimulatedDisk();
  disk.write(FILE, filled(content));
  let fault: Fault | undefined;
  const fs = new SimulatedFileSystem(disk, {
    seed,
    onCall: (call) => (call.name === "fdatasync" ? fault : undefined),
  });
  const file = await fs.open(FILE, "write");
  const failSync = async () => {
    fault = { kind: "error", code: "EIO" };
    const error = await file.fdatasync().catch((error) => error);
    fault = undefined;
    return error;
  };
  return { disk, file, failSync };
}

function write(file: FileHandle, text: string, sector = 0): Promise<number> {
  return file.pwritev([filled(text)], sector * SECTOR_BYTES);
}

const look = (disk: SimulatedDisk) => seen(disk, FILE);

/** Every text with one letter out of each. */
function combinations(...choices: readonly string[]): string[] {
  return choices
    .reduce((texts, letters) => texts.flatMap((text) => [...letters].map((l) => text + l)), [""])
    .sort();
}

t.test("FileHandle.fdatasync() makes data and size durable, whatever survives", async (t) => {
  const { disk, file } = await setUp("");
  await write(file, "abcd");
  await file.fdatasync();
  t.strictSame(outcomes(disk, undefined, look), ["abcd"]);
  await write(file, "x", 1);
  await file.ftruncate(8 * SECTOR_BYTES);
  await file.commitAndForce([filled("yz")], 4 * SECTOR_BYTES);
  t.strictSame(outcomes(disk, undefined, look), ["axcdyz.."]);
});

t.test("SimulatedDisk.cutPower() keeps or loses each unsynced sector", async (t) => {
  const { disk, file } = await setUp("abcd");
  await write(file, "wxyz");
  t.strictSame(outcomes(disk, ANY_DATA, look), combinations("aw", "bx", "cy", "dz"));
  t.strictSame(outcomes(disk, { data: "none", names: "all" }, look), ["abcd"]);
  t.strictSame(outcomes(disk, { data: "all", names: "none" }, look), ["wxyz"]);
  t.equal(look(disk), "wxyz", "the disk itself stays as it is");
});

t.test("SimulatedDisk.cutPower() tears a write at sectors only", async (t) => {
  const { disk, file } = await setUp("ab");
  await file.pwritev([Buffer.alloc(100, "x"), Buffer.alloc(100, "y")], SECTOR_BYTES - 100);
  const found = outcomes(disk, ANY_DATA, (disk) => {
    const content = disk.read(FILE);
    const middle = content.subarray(SECTOR_BYTES - 101, SECTOR_BYTES + 101).toString();
    return middle.replace(/(.)\1+/g, "$1");
  });
  t.strictSame(found, ["ab", "axb", "axyb", "ayb"]);
});

t.test("SimulatedDisk.cutPower() may keep any version since the last sync", async (t) => {
  const { disk, file } = await setUp("a");
  for (const text of ["b", "c", "d"]) await write(file, text);
  t.strictSame(outcomes(disk, ANY_DATA, look), ["a", "b", "c", "d"]);
  await file.fdatasync();
  for (const text of ["e", "f"]) await write(file, text);
  t.strictSame(outcomes(disk, ANY_DATA, look), ["d", "e", "f"]);
});

t.test("SimulatedDisk.cutPower() may keep a size without its data", async (t) => {
  const { disk, file } = await setUp("a");
  await write(file, "bc", 1);
  const found = outcomes(disk, ANY_DATA, look);
  t.strictSame(found, ["a", ...combinations("a", ".b", ".c")]);
});

t.test("SimulatedDisk.cutPower() may keep any size since the last sync", async (t) => {
  const { disk, file } = await setUp("a");
  await write(file, "b", 1);
  await file.ftruncate(4 * SECTOR_BYTES);
  await write(file, "c", 4);
  t.strictSame(
    outcomes(disk, ANY_DATA, look),
    [
      "a",
      ...combinations("a", ".b"),
      ...["a...", "ab..", "a....", "ab...", "a...c", "ab..c"],
    ].sort(),
  );
});

t.test("FileHandle.ftruncate() cuts off all or nothing, in a power cut", async (t) => {
  const { disk, file } = await setUp("abcd");
  await file.ftruncate(SECTOR_BYTES);
  t.strictSame(outcomes(disk, ANY_DATA, look), ["a", "abcd"]);
  await file.ftruncate(3 * SECTOR_BYTES);
  t.strictSame(outcomes(disk, ANY_DATA, look), ["a", "a..", "abcd"]);
  await write(file, "x", 1);
  t.strictSame(
    outcomes(disk, ANY_DATA, look),
    ["a", "a..", "abcd", "ax."],
    "what was written behind the cut is not there without it",
  );
  await file.fdatasync();
  t.strictSame(outcomes(disk, undefined, look), ["ax."]);
  await write(file, "yz", 2);
  await file.ftruncate(SECTOR_BYTES);
  t.strictSame(
    outcomes(disk, ANY_DATA, look),
    ["a", ...combinations("a", "x", ".y"), ...combinations("a", "x", ".y", ".z")].sort(),
    "what was written before the cut is there without it",
  );
});

t.test("FileHandle.punch() is undone in a power cut, sector by sector", async (t) => {
  const { disk, file } = await setUp("abcd");
  await file.punch(SECTOR_BYTES, 2 * SECTOR_BYTES);
  t.strictSame(outcomes(disk, ANY_DATA, look), combinations("a", "b.", "c.", "d"));
  await write(file, "x", 1);
  t.strictSame(outcomes(disk, ANY_DATA, look), combinations("a", "b.x", "c.", "d"));
  await file.fdatasync();
  t.strictSame(outcomes(disk, undefined, look), ["ax.d"]);
});

t.test("FileHandle.fdatasync() covers what was written before it began, no more", async (t) => {
  const { disk, file } = await setUp("abc");
  await write(file, "x", 0);
  const syncing = file.fdatasync();
  file.pwritevNow([filled("yz")], 0);
  await syncing;
  t.strictSame(outcomes(disk, ANY_DATA, look), combinations("xy", "bz", "c"));
  await file.fdatasync();
  t.strictSame(outcomes(disk, ANY_DATA, look), ["yzc"]);
});

t.test("FileHandle.pwritev() under way may have come to any of its sectors", async (t) => {
  const { disk, file } = await setUp("ab");
  const writing = write(file, "xyz");
  t.equal(look(disk), "ab");
  t.strictSame(
    outcomes(disk, ANY_DATA, look),
    [...combinations("ax", "by"), ...combinations("ax", "by", ".z")].sort(),
  );
  t.strictSame(outcomes(disk, { data: "none", names: "all" }, look), ["ab"]);
  t.strictSame(outcomes(disk, { data: "all", names: "none" }, look), ["xyz"]);
  await writing;
  t.equal(look(disk), "xyz");
});

t.test("FileHandle.fdatasync() that failed is not made up for by another", async (t) => {
  const both = new Set<string>();
  for (let seed = 0; seed < 60; seed++) {
    const { disk, file, failSync } = await setUp("abcd", seed);
    await write(file, "wxyz");
    t.match(await failSync(), { code: "EIO", syscall: "fdatasync" });
    await file.fdatasync();
    t.equal(look(disk), "wxyz", "all can be read");
    const found = outcomes(disk, undefined, look, 20);
    t.equal(found.length, 1, "nothing waits to be written any more");
    both.add(found[0]!);
    await write(file, "W");
    await write(file, "X", 1);
    await file.fdatasync();
    const [again] = outcomes(disk, undefined, look, 20);
    t.equal(again, `WX${found[0]!.slice(2)}`, "what is written again is durable");
  }
  t.strictSame([...both].sort(), combinations("aw", "bx", "cy", "dz"));
});

t.test("FileHandle.fdatasync() that failed may have lost the size, too", async (t) => {
  const found = new Set<string>();
  for (let seed = 0; seed < 60; seed++) {
    const { disk, file, failSync } = await setUp("a", seed);
    await write(file, "bc", 1);
    await failSync();
    await file.fdatasync();
    for (const text of outcomes(disk, undefined, look, 5)) found.add(text);
    t.equal((await file.stat()).size, 3 * SECTOR_BYTES);
    const before = outcomes(disk, undefined, (disk) => String(disk.size(FILE)), 5);
    await write(file, "a");
    await file.fdatasync();
    t.strictSame(
      outcomes(disk, undefined, (disk) => String(disk.size(FILE)), 5),
      before,
    );
    await write(file, "d", 2);
    await file.fdatasync();
    t.match(outcomes(disk, undefined, look, 20), [/^a[b.]d$/], "until it is written again");
  }
  t.strictSame([...found].sort(), ["a", ...combinations("a", ".b", ".c")]);
});

t.test("FileHandle.fdatasync() that failed writes a lost sector whole once touched", async (t) => {
  for (let seed = 0; seed < 30; seed++) {
    const { disk, file, failSync } = await setUp("ab", seed);
    await write(file, "xy");
    await failSync();
    await file.pwritev([Buffer.from("z")], 10);
    await file.punch(SECTOR_BYTES, 1);
    await file.fdatasync();
    const found = new Set(outcomes(disk, undefined, (disk) => disk.read(FILE).toString("hex")));
    t.strictSame([...found], [disk.read(FILE).toString("hex")]);
  }
});

t.test("FileHandle.fdatasync() that fails loses nothing that is written meanwhile", async (t) => {
  for (let seed = 0; seed < 60; seed++) {
    const { disk, file, failSync } = await setUp("abc", seed);
    await write(file, "xy");
    const failing = failSync();
    file.pwritevNow([Buffer.from("z")], 10);
    await failing;
    await file.fdatasync();
    const [found] = outcomes(disk, undefined, (disk) => disk.read(FILE).toString());
    t.equal(found?.slice(0, 512), `${"x".repeat(10)}z${"x".repeat(501)}`);
  }
});

/** Does something at random to a file, and to all that it might be after a power cut. */
class Model {
  readonly file = new SimulatedFile(1, {});
  content: Buffer = Buffer.alloc(0);
  /** Every content since the last sync, the durable one first. */
  history: Buffer[] = [this.content];
  number = 0;

  step(random: Random): string {
    this.number += 1;
    const position = random(12 * SECTOR_BYTES);
    const length = 1 + random(3 * SECTOR_BYTES);
    const kind = random(10);
    if (kind < 5) {
      const bytes = Buffer.alloc(length, 1 + random(250));
      this.file.write(bytes, position, this.number);
      const end = Math.max(this.content.length, position + length);
      this.#note(Buffer.concat([this.content, Buffer.alloc(end - this.content.length)]));
      bytes.copy(this.content, position);
      return `write ${position} ${length}`;
    }
    if (kind < 7) {
      this.file.resize(position, this.number);
      const kept = this.content.subarray(0, position);
      this.#note(Buffer.concat([kept, Buffer.alloc(position - kept.length)]));
      return `resize ${position}`;
    }
    if (kind < 9) {
      this.file.zero(position, position + length, this.number);
      this.#note(Buffer.from(this.content));
      this.content.subarray(position, position + length).fill(0);
      return `zero ${position} ${length}`;
    }
    this.file.sync(this.number);
    this.history = [this.content];
    return "sync";
  }

  #note(content: Buffer): void {
    this.content = content;
    this.history.push(content);
  }

  /** What is wrong with a content that was found. */
  complaint(found: Buffer): string | undefined {
    const sizes = this.history.map(({ length }) => length);
    if (!sizes.includes(found.length)) return `size ${found.length} of ${sizes}`;
    for (let at = 0; at < found.length; at += SECTOR_BYTES) {
      const sector = found.subarray(at, at + SECTOR_BYTES);
      const versions = this.history.map((content) => {
        const version = Buffer.alloc(sector.length);
        version.set(content.subarray(at, at + sector.length));
        return version;
      });
      // Bytes behind the end of any version are zeros, and a shorter version hides what was there.
      if (!versions.some((version) => version.equals(sector))) {
        const ends = sizes
          .map((size) => Math.max(0, size - at))
          .filter((end) => end < sector.length);
        const hidden = versions.flatMap((version) =>
          ends.map((end) => Buffer.from(version).fill(0, Math.min(end, version.length))),
        );
        if (!hidden.some((version) => version.equals(sector))) return `sector at ${at}`;
      }
    }
    return undefined;
  }
}

t.test("SimulatedFile.survive() finds no size and no sector that never was", async (t) => {
  const seed = seedOf(t);
  for (let i = 0; i < 400 && t.passing(); i++) {
    const random = randomOf(seed + i);
    const model = new Model();
    const steps: string[] = [];
    const complaints = new Set<string>();
    const check = (isTrue: boolean, what: string) => isTrue || complaints.add(what);
    for (let n = 0; n < 12; n++) {
      steps.push(model.step(random));
      check(model.file.content().equals(model.content), "what is read is not what was written");
      for (let cut = 0; cut < 5; cut++) {
        const survivor = model.file.survive("random", random);
        const complaint = model.complaint(survivor.content());
        check(complaint === undefined, `found ${complaint}`);
        check(survivor.isDurable, "a survivor is not durable");
      }
      const [none, all] = [model.file.survive("none", random), model.file.survive("all", random)];
      check(none.content().equals(model.history[0]!), '"none" is not what was durable');
      check(all.content().equals(model.content), '"all" is not what was written');
    }
    if (complaints.size > 0) {
      t.fail(`seed ${seed} + ${i}: ${steps.join(", ")}: ${[...complaints].join(", ")}`);
    }
  }
  t.ok(t.passing());
});

t.test("SimulatedFile.copy() may be changed without the other", async (t) => {
  const seed = seedOf(t);
  const random = randomOf(seed);
  for (let i = 0; i < 100; i++) {
    const model = new Model();
    for (let n = 0; n < 6; n++) model.step(random);
    const copy = model.file.copy({});
    const before = sectors(copy.content());
    for (let n = 0; n < 6; n++) model.step(random);
    t.equal(sectors(copy.content()), before);
    const after = sectors(model.file.content());
    copy.write(Buffer.alloc(5000, 1), random(5000), model.number + 1);
    copy.resize(100, model.number + 2);
    t.equal(sectors(model.file.content()), after);
  }
});
