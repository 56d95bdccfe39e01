/**
 * Reads records that lie close together with one read.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import type { PhysicalOffset } from "../units.ts";

/** Bytes read at once; as many as one `get` returns by default. */
const WINDOW_BYTES = 256 * 1024;
/** Bytes between two records that it is cheaper to read along. */
const GAP_BYTES_MAX = 4096;

/** Where a record lies. */
export interface RecordPlace {
  readonly offset: PhysicalOffset;
  readonly size: number;
}

export class RecordWindow {
  readonly #log: CommitLog;
  readonly #limit: PhysicalOffset;
  #bytes: Buffer = Buffer.alloc(0);
  #start: PhysicalOffset = 0;

  /** @param limit Nothing at or behind it is readable. */
  constructor(log: CommitLog, limit: PhysicalOffset) {
    this.#log = log;
    this.#limit = limit;
  }

  /**
   * The bytes of a record.
   *
   * @param following Places that will be asked for next, in order: those close behind are read along.
   * @returns Valid until the next call; `undefined` if the record is not in the log.
   */
  async read(
    { offset, size }: RecordPlace,
    following: Iterable<RecordPlace>,
  ): Promise<Buffer | undefined> {
    let at = offset - this.#start;
    if (at < 0 || at + size > this.#bytes.length) {
      const { segments } = this.#log;
      let end = offset + size;
      for (const next of following) {
        const nextEnd = next.offset + next.size;
        if (
          next.size <= 0 ||
          next.offset < end ||
          next.offset - end > GAP_BYTES_MAX ||
          nextEnd - offset > WINDOW_BYTES ||
          nextEnd > this.#limit ||
          segments.startOf(next.offset) !== segments.startOf(offset)
        ) {
          break;
        }
        end = nextEnd;
      }
      const bytes = await this.#read(offset, size, end - offset);
      if (!bytes) return undefined;
      this.#bytes = bytes;
      this.#start = offset;
      at = 0;
    }
    return this.#bytes.subarray(at, at + size);
  }

  /** A place behind the record that can't be read must not take the record with it. */
  async #read(offset: PhysicalOffset, size: number, along: number): Promise<Buffer | undefined> {
    try {
      return await this.#log.read(offset, along, this.#limit);
    } catch (error) {
      if (along === size) throw error;
      return this.#log.read(offset, size, this.#limit);
    }
  }
}
