/**
 * The seam on a {@linkcode SimulatedDisk}: no call reaches the machine, any of them may fail, and
 * everything that happens follows from a seed and from what the caller does.
 *
 * A call is counted and announced when it is made. It takes effect, whole, some turns of the event
 * loop later, and its promise settles then; in between it is under way. Calls that are made one
 * after the other, each awaited, keep that order; calls that are under way together take effect in
 * any. `pwritevNow` and `preadIfCached` act at once.
 *
 * `commitAndForce` is announced under its name, and then as the two calls that it stands for, the
 * `fdatasync` once the `pwritev` is done.
 *
 * @module
 */

import type { Clock } from "../io/clock.ts";
import type {
  DirectoryEntry,
  FileHandle,
  FileLock,
  FileStat,
  FileSystem,
  FileSystemSpace,
  OpenMode,
} from "../io/file_system.ts";
import { systemError } from "../io/system_error.ts";
import type { Call } from "./call.ts";
import { type Fault, SimulatedCalls } from "./simulated_calls.ts";
import type { SimulatedDisk } from "./simulated_disk.ts";
import { SimulatedHandle } from "./simulated_handle.ts";

export type { Call, CallName } from "./call.ts";
export type { Fault } from "./simulated_calls.ts";

export interface SimulatedOptions {
  /**
   * Decides how long calls take, and so in which order they take effect.
   * @default 0
   */
  readonly seed?: number;
  /**
   * Told of each call before it begins, in order. What it returns becomes of the call. It may look
   * at the disk, fork it or cut its power: this call is not under way yet.
   */
  readonly onCall?: (call: Call) => Fault | undefined;
  /** Dates changes. Without one they are dated 1, 2, 3, ... */
  readonly clock?: Clock;
}

/** A process's view of the disk. Any number of them may be used side by side. */
export class SimulatedFileSystem implements FileSystem {
  readonly disk: SimulatedDisk;
  readonly #calls: SimulatedCalls;
  readonly #clock: Clock | undefined;
  readonly #handles = new Set<SimulatedHandle>();

  constructor(disk: SimulatedDisk, { seed = 0, onCall, clock }: SimulatedOptions = {}) {
    this.disk = disk;
    this.#calls = new SimulatedCalls(disk, seed, onCall);
    this.#clock = clock;
  }

  /** Calls so far. */
  get calls(): number {
    return this.#calls.count;
  }

  /** Digest of all calls, of what was written and of how each ended: equal for equal runs. */
  get trace(): string {
    return this.#calls.trace;
  }

  async open(path: string, mode: OpenMode): Promise<FileHandle> {
    const now = this.#clock?.now();
    const inode = await this.#calls.run(
      { name: "open", path, mode },
      { carryOut: (tree) => tree.open(path, mode, now) },
    );
    return this.#handle(inode, path, { isWritable: mode !== "read" });
  }

  mkdir(path: string): Promise<void> {
    const now = this.#clock?.now();
    return this.#calls.run({ name: "mkdir", path }, { carryOut: (tree) => tree.mkdir(path, now) });
  }

  rmdir(path: string): Promise<void> {
    const now = this.#clock?.now();
    return this.#calls.run({ name: "rmdir", path }, { carryOut: (tree) => tree.rmdir(path, now) });
  }

  readdir(path: string, more?: "stats"): Promise<DirectoryEntry[]> {
    return this.#calls.run(
      { name: "readdir", path },
      { carryOut: (tree) => tree.list(path, more === "stats"), changes: false },
    );
  }

  stat(path: string): Promise<FileStat> {
    return this.#calls.run(
      { name: "stat", path },
      { carryOut: (tree) => tree.stat(tree.inodeOf(path, "stat")), changes: false },
    );
  }

  statfs(path: string): Promise<FileSystemSpace> {
    return this.#calls.run(
      { name: "statfs", path },
      { carryOut: (tree) => tree.space(path), changes: false },
    );
  }

  async rename(from: string, to: string): Promise<void> {
    const now = this.#clock?.now();
    await this.#calls.run(
      { name: "rename", path: from, to },
      { carryOut: (tree) => tree.rename(from, to, now) },
    );
    for (const handle of this.#handles) handle.renamed(from, to);
  }

  unlink(path: string): Promise<void> {
    const now = this.#clock?.now();
    return this.#calls.run(
      { name: "unlink", path },
      { carryOut: (tree) => tree.unlink(path, now) },
    );
  }

  syncDirectory(path: string): Promise<void> {
    const upTo = this.disk.tree.lastChange;
    return this.#calls.run(
      { name: "syncDirectory", path },
      {
        changes: false,
        carryOut: (tree) => tree.sync(tree.inodeOf(path, "open"), upTo),
        fail: (tree, random) => tree.failSync(tree.inodeOf(path, "open"), upTo, random),
      },
    );
  }

  async lock(path: string): Promise<FileLock> {
    const { locked } = this.disk;
    const now = this.#clock?.now();
    const inode = await this.#calls.run(
      { name: "lock", path },
      {
        carryOut: (tree) => {
          const opened = tree.openOrCreate(path, now);
          if (tree !== this.disk.tree) return opened;
          if (locked.has(opened)) {
            tree.release(opened);
            throw systemError("EAGAIN", "lock", path);
          }
          locked.add(opened);
          return opened;
        },
      },
    );
    const handle = this.#handle(inode, path, { isWritable: true, isLock: true });
    return {
      excludes: "ofd",
      write: (content) => handle.replace(content),
      close: () => handle.close(),
    };
  }

  #handle(
    inode: number,
    path: string,
    options: { readonly isWritable: boolean; readonly isLock?: boolean },
  ): SimulatedHandle {
    const handle = new SimulatedHandle(this.#calls, inode, path, {
      ...options,
      now: () => this.#clock?.now(),
      onClosed: () => this.#handles.delete(handle),
    });
    this.#handles.add(handle);
    return handle;
  }
}
