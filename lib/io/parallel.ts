/**
 * The same for many, some of them at a time: what waits for a device or a thread need not wait in line.
 *
 * @module
 */

import { nextLoop } from "./soon.ts";

/** What waits for a device: more at once gain little, and without the addon libuv's pool has four threads. */
const AT_ONCE = 3;
/** What only looks at files goes to the threads together: see `gathered_calls.ts`. */
export const LOOKS_AT_ONCE = 64;
/** After so many the event loop gets a turn: they may all be done without one. */
const PER_TURN = 100;

/**
 * Calls `action` for each item, at most three at a time, begun in their order.
 *
 * @param atOnce More of them: {@linkcode LOOKS_AT_ONCE}.
 * @throws The first failure; none is begun after it, and those under way have settled.
 */
export async function inParallel<T>(
  items: Iterable<T>,
  action: (item: T) => Promise<void>,
  atOnce = AT_ONCE,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failed = false;
  let begun = 0;
  const lane = async (): Promise<void> => {
    for (let next = iterator.next(); !failed && !next.done; next = iterator.next()) {
      try {
        if (++begun % PER_TURN === 0) await nextLoop();
        if (failed) return;
        await action(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const lanes = Array.from({ length: atOnce }, lane);
  const results = await Promise.allSettled(lanes);
  const failure = results.find((result) => result.status === "rejected");
  if (failure) throw failure.reason;
}
