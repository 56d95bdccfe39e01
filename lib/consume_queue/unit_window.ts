/**
 * Units in the files of a queue, as a search for its end goes through them: what it looks at next lies, as a
 * rule, in the page that it has read.
 *
 * @module
 */

import { type Soon, soon } from "../io/soon.ts";
import { OS_PAGE_SIZE, type QueueOffset } from "../units.ts";
import type { QueueFiles } from "./queue_files.ts";

const EMPTY: Buffer = Buffer.alloc(0);

export class UnitWindow {
  readonly #files: QueueFiles;
  readonly #unitBytes: number;
  /** What was read last, and where it begins. */
  #bytes = EMPTY;
  #start = 0;
  /** For the next read: new memory is dear. */
  #memory = EMPTY;

  constructor(files: QueueFiles, unitBytes: number) {
    this.#files = files;
    this.#unitBytes = unitBytes;
  }

  /**
   * Units that lie in one file, valid until the next read.
   *
   * @throws {StoreError} `STORE_IO`, or `STORE_QUEUE_DAMAGED` if they are missing.
   */
  read(from: QueueOffset, end: QueueOffset): Soon<Buffer> {
    const start = from * this.#unitBytes;
    const length = end * this.#unitBytes - start;
    const at = start - this.#start;
    if (at >= 0 && at + length <= this.#bytes.length) return this.#bytes.subarray(at, at + length);
    const wanted = length + this.#restOfPage(start + length);
    if (wanted > this.#memory.length) this.#memory = Buffer.allocUnsafe(wanted);
    this.#bytes = EMPTY;
    return soon(this.#files.sequence.read(start, wanted, this.#memory), (bytes) => {
      // A file that ends too early.
      if (!bytes || bytes.length < length) return this.#files.readFiles(start, start + length);
      this.#bytes = bytes;
      this.#start = start;
      return bytes.length === length ? bytes : bytes.subarray(0, length);
    });
  }

  /** Bytes of the whole units that follow in the same page. */
  #restOfPage(end: number): number {
    const last = end - 1 - this.#files.sequence.startOf(end - 1);
    const rest = OS_PAGE_SIZE - 1 - (last % OS_PAGE_SIZE);
    return rest - (rest % this.#unitBytes);
  }
}
