/**
 * `forcelog dump`: everything that a store holds, as one JSON object, for comparing.
 *
 * @module
 */

import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { type LogEntry, type MessageStore, type StoredMessage, StoreError } from "../lib/mod.ts";
import { readConfig } from "./arguments.ts";
import { exactJson, type Json, JsonStream } from "./json.ts";
import { READS_ONLY, type Verb, version } from "./main.ts";
import { messageJson, sha256 } from "./message_json.ts";
import { pages } from "./query.ts";
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
/** The second one, of what fills the end of a file. */
const MAGIC_BLANK = 0xcbd43194 | 0;
const WINDOW_BYTES = 64 * 1024;

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
Prints the files, the checkpoint, every record of the log, every queue with its units, what is found
by key. Bodies of at
most 64 bytes are given in base64, larger ones by their SHA-256; units as [physical offset, size in
bytes, tags code as text], those of batch queues with the offset and number of their messages. A store that cannot be opened is {"loaded": false, "error": ...}.
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
    const keys = new Set<string>();
    await dumpLog(store, json, keys);
    await dumpQueues(store, json);
    await json.add({ ...store.checkpointLongs }, "checkpoint");
    await dumpIndex(store, json, keys);
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

/** @param keys Gets the keys of whole records, as `topic#key`. */
async function dumpLog(store: MessageStore, json: JsonStream, keys: Set<string>): Promise<void> {
  const { wrote, flushed, dispatched } = store.watermarks;
  json.begin("{", "commitLog");
  await json.add(store.minPhysicalOffset, "minOffset");
  await json.add(wrote, "maxOffset");
  await json.add(dispatched, "confirmOffset");
  await json.add(flushed, "flushedWhere");
  json.begin("[", "records");
  for await (const entry of entries(store)) {
    await json.add(entryJson(entry));
    if (entry.kind === "record") for (const key of keysOf(entry.message)) keys.add(key);
  }
  await json.end();
  await json.end();
}

/**
 * The log as RocketMQ's own check walks it: over a damaged record by its length, as long as that
 * may be one, and else no further.
 */
async function* entries(store: MessageStore): AsyncGenerator<Entry, void, void> {
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
      next = yield* badPlaces(entry, end);
      break;
    }
    from = next;
  }
}

type BadEntry = Extract<LogEntry, { kind: "bad" }>;
/** Of a damaged place no more is told than where it is and what it states. */
type Entry = Exclude<LogEntry, BadEntry> | Pick<BadEntry, "kind" | "offset" | "declaredSize">;

/**
 * The damaged place, and those that follow it by their lengths. Before `next` of the first one there is
 * no whole record, which has not to be found out for each of them again.
 *
 * @param end Of the file, or of the log in it.
 * @returns Where something else may lie, if the lengths lead there.
 */
async function* badPlaces(
  { path, position, ...first }: BadEntry,
  end: number,
): AsyncGenerator<Entry, number | undefined, void> {
  const window = await FileWindow.open(path);
  try {
    let { offset, declaredSize } = first;
    for (;;) {
      if (end - offset < HEAD_BYTES) return undefined;
      yield { kind: "bad", offset, declaredSize };
      const behind = offset + declaredSize;
      if (declaredSize < BAD_SIZE_MIN || behind > end) return undefined;
      if (behind >= first.next) return behind;
      const head = await window.read(position + behind - first.offset, HEAD_BYTES);
      if (head.length < HEAD_BYTES || head.readInt32BE(4) === MAGIC_BLANK) return behind;
      offset = behind;
      declaredSize = head.readInt32BE(0);
    }
  } finally {
    await window.close();
  }
}

/** Reads a file from its front to its end, a few bytes here and there. */
class FileWindow {
  readonly #file: FileHandle;
  #bytes: Buffer = Buffer.alloc(0);
  #position = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async open(path: string): Promise<FileWindow> {
    return new FileWindow(await open(path, "r"));
  }

  async read(position: number, length: number): Promise<Buffer> {
    let at = position - this.#position;
    if (at < 0 || at + length > this.#bytes.length) {
      const { bytesRead, buffer } = await this.#file.read(
        Buffer.alloc(WINDOW_BYTES),
        0,
        WINDOW_BYTES,
        position,
      );
      this.#bytes = buffer.subarray(0, bytesRead);
      this.#position = position;
      at = 0;
    }
    return this.#bytes.subarray(at, at + length);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

function entryJson(entry: Entry): Json {
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

function keysOf({ topic, properties }: StoredMessage): string[] {
  const words = properties?.get("KEYS")?.split(" ") ?? [];
  const keys = [properties?.get("UNIQ_KEY"), ...words];
  return keys.filter((key) => key !== undefined && key !== "").map((key) => `${topic}#${key}`);
}

/** The files of the index, and for each key what the store finds. */
async function dumpIndex(
  store: MessageStore,
  json: JsonStream,
  keys: ReadonlySet<string>,
): Promise<void> {
  json.begin("{", "index");
  json.begin("[", "files");
  for (const file of await store.indexFiles()) {
    await json.add({
      name: file.name,
      beginTimestamp: file.beginTimestamp,
      endTimestamp: file.endTimestamp,
      beginPhyOffset: file.beginPhysicalOffset,
      endPhyOffset: file.endPhysicalOffset,
      hashSlotCount: file.usedSlots,
      indexCount: file.count,
    });
  }
  await json.end();
  json.begin("{", "found");
  for (const key of keys) {
    // A topic has no such character.
    const at = key.indexOf("#");
    const offsets: number[] = [];
    const request = { topic: key.slice(0, at), key: key.slice(at + 1), maxNum: 2 ** 31 - 1 };
    for await (const { messages } of pages(store, request)) {
      offsets.push(...messages.map(({ physicalOffset }) => physicalOffset));
    }
    await json.add(offsets.reverse(), key);
  }
  await json.end();
  await json.end();
}

async function dumpQueues(store: MessageStore, json: JsonStream): Promise<void> {
  json.begin("[", "queues");
  for (const queue of store.queues()) {
    const { topic, queueId, queueType, minOffset, maxOffset, maxPhysicalOffset } = queue;
    const isBatch = queueType === "BatchCQ";
    json.begin("{");
    await json.add(topic, "topic");
    await json.add(queueId, "queueId");
    if (isBatch) await json.add("BatchConsumeQueue", "type");
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
      for (const { physicalOffset, size, tagsCode, queueOffset, messages } of units) {
        const more = isBatch ? [queueOffset, messages] : [];
        await json.add([physicalOffset, size, String(tagsCode), ...more]);
        const message = await lookup(store, physicalOffset);
        const isThere =
          message?.size === size &&
          (message.topic !== topic || message.queueOffset === queueOffset);
        if (!isThere) unreadableOrMisplaced++;
        offset = queueOffset + messages;
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
