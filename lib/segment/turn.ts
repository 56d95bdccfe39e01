/**
 * How much the store may do in one turn of the event loop.
 *
 * A promise that resolves without a turn in between lets its caller go on at once: a caller that
 * awaits put after put would keep timers and sockets waiting for ever. So whoever works on the main
 * thread counts it here, and once the turn is used up the rest waits for the next one.
 *
 * @module
 */

/** Steps of a turn: 64 awaited puts of 1 KiB take about half a millisecond. */
const STEPS_MAX = 64;
/** Bytes of a turn: to encode, check and write 1 MiB takes about as long. */
const BYTES_MAX = 1024 * 1024;

export class Turn {
  #steps = 0;
  #bytes = 0;
  #begun = false;
  #next: Promise<void> | undefined;

  /** Whether this turn has been used up. */
  get over(): boolean {
    return this.#steps >= STEPS_MAX || this.#bytes >= BYTES_MAX;
  }

  /** Counts a step and its bytes. */
  spend(bytes: number): void {
    this.#steps++;
    this.#bytes += bytes;
    if (this.#begun) return;
    this.#begun = true;
    setImmediate(this.#end);
  }

  /** Resolves in the next turn. */
  next(): Promise<void> {
    this.#next ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#next = undefined;
        resolve();
      });
    });
    return this.#next;
  }

  readonly #end = (): void => {
    this.#begun = false;
    this.#steps = 0;
    this.#bytes = 0;
  };
}
