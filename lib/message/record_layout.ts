/**
 * Where each field of a record lies, and readers of single fields. The format is told in
 * `record.ts`.
 *
 * Positions count from the start of the record. Up to BORNHOST they are constants; behind it they
 * depend on the length of the hosts, which SYSFLAG tells.
 *
 * @module
 */

import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { HOST_V4_SIZE, HOST_V6_SIZE } from "./host.ts";
import { readInt16, readInt32, readInt64 } from "./int64.ts";
import { BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG } from "./sys_flag.ts";

/** Magic of a record with a topic length of 1 byte (`MessageDecoder.MESSAGE_MAGIC_CODE`). */
export const MAGIC_V1 = 0xdaa320a7 | 0;
/** Magic of a record with a topic length of 2 bytes, from 5.1.0 on (`MESSAGE_MAGIC_CODE_V2`). */
export const MAGIC_V2 = 0xdaa320ab | 0;
/** Magic of what fills the end of a file (`CommitLog.BLANK_MAGIC_CODE`). */
export const MAGIC_BLANK = 0xcbd43194 | 0;

export const TOTAL_SIZE_AT = 0;
export const MAGIC_AT = TOTAL_SIZE_AT + 4;
export const BODY_CRC_AT = MAGIC_AT + 4;
export const QUEUE_ID_AT = BODY_CRC_AT + 4;
export const FLAG_AT = QUEUE_ID_AT + 4;
export const QUEUE_OFFSET_AT = FLAG_AT + 4;
export const PHYSICAL_OFFSET_AT = QUEUE_OFFSET_AT + 8;
export const SYS_FLAG_AT = PHYSICAL_OFFSET_AT + 8;
export const BORN_TIMESTAMP_AT = SYS_FLAG_AT + 4;
export const BORN_HOST_AT = BORN_TIMESTAMP_AT + 8;

/** From the end of BORNHOST to STOREHOSTADDRESS: STORETIMESTAMP. */
const STORE_TIMESTAMP_SIZE = 8;
/** From the end of STOREHOSTADDRESS to BODYLENGTH: RECONSUMETIMES, PREPAREDTRANSACTIONOFFSET. */
const RECONSUME_TIMES_SIZE = 4;
const PREPARED_TRANSACTION_OFFSET_SIZE = 8;
const BODY_LENGTH_SIZE = 4;
export const PROPERTIES_LENGTH_SIZE = 2;

/** Bytes of a record up to the end of SYSFLAG: enough to know where all else is. */
export const KNOWN_AT = BORN_TIMESTAMP_AT;

/** Bytes of a record without hosts, body, topic and properties, and with a topic length of 1. */
const BARE_SIZE =
  BORN_HOST_AT +
  STORE_TIMESTAMP_SIZE +
  RECONSUME_TIMES_SIZE +
  PREPARED_TRANSACTION_OFFSET_SIZE +
  BODY_LENGTH_SIZE +
  1 +
  PROPERTIES_LENGTH_SIZE;

/** Bytes of the smallest record: V1, IPv4 hosts, nothing in it. */
export const RECORD_SIZE_MIN = BARE_SIZE + 2 * HOST_V4_SIZE;

/** The two fields of a blank record: TOTALSIZE and MAGICCODE. What follows them is undefined. */
export const BLANK_SIZE = MAGIC_AT + 4;

/**
 * Bytes that must stay free behind a record in its file, for a blank
 * (`CommitLog.END_FILE_MIN_BLANK_LENGTH`).
 */
export const END_FILE_MIN_BLANK_LENGTH = 8;

/** The largest PROPERTIESLENGTH, a signed 16-bit field, in bytes (`Short.MAX_VALUE`). */
export const PROPERTIES_SIZE_MAX = 32767;
/** The largest topic of a V1 record, a signed 8-bit field, in bytes (`Byte.MAX_VALUE`). */
export const TOPIC_SIZE_MAX_V1 = 127;

/**
 * The highest QUEUEOFFSET that is taken for one: the name of its queue file, 20 bytes for each, must
 * be a safe integer.
 */
export const QUEUE_OFFSET_MAX = 2 ** 48;

/** The largest topic that fits the field of a V2 record, a signed 16-bit one, in bytes. */
export const TOPIC_SIZE_MAX_V2 = 32767;

/** Format of a record: 1 has a topic length of one byte, 2 of two bytes. */
export type RecordVersion = 1 | 2;

/** Bytes of BORNHOST. */
export function bornHostSize(sysFlag: number): number {
  return (sysFlag & BORN_HOST_V6_FLAG) === 0 ? HOST_V4_SIZE : HOST_V6_SIZE;
}

/** Bytes of STOREHOSTADDRESS. */
export function storeHostSize(sysFlag: number): number {
  return (sysFlag & STORE_HOST_V6_FLAG) === 0 ? HOST_V4_SIZE : HOST_V6_SIZE;
}

export function storeTimestampAt(sysFlag: number): number {
  return BORN_HOST_AT + bornHostSize(sysFlag);
}

export function storeHostAt(sysFlag: number): number {
  return storeTimestampAt(sysFlag) + STORE_TIMESTAMP_SIZE;
}

export function reconsumeTimesAt(sysFlag: number): number {
  return storeHostAt(sysFlag) + storeHostSize(sysFlag);
}

export function preparedTransactionOffsetAt(sysFlag: number): number {
  return reconsumeTimesAt(sysFlag) + RECONSUME_TIMES_SIZE;
}

export function bodyLengthAt(sysFlag: number): number {
  return preparedTransactionOffsetAt(sysFlag) + PREPARED_TRANSACTION_OFFSET_SIZE;
}

/** Where BODY begins. */
export function bodyAt(sysFlag: number): number {
  return bodyLengthAt(sysFlag) + BODY_LENGTH_SIZE;
}

/** Bytes of TOPICLENGTH. */
export function topicLengthSize(version: RecordVersion): number {
  return version;
}

/**
 * TOTALSIZE of a record, in bytes.
 *
 * @param bodySize Bytes of the body.
 * @param topicSize Bytes of the topic.
 * @param propertiesSize Bytes of the properties, the CRC property included.
 */
export function recordSize(
  version: RecordVersion,
  sysFlag: number,
  bodySize: number,
  topicSize: number,
  propertiesSize: number,
): number {
  return (
    bodyAt(sysFlag) +
    bodySize +
    topicLengthSize(version) +
    topicSize +
    PROPERTIES_LENGTH_SIZE +
    propertiesSize
  );
}

// Readers of single fields, of a record that starts at `start` and has been checked.

/** TOTALSIZE, in bytes. */
export function readTotalSize(bytes: Uint8Array, start: number): number {
  return readInt32(bytes, start + TOTAL_SIZE_AT);
}

/** MAGICCODE, signed. */
export function readMagic(bytes: Uint8Array, start: number): number {
  return readInt32(bytes, start + MAGIC_AT);
}

export function readQueueId(bytes: Uint8Array, start: number): number {
  return readInt32(bytes, start + QUEUE_ID_AT);
}

/** @throws {RangeError} If it is beyond 2^53 - 1; a checked record's is not. */
export function readQueueOffset(bytes: Uint8Array, start: number): QueueOffset {
  return readInt64(bytes, start + QUEUE_OFFSET_AT, "QUEUEOFFSET");
}

/** @throws {RangeError} If it is beyond 2^53 - 1; a checked record's is not. */
export function readPhysicalOffset(bytes: Uint8Array, start: number): PhysicalOffset {
  return readInt64(bytes, start + PHYSICAL_OFFSET_AT, "PHYSICALOFFSET");
}

export function readSysFlag(bytes: Uint8Array, start: number): number {
  return readInt32(bytes, start + SYS_FLAG_AT);
}

/**
 * STORETIMESTAMP: Unix time in milliseconds.
 *
 * @throws {RangeError} If it is beyond 2^53 - 1; a checked record's is not.
 */
export function readStoreTimestamp(bytes: Uint8Array, start: number): number {
  const at = start + storeTimestampAt(readSysFlag(bytes, start));
  return readInt64(bytes, at, "STORETIMESTAMP");
}

/** 2 for the magic of V2, else 1. */
export function readVersion(bytes: Uint8Array, start: number): RecordVersion {
  return readMagic(bytes, start) === MAGIC_V2 ? 2 : 1;
}

/** Where TOPICLENGTH lies, from the start of the record. */
export function topicLengthAt(bytes: Uint8Array, start: number): number {
  const sysFlag = readSysFlag(bytes, start);
  return bodyAt(sysFlag) + readInt32(bytes, start + bodyLengthAt(sysFlag));
}

/** Whether TOPIC is `topic`, in UTF-8. */
export function isTopic(bytes: Uint8Array, start: number, topic: Uint8Array): boolean {
  const lengthAt = start + topicLengthAt(bytes, start);
  const isShort = readVersion(bytes, start) === 1;
  const length = isShort ? bytes[lengthAt] : readInt16(bytes, lengthAt);
  if (length !== topic.length) return false;
  const at = lengthAt + (isShort ? 1 : 2);
  for (let i = 0; i < length; i++) if (bytes[at + i] !== topic[i]) return false;
  return true;
}
