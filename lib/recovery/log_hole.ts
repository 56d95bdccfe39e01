/**
 * Damage in the middle of the log: whole records follow, so it is no end. The bytes are kept as
 * evidence, and records that say "nothing here" take their place, since RocketMQ would cut the log
 * there and lose all that follows.
 *
 * @module
 */

import { readFully, writeFully } from "../io/fully.ts";
import { coverHole, type HoleCrc } from "../message/hole_record.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import type { PhysicalOffset } from "../units.ts";
import { type EvidenceContext, saveEvidence, withSegment } from "./evidence.ts";

/** A place in the log that holds no record. */
export interface BadPlace {
  readonly offset: PhysicalOffset;
  readonly path: string;
  /** Bytes from the start of that file. */
  readonly position: number;
  readonly reason: string;
}

/** Damage with whole records behind it. */
export interface LogHole extends BadPlace {
  /** Bytes up to the next whole record; missing files in between count. */
  readonly size: number;
  /** Store time of the last record before it, or of the next one if none is known, in ms. */
  readonly storeTimestamp: number;
}

/** A hole, and what became of it. */
export interface MendedHole extends LogHole {
  /** Files with the bytes that were there. */
  readonly evidence: readonly string[];
  /**
   * Whether the log is whole there now. It is not where a hole is smaller than any record: that is
   * stepped over at each recovery, but RocketMQ would cut the log there.
   */
  readonly covered: boolean;
}

/**
 * Saves the bytes of a hole and covers it. Both survive a power cut once this resolves; one in the
 * middle leaves a hole, and its evidence, for the next recovery.
 *
 * @param crc Whether the covering records carry a CRC of their own.
 * @throws {StoreError} `STORE_IO` naming the file.
 */
export async function mendHole(
  segments: SegmentQueue,
  hole: LogHole,
  crc: HoleCrc,
  context: EvidenceContext,
): Promise<MendedHole> {
  const evidence: string[] = [];
  let covered = true;
  const end = hole.offset + hole.size;
  for (const segment of segments.segments) {
    const from = Math.max(hole.offset, segment.start);
    const fileEnd = segment.start + segment.size;
    const to = Math.min(end, fileEnd);
    if (from >= to) continue;
    const pieces = coverHole(from, to, fileEnd, hole.storeTimestamp, crc);
    if (!pieces) {
      covered = false;
      continue;
    }
    const [start, stop] = [from - segment.start, to - segment.start];
    evidence.push(await saveEvidence(context, "hole", segment, start, stop));
    await withSegment(context, segment, async (file) => {
      for (const { offset, bytes } of pieces) {
        const position = offset - segment.start;
        // A file that lost a gigabyte to zeros need not be given it back as blocks.
        const there = Buffer.allocUnsafeSlow(bytes.length);
        await readFully(file, there, position);
        if (!there.equals(bytes)) await writeFully(file, [bytes], position);
      }
      await file.fdatasync();
    });
  }
  return { ...hole, evidence, covered };
}
