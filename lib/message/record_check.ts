/**
 * Says what lies at a place in the log: a record, a blank, or neither.
 *
 * @module
 */

import type { PhysicalOffset } from "../units.ts";
import { maskedCrc32 } from "./crc32.ts";
import { readBigInt64, readInt16, readInt32, readInt64Rounded } from "./int64.ts";
import { claimedCrc, PROPERTY_CRC_SIZE } from "./property_crc.ts";
import {
  BLANK_SIZE,
  BODY_CRC_AT,
  bodyAt,
  bodyLengthAt,
  KNOWN_AT,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  PHYSICAL_OFFSET_AT,
  PROPERTIES_LENGTH_SIZE,
  PROPERTIES_SIZE_MAX,
  QUEUE_OFFSET_AT,
  QUEUE_OFFSET_MAX,
  RECORD_SIZE_MIN,
  readMagic,
  readQueueId,
  readSysFlag,
  readTotalSize,
  storeTimestampAt,
  TOPIC_SIZE_MAX_V1,
  TOPIC_SIZE_MAX_V2,
} from "./record_layout.ts";
import { storedTopicFault } from "./topic.ts";

/** What {@linkcode checkRecord} found. */
export type RecordCheck =
  /** A whole record of `size` bytes. */
  | { readonly kind: "record"; readonly size: number }
  /** The filler at the end of a file; `size` is what it declares, and may be anything. */
  | { readonly kind: "blank"; readonly size: number }
  /** Neither; `declaredSize` is the i32 where TOTALSIZE should be. */
  | { readonly kind: "bad"; readonly reason: string; readonly declaredSize: number }
  /** Good as far as it goes, but the bytes end: look again with at least `needed` bytes. */
  | { readonly kind: "short"; readonly needed: number };

export interface RecordCheckOptions {
  /** Whether to compute the CRC of the body, and of the record if it carries one. */
  readonly checkCrc: boolean;
  /**
   * Whether a record without CRC of its own is bad. RocketMQ's `forceVerifyPropCRC`.
   *
   * @default false
   */
  readonly forceVerifyPropCRC?: boolean;
}

/**
 * Checks the record at `start`.
 *
 * Beyond what RocketMQ checks (`CommitLog.checkMessageAndReturnSize`): PHYSICALOFFSET must be the
 * place where the record lies, if that is given; queue offset, physical offset and store time must
 * be non-negative safe integers; queue id, queue offset and topic must name a place in a queue file;
 * an empty body must have CRC 0; and a record that carries its own CRC is always held to it, and to
 * the one of its body as well.
 *
 * Never throws, whatever the bytes, and never reads outside them.
 *
 * @param bytes Where the record lies.
 * @param start Its first byte.
 * @param end One behind the last byte that may be read.
 * @param expectedOffset Where in the log `start` is, or `undefined` if that is not known.
 */
export function checkRecord(
  bytes: Buffer,
  start: number,
  end: number,
  expectedOffset: PhysicalOffset | undefined,
  options: RecordCheckOptions,
): RecordCheck {
  const available = end - start;
  if (available < BLANK_SIZE) return { kind: "short", needed: BLANK_SIZE };
  const size = readTotalSize(bytes, start);
  const magic = readMagic(bytes, start);
  if (magic === MAGIC_BLANK) return { kind: "blank", size };
  if (magic !== MAGIC_V1 && magic !== MAGIC_V2) return bad(size, notMagic(size, magic));
  if (size < RECORD_SIZE_MIN) {
    return bad(size, `TOTALSIZE is ${size}, the smallest record has ${RECORD_SIZE_MIN} bytes`);
  }
  if (available < KNOWN_AT) return { kind: "short", needed: KNOWN_AT };
  const limit = start + size;
  const sysFlag = readSysFlag(bytes, start);
  const bodyStart = start + bodyAt(sysFlag);
  if (bodyStart > limit) return bad(size, `TOTALSIZE is ${size}, too little for the hosts`);
  if (bodyStart > end) return { kind: "short", needed: bodyStart - start };
  const bodySize = readInt32(bytes, start + bodyLengthAt(sysFlag));
  const topicLengthBytes = magic === MAGIC_V1 ? 1 : 2;
  const topicMax = magic === MAGIC_V1 ? TOPIC_SIZE_MAX_V1 : TOPIC_SIZE_MAX_V2;
  const rest = limit - bodyStart - bodySize - topicLengthBytes - PROPERTIES_LENGTH_SIZE;
  if (bodySize < 0 || rest < 0 || rest > topicMax + PROPERTIES_SIZE_MAX) {
    return bad(size, `BODYLENGTH is ${bodySize}, which does not fit TOTALSIZE ${size}`);
  }
  const reason = placeFault(bytes, start, expectedOffset, sysFlag);
  if (reason !== undefined) return bad(size, reason);
  if (limit > end) return { kind: "short", needed: size };

  const bodyEnd = bodyStart + bodySize;
  const topicStart = bodyEnd + topicLengthBytes;
  const topicSize = magic === MAGIC_V1 ? (bytes[bodyEnd]! << 24) >> 24 : readInt16(bytes, bodyEnd);
  if (topicSize < 0 || topicSize > rest) {
    return bad(size, `TOPICLENGTH is ${topicSize}, which does not fit TOTALSIZE ${size}`);
  }
  const propertiesStart = topicStart + topicSize + PROPERTIES_LENGTH_SIZE;
  const propertiesSize = readInt16(bytes, propertiesStart - PROPERTIES_LENGTH_SIZE);
  if (propertiesStart + propertiesSize !== limit || propertiesSize < 0) {
    return bad(size, `PROPERTIESLENGTH is ${propertiesSize}, which does not fit TOTALSIZE ${size}`);
  }
  const topicFault = storedTopicFault(bytes, topicStart, topicStart + topicSize);
  if (topicFault !== undefined) return bad(size, topicFault);
  if (options.checkCrc) {
    const fault = crcFault(bytes, start, bodyStart, bodyEnd, propertiesStart, limit, options);
    if (fault !== undefined) return bad(size, fault);
  }
  return { kind: "record", size };
}

function bad(declaredSize: number, reason: string): RecordCheck {
  return { kind: "bad", reason, declaredSize };
}

function notMagic(size: number, magic: number): string {
  if (size === 0 && magic === 0) return "zeros where a record should be";
  return `MAGICCODE is ${(magic >>> 0).toString(16).padStart(8, "0")}`;
}

/** What is wrong with the fields that say where and when. */
function placeFault(
  bytes: Buffer,
  start: number,
  expectedOffset: PhysicalOffset | undefined,
  sysFlag: number,
): string | undefined {
  const physicalOffset = readInt64Rounded(bytes, start + PHYSICAL_OFFSET_AT);
  if (expectedOffset !== undefined && physicalOffset !== expectedOffset) {
    const stored = readBigInt64(bytes, start + PHYSICAL_OFFSET_AT);
    return `PHYSICALOFFSET is ${stored}, but it lies at ${expectedOffset}`;
  }
  return (
    numberFault(bytes, start + PHYSICAL_OFFSET_AT, physicalOffset, "PHYSICALOFFSET") ??
    int64Fault(bytes, start + QUEUE_OFFSET_AT, "QUEUEOFFSET") ??
    queueFault(bytes, start) ??
    int64Fault(bytes, start + storeTimestampAt(sysFlag), "STORETIMESTAMP")
  );
}

/** What is wrong with the place in its queue; QUEUEOFFSET is a safe integer. */
function queueFault(bytes: Buffer, start: number): string | undefined {
  const queueId = readQueueId(bytes, start);
  if (queueId < 0) return `QUEUEID is ${queueId}`;
  const queueOffset = readInt64Rounded(bytes, start + QUEUE_OFFSET_AT);
  if (queueOffset <= QUEUE_OFFSET_MAX) return undefined;
  return `QUEUEOFFSET is ${queueOffset}, the most that a queue holds is ${QUEUE_OFFSET_MAX}`;
}

function int64Fault(bytes: Buffer, at: number, name: string): string | undefined {
  return numberFault(bytes, at, readInt64Rounded(bytes, at), name);
}

function numberFault(bytes: Buffer, at: number, value: number, name: string): string | undefined {
  if (value >= 0 && value <= Number.MAX_SAFE_INTEGER) return undefined;
  return `${name} is ${readBigInt64(bytes, at)}, not within 0 and 2^53 - 1`;
}

function crcFault(
  bytes: Buffer,
  start: number,
  bodyStart: number,
  bodyEnd: number,
  propertiesStart: number,
  limit: number,
  options: RecordCheckOptions,
): string | undefined {
  const bodyCrc = readInt32(bytes, start + BODY_CRC_AT);
  const computed = bodyEnd === bodyStart ? 0 : maskedCrc32(bytes, bodyStart, bodyEnd);
  if (bodyCrc !== computed) return `BODYCRC is ${hex(bodyCrc)}, the body's is ${hex(computed)}`;
  const claimed = claimedCrc(bytes, propertiesStart, limit);
  if (claimed === undefined) {
    return options.forceVerifyPropCRC ? "the record has no CRC of its own" : undefined;
  }
  const whole = maskedCrc32(bytes, start, limit - PROPERTY_CRC_SIZE);
  return claimed === whole
    ? undefined
    : `the record's own CRC is ${hex(claimed)}, that of its bytes is ${hex(whole)}`;
}

function hex(value: number): string {
  return (value >>> 0).toString(16).padStart(8, "0");
}
