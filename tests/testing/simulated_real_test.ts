// The simulated file system and the machine's own: the same calls, the same answers.

import { join } from "node:path";
import { crc32 } from "node:zlib";
import t, { type Test } from "tap";
import type { FileHandle, FileStat, FileSystem, OpenMode } from "../../lib/io/file_system.ts";
import { loadNativeBinding } from "../../lib/io/native_binding.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { SimulatedDisk, SimulatedFileSystem } from "../../lib/testing/mod.ts";
import { type Random, randomOf, seedOf } from "../support/random.ts";
import { testFolder } from "../support/test_folder.ts";

const SEQUENCES = 400;
const CALLS = 70;

/** Names of a small world, so that calls meet: files, directories, and what is below a file. */
const NAMES = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "a/x", "d/x/y", "b/a", "f"];

/** A path of the world; the root itself now and then. */
function somePath(root: string, random: Random): string {
  return random(40) === 0 ? root : join(root, NAMES[random(NAMES.length)]!);
}

/** Positions near the edges of sectors and pages, and some far away. */
function somePosition(random: Random): number {
  if (random(30) === 0) return 2 ** 32 + random(10_000);
  const edge = [0, 512, 4096, 8192, 65_536, 262_144, 270_336][random(7)]!;
  return Math.max(0, edge + random(1200) - 600);
}

function someBytes(random: Random): Buffer[] {
  return Array.from({ length: 1 + random(3) }, () => {
    const length = [0, 1, 20, 512, 1000, 5000, 70_000][random(7)]!;
    return Buffer.alloc(length, 1 + random(255));
  });
}

/** The two worlds, and the handles that are open in both. */
class Pair {
  readonly sides: readonly [Side, Side];
  readonly #t: Test;
  calls = 0;
  readonly codes = new Map<string, number>();

  constructor(t: Test, sides: readonly [Side, Side]) {
    this.#t = t;
    this.sides = sides;
  }

  /** Makes a call on both sides. @returns False if they differ. */
  async both(what: string, call: (side: Side) => Promise<unknown>): Promise<boolean> {
    const [real, simulated] = [
      await answer(this.sides[0], call),
      await answer(this.sides[1], call),
    ];
    this.calls += 1;
    const code = /"code":"(\w+)"/.exec(real)?.[1] ?? "ok";
    const name = what.split(" ")[0]!;
    this.codes.set(`${name} ${code}`, (this.codes.get(`${name} ${code}`) ?? 0) + 1);
    if (real === simulated) return true;
    this.#t.equal(simulated, real, what);
    return false;
  }
}

interface Side {
  readonly fs: FileSystem;
  readonly root: string;
  readonly handles: FileHandle[];
}

/** What came of it, as a text. */
async function answer(side: Side, call: (side: Side) => Promise<unknown>): Promise<string> {
  try {
    return JSON.stringify(await call(side)) ?? "undefined";
  } catch (error) {
    const { code, syscall, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    // Node says no path for what is called with a descriptor, and names the call in its own way.
    return /^(open|mkdir|rmdir|scandir|stat|statfs|rename|unlink)$/.test(syscall ?? "")
      ? JSON.stringify({ code, syscall, path: path?.slice(side.root.length) })
      : JSON.stringify({ code });
  }
}

/** Size and kind; the size of a directory is the file system's own affair. */
function plain({ kind, size }: FileStat) {
  return kind === "file" ? { kind, size } : { kind };
}

async function readdir({ fs }: Side, path: string) {
  const entries = await fs.readdir(path);
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function content(handle: FileHandle, position: number, length: number) {
  const buffer = Buffer.alloc(length, 0xee);
  const count = await handle.pread(buffer, position);
  return { count, hex: digest(buffer) };
}

/** What may lie before it: where blocks begin is the file system's own affair. */
async function nextData(handle: FileHandle, position: number) {
  const { kind, size } = await handle.stat();
  if (kind === "directory") return "anywhere";
  const next = await handle.nextData(position);
  if (position >= size) return next === size;
  const hole = Buffer.alloc(Math.min(next - position, 100_000), 0xee);
  await handle.pread(hole, position);
  return position <= next && next <= size && hole.every((byte) => byte === 0);
}

function digest(buffer: Buffer): string {
  return buffer.length <= 64 ? buffer.toString("hex") : `${buffer.length}:${crc32(buffer)}`;
}

const MODES: readonly OpenMode[] = ["read", "write", "create", "create", "create"];

/** One random call. */
async function step(pair: Pair, random: Random): Promise<boolean> {
  const [{ handles }] = pair.sides;
  const name = somePath("", random);
  const path = (side: Side) => join(side.root, name);
  const kind = random(100);
  if (kind < 14 && handles.length < 6) {
    const mode = MODES[random(MODES.length)]!;
    return pair.both(`open ${name} ${mode}`, async (side) => {
      side.handles.push(await side.fs.open(path(side), mode));
    });
  }
  if (kind < 18) return pair.both(`mkdir ${name}`, (side) => side.fs.mkdir(path(side)));
  if (kind < 21) return pair.both(`rmdir ${name}`, (side) => side.fs.rmdir(path(side)));
  if (kind < 25) return pair.both(`readdir ${name}`, (side) => readdir(side, path(side)));
  if (kind < 29)
    return pair.both(`stat ${name}`, async (side) => plain(await side.fs.stat(path(side))));
  if (kind < 36) {
    const other = somePath("", random);
    return pair.both(`rename ${name} ${other}`, (side) =>
      side.fs.rename(path(side), join(side.root, other)),
    );
  }
  if (kind < 40) return pair.both(`unlink ${name}`, (side) => side.fs.unlink(path(side)));
  if (kind < 41)
    return pair.both(`syncDirectory ${name}`, (side) => side.fs.syncDirectory(path(side)));
  if (kind < 42)
    return pair.both(`statfs ${name}`, async (side) => void (await side.fs.statfs(path(side))));
  return handles.length === 0 ? openFile(pair, "a") : handleStep(pair, random, kind);
}

function openFile(pair: Pair, name: string): Promise<boolean> {
  return pair.both(`open ${name} create`, async (side) => {
    side.handles.push(await side.fs.open(join(side.root, name), "create"));
  });
}

/** What a sequence finds: without it most calls would find nothing. */
async function setUp(pair: Pair): Promise<void> {
  for (const name of ["", "d", "d/e"]) {
    await pair.both(`mkdir ${name}`, (side) => side.fs.mkdir(join(side.root, name)));
  }
  for (const name of ["a", "d/a", "d/e/a"]) await openFile(pair, name);
}

async function handleStep(pair: Pair, random: Random, kind: number): Promise<boolean> {
  const index = random(pair.sides[0].handles.length);
  const position = somePosition(random);
  const call = (what: string, make: (handle: FileHandle) => Promise<unknown>) =>
    pair.both(`${what} of ${pair.sides[0].handles[index]!.path} at ${position}`, (side) =>
      make(side.handles[index]!),
    );
  if (kind < 55) {
    const buffers = someBytes(random);
    return call("pwritev", (handle) => handle.pwritev(buffers, position));
  }
  if (kind < 62) {
    const buffers = someBytes(random);
    return call("pwritevNow", async (handle) => handle.pwritevNow(buffers, position));
  }
  if (kind < 63 && position % 4 === 0) {
    const buffers = someBytes(random);
    return call("commitAndForce", (handle) => handle.commitAndForce(buffers, position));
  }
  const length = [0, 1, 100, 5000, 80_000][random(5)]!;
  if (kind < 74) return call("pread", (handle) => content(handle, position, length));
  if (kind < 78) {
    return call("preadIfCached", async (handle) => {
      const buffer = Buffer.alloc(length, 0xee);
      const count = handle.preadIfCached(buffer, position);
      const { count: whole } = await content(handle, position, length);
      if (count > whole) throw new Error(`${count} bytes of ${whole}`);
      const same = Buffer.alloc(Math.max(0, count));
      await handle.pread(same, position);
      return same.equals(buffer.subarray(0, same.length));
    });
  }
  if (kind < 83) return call("ftruncate", (handle) => handle.ftruncate(position));
  if (kind < 86) return call("punch", (handle) => handle.punch(position, length));
  if (kind < 89) return call("allocate", (handle) => handle.allocate(position % 70_000, length));
  if (kind < 90 && position % 4 === 0) return call("fdatasync", (handle) => handle.fdatasync());
  if (kind < 92) return call("nextData", (handle) => nextData(handle, position));
  if (kind < 93) return call("advise", (handle) => handle.advise(0, 0, "normal"));
  if (kind < 95) return call("fstat", async (handle) => plain(await handle.stat()));
  return call("close", async (handle) => {
    await handle.close();
    // Most are forgotten; some are used again, closed.
    const side = pair.sides.find(({ handles }) => handles[index] === handle)!;
    if (position % 4 !== 0) side.handles.splice(index, 1);
  });
}

/** Everything below the root. */
async function tree(side: Side, path: string): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const { name, kind } of await readdir(side, path)) {
    const below = join(path, name);
    if (kind === "directory") found.push(name, await tree(side, below));
    else {
      const handle = await side.fs.open(below, "read");
      const { size } = await handle.stat();
      const start = Math.max(0, size - 300_000);
      found.push(name, size, await content(handle, 0, Math.min(size, 300_000)));
      found.push(await content(handle, start, Math.min(size, 300_000)));
      await handle.close();
    }
  }
  return found;
}

t.test(
  "SimulatedFileSystem answers as NodeFileSystem does",
  { skip: loadNativeBinding() === undefined && "the addon isn't loaded" },
  async (t) => {
    const seed = seedOf(t);
    const folder = testFolder(t);
    const codes = new Map<string, number>();
    let calls = 0;
    for (let i = 0; i < SEQUENCES; i++) {
      const random = randomOf(seed + i);
      const disk = new SimulatedDisk();
      const simulated = new SimulatedFileSystem(disk, { seed: i });
      const real = new NodeFileSystem();
      const root = join(folder, String(i));
      const pair = new Pair(t, [
        { fs: real, root, handles: [] },
        { fs: simulated, root: "/root", handles: [] },
      ]);
      await setUp(pair);
      let same = true;
      for (let n = 0; n < CALLS && same; n++) same = await step(pair, random);
      same &&= await pair.both("tree", (side) => tree(side, side.root));
      if (!same) t.fail(`sequence ${i} of seed ${seed} differs`);
      for (const { handles } of pair.sides) for (const handle of handles) await handle.close();
      calls += pair.calls;
      for (const [code, count] of pair.codes) codes.set(code, (codes.get(code) ?? 0) + count);
      if (!same) break;
    }
    t.comment(
      [...codes]
        .sort()
        .map(([code, count]) => `${code} ${count}`)
        .join(", "),
    );
    t.ok(calls > 20_000, `${calls} calls were compared`);
  },
);
