/**
 * Everything that lies in the log, in the order in which it lies there: for those who look at a
 * store rather than consume from it.
 *
 * @module
 */

import { findNextRecord, scanLog } from "../commit_log/log_scanner.ts";
import { dispatchRequestOf } from "../message/dispatch_request.ts";
import { type RecordCheckOptions, StoredMessage } from "../message/record.ts";
import type { DelayLevels } from "../message/tags_code.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import type { FilePosition, PhysicalOffset } from "../units.ts";

/** What lies at `offset` in the commit log. */
export type LogEntry =
  /** A whole record, its CRCs verified. */
  | {
      readonly kind: "record";
      readonly offset: PhysicalOffset;
      /** Bytes of the record. */
      readonly size: number;
      /** Owns its bytes. */
      readonly message: StoredMessage;
      /** What the unit in its queue holds: hash of the tag, or the time of a delayed delivery. */
      readonly tagsCode: number;
    }
  /** The filler at the end of a file; `size` reaches to its end. */
  | { readonly kind: "blank"; readonly offset: PhysicalOffset; readonly size: number }
  /** Bytes that are no record. */
  | {
      readonly kind: "bad";
      readonly offset: PhysicalOffset;
      /** The record's length as its first four bytes have it: any 32 bits. */
      readonly declaredSize: number;
      /** Where the walk goes on: at the next whole record, or the end of the file or of the log. */
      readonly next: PhysicalOffset;
      readonly reason: string;
      readonly path: string;
      /** Bytes from the start of that file. */
      readonly position: FilePosition;
    }
  /** Files are missing: the next one starts `size` bytes further on. */
  | { readonly kind: "gap"; readonly offset: PhysicalOffset; readonly size: number };

/** Entries are read in batches of about so many bytes. */
const BATCH_BYTES = 4 * 1024 * 1024;

/**
 * Yields what lies between `from` and `to`. It is no snapshot: files may be deleted meanwhile, and
 * are then gaps.
 *
 * @param from Start of a record or of a file; anything else is met as a bad place.
 * @param to Nothing that starts there or behind is looked at.
 * @throws {StoreError} `STORE_IO`.
 */
export async function* readLog(
  segments: SegmentQueue,
  from: PhysicalOffset,
  to: PhysicalOffset,
  options: RecordCheckOptions,
  delayLevels: DelayLevels,
): AsyncGenerator<LogEntry, void, void> {
  for (let offset = from; offset < to; ) {
    const entries: LogEntry[] = [];
    let bytes = 0;
    let bad: Omit<Extract<LogEntry, { kind: "bad" }>, "next"> | undefined;
    const end = await scanLog(segments, offset, options, (step) => {
      if (step.offset >= to || bytes >= BATCH_BYTES) return "stop";
      switch (step.kind) {
        case "record": {
          const record = Buffer.from(step.bytes.subarray(step.at, step.at + step.size));
          const { tagsCode } = dispatchRequestOf(record, 0, delayLevels);
          const message = new StoredMessage(record);
          entries.push({
            kind: "record",
            offset: step.offset,
            size: step.size,
            message,
            tagsCode,
          });
          bytes += step.size;
          break;
        }
        case "bad": {
          const { kind, offset, size: declaredSize, reason, path, position } = step;
          bad = { kind, offset, declaredSize, reason, path, position };
          break;
        }
        default: {
          const { kind, offset, size } = step;
          entries.push({ kind, offset, size });
        }
      }
      return undefined;
    });
    yield* entries;
    if (bad) {
      const next = Math.min(await findNextRecord(segments, end, options), to);
      yield { ...bad, next };
      offset = next;
    } else if (end > offset) {
      offset = end;
    } else {
      return;
    }
  }
}
