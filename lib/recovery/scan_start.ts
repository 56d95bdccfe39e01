/**
 * Where recovery begins to read the log.
 *
 * With valid watermarks of ours, after a crash: where the durable queues end. Otherwise in the file
 * that RocketMQ's own rule picks (5.5.1), looking at as many files as there are: its limit of ten
 * loses what lies before.
 *
 * @module
 */

import { checkRecord, type RecordCheckOptions } from "../message/record.ts";
import { readStoreTimestamp } from "../message/record_layout.ts";
import type { Segment } from "../segment/segment.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import type { PhysicalOffset } from "../units.ts";
import type { StoreFiles } from "./store_files.ts";

/** Margin of the checkpoint's times, in ms (`StoreCheckpoint.getMinTimestamp`). */
const TIME_MARGIN_MS = 3000;

/** Bytes read to learn the size of a record. */
const FIRST_READ_BYTES = 4096;

export interface ScanStart {
  readonly offset: PhysicalOffset;
  readonly why: string;
}

/** @param queuesEnd The highest record end that the queues know; used after a clean stop. */
export async function chooseScanStart(
  { cleanStop, checkpoint, segments }: StoreFiles,
  queuesEnd: PhysicalOffset,
  options: RecordCheckOptions,
): Promise<ScanStart> {
  const oldest = segments.minOffset ?? 0;
  if (cleanStop) {
    const file = await lastFile(segments, options, (start) => start <= queuesEnd);
    return file
      ? { offset: file.start, why: "clean stop: the last file that the queues know" }
      : { offset: oldest, why: "clean stop, but the queues know no file: the whole log" };
  }
  const { longs, watermarks } = checkpoint;
  if (
    watermarks &&
    (await isPlace(segments, watermarks.queuesEnd, longs.logicsPhysicalOffset, options))
  ) {
    return { offset: watermarks.queuesEnd, why: "crash: the end of the durable queues" };
  }
  const { logicsPhysicalOffset, physicMsgTimestamp, logicsMsgTimestamp } = longs;
  let file: Segment | undefined;
  if (logicsPhysicalOffset > 0) {
    file = await lastFile(segments, options, (start) => start <= logicsPhysicalOffset);
  } else {
    const limit = Math.min(physicMsgTimestamp, logicsMsgTimestamp) - TIME_MARGIN_MS;
    if (limit > 0) {
      file = await lastFile(segments, options, (_, storeTimestamp) => storeTimestamp <= limit);
    }
  }
  return file
    ? { offset: file.start, why: "crash: the last file that the checkpoint vouches for" }
    : { offset: oldest, why: "crash: the checkpoint vouches for no file: the whole log" };
}

/**
 * Whether a scan can begin at `offset`: the record before it, which starts at `last`, ends there, or
 * it is the start of a file. A Java store that cut the log and was killed before it wrote its
 * checkpoint leaves other records there.
 */
async function isPlace(
  segments: SegmentQueue,
  offset: PhysicalOffset,
  last: PhysicalOffset,
  options: RecordCheckOptions,
): Promise<boolean> {
  if (!segments.find(offset)) return false;
  if (offset === segments.startOf(offset) || !segments.find(last)) return true;
  const record = await recordAt(segments, last, options);
  return record !== undefined && last + record.size === offset;
}

/** The last file whose first record is whole and passes the test. */
async function lastFile(
  segments: SegmentQueue,
  options: RecordCheckOptions,
  passes: (start: PhysicalOffset, storeTimestamp: number) => boolean,
): Promise<Segment | undefined> {
  for (let i = segments.segments.length - 1; i >= 0; i--) {
    const segment = segments.segments[i] as Segment;
    const storeTimestamp = (await recordAt(segments, segment.start, options))?.storeTimestamp;
    if (
      storeTimestamp !== undefined &&
      storeTimestamp !== 0 &&
      passes(segment.start, storeTimestamp)
    ) {
      return segment;
    }
  }
  return undefined;
}

async function recordAt(
  segments: SegmentQueue,
  offset: PhysicalOffset,
  options: RecordCheckOptions,
): Promise<{ size: number; storeTimestamp: number } | undefined> {
  let needed = FIRST_READ_BYTES;
  for (;;) {
    const bytes = await segments.read(offset, needed);
    if (!bytes) return undefined;
    const check = checkRecord(bytes, 0, bytes.length, offset, options);
    if (check.kind === "record") {
      return { size: check.size, storeTimestamp: readStoreTimestamp(bytes, 0) };
    }
    // More than is left in the file is no record.
    if (check.kind !== "short" || bytes.length < needed) return undefined;
    needed = check.needed;
  }
}
