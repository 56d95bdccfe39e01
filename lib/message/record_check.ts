/**
 * Says what lies at a place in the log: a record, a blank, or neither.
 *
 * @module
 */

import type { PhysicalOffset } from "../units.ts";
import { maskedCrc32 } from "./crc32.ts";
import { getInt64Rounded, viewOf } from "./int64.ts";
import { claimedCrc, PROPERTY_CRC_SIZE } from "./property_crc.ts";
import {
  BLANK_SIZE,
  BODY_CRC_AT,
  bodyAt,
  bodyLengthAt,
  KNOWN_AT,
  MAGIC_AT,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  PHYSICAL_OFFSET_AT,
  PROPERTIES_LENGTH_SIZE,
  PROPERTIES_SIZE_MAX,
  QUEUE_ID_AT,
  QUEUE_OFFSET_AT,
  QUEUE_OFFSET_MAX,
  RECORD_SIZE_MIN,
  SYS_FLAG_AT,
  storeTimestampAt,
  TOPIC_SIZE_MAX_V1,
  TOPIC_SIZE_MAX_V2,
  TOTAL_SIZE_AT,
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
  const view = viewOf(bytes);
  const size = view.getInt32(start + TOTAL_SIZE_AT);
  const magic = view.getInt32(start + MAGIC_AT);
  if (magic === MAGIC_BLANK) return { kind: "blank", size };
  if (magic !== MAGIC_V1 && magic !== MAGIC_V2) return bad(size, notMagic(size, magic));
  if (size < RECORD_SIZE_MIN) {
    return bad(size, `TOTALSIZE is ${size}, the smallest record has ${RECORD_SIZE_MIN} bytes`);
  }
  if (available < KNOWN_AT) return { kind: "short", needed: KNOWN_AT };
  const limit = start + size;
  const sysFlag = view.getInt32(start + SYS_FLAG_AT);
  const bodyStart = start + bodyAt(sysFlag);
  if (bodyStart > limit) return bad(size, `TOTALSIZE is ${size}, too little for the hosts`);
  if (bodyStart > end) return { kind: "short", needed: bodyStart - start };
  const bodySize = view.getInt32(start + bodyLengthAt(sysFlag));
  const topicLengthBytes = magic === MAGIC_V1 ? 1 : 2;
  const topicMax = magic === MAGIC_V1 ? TOPIC_SIZE_MAX_V1 : TOPIC_SIZE_MAX_V2;
  const rest = limit - bodyStart - bodySize - topicLengthBytes - PROPERTIES_LENGTH_SIZE;
  if (bodySize < 0 || rest < 0 || rest > topicMax + PROPERTIES_SIZE_MAX) {
    return bad(size, `BODYLENGTH is ${bodySize}, which does not fit TOTALSIZE ${size}`);
  }
  const reason = placeFault(view, start, expectedOffset, sysFlag);
  if (reason !== undefined) return bad(size, reason);
  if (limit > end) return { kind: "short", needed: size };

  const bodyEnd = bodyStart + bodySize;
  const topicStart = bodyEnd + topicLengthBytes;
  const topicSize = magic === MAGIC_V1 ? view.getInt8(bodyEnd) : view.getInt16(bodyEnd);
  if (topicSize < 0 || topicSize > rest) {
    return bad(size, `TOPICLENGTH is ${topicSize}, which does not fit TOTALSIZE ${size}`);
  }
  const propertiesStart = topicStart + topicSize + PROPERTIES_LENGTH_SIZE;
  const propertiesSize = view.getInt16(propertiesStart - PROPERTIES_LENGTH_SIZE);
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
  view: DataView,
  start: number,
  expectedOffset: PhysicalOffset | undefined,
  sysFlag: number,
): string | undefined {
  const physicalOffset = getInt64Rounded(view, start + PHYSICAL_OFFSET_AT);
  if (expectedOffset !== undefined && physicalOffset !== expectedOffset) {
    const stored = view.getBigInt64(start + PHYSICAL_OFFSET_AT);
    return `PHYSICALOFFSET is ${stored}, but it lies at ${expectedOffset}`;
  }
  const timeAt = start + storeTimestampAt(sysFlag);
  return (
    numberFault(view, start + PHYSICAL_OFFSET_AT, physicalOffset, "PHYSICALOFFSET") ??
    queueFault(view, start) ??
    numberFault(view, timeAt, getInt64Rounded(view, timeAt), "STORETIMESTAMP")
  );
}

/** What is wrong with the place in its queue. */
function queueFault(view: DataView, start: number): string | undefined {
  const at = start + QUEUE_OFFSET_AT;
  const queueOffset = getInt64Rounded(view, at);
  const fault = numberFault(view, at, queueOffset, "QUEUEOFFSET");
  if (fault !== undefined) return fault;
  const queueId = view.getInt32(start + QUEUE_ID_AT);
  if (queueId < 0) return `QUEUEID is ${queueId}`;
  if (queueOffset <= QUEUE_OFFSET_MAX) return undefined;
  return `QUEUEOFFSET is ${queueOffset}, the most that a queue holds is ${QUEUE_OFFSET_MAX}`;
}

function numberFault(view: DataView, at: number, value: number, name: string): string | undefined {
  if (value >= 0 && value <= Number.MAX_SAFE_INTEGER) return undefined;
  return `${name} is ${view.getBigInt64(at)}, not within 0 and 2^53 - 1`;
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
  const bodyCrc = viewOf(bytes).getInt32(start + BODY_CRC_AT);
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
