/**
 * A clock that stands still until a test moves it.
 *
 * @module
 */

import type { Clock, Timer } from "../io/clock.ts";

interface PendingTimer {
  readonly due: number;
  readonly callback: () => void;
}

/**
 * Time in the hands of a test. Monotonic time moves only by {@linkcode FakeClock.advance}; wall
 * time moves along with it and can be set on its own, as an administrator or NTP would.
 */
export class FakeClock implements Clock {
  #monotonic = 0;
  #wallOffset: number;
  readonly #timers = new Set<PendingTimer>();

  /** @param wall Wall time at the start, in ms since the epoch. */
  constructor(wall = Date.UTC(2024, 0, 1)) {
    this.#wallOffset = wall;
  }

  now(): number {
    return Math.floor(this.#wallOffset + this.#monotonic);
  }

  monotonic(): number {
    return this.#monotonic;
  }

  setTimer(callback: () => void, ms: number): Timer {
    const timer = { due: this.#monotonic + Math.max(0, ms), callback };
    this.#timers.add(timer);
    return { cancel: () => this.#timers.delete(timer) };
  }

  /** Lets the wall clock jump. No timer notices. */
  setWall(ms: number): void {
    this.#wallOffset = ms - this.#monotonic;
  }

  /** How many timers are set and have not fired. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** Ms until the next timer falls due; `undefined` if none is set. */
  get msToNextTimer(): number | undefined {
    const next = this.#next(Number.POSITIVE_INFINITY);
    return next && Math.max(0, next.due - this.#monotonic);
  }

  /**
   * Moves time on by `ms` and fires what falls due, in order and each at its own time, those
   * included that are set on the way. After each timer, and before the first, promises and the
   * event loop get a turn; what waits for a device may need longer than that.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    await turn();
    for (let timer = this.#next(end); timer !== undefined; timer = this.#next(end)) {
      this.#timers.delete(timer);
      this.#monotonic = Math.max(this.#monotonic, timer.due);
      timer.callback();
      await turn();
    }
    this.#monotonic = Math.max(this.#monotonic, end);
  }

  /** The earliest timer due by `end`; of several the one that was set first. */
  #next(end: number): PendingTimer | undefined {
    let next: PendingTimer | undefined;
    for (const timer of this.#timers) {
      if (timer.due <= end && (next === undefined || timer.due < next.due)) next = timer;
    }
    return next;
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
