/**
 * Records that a queue leads to: where each of them lies, and which of its messages it must be.
 *
 * The addon vouches for the usual ones, for many at once. Whatever it does not vouch for is
 * {@linkcode checkRecord}'s to judge, as all is without the addon; so it changes no verdict.
 *
 * @module
 */

import { loadNativeBinding, type NativeBinding, standIns } from "../io/native_binding.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import type { RecordCheckOptions } from "./record_check.ts";

/** As in native/record_run.h. */
const OFFSET = 0;
const SIZE = 1;
const QUEUE_OFFSET = 2;
const AT = 3;
const COLUMNS = 4;

type Checker = Pick<NativeBinding, "checkPlaces">;

let usual: Checker | undefined;

export class RecordPlaces {
  /** How many there are. */
  count = 0;
  /** Room for a position and a length for each of them. */
  readonly ranges: Float64Array;
  readonly #rows: Float64Array;

  /** @param most How many there may be. */
  constructor(most: number) {
    this.#rows = new Float64Array(most * COLUMNS);
    this.ranges = new Float64Array(most * 2);
  }

  /** @param size In bytes. */
  add(offset: PhysicalOffset, size: number, queueOffset: QueueOffset): void {
    const row = this.count++ * COLUMNS;
    this.#rows[row + OFFSET] = offset;
    this.#rows[row + SIZE] = size;
    this.#rows[row + QUEUE_OFFSET] = queueOffset;
  }

  offset(index: number): PhysicalOffset {
    return this.#rows[index * COLUMNS + OFFSET]!;
  }

  size(index: number): number {
    // Not as a double.
    return this.#rows[index * COLUMNS + SIZE]! | 0;
  }

  /** Where it lies in the bytes that were read. */
  at(index: number): number {
    return this.#rows[index * COLUMNS + AT]! | 0;
  }

  setAt(index: number, at: number): void {
    this.#rows[index * COLUMNS + AT] = at;
  }

  /**
   * Looks at the first `count` of them.
   *
   * @param bytes Where they lie.
   * @param topic Of their queue, in UTF-8.
   * @returns How many of these, from the first on, are whole, and the messages that they must be. Of those
   *   behind, nothing is known.
   */
  check(
    bytes: Buffer,
    count: number,
    topic: Uint8Array,
    queueId: number,
    { checkCrc, forceVerifyPropCRC = false }: RecordCheckOptions,
    native: Checker = usualChecker(),
  ): number {
    // Whether there is a CRC it does not say.
    if (checkCrc && forceVerifyPropCRC) return 0;
    return native.checkPlaces(bytes, this.#rows, count, topic, queueId, checkCrc);
  }
}

function usualChecker(): Checker {
  usual ??= loadNativeBinding() ?? standIns;
  return usual;
}
