/**
 * Promises that wait for a watermark, in the order of the offsets that they wait for.
 *
 * @module
 */

import type { StoreError } from "../errors.ts";
import { Fifo } from "../io/fifo.ts";
import type { PhysicalOffset } from "../units.ts";

/** Makes the errors of those who waited in vain. */
export interface Refusals<T> {
  /** The deadline is over. */
  readonly expired: (value: T) => Error;
  /** There was a failure. */
  readonly failed: (value: T, cause: StoreError) => Error;
}

export interface Waiter<T = unknown> {
  readonly end: PhysicalOffset;
  /** Monotonic ms after which it has waited too long; `Infinity` for as long as it takes. */
  readonly deadline: number;
  /** What it resolves with. */
  readonly value: T;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
  readonly refusals: Refusals<T>;
}

const NO_LIMIT = { count: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY } as const;

/** A queue of waiters whose ends never go down. */
export class Waiters {
  readonly #waiters = new Fifo<Waiter>();
  readonly #told: ((value: unknown) => void) | undefined;

  /** @param told Hears of each that resolves. */
  constructor(told?: (value: unknown) => void) {
    this.#told = told;
  }

  get size(): number {
    return this.#waiters.length;
  }

  get first(): Waiter | undefined {
    return this.#waiters.first;
  }

  push<T>(waiter: Waiter<T>): void {
    this.#waiters.push(waiter as Waiter);
  }

  /**
   * Resolves, in order, those that waited for `offset` or less.
   *
   * @param most How many of them, and the bytes from the first one's end to the last one's.
   * @returns Whether these were all.
   */
  resolveTo(offset: PhysicalOffset, most: { count: number; bytes: number } = NO_LIMIT): boolean {
    let waiter = this.first;
    if (!waiter || waiter.end > offset) return true;
    const last = Math.min(offset, waiter.end + most.bytes);
    for (let count = 0; waiter && waiter.end <= last && count < most.count; count++) {
      this.shift();
      this.#told?.(waiter.value);
      waiter.resolve(waiter.value);
      waiter = this.first;
    }
    return !waiter || waiter.end > offset;
  }

  failAll(cause: StoreError): void {
    for (let waiter = this.first; waiter; waiter = this.first) {
      this.shift();
      waiter.reject(waiter.refusals.failed(waiter.value, cause));
    }
  }

  shift(): Waiter | undefined {
    return this.#waiters.shift();
  }
}
