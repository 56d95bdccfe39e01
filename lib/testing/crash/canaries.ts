/**
 * Stores that do not keep their promises, so that we know that the explorer sees it: between each
 * of them and the disk stands a file system that lies.
 *
 * @module
 */

import type { FileHandle, FileSystem } from "../../io/file_system.ts";
import { totalBytes } from "../../io/fully.ts";
import { hasCode } from "../../io/system_error.ts";
import { Explorer, type Failure } from "./explorer.ts";
import type { StageDirections } from "./simulated_stage.ts";
import type { ModeName } from "./workload.ts";
import { WORKLOADS } from "./workloads.ts";

export interface Canary {
  readonly name: string;
  /** What the store would be like that behaves so. */
  readonly about: string;
  readonly workload: string;
  readonly mode: ModeName;
  readonly wrap: (fileSystem: FileSystem) => FileSystem;
  /** Makes the hooks of a play; each counts for itself. */
  readonly onCall?: () => NonNullable<StageDirections["onCall"]>;
}

export const CANARIES: readonly Canary[] = [
  {
    name: "early",
    about: "acknowledges before the force",
    workload: "first",
    mode: "SYNC_FLUSH",
    wrap: (base) => withHandles(base, (handle) => withSync(handle, async () => undefined)),
  },
  {
    name: "hasty",
    about: "acknowledges before the write",
    workload: "first",
    mode: "ASYNC_FLUSH",
    wrap: (base) => withHandles(base, withLateWrites),
  },
  {
    name: "nameless",
    about: "does not sync directories",
    workload: "rolls",
    mode: "SYNC_FLUSH",
    wrap: (base) => ({ ...passing(base), syncDirectory: async () => undefined }),
  },
  {
    name: "stubborn",
    about: "repeats a sync that failed, and takes the second answer for the truth",
    workload: "rolls",
    mode: "SYNC_FLUSH",
    wrap: (base) =>
      withHandles(base, (handle) =>
        withSync(handle, async () => {
          try {
            await handle.fdatasync();
          } catch (error) {
            if (!hasCode(error, "EIO")) throw error;
            await handle.fdatasync();
          }
        }),
      ),
    onCall: () => {
      let syncs = 0;
      return (_, { name, path }) => {
        if (name !== "fdatasync" || !path.includes("/commitlog/")) return undefined;
        // Each fails once. What it was to write may have been written by chance.
        return ++syncs % 2 === 1 ? { kind: "error", code: "EIO" } : undefined;
      };
    },
  },
];

/** Explores a canary. @returns The first failure that was seen; `undefined` is a blind explorer. */
export async function tryCanary(canary: Canary, seed: number): Promise<Failure | undefined> {
  const { wrap, onCall, mode } = canary;
  const workload = WORKLOADS.get(canary.workload);
  if (!workload) throw new Error(`There is no workload "${canary.workload}"`);
  const explorer = new Explorer({
    wrap,
    failuresMax: 1,
    ...(onCall ? { onCall: onCall() } : {}),
  });
  await explorer.explore(seed, workload, mode);
  return explorer.failures[0];
}

/** The same file system, as an object whose calls can be replaced. */
function passing(base: FileSystem): FileSystem {
  return {
    open: (path, mode) => base.open(path, mode),
    mkdir: (path) => base.mkdir(path),
    rmdir: (path) => base.rmdir(path),
    readdir: (path, more) => base.readdir(path, more),
    stat: (path) => base.stat(path),
    statfs: (path) => base.statfs(path),
    rename: (from, to) => base.rename(from, to),
    unlink: (path) => base.unlink(path),
    syncDirectory: (path) => base.syncDirectory(path),
    lock: (path) => base.lock(path),
  };
}

function withHandles(base: FileSystem, change: (handle: FileHandle) => FileHandle): FileSystem {
  return { ...passing(base), open: async (path, mode) => change(await base.open(path, mode)) };
}

/** The same handle with another sync, behind its own writes too. */
function withSync(base: FileHandle, sync: () => Promise<void>): FileHandle {
  return {
    ...passingHandle(base),
    fdatasync: sync,
    commitAndForce: async (buffers, position) => {
      const count = await base.pwritev(buffers, position);
      if (count === totalBytes(buffers)) await sync();
      return count;
    },
  };
}

/** The same handle, whose writes on the main thread come a little later. */
function withLateWrites(base: FileHandle): FileHandle {
  return {
    ...passingHandle(base),
    pwritevNow: (buffers, position) => {
      const copies = buffers.map((buffer) => Buffer.from(buffer));
      setImmediate(() => base.pwritevNow(copies, position));
      return totalBytes(buffers);
    },
  };
}

function passingHandle(base: FileHandle): FileHandle {
  return {
    path: base.path,
    pwritev: (buffers, position) => base.pwritev(buffers, position),
    pwritevNow: (buffers, position) => base.pwritevNow(buffers, position),
    pread: (buffer, position) => base.pread(buffer, position),
    preadIfCached: (buffer, position) => base.preadIfCached(buffer, position),
    preadEachIfCached: (buffer, ranges) => base.preadEachIfCached(buffer, ranges),
    nextData: (position) => base.nextData(position),
    fdatasync: () => base.fdatasync(),
    commitAndForce: (buffers, position) => base.commitAndForce(buffers, position),
    ftruncate: (size) => base.ftruncate(size),
    allocate: (position, length) => base.allocate(position, length),
    punch: (position, length) => base.punch(position, length),
    advise: (position, length, advice) => base.advise(position, length, advice),
    stat: () => base.stat(),
    close: () => base.close(),
  };
}
