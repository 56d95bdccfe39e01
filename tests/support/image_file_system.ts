/**
 * A file system on a {@linkcode StoreImage}: answers as Linux does, and watches what is asked of it.
 *
 * @module
 */

import { join } from "node:path";
import type {
  DirectoryEntry,
  FileHandle,
  FileLock,
  FileStat,
  FileSystem,
  FileSystemSpace,
  OpenMode,
} from "../../lib/io/file_system.ts";
import { preadEachIfCached, totalBytes } from "../../lib/io/fully.ts";
import { systemError } from "../../lib/io/system_error.ts";
import {
  directoryOf,
  fileOf,
  type ImageDirectory,
  type ImageFile,
  type ImageLink,
  type ImageNode,
  readFile,
  resizeFile,
  type StoreImage,
  writeFile,
} from "./store_image.ts";

/** Links followed on one path (`MAXSYMLINKS`, include/linux/namei.h). */
const LINKS_MAX = 40;

/**
 * A read may be given a buffer that reaches so far behind the end of its file, in bytes: what is read of
 * a small file of unknown length is read into one of this size.
 */
export const READ_BEHIND_MAX = 4096;

/** A system call that no careful store makes. */
export class SeamViolation extends Error {
  override readonly name = "SeamViolation";
}

export interface ImageFileSystemOptions {
  /** Whether `preadIfCached` finds anything. @default true */
  readonly cached?: boolean;
  /** At most so many bytes a call, as a kernel may. @default no limit */
  readonly shortBytes?: number;
  /** System calls after which the file system answers no more. @default no limit */
  readonly callsMax?: number;
  /** The same for bytes that are read. @default no limit */
  readonly bytesReadMax?: number;
}

export class ImageFileSystem implements FileSystem {
  readonly image: StoreImage;
  /** Where the image's root lies. */
  readonly root: string;
  readonly options: ImageFileSystemOptions;
  /** What was asked that should never be. */
  readonly violations: SeamViolation[] = [];
  /** Calls that began; bytes that were read and written. */
  calls = 0;
  bytesRead = 0;
  bytesWritten = 0;
  /** Calls that change something. */
  changes = 0;
  openHandles = 0;
  /** Told, with what was too much, once nothing is answered any more. */
  exhausted: ((why: string) => void) | undefined;
  readonly #identities = new WeakMap<object, string>();
  readonly #locked = new WeakSet<ImageFile>();
  readonly #outside: ImageDirectory;
  #made = 0;

  constructor(image: StoreImage, root = "/store", options: ImageFileSystemOptions = {}) {
    this.image = image;
    this.root = root;
    this.options = options;
    this.#outside = directoryOf([["store", image.root]]);
  }

  async open(path: string, mode: OpenMode): Promise<FileHandle> {
    await this.count();
    const place = this.#locate(path, "open");
    let { node } = place;
    if (mode === "create") {
      if (node !== undefined || place.link) throw systemError("EEXIST", "open", path);
      node = fileOf(Buffer.alloc(0));
      this.#enter(place, node, path, "open");
    }
    if (node === undefined) throw systemError("ENOENT", "open", path);
    if (node.kind === "other") {
      this.#violated(`opens ${path}, which is no file: that may wait for ever`);
      throw systemError("ENXIO", "open", path);
    }
    if (node.denied) throw systemError("EACCES", "open", path);
    if (node.kind === "directory" && mode !== "read") throw systemError("EISDIR", "open", path);
    return new ImageFileHandle(this, path, node, mode !== "read");
  }

  async mkdir(path: string): Promise<void> {
    await this.count();
    const place = this.#locate(path, "mkdir");
    if (place.node !== undefined || place.link) throw systemError("EEXIST", "mkdir", path);
    this.#enter(place, directoryOf(), path, "mkdir");
  }

  async rmdir(path: string): Promise<void> {
    await this.count();
    const { node, parent, name } = this.#locate(path, "rmdir", false);
    if (node === undefined) throw systemError("ENOENT", "rmdir", path);
    if (node.kind !== "directory") throw systemError("ENOTDIR", "rmdir", path);
    if (node.entries.size > 0) throw systemError("ENOTEMPTY", "rmdir", path);
    this.#change(path);
    parent.entries.delete(name);
  }

  async readdir(path: string): Promise<DirectoryEntry[]> {
    await this.count();
    const { node } = this.#locate(path, "scandir");
    if (node === undefined) throw systemError("ENOENT", "scandir", path);
    if (node.kind !== "directory") throw systemError("ENOTDIR", "scandir", path);
    if (node.denied) throw systemError("EACCES", "scandir", path);
    return [...node.entries].map(([name, child]) => ({
      name,
      kind: child.kind === "link" ? this.#kindBehind(join(path, name)) : child.kind,
    }));
  }

  async stat(path: string): Promise<FileStat> {
    await this.count();
    const { node } = this.#locate(path, "stat");
    if (node === undefined) throw systemError("ENOENT", "stat", path);
    return this.statOf(node);
  }

  async statfs(): Promise<FileSystemSpace> {
    return { totalBytes: 2 ** 40, freeBytes: 2 ** 39, availableBytes: 2 ** 39 };
  }

  async rename(from: string, to: string): Promise<void> {
    await this.count();
    const source = this.#locate(from, "rename", false);
    const target = this.#locate(to, "rename", false);
    const moved = source.here;
    if (moved === undefined) throw systemError("ENOENT", "rename", from);
    if (moved.kind !== "directory" && target.here?.kind === "directory") {
      throw systemError("EISDIR", "rename", from);
    }
    if (moved.kind === "directory" && target.here) throw systemError("ENOTDIR", "rename", from);
    this.#change(from);
    this.#enter(target, moved, to, "rename");
    source.parent.entries.delete(source.name);
  }

  async unlink(path: string): Promise<void> {
    await this.count();
    const { here, parent, name } = this.#locate(path, "unlink", false);
    if (here === undefined) throw systemError("ENOENT", "unlink", path);
    if (here.kind === "directory") throw systemError("EISDIR", "unlink", path);
    this.#change(path);
    parent.entries.delete(name);
  }

  async syncDirectory(path: string): Promise<void> {
    await this.count();
    const { node } = this.#locate(path, "open");
    if (node === undefined) throw systemError("ENOENT", "open", path);
    if (node.kind === "directory" && node.denied) throw systemError("EACCES", "open", path);
  }

  async lock(path: string): Promise<FileLock> {
    await this.count();
    const place = this.#locate(path, "open");
    const found = place.node;
    if (found?.kind === "directory") throw systemError("EISDIR", "open", path);
    if (found?.kind === "other") throw systemError("ENXIO", "open", path);
    if (found?.denied) throw systemError("EACCES", "open", path);
    const file = found ?? fileOf(Buffer.alloc(0));
    if (!found) this.#enter(place, file, path, "open");
    if (this.#locked.has(file)) throw systemError("EAGAIN", "lock", path);
    this.#locked.add(file);
    const handle = new ImageFileHandle(this, path, file, true);
    return {
      excludes: "ofd",
      write: async (content) => {
        await handle.pwritev([content], 0);
        await handle.ftruncate(content.length);
      },
      close: async () => {
        this.#locked.delete(file);
        await handle.close();
      },
    };
  }

  /** Counts a call; behind the last one that is allowed none is answered. */
  count(): Promise<void> | undefined {
    this.calls++;
    const { callsMax = Number.POSITIVE_INFINITY } = this.options;
    const { bytesReadMax = Number.POSITIVE_INFINITY } = this.options;
    if (this.calls <= callsMax && this.bytesRead <= bytesReadMax) return undefined;
    const isCalls = this.calls > callsMax;
    this.exhausted?.(isCalls ? `${callsMax} system calls` : `reads of ${bytesReadMax} bytes`);
    return new Promise(() => undefined);
  }

  countNow(): void {
    if (this.count()) throw new SeamViolation("The store asks for more and more");
  }

  statOf(node: ImageFile | ImageDirectory | { readonly kind: "other" }): FileStat {
    let identity = this.#identities.get(node);
    if (identity === undefined) {
      identity = `image:${++this.#made}`;
      this.#identities.set(node, identity);
    }
    const file = node.kind === "file" ? node : undefined;
    return {
      kind: node.kind,
      size: file?.size ?? 0,
      allocatedBytes: Math.ceil((file?.bytes.length ?? 0) / 4096) * 4096,
      identity,
      mtimeMs: 0,
    };
  }

  /** Watches a read of `length` bytes. */
  reads(path: string, file: ImageFile, position: number, length: number): void {
    if (!Number.isSafeInteger(position) || position < 0) {
      this.#violated(`reads ${path} at ${position}`);
      throw systemError("EINVAL", "pread", path);
    }
    if (position + length > file.size + READ_BEHIND_MAX) {
      this.#violated(`reads ${length} bytes of ${path} at ${position}, but it has ${file.size}`);
    }
  }

  /** Watches a write. */
  writes(path: string, position: number, length: number): void {
    if (!Number.isSafeInteger(position) || position < 0) {
      this.#violated(`writes ${path} at ${position}`);
      throw systemError("EINVAL", "pwritev", path);
    }
    this.#change(path);
    this.bytesWritten += length;
  }

  resizes(path: string): void {
    this.#change(path);
  }

  #change(path: string): void {
    this.changes++;
    if (!join(path).startsWith(`${this.root}/`))
      this.#violated(`changes ${path}, outside of the store`);
  }

  #violated(what: string): void {
    this.violations.push(new SeamViolation(`The store ${what}`));
  }

  #enter(place: Place, node: ImageNode, path: string, syscall: string): void {
    if (place.parent.denied) throw systemError("EACCES", syscall, path);
    if (Buffer.byteLength(place.name) > 255) throw systemError("ENAMETOOLONG", syscall, path);
    this.#change(path);
    if (!ALLOWED_NAMES.test(path.slice(this.root.length))) {
      this.#violated(`makes ${path}, which is no name of a store`);
    }
    place.parent.entries.set(place.name, node);
  }

  #kindBehind(path: string): DirectoryEntry["kind"] {
    try {
      return this.#locate(path, "stat").node?.kind ?? "other";
    } catch {
      return "other";
    }
  }

  /** Walks down to what `path` names; the last name's link is followed if asked. */
  #locate(path: string, syscall: string, follow = true): Place {
    if (path.includes("\0")) {
      throw new TypeError(`The argument 'path' must be a string without null bytes: ${path}`);
    }
    return this.#walk(path, path, syscall, follow, 0);
  }

  #walk(path: string, asked: string, syscall: string, follow: boolean, links: number): Place {
    if (links > LINKS_MAX) throw systemError("ELOOP", syscall, asked);
    const outside = this.#outside;
    const whole = join("/", path);
    const names = whole.split("/").filter((name) => name !== "");
    let node: ImageNode | undefined = outside;
    let parent = outside;
    let at = "";
    for (const [i, name] of names.entries()) {
      if (node?.kind !== "directory") {
        throw systemError(node === undefined ? "ENOENT" : "ENOTDIR", syscall, asked);
      }
      if (node.denied) throw systemError("EACCES", syscall, asked);
      if (Buffer.byteLength(name) > 255) throw systemError("ENAMETOOLONG", syscall, asked);
      parent = node;
      node = parent.entries.get(name);
      if (node?.kind === "link" && (follow || i < names.length - 1)) {
        const link: ImageLink = node;
        const target = link.target.startsWith("/") ? link.target : join(at, link.target);
        const rest = names.slice(i + 1);
        const found = this.#walk(join(target, ...rest), asked, syscall, follow, links + 1);
        return i === names.length - 1 ? { ...found, link: true } : found;
      }
      at = `${at}/${name}`;
    }
    const name = names.at(-1) ?? "";
    const here = names.length === 0 ? outside : parent.entries.get(name);
    const reached = node?.kind === "link" ? undefined : node;
    return { parent, name, here, node: reached, link: false };
  }
}

/** What a store may make: RocketMQ's names, and its own folder. */
const ALLOWED_NAMES =
  /^\/(?:commitlog(?:\/\d{20})?|index(?:\/\d{17})?|(?:consumequeue(?:_ext)?|batchconsumequeue)(?:\/[^/]+(?:\/(?:0|[1-9]\d*)(?:\/\d{20})?)?)?|checkpoint|abort|lock|forcelog(?:\/[^/]+)?)$/;

/** A name in a directory, and what is there. */
interface Place {
  readonly parent: ImageDirectory;
  readonly name: string;
  /** What bears the name, a link included. */
  readonly here: ImageNode | undefined;
  /** What is there, behind any link. */
  readonly node: Exclude<ImageNode, ImageLink> | undefined;
  /** The name itself is a link, though it may lead nowhere. */
  readonly link: boolean;
}

class ImageFileHandle implements FileHandle {
  readonly path: string;
  readonly #fs: ImageFileSystem;
  readonly #node: ImageFile | ImageDirectory;
  readonly #writable: boolean;
  #closed = false;

  constructor(
    fs: ImageFileSystem,
    path: string,
    node: ImageFile | ImageDirectory,
    writable: boolean,
  ) {
    this.#fs = fs;
    this.path = path;
    this.#node = node;
    this.#writable = writable;
    fs.openHandles++;
  }

  async pwritev(buffers: readonly Uint8Array[], position: number): Promise<number> {
    await this.#fs.count();
    return this.#write(buffers, position);
  }

  pwritevNow(buffers: readonly Uint8Array[], position: number): number {
    this.#fs.countNow();
    return this.#write(buffers, position);
  }

  async pread(buffer: Uint8Array, position: number): Promise<number> {
    await this.#fs.count();
    return this.#read(buffer, position);
  }

  preadIfCached(buffer: Uint8Array, position: number): number {
    this.#fs.countNow();
    return this.#fs.options.cached === false ? -1 : this.#read(buffer, position);
  }

  preadEachIfCached(buffer: Uint8Array, ranges: Float64Array): number {
    return preadEachIfCached(this, buffer, ranges);
  }

  async nextData(position: number): Promise<number> {
    await this.#fs.count();
    const file = this.#check("lseek");
    return position < Math.min(file.bytes.length, file.size) ? position : file.size;
  }

  async fdatasync(): Promise<void> {
    await this.#fs.count();
    this.#check("fdatasync");
  }

  commitAndForce(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.pwritev(buffers, position);
  }

  async ftruncate(size: number): Promise<void> {
    await this.#fs.count();
    const file = this.#check("ftruncate", true);
    this.#fs.resizes(this.path);
    resizeFile(file, size);
  }

  async allocate(): Promise<void> {
    await this.#fs.count();
  }

  async punch(position: number, length: number): Promise<void> {
    await this.#fs.count();
    const file = this.#check("fallocate", true);
    const end = Math.min(position + length, file.size);
    this.#fs.writes(this.path, position, end - position);
    if (end > position) writeFile(file, Buffer.alloc(end - position), position);
  }

  async advise(): Promise<void> {
    await this.#fs.count();
  }

  async stat(): Promise<FileStat> {
    await this.#fs.count();
    return this.#fs.statOf(this.#node);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#fs.openHandles--;
  }

  #read(buffer: Uint8Array, position: number): number {
    const file = this.#check("read");
    this.#fs.reads(this.path, file, position, buffer.length);
    const { shortBytes = buffer.length } = this.#fs.options;
    const count = readFile(file, buffer.subarray(0, shortBytes), position);
    this.#fs.bytesRead += count;
    return count;
  }

  #write(buffers: readonly Uint8Array[], position: number): number {
    const file = this.#check("write", true);
    this.#fs.writes(this.path, position, totalBytes(buffers));
    const { shortBytes = Number.POSITIVE_INFINITY } = this.#fs.options;
    let written = 0;
    for (const buffer of buffers) {
      if (written >= shortBytes) break;
      const part = buffer.subarray(0, shortBytes - written);
      if (!writeFile(file, part, position + written))
        throw systemError("ENOSPC", "pwritev", this.path);
      written += part.length;
    }
    return written;
  }

  #check(syscall: string, writes = false): ImageFile {
    if (this.#closed || (writes && !this.#writable)) throw systemError("EBADF", syscall);
    // Node names no path for calls on a descriptor.
    if (this.#node.kind === "directory") throw systemError("EISDIR", syscall);
    return this.#node;
  }
}
