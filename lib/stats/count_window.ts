/**
 * A count that only grows, looked at now and then: how much it has grown in the last so-and-so-many ms.
 *
 * No timer looks: whoever counts does, in passing, and not more often than every `stepMs`. While nothing is
 * counted nothing is looked at, and nothing has changed.
 *
 * @module
 */

export class CountWindow {
  readonly #stepMs: number;
  readonly #samplesMax: number;
  /** Times of the samples, and the counts then; oldest first. */
  readonly #at: number[] = [];
  readonly #counts: number[] = [];

  /** @param steps Looks back over so many steps. */
  constructor(stepMs: number, steps: number) {
    this.#stepMs = stepMs;
    // Each step may have a look of its own at what was counted last before a rest.
    this.#samplesMax = 2 * steps + 1;
  }

  /**
   * @param now Monotonic ms.
   * @param changedAt When something was counted last, but for what is being counted now.
   */
  sample(now: number, count: number, changedAt = now): void {
    const newest = this.#at.at(-1) ?? Number.NEGATIVE_INFINITY;
    // It has rested since: what was counted before that is not of now.
    const rested = now - changedAt > this.#stepMs;
    if (rested && changedAt > newest) this.#push(changedAt, count);
    else if (rested && changedAt === newest) this.#counts[this.#counts.length - 1] = count;
    if (now - newest >= this.#stepMs) this.#push(now, count);
  }

  #push(at: number, count: number): void {
    this.#at.push(at);
    this.#counts.push(count);
    if (this.#at.length <= this.#samplesMax) return;
    this.#at.shift();
    this.#counts.shift();
  }

  /**
   * @param count What it is now.
   * @param windowMs At most the steps that it looks back.
   * @returns By how much it has grown, and in how many ms: fewer at the beginning, at least 1.
   */
  grown(
    now: number,
    count: number,
    windowMs: number,
  ): { readonly by: number; readonly inMs: number } {
    const from = now - windowMs;
    let index = 0;
    while (index + 1 < this.#at.length && (this.#at[index + 1] as number) <= from) index++;
    const before = this.#counts[index];
    if (before === undefined) return { by: 0, inMs: 1 };
    // Nothing was counted between an older sample and the beginning of the window.
    const inMs = Math.max(1, now - Math.max(from, this.#at[index] as number));
    return { by: count - before, inMs };
  }
}
