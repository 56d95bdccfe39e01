/**
 * Names that survive a power cut: each change of a directory together with the sync that makes it
 * durable.
 *
 * Once one of these functions resolves, its change survives a power cut. After an error, or if the
 * process dies inside one, either the old or the new name may be there, never half a file under the
 * final one: a file is made under a `*.tmp` name in a staging folder and renamed when it is whole.
 * Whoever opens the store may remove every `*.tmp` in that folder.
 *
 * @module
 */

import { basename, dirname, join } from "node:path";
import type { FileHandle, FileSystem } from "./file_system.ts";
import { writeFully } from "./fully.ts";
import { hasCode, systemError } from "./system_error.ts";

/**
 * Makes a directory and those above it, each synced into its parent. One that exists is fine.
 *
 * Those that are wanted in one parent at the same time are made together, with one sync, and no other is made
 * while that lasts: a sync that fails may take with it what the next one should have written.
 */
export function createDirectory(fs: FileSystem, path: string): Promise<void> {
  const parent = dirname(path);
  const parents = broods.get(fs) ?? new Map<string, Brood>();
  broods.set(fs, parents);
  let brood = parents.get(parent);
  if (!brood || brood.begun) {
    const before = brood?.ended;
    brood = new Brood(fs, parent);
    parents.set(parent, brood);
    brood.ended = brood.run(before).finally(() => {
      if (parents.get(parent) === brood) parents.delete(parent);
    });
  }
  return brood.add(path);
}

const broods = new WeakMap<FileSystem, Map<string, Brood>>();

/** Directories of one parent that are made together. */
class Brood {
  readonly #fs: FileSystem;
  readonly #parent: string;
  readonly #paths = new Set<string>();
  /** Those that could not be made, and why. */
  readonly #errors = new Map<string, unknown>();
  begun = false;
  /** Never rejects. */
  ended: Promise<void> = Promise.resolve();

  constructor(fs: FileSystem, parent: string) {
    this.#fs = fs;
    this.#parent = parent;
  }

  /** Only before it has begun. */
  async add(path: string): Promise<void> {
    this.#paths.add(path);
    await this.ended;
    if (this.#errors.has(path)) throw this.#errors.get(path);
  }

  async run(before: Promise<void> | undefined): Promise<void> {
    await before;
    this.begun = true;
    const made: string[] = [];
    await Promise.all(
      [...this.#paths].map(async (path) => {
        try {
          if (await this.#make(path)) made.push(path);
        } catch (error) {
          this.#errors.set(path, error);
        }
      }),
    );
    if (this.#errors.size === this.#paths.size) return;
    try {
      await this.#fs.syncDirectory(this.#parent);
    } catch (error) {
      // Whoever made a directory that exists may have been killed before this sync, so it is done all the
      // same. A parent that we may not even read was not changed by a store.
      if (made.length === 0 && hasCode(error, "EACCES")) return;
      for (const path of this.#paths) this.#errors.set(path, error);
      // Another sync may succeed without writing what this one should have written: whoever tries
      // again must make the directory anew.
      for (const path of made) await this.#fs.rmdir(path).catch(() => undefined);
    }
  }

  /** @returns Whether it is new. */
  async #make(path: string): Promise<boolean> {
    try {
      try {
        await this.#fs.mkdir(path);
      } catch (error) {
        if (!hasCode(error, "ENOENT") || this.#parent === path) throw error;
        await createDirectory(this.#fs, this.#parent);
        await this.#fs.mkdir(path);
      }
      return true;
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error;
      if ((await this.#fs.stat(path)).kind !== "directory") throw error;
      return false;
    }
  }
}

/**
 * Makes a file of its full length, sparse, and opens it for writing.
 *
 * The handle's `path` is the temporary name that the file was born with.
 *
 * @param file.staging Existing folder on the same file system, for the time of making.
 * @param file.size Bytes. The file reads as zeros.
 * @param file.fill Writes what the file has to hold from its first moment on.
 * @throws `EEXIST` if there is something at `path`. Whatever it throws, it leaves no file behind.
 */
export async function createFile(
  fs: FileSystem,
  {
    staging,
    path,
    size,
    fill,
  }: {
    readonly staging: string;
    readonly path: string;
    readonly size: number;
    readonly fill?: (handle: FileHandle) => Promise<void>;
  },
): Promise<FileHandle> {
  const handle = await createTemporary(fs, staging, path);
  let name = handle.path;
  try {
    await handle.ftruncate(size);
    await fill?.(handle);
    await handle.fdatasync();
    // The store's lock keeps everybody else from making it between this look and the rename.
    if (await exists(fs, path)) throw systemError("EEXIST", "rename", path);
    await fs.rename(name, path);
    name = path;
    await fs.syncDirectory(dirname(path));
    await fs.syncDirectory(staging);
    return handle;
  } catch (error) {
    await discard(fs, name, handle);
    throw error;
  }
}

/**
 * Gives the file `path` new content, all of it or none. It need not exist before.
 *
 * @param file.staging Existing folder on the same file system, for the time of writing.
 */
export async function replaceFile(
  fs: FileSystem,
  {
    staging,
    path,
    content,
  }: { readonly staging: string; readonly path: string; readonly content: Uint8Array },
): Promise<void> {
  const handle = await createTemporary(fs, staging, path);
  try {
    await writeFully(handle, [content], 0);
    await handle.fdatasync();
    await fs.rename(handle.path, path);
  } catch (error) {
    await discard(fs, handle.path, handle);
    throw error;
  }
  await handle.close();
  await fs.syncDirectory(dirname(path));
}

/** Removes a file. */
export async function removeFile(fs: FileSystem, path: string): Promise<void> {
  await fs.unlink(path);
  await fs.syncDirectory(dirname(path));
}

/** Renames a file or directory; a file of the new name is replaced. */
export async function moveFile(fs: FileSystem, from: string, to: string): Promise<void> {
  await fs.rename(from, to);
  await fs.syncDirectory(dirname(to));
  if (dirname(from) !== dirname(to)) await fs.syncDirectory(dirname(from));
}

/** A new file in `staging`. A name that is taken, by a store that was killed, is passed over. */
async function createTemporary(fs: FileSystem, staging: string, path: string): Promise<FileHandle> {
  for (let number = 0; ; number += 1) {
    try {
      return await fs.open(join(staging, `${basename(path)}.${number}.tmp`), "create");
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error;
    }
  }
}

/** Removes what a failed call made. What fails here is left: the first error is the one to report. */
async function discard(fs: FileSystem, name: string, handle: FileHandle): Promise<void> {
  await Promise.allSettled([handle.close(), fs.unlink(name)]);
}

/** Whether there is anything at `path`. */
export async function exists(fs: FileSystem, path: string): Promise<boolean> {
  try {
    await fs.stat(path);
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false;
    throw error;
  }
}
