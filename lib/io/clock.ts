/**
 * Time, injected: the store asks a {@linkcode Clock} and never the system, so that a test owns time.
 *
 * @module
 */

import { performance } from "node:perf_hooks";

/** A timer that was set. */
export interface Timer {
  /** Stops it; nothing happens if it has fired. */
  cancel(): void;
}

export interface Clock {
  /** Wall time, whole ms since the epoch. It may jump, both ways: never measure with it. */
  now(): number;
  /** Monotonic time in ms, with fractions: for every duration and deadline. */
  monotonic(): number;
  /**
   * Calls back once, after at least `ms`.
   *
   * @param options.keepAlive Whether the process stays alive for it. Default false.
   */
  setTimer(callback: () => void, ms: number, options?: { readonly keepAlive?: boolean }): Timer;
}

/** The system's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(callback, ms, options) {
    const timer = setTimeout(callback, ms);
    if (options?.keepAlive !== true) timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
