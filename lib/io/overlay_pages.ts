/**
 * Bytes that were written over a file and are kept in memory, each at its position.
 *
 * Kept in pages of 64 KiB, so that a write of 4 KiB at the end of a file of 1 GiB takes one page and
 * not a GiB. A page knows which of its bytes were written; the others are whatever lies beneath, so
 * that a write never needs to read first:
 *
 *     position   0        64 KiB    128 KiB   192 KiB
 *     beneath    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
 *     page               ..bbbb...  ZERO
 *     seen       aaaaaaaaaabbbbaaa  000000000 aaaaaaaaaa
 *
 * @module
 */

const PAGE_BYTES = 64 * 1024;

interface Page {
  /** Undefined for a page of zeros, which takes no memory. */
  readonly bytes: Uint8Array | undefined;
  /** Ascending pairs `from, to` of bytes in this page that were written; no two touch. */
  known: readonly number[];
}

/** All zero, and known throughout. */
const ZERO_PAGE: Page = { bytes: undefined, known: [0, PAGE_BYTES] };

export class OverlayPages {
  readonly #pages = new Map<number, Page>();

  /** Memory taken by pages, in bytes. */
  get heldBytes(): number {
    let held = 0;
    for (const page of this.#pages.values()) held += page.bytes?.length ?? 0;
    return held;
  }

  /** Takes a copy of `bytes`. */
  write(bytes: Uint8Array, position: number): void {
    for (const { index, from, to, start } of spans(position, position + bytes.length)) {
      const page = this.#writable(index);
      page.bytes!.set(bytes.subarray(start, start + to - from), from);
      page.known = withRange(page.known, from, to);
    }
  }

  /** Writes zeros from `begin` up to `end`. */
  zero(begin: number, end: number): void {
    for (const { index, from, to } of spans(begin, end)) {
      if (to - from === PAGE_BYTES) {
        this.#pages.set(index, ZERO_PAGE);
      } else {
        const page = this.#writable(index);
        page.bytes!.fill(0, from, to);
        page.known = withRange(page.known, from, to);
      }
    }
  }

  /** Forgets what was written at `end` or behind it. */
  truncate(end: number): void {
    for (const [index, { bytes, known }] of this.#pages) {
      const to = end - index * PAGE_BYTES;
      if (to <= 0) this.#pages.delete(index);
      else if (to < PAGE_BYTES) this.#pages.set(index, { bytes, known: rangesUpTo(known, to) });
    }
  }

  /** Whether every byte from `begin` up to `end` was written. */
  covers(begin: number, end: number): boolean {
    for (const { index, from, to } of spans(begin, end)) {
      const known = this.#pages.get(index)?.known ?? [];
      let covered = false;
      for (let i = 0; i < known.length; i += 2) {
        covered ||= known[i]! <= from && to <= known[i + 1]!;
      }
      if (!covered) return false;
    }
    return true;
  }

  /** The first byte at or behind `position` that may be other than zero; infinite without one. */
  nextData(position: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const [index, { bytes, known }] of this.#pages) {
      const start = index * PAGE_BYTES;
      if (bytes === undefined || start >= next) continue;
      for (let i = 0; i < known.length; i += 2) {
        if (start + known[i + 1]! <= position) continue;
        next = Math.min(next, Math.max(start + known[i]!, position));
        break;
      }
    }
    return next;
  }

  /** Puts what was written over `buffer`, which holds what lies beneath from `position` on. */
  patch(buffer: Uint8Array, position: number): void {
    for (const { index, from, to, start } of spans(position, position + buffer.length)) {
      const page = this.#pages.get(index);
      if (page === undefined) continue;
      for (let i = 0; i < page.known.length; i += 2) {
        const knownFrom = Math.max(from, page.known[i]!);
        const knownTo = Math.min(to, page.known[i + 1]!);
        if (knownFrom >= knownTo) continue;
        const target = start + knownFrom - from;
        if (page.bytes === undefined) buffer.fill(0, target, target + knownTo - knownFrom);
        else buffer.set(page.bytes.subarray(knownFrom, knownTo), target);
      }
    }
  }

  #writable(index: number): Page {
    let page = this.#pages.get(index);
    if (page?.bytes === undefined) {
      page = { bytes: new Uint8Array(PAGE_BYTES), known: page?.known ?? [] };
      this.#pages.set(index, page);
    }
    return page;
  }
}

/** A range of a file within one page. */
interface Span {
  readonly index: number;
  /** First byte, from the start of the page. */
  readonly from: number;
  /** The byte behind the last. */
  readonly to: number;
  /** First byte, from the start of the range. */
  readonly start: number;
}

function* spans(begin: number, end: number): Generator<Span> {
  for (let position = begin; position < end; ) {
    const index = Math.floor(position / PAGE_BYTES);
    const from = position - index * PAGE_BYTES;
    const to = Math.min(PAGE_BYTES, end - index * PAGE_BYTES);
    yield { index, from, to, start: position - begin };
    position += to - from;
  }
}

/** The ranges with `from` up to `to` added, and those that touch it joined to it. */
function withRange(ranges: readonly number[], from: number, to: number): number[] {
  const before: number[] = [];
  const after: number[] = [];
  let joinedFrom = from;
  let joinedTo = to;
  for (let i = 0; i < ranges.length; i += 2) {
    const otherFrom = ranges[i]!;
    const otherTo = ranges[i + 1]!;
    if (otherTo < from) before.push(otherFrom, otherTo);
    else if (otherFrom > to) after.push(otherFrom, otherTo);
    else {
      joinedFrom = Math.min(joinedFrom, otherFrom);
      joinedTo = Math.max(joinedTo, otherTo);
    }
  }
  return [...before, joinedFrom, joinedTo, ...after];
}

/** The ranges as far as they lie before `end`. */
function rangesUpTo(ranges: readonly number[], end: number): number[] {
  const kept: number[] = [];
  for (let i = 0; i < ranges.length && ranges[i]! < end; i += 2) {
    kept.push(ranges[i]!, Math.min(end, ranges[i + 1]!));
  }
  return kept;
}
