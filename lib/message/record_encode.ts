/**
 * Writes records and blanks.
 *
 * @module
 */

import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { maskedCrc32 } from "./crc32.ts";
import { setInt64, viewOf, writeInt32 } from "./int64.ts";
import type { OutgoingRecord } from "./outgoing_record.ts";
import { PROPERTY_CRC_SIZE, writePropertyCrc } from "./property_crc.ts";
import {
  BLANK_SIZE,
  BODY_CRC_AT,
  BORN_HOST_AT,
  BORN_TIMESTAMP_AT,
  FLAG_AT,
  MAGIC_AT,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  PHYSICAL_OFFSET_AT,
  PROPERTIES_LENGTH_SIZE,
  QUEUE_ID_AT,
  QUEUE_OFFSET_AT,
  SYS_FLAG_AT,
  TOTAL_SIZE_AT,
} from "./record_layout.ts";

/**
 * Writes a whole record.
 *
 * @param target Where to; `record.size` bytes from `at` on are written, and no others.
 * @param at Position in `target`, in bytes.
 * @param record What; it passed the rules of size, so that every length fits its field.
 * @param queueOffset QUEUEOFFSET, in units; 0 for a prepared or rolled back message.
 * @param physicalOffset PHYSICALOFFSET: where in the log the record will lie.
 * @param storeTimestamp STORETIMESTAMP: Unix time in milliseconds.
 * @returns Bytes written: `record.size`.
 */
export function encodeRecord(
  target: Buffer,
  at: number,
  record: OutgoingRecord,
  queueOffset: QueueOffset,
  physicalOffset: PhysicalOffset,
  storeTimestamp: number,
): number {
  const { body, topicBytes, propertiesBytes, propertiesSize, bornHost, storeHost } = record;
  const view = viewOf(target);
  view.setInt32(at + TOTAL_SIZE_AT, record.size);
  view.setInt32(at + MAGIC_AT, record.version === 1 ? MAGIC_V1 : MAGIC_V2);
  view.setInt32(at + BODY_CRC_AT, record.bodyCrc);
  view.setInt32(at + QUEUE_ID_AT, record.queueId);
  view.setInt32(at + FLAG_AT, record.flag);
  setInt64(view, at + QUEUE_OFFSET_AT, queueOffset);
  setInt64(view, at + PHYSICAL_OFFSET_AT, physicalOffset);
  view.setInt32(at + SYS_FLAG_AT, record.sysFlag);
  setInt64(view, at + BORN_TIMESTAMP_AT, record.bornTimestamp);
  let cursor = writeBytes(target, at + BORN_HOST_AT, bornHost.bytes);
  setInt64(view, cursor, storeTimestamp);
  cursor = writeBytes(target, cursor + 8, storeHost.bytes);
  view.setInt32(cursor, record.reconsumeTimes);
  setInt64(view, cursor + 4, record.preparedTransactionOffset);
  view.setInt32(cursor + 12, body.length);
  target.set(body, cursor + 16);
  cursor += 16 + body.length;
  if (record.version === 2) target[cursor++] = topicBytes.length >>> 8;
  target[cursor] = topicBytes.length;
  cursor = writeBytes(target, cursor + 1, topicBytes);
  target[cursor] = propertiesSize >>> 8;
  target[cursor + 1] = propertiesSize;
  cursor += PROPERTIES_LENGTH_SIZE;
  if (propertiesBytes !== undefined) target.set(propertiesBytes, cursor);
  else if (record.propertiesText !== "") target.write(record.propertiesText, cursor, "latin1");
  if (record.appendPropertyCrc) {
    const crcAt = at + record.size - PROPERTY_CRC_SIZE;
    writePropertyCrc(target, crcAt, maskedCrc32(target, at, crcAt));
  }
  return record.size;
}

/** Copies a few bytes: below some dozens a loop is faster than `set`. Returns the end. */
function writeBytes(target: Uint8Array, at: number, bytes: Uint8Array): number {
  for (let i = 0; i < bytes.length; i++) target[at + i] = bytes[i]!;
  return at + bytes.length;
}

/**
 * Writes a blank, which closes a file. Only 8 bytes are written; the rest of the file stays.
 *
 * @param target Where to.
 * @param at Position in `target`, in bytes.
 * @param remaining Bytes from here to the end of the file, at least 8: the blank's TOTALSIZE.
 * @returns Bytes written: 8.
 */
export function encodeBlank(target: Buffer, at: number, remaining: number): number {
  writeInt32(target, at + TOTAL_SIZE_AT, remaining);
  writeInt32(target, at + MAGIC_AT, MAGIC_BLANK);
  return BLANK_SIZE;
}
