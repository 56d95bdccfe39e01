/**
 * The unit of a batch queue: where a record lies, and which messages of the queue are in it. RocketMQ:
 * `BatchConsumeQueue.CQ_STORE_UNIT_SIZE`.
 *
 *     0        8      12         20           28     36       38          42         46
 *     | offset | size | tagsCode | store time | base | number | compacted | reserved |      big-endian
 *
 * The first 20 bytes are those of `queue_unit.ts`. `base` is the queue offset of the first message, of
 * which there are `number` (an i16): `compacted` is -1, `reserved` 0.
 *
 * @module
 */

import { readInt16, readInt64Rounded, writeInt64 } from "../message/int64.ts";
import type { QueueOffset } from "../units.ts";
import { isUnit, UNIT_BYTES } from "./queue_unit.ts";

export const BATCH_UNIT_BYTES = 46;

const STORE_TIME_AT = UNIT_BYTES;
const BASE_AT = STORE_TIME_AT + 8;
const NUMBER_AT = BASE_AT + 8;
const COMPACTED_AT = NUMBER_AT + 2;
const RESERVED_AT = COMPACTED_AT + 4;

/** What stands where RocketMQ's compaction notes an offset (`BatchConsumeQueue.INVALID_POS`). */
const NOT_COMPACTED = -1;

/** Completes a unit whose first 20 bytes are there. */
export function encodeBatch(
  target: Buffer,
  at: number,
  storeTimestamp: number,
  base: QueueOffset,
  messages: number,
): void {
  writeInt64(target, at + STORE_TIME_AT, storeTimestamp);
  writeInt64(target, at + BASE_AT, base);
  target.writeInt16BE(messages, at + NUMBER_AT);
  target.writeInt32BE(NOT_COMPACTED, at + COMPACTED_AT);
  target.writeInt32BE(0, at + RESERVED_AT);
}

/** Queue offset of the first message; no safe integer in a damaged unit. */
export function batchBase(bytes: Buffer, at: number): QueueOffset {
  return readInt64Rounded(bytes, at + BASE_AT);
}

/** How many messages there are; less than 1 in a damaged unit. */
export function batchMessages(bytes: Buffer, at: number): number {
  return readInt16(bytes, at + NUMBER_AT);
}

/** Whether the unit leads anywhere, and says to which messages; anything else ends the queue. */
export function isBatchUnit(bytes: Buffer, at: number): boolean {
  if (!isUnit(bytes, at) || batchMessages(bytes, at) <= 0) return false;
  const base = batchBase(bytes, at);
  return Number.isSafeInteger(base) && base >= 0;
}
