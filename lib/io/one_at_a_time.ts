/**
 * Actions one after the other, in the order in which they were asked for.
 *
 * @module
 */

export class OneAtATime {
  #last: Promise<void> = Promise.resolve();

  /** Carries out `action` once those before it have ended, well or not. Their failures are not its own. */
  run<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#last.then(action);
    this.#last = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
  }

  /** Waits for all that were asked for. Never rejects. */
  idle(): Promise<void> {
    return this.#last;
  }
}
