/**
 * An open file of a simulated file system.
 *
 * @module
 */

import { crc32 } from "node:zlib";
import type { Advice, FileHandle, FileStat } from "../io/file_system.ts";
import { BYTES_PER_CALL_MAX, partOf, preadEachIfCached, totalBytes } from "../io/fully.ts";
import { systemError } from "../io/system_error.ts";
import type { CallName, NewCall } from "./call.ts";
import { type Deed, limitOf, type SimulatedCalls } from "./simulated_calls.ts";
import type { SimulatedTree } from "./simulated_tree.ts";

/** Most buffers of one call (`UIO_MAXIOV`, include/uapi/linux/uio.h). */
const BUFFERS_PER_CALL_MAX = 1024;

/** One of so many reads finds nothing in the cache, and one only a part. */
const UNCACHED_IN = 8;

interface HandleOptions {
  readonly isWritable: boolean;
  /** Whether it holds the lock on its file. */
  readonly isLock?: boolean;
  /** Dates changes. */
  readonly now: () => number | undefined;
  readonly onClosed: () => void;
}

export class SimulatedHandle implements FileHandle {
  readonly path: string;
  readonly #calls: SimulatedCalls;
  readonly #inode: number;
  readonly #options: HandleOptions;
  #presentPath: string;
  #underWay = 0;
  #closed: Promise<void> | undefined;
  #whenIdle: (() => void) | undefined;

  constructor(calls: SimulatedCalls, inode: number, path: string, options: HandleOptions) {
    this.path = path;
    this.#presentPath = path;
    this.#calls = calls;
    this.#inode = inode;
    this.#options = options;
  }

  /** Follows the rename of the file, or of a directory above it. */
  renamed(from: string, to: string): void {
    if (this.#presentPath === from) this.#presentPath = to;
    else if (this.#presentPath.startsWith(`${from}/`)) {
      this.#presentPath = to + this.#presentPath.slice(from.length);
    }
  }

  pwritev(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.#during("pwritev", () => this.#write(withinLimits(buffers), position));
  }

  pwritevNow(buffers: readonly Uint8Array[], position: number): number {
    this.#checkOpen("pwritev");
    const bytes = Buffer.concat(withinLimits(buffers));
    const call = this.#call("pwritevNow", position, bytes.length);
    const fault = this.#calls.announce(call, crc32(bytes));
    const { count: number, disk } = this.#calls;
    if (fault?.kind === "error") throw this.#calls.failed(call, number, fault.code);
    const part = bytes.subarray(0, limitOf(fault, bytes.length));
    const now = this.#options.now();
    return this.#calls.outcome(number, () => this.#writeTo(disk.tree, part, position, now));
  }

  pread(buffer: Uint8Array, position: number): Promise<number> {
    return this.#during("pread", async () => {
      const call = this.#call("pread", position, buffer.length);
      const fault = this.#calls.announce(call);
      const part = buffer.subarray(0, limitOf(fault, buffer.length));
      return this.#calls.perform(call, fault, {
        changes: false,
        carryOut: (tree) => this.#read(tree.read(this.#inode, part, position), "read"),
      });
    });
  }

  preadIfCached(buffer: Uint8Array, position: number): number {
    this.#checkOpen("preadv2");
    const call = this.#call("preadIfCached", position, buffer.length);
    const fault = this.#calls.announce(call);
    const { count: number, chance, disk } = this.#calls;
    if (fault?.kind === "error") throw this.#calls.failed(call, number, fault.code);
    return this.#calls.outcome(number, () => {
      const luck = chance(UNCACHED_IN);
      if (luck === 0) return -1;
      let limit = limitOf(fault, buffer.length);
      if (luck === 1 && limit > 1) limit = 1 + chance(limit - 1);
      const count = disk.tree.read(this.#inode, buffer.subarray(0, limit), position);
      return this.#read(count, "preadv2");
    });
  }

  preadEachIfCached(buffer: Uint8Array, ranges: Float64Array): number {
    return preadEachIfCached(this, buffer, ranges);
  }

  nextData(position: number): Promise<number> {
    return this.#run("lseek", this.#call("nextData", position), {
      changes: false,
      carryOut: (tree) => tree.nextData(this.#inode, position),
    });
  }

  fdatasync(): Promise<void> {
    return this.#during("fdatasync", () => this.#sync());
  }

  commitAndForce(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.#during("pwritev", async () => {
      const length = totalBytes(buffers);
      const call = this.#call("commitAndForce", position, length);
      const fault = this.#calls.announce(call);
      if (fault !== undefined && fault.kind !== "short") {
        return this.#calls.perform(call, fault, { carryOut: () => 0 });
      }
      const part = partOf(withinLimits(buffers), 0, limitOf(fault, length));
      const count = buffers.length === 0 ? 0 : await this.#write(part, position);
      if (count === length) await this.#sync();
      return count;
    });
  }

  ftruncate(size: number): Promise<void> {
    const now = this.#options.now();
    return this.#run("ftruncate", this.#call("ftruncate", size), {
      carryOut: (tree) => {
        this.#checkWritable("EINVAL", "ftruncate");
        tree.truncate(this.#inode, size, now);
      },
    });
  }

  allocate(position: number, length: number): Promise<void> {
    return this.#run("fallocate", this.#call("allocate", position, length), {
      carryOut: (tree) => {
        this.#checkRange(position, length);
        if (!tree.allocate(this.#inode, position, length)) throw this.#error("ENOSPC", "fallocate");
      },
    });
  }

  punch(position: number, length: number): Promise<void> {
    const now = this.#options.now();
    return this.#run("fallocate", this.#call("punch", position, length), {
      carryOut: (tree) => {
        this.#checkRange(position, length);
        tree.punch(this.#inode, position, length, now);
      },
    });
  }

  advise(position: number, length: number, _advice: Advice): Promise<void> {
    const call = this.#call("advise", position, length);
    return this.#run("posix_fadvise", call, { changes: false, carryOut: () => {} });
  }

  stat(): Promise<FileStat> {
    return this.#run("fstat", this.#call("fstat"), {
      changes: false,
      carryOut: (tree) => tree.stat(this.#inode),
    });
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Of a lock: gives its file this content, durably. */
  replace(content: Uint8Array): Promise<void> {
    return this.#during("pwritev", async () => {
      const bytes = Buffer.from(content);
      const call = this.#call("lock.write", undefined, bytes.length);
      const now = this.#options.now();
      await this.#calls.perform(call, this.#calls.announce(call, crc32(bytes)), {
        carryOut: (tree) => {
          if (tree.write(this.#inode, bytes, 0, now) < bytes.length) {
            throw this.#error("ENOSPC", "pwritev");
          }
          tree.truncate(this.#inode, bytes.length, now);
        },
      });
      const upTo = this.#calls.disk.tree.lastChange;
      await this.#calls.perform(call, undefined, {
        changes: false,
        carryOut: (tree) => tree.sync(this.#inode, upTo),
      });
    });
  }

  async #write(buffers: readonly Uint8Array[], position: number): Promise<number> {
    const bytes = Buffer.concat(buffers);
    const call = this.#call("pwritev", position, bytes.length);
    const fault = this.#calls.announce(call, crc32(bytes));
    const part = bytes.subarray(0, limitOf(fault, bytes.length));
    const now = this.#options.now();
    const count = await this.#calls.perform(call, fault, {
      carryOut: (tree) => this.#writeTo(tree, part, position, now),
      carryOutPart: (tree, random) => {
        this.#writeTo(tree, part.subarray(0, random(part.length + 1)), position, now);
      },
    });
    if (!isConcatenation(bytes, buffers)) {
      throw new Error(`Buffers of "${this.#presentPath}" were changed before pwritev came back`);
    }
    return count;
  }

  #writeTo(tree: SimulatedTree, bytes: Uint8Array, position: number, now?: number): number {
    this.#checkWritable("EBADF", "write");
    const count = tree.write(this.#inode, bytes, position, now);
    if (count === 0 && bytes.length > 0) throw this.#error("ENOSPC", "pwritev");
    return count;
  }

  async #sync(): Promise<void> {
    const upTo = this.#calls.disk.tree.lastChange;
    await this.#calls.run(this.#call("fdatasync"), {
      changes: false,
      carryOut: (tree) => tree.sync(this.#inode, upTo),
      fail: (tree, random) => tree.failSync(this.#inode, upTo, random),
    });
  }

  async #close(): Promise<void> {
    const { isLock = false, onClosed } = this.#options;
    const call = this.#call(isLock ? "lock.close" : "close");
    const fault = this.#calls.announce(call);
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
    const release: Deed<void>["carryOut"] = (tree) => {
      tree.release(this.#inode);
      if (isLock) this.#calls.disk.locked.delete(this.#inode);
      onClosed();
    };
    // A close that fails has closed all the same (close(2)).
    await this.#calls.perform(call, fault, { changes: false, carryOut: release, fail: release });
  }

  #run<T>(syscall: string, call: NewCall, deed: Deed<T>): Promise<T> {
    return this.#during(syscall, () => this.#calls.run(call, deed));
  }

  async #during<T>(syscall: string, call: () => Promise<T>): Promise<T> {
    this.#checkOpen(syscall);
    this.#underWay += 1;
    try {
      return await call();
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#whenIdle?.();
    }
  }

  #checkOpen(syscall: string): void {
    if (this.#closed !== undefined) throw systemError("EBADF", syscall, this.path);
  }

  #checkWritable(code: string, syscall: string): void {
    if (!this.#options.isWritable) throw this.#error(code, syscall);
  }

  #checkRange(position: number, length: number): void {
    if (position < 0 || length <= 0) throw this.#error("EINVAL", "fallocate");
    this.#checkWritable("EBADF", "fallocate");
  }

  /** The answer of a read, which a directory refuses. */
  #read(count: number, syscall: string): number {
    if (count < 0) throw this.#error("EISDIR", syscall);
    return count;
  }

  #error(code: string, syscall: string): Error {
    return systemError(code, syscall, this.#presentPath);
  }

  #call(name: CallName, position?: number, length?: number): NewCall {
    return {
      name,
      path: this.#presentPath,
      ...(position === undefined ? {} : { position }),
      ...(length === undefined ? {} : { length }),
    };
  }
}

/** What one call can take. */
function withinLimits(buffers: readonly Uint8Array[]): readonly Uint8Array[] {
  return partOf(buffers, 0, BYTES_PER_CALL_MAX, BUFFERS_PER_CALL_MAX);
}

/** Whether `bytes` are those of the buffers, one after the other. */
function isConcatenation(bytes: Buffer, buffers: readonly Uint8Array[]): boolean {
  let at = 0;
  for (const buffer of buffers) {
    if (bytes.compare(buffer, 0, buffer.length, at, at + buffer.length) !== 0) return false;
    at += buffer.length;
  }
  return true;
}
