/**
 * Bytes of the log written once more, as they were read: after a failed sync they may be in the page
 * cache only, and clean, so that a sync alone would do nothing for them.
 *
 * @module
 */

import { readFully, writeFully } from "../io/fully.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import type { PhysicalOffset } from "../units.ts";
import { type EvidenceContext, PIECE_BYTES, withSegment } from "./evidence.ts";

/**
 * Writes what lies between `from` and `end` again, in place. Nothing is synced here.
 *
 * @throws {StoreError} `STORE_IO` naming the file.
 */
export async function rewriteLog(
  segments: SegmentQueue,
  from: PhysicalOffset,
  end: PhysicalOffset,
  context: Pick<EvidenceContext, "files">,
): Promise<void> {
  for (const segment of segments.segments) {
    const start = Math.max(from - segment.start, 0);
    const stop = Math.min(end - segment.start, segment.size);
    if (start >= stop) continue;
    await withSegment(context, segment, async (file) => {
      for (let position = start; position < stop; position += PIECE_BYTES) {
        const bytes = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, stop - position));
        const got = await readFully(file, bytes, position);
        await writeFully(file, [bytes.subarray(0, got)], position);
      }
    });
  }
}
