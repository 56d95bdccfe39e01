/**
 * `forcelog info`: what a store is, and what its recovery would do.
 *
 * @module
 */

import { join, resolve } from "node:path";
import type { MessageStore, StoredMessage, Watermarks } from "../lib/mod.ts";
import { readConfig } from "./arguments.ts";
import { exactJson, type JsonObject, jsonText } from "./json.ts";
import { type LockState, lockState } from "./lock_state.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { plural, recoveryJson, recoveryTexts } from "./recovery_text.ts";
import {
  checkStore,
  type DirectoryFile,
  exists,
  type FilesSum,
  listFiles,
  openForReading,
  readCheckpointLongs,
  readFront,
  sumOf,
} from "./store_directory.ts";
import { bytesText, printable, type Terminal, timeText } from "./terminal.ts";
import { writerHints } from "./writer_hints.ts";

/** RocketMQ's names of the six longs of the checkpoint, and whether each is a time. */
const LONGS = [
  ["physicMsgTimestamp", true],
  ["logicsMsgTimestamp", true],
  ["indexMsgTimestamp", true],
  ["masterFlushedOffset", false],
  ["confirmPhyOffset", false],
  ["logicsPhysicalOffset", false],
] as const;

/** Records looked at for who wrote them. */
const SAMPLE_MAX = 100;
/** Files looked at for these: a log with a gap may be millions of files long. */
const SAMPLE_FILES_MAX = 100;

interface InfoOptions {
  readonly json?: true;
  readonly config?: string;
}

export const info: Verb = (command, terminal) => {
  command
    .argument("<directory>", "the store's directory")
    .option("--json", "print one JSON object")
    .option("--config <json>", "options of the store: JSON text or a file")
    .addHelpText(
      "after",
      `
Sizes are bytes; "on disk" is the space that sparse files take.
${READS_ONLY}

Examples:
  forcelog info /data/store
  forcelog info /data/store --json | jq .recovery.cut`,
    )
    .action((directory: string, options: InfoOptions) => infoStore(directory, options, terminal));
};

async function infoStore(
  directory: string,
  options: InfoOptions,
  terminal: Terminal,
): Promise<void> {
  const config = await readConfig(options.config);
  await checkStore(directory, config);
  const found = await look(directory);
  const store = await openForReading(directory, config, terminal);
  try {
    const facts: Facts = { ...found, store, sample: await sampleOf(store) };
    if (options.json) await terminal.line(jsonText(json(facts)));
    else await terminal.write(text(facts));
  } finally {
    await store.close();
  }
}

/** What lies on disk. */
interface Found {
  readonly directory: string;
  readonly files: readonly DirectoryFile[];
  readonly longs: readonly bigint[] | undefined;
  /** Content of `abort`; `undefined` without the file. */
  readonly abort: string | undefined;
  readonly lock: LockState;
}

interface Facts extends Found {
  readonly store: MessageStore;
  /** The first records of the last file that has any. */
  readonly sample: readonly StoredMessage[];
}

async function look(directory: string): Promise<Found> {
  const abort = await readFront(join(directory, "abort"), 100);
  return {
    directory: resolve(directory),
    files: await listFiles(directory),
    longs: await readCheckpointLongs(directory),
    abort: (await exists(join(directory, "abort"))) ? (abort?.toString("latin1") ?? "") : undefined,
    lock: await lockState(directory),
  };
}

async function sampleOf(store: MessageStore): Promise<StoredMessage[]> {
  const { mappedFileSizeCommitLog: fileSize } = store.options;
  const { dispatched } = store.watermarks;
  const first = Math.max(store.minPhysicalOffset, 0);
  const last = dispatched - (dispatched % fileSize);
  const least = Math.max(first, last - SAMPLE_FILES_MAX * fileSize);
  for (let start = last; start >= least; start -= fileSize) {
    const sample: StoredMessage[] = [];
    for await (const entry of store.records({ from: start })) {
      if (entry.kind !== "record" || sample.push(entry.message) === SAMPLE_MAX) break;
    }
    if (sample.length > 0) return sample;
  }
  return [];
}

function queueFacts(store: MessageStore) {
  const queues = store.queues();
  return {
    topics: new Set(queues.map(({ topic }) => topic)).size,
    queues: queues.length,
    messages: queues.reduce((count, { minOffset, maxOffset }) => count + maxOffset - minOffset, 0),
    fileSize: store.options.mappedFileSizeConsumeQueue,
  };
}

function json(facts: Facts): JsonObject {
  const { directory, files, longs, abort, lock, store, sample } = facts;
  const { recovery, watermarks, options } = store;
  const slot = recovery.checkpoint.watermarks;
  return {
    directory,
    commitLog: {
      minOffset: store.minPhysicalOffset,
      maxOffset: watermarks.wrote,
      fileSize: options.mappedFileSizeCommitLog,
      ...sumOf(files, "commitlog"),
    },
    consumeQueues: { ...queueFacts(store), ...sumOf(files, "consumequeue") },
    batchQueues: {
      fileSize: options.mapperFileSizeBatchConsumeQueue,
      ...sumOf(files, "batchconsumequeue"),
    },
    extensions: {
      fileSize: options.mappedFileSizeConsumeQueueExt,
      ...sumOf(files, "consumequeue_ext"),
    },
    index: { ...sumOf(files, "index") },
    abort: abort ?? null,
    checkpoint:
      longs === undefined
        ? null
        : {
            ...Object.fromEntries(LONGS.map(([name], i) => [name, exactJson(longs[i] ?? 0n)])),
            forcelog: slot ? { ...slot, index: slot.index ? { ...slot.index } : null } : null,
          },
    lock: { ...lock },
    recovery: recoveryJson(recovery, false),
    writtenBy: writerHints({ files, longs, abort, sample, isOurs: slot !== undefined }),
  };
}

function text(facts: Facts): string {
  const { directory, files, longs, abort, lock, store, sample } = facts;
  const { recovery, watermarks, options } = store;
  const slot = recovery.checkpoint.watermarks;
  const queues = queueFacts(store);
  const log = sumOf(files, "commitlog");
  const units = sumOf(files, "consumequeue");
  const extensions = sumOf(files, "consumequeue_ext");
  const batches = sumOf(files, "batchconsumequeue");
  const index = sumOf(files, "index");
  const space = ({ files: count, bytes, allocatedBytes }: FilesSum): string =>
    `${plural(count, "file")}, ${bytesText(bytes)}, on disk ${bytesText(allocatedBytes)}`;
  const batchRows: [string, string][] = [
    [
      "",
      `batch queues: files of ${bytesText(options.mapperFileSizeBatchConsumeQueue)}; ${space(batches)}`,
    ],
  ];
  const extensionRows: [string, string][] = [
    [
      "extensions",
      `files of ${bytesText(options.mappedFileSizeConsumeQueueExt)}; ${space(extensions)}`,
    ],
  ];
  const rows: [string, string][] = [
    ["store", printable(directory)],
    ["commit log", `${Math.max(store.minPhysicalOffset, 0)} to ${watermarks.wrote}`],
    ["", `files of ${bytesText(options.mappedFileSizeCommitLog)}; ${space(log)}`],
    [
      "consume queues",
      `${plural(queues.queues, "queue")} of ${plural(queues.topics, "topic")}, ${plural(queues.messages, "message")}`,
    ],
    ["", `files of ${bytesText(queues.fileSize)}; ${space(units)}`],
    ...(batches.files > 0 ? batchRows : []),
    ...(extensions.files > 0 ? extensionRows : []),
    ["index", space(index)],
    ["last stop", stopText(abort)],
    ["lock", lockText(lock)],
  ];
  if (longs === undefined) rows.push(["checkpoint", "none"]);
  LONGS.forEach(([name, isTime], i) => {
    const value = longs?.[i];
    if (value === undefined) return;
    const shown = isTime && value !== 0n ? `${value} (${timeText(value)})` : String(value);
    rows.push([i === 0 ? "checkpoint" : "", `${name} ${shown}`]);
  });
  if (longs !== undefined) {
    rows.push([
      "",
      slot
        ? `forcelog: log durable to ${slot.logEnd}, queues to ${slot.queuesEnd}; ${countsText(slot)}; index to ${slot.index?.end ?? "nowhere"}`
        : "forcelog: nothing, or void since another store was here",
    ]);
  }
  recoveryTexts(recovery, false).forEach((line, i) => {
    rows.push([i === 0 ? "recovery" : "", line]);
  });
  writerHints({ files, longs, abort, sample, isOurs: slot !== undefined }).forEach((hint, i) => {
    rows.push([i === 0 ? "written by" : "", hint]);
  });
  return rows.map(([name, value]) => `${name.padEnd(16)}${value}\n`).join("");
}

function countsText({ queueCount, unitCount }: Watermarks): string {
  if (queueCount < 0) return "queues not counted, since topics were being deleted";
  return `${plural(queueCount, "queue")}, ${plural(unitCount, "unit")}`;
}

function stopText(abort: string | undefined): string {
  if (abort === undefined) return "clean: there is no abort file";
  const process = abort === "" ? "" : ` of process ${printable(abort)}`;
  return `none, or the store is open: there is an abort file${process}`;
}

function lockText({ state, holder }: LockState): string {
  switch (state) {
    case "held":
      return `held by ${holder ?? "an unknown process"}`;
    case "free":
      return "free";
    case "unknown":
      return holder === undefined
        ? "unknown: this system does not tell"
        : `unknown: this system does not tell; last taken by ${holder}`;
  }
}
