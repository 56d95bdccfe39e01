/**
 * How much the store may do in one turn of the event loop.
 *
 * A promise that resolves without a turn in between lets its caller go on at once: a caller that
 * awaits put after put would keep timers and sockets waiting for ever. So whoever works on the main
 * thread counts it here, and once the turn is used up the rest waits for the next one.
 *
 * @module
 */

import { setImmediate } from "node:timers";
import type { Soon } from "../io/soon.ts";

/** Steps of a turn: 64 awaited puts of 1 KiB take about half a millisecond. */
const STEPS_MAX = 64;
/** Bytes of a turn: to encode, check and write 1 MiB takes about as long. */
const BYTES_MAX = 1024 * 1024;

export class Turn {
  #steps = 0;
  #bytes = 0;
  #begun = false;
  /** Those who wait for a turn, in order, and the bytes of their last step. */
  #waiting: { readonly bytes: number; readonly begin: () => void }[] = [];

  /** Whether this turn has been used up; whoever waits already goes first. */
  get over(): boolean {
    return this.#steps >= STEPS_MAX || this.#bytes >= BYTES_MAX || this.#waiting.length > 0;
  }

  /** Counts a step and its bytes, and waits for the next turn if this one has been used up by them. */
  take(bytes: number): Soon<void> {
    this.spend(bytes);
    return this.over ? this.next() : undefined;
  }

  /** Counts a step and its bytes. */
  spend(bytes: number): void {
    this.#steps++;
    this.#bytes += bytes;
    this.#begin();
  }

  /**
   * Resolves in the next turn, or in a later one if many wait: a turn lets as many go on as it
   * bears if each makes a step as large as its last one.
   *
   * @param bytes Of the caller's last step.
   */
  next(bytes = 0): Promise<void> {
    return new Promise((begin) => {
      this.#waiting.push({ bytes, begin });
      this.#begin();
    });
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    setImmediate(this.#end);
  }

  readonly #end = (): void => {
    this.#begun = false;
    this.#steps = 0;
    this.#bytes = 0;
    let count = 0;
    let bytes = 0;
    for (const one of this.#waiting) {
      if (count === STEPS_MAX || bytes >= BYTES_MAX) break;
      count++;
      bytes += one.bytes;
      one.begin();
    }
    if (count === 0) return;
    this.#waiting = this.#waiting.slice(count);
    if (this.#waiting.length > 0) this.#begin();
  };
}
