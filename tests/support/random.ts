/**
 * Chance that can be had again: tests print their seed, and take it from the variable `SEED`.
 *
 * @module
 */

import type { Test } from "tap";

/** The seed of this run, printed: `SEED=<seed>` runs the same again. */
export function seedOf(t: Test): number {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  t.comment(`SEED=${seed}`);
  return seed;
}

/** A whole number from 0 to `below - 1`. */
export type Random = (below: number) => number;

/** Numbers that follow from the seed (mulberry32). */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** So many turns of the event loop. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits, turn by turn, until it is so. @throws {Error} if it has not come true after 5 s. */
export async function until(condition: () => boolean, what = String(condition)): Promise<void> {
  const startedAt = performance.now();
  while (!condition()) {
    if (performance.now() - startedAt > 5000) throw new Error(`Still not so after 5 s: ${what}`);
    await turns(1);
  }
}
