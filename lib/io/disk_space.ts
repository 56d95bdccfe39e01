/**
 * How full a file system is.
 *
 * @module
 */

import type { FileSystemSpace } from "./file_system.ts";

/**
 * Per cent of what anybody may use that is in use, rounded up
 * (`UtilAll.getDiskPartitionSpaceUsedPercent`).
 *
 * @returns `undefined` for a file system without any room.
 */
export function usedPercent(space: FileSystemSpace): number | undefined {
  const used = space.totalBytes - space.freeBytes;
  const all = used + space.availableBytes;
  return all > 0 ? Math.ceil((used * 100) / all) : undefined;
}
