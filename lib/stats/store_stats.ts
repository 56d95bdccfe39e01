/**
 * What `store.stats()` tells.
 *
 * @module
 */

import type { Rates } from "./store_statistics.ts";

export interface StoreStats {
  /** Puts that resolved or will, by messages; those that were refused or failed. */
  readonly messagesPut: number;
  readonly putsFailed: number;
  /** Bytes of their records. */
  readonly bytesPut: number;
  /** Syncs of the commit log, and the longest one in ms. */
  readonly forces: number;
  readonly longestForceMs: number;
  /** Writes of the commit log, and their bytes. */
  readonly commits: number;
  readonly committedBytes: number;
  /** Bytes that wait for their write, and how many may. */
  readonly pendingBytes: number;
  readonly pendingBytesMax: number;
  /** Puts that wait for a file or for room. */
  readonly waitingPuts: number;
  /** Used part of the disks of the log and of the queues, 0 to 1; `undefined` if that is not known. */
  readonly commitLogDiskRatio: number | undefined;
  readonly consumeQueueDiskRatio: number | undefined;
  /** A disk is so full that puts are refused. */
  readonly diskFull: boolean;
  /** Files of the log that retention has deleted. */
  readonly deletedLogFiles: number;
  /** Bytes of the log that a kill would lose, a cut of the power, and those that cannot be read yet. */
  readonly behind: { readonly commit: number; readonly flush: number; readonly dispatch: number };
  /** `SYNC_FLUSH`: puts that wait for their force, and for how long the first of them has, in ms. */
  readonly forceQueue: { readonly length: number; readonly oldestMs: number };
  /** How long syncs took, in ms; percentiles within a fifth. */
  readonly forceTimes: {
    readonly count: number;
    readonly averageMs: number;
    readonly p50Ms: number;
    readonly p99Ms: number;
    readonly p999Ms: number;
    readonly maxMs: number;
    readonly buckets: readonly { readonly belowMs: number; readonly count: number }[];
  };
  /**
   * How long puts took from their append to their promise, in whole ms: the longest; percentiles of the minute
   * before the one that is being counted; and how many took how long, by RocketMQ's slots
   * (`PUT_TIME_SLOTS`), in that minute and in this one.
   */
  readonly putTimes: {
    readonly maxMs: number;
    readonly p99Ms: number;
    readonly p999Ms: number;
    readonly minuteBefore: readonly number[];
    readonly thisMinute: readonly number[];
  };
  /** Gets that found something, and those that did not; what they returned; the longest in ms. */
  readonly gets: {
    readonly found: number;
    readonly missed: number;
    readonly messages: number;
    readonly bytes: number;
    readonly longestMs: number;
  };
  /** A second, over the last 10 s, minute and 10 minutes: messages put, gets, and messages got. */
  readonly perSecond: Readonly<
    Record<"put" | "getFound" | "getMiss" | "getTotal" | "getTransferred", Rates>
  >;
  /** Messages put to each topic that got any since the open, and bytes of their records. */
  readonly topics: readonly {
    readonly topic: string;
    readonly messages: number;
    readonly bytes: number;
  }[];
}
