/**
 * The unit of a consume queue: where a message lies in the commit log. RocketMQ: `CQUnit`,
 * `ConsumeQueue.CQ_STORE_UNIT_SIZE`.
 *
 *     0        8     12        20
 *     | offset | size | tagsCode |      big-endian
 *
 * A unit with `size` 0 is the end of the queue. A queue that starts at an offset above 0 begins with
 * filler units (offset 0, size 2^31 - 1): they are no messages. A unit with tags code `464C4831` stands for
 * a message that was lost; it leads to the next one, or to the last byte of a log file, with size 9.
 *
 * @module
 */

import { readInt32, readInt64Rounded, writeInt32, writeInt64 } from "../message/int64.ts";
import type { PhysicalOffset } from "../units.ts";

export const UNIT_BYTES = 20;

const OFFSET_AT = 0;
const SIZE_AT = OFFSET_AT + 8;
export const UNIT_TAGS_CODE_AT = SIZE_AT + 4;

/** `size` of a filler unit (`ConsumeQueue.fillPreBlank`). */
export const FILLER_SIZE = 0x7fffffff;

/** `tagsCode` of a lost message's unit: "FLH1". */
export const LOST_TAGS_CODE = 0x464c4831;
/** `size` of one that leads nowhere: more than is left of its file, and less than any record has. */
const NOWHERE_SIZE = 9;

/** The high 32 bits of the highest address in an extension (`ConsumeQueueExt.MAX_ADDR`). */
const ADDRESS_HIGH_MAX = -2;

const TWO_32 = 2 ** 32;
/** The upper half of an offset that is a safe integer is below. */
const OFFSET_HIGH_END = 2 ** 21;

export interface QueueUnit {
  readonly physicalOffset: PhysicalOffset;
  /** TOTALSIZE of the record, in bytes. */
  readonly size: number;
  /** 64 bits: a Java hash, a time, or an address of the queue's extension. */
  readonly tagsCode: bigint;
}

/** Where a record lies. */
export interface RecordPlace {
  readonly offset: PhysicalOffset;
  /** In bytes. */
  readonly size: number;
}

/** @param tagsCode A safe integer: a hash of 32 bits or a time in ms. */
export function encodeUnit(
  target: Buffer,
  at: number,
  physicalOffset: PhysicalOffset,
  size: number,
  tagsCode: number,
): void {
  writeInt64(target, at + OFFSET_AT, physicalOffset);
  writeInt32(target, at + SIZE_AT, size);
  writeInt64(target, at + UNIT_TAGS_CODE_AT, tagsCode);
}

/** Units that say "no message here", to fill a file before its first message. */
export function fillerUnits(count: number): Buffer {
  const units = Buffer.alloc(count * UNIT_BYTES);
  for (let i = 0; i < count; i++) units.writeInt32BE(FILLER_SIZE, i * UNIT_BYTES + SIZE_AT);
  return units;
}

/** Fields of a lost message's unit that leads nowhere: in front of the log file at `fileStart`. */
export function lostUnit(
  fileStart: PhysicalOffset,
): readonly [physicalOffset: PhysicalOffset, size: number, tagsCode: number] {
  return [fileStart - 1, NOWHERE_SIZE, LOST_TAGS_CODE];
}

/** @throws {RangeError} if the offset is no safe integer: see {@linkcode isUnitOffset}. */
export function decodeUnit(bytes: Buffer, at: number): QueueUnit {
  return {
    physicalOffset: unitOffset(bytes, at),
    size: unitSize(bytes, at),
    tagsCode: bytes.readBigInt64BE(at + UNIT_TAGS_CODE_AT),
  };
}

export function unitOffset(bytes: Buffer, at: number): PhysicalOffset {
  const offset = roundedOffset(bytes, at);
  if (!Number.isSafeInteger(offset)) {
    throw new RangeError(
      `Cannot use physical offset ${bytes.readBigInt64BE(at + OFFSET_AT)} of a queue unit: it is beyond 2^53`,
    );
  }
  return offset;
}

/** Whether the offset can be read as a number, whatever it is. */
export function isUnitOffset(bytes: Buffer, at: number): boolean {
  return Number.isSafeInteger(roundedOffset(bytes, at));
}

function roundedOffset(bytes: Buffer, at: number): number {
  return readInt64Rounded(bytes, at + OFFSET_AT);
}

export function unitSize(bytes: Buffer, at: number): number {
  return readInt32(bytes, at + SIZE_AT);
}

/** Where the unit leads. @throws {RangeError} if the offset is no safe integer. */
export function unitPlace(bytes: Buffer, at: number): RecordPlace {
  return { offset: unitOffset(bytes, at), size: unitSize(bytes, at) };
}

/** Gives the unit another tags code: 64 bits. */
export function setUnitTagsCode(bytes: Buffer, at: number, tagsCode: bigint): void {
  bytes.writeBigInt64BE(tagsCode, at + UNIT_TAGS_CODE_AT);
}

/** The high 32 bits of the tags code, signed. */
export function unitTagsHigh(bytes: Buffer, at: number): number {
  return readInt32(bytes, at + UNIT_TAGS_CODE_AT);
}

/** Whether the tags code is an address, by its high 32 bits: see `extension_unit.ts`. */
export function isAddress(tagsCodeHigh: number): boolean {
  return tagsCodeHigh <= ADDRESS_HIGH_MAX;
}

/** Where in the queue's extension the unit leads; `undefined` if its tags code is no address. */
export function addressedOffset(bytes: Buffer, at: number): number | undefined {
  const high = unitTagsHigh(bytes, at);
  if (!isAddress(high)) return undefined;
  const offsetHigh = high & 0x7fffffff;
  // No file of an extension comes so far.
  if (offsetHigh >= OFFSET_HIGH_END) return undefined;
  return offsetHigh * TWO_32 + (readInt32(bytes, at + UNIT_TAGS_CODE_AT + 4) >>> 0);
}

/** The low 32 bits of the tags code, signed: what a tag filter compares. */
export function unitTagsHash(bytes: Buffer, at: number): number {
  return readInt32(bytes, at + UNIT_TAGS_CODE_AT + 4);
}

/** Whether the unit leads anywhere, or fills the front; anything else is the end of the queue. */
export function isUnit(bytes: Buffer, at: number): boolean {
  return readInt32(bytes, at + OFFSET_AT) >>> 0 < OFFSET_HIGH_END && unitSize(bytes, at) > 0;
}

/** Whether the unit leads nowhere: it fills the front of the queue, or its message was lost. */
export function isFiller(bytes: Buffer, at: number): boolean {
  const size = unitSize(bytes, at);
  if (size === NOWHERE_SIZE) return isMarkedLost(bytes, at);
  return (
    size === FILLER_SIZE &&
    readInt32(bytes, at + OFFSET_AT) === 0 &&
    readInt32(bytes, at + OFFSET_AT + 4) === 0
  );
}

/** Whether the unit says that its message was lost. A message's tag may have that hash, too. */
export function isMarkedLost(bytes: Buffer, at: number): boolean {
  return unitTagsHigh(bytes, at) === 0 && unitTagsHash(bytes, at) === LOST_TAGS_CODE;
}
