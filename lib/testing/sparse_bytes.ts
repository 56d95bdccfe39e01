/**
 * Bytes of a file with holes, in pages that copies share until one of them is changed.
 *
 *     page    0      1      2 .. 63   64
 *     chunk  [data , hole , holes   ][data ..
 *
 * @module
 */

import { createHash } from "node:crypto";

/** Bytes of a page. */
export const PAGE_BYTES = 4096;

const PAGES_PER_CHUNK = 64;
const PAGES_PER_SLAB = 16;
const ZEROS = new Uint8Array(PAGE_BYTES);

interface Page {
  readonly bytes: Uint8Array;
  /** Who may change it in place. */
  readonly owner: object;
  /** Digest of the bytes, once asked for; empty if they are all zero. */
  digest: string | undefined;
}

interface Chunk {
  readonly pages: (Page | undefined)[];
  readonly owner: object;
}

/** Has no length: behind what was written there are zeros without end. */
export class SparseBytes {
  #owner = {};
  #chunks = new Map<number, Chunk>();
  #digest: string | undefined;

  /** Costs next to nothing; afterwards either may be changed without the other. */
  copy(): SparseBytes {
    const copy = new SparseBytes();
    copy.#chunks = new Map(this.#chunks);
    copy.#digest = this.#digest;
    this.#owner = {};
    return copy;
  }

  /** Fills all of `target`. */
  read(target: Uint8Array, position: number): void {
    const end = position + target.length;
    for (let at = position; at < end; ) {
      const index = Math.floor(at / PAGE_BYTES);
      const from = at - index * PAGE_BYTES;
      const length = Math.min(PAGE_BYTES - from, end - at);
      const page = this.#page(index);
      const start = at - position;
      if (page === undefined) target.fill(0, start, start + length);
      else if (length === PAGE_BYTES) target.set(page.bytes, start);
      else target.set(page.bytes.subarray(from, from + length), start);
      at += length;
    }
  }

  /** Takes a copy of `bytes`. */
  write(bytes: Uint8Array, position: number): void {
    const end = position + bytes.length;
    for (let at = position; at < end; ) {
      const index = Math.floor(at / PAGE_BYTES);
      const from = at - index * PAGE_BYTES;
      const length = Math.min(PAGE_BYTES - from, end - at);
      const start = at - position;
      const part = length === bytes.length ? bytes : bytes.subarray(start, start + length);
      if (length === PAGE_BYTES) this.#replace(index, part);
      else this.#pageToChange(index).set(part, from);
      at += length;
    }
  }

  /** Writes zeros from `begin` up to `end`; whole pages become holes. */
  zero(begin: number, end: number): void {
    if (begin >= end) return;
    const firstWhole = Math.ceil(begin / PAGE_BYTES);
    const lastWhole = Math.floor(end / PAGE_BYTES);
    if (firstWhole > lastWhole) {
      this.#zeroWithin(lastWhole, begin, end);
      return;
    }
    this.#zeroWithin(firstWhole - 1, begin, firstWhole * PAGE_BYTES);
    this.#zeroWithin(lastWhole, lastWhole * PAGE_BYTES, end);
    this.#drop(firstWhole, lastWhole);
  }

  /** Forgets what lies at `end` or behind it. */
  truncate(end: number): void {
    const firstWhole = Math.ceil(end / PAGE_BYTES);
    this.#zeroWithin(firstWhole - 1, end, firstWhole * PAGE_BYTES);
    this.#drop(firstWhole, Number.POSITIVE_INFINITY);
  }

  /** Numbers of the pages that are no holes, in no particular order. They may hold zeros. */
  pages(): number[] {
    const found: number[] = [];
    for (const [number, { pages }] of this.#chunks) {
      for (let i = 0; i < pages.length; i++) {
        if (pages[i] !== undefined) found.push(number * PAGES_PER_CHUNK + i);
      }
    }
    return found;
  }

  /** The first byte at or behind `position` that lies in no hole; infinite without one. */
  nextData(position: number): number {
    const first = Math.floor(position / PAGE_BYTES);
    let next = Number.POSITIVE_INFINITY;
    for (const [number, { pages }] of this.#chunks) {
      const start = number * PAGES_PER_CHUNK;
      if (start >= next || start + pages.length <= first) continue;
      for (let i = Math.max(0, first - start); i < pages.length; i++) {
        if (pages[i] === undefined) continue;
        next = Math.min(next, start + i);
        break;
      }
    }
    return Math.max(position, next * PAGE_BYTES);
  }

  /** Equal for equal bytes: a hole is the same as zeros. */
  digest(): string {
    if (this.#digest !== undefined) return this.#digest;
    const hash = createHash("sha1");
    for (const number of [...this.#chunks.keys()].sort((a, b) => a - b)) {
      const { pages } = this.#chunks.get(number)!;
      for (let i = 0; i < pages.length; i++) {
        const page = pages[i];
        if (page === undefined) continue;
        page.digest ??= digestOf(page.bytes);
        if (page.digest !== "") hash.update(`${number * PAGES_PER_CHUNK + i}:${page.digest}\n`);
      }
    }
    this.#digest = hash.digest("base64");
    return this.#digest;
  }

  #page(index: number): Page | undefined {
    const number = Math.floor(index / PAGES_PER_CHUNK);
    return this.#chunks.get(number)?.pages[index - number * PAGES_PER_CHUNK];
  }

  /** The page's bytes, which may be written to. */
  #pageToChange(index: number): Uint8Array {
    const number = Math.floor(index / PAGES_PER_CHUNK);
    const { pages } = this.#chunkToChange(number);
    const slot = index - number * PAGES_PER_CHUNK;
    let page = pages[slot];
    if (page === undefined || page.owner !== this.#owner) {
      const bytes = newPage();
      if (page !== undefined) bytes.set(page.bytes);
      page = { bytes, owner: this.#owner, digest: undefined };
      pages[slot] = page;
    }
    page.digest = undefined;
    return page.bytes;
  }

  #replace(index: number, bytes: Uint8Array): void {
    const number = Math.floor(index / PAGES_PER_CHUNK);
    const { pages } = this.#chunkToChange(number);
    const slot = index - number * PAGES_PER_CHUNK;
    const page = pages[slot];
    if (page?.owner === this.#owner) {
      page.bytes.set(bytes);
      page.digest = undefined;
    } else {
      const copy = newPage();
      copy.set(bytes);
      pages[slot] = { bytes: copy, owner: this.#owner, digest: undefined };
    }
  }

  #chunkToChange(number: number): Chunk {
    this.#digest = undefined;
    let chunk = this.#chunks.get(number);
    if (chunk === undefined || chunk.owner !== this.#owner) {
      const pages = chunk === undefined ? [] : chunk.pages.slice();
      chunk = { pages, owner: this.#owner };
      this.#chunks.set(number, chunk);
    }
    return chunk;
  }

  /** Zeros a part of one page; nothing to do for a hole. */
  #zeroWithin(index: number, begin: number, end: number): void {
    if (begin >= end || this.#page(index) === undefined) return;
    const start = index * PAGE_BYTES;
    this.#pageToChange(index).fill(0, begin - start, end - start);
  }

  /** Makes holes of the pages from `first` up to `end`. */
  #drop(first: number, end: number): void {
    for (const [number, { pages }] of this.#chunks) {
      const start = number * PAGES_PER_CHUNK;
      const from = Math.max(0, first - start);
      const to = Math.min(pages.length, end - start);
      if (from >= to) continue;
      if (from === 0 && to === pages.length) {
        this.#digest = undefined;
        this.#chunks.delete(number);
      } else {
        this.#chunkToChange(number).pages.fill(undefined, from, to);
      }
    }
  }
}

let slab = new ArrayBuffer(0);
let slabUsed = 0;

/** A page of zeros. Taken from larger pieces, which is twice as fast. */
function newPage(): Uint8Array {
  if (slabUsed === slab.byteLength) {
    slab = new ArrayBuffer(PAGES_PER_SLAB * PAGE_BYTES);
    slabUsed = 0;
  }
  slabUsed += PAGE_BYTES;
  return new Uint8Array(slab, slabUsed - PAGE_BYTES, PAGE_BYTES);
}

function digestOf(bytes: Uint8Array): string {
  if (Buffer.compare(bytes, ZEROS) === 0) return "";
  return createHash("sha1").update(bytes).digest("base64");
}
