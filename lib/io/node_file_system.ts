/**
 * The seam on the real system: `node:fs` on raw descriptors, and the addon or its stand-ins for
 * what Node has no name for.
 *
 * @module
 */

import * as fs from "node:fs";
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
import { BYTES_PER_CALL_MAX, partOf, totalBytes, writeFully } from "./fully.ts";
import { GatheredCalls } from "./gathered_calls.ts";
import { loadNativeBinding, type NativeBinding, standIns } from "./native_binding.ts";
import * as calls from "./node_calls.ts";
import { settle } from "./node_calls.ts";
import { hasCode, systemError } from "./system_error.ts";

/** Most buffers of one call (`UIO_MAXIOV`, include/uapi/linux/uio.h). */
const BUFFERS_PER_CALL_MAX = 1024;

/** Bytes 0 and 1 of the lock file. RocketMQ takes byte 0: `lockFile.getChannel().tryLock(0, 1, false)`. */
const LOCK_START = 0;
const LOCK_LENGTH = 2;

const OPEN_FLAGS: Readonly<Record<OpenMode, number>> = {
  read: fs.constants.O_RDONLY,
  write: fs.constants.O_RDWR,
  create: fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_EXCL,
};

export interface NodeFileSystemOptions {
  /**
   * The calls beyond `node:fs`; `"off"` for the stand-ins alone.
   * @default the addon, where it loads
   */
  readonly native?: NativeBinding | "off";
}

/** The system's own files. Any number of them may be used side by side. */
export class NodeFileSystem implements FileSystem {
  readonly #native: NativeBinding;
  readonly #gathered: GatheredCalls;

  constructor({ native = loadNativeBinding() ?? "off" }: NodeFileSystemOptions = {}) {
    this.#native = native === "off" ? standIns : native;
    this.#gathered = new GatheredCalls(this.#native);
  }

  async open(path: string, mode: OpenMode): Promise<FileHandle> {
    return this.#handle(await this.#gathered.open(path, OPEN_FLAGS[mode]), path);
  }

  #handle(fd: number, path: string): NodeFileHandle {
    return new NodeFileHandle(fd, path, this.#native, this.#gathered);
  }

  mkdir(path: string): Promise<void> {
    return this.#gathered.mkdir(path);
  }

  rmdir(path: string): Promise<void> {
    return this.#gathered.rmdir(path);
  }

  async readdir(path: string, more?: "stats"): Promise<DirectoryEntry[]> {
    const entries = await this.#gathered.readdir(path, more);
    for (const entry of entries) {
      // A link counts as what it leads to: a folder may have been moved to another disk.
      if (entry.kind === "link") entry.kind = await this.#kindBehind(path, entry.name);
    }
    return entries as DirectoryEntry[];
  }

  stat(path: string): Promise<FileStat> {
    return this.#gathered.stat(path);
  }

  async statfs(path: string): Promise<FileSystemSpace> {
    const { bsize, blocks, bfree, bavail } = await settle<fs.StatsFs>((done) =>
      fs.statfs(path, done),
    );
    return {
      totalBytes: blocks * bsize,
      freeBytes: bfree * bsize,
      availableBytes: bavail * bsize,
    };
  }

  rename(from: string, to: string): Promise<void> {
    return this.#gathered.rename(from, to);
  }

  unlink(path: string): Promise<void> {
    return this.#gathered.unlink(path);
  }

  async syncDirectory(path: string): Promise<void> {
    try {
      await this.#gathered.syncDirectory(path);
    } catch (error) {
      // A file system that has no such thing as the sync of a directory says so with one of these
      // (EINVAL: fsync(2), "fd is bound to a special file which does not support synchronization").
      // It keeps its names in its own way, and no store of ours could do better. Anything else is
      // a directory that may not be durable.
      if (!hasCode(error, "EINVAL", "ENOTSUP") || error.syscall !== "fsync") throw error;
    }
  }

  /**
   * Takes an open-file-description lock, which a Java broker's record lock conflicts with, and a
   * `flock` beside it, which a store of ours without the addon can see.
   *
   * Unlike a POSIX record lock neither is dropped when something else in this process opens the
   * file and closes it again, and both keep out a second store of the same process. The kernel
   * releases them when the process ends, however it ends.
   */
  async lock(path: string): Promise<FileLock> {
    const fd = await this.#gathered.open(path, fs.constants.O_RDWR | fs.constants.O_CREAT);
    const handle = this.#handle(fd, path);
    try {
      return new NodeFileLock(handle, this.#lockFd(fd, path));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  #lockFd(fd: number, path: string): FileLock["excludes"] {
    const ofd = whereSupported(() => this.#native.setOfdLock(fd, LOCK_START, LOCK_LENGTH));
    if (ofd === false) {
      const holderPid = this.#native.getPosixLockHolder(fd, LOCK_START, LOCK_LENGTH);
      throw Object.assign(systemError("EAGAIN", "lock", path), holderPid > 0 ? { holderPid } : {});
    }
    const flock = whereSupported(() => this.#native.flock(fd));
    if (flock === false) throw systemError("EAGAIN", "lock", path);
    if (ofd === undefined && flock === undefined) throw systemError("ENOLCK", "lock", path);
    return ofd === true ? "ofd" : "flock";
  }

  async #kindBehind(directory: string, name: string): Promise<FileStat["kind"]> {
    try {
      return (await this.stat(`${directory}/${name}`)).kind;
    } catch (error) {
      if (hasCode(error, "ENOENT", "ELOOP")) return "other";
      throw error;
    }
  }
}

/** An open descriptor, and how many calls on it are under way. */
class NodeFileHandle implements FileHandle {
  readonly path: string;
  readonly #fd: number;
  readonly #native: NativeBinding;
  readonly #gathered: GatheredCalls;
  #underWay = 0;
  #closed: Promise<void> | undefined;
  #whenIdle: (() => void) | undefined;

  constructor(fd: number, path: string, native: NativeBinding, gathered: GatheredCalls) {
    this.#fd = fd;
    this.path = path;
    this.#native = native;
    this.#gathered = gathered;
  }

  pwritev(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.#during("pwritev", (fd) =>
      this.#native.pwritev(fd, withinLimits(buffers), position),
    );
  }

  pwritevNow(buffers: readonly Uint8Array[], position: number): number {
    return calls.pwritevNow(this.#openFd("pwritev"), withinLimits(buffers), position);
  }

  pread(buffer: Uint8Array, position: number): Promise<number> {
    const part = buffer.subarray(0, BYTES_PER_CALL_MAX);
    return this.#during("pread", (fd) => calls.pread(fd, part, position));
  }

  preadIfCached(buffer: Uint8Array, position: number): number {
    return this.#native.preadv2NoWait(this.#openFd("preadv2"), buffer, position);
  }

  preadEachIfCached(buffer: Uint8Array, ranges: Float64Array): number {
    return this.#native.preadEachNoWait(this.#openFd("preadv2"), buffer, ranges);
  }

  nextData(position: number): Promise<number> {
    return this.#during("lseek", (fd) =>
      this.#gathered.nextData(fd, position, async () => {
        const found = await this.#lseekData(fd, position);
        return found === -1 ? (await this.#gathered.fstat(fd)).size : found;
      }),
    );
  }

  fdatasync(): Promise<void> {
    return this.#during("fdatasync", (fd) => this.#native.fdatasync(fd));
  }

  commitAndForce(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.#during("pwritev", (fd) => {
      const part = withinLimits(buffers);
      // What is cut short here must not look complete to the binding: it would sync.
      return part === buffers
        ? this.#native.pwritevThenFdatasync(fd, part, position)
        : this.#native.pwritev(fd, part, position);
    });
  }

  ftruncate(size: number): Promise<void> {
    return this.#during("ftruncate", (fd) => this.#gathered.ftruncate(fd, size));
  }

  allocate(position: number, length: number): Promise<void> {
    return this.#during("fallocate", (fd) =>
      this.#native.fallocate(fd, "allocate", position, length),
    );
  }

  punch(position: number, length: number): Promise<void> {
    return this.#during("fallocate", (fd) => this.#native.fallocate(fd, "punch", position, length));
  }

  advise(position: number, length: number, advice: Advice): Promise<void> {
    return this.#during("posix_fadvise", (fd) =>
      this.#native.posixFadvise(fd, position, length, advice),
    );
  }

  stat(): Promise<FileStat> {
    return this.#during("fstat", (fd) => this.#gathered.fstat(fd));
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /**
   * The number of the descriptor goes to the next file that is opened as soon as this one is
   * closed, so nothing may still be on its way to it.
   */
  async #close(): Promise<void> {
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
    await this.#gathered.close(this.#fd);
  }

  async #lseekData(fd: number, position: number): Promise<number> {
    try {
      return await this.#native.lseekData(fd, position);
    } catch (error) {
      // A file system that knows no SEEK_DATA.
      if (!hasCode(error, "EINVAL", "ENOSYS", "EOPNOTSUPP")) throw error;
      return standIns.lseekData(fd, position);
    }
  }

  #openFd(syscall: string): number {
    if (this.#closed !== undefined) throw systemError("EBADF", syscall, this.path);
    return this.#fd;
  }

  async #during<T>(syscall: string, call: (fd: number) => Promise<T>): Promise<T> {
    const fd = this.#openFd(syscall);
    this.#underWay += 1;
    try {
      return await call(fd);
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#whenIdle?.();
    }
  }
}

class NodeFileLock implements FileLock {
  readonly excludes: FileLock["excludes"];
  readonly #handle: FileHandle;

  constructor(handle: FileHandle, excludes: FileLock["excludes"]) {
    this.#handle = handle;
    this.excludes = excludes;
  }

  async write(content: Uint8Array): Promise<void> {
    await writeFully(this.#handle, [content], 0);
    await this.#handle.ftruncate(content.length);
    await this.#handle.fdatasync();
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

/**
 * The same array unless one call can't take it all; then the part that it can. The caller gets a
 * short count and goes on, as after any other short write.
 */
function withinLimits(buffers: readonly Uint8Array[]): readonly Uint8Array[] {
  const fits = buffers.length <= BUFFERS_PER_CALL_MAX && totalBytes(buffers) <= BYTES_PER_CALL_MAX;
  return fits ? buffers : partOf(buffers, 0, BYTES_PER_CALL_MAX, BUFFERS_PER_CALL_MAX);
}

/** The call's answer, or undefined where this system or this file system has no such call. */
function whereSupported<T>(call: () => T): T | undefined {
  try {
    return call();
  } catch (error) {
    if (hasCode(error, "ENOSYS", "EINVAL", "EOPNOTSUPP", "ENOLCK")) return undefined;
    throw error;
  }
}
