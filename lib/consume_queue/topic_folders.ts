/**
 * The folders that a topic has in the folders of queues: they go with it.
 *
 * @module
 */

import { dirname, join } from "node:path";
import { StoreError } from "../errors.ts";
import type { FileSystem } from "../io/file_system.ts";
import { hasCode } from "../io/system_error.ts";

/**
 * Removes an empty folder.
 *
 * @returns Whether it is gone, so that its parent is to be synced; one that is not empty, or not there, is
 *   left.
 * @throws {StoreError} `STORE_IO`.
 */
export async function removeFolder(fileSystem: FileSystem, path: string): Promise<boolean> {
  try {
    await fileSystem.rmdir(path);
    await fileSystem.syncDirectory(dirname(path));
    return true;
  } catch (cause) {
    if (["ENOENT", "ENOTEMPTY", "EEXIST"].some((code) => hasCode(cause, code))) return false;
    throw new StoreError("STORE_IO", `Cannot remove ${path}`, { path, cause });
  }
}

/**
 * Removes a topic's folder with all that is in it, folders of queues with their files.
 *
 * @throws {StoreError} `STORE_IO`.
 */
export async function removeTree(fileSystem: FileSystem, path: string): Promise<void> {
  try {
    let removed = 0;
    for (const { name, kind } of await fileSystem.readdir(path)) {
      const child = join(path, name);
      if (kind === "directory") {
        await removeTree(fileSystem, child);
      } else {
        await fileSystem.unlink(child);
        removed++;
      }
    }
    if (removed > 0) await fileSystem.syncDirectory(path);
  } catch (cause) {
    if (hasCode(cause, "ENOENT")) return;
    if (cause instanceof StoreError) throw cause;
    throw new StoreError("STORE_IO", `Cannot remove ${path}`, { path, cause });
  }
  await removeFolder(fileSystem, path);
}
