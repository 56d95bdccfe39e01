/**
 * Walks the records of the log, file by file, in large reads.
 *
 * @module
 */

import { nextLoop } from "../io/soon.ts";
import type { QueueRequest } from "../message/dispatch_request.ts";
import { checkRecord, type RecordCheckOptions, readTotalSize } from "../message/record.ts";
import { BLANK_SIZE, MAGIC_V1, MAGIC_V2 } from "../message/record_layout.ts";
import { RecordRun } from "../message/record_run.ts";
import type { Segment } from "../segment/segment.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import type { FilePosition, PhysicalOffset } from "../units.ts";
import { LogPieces } from "./log_pieces.ts";

/** What is read at once: its check takes well below a millisecond. */
const PIECE_BYTES = 512 * 1024;
/**
 * Records that are visited in one turn of the event loop, those that the addon vouches for: small ones take
 * longer than to check their bytes. Any other counts as two.
 */
const RECORDS_PER_TURN = 1024;

/** What the walk met at `offset`. */
export type ScanStep =
  /** A whole record: `bytes` from `at` on, valid until the visit returns. */
  | {
      readonly kind: "record";
      readonly offset: PhysicalOffset;
      readonly size: number;
      readonly bytes: Buffer;
      readonly at: number;
    }
  /** The filler at the end of a file; `size` reaches to its end, whatever it says itself. */
  | {
      readonly kind: "blank";
      readonly offset: PhysicalOffset;
      readonly size: number;
      readonly declaredSize: number;
    }
  /** No record. `size` is what TOTALSIZE would be: it may be anything. */
  | {
      readonly kind: "bad";
      readonly offset: PhysicalOffset;
      readonly size: number;
      readonly reason: string;
      readonly path: string;
      readonly position: FilePosition;
    }
  /** Files are missing; the next one starts `size` bytes further on. */
  | { readonly kind: "gap"; readonly offset: PhysicalOffset; readonly size: number };

/** After a step: nothing to go on, `"stop"`, or the offset to go on at after a bad place. */
export type ScanAnswer = undefined | "stop" | PhysicalOffset;

/** What the caller of {@linkcode scanLog} wants. */
interface Scan {
  readonly options: RecordCheckOptions;
  readonly visit: (step: ScanStep) => ScanAnswer;
  readonly visitPlain: ((request: QueueRequest) => ScanAnswer) | undefined;
}

/**
 * Visits what lies in the log from `from` on, until the visitor stops it, a bad place is not
 * answered with an offset, or the files end.
 *
 * @param from Start of a record or of a file.
 * @param visitPlain Visits a record in place of `visit`, for who does not need its bytes; not every one
 *   comes here. What it is given is valid until the visit returns.
 * @returns The offset at which it stopped: of the bad place, of the record that was answered with
 *   `"stop"`, or the end of the last file.
 * @throws {StoreError} `STORE_IO`.
 */
export async function scanLog(
  segments: SegmentQueue,
  from: PhysicalOffset,
  options: RecordCheckOptions,
  visit: (step: ScanStep) => ScanAnswer,
  visitPlain?: (request: QueueRequest) => ScanAnswer,
): Promise<PhysicalOffset> {
  const scan = { options, visit, visitPlain };
  let offset = from;
  for (;;) {
    const segment = segments.find(offset);
    if (!segment) {
      const next = segments.nextFrom(offset);
      if (!next || visit({ kind: "gap", offset, size: next.start - offset }) === "stop") {
        return offset;
      }
      offset = next.start;
      continue;
    }
    const end = await scanSegment(segments, segment, offset, scan);
    if (end !== segment.start + segment.size) return end;
    offset = end;
  }
}

/** @returns The end of the file, or where the walk stopped before it. */
async function scanSegment(
  segments: SegmentQueue,
  segment: Segment,
  from: PhysicalOffset,
  scan: Scan,
): Promise<PhysicalOffset> {
  const pieces = new LogPieces(segments, segment, PIECE_BYTES);
  try {
    return await scanPieces(pieces, segment, from, scan);
  } finally {
    await pieces.close();
  }
}

async function scanPieces(
  pieces: LogPieces,
  segment: Segment,
  from: PhysicalOffset,
  scan: Scan,
): Promise<PhysicalOffset> {
  const { options, visit } = scan;
  const run = new RecordRun();
  const fileEnd = segment.start + segment.size;
  let offset = from;
  let needed = BLANK_SIZE;
  let left = RECORDS_PER_TURN;
  while (offset < pieces.end) {
    if (left <= 0) {
      left = RECORDS_PER_TURN;
      await nextLoop();
    }
    if (fileEnd - offset < BLANK_SIZE) {
      // Too little for a blank record's head: nothing was or will be written there.
      const size = fileEnd - offset;
      visit({ kind: "blank", offset, size, declaredSize: size });
      return fileEnd;
    }
    if (!pieces.holds(offset, needed)) {
      await pieces.read(offset, needed);
      continue;
    }
    const { bytes } = pieces;
    const at = offset - pieces.offset;
    const { passed, count, stopped } = visitRun(run, bytes, at, offset, left, scan);
    offset += passed;
    left -= count;
    if (stopped) return offset;
    if (passed > 0) {
      needed = BLANK_SIZE;
      continue;
    }
    const check = checkRecord(bytes, at, bytes.length, offset, options);
    if (check.kind === "short" && offset + check.needed <= fileEnd) {
      needed = check.needed;
      if (!pieces.holds(offset, needed)) continue;
    }
    needed = BLANK_SIZE;
    let answer: ScanAnswer;
    if (check.kind === "record") {
      answer = visit({ kind: "record", offset, size: check.size, bytes, at });
      if (answer === "stop") return offset;
      offset += check.size;
      left -= 2;
    } else if (check.kind === "blank") {
      answer = visit({ kind: "blank", offset, size: fileEnd - offset, declaredSize: check.size });
      return answer === "stop" ? offset : fileEnd;
    } else {
      answer = visit({
        kind: "bad",
        offset,
        size: bytes.length - at < 4 ? 0 : readTotalSize(bytes, at),
        reason: check.kind === "bad" ? check.reason : "the record runs over the end of its file",
        path: segment.path,
        position: offset - segment.start,
      });
      if (typeof answer !== "number" || answer <= offset) return offset;
      offset = Math.min(answer, fileEnd);
    }
  }
  return offset;
}

/**
 * Visits the records that the addon vouches for. Apart from all that waits: V8 makes such a loop fast.
 *
 * @param max So many at most.
 * @returns Bytes and number of the records that were passed, and whether the next one was answered with
 *   `"stop"`.
 */
function visitRun(
  run: RecordRun,
  bytes: Buffer,
  start: number,
  startOffset: PhysicalOffset,
  max: number,
  { options, visit, visitPlain }: Scan,
): { readonly passed: number; readonly count: number; readonly stopped: boolean } {
  let passed = 0;
  for (let count = 0; ; count++) {
    if (count === max) return { passed, count, stopped: false };
    const at = start + passed;
    const offset = startOffset + passed;
    const size = run.next(bytes, at, offset, options);
    if (size === 0) return { passed, count, stopped: false };
    const plain = visitPlain && run.request(offset);
    const answer = plain ? visitPlain(plain) : visit({ kind: "record", offset, size, bytes, at });
    if (answer === "stop") return { passed, count, stopped: true };
    passed += size;
  }
}

/**
 * The first place from `from` on, in the same file, where a whole record states that very place.
 *
 * @param accept Whether it is one that the caller believes; all without it.
 * @returns Its offset, or the end of the file if there is none.
 */
export async function findNextRecord(
  segments: SegmentQueue,
  from: PhysicalOffset,
  options: RecordCheckOptions,
  accept: (bytes: Buffer, at: number) => boolean = () => true,
): Promise<PhysicalOffset> {
  const segment = segments.find(from);
  if (!segment) return from;
  const fileEnd = segment.start + segment.size;
  const magics = [MAGIC_V1, MAGIC_V2].map((magic) => {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32BE(magic);
    return bytes;
  });
  // Pieces overlap by the bytes that a magic split between them would need.
  for (let offset = from; offset < fileEnd; offset += PIECE_BYTES) {
    const bytes = await segments.read(offset, PIECE_BYTES + BLANK_SIZE);
    if (!bytes) return fileEnd;
    const candidates: number[] = [];
    for (const magic of magics) {
      for (let at = bytes.indexOf(magic, 4); at >= 0; at = bytes.indexOf(magic, at + 1)) {
        candidates.push(at - 4);
      }
    }
    for (const at of candidates.sort((a, b) => a - b)) {
      const place = offset + at;
      if (place < from) continue;
      let record = { bytes, at };
      let check = checkRecord(bytes, at, bytes.length, place, options);
      // Its head rules most magics out: only what may be a record is read as a whole.
      for (let known = bytes.length - at; check.kind === "short" && check.needed > known; ) {
        const more = await segments.read(place, check.needed);
        if (!more || more.length <= known) break;
        known = more.length;
        record = { bytes: more, at: 0 };
        check = checkRecord(more, 0, known, place, options);
      }
      if (check.kind === "record" && accept(record.bytes, record.at)) return place;
    }
  }
  return fileEnd;
}
