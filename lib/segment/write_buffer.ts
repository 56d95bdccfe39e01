/**
 * Appended bytes that are not in their file yet, and those that came before them. RocketMQ:
 * `TransientStorePool`, cut into small pooled chunks, so that a budget of gigabytes takes only what
 * is waiting.
 *
 *     | recent chunks | chunks that wait |
 *       committed       the writer takes them from the front
 *
 * Records are encoded straight into a chunk; a chunk belongs to one segment, and a record never
 * spans two. There is one writer: it takes a {@linkcode Piece}, writes it, and gives it back. What
 * is written stays until its chunk is needed again: whoever reads the end of the log finds it here.
 *
 * @module
 */

import type { FilePosition, PhysicalOffset } from "../units.ts";
import type { Segment } from "./segment.ts";

/** A usual chunk: large enough that a group of 64 records of 4 KiB is one buffer. */
const CHUNK_BYTES = 256 * 1024;
/**
 * Committed chunks that are kept, at most: 16 MiB. A copy into memory that the kernel has yet to
 * give takes six times as long, and a burst needs many chunks.
 */
const RECENT_CHUNKS_MAX = 64;
/** With so many chunks the oldest one is used again: 4 MiB, for those who read behind a writer. */
const RECENT_CHUNKS_MIN = 16;
/** Buffers in one piece: `IOV_MAX` of Linux. */
const PIECE_BUFFERS_MAX = 1024;

interface Chunk {
  readonly bytes: Buffer;
  readonly segment: Segment;
  /** Position of `bytes[0]` in the segment. */
  readonly position: FilePosition;
  /** Bytes appended, and how many of them are committed. */
  appended: number;
  committed: number;
  /** The file ends with this chunk: its last 8 bytes are the blank record's head. */
  seals: boolean;
}

/** Bytes for one place in one file. */
export interface Piece {
  readonly segment: Segment;
  readonly position: FilePosition;
  readonly buffers: readonly Uint8Array[];
  readonly bytes: number;
  /** The log is committed up to here once the piece is written. */
  readonly end: PhysicalOffset;
}

export class WriteBuffer {
  /** Bytes that may wait. */
  readonly budgetBytes: number;
  readonly #chunkBytes: number;
  /** The last one may have room left although all of it is committed. */
  readonly #chunks: Chunk[] = [];
  /** All of them committed, the oldest first. */
  readonly #recent: Chunk[] = [];
  #pendingBytes = 0;

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes;
    this.#chunkBytes = Math.min(CHUNK_BYTES, budgetBytes);
  }

  /** Bytes appended and not committed. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Whether `length` more bytes may wait. Whatever its size, one record may wait alone. */
  hasRoomFor(length: number): boolean {
    return this.#pendingBytes === 0 || this.#pendingBytes + length <= this.budgetBytes;
  }

  /**
   * Room for `length` bytes at `position` of the segment, in `target` from `at` on. They count once
   * {@linkcode WriteBuffer.append} is called, in the same turn; until then nothing has happened.
   */
  room(segment: Segment, position: FilePosition, length: number): { target: Buffer; at: number } {
    let chunk = this.#chunks.at(-1);
    if (
      !chunk ||
      chunk.segment !== segment ||
      chunk.position + chunk.appended !== position ||
      chunk.bytes.length - chunk.appended < length
    ) {
      if (chunk && chunk.committed === chunk.appended) {
        this.#chunks.pop();
        this.#keep(chunk);
      }
      const bytes = this.#bytesFor(length);
      chunk = { bytes, segment, position, appended: 0, committed: 0, seals: false };
      this.#chunks.push(chunk);
    }
    return { target: chunk.bytes, at: chunk.appended };
  }

  /**
   * Counts the bytes that were encoded into the room.
   *
   * @param seals They are the last ones of their file, whatever room it has left.
   */
  append(length: number, seals = false): void {
    const chunk = this.#chunks.at(-1) as Chunk;
    chunk.appended += length;
    chunk.seals = seals;
    this.#pendingBytes += length;
  }

  /** What the writer has to write next: all that waits for one file, up to `bytesMax` or one chunk. */
  next(bytesMax: number): Piece | undefined {
    const first = this.#chunks[0];
    if (!first || first.appended === first.committed) return undefined;
    const buffers: Uint8Array[] = [];
    let bytes = 0;
    let last = first;
    for (const chunk of this.#chunks) {
      const length = chunk.appended - chunk.committed;
      if (chunk.segment !== first.segment || length === 0) break;
      if (
        buffers.length > 0 &&
        (bytes + length > bytesMax || buffers.length === PIECE_BUFFERS_MAX)
      ) {
        break;
      }
      buffers.push(chunk.bytes.subarray(chunk.committed, chunk.appended));
      bytes += length;
      last = chunk;
    }
    const { segment } = first;
    const end = last.seals
      ? segment.start + segment.size
      : segment.start + last.position + last.appended;
    return { segment, position: first.position + first.committed, buffers, bytes, end };
  }

  /** The piece is written: its bytes no longer wait. */
  release(piece: Piece): void {
    let left = piece.bytes;
    this.#pendingBytes -= left;
    while (left > 0) {
      const chunk = this.#chunks[0] as Chunk;
      const taken = Math.min(left, chunk.appended - chunk.committed);
      chunk.committed += taken;
      left -= taken;
      if (chunk.committed < chunk.appended) return;
      if (this.#chunks.length === 1) return;
      this.#chunks.shift();
      this.#keep(chunk);
    }
  }

  /**
   * Copies bytes that were appended not long ago, committed or not.
   *
   * @param offset Where in the log they begin; they lie in one file.
   * @param target Is filled from `at` to `end`.
   * @returns Whether all of them are still there; if not, the target may hold anything.
   */
  copy(offset: PhysicalOffset, target: Buffer, at: number, end: number): boolean {
    let number = this.#recent.length + this.#chunks.length - 1;
    while (number >= 0 && startOf(this.#chunk(number)) > offset) number--;
    let from = offset;
    for (let to = at; to < end; number++) {
      const chunk = this.#chunk(number);
      const start = chunk ? from - startOf(chunk) : 0;
      if (!chunk || start < 0 || start >= chunk.appended) return false;
      const copied = chunk.bytes.copy(
        target,
        to,
        start,
        Math.min(start + end - to, chunk.appended),
      );
      to += copied;
      from += copied;
    }
    return true;
  }

  #chunk(number: number): Chunk {
    const { length } = this.#recent;
    return (number < length ? this.#recent[number] : this.#chunks[number - length]) as Chunk;
  }

  #bytesFor(length: number): Buffer {
    if (length > this.#chunkBytes) return Buffer.allocUnsafeSlow(length);
    const isEnough = this.#recent.length + this.#chunks.length >= RECENT_CHUNKS_MIN;
    const oldest = isEnough ? this.#recent.shift() : undefined;
    return oldest?.bytes ?? Buffer.allocUnsafeSlow(this.#chunkBytes);
  }

  #keep(chunk: Chunk): void {
    // One that was never used would be between the others.
    if (chunk.bytes.length !== this.#chunkBytes || chunk.appended === 0) return;
    if (this.#recent.length === RECENT_CHUNKS_MAX) this.#recent.shift();
    this.#recent.push(chunk);
  }
}

function startOf({ segment, position }: Chunk): PhysicalOffset {
  return segment.start + position;
}
