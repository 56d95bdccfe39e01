/**
 * Figures of several rounds as one, latencies as percentiles, and chance that follows a seed.
 *
 * @module
 */

import { build, type Histogram } from "hdr-histogram-js";

/** One figure in several rounds. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** @returns `undefined` of no finite figure. */
export function spreadOfMeasured(values: readonly (number | undefined)[]): Spread | undefined {
  const measured = values.filter((value) => value !== undefined && Number.isFinite(value));
  return measured.length > 0 ? spreadOf(measured as number[]) : undefined;
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const median =
    sorted.length % 2 === 1
      ? sorted[Math.floor(middle)]!
      : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, min: sorted[0]!, max: sorted.at(-1)! };
}

/** Percentiles of durations, in ms. */
export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** The histogram counts tenths of a microsecond, up to a minute, with three digits. */
const UNITS_PER_MS = 10_000;
const UNITS_MAX = 60_000 * UNITS_PER_MS;

/**
 * Durations. They are kept as they come and sorted into the histogram afterwards: that takes a
 * quarter of a microsecond each, which a put of eight would feel.
 */
export class Latencies {
  #ms = new Float64Array(65_536);
  #count = 0;
  #max = 0;

  add(ms: number): void {
    if (ms > this.#max) this.#max = ms;
    if (this.#count === this.#ms.length) {
      const larger = new Float64Array(this.#count * 2);
      larger.set(this.#ms);
      this.#ms = larger;
    }
    this.#ms[this.#count++] = ms;
  }

  percentiles(): Percentiles {
    const histogram: Histogram = build({
      bitBucketSize: 32,
      highestTrackableValue: UNITS_MAX,
      numberOfSignificantValueDigits: 3,
      lowestDiscernibleValue: 1,
    });
    for (let i = 0; i < this.#count; i++) {
      histogram.recordValue(
        Math.min(Math.max(1, Math.round(this.#ms[i]! * UNITS_PER_MS)), UNITS_MAX),
      );
    }
    // The histogram answers with the upper end of a step.
    const at = (percent: number) =>
      Math.min(histogram.getValueAtPercentile(percent) / UNITS_PER_MS, this.#max);
    return { p50: at(50), p99: at(99), p999: at(99.9), max: this.#max };
  }
}

/** Numbers from 0 to `below - 1` that follow from the seed (mulberry32). */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** Bytes that follow from the seed and do not compress. */
export function randomBytes(length: number, seed: number): Buffer {
  const random = randomOf(seed);
  const bytes = Buffer.allocUnsafe(length);
  for (let i = 0; i < length; i++) bytes[i] = random(256);
  return bytes;
}

/** The same elements in an order that follows from the seed. */
export function shuffled<T>(elements: readonly T[], random: (below: number) => number): T[] {
  const result = [...elements];
  for (let i = result.length - 1; i > 0; i--) {
    const j = random(i + 1);
    [result[i], result[j]] = [result[j]!, result[i]!];
  }
  return result;
}
