/**
 * How a store on a simulated disk gets on: the event loop turns as long as anything moves, and time
 * goes on only when nothing else does. So what happens, and in which order, follows from the
 * workload alone, and a wait that has no end is noticed without waiting.
 *
 * @module
 */

import type { FakeClock } from "../fake_clock.ts";

/** Turns without any movement after which nothing moves by itself any more. */
const IDLE_TURNS = 20;
/** A store that goes on for so many turns without time passing will never stop. */
const TURNS_MAX = 200_000;
/** Time that may pass while somebody waits and nothing else happens, in ms. */
const IDLE_MS_MAX = 120_000;

/** Whether what was played came to its end. */
export type Ending = "over" | "hung" | "restless";

export class Pace {
  clock: FakeClock;
  readonly #movement: () => number;
  readonly #progress: () => number;
  #passing: { ms: number; readonly over: () => void } | undefined;
  /** Turns of the event loop so far. */
  turns = 0;

  /**
   * @param movement A number that changes with everything that happens.
   * @param progress One that changes when somebody who waited need not wait any more.
   */
  constructor(clock: FakeClock, movement: () => number, progress: () => number) {
    this.clock = clock;
    this.#movement = movement;
    this.#progress = progress;
  }

  /** Lets time pass; to be awaited by what is played. */
  pass(ms: number): Promise<void> {
    return new Promise((over) => {
      this.#passing = { ms, over };
    });
  }

  /**
   * Sees it through to its end.
   *
   * @param stuck Told that nothing can move any more. Returns whether that helped.
   */
  async play(what: Promise<unknown>, stuck: () => boolean = () => false): Promise<Ending> {
    let over = false;
    const end = (): void => {
      over = true;
    };
    what.then(end, end);
    let idleMs = 0;
    let lastProgress = this.#progress();
    for (;;) {
      if (!(await this.#settle(() => over))) return "restless";
      if (over) return "over";
      const progress = this.#progress();
      if (progress !== lastProgress) idleMs = 0;
      lastProgress = progress;
      const next = this.clock.msToNextTimer;
      if (this.#passing) {
        idleMs = 0;
        const passing = this.#passing;
        const ms = Math.min(next ?? passing.ms, passing.ms);
        await this.clock.advance(ms);
        passing.ms -= ms;
        if (passing.ms > 0) continue;
        this.#passing = undefined;
        passing.over();
      } else if (next !== undefined && idleMs + next <= IDLE_MS_MAX) {
        idleMs += next;
        await this.clock.advance(next);
      } else {
        idleMs = 0;
        if (!stuck()) return "hung";
      }
    }
  }

  /** @returns Whether it came to rest. */
  async #settle(over: () => boolean): Promise<boolean> {
    let movement = this.#movement();
    let idle = 0;
    for (let turns = 0; idle < IDLE_TURNS && !over(); turns++) {
      if (turns === TURNS_MAX) return false;
      await new Promise((resolve) => setImmediate(resolve));
      this.turns++;
      const now = this.#movement();
      idle = now === movement ? idle + 1 : 0;
      movement = now;
    }
    return true;
  }
}
