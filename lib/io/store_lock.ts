/**
 * The `lock` file: one writer at a time in a store's directory.
 *
 * `ROOT/lock` is RocketMQ's: it holds the text `lock` and is never removed. A Java broker keeps us
 * out with a record lock on its first byte, and we keep out a Java broker with ours. Who we are is
 * written into another file, which Java does not read, for the message that the second comer gets.
 *
 * @module
 */

import { hostname } from "node:os";
import { dirname } from "node:path";
import { StoreError } from "../errors.ts";
import { type Clock, systemClock } from "./clock.ts";
import { createDirectory } from "./create_directory.ts";
import { replaceFile } from "./directory.ts";
import type { FileLock, FileSystem } from "./file_system.ts";
import { readFully } from "./fully.ts";
import { hasCode } from "./system_error.ts";

/** What RocketMQ's `DefaultMessageStore.start` writes into its lock file. */
const LOCK_CONTENT = Buffer.from("lock", "ascii");

/** More than any holder file is long, in bytes. */
const HOLDER_BYTES_MAX = 4096;

export interface StoreLockOptions {
  /** RocketMQ's lock file: `ROOT/lock`. Its directory must exist. */
  readonly lockPath: string;
  /** Where to write who holds the lock. Its directory is made if need be. */
  readonly holderPath: string;
  /** Which program this is, for whoever finds the store locked. */
  readonly description: string;
  /**
   * Open the store although this system offers no lock: a second writer destroys it.
   * @default false
   */
  readonly unsafeOpenWithoutLock?: boolean;
  /** Is told, in a sentence, of protection that is missing. */
  readonly onWarning?: (text: string) => void;
  readonly clock?: Clock;
}

/** A store's directory, held against other writers until it is closed or the process ends. */
export class StoreLock {
  readonly #lock: FileLock | undefined;
  readonly #removeHolder: () => Promise<void>;
  #closed: Promise<void> | undefined;

  private constructor(lock: FileLock | undefined, removeHolder: () => Promise<void>) {
    this.#lock = lock;
    this.#removeHolder = removeHolder;
  }

  /**
   * Takes the lock without waiting.
   *
   * @throws {StoreError} `STORE_LOCKED` if another holds it; the message names who. Nothing on disk
   *   was changed then.
   * @throws {StoreError} `STORE_LOCK_UNAVAILABLE` if this system offers no lock.
   * @throws {StoreError} `STORE_IO` if a system call fails. The lock is released.
   */
  static async acquire(fs: FileSystem, options: StoreLockOptions): Promise<StoreLock> {
    const { lockPath, holderPath } = options;
    const lock = await takeLock(fs, options);
    try {
      if (lock !== undefined) {
        await lock.write(LOCK_CONTENT);
        await fs.syncDirectory(dirname(lockPath));
      }
      await writeHolder(fs, options);
    } catch (error) {
      await lock?.close();
      // A call on a file that is open names none.
      const { path = lockPath } = error as { readonly path?: string };
      const message = `Cannot lock the store: writing "${path}" failed`;
      throw new StoreError("STORE_IO", message, { path, cause: error });
    }
    return new StoreLock(lock, () => fs.unlink(holderPath));
  }

  /**
   * Whom the lock keeps out: `"ofd"` a Java broker and every store of ours, `"flock"` only stores
   * of ours, `"nobody"` after `unsafeOpenWithoutLock`.
   */
  get excludes(): FileLock["excludes"] | "nobody" {
    return this.#lock?.excludes ?? "nobody";
  }

  /** Releases the lock. The lock file stays, as RocketMQ leaves it. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    try {
      await this.#removeHolder();
    } catch (error) {
      if (!hasCode(error, "ENOENT")) throw error;
    } finally {
      await this.#lock?.close();
    }
  }
}

async function takeLock(fs: FileSystem, options: StoreLockOptions): Promise<FileLock | undefined> {
  const { lockPath: path, onWarning } = options;
  let lock: FileLock;
  try {
    lock = await fs.lock(path);
  } catch (error) {
    if (hasCode(error, "EAGAIN")) {
      const holder = await describeHolder(fs, options.holderPath, error);
      const message = `Cannot open the store: "${path}" is locked by ${holder}`;
      throw new StoreError("STORE_LOCKED", message, { path, cause: error });
    }
    if (!hasCode(error, "ENOLCK")) {
      const message = `Cannot lock the store: taking the lock on "${path}" failed`;
      throw new StoreError("STORE_IO", message, { path, cause: error });
    }
    if (options.unsafeOpenWithoutLock !== true) {
      const message =
        `Cannot lock the store: this system offers no lock for "${path}"; ` +
        "build the native addon or install fs-ext";
      throw new StoreError("STORE_LOCK_UNAVAILABLE", message, { path, cause: error });
    }
    onWarning?.(`"${path}" is not locked: a second writer would destroy the store unnoticed`);
    return undefined;
  }
  if (lock.excludes === "flock") {
    onWarning?.(
      `"${path}" is locked with flock only, which a Java broker does not see: ` +
        "build the native addon to keep one out",
    );
  }
  return lock;
}

/** Who holds the lock file, as the holder file tells. */
interface Holder {
  readonly pid: number;
  readonly host: string;
  /** Date and time, ISO 8601. */
  readonly startedAt: string;
  readonly program: string;
}

async function writeHolder(fs: FileSystem, options: StoreLockOptions): Promise<void> {
  const { holderPath: path, description: program, clock = systemClock } = options;
  const startedAt = new Date(clock.now()).toISOString();
  const holder: Holder = { pid: process.pid, host: hostname(), startedAt, program };
  await createDirectory(fs, dirname(path));
  const content = Buffer.from(`${JSON.stringify(holder)}\n`);
  await replaceFile(fs, { staging: dirname(path), path, content });
}

/**
 * Says who holds the lock. The kernel knows the process behind a POSIX record lock, which is what
 * Java takes, and the holder file is then left over from a store that was there before. Behind any
 * other lock is a store of ours, which has written the file.
 */
async function describeHolder(fs: FileSystem, path: string, locked: Error): Promise<string> {
  if ("holderPid" in locked) return `process ${locked.holderPid} (a Java broker's kind of lock)`;
  try {
    const { pid, host, startedAt, program } = JSON.parse(await readText(fs, path)) as Holder;
    if (Number.isInteger(pid)) return `process ${pid} on ${host} (${program}) since ${startedAt}`;
  } catch {
    // Not there yet, or not readable: there is just no name to give.
  }
  return "another process, which has not said who it is";
}

async function readText(fs: FileSystem, path: string): Promise<string> {
  const handle = await fs.open(path, "read");
  try {
    const buffer = Buffer.alloc(HOLDER_BYTES_MAX);
    return buffer.toString("utf8", 0, await readFully(handle, buffer, 0));
  } finally {
    await handle.close();
  }
}
