/**
 * One file of a simulated disk: what is to be read, what is durable, and the changes in between.
 *
 *     durable   --[write 1]--[write 2]--[resize]--[write 3]-->   visible
 *                      sync(1)  ^ makes durable what came before it
 *
 * A power cut picks a size out of those that the file had since its last sync, and for each sector of
 * 512 bytes one of the versions that it had. A file that became shorter is a matter of its size: what
 * was cut away is gone if, and only if, that size or a later one survives.
 *
 * @module
 */

import { BlockRanges } from "./block_ranges.ts";
import { type Lot, lotOf, type Survival } from "./power_cut.ts";
import type { Random } from "./random.ts";
import { PAGE_BYTES, SparseBytes } from "./sparse_bytes.ts";

/** What a disk writes whole or not at all. */
export const SECTOR_BYTES = 512;

const EMPTY = new SparseBytes();

interface Write extends Numbered {
  readonly kind: "write";
  readonly position: number;
  readonly bytes: Uint8Array;
}

interface Zero extends Numbered {
  readonly kind: "zero";
  readonly from: number;
  readonly to: number;
}

interface Shrink extends Numbered {
  readonly kind: "shrink";
  readonly size: number;
}

interface Numbered {
  readonly number: number;
  readonly before: Change | undefined;
}

type Change = Write | Zero | Shrink;

/** A size that the file had since its last sync. */
interface Size {
  readonly number: number;
  readonly size: number;
  readonly before: Size | undefined;
}

/** Changes are numbered by whoever makes them, in ascending order. */
export class SimulatedFile {
  readonly kind = "file";
  readonly inode: number;
  /** Who may change it in place; others make a copy first. Nobody if undefined. */
  readonly owner: object | undefined;
  size = 0;
  mtimeMs = 0;
  /** Blocks of {@linkcode PAGE_BYTES} that take space. */
  blocks = BlockRanges.NONE;
  #visible: SparseBytes;
  /** Is replaced, never changed. */
  #durable: SparseBytes;
  #durableSize = 0;
  /** The latest; each leads to the one before. */
  #changes: Change | undefined;
  #sizes: Size | undefined;
  /**
   * Sectors that a failed sync has left as they were on the device, without the cache knowing: no
   * sync writes them until somebody writes to them.
   */
  #lost: ReadonlySet<number> = new Set();

  constructor(inode: number, owner?: object) {
    this.inode = inode;
    this.owner = owner;
    this.#visible = new SparseBytes();
    this.#durable = EMPTY;
  }

  copy(owner: object | undefined): SimulatedFile {
    const copy = new SimulatedFile(this.inode, owner);
    copy.size = this.size;
    copy.mtimeMs = this.mtimeMs;
    copy.blocks = this.blocks;
    copy.#visible = this.#visible.copy();
    copy.#durable = this.#durable;
    copy.#durableSize = this.#durableSize;
    copy.#changes = this.#changes;
    copy.#sizes = this.#sizes;
    copy.#lost = this.#lost;
    return copy;
  }

  /** Whether all that can be read is durable. */
  get isDurable(): boolean {
    return this.#changes === undefined && this.#sizes === undefined && this.#isWhole;
  }

  /** @returns Bytes read. */
  read(target: Uint8Array, position: number): number {
    const length = Math.max(0, Math.min(target.length, this.size - position));
    if (length > 0) {
      this.#visible.read(length === target.length ? target : target.subarray(0, length), position);
    }
    return length;
  }

  /** The first position at or behind `position` that lies in no hole; the size without one. */
  nextData(position: number): number {
    return Math.min(this.size, this.#visible.nextData(position));
  }

  content(): Buffer {
    const content = Buffer.allocUnsafe(this.size);
    this.#visible.read(content, 0);
    return content;
  }

  /** Numbers of the pages that are no holes. */
  pages(): number[] {
    return this.#visible.pages();
  }

  digest(): string {
    return `${this.size}:${this.#visible.digest()}`;
  }

  /** Keeps `bytes`: they must not change any more. */
  write(bytes: Uint8Array, position: number, number: number): void {
    const end = position + bytes.length;
    this.#visible.write(bytes, position);
    this.blocks = this.blocks.with(Math.floor(position / PAGE_BYTES), Math.ceil(end / PAGE_BYTES));
    this.size = Math.max(this.size, end);
    if (end > (this.#sizes?.size ?? this.#durableSize)) this.#noteSize(number);
    this.#noteWrite(bytes, position, number);
  }

  /** Writes zeros and gives whole blocks back. The size stays. */
  zero(begin: number, end: number, number: number): void {
    this.blocks = this.blocks.without(Math.ceil(begin / PAGE_BYTES), Math.floor(end / PAGE_BYTES));
    const to = Math.min(end, this.size);
    if (begin >= to) return;
    this.#visible.zero(begin, to);
    this.#changes = { kind: "zero", from: begin, to, number, before: this.#changes };
    if (this.#lost.size > 0) this.#rewriteLost(begin, to, number);
  }

  resize(size: number, number: number): void {
    if (size < this.size) {
      this.#visible.truncate(size);
      this.#changes = { kind: "shrink", size, number, before: this.#changes };
      this.blocks = this.blocks.without(Math.ceil(size / PAGE_BYTES), Number.POSITIVE_INFINITY);
    }
    this.size = size;
    this.#noteSize(number);
  }

  /** Reserves blocks. */
  allocate(begin: number, end: number): void {
    this.blocks = this.blocks.with(Math.floor(begin / PAGE_BYTES), Math.ceil(end / PAGE_BYTES));
  }

  /** Makes durable what the changes up to the number `upTo` have made. */
  sync(upTo: number): void {
    const latest = Math.max(this.#changes?.number ?? 0, this.#sizes?.number ?? 0);
    if (latest > upTo || !this.#isWhole) {
      this.#syncPart(upTo);
      return;
    }
    if (latest === 0) return;
    this.#durable = this.#visible.copy();
    this.#durableSize = this.size;
    this.#changes = undefined;
    this.#sizes = undefined;
  }

  /** Makes durable at once all that can be read. */
  settle(): void {
    this.#lost = new Set();
    this.#changes = undefined;
    this.#sizes = undefined;
    this.#durable = this.#visible.copy();
    this.#durableSize = this.size;
  }

  /**
   * A sync that fails, as on Linux: of the changes up to the number `upTo` some reached the device
   * and all count as written from now on. They can still be read.
   */
  failSync(upTo: number, random: Random): void {
    const touched = this.#inOrder(upTo).flatMap((change) => sectorsOf(change, this.#durable));
    const survivors = this.#survivors(upTo, random);
    this.#durable = survivors.bytes;
    this.#durableSize = survivors.size;
    this.#forget(upTo);
    this.#lost = new Set([...this.#lost, ...touched].filter((sector) => this.#differs(sector)));
    // Written again while the sync was under way: that takes the whole sector to the device.
    const later = this.#inOrder().flatMap((change) => sectorsOf(change, this.#durable));
    for (const sector of later) {
      if (this.#lost.has(sector)) this.#rewrite(sector, this.#changes!.number);
    }
  }

  /** The file as it is found after a power cut: all of it durable. It belongs to nobody. */
  survive(data: Survival["data"], random: Random): SimulatedFile {
    if (data === "random") {
      const { bytes, size } = this.#survivors(Number.POSITIVE_INFINITY, random);
      return this.#restarted(bytes, size);
    }
    if (data === "none") return this.#restarted(this.#durable.copy(), this.#durableSize);
    const synced = this.copy(undefined);
    // Makes durable what waits for it: that is not what a failed sync has lost.
    synced.sync(Number.POSITIVE_INFINITY);
    return this.#restarted(synced.#durable.copy(), synced.#durableSize);
  }

  /** Whether what no sync knows of any more is durable, too. */
  get #isWhole(): boolean {
    return this.#lost.size === 0 && (this.#sizes?.size ?? this.#durableSize) === this.size;
  }

  #restarted(bytes: SparseBytes, size: number): SimulatedFile {
    bytes.truncate(size);
    const file = new SimulatedFile(this.inode);
    file.size = size;
    file.#durableSize = size;
    file.mtimeMs = this.mtimeMs;
    file.blocks = this.blocks;
    for (const index of bytes.pages()) file.blocks = file.blocks.with(index, index + 1);
    // One for both: who changes the file makes a copy of what is visible.
    file.#visible = bytes;
    file.#durable = bytes;
    return file;
  }

  #noteSize(number: number): void {
    this.#sizes = { number, size: this.size, before: this.#sizes };
  }

  #noteWrite(bytes: Uint8Array, position: number, number: number): void {
    this.#changes = { kind: "write", position, bytes, number, before: this.#changes };
    if (this.#lost.size > 0) this.#rewriteLost(position, position + bytes.length, number);
  }

  /** Where lost sectors are changed they go to the device whole, from the cache. */
  #rewriteLost(begin: number, end: number, number: number): void {
    for (const sector of this.#lost) {
      if (sector * SECTOR_BYTES < end && begin < (sector + 1) * SECTOR_BYTES) {
        this.#rewrite(sector, number);
      }
    }
  }

  /** Notes the whole sector as it is to be read, in place of the write that touched it. */
  #rewrite(sector: number, number: number): void {
    this.#lost = new Set([...this.#lost].filter((other) => other !== sector));
    const bytes = new Uint8Array(SECTOR_BYTES);
    const position = sector * SECTOR_BYTES;
    this.#visible.read(bytes, position);
    this.#changes = { kind: "write", position, bytes, number, before: this.#changes };
  }

  #differs(sector: number): boolean {
    const [visible, durable] = [Buffer.alloc(SECTOR_BYTES), Buffer.alloc(SECTOR_BYTES)];
    this.#visible.read(visible, sector * SECTOR_BYTES);
    this.#durable.read(durable, sector * SECTOR_BYTES);
    return !visible.equals(durable);
  }

  #syncPart(upTo: number): void {
    this.#durable = this.#durable.copy();
    for (const change of this.#inOrder(upTo)) carryOut(change, this.#durable);
    let sizes = this.#sizes;
    while (sizes !== undefined && sizes.number > upTo) sizes = sizes.before;
    if (sizes !== undefined) this.#durableSize = sizes.size;
    this.#forget(upTo);
  }

  /** The changes up to the number `upTo`, the first one first. */
  #inOrder(upTo = Number.POSITIVE_INFINITY): Change[] {
    const changes: Change[] = [];
    for (let change = this.#changes; change !== undefined; change = change.before) {
      if (change.number <= upTo) changes.push(change);
    }
    return changes.reverse();
  }

  /** Drops the changes up to the number `upTo`. */
  #forget(upTo: number): void {
    const later = this.#inOrder().filter(({ number }) => number > upTo);
    this.#changes = undefined;
    for (const change of later) this.#changes = { ...change, before: this.#changes };
    const sizes: Size[] = [];
    for (let size = this.#sizes; size !== undefined; size = size.before) {
      if (size.number > upTo) sizes.push(size);
    }
    this.#sizes = undefined;
    for (const size of sizes.reverse()) this.#sizes = { ...size, before: this.#sizes };
  }

  #survivors(upTo: number, random: Random): { readonly bytes: SparseBytes; readonly size: number } {
    const lot = lotOf(random);
    const size = this.#survivingSize(upTo, lot);
    const bytes = this.#durable.copy();
    surviveSectors(this.#inOrder(upTo), bytes, size.number, lot);
    bytes.truncate(size.size);
    return { bytes, size: size.size };
  }

  #survivingSize(upTo: number, lot: Lot): { readonly number: number; readonly size: number } {
    const sizes = [{ number: 0, size: this.#durableSize }];
    const later: Size[] = [];
    for (let size = this.#sizes; size !== undefined; size = size.before) {
      if (size.number <= upTo) later.push(size);
    }
    sizes.push(...later.reverse());
    return sizes[lot(later.length)]!;
  }
}

function carryOut(change: Change, bytes: SparseBytes): void {
  if (change.kind === "write") bytes.write(change.bytes, change.position);
  else if (change.kind === "zero") bytes.zero(change.from, change.to);
  else bytes.truncate(change.size);
}

/**
 * Makes those of the changes in `bytes` that survive, sector by sector.
 *
 * @param lastShrink Number of the last change that may have shortened the file.
 */
function surviveSectors(
  changes: readonly Change[],
  bytes: SparseBytes,
  lastShrink: number,
  lot: Lot,
): void {
  // Behind a shortening that did not happen nothing did: the file was not yet what it was then.
  const undone = changes.filter(
    (change): change is Shrink => change.kind === "shrink" && change.number > lastShrink,
  );
  const left = new Map<number, number>();
  const touched = changes.map((change) => {
    if (change.kind === "shrink") return [];
    let sectors = sectorsOf(change, bytes, left);
    for (const { number, size } of undone) {
      if (number > change.number) continue;
      sectors = sectors.filter((sector) => (sector + 1) * SECTOR_BYTES <= size);
    }
    for (const sector of sectors) left.set(sector, (left.get(sector) ?? 0) + 1);
    return sectors;
  });
  for (const [sector, count] of left) left.set(sector, lot(count));
  changes.forEach((change, i) => {
    if (change.kind === "shrink") {
      if (change.number <= lastShrink) bytes.truncate(change.size);
      return;
    }
    const survivors = touched[i]!.filter((sector) => {
      const rest = left.get(sector)!;
      if (rest > 0) left.set(sector, rest - 1);
      return rest > 0;
    });
    for (let first = 0; first < survivors.length; ) {
      let end = first + 1;
      while (survivors[end] === survivors[end - 1]! + 1) end += 1;
      carryOutWithin(survivors[first]!, survivors[end - 1]! + 1, change, bytes);
      first = end;
    }
  });
}

/** Only in the sectors from `first` up to `end`. */
function carryOutWithin(
  first: number,
  end: number,
  change: Exclude<Change, Shrink>,
  bytes: SparseBytes,
): void {
  const begin = first * SECTOR_BYTES;
  if (change.kind === "write") {
    const from = Math.max(begin, change.position);
    const to = Math.min(end * SECTOR_BYTES, change.position + change.bytes.length);
    bytes.write(change.bytes.subarray(from - change.position, to - change.position), from);
  } else {
    bytes.zero(Math.max(begin, change.from), Math.min(end * SECTOR_BYTES, change.to));
  }
}

/**
 * Sectors that a change touches, in ascending order. Zeros touch only what there is: pages of
 * `bytes`, and the sectors that are in `others`.
 */
function sectorsOf(
  change: Change,
  bytes: SparseBytes,
  others: ReadonlyMap<number, unknown> = new Map(),
): number[] {
  if (change.kind === "write") {
    return sectorsIn(change.position, change.position + change.bytes.length);
  }
  const from = change.kind === "zero" ? change.from : change.size;
  const to = change.kind === "zero" ? change.to : Number.POSITIVE_INFINITY;
  const found = new Set<number>();
  for (const index of bytes.pages()) {
    const begin = Math.max(from, index * PAGE_BYTES);
    const end = Math.min(to, (index + 1) * PAGE_BYTES);
    for (const sector of sectorsIn(begin, end)) found.add(sector);
  }
  for (const sector of others.keys()) {
    if (sector * SECTOR_BYTES < to && from < (sector + 1) * SECTOR_BYTES) found.add(sector);
  }
  return [...found].sort((a, b) => a - b);
}

/** Sectors from the byte `begin` up to the byte `end`. */
function sectorsIn(begin: number, end: number): number[] {
  const sectors: number[] = [];
  if (begin < end) {
    for (let at = Math.floor(begin / SECTOR_BYTES); at * SECTOR_BYTES < end; at++) sectors.push(at);
  }
  return sectors;
}
