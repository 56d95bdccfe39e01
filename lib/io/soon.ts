/**
 * What is there at once as a rule, and has to be waited for only now and then.
 *
 * An answer from memory or the page cache takes less time than a few promises on its way.
 *
 * @module
 */

export type Soon<T> = T | Promise<T>;

/** Goes on with what is there, or once it is. */
export function soon<T, U>(value: Soon<T>, next: (value: T) => Soon<U>): Soon<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
