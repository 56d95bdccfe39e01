/**
 * The unit of a queue's extension: what of a message has no room in its queue unit. RocketMQ:
 * `ConsumeQueueExt.CqExtUnit`.
 *
 *     0      2          10           18           20
 *     | size | tagsCode | store time | bitmapSize | bitmap |      big-endian
 *
 * Size and bitmapSize are i16, in bytes. The queue unit has an *address* in place of its tags code: the
 * offset of the extension unit, minus 2^63. Hashes and times are never as low as an address.
 *
 * @module
 */

import { readInt16, writeInt64 } from "../message/int64.ts";
import { UNIT_TAGS_CODE_AT } from "./queue_unit.ts";

/** Bytes of a unit without a bitmap (`CqExtUnit.MIN_EXT_UNIT_SIZE`). */
export const EXTENSION_UNIT_BYTES_MIN = 20;

const TAGS_CODE_AT = 2;
const STORE_TIME_AT = TAGS_CODE_AT + 8;
const BITMAP_SIZE_AT = STORE_TIME_AT + 8;

/** What an address is above the offset: `ConsumeQueueExt.decorate`. */
const ADDRESS_BASE = -(2n ** 63n);
export interface ExtensionUnit {
  /** What the queue unit would hold: 64 bits. */
  readonly tagsCode: bigint;
  /** STORETIMESTAMP of the record: Unix time in ms. */
  readonly storeTimestamp: bigint;
  /** The bits of the SQL filters that the message passes; empty if nobody looked. */
  readonly bitmap: Buffer;
}

/** The address of the unit at `offset`, a safe integer. */
export function addressOf(offset: number): bigint {
  return BigInt(offset) + ADDRESS_BASE;
}

/** Writes a unit without a bitmap. */
export function encodeExtensionUnit(
  target: Buffer,
  at: number,
  tagsCode: number,
  storeTimestamp: number,
): void {
  target.writeInt16BE(EXTENSION_UNIT_BYTES_MIN, at);
  writeInt64(target, at + TAGS_CODE_AT, tagsCode);
  writeInt64(target, at + STORE_TIME_AT, storeTimestamp);
  target.writeInt16BE(0, at + BITMAP_SIZE_AT);
}

/** Size of the unit whose first 20 bytes lie at `at`; `undefined` if no unit begins there. */
export function extensionUnitSize(bytes: Buffer, at: number): number | undefined {
  if (at + EXTENSION_UNIT_BYTES_MIN > bytes.length) return undefined;
  const size = readInt16(bytes, at);
  const bitmapSize = readInt16(bytes, at + BITMAP_SIZE_AT);
  const isUnit = bitmapSize >= 0 && size === EXTENSION_UNIT_BYTES_MIN + bitmapSize;
  return isUnit ? size : undefined;
}

/** Puts the tags code of a unit in place of that of a queue unit. */
export function copyTagsCode(bytes: Buffer, at: number, units: Buffer, unitAt: number): void {
  bytes.copy(units, unitAt + UNIT_TAGS_CODE_AT, at + TAGS_CODE_AT, at + STORE_TIME_AT);
}

/** @returns `undefined` if no whole unit lies there. The bitmap is a view. */
export function decodeExtensionUnit(bytes: Buffer, at: number): ExtensionUnit | undefined {
  const size = extensionUnitSize(bytes, at);
  if (size === undefined || at + size > bytes.length) return undefined;
  return {
    tagsCode: bytes.readBigInt64BE(at + TAGS_CODE_AT),
    storeTimestamp: bytes.readBigInt64BE(at + STORE_TIME_AT),
    bitmap: bytes.subarray(at + EXTENSION_UNIT_BYTES_MIN, at + size),
  };
}
