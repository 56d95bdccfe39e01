/**
 * Chance that can be had again: tests print their seed, and take it from the variable `SEED`.
 *
 * @module
 */

import type { Test } from "tap";

export { type Random, randomOf } from "../../lib/testing/random.ts";

/** The seed of this run, printed: `SEED=<seed>` runs the same again. */
export function seedOf(t: Test): number {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  t.comment(`SEED=${seed}`);
  return seed;
}

/**
 * The seed of a slice of a search that goes on for longer elsewhere: the same one each time, so that
 * a change is judged by what it changed. `SEED=<seed>` looks at another slice.
 */
export function sliceSeedOf(t: Test): number {
  const seed = Number(process.env.SEED ?? 20240601);
  t.comment(`SEED=${seed}`);
  return seed;
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
