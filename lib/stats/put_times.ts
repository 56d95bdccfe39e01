/**
 * How long puts took, as RocketMQ tells it: 13 slots, and finer buckets for percentiles, both of the
 * minute before the one that is being counted. RocketMQ: part of `StoreStatsService`.
 *
 * @module
 */

/** Names of the slots (`PUT_MESSAGE_ENTIRE_TIME_MAX_DESC`), and where each ends, in ms. */
const SLOTS: readonly (readonly [name: string, below: number])[] = [
  ["[<=0ms]", 1],
  ["[0~10ms]", 10],
  ["[10~50ms]", 50],
  ["[50~100ms]", 100],
  ["[100~200ms]", 200],
  ["[200~500ms]", 500],
  ["[500ms~1s]", 1000],
  ["[1~2s]", 2000],
  ["[2~3s]", 3000],
  ["[3~4s]", 4000],
  ["[4~5s]", 5000],
  ["[5~10s]", 10_000],
  ["[10s~]", Number.POSITIVE_INFINITY],
];
export const PUT_TIME_SLOTS: readonly string[] = SLOTS.map(([name]) => name);

/** Widths of the fine buckets in ms, and how many there are of each (`StoreStatsService.buckets`). */
const FINE = [
  [1, 20],
  [2, 15],
  [5, 10],
  [10, 10],
  [50, 6],
  [100, 5],
  [1000, 9],
] as const;
/** The last ms of each fine bucket; one more takes what is longer. */
const FINE_ENDS: readonly number[] = (() => {
  const ends: number[] = [];
  let end = 0;
  for (const [width, count] of FINE) {
    for (let i = 0; i < count; i++) {
      end += width;
      ends.push(end);
    }
  }
  return ends;
})();

/** Most puts take less: for these there are tables. */
const TABLE_MS = 256;
const SLOT_OF = Uint8Array.from({ length: TABLE_MS }, (_, ms) =>
  SLOTS.findIndex(([, below]) => ms < below),
);
const FINE_OF = Uint8Array.from({ length: TABLE_MS }, (_, ms) => fineOf(ms));

function fineOf(ms: number): number {
  const found = FINE_ENDS.findIndex((end) => ms <= end);
  return found < 0 ? FINE_ENDS.length : found;
}

export class PutTimes {
  #slots = new Float64Array(SLOTS.length);
  #slotsBefore = new Float64Array(SLOTS.length);
  #fine = new Float64Array(FINE_ENDS.length + 1);
  #fineBefore = new Float64Array(FINE_ENDS.length + 1);
  #maxMs = 0;

  /** Of the longest put since the store was opened, in whole ms. */
  get maxMs(): number {
    return this.#maxMs;
  }

  /** @param elapsedMs Whole ms; less than 0 counts as 0. */
  record(elapsedMs: number): void {
    const ms = Math.max(elapsedMs, 0);
    const slot = ms < TABLE_MS ? SLOT_OF[ms] : SLOTS.findIndex(([, below]) => ms < below);
    const fine = ms < TABLE_MS ? FINE_OF[ms] : fineOf(ms);
    this.#slots[slot as number] = (this.#slots[slot as number] as number) + 1;
    this.#fine[fine as number] = (this.#fine[fine as number] as number) + 1;
    if (ms > this.#maxMs) this.#maxMs = ms;
  }

  /** A minute is over: what was counted is what is told now. */
  rotate(): void {
    [this.#slots, this.#slotsBefore] = [this.#slotsBefore.fill(0), this.#slots];
    [this.#fine, this.#fineBefore] = [this.#fineBefore.fill(0), this.#fine];
  }

  /** Nothing was put for longer than a minute. */
  clear(): void {
    this.rotate();
    this.rotate();
  }

  /** Puts in each slot in the minute before. */
  distribution(): number[] {
    return [...this.#slotsBefore];
  }

  /** Puts in each slot in the minute that is being counted. */
  distributionNow(): number[] {
    return [...this.#slots];
  }

  /**
   * In the minute before, linear within its bucket (`findPutMessageEntireTimePX`).
   *
   * @returns In ms, with fractions; 0 without any puts.
   */
  percentile(fraction: number): number {
    const total = this.#fineBefore.reduce((sum, count) => sum + count, 0);
    const wanted = total * fraction;
    let seen = 0;
    for (const [index, count] of this.#fineBefore.entries()) {
      if (count === 0 || seen + count < wanted) {
        seen += count;
        continue;
      }
      const start = index === 0 ? 0 : (FINE_ENDS[index - 1] as number);
      const end = FINE_ENDS[index];
      return end === undefined ? start : start + ((wanted - seen) / count) * (end - start);
    }
    return 0;
  }
}
