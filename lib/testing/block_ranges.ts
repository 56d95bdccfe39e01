/**
 * Which blocks of a file take space: those that were written to and those that were reserved.
 *
 * @module
 */

/** A set of block numbers, kept as ranges. Never changes: a change makes another set. */
export class BlockRanges {
  static readonly NONE = new BlockRanges([]);

  /** Blocks in the set. */
  readonly count: number;
  /** Ascending pairs `from, to`; no two touch. */
  readonly #ranges: readonly number[];

  private constructor(ranges: readonly number[]) {
    this.#ranges = ranges;
    let count = 0;
    for (let i = 0; i < ranges.length; i += 2) count += ranges[i + 1]! - ranges[i]!;
    this.count = count;
  }

  /** The set with the blocks from `from` up to `to`. */
  with(from: number, to: number): BlockRanges {
    const ranges = this.#ranges;
    if (from >= to) return this;
    const before: number[] = [];
    const after: number[] = [];
    let [joinedFrom, joinedTo] = [from, to];
    for (let i = 0; i < ranges.length; i += 2) {
      const [otherFrom, otherTo] = [ranges[i]!, ranges[i + 1]!];
      if (otherFrom <= from && to <= otherTo) return this;
      if (otherTo < from) before.push(otherFrom, otherTo);
      else if (otherFrom > to) after.push(otherFrom, otherTo);
      else {
        joinedFrom = Math.min(joinedFrom, otherFrom);
        joinedTo = Math.max(joinedTo, otherTo);
      }
    }
    return new BlockRanges([...before, joinedFrom, joinedTo, ...after]);
  }

  /** The set without the blocks from `from` up to `to`. */
  without(from: number, to: number): BlockRanges {
    const left: number[] = [];
    const ranges = this.#ranges;
    for (let i = 0; i < ranges.length; i += 2) {
      const [otherFrom, otherTo] = [ranges[i]!, ranges[i + 1]!];
      if (otherFrom < Math.min(from, otherTo)) left.push(otherFrom, Math.min(from, otherTo));
      if (Math.max(to, otherFrom) < otherTo) left.push(Math.max(to, otherFrom), otherTo);
    }
    return left.length === 0 ? BlockRanges.NONE : new BlockRanges(left);
  }

  /** How far one comes from `from` on, `to` at most, with so many blocks that are not in the set. */
  reach(from: number, to: number, newBlocks: number): number {
    const ranges = this.#ranges;
    let at = from;
    let left = newBlocks;
    for (let i = 0; i < ranges.length && at < to; i += 2) {
      const [heldFrom, heldTo] = [ranges[i]!, ranges[i + 1]!];
      if (heldTo <= at) continue;
      const missing = Math.max(0, Math.min(heldFrom, to) - at);
      if (missing > left) return at + left;
      left -= missing;
      at = Math.max(at, Math.min(heldTo, to));
    }
    return Math.min(to, at + left);
  }
}
