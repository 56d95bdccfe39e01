/**
 * The files of a store as they lie on disk, before anything is decided. Looks only.
 *
 * @module
 */

import { join, sep } from "node:path";
import { abortExists } from "../checkpoint/abort_file.ts";
import {
  type DeletedTopic,
  DeletedTopics,
  readDeletedTopics,
} from "../checkpoint/deleted_topics.ts";
import { type Checkpoint, readCheckpoint } from "../checkpoint/store_checkpoint.ts";
import type { BatchQueue } from "../consume_queue/batch_queue.ts";
import { BATCH_UNIT_BYTES } from "../consume_queue/batch_unit.ts";
import { ConsumeQueueTable, type TableContext } from "../consume_queue/consume_queue_table.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import type { ExtensionContext } from "../consume_queue/queue_extension.ts";
import type { QueueFilesContext } from "../consume_queue/queue_files.ts";
import { UNIT_BYTES } from "../consume_queue/queue_unit.ts";
import { StoreError } from "../errors.ts";
import type { DirectoryEntry, FileStat, FileSystem } from "../io/file_system.ts";
import { inParallel, LOOKS_AT_ONCE } from "../io/parallel.ts";
import type { StorePaths } from "../io/store_paths.ts";
import type { QueueType } from "../metadata/topic_table.ts";
import type { ResolvedOptions } from "../options.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import { type Segment, segmentName, segmentStart } from "../segment/segment.ts";
import { SegmentQueue } from "../segment/segment_queue.ts";

/** The largest size that a file of a store may be given (`MessageStoreConfig`: an int). */
const FILE_SIZE_MAX = 2 ** 31 - 1;

export interface StoreFiles {
  /** No `abort` file: the last stop was a clean one. */
  readonly cleanStop: boolean;
  readonly checkpoint: Checkpoint;
  readonly segments: SegmentQueue;
  readonly queues: ConsumeQueueTable;
  /** Batch queues of deleted topics of which there are other queues, too: one of both is left over. */
  readonly doubles: readonly BatchQueue[];
  /** Last files that are shorter than they should be: a crash came between create and extend. */
  readonly shortFiles: readonly Segment[];
}

/** What options say of files. */
export type FileOptions = Pick<
  ResolvedOptions,
  | "mappedFileSizeCommitLog"
  | "mappedFileSizeConsumeQueue"
  | "mappedFileSizeConsumeQueueExt"
  | "enableConsumeQueueExt"
  | "mapperFileSizeBatchConsumeQueue"
>;

export interface StoreFilesContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  readonly paths: StorePaths;
  readonly options: FileOptions;
  /** Take the sizes that are found instead. */
  readonly adoptFileSizes: boolean;
  /** Goes on without knowing which topics were deleted, if nobody can tell; without it that is an error. */
  readonly warn?: (warning: string) => void;
  /** As `TableContext.queueTypeFor`. */
  readonly queueTypeFor?: (topic: string) => QueueType | undefined;
}

/**
 * Lists the files and checks names and sizes.
 *
 * @throws {StoreError} `STORE_UNEXPECTED_FILE` naming the first file that does not belong there;
 *   `STORE_CONFIG_DAMAGED` if nobody can tell which topics were deleted.
 */
export async function listStoreFiles(context: StoreFilesContext): Promise<StoreFiles> {
  const { fileSystem, files, paths, options } = context;
  /** Names by identity: through links one file may bear two, and be written to as both. */
  const names = new Map<string, string>();
  const index = await listIndex(fileSystem, paths.index);
  for (const path of [paths.checkpoint, paths.abort, paths.lock, ...index]) {
    const identity = await identityOf(fileSystem, path);
    if (identity !== undefined) names.set(identity, path);
  }
  const logFiles = await filesOf(fileSystem, paths.commitLog);
  refuseDoubles(logFiles, names);
  const queueFolders = await listQueues(context, paths.consumeQueue);
  const extensionFolders = await listQueues(context, paths.queueExtension);
  const batchFolders = await listQueues(context, paths.batchQueue);
  for (const queues of [queueFolders, extensionFolders, batchFolders]) {
    for (const { folder } of queues.values()) {
      refuseDoubles(folder, names);
      await files.turn.take(0);
    }
  }
  const sizeIn = (folders: readonly Folder[], unit: number, due: number, adopt: boolean): number =>
    (adopt ? usualSize(folders, unit) : undefined) ?? due;
  const { adoptFileSizes } = context;
  const logFileSize = sizeIn([logFiles], 1, options.mappedFileSizeCommitLog, adoptFileSizes);
  const writes = options.enableConsumeQueueExt;
  const shared = { fileSystem, files, staging: paths.own };
  const tableContext: TableContext = {
    ...shared,
    directory: paths.consumeQueue,
    fileSize: sizeIn(
      foldersIn(queueFolders),
      UNIT_BYTES,
      options.mappedFileSizeConsumeQueue,
      adoptFileSizes,
    ),
    extension: {
      ...shared,
      directory: paths.queueExtension,
      fileSize: sizeIn(
        foldersIn(extensionFolders),
        1,
        options.mappedFileSizeConsumeQueueExt,
        // No file is made where none is written.
        adoptFileSizes || !writes,
      ),
      writes,
    },
    batches: {
      ...shared,
      directory: paths.batchQueue,
      fileSize: sizeIn(
        foldersIn(batchFolders),
        BATCH_UNIT_BYTES,
        options.mapperFileSizeBatchConsumeQueue,
        adoptFileSizes,
      ),
    },
    ...(context.queueTypeFor ? { queueTypeFor: context.queueTypeFor } : {}),
  };
  const log = segmentsOf(logFiles, logFileSize);
  const shortFiles = [...log.short];
  const segmentsIn = (
    folder: Folder | undefined,
    { fileSize }: { fileSize: number },
  ): Segment[] => {
    const { segments, short } = segmentsOf(folder ?? EMPTY, fileSize);
    shortFiles.push(...short);
    return segments;
  };
  const deleted = new DeletedTopics(await deletedTopics(context));
  deleted.forgetBelow(log.segments[0]?.start ?? 0);
  const queues = new ConsumeQueueTable(tableContext, deleted);
  const doubles: BatchQueue[] = [];
  const folders = new Map([...queueFolders, ...extensionFolders]);
  await inParallel(folders, async ([name, { topic, queueId }]) => {
    const segments = segmentsIn(queueFolders.get(name)?.folder, tableContext);
    const extension = extensionFolders.get(name)?.folder;
    const extensionSegments = segmentsIn(extension, tableContext.extension as ExtensionContext);
    // An empty folder tells nothing.
    if (segments.length + extensionSegments.length === 0) return;
    queues.add(queues.queue(topic, queueId, segments, extensionSegments));
  });
  for (const { topic, queueId, folder } of batchFolders.values()) {
    if (folder.files.length === 0) continue;
    const segments = segmentsIn(folder, tableContext.batches as QueueFilesContext);
    const queue = queues.batchQueue(topic, queueId, segments);
    const other = queues.find(topic, queueId);
    if (!other) queues.add(queue);
    else if (deleted.get(topic)) doubles.push(queue);
    else throw doubleQueue(queue, other);
  }
  return {
    cleanStop: !(await abortExists(fileSystem, paths.abort)),
    checkpoint: await readCheckpoint(fileSystem, paths.checkpoint),
    segments: new SegmentQueue(paths.commitLog, logFileSize, files, log.segments),
    queues,
    doubles,
    shortFiles,
  };
}

/** One queue has files of both kinds. */
export function doubleQueue(queue: MessageQueue, other: MessageQueue): StoreError {
  const { directory } = other.segments.length > 0 ? other : (other.extension ?? other);
  return unexpected(queue.directory, `there are files of the same queue in ${directory}`);
}

async function deletedTopics({
  fileSystem,
  paths,
  warn,
}: StoreFilesContext): Promise<DeletedTopic[]> {
  try {
    return await readDeletedTopics(fileSystem, paths.deletedTopics);
  } catch (error) {
    if (!warn) throw error;
    warn(`${(error as Error).message}; topics that were deleted may be shown`);
    return [];
  }
}

/** A folder of a queue's files, in a folder of topics. */
interface QueueFolder {
  readonly topic: string;
  readonly queueId: number;
  folder: Folder;
}

/** The folders of queues in a folder of topics, by `topic/queueId`. */
async function listQueues(
  { fileSystem, files }: Pick<StoreFilesContext, "fileSystem" | "files">,
  root: string,
): Promise<ReadonlyMap<string, QueueFolder>> {
  const queues = new Map<string, QueueFolder>();
  for (const { name: topic, kind } of await list(fileSystem, root)) {
    if (kind !== "directory") continue;
    for (const queue of await list(fileSystem, join(root, topic))) {
      await files.turn.take(0);
      // RocketMQ skips names that are no whole numbers.
      if (queue.kind !== "directory" || !isQueueId(queue.name)) continue;
      queues.set(`${topic}/${queue.name}`, { topic, queueId: Number(queue.name), folder: EMPTY });
    }
  }
  await inParallel(
    queues.values(),
    async (queue) => {
      const directory = `${root}${sep}${queue.topic}${sep}${queue.queueId}`;
      queue.folder = await filesOf(fileSystem, directory);
    },
    LOOKS_AT_ONCE,
  );
  return queues;
}

function foldersIn(queues: ReadonlyMap<string, QueueFolder>): Folder[] {
  return [...queues.values()].map(({ folder }) => folder);
}

/** A name of a queue's folder, as a store gives it: `007` is no queue, and not queue 7. */
function isQueueId(name: string): boolean {
  return /^\d{1,10}$/.test(name) && String(Number(name) | 0) === name;
}

/** The files of a folder of segments, in order. */
interface Folder {
  readonly files: readonly {
    readonly path: string;
    readonly start: number;
    readonly size: number;
    readonly identity: string;
  }[];
}

const EMPTY: Folder = { files: [] };

/**
 * The files of one folder. Sub-folders are passed over, as RocketMQ does, unless one is in the way of a
 * segment; any other name is refused.
 */
async function filesOf(fileSystem: FileSystem, directory: string): Promise<Folder> {
  const entries = (await list(fileSystem, directory, "stats"))
    .filter(({ name, kind }) => kind !== "directory" || segmentStart(name) !== undefined)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const files: Folder["files"][number][] = [];
  for (const { name, kind, stat: known } of entries) {
    const path = `${directory}${sep}${name}`;
    const start = segmentStart(name);
    // A longer name may tell an offset that another file has.
    if (kind !== "file" || start === undefined || segmentName(start) !== name) {
      throw unexpected(
        path,
        "a folder of segments holds only files named by their offset, 20 digits",
      );
    }
    const { size, identity } = known ?? (await stat(fileSystem, path));
    files.push({ path, start, size, identity });
  }
  return { files };
}

/** A file that was met before under another name is refused. */
function refuseDoubles({ files }: Folder, names: Map<string, string>): void {
  for (const { path, identity } of files) {
    const other = names.get(identity);
    if (other !== undefined) throw unexpected(path, `it is the same file as ${other}`);
    names.set(identity, path);
  }
}

/** The size that most files have, if a store can have such files; of several the largest. */
function usualSize(folders: readonly Folder[], unit: number): number | undefined {
  const counts = new Map<number, number>();
  for (const { files } of folders) {
    for (const { size } of files) counts.set(size, (counts.get(size) ?? 0) + 1);
  }
  let usual: number | undefined;
  for (const [size, count] of counts) {
    if (size === 0 || size > FILE_SIZE_MAX || size % unit !== 0) continue;
    const most = usual === undefined ? 0 : (counts.get(usual) as number);
    if (count > most || (count === most && size > (usual as number))) usual = size;
  }
  return usual;
}

/** Any size but the right one is refused: only the last file may be too short. */
function segmentsOf(
  { files }: Folder,
  fileSize: number,
): { readonly segments: Segment[]; readonly short: Segment[] } {
  const short: Segment[] = [];
  const segments = files.map(({ path, start, size }, i) => {
    if (start % fileSize !== 0) {
      throw unexpected(path, `its name is no multiple of the file size, ${fileSize}`);
    }
    if (!Number.isSafeInteger(start + fileSize)) {
      throw unexpected(path, "its name is an offset so close to 2^53 that nothing fits behind it");
    }
    const segment = { path, start, size: fileSize, unverifiedIdentity: undefined };
    if (size !== fileSize) {
      if (size > fileSize || i < files.length - 1) {
        throw unexpected(path, `it has ${size} bytes, ${fileSize} are due`);
      }
      short.push(segment);
    }
    return segment;
  });
  return { segments, short };
}

function unexpected(path: string, why: string): StoreError {
  return new StoreError("STORE_UNEXPECTED_FILE", `Cannot open ${path}: ${why}`, { path });
}

/** Of what lies there; `undefined` if nothing does. */
async function identityOf(fileSystem: FileSystem, path: string): Promise<string | undefined> {
  try {
    return (await fileSystem.stat(path)).identity;
  } catch (cause) {
    if ((cause as { code?: string }).code === "ENOENT") return undefined;
    throw new StoreError("STORE_IO", `Cannot look at ${path}`, { path, cause });
  }
}

/** Paths of what is in the folder of the index; whatever else bears its name is the index's to tell. */
async function listIndex(fileSystem: FileSystem, path: string): Promise<string[]> {
  try {
    return (await fileSystem.readdir(path)).map(({ name }) => join(path, name));
  } catch {
    return [];
  }
}

async function list(
  fileSystem: FileSystem,
  path: string,
  more?: "stats",
): Promise<DirectoryEntry[]> {
  try {
    return await fileSystem.readdir(path, more);
  } catch (cause) {
    if ((cause as { code?: string }).code === "ENOENT") return [];
    throw new StoreError("STORE_IO", `Cannot list ${path}`, { path, cause });
  }
}

async function stat(fileSystem: FileSystem, path: string): Promise<FileStat> {
  try {
    return await fileSystem.stat(path);
  } catch (cause) {
    throw new StoreError("STORE_IO", `Cannot look at ${path}`, { path, cause });
  }
}
