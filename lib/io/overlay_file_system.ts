/**
 * A file system that reads through to another and keeps every change in memory: how a read-only
 * verb sees a store as it would be after its recovery, without a byte changed on disk.
 *
 * Files beneath are opened for reading only, nothing is synced, and no lock is taken, so it may
 * stand beside a live broker. It is then no snapshot: the size of a file is the one found when the
 * file was first seen, new files show up, and bytes that were not written here are those that lie
 * beneath at the moment of the read. A file that is removed beneath fails to open with `ENOENT`.
 *
 * @module
 */

import { dirname, join, sep } from "node:path";
import { type Clock, systemClock } from "./clock.ts";
import type {
  Advice,
  DirectoryEntry,
  FileHandle,
  FileLock,
  FileStat,
  FileSystem,
  FileSystemSpace,
  OpenMode,
} from "./file_system.ts";
import { preadEachIfCached, readFully, totalBytes } from "./fully.ts";
import { OverlayPages } from "./overlay_pages.ts";
import { hasCode, systemError } from "./system_error.ts";

export class OverlayFileSystem implements FileSystem {
  readonly #base: FileSystem;
  readonly #clock: Clock;
  readonly #root: OverlayDirectory;

  /** @param clock Dates the changes that are made here. */
  constructor(base: FileSystem, clock: Clock = systemClock) {
    this.#base = base;
    this.#clock = clock;
    this.#root = new OverlayDirectory(base, sep);
  }

  async open(path: string, mode: OpenMode): Promise<FileHandle> {
    const place = await this.#locate(path, "open");
    let node = place.node;
    if (mode === "create") {
      if (node !== undefined) throw systemError("EEXIST", "open", path);
      node = OverlayFile.empty(this.#clock.now());
      place.directory.entries.set(place.name, node);
    }
    if (node === undefined) throw systemError("ENOENT", "open", path);
    if (node instanceof OverlayDirectory) throw systemError("EISDIR", "open", path);
    const beneath =
      node.basePath === undefined ? undefined : await this.#base.open(node.basePath, "read");
    return new OverlayFileHandle(path, node, beneath, mode !== "read", this.#clock);
  }

  async mkdir(path: string): Promise<void> {
    const place = await this.#locate(path, "mkdir");
    if (place.node !== undefined) throw systemError("EEXIST", "mkdir", path);
    place.directory.entries.set(place.name, new OverlayDirectory(this.#base));
  }

  async rmdir(path: string): Promise<void> {
    const place = await this.#locate(path, "rmdir");
    if (place.node === undefined) throw systemError("ENOENT", "rmdir", path);
    if (!(place.node instanceof OverlayDirectory)) throw systemError("ENOTDIR", "rmdir", path);
    if ((await place.node.list()).length > 0) throw systemError("ENOTEMPTY", "rmdir", path);
    place.directory.entries.set(place.name, undefined);
  }

  async readdir(path: string): Promise<DirectoryEntry[]> {
    const node = await this.#find(path, "scandir");
    if (!(node instanceof OverlayDirectory)) throw systemError("ENOTDIR", "scandir", path);
    return node.list();
  }

  async stat(path: string): Promise<FileStat> {
    return (await this.#find(path, "stat")).stat();
  }

  /** Space of the file system beneath. */
  async statfs(path: string): Promise<FileSystemSpace> {
    try {
      return await this.#base.statfs(path);
    } catch (error) {
      const parent = dirname(path);
      if (!hasCode(error, "ENOENT") || parent === path) throw error;
      return this.statfs(parent);
    }
  }

  async rename(from: string, to: string): Promise<void> {
    const source = await this.#locate(from, "rename");
    const target = await this.#locate(to, "rename");
    const [moved, replaced] = [source.node, target.node];
    if (moved === undefined) throw systemError("ENOENT", "rename", from);
    if (moved === replaced) return;
    if (moved instanceof OverlayDirectory) {
      if (to.startsWith(`${from}${sep}`)) throw systemError("EINVAL", "rename", from);
      if (replaced instanceof OverlayFile) throw systemError("ENOTDIR", "rename", to);
      const inTheWay = (await replaced?.list()) ?? [];
      if (inTheWay.length > 0) throw systemError("ENOTEMPTY", "rename", to);
    } else if (replaced instanceof OverlayDirectory) {
      throw systemError("EISDIR", "rename", to);
    }
    source.directory.entries.set(source.name, undefined);
    target.directory.entries.set(target.name, moved);
  }

  async unlink(path: string): Promise<void> {
    const place = await this.#locate(path, "unlink");
    if (place.node === undefined) throw systemError("ENOENT", "unlink", path);
    if (place.node instanceof OverlayDirectory) throw systemError("EISDIR", "unlink", path);
    place.directory.entries.set(place.name, undefined);
  }

  async syncDirectory(path: string): Promise<void> {
    await this.#find(path, "open");
  }

  /** Takes no lock, so that none is missing to a live broker; claims to exclude everybody. */
  async lock(): Promise<FileLock> {
    return { excludes: "ofd", write: async () => {}, close: async () => {} };
  }

  async #find(path: string, syscall: string): Promise<OverlayNode> {
    const { node } = await this.#locate(path, syscall);
    if (node === undefined) throw systemError("ENOENT", syscall, path);
    return node;
  }

  /**
   * Walks down to the directory that `path` lies in. `node` is read at the time of asking: another
   * call may have been faster.
   */
  async #locate(path: string, syscall: string): Promise<Place> {
    const names = path.split(sep).filter((name) => name !== "");
    const last = names.pop();
    if (last === undefined) {
      const node = this.#root;
      return { directory: node, name: "", node };
    }
    let directory = this.#root;
    for (const name of names) {
      const node = await directory.look(name);
      if (node === undefined) throw systemError("ENOENT", syscall, path);
      if (!(node instanceof OverlayDirectory)) throw systemError("ENOTDIR", syscall, path);
      directory = node;
    }
    await directory.look(last);
    return {
      directory,
      name: last,
      get node() {
        return directory.entries.get(last);
      },
    };
  }
}

/** A name in a directory, and what bears it: undefined if nothing does. */
interface Place {
  readonly directory: OverlayDirectory;
  readonly name: string;
  readonly node: OverlayNode | undefined;
}

type OverlayNode = OverlayDirectory | OverlayFile;

let nodesMade = 0;

function nextIdentity(): string {
  nodesMade += 1;
  return `overlay:${nodesMade}`;
}

class OverlayDirectory {
  readonly kind = "directory";
  /** The directory beneath, if it was not made here. */
  readonly #basePath: string | undefined;
  readonly #base: FileSystem;
  readonly #identity = nextIdentity();
  /** What was made, renamed or looked at here; undefined under a name means that it was removed. */
  readonly entries = new Map<string, OverlayNode | undefined>();

  constructor(base: FileSystem, basePath?: string) {
    this.#base = base;
    this.#basePath = basePath;
  }

  /** What bears the name; from now on it is in `entries`, if there is something. */
  async look(name: string): Promise<OverlayNode | undefined> {
    if (this.#basePath === undefined || this.entries.has(name)) return this.entries.get(name);
    const path = join(this.#basePath, name);
    let stat: FileStat;
    try {
      stat = await this.#base.stat(path);
    } catch (error) {
      if (hasCode(error, "ENOENT")) return this.entries.get(name);
      throw error;
    }
    // Another look, or a change, may have come first.
    if (!this.entries.has(name)) {
      const isDirectory = stat.kind === "directory";
      const node = isDirectory
        ? new OverlayDirectory(this.#base, path)
        : new OverlayFile(stat, path);
      this.entries.set(name, node);
    }
    return this.entries.get(name);
  }

  async list(): Promise<DirectoryEntry[]> {
    const beneath = this.#basePath === undefined ? [] : await this.#base.readdir(this.#basePath);
    const list = beneath.filter(({ name }) => !this.entries.has(name));
    for (const [name, node] of this.entries)
      if (node !== undefined) list.push({ name, kind: node.kind });
    return list;
  }

  async stat(): Promise<FileStat> {
    if (this.#basePath !== undefined) return this.#base.stat(this.#basePath);
    return { kind: "directory", size: 0, allocatedBytes: 0, identity: this.#identity, mtimeMs: 0 };
  }
}

/** A file: what lies beneath up to `baseEnd`, zeros from there on, and the pages over both. */
class OverlayFile {
  readonly kind: FileStat["kind"];
  readonly pages = new OverlayPages();
  /** The file beneath, if it was not made here. */
  readonly basePath: string | undefined;
  readonly #identity: string;
  readonly #baseAllocatedBytes: number;
  #size: number;
  #baseEnd: number;
  #mtimeMs: number;

  constructor(stat: FileStat, basePath?: string) {
    this.kind = stat.kind;
    this.basePath = basePath;
    this.#identity = stat.identity;
    this.#baseAllocatedBytes = stat.allocatedBytes;
    this.#size = stat.size;
    this.#baseEnd = stat.size;
    this.#mtimeMs = stat.mtimeMs;
  }

  static empty(mtimeMs: number): OverlayFile {
    const identity = nextIdentity();
    return new OverlayFile({ kind: "file", size: 0, allocatedBytes: 0, identity, mtimeMs });
  }

  get size(): number {
    return this.#size;
  }

  /** Bytes from the start of the file that lie beneath, where they were not written over. */
  get baseEnd(): number {
    return this.#baseEnd;
  }

  write(buffers: readonly Uint8Array[], position: number, now: number): number {
    let end = position;
    for (const buffer of buffers) {
      this.pages.write(buffer, end);
      end += buffer.length;
    }
    if (end > position) this.#size = Math.max(this.#size, end);
    this.#mtimeMs = now;
    return end - position;
  }

  zero(position: number, length: number, now: number): void {
    this.pages.zero(position, Math.min(position + length, this.#size));
    this.#mtimeMs = now;
  }

  truncate(size: number, now: number): void {
    this.pages.truncate(size);
    this.#baseEnd = Math.min(this.#baseEnd, size);
    this.#size = size;
    this.#mtimeMs = now;
  }

  async stat(): Promise<FileStat> {
    return {
      kind: this.kind,
      size: this.#size,
      allocatedBytes: this.#baseAllocatedBytes + this.pages.heldBytes,
      identity: this.#identity,
      mtimeMs: this.#mtimeMs,
    };
  }
}

class OverlayFileHandle implements FileHandle {
  readonly path: string;
  readonly #file: OverlayFile;
  readonly #beneath: FileHandle | undefined;
  readonly #writable: boolean;
  readonly #clock: Clock;
  #closed: Promise<void> | undefined;

  constructor(
    path: string,
    file: OverlayFile,
    beneath: FileHandle | undefined,
    writable: boolean,
    clock: Clock,
  ) {
    this.path = path;
    this.#file = file;
    this.#beneath = beneath;
    this.#writable = writable;
    this.#clock = clock;
  }

  async pwritev(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.pwritevNow(buffers, position);
  }

  pwritevNow(buffers: readonly Uint8Array[], position: number): number {
    this.#check("pwritev", { writes: true });
    return totalBytes(buffers) === 0 ? 0 : this.#file.write(buffers, position, this.#clock.now());
  }

  async pread(buffer: Uint8Array, position: number): Promise<number> {
    this.#check("pread");
    const { whole, fromBase } = this.#parts(buffer, position);
    if (fromBase !== undefined) {
      const count = await readFully(this.#beneath!, fromBase, position);
      whole.fill(0, count); // behind baseEnd, or the file beneath was cut meanwhile
    }
    this.#file.pages.patch(whole, position);
    return whole.length;
  }

  preadIfCached(buffer: Uint8Array, position: number): number {
    this.#check("preadv2");
    const { whole, fromBase } = this.#parts(buffer, position);
    let length = whole.length;
    if (fromBase !== undefined) {
      const count = this.#beneath!.preadIfCached(fromBase, position);
      if (count <= 0) return -1;
      if (count === fromBase.length) whole.fill(0, count);
      else length = count;
    }
    this.#file.pages.patch(whole.subarray(0, length), position);
    return length;
  }

  preadEachIfCached(buffer: Uint8Array, ranges: Float64Array): number {
    return preadEachIfCached(this, buffer, ranges);
  }

  async nextData(position: number): Promise<number> {
    this.#check("lseek");
    const isBeneath = position < this.#file.baseEnd;
    const beneath = isBeneath ? await this.#beneath!.nextData(position) : position;
    const { size, baseEnd, pages } = this.#file;
    // Behind baseEnd nothing is seen of it; it ends before `position` if it was cut meanwhile.
    const seen = position <= beneath && beneath < baseEnd ? beneath : size;
    return Math.min(seen, pages.nextData(position));
  }

  async fdatasync(): Promise<void> {
    this.#check("fdatasync");
  }

  commitAndForce(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.pwritev(buffers, position);
  }

  async ftruncate(size: number): Promise<void> {
    this.#check("ftruncate", { writes: true });
    this.#file.truncate(size, this.#clock.now());
  }

  async allocate(_position: number, _length: number): Promise<void> {
    this.#check("fallocate", { writes: true });
  }

  async punch(position: number, length: number): Promise<void> {
    this.#check("fallocate", { writes: true });
    this.#file.zero(position, length, this.#clock.now());
  }

  async advise(position: number, length: number, advice: Advice): Promise<void> {
    this.#check("posix_fadvise");
    await this.#beneath?.advise(position, length, advice);
  }

  async stat(): Promise<FileStat> {
    this.#check("fstat");
    return this.#file.stat();
  }

  close(): Promise<void> {
    this.#closed ??= this.#beneath?.close() ?? Promise.resolve();
    return this.#closed;
  }

  #check(syscall: string, { writes = false } = {}): void {
    if (this.#closed !== undefined || (writes && !this.#writable)) {
      throw systemError("EBADF", syscall, this.path);
    }
  }

  /**
   * The part of `buffer` that the file reaches, and of that the part to be read from beneath:
   * undefined if every byte is at hand. Zeros are written where nothing lies beneath.
   */
  #parts(buffer: Uint8Array, position: number) {
    const { size, baseEnd, pages } = this.#file;
    const whole = buffer.subarray(0, Math.max(0, size - position));
    if (pages.covers(position, position + whole.length)) return { whole };
    const baseLength = Math.min(whole.length, Math.max(0, baseEnd - position));
    if (baseLength > 0) return { whole, fromBase: whole.subarray(0, baseLength) };
    whole.fill(0);
    return { whole };
  }
}
