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
  if (watermarks && holds(segments, watermarks.queuesEnd)) {
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

/** Whether a scan can begin at the offset: inside a file, or at the end of the last one. */
function holds(segments: SegmentQueue, offset: PhysicalOffset): boolean {
  const { last } = segments;
  return (
    segments.find(offset) !== undefined || (last !== undefined && offset === last.start + last.size)
  );
}

/** The last file whose first record is whole and passes the test. */
async function lastFile(
  segments: SegmentQueue,
  options: RecordCheckOptions,
  passes: (start: PhysicalOffset, storeTimestamp: number) => boolean,
): Promise<Segment | undefined> {
  for (let i = segments.segments.length - 1; i >= 0; i--) {
    const segment = segments.segments[i] as Segment;
    const storeTimestamp = await firstStoreTimestamp(segments, segment, options);
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

async function firstStoreTimestamp(
  segments: SegmentQueue,
  { start, size }: Segment,
  options: RecordCheckOptions,
): Promise<number | undefined> {
  let needed = 4096;
  for (;;) {
    const bytes = await segments.read(start, needed);
    if (!bytes) return undefined;
    const check = checkRecord(bytes, 0, bytes.length, start, options);
    if (check.kind === "record") return readStoreTimestamp(bytes, 0);
    if (check.kind !== "short" || check.needed > size || check.needed <= bytes.length)
      return undefined;
    needed = check.needed;
  }
}
