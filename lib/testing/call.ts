/**
 * A call of the seam, as those see it who stand in its way.
 *
 * @module
 */

import type { FileHandle, FileSystem, OpenMode } from "../io/file_system.ts";

/** Names of calls: the methods of the seam; `fstat` is the handle's `stat`. */
export type CallName =
  | Exclude<keyof FileSystem, "lock">
  | Exclude<keyof FileHandle, "path" | "stat">
  | "fstat"
  | "lock"
  | "lock.write"
  | "lock.close";

/** A call as the store made it. */
export interface Call {
  /** Counts the calls of this file system, from 1. */
  readonly number: number;
  readonly name: CallName;
  /** The file's present name, even for a handle that was opened before it was renamed. */
  readonly path: string;
  /** Bytes from the start of the file; the new size for `ftruncate`. */
  readonly position?: number;
  /** Bytes that the call was given or asked for. */
  readonly length?: number;
  /** The new name, for `rename`. */
  readonly to?: string;
  readonly mode?: OpenMode;
}

/** A call before it was counted. */
export type NewCall = Omit<Call, "number">;

/** Where the system's name for a call is not that of the method. */
const SYSCALLS: Readonly<Partial<Record<CallName, string>>> = {
  pwritevNow: "pwritev",
  commitAndForce: "pwritev",
  preadIfCached: "preadv2",
  nextData: "lseek",
  allocate: "fallocate",
  punch: "fallocate",
  advise: "posix_fadvise",
  syncDirectory: "fsync",
  "lock.write": "pwritev",
  "lock.close": "close",
};

/** The system's name for a call: what an error of it says in `syscall`. */
export function syscallOf(name: CallName): string {
  return SYSCALLS[name] ?? name;
}
