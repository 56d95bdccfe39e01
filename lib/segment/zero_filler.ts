/**
 * Zeros ahead of the log's end: a sync of bytes whose blocks have been written before need not wait
 * for the file system's journal, and a full disk shows before a record is accepted.
 *
 *     | records | zeros, synced ......... | hole ............ |
 *               ^ committed               ^ zeroed
 *               |<-------- reach -------->|
 *
 * They are written in the background, in pieces, a bounded way ahead. The pieces are small: a sync
 * of the log waits for whatever of its file is on the way to the device. Where the log is faster they
 * give way to it.
 *
 * @module
 */

import type { Clock } from "../io/clock.ts";
import { commitAndForceFully } from "../io/fully.ts";
import type { SystemError } from "../io/system_error.ts";
import { type FilePosition, OS_PAGE_SIZE } from "../units.ts";
import type { OpenFiles } from "./open_files.ts";
import type { Segment } from "./segment.ts";

/** How far ahead: with pieces of 1 MiB and more the log loses more than it gains. */
const REACH = 1024 * 1024;
const PIECE_BYTES = REACH / 4;
/** After the log was faster, or the device was full, nothing is written for so long, in ms. */
const PAUSE_MS = 100;

const ZEROS = Buffer.alloc(PIECE_BYTES);

/** What a new file begins with, in bytes: so the first records need not wait for the first piece. */
export const ZEROS_AT_FIRST = REACH;

export interface ZeroFillerContext {
  readonly files: OpenFiles;
  readonly clock: Clock;
  /** A sync failed: what it failed with may have been meant for the log's. */
  readonly failed: (segment: Segment, position: FilePosition, cause: unknown) => Promise<void>;
}

export class ZeroFiller {
  readonly #context: ZeroFillerContext;
  #segment: Segment | undefined;
  /** End of the zeros; `undefined` until the file was looked at. */
  #zeroed: FilePosition | undefined;
  #filling: Promise<void> | undefined;
  /** Where the piece under way begins. */
  #fillingFrom: FilePosition = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(context: ZeroFillerContext) {
    this.#context = context;
  }

  /** The log has been written up to `position`, and is not being written now. */
  advance(segment: Segment, position: FilePosition): void {
    if (segment !== this.#segment) {
      if (this.#filling) return;
      this.#segment = segment;
      this.#zeroed = undefined;
    }
    if (this.#filling) return;
    if (this.#zeroed !== undefined) {
      if (this.#zeroed >= segment.size || this.#zeroed - position > REACH / 2) return;
      if (this.#zeroed < position) {
        // The log was faster: leave the device to it, and some room before the next piece.
        this.#zeroed = position + PIECE_BYTES;
        this.#pause();
      }
    }
    if (this.#context.clock.monotonic() < this.#pausedUntil) return;
    // Nothing is written below it.
    this.#fillingFrom = Math.max(position, this.#zeroed ?? 0);
    this.#filling = this.#fill(segment, position).finally(() => {
      this.#filling = undefined;
    });
  }

  /** Before the log is written up to `position`: waits for zeros that are on their way there. */
  clear(segment: Segment, position: FilePosition): Promise<void> | undefined {
    return segment === this.#segment && position > this.#fillingFrom ? this.#filling : undefined;
  }

  /** Waits for the piece under way. */
  async close(): Promise<void> {
    await this.#filling;
  }

  #pause(): void {
    this.#pausedUntil = this.#context.clock.monotonic() + PAUSE_MS;
  }

  /** Never rejects. */
  async #fill(segment: Segment, position: FilePosition): Promise<void> {
    let from = this.#fillingFrom;
    try {
      await this.#context.files.use(segment.path, async (file) => {
        // What a log has been written into has no holes before its end.
        this.#zeroed ??= Math.max(position, (await file.stat()).allocatedBytes);
        from = Math.ceil(this.#zeroed / OS_PAGE_SIZE) * OS_PAGE_SIZE;
        const to = Math.min(from + PIECE_BYTES, segment.size);
        if (from >= to) return;
        await commitAndForceFully(file, [ZEROS.subarray(0, to - from)], from);
        this.#zeroed = to;
      });
    } catch (cause) {
      this.#pause();
      // Whatever else fails, the log will find out for itself.
      const { syscall } = cause as Partial<SystemError>;
      if (syscall !== undefined && /sync/.test(syscall)) {
        await this.#context.failed(segment, from, cause);
      }
    }
  }
}
