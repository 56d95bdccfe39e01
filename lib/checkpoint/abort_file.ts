/**
 * The file `abort`: there while a store is open for writing, so that its presence at an open means
 * that the last stop was none. RocketMQ: `DefaultMessageStore.createTempFile`.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import { removeFile, replaceFile } from "../io/directory.ts";
import type { FileStat, FileSystem } from "../io/file_system.ts";

/**
 * Whether the last stop was no clean one.
 *
 * @throws {StoreError} `STORE_IO` if there is something else of that name.
 */
export async function abortExists(fileSystem: FileSystem, path: string): Promise<boolean> {
  let kind: FileStat["kind"];
  try {
    ({ kind } = await fileSystem.stat(path));
  } catch (cause) {
    if ((cause as { code?: string }).code === "ENOENT") return false;
    throw new StoreError("STORE_IO", `Cannot look for ${path}`, { path, cause });
  }
  if (kind === "file") return true;
  throw new StoreError("STORE_IO", `Cannot use ${path}: it is no file`, { path });
}

/**
 * Makes the file, with the process id as RocketMQ 5 does; it survives a power cut afterwards. One that is
 * there is replaced: whoever made it may have failed to sync its name, and another sync would not do so
 * either.
 *
 * @param file.staging Existing folder on the same file system.
 * @throws {StoreError} `STORE_IO`; where there was no file there is none.
 */
export async function createAbort(
  fileSystem: FileSystem,
  { path, staging }: { readonly path: string; readonly staging: string },
  processId: number,
): Promise<void> {
  const content = Buffer.from(String(processId), "latin1");
  const found = await abortExists(fileSystem, path);
  try {
    await replaceFile(fileSystem, { staging, path, content });
  } catch (cause) {
    if (!found) await fileSystem.unlink(path).catch(() => undefined);
    throw new StoreError("STORE_IO", `Cannot write ${path}`, { path, cause });
  }
}

/** The last act of a clean close. */
export async function removeAbort(fileSystem: FileSystem, path: string): Promise<void> {
  try {
    await removeFile(fileSystem, path);
  } catch (cause) {
    throw new StoreError("STORE_IO", `Cannot remove ${path}`, { path, cause });
  }
}
