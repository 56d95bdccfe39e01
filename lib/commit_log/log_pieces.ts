/**
 * A file of the log from front to back, in large pieces.
 *
 * What lies in the page cache is copied from there when it is wanted: that takes less than to wake a
 * thread and to be woken by it. What does not is read on a thread, and the next piece, too, while one is
 * looked at.
 *
 *     |      piece        |
 *                    |      next         |     they overlap: a record between them is whole in one
 *
 * @module
 */

import type { Segment } from "../segment/segment.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import type { PhysicalOffset } from "../units.ts";

/** A record that begins so close to the end of a piece is in the next one as a whole, in bytes. */
const OVERLAP_BYTES = 16 * 1024;
/** After one that was not in the page cache so many pieces are read ahead; then the cache is asked again. */
const READ_AHEAD_PIECES = 16;

const NOTHING: Buffer = Buffer.alloc(0);

/** A read on its way. */
interface Ahead {
  readonly offset: PhysicalOffset;
  readonly length: number;
  readonly bytes: Promise<Buffer | undefined>;
}

export class LogPieces {
  /** What is in memory, valid until the next read, and where in the log it begins. */
  bytes: Buffer = NOTHING;
  offset: PhysicalOffset = 0;
  /** Where the file ends: earlier than it should if it turns out to be shorter. */
  end: PhysicalOffset;
  readonly #segments: SegmentQueue;
  readonly #pieceBytes: number;
  #ahead: Ahead | undefined;
  /** Pieces that are still to be read ahead. */
  #aheadLeft = 0;
  /** Memory of the piece before, for the next one. */
  #spare: Buffer | undefined;

  constructor(segments: SegmentQueue, segment: Segment, pieceBytes: number) {
    this.#segments = segments;
    this.#pieceBytes = pieceBytes;
    this.end = segment.start + segment.size;
  }

  /** Whether `length` bytes from `offset` on are in memory, or all that the file has there. */
  holds(offset: PhysicalOffset, length: number): boolean {
    const end = this.offset + this.bytes.length;
    return offset >= this.offset && (offset + length <= end || end === this.end);
  }

  /**
   * Reads `length` bytes from `offset` on, or all that the file has there, and more behind them.
   *
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  async read(offset: PhysicalOffset, length: number): Promise<void> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    const wanted = Math.min(Math.max(this.#pieceBytes, length), this.end - offset);
    // It may have failed where nobody is to come.
    const next = await ahead?.bytes.catch(() => undefined);
    const isNext =
      ahead && next && offset >= ahead.offset && offset + length <= ahead.offset + next.length;
    if (isNext) {
      this.#spare = this.bytes;
      this.#take(ahead.offset, next, ahead.length);
    } else {
      const buffer = memory(this.bytes, wanted);
      this.bytes = NOTHING;
      if (await this.#segments.readIfCached(offset, buffer)) {
        this.#take(offset, buffer, wanted);
        return;
      }
      this.#aheadLeft = READ_AHEAD_PIECES;
      const bytes = await this.#segments.readOnThread(offset, buffer);
      this.#take(offset, bytes ?? NOTHING, wanted);
    }
    this.#readAhead();
  }

  #take(offset: PhysicalOffset, bytes: Buffer, wanted: number): void {
    this.bytes = bytes;
    this.offset = offset;
    if (bytes.length < wanted) this.end = offset + bytes.length;
  }

  /** Waits for what is on its way. */
  async close(): Promise<void> {
    await this.#ahead?.bytes.catch(() => undefined);
  }

  #readAhead(): void {
    const from = this.offset + this.bytes.length - OVERLAP_BYTES;
    const length = Math.min(this.#pieceBytes, this.end - from);
    if (this.#aheadLeft === 0 || from <= this.offset || length <= OVERLAP_BYTES) return;
    this.#aheadLeft--;
    const buffer = memory(this.#spare, length);
    this.#spare = undefined;
    this.#ahead = { offset: from, length, bytes: this.#segments.readOnThread(from, buffer) };
  }
}

/** So many bytes, of `old` if it has as many. */
function memory(old: Buffer | undefined, length: number): Buffer {
  return old && old.length >= length ? old.subarray(0, length) : Buffer.allocUnsafeSlow(length);
}
