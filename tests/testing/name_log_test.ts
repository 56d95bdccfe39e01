// What of the names survives a power cut.

import { isDeepStrictEqual } from "node:util";
import t from "tap";
import {
  type Fault,
  SimulatedDisk,
  SimulatedFileSystem,
  type Survival,
} from "../../lib/testing/mod.ts";
import { ANY_NAMES, filled, outcomes, seen } from "../support/outcomes.ts";
import { type Random, randomOf, seedOf } from "../support/random.ts";

/** Directories `/A` and `/B`; in `/A` the file `f` of content `x`. All of it durable. */
function setUp(seed = 0) {
  const disk = new SimulatedDisk();
  disk.write("/A/f", filled("x"));
  disk.write("/B/g", filled("y"));
  let fault: Fault | undefined;
  const fs = new SimulatedFileSystem(disk, {
    seed,
    onCall: (call) => (call.name === "syncDirectory" ? fault : undefined),
  });
  const create = async (path: string, text: string) => {
    const file = await fs.open(path, "create");
    await file.commitAndForce([filled(text)], 0);
    await file.close();
  };
  const failSync = async (path: string) => {
    fault = { kind: "error", code: "EIO" };
    const error = await fs.syncDirectory(path).catch((error) => error);
    fault = undefined;
    return error;
  };
  return { disk, fs, create, failSync };
}

/** All files, with their content: `A/f=x B/g=y`. */
function everything(disk: SimulatedDisk, path = ""): string {
  return disk
    .list(path || "/")
    .map(({ name, kind }) => {
      const below = `${path}/${name}`;
      if (kind === "file") return `${below.slice(1)}=${seen(disk, below)}`;
      return everything(disk, below) || `${below.slice(1)}/`;
    })
    .join(" ");
}

const NONE: Survival = { data: "all", names: "none" };
const ALL: Survival = { data: "all", names: "all" };
const PREFIX: Survival = { data: "all", names: "prefix" };

t.test("SimulatedDisk.cutPower() may lose the name of a file that was synced", async (t) => {
  const { disk, fs, create } = setUp();
  await create("/A/new", "n");
  const look = (disk: SimulatedDisk) => seen(disk, "/A/new");
  t.strictSame(outcomes(disk, ANY_NAMES, look), ["absent", "n"]);
  t.strictSame(outcomes(disk, NONE, look), ["absent"]);
  t.strictSame(outcomes(disk, ALL, look), ["n"]);
  await fs.syncDirectory("/B");
  t.strictSame(outcomes(disk, ANY_NAMES, look), ["absent", "n"], "another directory's sync");
  await fs.syncDirectory("/A");
  t.strictSame(outcomes(disk, undefined, look), ["n"]);
});

t.test("FileSystem.syncDirectory() makes a name durable, not what is in the file", async (t) => {
  const { disk, fs } = setUp();
  const file = await fs.open("/A/new", "create");
  await file.pwritev([filled("n")], 0);
  await fs.syncDirectory("/A");
  const look = (disk: SimulatedDisk) => seen(disk, "/A/new");
  t.strictSame(outcomes(disk, { data: "random", names: "none" }, look), [".", "empty", "n"]);
});

t.test("FileSystem.syncDirectory() covers what was done before it began, no more", async (t) => {
  for (let seed = 0; seed < 20; seed++) {
    const { disk, fs, create } = setUp(seed);
    await create("/A/1", "1");
    // Some take effect before the sync does.
    const syncing = fs.syncDirectory("/A");
    const later = ["2", "3", "4", "5"].map((name) => create(`/A/${name}`, name));
    await Promise.all([syncing, ...later]);
    t.strictSame(outcomes(disk, NONE, everything, 5), ["A/1=1 A/f=x B/g=y"]);
    t.strictSame(outcomes(disk, ALL, everything, 5), ["A/1=1 A/2=2 A/3=3 A/4=4 A/5=5 A/f=x B/g=y"]);
  }
});

t.test("FileSystem.unlink() is undone with the durable content", async (t) => {
  const { disk, fs } = setUp();
  const file = await fs.open("/A/f", "write");
  await file.pwritev([filled("z")], 0);
  await fs.unlink("/A/f");
  await file.close();
  const look = (disk: SimulatedDisk) => seen(disk, "/A/f");
  t.strictSame(outcomes(disk, { data: "random", names: "subset" }, look), ["absent", "x", "z"]);
  t.strictSame(outcomes(disk, { data: "none", names: "none" }, look), ["x"]);
  await fs.syncDirectory("/A");
  t.strictSame(outcomes(disk, undefined, look), ["absent"]);
});

t.test("FileSystem.rename() within a directory leaves one name, the old or the new", async (t) => {
  const { disk, fs } = setUp();
  await fs.rename("/A/f", "/A/h");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), ["A/f=x B/g=y", "A/h=x B/g=y"]);
  await fs.syncDirectory("/A");
  t.strictSame(outcomes(disk, undefined, everything), ["A/h=x B/g=y"]);
});

t.test("FileSystem.rename() over a file leaves one or the other under the name", async (t) => {
  const { disk, fs, create } = setUp();
  await create("/A/f.tmp", "n");
  await fs.syncDirectory("/A");
  await fs.rename("/A/f.tmp", "/A/f");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), ["A/f=n B/g=y", "A/f=x A/f.tmp=n B/g=y"]);
});

t.test("FileSystem.rename() to another directory leaves both names, or one", async (t) => {
  const moved = async (...synced: string[]) => {
    const { disk, fs } = setUp();
    await fs.rename("/A/f", "/B/f");
    for (const path of synced) await fs.syncDirectory(path);
    return outcomes(disk, ANY_NAMES, everything);
  };
  const before = "A/f=x B/g=y";
  const both = "A/f=x B/f=x B/g=y";
  const after = "A/ B/f=x B/g=y";
  t.strictSame(await moved(), [after, both, before].sort());
  t.strictSame(await moved("/B"), [after, both].sort(), "with the new name's directory synced");
  t.strictSame(await moved("/A"), [after], "with the old name's: never neither");
  t.strictSame(await moved("/A", "/B"), [after]);
});

t.test("FileSystem.rename() of a directory leaves one name", async (t) => {
  const { disk, fs } = setUp();
  await fs.rename("/A", "/B/A");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), ["A/f=x B/g=y", "B/A/f=x B/g=y"]);
  await fs.syncDirectory("/B");
  t.strictSame(outcomes(disk, undefined, everything), ["B/A/f=x B/g=y"]);
});

t.test("FileSystem.rename() of a directory, time and again, leaves one name", async (t) => {
  const { disk, fs } = setUp();
  await fs.rename("/A", "/B/A");
  await fs.rename("/B/A", "/C");
  await fs.rename("/C", "/D");
  const places = ["A/f=x B/g=y", "B/A/f=x B/g=y", "B/g=y C/f=x", "B/g=y D/f=x"];
  t.strictSame(outcomes(disk, ANY_NAMES, everything), places);
  t.strictSame(outcomes(disk, PREFIX, everything), places);
});

t.test("FileSystem.rename() over a directory survives only with the moves out of it", async (t) => {
  const { disk, fs } = setUp();
  disk.write("/E/h", filled("z"));
  await fs.rename("/A/f", "/B/f");
  await fs.rename("/E", "/A");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), [
    "A/ B/f=x B/g=y E/h=z",
    "A/f=x B/f=x B/g=y E/h=z",
    "A/f=x B/g=y E/h=z",
    "A/h=z B/f=x B/g=y",
  ]);
  await fs.syncDirectory("/");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), ["A/h=z B/f=x B/g=y"]);
});

t.test("SimulatedDisk.cutPower() loses what was done in a directory that is lost", async (t) => {
  const { disk, fs, create } = setUp();
  await fs.mkdir("/C");
  await create("/C/f", "n");
  await fs.syncDirectory("/C");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), ["A/f=x B/g=y", "A/f=x B/g=y C/f=n"]);
  await fs.syncDirectory("/");
  t.strictSame(outcomes(disk, undefined, everything), ["A/f=x B/g=y C/f=n"]);
});

t.test("FileSystem.rmdir() survives only with the moves out of the directory", async (t) => {
  const { disk, fs } = setUp();
  await fs.rename("/A/f", "/B/f");
  await fs.rmdir("/A");
  const possible = ["A/ B/f=x B/g=y", "A/f=x B/f=x B/g=y", "A/f=x B/g=y", "B/f=x B/g=y"];
  t.strictSame(outcomes(disk, ANY_NAMES, everything), possible);
  await fs.syncDirectory("/");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), ["B/f=x B/g=y"]);
});

t.test('SimulatedDisk.cutPower() with "subset" keeps each operation or not', async (t) => {
  const { disk, create } = setUp();
  for (const name of ["1", "2", "3"]) await create(`/A/${name}`, name);
  const look = (disk: SimulatedDisk) =>
    ["1", "2", "3"].filter((name) => seen(disk, `/A/${name}`) === name).join("");
  t.strictSame(
    outcomes(disk, ANY_NAMES, look),
    ["", "1", "2", "3", "12", "13", "23", "123"].sort(),
  );
});

t.test('SimulatedDisk.cutPower() with "prefix" keeps all up to some operation', async (t) => {
  const { disk, fs, create } = setUp();
  await create("/A/1", "1");
  await create("/B/2", "2");
  await create("/A/3", "3");
  const look = (disk: SimulatedDisk) =>
    ["A/1", "B/2", "A/3", "B/4"].filter((path) => seen(disk, `/${path}`) !== "absent").join(" ");
  t.strictSame(outcomes(disk, PREFIX, look), ["", "A/1", "A/1 B/2", "A/1 B/2 A/3"]);
  await fs.syncDirectory("/B");
  await create("/B/4", "4");
  t.strictSame(
    outcomes(disk, PREFIX, look),
    ["A/1 B/2", "A/1 B/2 A/3", "A/1 B/2 A/3 B/4"],
    "what was made durable has made durable all before it",
  );
  t.match(outcomes(disk, ANY_NAMES, look), ["A/1 B/2", "B/2"], "not so by POSIX");
});

t.test("FileSystem.syncDirectory() that failed is not made up for by another", async (t) => {
  const { disk, fs, create, failSync } = setUp();
  await create("/A/1", "1");
  t.match(await failSync("/A"), { code: "EIO", syscall: "fsync", path: "/A" });
  await create("/A/2", "2");
  await fs.syncDirectory("/A");
  const possible = ["A/1=1 A/2=2 A/f=x B/g=y", "A/2=2 A/f=x B/g=y"];
  t.strictSame(outcomes(disk, ANY_NAMES, everything), possible);
  t.strictSame(outcomes(disk, PREFIX, everything), possible);
  t.strictSame(outcomes(disk, NONE, everything), [possible[1]!]);
  t.equal(everything(disk), possible[0]);
  await fs.rename("/A/1", "/A/2");
  await fs.syncDirectory("/A");
  t.strictSame(
    outcomes(disk, undefined, everything),
    ["A/2=1 A/f=x B/g=y"],
    "until something later is done with the name",
  );
});

t.test("FileSystem.syncDirectory() that fails loses nothing that is done meanwhile", async (t) => {
  for (let seed = 0; seed < 20; seed++) {
    const { disk, fs, create, failSync } = setUp(seed);
    await Promise.all([failSync("/A"), create("/A/1", "1"), create("/A/2", "2")]);
    await fs.syncDirectory("/A");
    t.strictSame(outcomes(disk, undefined, everything, 5), ["A/1=1 A/2=2 A/f=x B/g=y"]);
  }
});

t.test("FileSystem.open() and its like under way have happened, or not", async (t) => {
  const { disk, fs } = setUp();
  const made = fs.open("/A/new", "create");
  t.strictSame(outcomes(disk, ANY_NAMES, everything), ["A/f=x A/new=empty B/g=y", "A/f=x B/g=y"]);
  t.strictSame(outcomes(disk, NONE, everything), ["A/f=x B/g=y"]);
  const moved = fs.rename("/A/f", "/A/h");
  t.strictSame(
    [...new Set(outcomes(disk, PREFIX, everything).map((text) => text.split(" ")[0]))],
    ["A/f=x", "A/h=x"],
  );
  await made;
  await moved;
});

/** Moves files of its own about, between directories that are durable. */
class Mover {
  readonly disk = new SimulatedDisk();
  readonly paths = new Map<string, Set<string>>();
  /** What was visible after each operation. */
  moments: string[] = [];

  constructor() {
    for (const directory of ["A", "B", "C"]) {
      this.disk.write(`/${directory}/${directory}`, filled(directory));
      this.paths.set(directory, new Set([`/${directory}/${directory}`]));
    }
    this.moments.push(everything(this.disk));
  }

  step(random: Random): string {
    const { tree } = this.disk;
    const directory = `/${"ABC"[random(3)]}`;
    if (random(4) === 0) {
      tree.sync(tree.inodeOf(directory, "open"), tree.lastChange);
      return `sync ${directory}`;
    }
    const letters = [...this.paths.keys()];
    const letter = letters[random(letters.length)]!;
    const from = this.present(letter);
    const to = `${directory}/${letter}${random(2)}`;
    if (from !== to) {
      tree.rename(from, to);
      this.paths.get(letter)!.add(to);
      this.moments.push(everything(this.disk));
    }
    return `${from} to ${to}`;
  }

  /** Where the file of this content is to be seen. */
  present(letter: string): string {
    return this.#places(this.disk, letter)[0]!;
  }

  complaint(found: SimulatedDisk): string | undefined {
    for (const [letter, paths] of this.paths) {
      const places = this.#places(found, letter);
      if (places.length === 0) return `${letter} is nowhere`;
      const strange = places.find((path) => !paths.has(path));
      if (strange !== undefined) return `${letter} was never at ${strange}`;
    }
    return undefined;
  }

  #places(disk: SimulatedDisk, letter: string): string[] {
    return everything(disk)
      .split(" ")
      .filter((entry) => entry.endsWith(`=${letter}`))
      .map((entry) => `/${entry.split("=")[0]}`);
  }
}

t.test("SimulatedDisk.cutPower() never loses a file that was only moved", async (t) => {
  const seed = seedOf(t);
  for (let i = 0; i < 100 && t.passing(); i++) {
    const random = randomOf(seed + i);
    const mover = new Mover();
    const steps: string[] = [];
    const complaints = new Set<string>();
    for (let n = 0; n < 12; n++) {
      steps.push(mover.step(random));
      for (let cut = 0; cut < 3; cut++) {
        const complaint = mover.complaint(mover.disk.cutPower(random, ANY_NAMES));
        if (complaint !== undefined) complaints.add(complaint);
        const moment = everything(mover.disk.cutPower(random, PREFIX));
        if (!mover.moments.includes(moment)) complaints.add(`${moment} never was`);
      }
    }
    if (complaints.size > 0) {
      t.fail(`seed ${seed} + ${i}: ${steps.join(", ")}: ${[...complaints].join(", ")}`);
    }
  }
});

t.test("SimulatedDisk.cutPower() leaves a directory that was synced as it is", async (t) => {
  const seed = seedOf(t);
  for (let i = 0; i < 100 && t.passing(); i++) {
    const random = randomOf(seed + i);
    const mover = new Mover();
    for (let n = 0; n < 10; n++) mover.step(random);
    const { tree } = mover.disk;
    for (const directory of ["/A", "/B", "/C"]) {
      if (random(2) === 0) continue;
      tree.sync(tree.inodeOf(directory, "open"), tree.lastChange);
      const names = mover.disk.list(directory);
      for (let cut = 0; cut < 4 && t.passing(); cut++) {
        const found = mover.disk.cutPower(random).list(directory);
        if (!isDeepStrictEqual(found, names)) t.strictSame(found, names, `seed ${seed} + ${i}`);
      }
    }
  }
  t.ok(t.passing());
});
