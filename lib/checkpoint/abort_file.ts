/**
 * The file `abort`: there while a store is open for writing, so that its presence at an open means
 * that the last stop was none. RocketMQ: `DefaultMessageStore.createTempFile`.
 *
 * @module
 */

import { dirname } from "node:path";
import { StoreError } from "../errors.ts";
import { removeFile } from "../io/directory.ts";
import type { FileStat, FileSystem } from "../io/file_system.ts";
import { writeFully } from "../io/fully.ts";

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

/** Makes the file, with the process id as RocketMQ 5 does; it survives a power cut afterwards. */
export async function createAbort(
  fileSystem: FileSystem,
  path: string,
  processId: number,
): Promise<void> {
  const content = Buffer.from(String(processId), "latin1");
  try {
    const found = await abortExists(fileSystem, path);
    const file = await fileSystem.open(path, found ? "write" : "create");
    try {
      await writeFully(file, [content], 0);
      await file.ftruncate(content.length);
      await file.fdatasync();
    } finally {
      await file.close();
    }
    await fileSystem.syncDirectory(dirname(path));
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
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
