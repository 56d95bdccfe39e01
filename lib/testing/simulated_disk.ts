/**
 * A disk in memory, of which it is known what is durable and what is not: power can be cut and
 * processes killed at any moment, as often as one likes.
 *
 *     const disk = new SimulatedDisk();
 *     const fs = new SimulatedFileSystem(disk, { seed: 7 });
 *     ...                                        // a store writes through fs
 *     const found = disk.cutPower(randomOf(1));  // what the machine finds when it starts again
 *     const again = new SimulatedFileSystem(found, { seed: 8 });
 *
 * Nothing here is a call of a store, and nothing takes time: see `simulated_file_system.ts`.
 *
 * @module
 */

import { createHash } from "node:crypto";
import * as nodeFs from "node:fs";
import { join } from "node:path";
import type { DirectoryEntry } from "../io/file_system.ts";
import { hasCode, systemError } from "../io/system_error.ts";
import { type Survival, survivalOf } from "./power_cut.ts";
import type { Random } from "./random.ts";
import { SimulatedTree } from "./simulated_tree.ts";
import { PAGE_BYTES } from "./sparse_bytes.ts";

export type { Survival } from "./power_cut.ts";

/** A call that was made and has not come back. What it does follows from the tree alone. */
export interface UnderWay {
  /** Does all of it. */
  readonly carryOut: (tree: SimulatedTree) => void;
  /** Does a write in part. Undefined if it is no write. */
  readonly carryOutPart?: (tree: SimulatedTree, random: Random) => void;
}

export class SimulatedDisk {
  /** Calls that have not come back, for {@linkcode SimulatedFileSystem}. */
  readonly underWay = new Set<UnderWay>();
  /** Inodes that are locked, for {@linkcode SimulatedFileSystem}. */
  readonly locked = new Set<number>();
  #tree: SimulatedTree;

  /** @param options.spaceBytes Space of the device. Default: without limit. */
  constructor({ spaceBytes = Number.POSITIVE_INFINITY }: { readonly spaceBytes?: number } = {}) {
    this.#tree = new SimulatedTree(spaceBytes);
  }

  /** The kernel's part, for {@linkcode SimulatedFileSystem}. */
  get tree(): SimulatedTree {
    return this.#tree;
  }

  /** Space of the device, in bytes. May be changed at any time, also below what is in use. */
  get spaceBytes(): number {
    return this.tree.spaceBytes;
  }

  set spaceBytes(bytes: number) {
    this.tree.spaceBytes = bytes;
  }

  /** An independent copy: what is durable, what is not, and the calls under way. No locks. */
  fork(): SimulatedDisk {
    return SimulatedDisk.#of(this.tree.fork(), this.underWay);
  }

  /**
   * What a machine finds when the power is cut now: another disk, on which all is durable. Calls
   * under way have happened, in part, or not. This disk stays as it is.
   *
   * @param survival Drawn from `random` if left out.
   */
  cutPower(random: Random, survival: Survival = survivalOf(random)): SimulatedDisk {
    let tree = this.tree;
    if (this.underWay.size > 0 && (survival.data !== "none" || survival.names !== "none")) {
      // Done, but not durable: what of it is there is up to the cut, as with all else.
      tree = tree.fork();
      for (const call of shuffled(this.underWay, random)) attempt(() => call.carryOut(tree));
    }
    return SimulatedDisk.#of(tree.survive(survival, random));
  }

  /**
   * What is there when the process is killed now: another disk, with all that was done, and no more
   * of it durable than before. Calls under way have happened, or not, or (a write) in part. This
   * disk stays as it is.
   */
  kill(random: Random): SimulatedDisk {
    const tree = this.tree.fork();
    for (const call of shuffled(this.underWay, random)) {
      const fate = random(3);
      if (fate === 0) continue;
      attempt(() => {
        if (fate === 1 && call.carryOutPart !== undefined) call.carryOutPart(tree, random);
        else call.carryOut(tree);
      });
    }
    tree.releaseAll();
    return SimulatedDisk.#of(tree);
  }

  /** Sorted by name; empty if there is no such directory. */
  list(path: string): DirectoryEntry[] {
    try {
      return this.tree.list(path);
    } catch (error) {
      if (hasCode(error, "ENOENT", "ENOTDIR")) return [];
      throw error;
    }
  }

  /** @throws `ENOENT` if there is no such file. */
  read(path: string): Buffer {
    return this.tree.file(path, "open").content();
  }

  /** @throws `ENOENT` if there is no such file. */
  size(path: string): number {
    return this.tree.file(path, "stat").size;
  }

  /** Makes the file, and the directories above it, if need be. All of it is durable at once. */
  write(path: string, content: Uint8Array): void {
    this.#write(path, content.length, [[0, content]]);
  }

  /** Removes a file, or a directory with all that is in it. Durable at once. */
  remove(path: string): void {
    for (const [found, file] of [...this.tree.walk(path)].reverse()) {
      if (file === undefined) this.tree.rmdir(found);
      else this.tree.unlink(found);
      this.tree.settle(found);
    }
  }

  /** Digest of all that can be seen: names, sizes, contents. A hole is the same as zeros. */
  digest(): string {
    let all = "";
    for (const [path, file] of this.tree.walk()) all += `${path}\0${file?.digest() ?? ""}\n`;
    return createHash("sha1").update(all).digest("hex");
  }

  /**
   * Loads a directory of the machine, with all that is in it. All of it is durable.
   *
   * @param at Where it lies on the disk.
   */
  static fromDirectory(realPath: string, at: string): SimulatedDisk {
    const disk = new SimulatedDisk();
    const load = (from: string, to: string): void => {
      if (nodeFs.statSync(from).isDirectory()) {
        disk.#makeDirectory(to);
        for (const name of nodeFs.readdirSync(from)) load(join(from, name), join(to, name));
      } else {
        const { size, parts } = readSparse(from);
        disk.#write(to, size, parts);
      }
    };
    load(realPath, at);
    return disk;
  }

  /** Writes what is at `from`, a directory, into an existing, empty directory of the machine. */
  writeTo(realPath: string, from: string): void {
    for (const [path, file] of this.tree.walk(from)) {
      const target = join(realPath, path.slice(from.length));
      if (file === undefined) {
        nodeFs.mkdirSync(target, { recursive: true });
        continue;
      }
      const fd = nodeFs.openSync(target, "w");
      const page = Buffer.alloc(PAGE_BYTES);
      for (const index of file.pages()) {
        const count = file.read(page, index * PAGE_BYTES);
        nodeFs.writeSync(fd, page, 0, count, index * PAGE_BYTES);
      }
      nodeFs.ftruncateSync(fd, file.size);
      nodeFs.closeSync(fd);
    }
  }

  static #of(tree: SimulatedTree, underWay: Iterable<UnderWay> = []): SimulatedDisk {
    const disk = new SimulatedDisk();
    disk.#tree = tree;
    for (const call of underWay) disk.underWay.add(call);
    return disk;
  }

  #write(path: string, size: number, parts: Iterable<readonly [number, Uint8Array]>): void {
    this.#makeDirectory(path.slice(0, path.lastIndexOf("/")) || "/");
    const inode = this.tree.openOrCreate(path);
    this.tree.truncate(inode, 0);
    this.tree.truncate(inode, size);
    for (const [position, bytes] of parts) {
      const count = this.tree.write(inode, Uint8Array.from(bytes), position);
      if (count < bytes.length) throw systemError("ENOSPC", "pwritev", path);
    }
    this.tree.release(inode);
    this.tree.settle(path);
  }

  #makeDirectory(path: string): void {
    if (path === "/") return;
    this.#makeDirectory(path.slice(0, path.lastIndexOf("/")) || "/");
    try {
      this.tree.mkdir(path);
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error;
    }
    this.tree.settle(path);
  }
}

function attempt(call: () => void): void {
  try {
    call();
  } catch (error) {
    // Calls under way may stand in each other's way; one that fails has done nothing.
    if (!(error instanceof Error && "errno" in error)) throw error;
  }
}

/** In any order. */
function shuffled<T>(items: Iterable<T>, random: Random): T[] {
  const list = [...items];
  for (let i = list.length - 1; i > 0; i--) {
    const other = random(i + 1);
    [list[i], list[other]] = [list[other]!, list[i]!];
  }
  return list;
}

/** Parts of a file of the machine that are not zero. */
function readSparse(path: string) {
  const fd = nodeFs.openSync(path, "r");
  try {
    const { size, blocks } = nodeFs.fstatSync(fd);
    const parts: [number, Uint8Array][] = [];
    // A very small file may lie in its inode, where it takes no block.
    const isHole = blocks === 0 && size > PAGE_BYTES;
    const buffer = Buffer.alloc(256 * PAGE_BYTES);
    const zeros = Buffer.alloc(buffer.length);
    for (let position = 0; !isHole && position < size; ) {
      const count = nodeFs.readSync(fd, buffer, 0, buffer.length, position);
      if (count === 0) break;
      const isZero = (from: number, to: number) => buffer.compare(zeros, from, to, from, to) === 0;
      const end = isZero(0, count) ? 0 : count;
      for (let from = 0; from < end; from += PAGE_BYTES) {
        const to = Math.min(count, from + PAGE_BYTES);
        if (isZero(from, to)) continue;
        parts.push([position + from, Buffer.from(buffer.subarray(from, to))]);
      }
      position += count;
    }
    return { size, parts };
  } finally {
    nodeFs.closeSync(fd);
  }
}
