/**
 * Files and directories of a simulated disk, and the calls that a kernel carries out on them.
 *
 * Each call is done at once and whole. Which part of it survives a power cut is kept in
 * {@linkcode SimulatedFile} for the content of files and in {@linkcode NameLog} for names.
 *
 * @module
 */

import type { DirectoryEntry, FileStat, FileSystemSpace, OpenMode } from "../io/file_system.ts";
import { systemError } from "../io/system_error.ts";
import { type NameChange, NameLog, type Names } from "./name_log.ts";
import type { Survival } from "./power_cut.ts";
import type { Random } from "./random.ts";
import { SimulatedDirectory } from "./simulated_directory.ts";
import { SimulatedFile } from "./simulated_file.ts";
import { PAGE_BYTES } from "./sparse_bytes.ts";

const ROOT_INODE = 2;

/** Number of the device in an identity. */
const DEVICE = 1;

/** Bytes that a device without limit claims to have: 1 PiB. */
const UNLIMITED_BYTES = 2 ** 50;

/** Longest name (`NAME_MAX`, include/uapi/linux/limits.h). */
const NAME_BYTES_MAX = 255;

type Node = SimulatedFile | SimulatedDirectory;

/** A file or, if undefined, a directory. */
type Found = readonly [path: string, file: SimulatedFile | undefined];

/** A name in a directory, and the inode that it leads to. */
interface Place {
  readonly directory: SimulatedDirectory;
  readonly name: string;
  readonly node: Node | undefined;
}

export class SimulatedTree {
  /** Space of the device. */
  spaceBytes: number;
  #owner = {};
  /** By inode: an array is copied much faster than a map. */
  #nodes: (Node | undefined)[] = [];
  /** Of each inode how many handles are open. */
  #handles: number[] = [];
  /** Inodes that no visible name leads to. */
  #nameless = new Set<number>();
  #nameLog = new NameLog();
  #usedBlocks = 0;
  #lastInode = ROOT_INODE;
  #lastChange = 0;

  constructor(spaceBytes: number) {
    this.spaceBytes = spaceBytes;
    this.#nodes[ROOT_INODE] = new SimulatedDirectory(ROOT_INODE, this.#owner);
  }

  /** An independent copy. */
  fork(): SimulatedTree {
    const fork = new SimulatedTree(this.spaceBytes);
    fork.#nodes = this.#nodes.slice();
    fork.#handles = this.#handles.slice();
    fork.#nameless = new Set(this.#nameless);
    fork.#nameLog = this.#nameLog.copy();
    fork.#usedBlocks = this.#usedBlocks;
    fork.#lastInode = this.#lastInode;
    fork.#lastChange = this.#lastChange;
    this.#owner = {};
    return fork;
  }

  /** Number of the last change: what a sync that begins now makes durable. */
  get lastChange(): number {
    return this.#lastChange;
  }

  // Calls that name a path.

  /** @returns The inode, with one more handle on it. */
  open(path: string, mode: OpenMode, now?: number): number {
    const { directory, name, node } = this.#locate(path, "open");
    if (mode === "create") {
      if (node !== undefined) throw systemError("EEXIST", "open", path);
      return this.#retain(this.#create("file", directory, name, now).inode);
    }
    if (node === undefined) throw systemError("ENOENT", "open", path);
    if (mode === "write" && node.kind === "directory") throw systemError("EISDIR", "open", path);
    return this.#retain(node.inode);
  }

  /** Opens the file, and makes it if need be. */
  openOrCreate(path: string, now?: number): number {
    const { node } = this.#locate(path, "open");
    return this.open(path, node === undefined ? "create" : "write", now);
  }

  mkdir(path: string, now?: number): void {
    const { directory, name, node } = this.#locate(path, "mkdir");
    if (node !== undefined) throw systemError("EEXIST", "mkdir", path);
    this.#create("directory", directory, name, now);
  }

  rmdir(path: string, now?: number): void {
    const { directory, name, node } = this.#locate(path, "rmdir");
    if (node === undefined) throw systemError("ENOENT", "rmdir", path);
    if (node.kind === "file") throw systemError("ENOTDIR", "rmdir", path);
    if (node.inode === ROOT_INODE) throw systemError("EBUSY", "rmdir", path);
    if (node.names.size > 0) throw systemError("ENOTEMPTY", "rmdir", path);
    this.#change({ removed: { directory, name, node } }, now);
  }

  unlink(path: string, now?: number): void {
    const { directory, name, node } = this.#locate(path, "unlink");
    if (node === undefined) throw systemError("ENOENT", "unlink", path);
    if (node.kind === "directory") throw systemError("EISDIR", "unlink", path);
    this.#change({ removed: { directory, name, node } }, now);
  }

  rename(from: string, to: string, now?: number): void {
    const source = this.#locate(from, "rename");
    const target = this.#locate(to, "rename", from);
    const { node } = source;
    if (source.name === "" || target.name === "") throw systemError("EBUSY", "rename", from);
    if (node === undefined) throw systemError("ENOENT", "rename", from);
    if (node.kind === "directory" && this.#isBelow(to, node)) {
      throw systemError("EINVAL", "rename", from);
    }
    const replaced = target.node;
    if (replaced?.kind === "directory" && this.#isBelow(from, replaced)) {
      throw systemError("ENOTEMPTY", "rename", from);
    }
    // Two names of one file: rename(2) does nothing.
    if (node === replaced) return;
    if (replaced !== undefined && replaced.kind !== node.kind) {
      throw systemError(node.kind === "directory" ? "ENOTDIR" : "EISDIR", "rename", from);
    }
    if (replaced?.kind === "directory" && replaced.names.size > 0) {
      throw systemError("ENOTEMPTY", "rename", from);
    }
    this.#change({ removed: { ...source, node }, set: { ...target, node }, replaced }, now);
  }

  /** @param stats Of files, too. */
  list(path: string, stats = false): DirectoryEntry[] {
    const node = this.#find(path, "scandir");
    if (node.kind === "file") throw systemError("ENOTDIR", "scandir", path);
    return [...node.names]
      .map(([name, inode]): DirectoryEntry => {
        const { kind } = this.#node(inode);
        return stats && kind === "file" ? { name, kind, stat: this.stat(inode) } : { name, kind };
      })
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The inode that the path leads to. */
  inodeOf(path: string, syscall: string): number {
    return this.#find(path, syscall).inode;
  }

  space(path: string): FileSystemSpace {
    this.#find(path, "statfs");
    const totalBytes = Math.min(this.spaceBytes, UNLIMITED_BYTES);
    const freeBytes = Math.max(0, totalBytes - this.#usedBlocks * PAGE_BYTES);
    return { totalBytes, freeBytes, availableBytes: freeBytes };
  }

  // Calls on an inode.

  stat(inode: number): FileStat {
    const node = this.#node(inode);
    const isFile = node.kind === "file";
    return {
      kind: node.kind,
      size: isFile ? node.size : PAGE_BYTES,
      allocatedBytes: isFile ? node.blocks.count * PAGE_BYTES : 0,
      identity: `${DEVICE}:${inode}`,
      mtimeMs: node.mtimeMs,
    };
  }

  /** @returns Bytes read; -1 from a directory. */
  read(inode: number, target: Uint8Array, position: number): number {
    const node = this.#node(inode);
    if (target.length === 0) return 0;
    return node.kind === "file" ? node.read(target, position) : -1;
  }

  /**
   * The first position at or behind `position` that lies in no hole; the size without one, and that
   * of a directory.
   */
  nextData(inode: number, position: number): number {
    const node = this.#node(inode);
    return node.kind === "file" ? node.nextData(position) : PAGE_BYTES;
  }

  /**
   * Keeps `bytes`: they must not change any more.
   *
   * @returns Bytes written: as many as there is space for.
   */
  write(inode: number, bytes: Uint8Array, position: number, now?: number): number {
    if (bytes.length === 0) return 0;
    const file = this.#fileToChange(inode);
    const end = position + bytes.length;
    const [from, to] = [Math.floor(position / PAGE_BYTES), Math.ceil(end / PAGE_BYTES)];
    const reached = file.blocks.reach(from, to, this.#freeBlocks) * PAGE_BYTES;
    const count = Math.max(0, Math.min(end, reached) - position);
    if (count === 0) return 0;
    const part = count === bytes.length ? bytes : bytes.subarray(0, count);
    this.#charging(file, now, (change) => file.write(part, position, change));
    return count;
  }

  /** Zeros, and blocks given back. The size stays. */
  punch(inode: number, position: number, length: number, now?: number): void {
    const file = this.#fileToChange(inode);
    this.#charging(file, now, (change) => file.zero(position, position + length, change));
  }

  truncate(inode: number, size: number, now?: number): void {
    const file = this.#fileToChange(inode);
    this.#charging(file, now, (change) => file.resize(size, change));
  }

  /** @returns False, and nothing is reserved, if there is no space for it. */
  allocate(inode: number, position: number, length: number): boolean {
    const file = this.#fileToChange(inode);
    const from = Math.floor(position / PAGE_BYTES);
    const to = Math.ceil((position + length) / PAGE_BYTES);
    if (file.blocks.reach(from, to, this.#freeBlocks) < to) return false;
    this.#charging(file, undefined, () => file.allocate(position, position + length));
    return true;
  }

  /** `upTo`: {@linkcode lastChange} when the sync began. Of a directory it syncs the names. */
  sync(inode: number, upTo: number): void {
    const node = this.#node(inode);
    if (node.kind === "file") {
      if (!node.isDurable) this.#fileToChange(inode).sync(upTo);
    } else if (!this.#nameLog.isEmpty) {
      this.#nameLog.sync(inode, upTo, this.#directoryToChange(inode).durable);
      this.#sweep();
    }
  }

  /** A sync that fails: some became durable, and no later sync makes up for the rest. */
  failSync(inode: number, upTo: number, random: Random): void {
    const node = this.#node(inode);
    if (node.kind === "directory") this.#nameLog.failSync(inode, upTo);
    else if (!node.isDurable) this.#fileToChange(inode).failSync(upTo, random);
  }

  /** One handle less. */
  release(inode: number): void {
    this.#handles[inode] = this.#handlesOf(inode) - 1;
    if (this.#handlesOf(inode) > 0 || !this.#nameless.has(inode)) return;
    this.#giveBack(inode);
    this.#sweep();
  }

  /** The process has ended: nothing is open any more. */
  releaseAll(): void {
    const handles = this.#handles;
    this.#handles = [];
    for (const inode of this.#nameless) if ((handles[inode] ?? 0) > 0) this.#giveBack(inode);
    this.#sweep();
  }

  // What becomes of it.

  /** What is there after a power cut: all of it durable. */
  survive({ data, names }: Survival, random: Random): SimulatedTree {
    const tree = new SimulatedTree(this.spaceBytes);
    tree.#lastInode = this.#lastInode;
    tree.#lastChange = this.#lastChange;
    // What has not changed belongs to both from now on.
    this.#owner = {};
    const changed = new Map<number, Names>();
    if (!this.#nameLog.isEmpty) {
      this.#nameLog.survive(names, random, (inode) => {
        let survivors = changed.get(inode);
        if (survivors === undefined) {
          const node = this.#nodes[inode];
          survivors = new Map(node?.kind === "directory" ? node.durable : []);
          changed.set(inode, survivors);
        }
        return survivors;
      });
    }
    tree.#nodes = [];
    const keep = (inode: number): void => {
      if (tree.#nodes[inode] !== undefined) return;
      const node = this.#node(inode);
      if (node.kind === "file") {
        const survivor = node.isDurable ? node : node.survive(data, random);
        tree.#usedBlocks += survivor.blocks.count;
        tree.#nodes[inode] = survivor;
        return;
      }
      const survivors = changed.get(inode) ?? node.durable;
      tree.#nodes[inode] = node.survive(survivors);
      for (const child of survivors.values()) keep(child);
    };
    keep(ROOT_INODE);
    return tree;
  }

  /** Every file and directory, each with its path and before what it holds, sorted by name. */
  walk(path = "/"): Found[] {
    const found: Found[] = [];
    const visit = (path: string, node: Node): void => {
      if (node.kind === "file") {
        found.push([path, node]);
        return;
      }
      found.push([path, undefined]);
      for (const name of [...node.names.keys()].sort()) {
        visit(path === "/" ? `/${name}` : `${path}/${name}`, this.#node(node.names.get(name)!));
      }
    };
    visit(path, this.#find(path, "stat"));
    return found;
  }

  /** The file at a path. */
  file(path: string, syscall: string): SimulatedFile {
    const node = this.#find(path, syscall);
    if (node.kind === "directory") throw systemError("EISDIR", syscall, path);
    return node;
  }

  /** Makes what is at this path durable, and that it is there or not; not those above it. */
  settle(path: string): void {
    const { directory, name, node } = this.#locate(path, "open");
    if (node?.kind === "file") this.#fileToChange(node.inode).settle();
    if (name === "") return;
    const { durable } = this.#directoryToChange(directory.inode);
    this.#nameLog.forget(directory.inode, name);
    if (node === undefined) durable.delete(name);
    else durable.set(name, node.inode);
    this.#sweep();
  }

  get #freeBlocks(): number {
    return Math.max(0, Math.floor(this.spaceBytes / PAGE_BYTES) - this.#usedBlocks);
  }

  #node(inode: number): Node {
    const node = this.#nodes[inode];
    if (node === undefined) throw new Error(`There is no inode ${inode}`);
    return node;
  }

  #fileToChange(inode: number): SimulatedFile {
    const node = this.#node(inode);
    if (node.kind !== "file") throw new Error(`Inode ${inode} is a directory`);
    if (node.owner === this.#owner) return node;
    const copy = node.copy(this.#owner);
    this.#nodes[inode] = copy;
    return copy;
  }

  #directoryToChange(inode: number): SimulatedDirectory {
    const node = this.#node(inode);
    if (node.kind !== "directory") throw new Error(`Inode ${inode} is a file`);
    if (node.owner === this.#owner) return node;
    const copy = node.copy(this.#owner);
    this.#nodes[inode] = copy;
    return copy;
  }

  /** Changes a file, and charges what space it takes then. */
  #charging(file: SimulatedFile, now: number | undefined, change: (number: number) => void): void {
    const before = file.blocks.count;
    change(this.#nextChange());
    file.mtimeMs = now ?? this.#lastChange;
    this.#usedBlocks += file.blocks.count - before;
  }

  #nextChange(): number {
    this.#lastChange += 1;
    return this.#lastChange;
  }

  #retain(inode: number): number {
    this.#handles[inode] = this.#handlesOf(inode) + 1;
    return inode;
  }

  #handlesOf(inode: number): number {
    return this.#handles[inode] ?? 0;
  }

  #create(
    kind: Node["kind"],
    directory: SimulatedDirectory,
    name: string,
    now: number | undefined,
  ): Node {
    this.#lastInode += 1;
    const node =
      kind === "file"
        ? new SimulatedFile(this.#lastInode, this.#owner)
        : new SimulatedDirectory(this.#lastInode, this.#owner);
    node.mtimeMs = now ?? this.#lastChange + 1;
    this.#nodes[node.inode] = node;
    this.#change({ set: { directory, name, node } }, now);
    return node;
  }

  /** Sets and removes visible names, and notes it. */
  #change(
    {
      set,
      removed,
      replaced,
    }: {
      readonly set?: Place & { readonly node: Node };
      readonly removed?: Place & { readonly node: Node };
      readonly replaced?: Node | undefined;
    },
    now: number | undefined,
  ): void {
    const number = this.#nextChange();
    const { kind } = (set ?? removed)!.node;
    let change: NameChange = { number, isDirectory: kind === "directory" };
    if (removed !== undefined) {
      const directory = this.#directoryToChange(removed.directory.inode);
      directory.names.delete(removed.name);
      directory.mtimeMs = now ?? number;
      change = { ...change, removed: halfOf(removed) };
    }
    if (set !== undefined) {
      const directory = this.#directoryToChange(set.directory.inode);
      directory.names.set(set.name, set.node.inode);
      directory.mtimeMs = now ?? number;
      change = { ...change, set: halfOf(set) };
    }
    if (replaced?.kind === "directory") change = { ...change, replacedDirectory: replaced.inode };
    this.#nameLog.note(change);
    const lost = set === undefined ? removed!.node : replaced;
    if (lost !== undefined) this.#loseName(lost.inode);
  }

  /** A name of it is gone. Was it the last, and is it open nowhere, its space comes back. */
  #loseName(inode: number): void {
    for (const node of this.#nodes) {
      if (node?.kind !== "directory") continue;
      for (const other of node.names.values()) if (other === inode) return;
    }
    this.#nameless.add(inode);
    if (this.#handlesOf(inode) > 0) return;
    this.#giveBack(inode);
    this.#sweep();
  }

  #giveBack(inode: number): void {
    const node = this.#node(inode);
    if (node.kind === "file") this.#usedBlocks -= node.blocks.count;
  }

  /** Forgets inodes that nothing leads to and that no power cut brings back. */
  #sweep(): void {
    for (const inode of this.#nameless) {
      if (this.#handlesOf(inode) > 0 || this.#nameLog.leadsTo(inode)) continue;
      let isDurable = false;
      for (const node of this.#nodes) {
        if (node?.kind !== "directory") continue;
        for (const other of node.durable.values()) isDurable ||= other === inode;
      }
      if (isDurable) continue;
      this.#nodes[inode] = undefined;
      this.#nameless.delete(inode);
    }
  }

  #find(path: string, syscall: string): Node {
    const { node } = this.#locate(path, syscall);
    if (node === undefined) throw systemError("ENOENT", syscall, path);
    return node;
  }

  /** @param blamed The path that an error names. */
  #locate(path: string, syscall: string, blamed = path): Place {
    if (!path.startsWith("/")) throw new TypeError(`Path must be absolute: "${path}"`);
    let directory = this.#node(ROOT_INODE) as SimulatedDirectory;
    let place: Place = { directory, name: "", node: directory };
    for (let from = 1; from < path.length; ) {
      let to = path.indexOf("/", from);
      if (to === -1) to = path.length;
      const name = path.slice(from, to);
      from = to + 1;
      if (name === "" || name === ".") continue;
      if (place.node === undefined) throw systemError("ENOENT", syscall, blamed);
      if (place.node.kind === "file") throw systemError("ENOTDIR", syscall, blamed);
      if (name.length > NAME_BYTES_MAX / 3 && Buffer.byteLength(name) > NAME_BYTES_MAX) {
        throw systemError("ENAMETOOLONG", syscall, blamed);
      }
      directory = place.node;
      const inode = directory.names.get(name);
      place = { directory, name, node: inode === undefined ? undefined : this.#node(inode) };
    }
    return place;
  }

  /** Whether the path leads through this directory, to something below it. */
  #isBelow(path: string, directory: SimulatedDirectory): boolean {
    for (let above = parentOf(path); above !== "/"; above = parentOf(above)) {
      if (this.#find(above, "rename") === directory) return true;
    }
    return false;
  }
}

function halfOf({ directory, name, node }: Place & { readonly node: Node }) {
  return { directory: directory.inode, name, inode: node.inode };
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}
