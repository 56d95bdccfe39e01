/**
 * What is there at once as a rule, and has to be waited for only now and then.
 *
 * An answer from memory or the page cache takes less time than a few promises on its way.
 *
 * @module
 */

import { setImmediate } from "node:timers";

export type Soon<T> = T | Promise<T>;

/** After this turn of the event loop, so that what else waits for one gets it. */
export function nextLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Goes on with what is there, or once it is. */
export function soon<T, U>(value: Soon<T>, next: (value: T) => Soon<U>): Soon<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
