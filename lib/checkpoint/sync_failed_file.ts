/**
 * The file `forcelog/sync-failed`: there once a sync of the log has failed.
 *
 * After a failed sync the kernel takes the pages for clean: they can be read, they are on no device,
 * and the next sync succeeds without writing them. A store that is opened again in the same boot would
 * believe them. A reboot empties the cache, and this file with it or not: it needs no sync of its own.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import { removeFile } from "../io/directory.ts";
import type { FileSystem } from "../io/file_system.ts";
import { hasCode } from "../io/system_error.ts";

/** Makes the file as well as can be: what comes next is the report of a worse failure. Never rejects. */
export async function noteFailedSync(fileSystem: FileSystem, path: string): Promise<void> {
  try {
    const file = await fileSystem.open(path, "create");
    await file.close();
  } catch {
    // It is there already, or the device takes nothing more.
  }
}

/** Whether a sync failed since the last recovery. */
export async function hasFailedSync(fileSystem: FileSystem, path: string): Promise<boolean> {
  try {
    await fileSystem.stat(path);
    return true;
  } catch (cause) {
    if (hasCode(cause, "ENOENT")) return false;
    throw new StoreError("STORE_IO", `Cannot look for ${path}`, { path, cause });
  }
}

/** Everything was written again, and synced. */
export async function forgetFailedSync(fileSystem: FileSystem, path: string): Promise<void> {
  try {
    await removeFile(fileSystem, path);
  } catch (cause) {
    throw new StoreError("STORE_IO", `Cannot remove ${path}`, { path, cause });
  }
}
