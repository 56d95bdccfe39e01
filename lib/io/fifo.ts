/**
 * A queue in memory that takes and gives without allocating: what comes first goes first.
 *
 * @module
 */

/** Places at first; always a power of two. */
const PLACES_MIN = 64;
/** With more places than this an empty queue gives them back: a burst is over. */
const PLACES_KEPT_MAX = 4096;

export class Fifo<T> {
  /** A ring. */
  #places = new Array<T | undefined>(PLACES_MIN).fill(undefined);
  #head = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** What {@linkcode shift} would take; `undefined` if there is nothing. */
  get first(): T | undefined {
    return this.#places[this.#head];
  }

  push(item: T): void {
    if (this.#length === this.#places.length) this.#grow();
    this.#places[(this.#head + this.#length) & (this.#places.length - 1)] = item;
    this.#length++;
  }

  /** Takes the first one. */
  shift(): T | undefined {
    const item = this.#places[this.#head];
    if (this.#length === 0) return undefined;
    this.#places[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#places.length - 1);
    this.#length--;
    if (this.#length === 0 && this.#places.length > PLACES_KEPT_MAX) {
      this.#places = new Array<T | undefined>(PLACES_MIN).fill(undefined);
      this.#head = 0;
    }
    return item;
  }

  #grow(): void {
    const places = this.#places;
    const more = new Array<undefined>(places.length).fill(undefined);
    this.#places = [...places.slice(this.#head), ...places.slice(0, this.#head), ...more];
    this.#head = 0;
  }
}
