/**
 * The files of a store as they lie on disk, before anything is decided. Looks only.
 *
 * @module
 */

import { join } from "node:path";
import { abortExists } from "../checkpoint/abort_file.ts";
import { type Checkpoint, readCheckpoint } from "../checkpoint/store_checkpoint.ts";
import { ConsumeQueue, type QueueContext } from "../consume_queue/consume_queue.ts";
import { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import { UNIT_BYTES } from "../consume_queue/queue_unit.ts";
import { StoreError } from "../errors.ts";
import type { DirectoryEntry, FileSystem } from "../io/file_system.ts";
import type { StorePaths } from "../io/store_paths.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import { type Segment, segmentOf, segmentStart } from "../segment/segment.ts";
import { SegmentQueue } from "../segment/segment_queue.ts";

export interface StoreFiles {
  /** No `abort` file: the last stop was a clean one. */
  readonly cleanStop: boolean;
  readonly checkpoint: Checkpoint;
  readonly segments: SegmentQueue;
  readonly queues: ConsumeQueueTable;
  /** Last files that are shorter than they should be: a crash came between create and extend. */
  readonly shortFiles: readonly Segment[];
}

export interface StoreFilesContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  readonly paths: StorePaths;
  readonly commitLogFileSize: number;
  readonly consumeQueueFileSize: number;
  /** Take the sizes that are found instead. */
  readonly adoptFileSizes: boolean;
}

/**
 * Lists the files and checks names and sizes.
 *
 * @throws {StoreError} `STORE_UNEXPECTED_FILE` naming the first file that does not belong there.
 */
export async function listStoreFiles(context: StoreFilesContext): Promise<StoreFiles> {
  const { fileSystem, files, paths } = context;
  const shortFiles: Segment[] = [];
  const log = await listSegments(context, paths.commitLog, context.commitLogFileSize, 1);
  shortFiles.push(...log.short);
  const queueFiles: { topic: string; queueId: number; found: Found }[] = [];
  let queueFileSize = context.consumeQueueFileSize;
  for (const topic of await list(fileSystem, paths.consumeQueue)) {
    if (topic.kind !== "directory") continue;
    const directory = join(paths.consumeQueue, topic.name);
    for (const queue of await list(fileSystem, directory)) {
      // RocketMQ skips names that are no whole numbers.
      if (queue.kind !== "directory" || !/^\d{1,9}$/.test(queue.name)) continue;
      const found = await listSegments(
        context,
        join(directory, queue.name),
        queueFileSize,
        UNIT_BYTES,
      );
      if (found.segments.length > 0 && context.adoptFileSizes) queueFileSize = found.fileSize;
      queueFiles.push({ topic: topic.name, queueId: Number(queue.name), found });
      shortFiles.push(...found.short);
    }
  }
  const queueContext: QueueContext = {
    fileSystem,
    files,
    directory: paths.consumeQueue,
    staging: paths.own,
    fileSize: queueFileSize,
  };
  const queues = new ConsumeQueueTable(queueContext);
  for (const { topic, queueId, found } of queueFiles) {
    queues.add(new ConsumeQueue(queueContext, topic, queueId, found.segments));
  }
  return {
    cleanStop: !(await abortExists(fileSystem, paths.abort)),
    checkpoint: await readCheckpoint(fileSystem, paths.checkpoint),
    segments: new SegmentQueue(paths.commitLog, log.fileSize, files, log.segments),
    queues,
    shortFiles,
  };
}

interface Found {
  readonly segments: Segment[];
  readonly short: Segment[];
  readonly fileSize: number;
}

/**
 * The segments of one folder. Sub-folders are passed over, as RocketMQ does; any other name, and
 * any size but the right one, is refused: only the last file may be too short.
 */
async function listSegments(
  { fileSystem, adoptFileSizes }: StoreFilesContext,
  directory: string,
  configuredSize: number,
  unit: number,
): Promise<Found> {
  const entries = (await list(fileSystem, directory))
    .filter(({ kind }) => kind !== "directory")
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const unexpected = (path: string, why: string): StoreError =>
    new StoreError("STORE_UNEXPECTED_FILE", `Cannot open ${path}: ${why}`, { path });
  const found: { start: number; size: number; path: string }[] = [];
  for (const { name, kind } of entries) {
    const path = join(directory, name);
    const start = segmentStart(name);
    if (kind !== "file" || start === undefined) {
      throw unexpected(
        path,
        "a folder of segments holds only files named by their offset, 20 digits",
      );
    }
    found.push({ start, path, size: (await stat(fileSystem, path)).size });
  }
  const first = found[0];
  const adopted = adoptFileSizes && first && first.size > 0 && first.size % unit === 0;
  const fileSize = adopted ? first.size : configuredSize;
  const short: Segment[] = [];
  const segments = found.map(({ start, size, path }, i) => {
    if (start % fileSize !== 0) {
      throw unexpected(path, `its name is no multiple of the file size, ${fileSize}`);
    }
    const segment = segmentOf(directory, start, fileSize);
    if (size !== fileSize) {
      if (size > fileSize || i < found.length - 1) {
        throw unexpected(path, `it has ${size} bytes, ${fileSize} are due`);
      }
      short.push(segment);
    }
    return segment;
  });
  return { segments, short, fileSize };
}

async function list(fileSystem: FileSystem, path: string): Promise<DirectoryEntry[]> {
  try {
    return await fileSystem.readdir(path);
  } catch (cause) {
    if ((cause as { code?: string }).code === "ENOENT") return [];
    throw new StoreError("STORE_IO", `Cannot list ${path}`, { path, cause });
  }
}

async function stat(fileSystem: FileSystem, path: string): Promise<{ size: number }> {
  try {
    return await fileSystem.stat(path);
  } catch (cause) {
    throw new StoreError("STORE_IO", `Cannot look at ${path}`, { path, cause });
  }
}
