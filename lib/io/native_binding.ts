/**
 * The system calls that Node has no name for, the syncs on threads of their own, and a faster CRC:
 * from the addon (`native/binding.cc`) where it was built, otherwise from stand-ins in TypeScript.
 *
 * A stand-in means the same as the call: what it can do without the addon it does through
 * `node:fs`; a hint it leaves out; anything else it refuses with the code that a system without
 * that call would give (`EOPNOTSUPP`, `ENOSYS`), so that no caller asks which of the two it has.
 *
 * @module
 */

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import type { Advice } from "./file_system.ts";
import { totalBytes } from "./fully.ts";
import * as calls from "./node_calls.ts";
import { hasCode, systemError } from "./system_error.ts";

/** Advice of `madvise(2)`; none of it changes what the memory holds. */
export type MemoryAdvice = "hugepage" | "nohugepage" | "dontdump" | "populate_write" | "willneed";

/**
 * The addon's calls, named and ordered as in the man pages. None has any policy: one system call (one
 * write and one sync, or those that it is given), its result, or Node's error. Those that return
 * promises run on a thread and keep the buffers alive meanwhile; the others run at once where they are
 * called. File descriptors are not checked to be ours. Positions and lengths are bytes, 0 to 2^53 - 1.
 *
 * `pwritevThenFdatasync`, `fdatasync`, `pwritev` and `callEach` have the addon's own threads, for the main
 * thread of Node and for each worker: at most three for the first, which go first, and two for each of
 * the others. What else returns a promise runs on libuv's threads, as the calls of `node:fs` do.
 */
export interface NativeBinding {
  /** At most 1024 buffers (`IOV_MAX`). @returns Bytes written. */
  pwritev(fd: number, buffers: readonly Uint8Array[], position: number): Promise<number>;
  /**
   * `pwritev`, then `fdatasync` if it took every byte, in one hop to a thread. At most 1024 buffers
   * (`IOV_MAX`).
   *
   * @returns Bytes written; fewer than given means that nothing was synced.
   */
  pwritevThenFdatasync(
    fd: number,
    buffers: readonly Uint8Array[],
    position: number,
  ): Promise<number>;
  /** Where that alone reaches no disk, as on macOS, it is the call of `node:fs`, which does. */
  fdatasync(fd: number): Promise<void>;
  /**
   * `"allocate"`: `FALLOC_FL_KEEP_SIZE`; `"punch"`: `FALLOC_FL_PUNCH_HOLE` with it. The length of
   * the file stays as it is in both.
   */
  fallocate(
    fd: number,
    mode: "allocate" | "punch",
    position: number,
    length: number,
  ): Promise<void>;
  posixFadvise(fd: number, position: number, length: number, advice: Advice): Promise<void>;
  /**
   * `lseek` with `SEEK_DATA`: the first position at or behind `position` that may hold data, or -1
   * if there is none. It moves the offset of the open file, which positional calls don't look at.
   */
  lseekData(fd: number, position: number): Promise<number>;
  /**
   * Calls of files and directories, one after the other in one hop to a thread, whatever becomes of those
   * before.
   *
   * @param calls Each a letter, a number, a space and a text, and a NUL behind it:
   *   `o` opens the path with the flags that the number is (mode 0644): the descriptor;
   *   `s` and `f` stat the path or the descriptor: a `FileStat`;
   *   `r` reads the directory: names and kinds, one of which is `"link"`, and of files, if the number is 1, what
   *   `s` answers;
   *   `h` looks behind a hole: the first position, at or behind that which the text is, that may hold data, or
   *   the file's size;
   *   `t` cuts the descriptor to the size that the text is; `c` closes it;
   *   `m` renames the path to that behind it, which has a NUL of its own;
   *   `u` unlinks the path; `k` makes a directory, `x` removes one, `d` syncs one.
   * @returns What they answer, as a JSON array: 0 where nothing else is said, `errno` as a negative number
   *   if the call failed, `null` if the directory to be synced could not be opened, or if the file system knows
   *   no holes.
   */
  callEach(calls: string): Promise<string>;
  /** `preadv2` with `RWF_NOWAIT`: bytes read, 0 at the end of the file, -1 for "it would wait". */
  preadv2NoWait(fd: number, buffer: Uint8Array, position: number): number;
  /**
   * The same for many ranges, each two numbers, position and length: one behind the other into
   * `buffer`.
   *
   * @returns How many there are as a whole: those before the first that would wait, that the file
   *   does not hold, that fails, or that has no room.
   */
  preadEachNoWait(fd: number, buffer: Uint8Array, ranges: Float64Array): number;
  /** zlib's `crc32(bytes.subarray(start, end), seed)`, where it takes a third of its time. */
  crc32(bytes: Uint8Array, start: number, end: number, seed: number): number;
  /**
   * Looks through the records that begin at `start`, which lies at `offset` in the log, up to the first
   * that is not whole beyond doubt: see `record_run.ts`.
   *
   * @param checkCrc Whether to compute CRCs.
   * @param rows Takes eight numbers for each record, and ends the look when it is full.
   * @returns How many records there are. Those that a stand-in leaves out are checked one by one.
   */
  checkRecords(
    bytes: Uint8Array,
    start: number,
    offset: number,
    checkCrc: boolean,
    rows: Float64Array,
  ): number;
  /**
   * Looks at the records that units of a queue lead to, up to the first that is not, beyond doubt, the
   * whole record of just that message: see `record_places.ts`.
   *
   * @param places Four numbers for each record; the first `count` are looked at.
   * @param topic In UTF-8.
   * @param checkCrc Whether to compute CRCs.
   * @returns How many records there are. Those that a stand-in leaves out are checked one by one.
   */
  checkPlaces(
    bytes: Uint8Array,
    places: Float64Array,
    count: number,
    topic: Uint8Array,
    queueId: number,
    checkCrc: boolean,
  ): number;
  /** On the whole pages that lie within `memory`; on none if there is none. */
  madvise(memory: Uint8Array, advice: MemoryAdvice): void;
  mlock(memory: Uint8Array): void;
  munlock(memory: Uint8Array): void;
  /**
   * `fcntl(F_OFD_SETLK)`: an exclusive record lock that belongs to the open file, not to the
   * process. It conflicts with POSIX record locks (Java's `FileLock`).
   *
   * @returns False if another holds a lock in the range.
   */
  setOfdLock(fd: number, start: number, length: number): boolean;
  /**
   * `fcntl(F_OFD_GETLK)`.
   *
   * @returns The process that holds a POSIX record lock in the range; -1 if none does, or if the
   *   lock belongs to an open file.
   */
  getPosixLockHolder(fd: number, start: number, length: number): number;
  /** `flock(LOCK_EX | LOCK_NB)`: false if another holds it. */
  flock(fd: number): boolean;
}

/** What became of the addon, for people: `"loaded from …"`, or why it was not. */
export function nativeBindingStatus(): string {
  return loadOnce().status;
}

/**
 * The addon, or undefined if there is none for this system or `FORCELOG_NATIVE=off` is set.
 *
 * Never throws: see {@linkcode nativeBindingStatus} for the reason. Calls that the addon lacks on
 * this system are filled in from {@linkcode standIns}.
 */
export function loadNativeBinding(): NativeBinding | undefined {
  return loadOnce().binding;
}

/** Every call without the addon. */
export const standIns: NativeBinding = {
  pwritev: calls.pwritev,

  async pwritevThenFdatasync(fd, buffers, position) {
    const count = await calls.pwritev(fd, buffers, position);
    if (count === totalBytes(buffers)) await calls.fdatasync(fd);
    return count;
  },

  fdatasync: calls.fdatasync,

  fallocate: async () => {
    throw systemError("EOPNOTSUPP", "fallocate");
  },

  posixFadvise: async () => {},

  /** As the kernel for a file system that knows no holes: all up to the end is data. */
  lseekData: async (fd, position) => (position < (await calls.size(fd)) ? position : -1),

  /** None: each is made alone. */
  callEach: async () => "[]",

  preadv2NoWait: () => -1,

  preadEachNoWait: () => 0,

  crc32: (bytes, start, end, seed) =>
    crc32(start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end), seed),

  checkRecords: () => 0,

  checkPlaces: () => 0,

  madvise: () => {},

  mlock: () => {
    throw systemError("ENOSYS", "mlock");
  },

  munlock: () => {
    throw systemError("ENOSYS", "munlock");
  },

  setOfdLock: () => {
    throw systemError("ENOSYS", "fcntl");
  },

  getPosixLockHolder: () => -1,

  flock(fd) {
    const flockSync = loadFsExt()?.flockSync;
    if (flockSync === undefined) throw systemError("ENOSYS", "flock");
    try {
      flockSync(fd, "exnb");
      return true;
    } catch (error) {
      if (hasCode(error, "EAGAIN", "EWOULDBLOCK")) return false;
      throw error;
    }
  },
};

interface Loaded {
  readonly binding: NativeBinding | undefined;
  readonly status: string;
}

let loaded: Loaded | undefined;

function loadOnce(): Loaded {
  loaded ??= load();
  return loaded;
}

function load(): Loaded {
  if (process.env.FORCELOG_NATIVE === "off") {
    return { binding: undefined, status: "switched off by FORCELOG_NATIVE=off" };
  }
  const root = packageRoot();
  const candidates = [
    join(root, "build", "Release", "forcelog.node"),
    join(root, "prebuilds", `${process.platform}-${process.arch}`, "forcelog.node"),
  ];
  const reasons: string[] = [];
  for (const path of candidates) {
    try {
      const addon = createRequire(import.meta.url)(path) as Partial<NativeBinding>;
      return { binding: { ...standIns, ...addon }, status: `loaded from ${path}` };
    } catch (error) {
      // The first line: a module that is not there is explained with a stack of who asked for it.
      reasons.push((error instanceof Error ? error.message : String(error)).split("\n", 1)[0]!);
    }
  }
  return { binding: undefined, status: `not loaded: ${reasons.join("; ")}` };
}

/** The nearest folder above this file with a package.json: `lib/` and `dist/lib/` lead to the same. */
function packageRoot(): string {
  let directory = import.meta.dirname;
  while (!existsSync(join(directory, "package.json")) && dirname(directory) !== directory) {
    directory = dirname(directory);
  }
  return directory;
}

interface FsExt {
  flockSync?(fd: number, flags: "exnb"): void;
}

/** The optional package fs-ext, or undefined if it isn't installed or wasn't built. */
function loadFsExt(): FsExt | undefined {
  try {
    return createRequire(import.meta.url)("fs-ext") as FsExt;
  } catch {
    return undefined;
  }
}
