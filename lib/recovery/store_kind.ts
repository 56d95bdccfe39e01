/**
 * Whether a directory holds a kind of store that is served. Looks only; changes nothing.
 *
 * @module
 */

import { join } from "node:path";
import { StoreError } from "../errors.ts";
import type { DirectoryEntry, FileSystem } from "../io/file_system.ts";
import { readFully } from "../io/fully.ts";
import type { StorePaths } from "../io/store_paths.ts";
import { MAGIC_BLANK, MAGIC_V1, MAGIC_V2 } from "../message/record_layout.ts";
import { segmentStart } from "../segment/segment.ts";

/** Bytes in front of each record of a DLedger commit log (`DLedgerEntry.BODY_OFFSET`). */
const DLEDGER_HEADER_BYTES = 48;

/** What is refused, by the name of what was found: below the root, with the reason. */
const REFUSED: readonly (readonly [path: string, kind: string])[] = [
  [
    "consumequeue/CURRENT",
    "consume queues in RocksDB (storeType=defaultRocksDB or rocksdbCQDoubleWriteEnable)",
  ],
  ["consumequeue_rocksdb", "consume queues in RocksDB (useSeparateStorePathForRocksdbCQ)"],
  ["config/metadata", "configuration in RocksDB"],
  ["config/topics", "configuration in RocksDB"],
  ["config/consumerOffsets", "configuration in RocksDB"],
  ["config/subscriptionGroups", "configuration in RocksDB"],
  ["config/rdb", "configuration in RocksDB"],
  ["config/tieredStoreMetadata.json", "tiered storage: older data is elsewhere"],
  ["tiered_index_file", "tiered storage: older data is elsewhere"],
];

/** Refused unless empty: each entry is a topic. */
const REFUSED_UNLESS_EMPTY: readonly (readonly [path: string, kind: string])[] = [
  ["compaction/compactionLog", "compacted topics (cleanup.policy=COMPACTION)"],
];

/** Refused for writing only: the controller decides what is confirmed. */
const CONTROLLER_FILES = ["epochFileCheckpoint", "brokerIdentity"];

/**
 * @returns Warnings: what is there and not looked at.
 * @throws {StoreError} `STORE_KIND_UNSUPPORTED` naming the kind and the path that tells it.
 */
export async function checkStoreKind(
  fileSystem: FileSystem,
  paths: StorePaths,
  readOnly: boolean,
): Promise<string[]> {
  const refuse = (kind: string, path: string): StoreError =>
    new StoreError(
      "STORE_KIND_UNSUPPORTED",
      `Cannot open ${paths.root}: it has ${kind}, see ${path}`,
      {
        path,
      },
    );
  if (paths.commitLog.includes(",")) {
    throw refuse("several commit log paths (storePathCommitLog)", paths.commitLog);
  }
  for (const [name, kind] of REFUSED) {
    const path = join(paths.root, name);
    if (await exists(fileSystem, path)) throw refuse(kind, path);
  }
  for (const [name, kind] of REFUSED_UNLESS_EMPTY) {
    const path = join(paths.root, name);
    const entries = await list(fileSystem, path);
    if (entries.length > 0) throw refuse(kind, join(path, (entries[0] as DirectoryEntry).name));
  }
  for (const { name } of await list(fileSystem, paths.root)) {
    if (name.startsWith("dledger-")) throw refuse("a DLedger commit log", join(paths.root, name));
    if (CONTROLLER_FILES.includes(name) && !readOnly) {
      throw refuse(
        "a controller (enableControllerMode) that decides about writes",
        join(paths.root, name),
      );
    }
  }
  const foreign = await findForeignLog(fileSystem, paths.commitLog);
  if (foreign) throw refuse("a DLedger commit log", foreign);
  const warnings: string[] = [];
  const kvStore = join(paths.root, "kvStore");
  if (await exists(fileSystem, kvStore)) {
    warnings.push(`The state of pop consumers in ${kvStore} is not read`);
  }
  const half = join(paths.consumeQueue, "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC");
  if ((await list(fileSystem, half)).length > 0) {
    warnings.push(`Transactions in RocksDB may be undecided, see ${half}`);
  }
  return warnings;
}

/** The first file of a log whose records lie behind a header of DLedger. */
async function findForeignLog(
  fileSystem: FileSystem,
  directory: string,
): Promise<string | undefined> {
  const names = (await list(fileSystem, directory))
    .filter(({ name, kind }) => kind === "file" && segmentStart(name) !== undefined)
    .map(({ name }) => name)
    .sort();
  if (names[0] === undefined) return undefined;
  const path = join(directory, names[0]);
  const head = Buffer.alloc(DLEDGER_HEADER_BYTES + 8);
  try {
    const file = await fileSystem.open(path, "read");
    try {
      if ((await readFully(file, head, 0)) < head.length) return undefined;
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw new StoreError("STORE_IO", `Cannot read ${path}`, { path, cause });
  }
  const magics = [MAGIC_V1, MAGIC_V2, MAGIC_BLANK];
  const foreign =
    !magics.includes(head.readInt32BE(4)) &&
    magics.includes(head.readInt32BE(DLEDGER_HEADER_BYTES + 4));
  return foreign ? path : undefined;
}

async function exists(fileSystem: FileSystem, path: string): Promise<boolean> {
  try {
    await fileSystem.stat(path);
    return true;
  } catch (cause) {
    if (isMissing(cause)) return false;
    throw new StoreError("STORE_IO", `Cannot look at ${path}`, { path, cause });
  }
}

async function list(fileSystem: FileSystem, path: string): Promise<DirectoryEntry[]> {
  try {
    return await fileSystem.readdir(path);
  } catch (cause) {
    if (isMissing(cause)) return [];
    throw new StoreError("STORE_IO", `Cannot list ${path}`, { path, cause });
  }
}

function isMissing(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === "ENOENT" || code === "ENOTDIR";
}
