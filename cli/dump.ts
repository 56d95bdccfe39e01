/**
 * `forcelog dump`: everything that a store holds, as one JSON object, for comparing.
 *
 * @module
 */

import { join } from "node:path";
import { type LogEntry, type MessageStore, type StoredMessage, StoreError } from "../lib/mod.ts";
import { readConfig } from "./arguments.ts";
import { exactJson, type Json, JsonStream } from "./json.ts";
import { READS_ONLY, type Verb, version } from "./main.ts";
import { messageJson, sha256 } from "./message_json.ts";
import {
  checkDirectory,
  exists,
  listFiles,
  openForReading,
  readCheckpointLongs,
} from "./store_directory.ts";
import { describe, type Terminal, UsageError } from "./terminal.ts";

/** Objects and arrays of so many levels are broken over lines, if nothing else is said. */
const PRETTY_DEPTH = 4;
/** The smallest TOTALSIZE by which the walk steps over a damaged record. */
const BAD_SIZE_MIN = 90;
/** Bytes of a record's first two fields. */
const HEAD_BYTES = 8;

interface DumpOptions {
  readonly dir: string;
  readonly config?: string;
  readonly pretty?: string | true;
}

export const dump: Verb = (command, terminal) => {
  command
    .requiredOption("--dir <directory>", "the store's directory")
    .option("--config <json>", "options of the store: JSON text or a file, or a script with them")
    .option("--pretty [depth]", `break lines, down to this depth (${PRETTY_DEPTH})`)
    .option("--json", "as it is: dump prints nothing but JSON")
    .addHelpText(
      "after",
      `
Prints the files, the checkpoint, every record of the log, every queue with its units. Bodies of at
most 64 bytes are given in base64, larger ones by their SHA-256; units as [physical offset, size in
bytes, tags code as text]. A store that cannot be opened is {"loaded": false, "error": ...}.
${READS_ONLY}

Examples:
  forcelog dump --dir /data/store
  forcelog dump --dir /data/store --config '{"enableMultiDispatch": true}' --pretty 3`,
    )
    .action((options: DumpOptions) => dumpStore(options, terminal));
};

async function dumpStore(options: DumpOptions, terminal: Terminal): Promise<void> {
  const { dir } = options;
  const depth = depthOf(options.pretty);
  const config = await readConfig(options.config);
  await checkDirectory(dir);
  const json = new JsonStream(terminal, depth);
  json.begin("{");
  await json.add(`forcelog ${version()}`, "version");
  await json.add(await exists(join(dir, "abort")), "abortBefore");
  const longs = await readCheckpointLongs(dir);
  await json.add(longs?.map(exactJson) ?? null, "checkpointBefore");
  const files = await listFiles(dir);
  await json.add(new Map(files.map(({ path, size }) => [path, size])), "filesBefore");
  const store = await openForReading(dir, config, terminal).catch((error: unknown) => {
    // That a store is refused is what there is to see of it.
    if (error instanceof StoreError) return error;
    throw error;
  });
  if (store instanceof StoreError) {
    terminal.note(describe(store));
    await json.add(false, "loaded");
    await json.add(describe(store), "error");
    await json.end();
    return;
  }
  try {
    await json.add(true, "loaded");
    await json.add(store.recovery.end, "maxOffsetAfterLoad");
    await dumpLog(store, json);
    await dumpQueues(store, json);
    await json.add({ ...store.checkpointLongs }, "checkpoint");
    await json.add({ found: {} }, "index");
    await json.end();
  } finally {
    await store.close();
  }
}

function depthOf(pretty: string | true | undefined): number {
  if (pretty === undefined) return -1;
  if (pretty === true) return PRETTY_DEPTH;
  if (/^[0-9]$/.test(pretty)) return Number(pretty);
  throw new UsageError(`Cannot use --pretty ${pretty}: expected a depth of 0 to 9`);
}

async function dumpLog(store: MessageStore, json: JsonStream): Promise<void> {
  const { wrote, flushed, dispatched } = store.watermarks;
  json.begin("{", "commitLog");
  await json.add(store.minPhysicalOffset, "minOffset");
  await json.add(wrote, "maxOffset");
  await json.add(dispatched, "confirmOffset");
  await json.add(flushed, "flushedWhere");
  json.begin("[", "records");
  for await (const entry of entries(store)) await json.add(entryJson(entry));
  await json.end();
  await json.end();
}

/**
 * The log as RocketMQ's own check walks it: over a damaged record by its length, as long as that
 * may be one, and else no further.
 */
async function* entries(store: MessageStore): AsyncGenerator<LogEntry, void, void> {
  const max = store.watermarks.wrote;
  const fileSize = store.options.mappedFileSizeCommitLog;
  let from: number | undefined = Math.max(store.minPhysicalOffset, 0);
  while (from !== undefined) {
    let next: number | undefined;
    for await (const entry of store.records({ from })) {
      if (entry.kind !== "bad") {
        yield entry;
        continue;
      }
      const end = Math.min(max, entry.offset - (entry.offset % fileSize) + fileSize);
      if (end - entry.offset < HEAD_BYTES) break;
      yield entry;
      const behind = entry.offset + entry.declaredSize;
      if (entry.declaredSize >= BAD_SIZE_MIN && behind <= end) next = behind;
      break;
    }
    from = next;
  }
}

function entryJson(entry: LogEntry): Json {
  const { offset } = entry;
  switch (entry.kind) {
    case "record": {
      const { message, tagsCode } = entry;
      return {
        ...messageJson(message),
        sha256: sha256(message.bytes),
        magic: message.bytes.toString("hex", 4, 8),
        position: offset,
        dispatchTagsCode: tagsCode,
      };
    }
    case "blank":
      return { offset, blank: entry.size };
    case "gap":
      return { offset, gap: entry.size };
    case "bad":
      return { offset, size: entry.declaredSize, bad: true };
  }
}

async function dumpQueues(store: MessageStore, json: JsonStream): Promise<void> {
  json.begin("[", "queues");
  for (const { topic, queueId, minOffset, maxOffset, maxPhysicalOffset } of store.queues()) {
    json.begin("{");
    await json.add(topic, "topic");
    await json.add(queueId, "queueId");
    await json.add(minOffset, "min");
    await json.add(maxOffset, "max");
    await json.add(maxPhysicalOffset, "maxPhysicOffset");
    json.begin("[", "units");
    let unreadableOrMisplaced = 0;
    let error: StoreError | undefined;
    let offset = minOffset;
    while (offset < maxOffset) {
      const units = await store.units({ topic, queueId, from: offset }).catch((cause: unknown) => {
        if (!(cause instanceof StoreError) || cause.code !== "STORE_QUEUE_DAMAGED") throw cause;
        error = cause;
        return [];
      });
      if (units.length === 0) break;
      for (const { physicalOffset, size, tagsCode } of units) {
        await json.add([physicalOffset, size, String(tagsCode)]);
        const message = await lookup(store, physicalOffset);
        const isThere =
          message?.size === size && (message.topic !== topic || message.queueOffset === offset);
        if (!isThere) unreadableOrMisplaced++;
        offset++;
      }
    }
    await json.end();
    await json.add(unreadableOrMisplaced, "unreadableOrMisplaced");
    if (error) await json.add(describe(error), "error");
    await json.end();
  }
  await json.end();
}

async function lookup(store: MessageStore, offset: number): Promise<StoredMessage | undefined> {
  try {
    return await store.lookup(offset);
  } catch (error) {
    if (error instanceof StoreError && error.code === "STORE_RECORD_DAMAGED") return undefined;
    throw error;
  }
}
