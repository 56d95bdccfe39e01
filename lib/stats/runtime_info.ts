/**
 * The runtime information of a store, under RocketMQ's names and as its text. RocketMQ:
 * `DefaultMessageStore.getRuntimeInfo`, and of `AdminBrokerProcessor` what a store alone can tell.
 *
 * @module
 */

import { usedPercent } from "../io/disk_space.ts";
import type { FileSystem } from "../io/file_system.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { PUT_TIME_SLOTS } from "./put_times.ts";
import type { Rates, StoreStatistics } from "./store_statistics.ts";

export interface RuntimeFacts {
  readonly statistics: StoreStatistics;
  readonly puts: {
    readonly messagesPut: number;
    readonly bytesPut: number;
    readonly putsFailed: number;
  };
  readonly minOffset: PhysicalOffset;
  readonly maxOffset: PhysicalOffset;
  /** Bytes that are not readable yet, and bytes that are not durable. */
  readonly dispatchBehind: number;
  readonly flushBehind: number;
  /** For how long the write under way has been going on, in ms. */
  readonly busyForMs: number;
  /** Store time of the first message, or -1. */
  readonly earliestTime: number;
  readonly delayLevels: readonly {
    readonly level: number;
    readonly offset: QueueOffset;
    readonly max: QueueOffset;
  }[];
  /** Used parts of the file systems, 0 to 1. */
  readonly commitLogDiskRatio: number;
  readonly consumeQueueDiskRatio: number;
  readonly commitLogPath: string;
}

export function runtimeInfo(facts: RuntimeFacts): Record<string, string> {
  const { statistics, puts, commitLogDiskRatio, commitLogPath } = facts;
  const { gets, putTimes } = statistics;
  const rates = statistics.rates();
  const times = Math.max(1, puts.messagesPut);
  const info: Record<string, string | number> = {
    bootTimestamp: statistics.openedAt,
    runtime: durationText(statistics.openForMs),
    putMessageEntireTimeMax: putTimes.maxMs,
    putMessageTimesTotal: times,
    putMessageFailedTimes: puts.putsFailed,
    putMessageSizeTotal: puts.bytesPut,
    putMessageDistributeTime: distributionText(putTimes.distribution()),
    putMessageAverageSize: doubleText(puts.bytesPut / times),
    dispatchMaxBuffer: 0,
    getMessageEntireTimeMax: Math.floor(gets.longestMs),
    putTps: ratesText(rates.put),
    getFoundTps: ratesText(rates.getFound),
    getMissTps: ratesText(rates.getMiss),
    getTotalTps: ratesText(rates.getTotal),
    getTransferredTps: ratesText(rates.getTransferred),
    putLatency99: putTimes.percentile(0.99).toFixed(2),
    putLatency999: putTimes.percentile(0.999).toFixed(2),
    commitLogDiskRatio: doubleText(commitLogDiskRatio),
    [`commitLogDiskRatio_${commitLogPath}`]: doubleText(commitLogDiskRatio),
    consumeQueueDiskRatio: doubleText(facts.consumeQueueDiskRatio),
    commitLogMinOffset: facts.minOffset,
    commitLogMaxOffset: facts.maxOffset,
    dispatchBehindBytes: facts.dispatchBehind,
    pageCacheLockTimeMills: Math.floor(facts.busyForMs),
    earliestMessageTimeStamp: facts.earliestTime,
    remainHowManyDataToFlush: sizeText(facts.flushBehind),
    msgPutTotalTodayNow: puts.messagesPut,
    msgGetTotalTodayNow: gets.messages,
  };
  for (const { level, offset, max } of facts.delayLevels) {
    info[`scheduleMessageOffset_${level}`] = `${offset},${max}`;
  }
  return Object.fromEntries(Object.entries(info).map(([name, value]) => [name, String(value)]));
}

/** How full a file system is, 0 to 1, in hundredths and rounded up; -1 if that can't be told. */
export async function diskRatio(fileSystem: FileSystem, path: string): Promise<number> {
  try {
    const percent = usedPercent(await fileSystem.statfs(path));
    return percent === undefined ? -1 : percent / 100;
  } catch {
    return -1;
  }
}

function durationText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  return `[ ${days} days, ${hours} hours, ${minutes} minutes, ${seconds % 60} seconds ]`;
}

function distributionText(counts: readonly number[]): string {
  return PUT_TIME_SLOTS.map((name, i) => `${name}:${counts[i]} `).join("");
}

function ratesText(rates: Rates): string {
  return rates.map(doubleText).join(" ");
}

/** A double as Java writes it. */
function doubleText(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

/** `MixAll.humanReadableByteCount`, in units of 1024. */
function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), 6);
  return `${(bytes / 1024 ** power).toFixed(1)} ${"KMGTPE"[power - 1]}iB`;
}
