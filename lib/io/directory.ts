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
