/**
 * `forcelog stats`: the figures of a store that can be told from outside.
 *
 * @module
 */

import { resolve } from "node:path";
import type { MessageStore } from "../lib/mod.ts";
import { readConfig } from "./arguments.ts";
import { type Json, type JsonObject, jsonText } from "./json.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { plural } from "./recovery_text.ts";
import { checkStore, type FilesSum, listFiles, openForReading, sumOf } from "./store_directory.ts";
import { table } from "./table.ts";
import { bytesText, printable, type Terminal, timeText } from "./terminal.ts";

interface StatsOptions {
  readonly dir: string;
  readonly queues?: true;
  readonly json?: true;
  readonly config?: string;
}

export const stats: Verb = (command, terminal) => {
  command
    .requiredOption("--dir <directory>", "the store's directory")
    .option("--queues", "a line for each queue instead of each topic")
    .option("--json", "print one JSON object, with topics and queues")
    .option("--config <json>", "options of the store: JSON text or a file")
    .addHelpText(
      "after",
      `
Offsets, sizes, how full the disks are, how much of the log lies behind what the checkpoint vouches for
(a crash now would have it read again), how many messages each topic holds and when the first and the last
of them were stored, how far consumer groups and delay levels are behind, and topics that were deleted and
still have records. Rates and times of puts and reads are known to the process alone that has the store
open: store.stats() and store.runtimeInfo().
${READS_ONLY}

Examples:
  forcelog stats --dir /data/store
  forcelog stats --dir /data/store --json | jq '.topics[] | select(.messages > 1000000)'`,
    )
    .action(async (options: StatsOptions) => {
      const config = await readConfig(options.config);
      await checkStore(options.dir, config);
      const files = await listFiles(options.dir);
      const sums = {
        commitLog: sumOf(files, "commitlog"),
        consumeQueues: sumOf(files, "consumequeue"),
        index: sumOf(files, "index"),
      };
      const store = await openForReading(options.dir, config, terminal);
      try {
        const facts = await factsOf(resolve(options.dir), store, sums);
        if (options.json) await terminal.line(jsonText(jsonOf(facts)));
        else await print(facts, options, terminal);
      } finally {
        await store.close();
      }
    });
};

type Sums = Readonly<Record<"commitLog" | "consumeQueues" | "index", FilesSum>>;

interface QueueFacts {
  readonly topic: string;
  readonly queueId: number;
  readonly minOffset: number;
  readonly maxOffset: number;
  readonly messages: number;
  /** Store times of its first and its last message, ms; `null` without any. */
  readonly earliestTime: number | null;
  readonly newestTime: number | null;
}

async function queuesOf(store: MessageStore): Promise<QueueFacts[]> {
  const found: QueueFacts[] = [];
  for (const { topic, queueId, minOffset, maxOffset } of store.queues()) {
    const timeOf = async (offset: number): Promise<number | null> =>
      (await store.messageStoreTime(topic, queueId, offset)) ?? null;
    found.push({
      topic,
      queueId,
      minOffset,
      maxOffset,
      messages: maxOffset - minOffset,
      earliestTime: await timeOf(minOffset),
      newestTime: await timeOf(maxOffset - 1),
    });
  }
  return found;
}

function topicsOf(queues: readonly QueueFacts[]) {
  return [...groupBy(queues, ({ topic }) => topic)].map(([topic, own]) => ({
    topic,
    queues: own.length,
    messages: own.reduce((count, { messages }) => count + messages, 0),
    earliestTime: bestOf(
      own.map(({ earliestTime }) => earliestTime),
      Math.min,
    ),
    newestTime: bestOf(
      own.map(({ newestTime }) => newestTime),
      Math.max,
    ),
  }));
}

function groupBy<T>(values: readonly T[], keyOf: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const group = groups.get(keyOf(value));
    if (group) group.push(value);
    else groups.set(keyOf(value), [value]);
  }
  return groups;
}

function bestOf(
  times: readonly (number | null)[],
  choose: (a: number, b: number) => number,
): number | null {
  return times.reduce((a, b) => (a === null ? b : b === null ? a : choose(a, b)), null);
}

/** How many messages each group has still to see, in the queues for which it has committed. */
function groupsOf(store: MessageStore) {
  const offsets = store.offsets.list();
  return [...groupBy(offsets, ({ group }) => group)].map(([group, own]) => ({
    group,
    queues: own.length,
    behind: own.reduce((count, { topic, queueId, offset }) => {
      const from = Math.max(offset, store.minOffset(topic, queueId));
      return count + Math.max(store.maxOffset(topic, queueId) - from, 0);
    }, 0),
  }));
}

type Facts = Awaited<ReturnType<typeof factsOf>>;

async function factsOf(directory: string, store: MessageStore, sums: Sums) {
  const { recovery, watermarks, checkpointLongs, minPhysicalOffset } = store;
  const end = watermarks.wrote;
  const info = await store.runtimeInfo();
  const ratioOf = (name: string): number | null => {
    const ratio = Number(info[name]);
    return ratio < 0 ? null : ratio;
  };
  const slot = recovery.checkpoint.watermarks;
  const behind = (known: number | undefined): number | null =>
    known === undefined ? null : Math.max(end - known, 0);
  const queues = await queuesOf(store);
  const topics = topicsOf(queues);
  return {
    directory,
    earliestTime: (await store.earliestMessageTime()) ?? null,
    newestTime: checkpointLongs.physicMsgTimestamp || null,
    commitLog: {
      minOffset: minPhysicalOffset,
      maxOffset: end,
      diskRatio: ratioOf("commitLogDiskRatio"),
      ...sums.commitLog,
    },
    consumeQueues: {
      topics: topics.length,
      queues: queues.length,
      messages: topics.reduce((count, { messages }) => count + messages, 0),
      diskRatio: ratioOf("consumeQueueDiskRatio"),
      ...sums.consumeQueues,
    },
    index: { ...sums.index },
    behind: {
      log: behind(slot?.logEnd),
      queues: behind(slot?.queuesEnd),
      index: behind(slot?.index?.end),
    },
    topics,
    queues,
    groups: groupsOf(store),
    delayLevels: store.delayOffsets.list().map(({ level, offset }) => ({
      level,
      offset,
      maxOffset: store.maxOffset("SCHEDULE_TOPIC_XXXX", level - 1),
    })),
    deletedTopics: store.deletedTopics.map(({ topic, below }) => ({ topic, below })),
  };
}

function jsonOf(facts: Facts): JsonObject {
  return JSON.parse(JSON.stringify(facts)) as Record<string, Json>;
}

async function print(facts: Facts, options: StatsOptions, terminal: Terminal): Promise<void> {
  const { commitLog, consumeQueues, index, behind, earliestTime, newestTime } = facts;
  const space = ({ files, bytes, allocatedBytes }: FilesSum): string =>
    `${plural(files, "file")}, ${bytesText(bytes)}, on disk ${bytesText(allocatedBytes)}`;
  const disk = (ratio: number | null): string =>
    ratio === null ? "unknown" : `${Math.round(ratio * 100)} per cent used`;
  const bytes = (count: number | null): string => (count === null ? "unknown" : bytesText(count));
  const start = Math.max(commitLog.minOffset, 0);
  const rows: [string, string][] = [
    ["store", printable(facts.directory)],
    ["messages", `stored ${time(earliestTime)} to ${time(newestTime)}`],
    [
      "commit log",
      `${start} to ${commitLog.maxOffset}: ${bytesText(commitLog.maxOffset - start)}; ${space(commitLog)}`,
    ],
    [
      "consume queues",
      `${plural(consumeQueues.queues, "queue")} of ${plural(consumeQueues.topics, "topic")}, ${plural(consumeQueues.messages, "message")}; ${space(consumeQueues)}`,
    ],
    ["index", space(index)],
    [
      "disks",
      `of the log ${disk(commitLog.diskRatio)}, of the queues ${disk(consumeQueues.diskRatio)}`,
    ],
    [
      "behind",
      `the checkpoint: log ${bytes(behind.log)}, queues ${bytes(behind.queues)}, index ${bytes(behind.index)}`,
    ],
    ...facts.groups.map(({ group, queues, behind }): [string, string] => [
      "group",
      `${printable(group)}: ${plural(behind, "message")} behind in ${plural(queues, "queue")}`,
    ]),
    ...facts.delayLevels.map(({ level, offset, maxOffset }): [string, string] => [
      "delay level",
      `${level}: ${offset} of ${maxOffset} delivered`,
    ]),
    ...facts.deletedTopics.map(({ topic, below }): [string, string] => [
      "deleted",
      `${printable(topic)}: its records below ${below}`,
    ]),
  ];
  for (const [name, value] of rows) await terminal.line(`${name.padEnd(16)}${value}`);
  await terminal.line("");
  const times = ({ earliestTime, newestTime }: (typeof facts.topics)[number] | QueueFacts) => [
    time(earliestTime),
    time(newestTime),
  ];
  if (options.queues) {
    await table(
      ["TOPIC", "QUEUE", "MIN", "MAX", "MESSAGES", "FIRST STORED", "LAST STORED"],
      facts.queues.map((queue) => [
        printable(queue.topic),
        ...[queue.queueId, queue.minOffset, queue.maxOffset, queue.messages].map(String),
        ...times(queue),
      ]),
      terminal,
    );
  } else {
    await table(
      ["TOPIC", "QUEUES", "MESSAGES", "FIRST STORED", "LAST STORED"],
      facts.topics.map((topic) => [
        printable(topic.topic),
        ...[topic.queues, topic.messages].map(String),
        ...times(topic),
      ]),
      terminal,
    );
  }
}

function time(ms: number | null): string {
  return ms === null ? "never" : timeText(ms);
}
