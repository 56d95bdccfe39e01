/**
 * The bytes of an index file. RocketMQ: `IndexFile`, `IndexHeader`.
 *
 *     0    beginTimestamp     i64   store time of the first entry's message, ms
 *     8    endTimestamp       i64   of the last one
 *     16   beginPhyOffset     i64   where the first entry's message lies in the log
 *     24   endPhyOffset       i64   the last one's
 *     32   hashSlotCount      i32   slots in use
 *     36   indexCount         i32   number of the next entry; the first is 1
 *     40   slots              i32 each: number of the newest entry of the slot, 0 without one
 *     ...  entries            20 bytes each; entry 0 is never used
 *
 *     entry:  0 key hash i32 | 4 physical offset i64 | 12 seconds since beginTimestamp i32 |
 *             16 number of the entry before it in its slot i32, 0 without one
 *
 * A key belongs to slot `hash mod slots`. A file's name is the local time of its first message, to the
 * millisecond (RocketMQ: that at which it was made); only the order of the names counts.
 *
 * @module
 */

import { readInt64Rounded as readInt64 } from "../message/int64.ts";
import type { FilePosition, PhysicalOffset } from "../units.ts";

/** `IndexHeader.INDEX_HEADER_SIZE`. */
export const HEADER_BYTES = 40;
/** `IndexFile.hashSlotSize`. */
export const SLOT_BYTES = 4;
/** `IndexFile.indexSize`. */
export const ENTRY_BYTES = 20;
/** Number of a file's first entry. */
export const FIRST_ENTRY = 1;

const BEGIN_TIMESTAMP_AT = 0;
const END_TIMESTAMP_AT = 8;
const BEGIN_OFFSET_AT = 16;
const END_OFFSET_AT = 24;
const USED_SLOTS_AT = 32;
const COUNT_AT = 36;

/** How many slots and entries every file has. */
export interface IndexShape {
  /** `maxHashSlotNum`. */
  readonly slots: number;
  /** `maxIndexNum`, the unused entry 0 included. */
  readonly entries: number;
}

export interface IndexHeader {
  beginTimestamp: number;
  endTimestamp: number;
  beginPhysicalOffset: PhysicalOffset;
  endPhysicalOffset: PhysicalOffset;
  usedSlots: number;
  /** Number of the next entry. */
  count: number;
}

export function fileSizeOf({ slots, entries }: IndexShape): number {
  return HEADER_BYTES + SLOT_BYTES * slots + ENTRY_BYTES * entries;
}

export function slotPosition(slot: number): FilePosition {
  return HEADER_BYTES + SLOT_BYTES * slot;
}

export function entryPosition({ slots }: IndexShape, number: number): FilePosition {
  return HEADER_BYTES + SLOT_BYTES * slots + ENTRY_BYTES * number;
}

/** The header of a file that follows `previous`: RocketMQ presets its fields with the other's end. */
export function headerBehind(previous: IndexHeader | undefined): IndexHeader {
  const timestamp = previous?.endTimestamp ?? 0;
  const offset = previous?.endPhysicalOffset ?? 0;
  return {
    beginTimestamp: timestamp,
    endTimestamp: timestamp,
    beginPhysicalOffset: offset,
    endPhysicalOffset: offset,
    usedSlots: 0,
    count: FIRST_ENTRY,
  };
}

export function encodeHeader(target: DataView, header: IndexHeader): void {
  target.setBigInt64(BEGIN_TIMESTAMP_AT, BigInt(header.beginTimestamp));
  target.setBigInt64(END_TIMESTAMP_AT, BigInt(header.endTimestamp));
  target.setBigInt64(BEGIN_OFFSET_AT, BigInt(header.beginPhysicalOffset));
  target.setBigInt64(END_OFFSET_AT, BigInt(header.endPhysicalOffset));
  target.setInt32(USED_SLOTS_AT, header.usedSlots);
  target.setInt32(COUNT_AT, header.count);
}

/** Reads a header; one that a file of this shape cannot have is `undefined`. */
export function decodeHeader(
  bytes: Buffer,
  { slots, entries }: IndexShape,
): IndexHeader | undefined {
  const header: IndexHeader = {
    beginTimestamp: readInt64(bytes, BEGIN_TIMESTAMP_AT),
    endTimestamp: readInt64(bytes, END_TIMESTAMP_AT),
    beginPhysicalOffset: readInt64(bytes, BEGIN_OFFSET_AT),
    endPhysicalOffset: readInt64(bytes, END_OFFSET_AT),
    usedSlots: bytes.readInt32BE(USED_SLOTS_AT),
    // A file that was never flushed has a zero there.
    count: Math.max(bytes.readInt32BE(COUNT_AT), FIRST_ENTRY),
  };
  const { beginPhysicalOffset: begin, endPhysicalOffset: end, usedSlots, count } = header;
  const times = [header.beginTimestamp, header.endTimestamp];
  const isPossible =
    [...times, begin, end].every((value) => Number.isSafeInteger(value) && value >= 0) &&
    begin <= end &&
    usedSlots >= 0 &&
    usedSlots <= slots &&
    count <= entries;
  return isPossible ? header : undefined;
}

/** `IndexFile.putKey`: whole seconds, from 0 to 2^31 - 1. */
export function secondsSince(beginTimestamp: number, timestamp: number): number {
  if (beginTimestamp <= 0) return 0;
  const seconds = Math.trunc((timestamp - beginTimestamp) / 1000);
  return Math.min(Math.max(seconds, 0), 2147483647);
}

export function encodeEntry(
  target: DataView,
  at: number,
  hash: number,
  offset: PhysicalOffset,
  seconds: number,
  previous: number,
): void {
  target.setInt32(at, hash);
  target.setInt32(at + 4, Math.floor(offset / 4294967296));
  target.setUint32(at + 8, offset >>> 0);
  target.setInt32(at + 12, seconds);
  target.setInt32(at + 16, previous);
}

export function entryHash(bytes: Buffer, at = 0): number {
  return bytes.readInt32BE(at);
}

/** May be negative, or no safe integer, in a damaged file. */
export function entryOffset(bytes: Buffer, at = 0): PhysicalOffset {
  return readInt64(bytes, at + 4);
}

export function entrySeconds(bytes: Buffer, at = 0): number {
  return bytes.readInt32BE(at + 12);
}

export function entryPrevious(bytes: Buffer, at = 0): number {
  return bytes.readInt32BE(at + 16);
}

/** Years up to 8999: there is always a name behind. */
const NAME = /^[0-8]\d{16}$/;

/** Whether a file of `index/` is one of the index: other names are passed over. */
export function isIndexName(name: string): boolean {
  return NAME.test(name);
}

/** Times beyond cannot be told by a name; no store was that old or will be. */
const NAMED_TIME_MAX = Date.UTC(8999, 0);

/**
 * The name of a file whose first message was stored at `timestamp`, in ms: behind the name of the
 * file before it, whatever the clock said.
 */
export function indexName(timestamp: number, before: string | undefined): string {
  const time = new Date(Math.min(Math.max(timestamp, 0), NAMED_TIME_MAX));
  const part = (value: number, digits: number) => String(value).padStart(digits, "0");
  const name =
    part(time.getFullYear(), 4) +
    part(time.getMonth() + 1, 2) +
    part(time.getDate(), 2) +
    part(time.getHours(), 2) +
    part(time.getMinutes(), 2) +
    part(time.getSeconds(), 2) +
    part(time.getMilliseconds(), 3);
  if (before === undefined || name > before) return name;
  return String(BigInt(before) + 1n).padStart(17, "0");
}
