/**
 * How long something took, in buckets whose width grows with the time: 4 to each doubling, from 1 µs to
 * more than an hour, so that a percentile is right within a fifth. 132 numbers, however much is recorded.
 *
 * @module
 */

/** Buckets to each doubling, as a power of two. */
const BITS = 2;
const DOUBLINGS = 32;

export class LatencyHistogram {
  readonly #counts = new Float64Array((DOUBLINGS + 1) << BITS);
  #count = 0;
  #sumMs = 0;
  #maxMs = 0;

  /** How often. */
  get count(): number {
    return this.#count;
  }

  /** The longest, in ms. */
  get maxMs(): number {
    return this.#maxMs;
  }

  get averageMs(): number {
    return this.#count === 0 ? 0 : this.#sumMs / this.#count;
  }

  /** @param ms With fractions; less than 0 counts as 0. */
  record(ms: number): void {
    const us = Math.min(Math.max(ms, 0) * 1000, 2 ** DOUBLINGS - 1) >>> 0;
    const index = bucketOf(us);
    this.#counts[index] = (this.#counts[index] as number) + 1;
    this.#count++;
    this.#sumMs += Math.max(ms, 0);
    if (ms > this.#maxMs) this.#maxMs = ms;
  }

  /**
   * @param fraction 0 to 1: 0.99 for the time that 99 of 100 did not exceed.
   * @returns The end of its bucket in ms, at most the longest; 0 without any.
   */
  percentile(fraction: number): number {
    const wanted = Math.max(1, Math.ceil(this.#count * fraction));
    let seen = 0;
    for (let index = 0; index < this.#counts.length; index++) {
      seen += this.#counts[index] as number;
      if (seen >= wanted) return Math.min(startOf(index + 1) / 1000, this.#maxMs);
    }
    return this.#maxMs;
  }

  /** Buckets that are not empty: their ends in ms, and how many lie in each. */
  buckets(): { readonly belowMs: number; readonly count: number }[] {
    const found: { belowMs: number; count: number }[] = [];
    for (const [index, count] of this.#counts.entries()) {
      if (count > 0) found.push({ belowMs: startOf(index + 1) / 1000, count });
    }
    return found;
  }
}

/** The first buckets are 1 µs wide each. */
function bucketOf(us: number): number {
  if (us < 1 << BITS) return us;
  const doubling = 31 - Math.clz32(us);
  return ((doubling - BITS + 1) << BITS) + ((us >>> (doubling - BITS)) & ((1 << BITS) - 1));
}

function startOf(index: number): number {
  const doubling = index >> BITS;
  if (doubling === 0) return index;
  return ((1 << BITS) + (index & ((1 << BITS) - 1))) * 2 ** (doubling - 1);
}
