/**
 * What RocketMQ's store takes for a record: `CommitLog.checkMessageAndReturnSize`, test by test, as
 * three releases have it. Ours is stricter: `record_check.ts`.
 *
 * @module
 */

import { maskedCrc32 } from "../message/crc32.ts";
import { parseInt32 } from "../message/fields.ts";
import { readInt16, readInt32 } from "../message/int64.ts";
import { decodeUtf8 } from "../message/java_string.ts";
import { forEachProperty } from "../message/properties.ts";
import { PROPERTY_CRC_SIZE } from "../message/property_crc.ts";
import { PROPERTY_DELAY_TIME_LEVEL, SCHEDULE_TOPIC } from "../message/property_names.ts";
import {
  BODY_CRC_AT,
  bodyAt,
  bodyLengthAt,
  KNOWN_AT,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  PROPERTIES_LENGTH_SIZE,
  RECORD_SIZE_MIN,
  readMagic,
  readSysFlag,
  readTotalSize,
} from "../message/record_layout.ts";

/** Releases whose rules differ: 4.9.8, 5.3.3 and 5.5.1 stand for their neighbours. */
export type RocketmqVersion = "4.9" | "5.3" | "5.5";

export type RocketmqCheck =
  | { readonly kind: "record"; readonly size: number }
  | { readonly kind: "blank" }
  | { readonly kind: "bad"; readonly reason: string }
  /** Look again with at least `needed` bytes. */
  | { readonly kind: "short"; readonly needed: number };

export interface RocketmqCheckOptions {
  readonly version: RocketmqVersion;
  readonly checkCrc: boolean;
  /** 5.x only. */
  readonly forceVerifyPropCRC: boolean;
}

/** Name of the property that holds a record's own CRC. */
const PROPERTY_CRC = "__CRC32#";

/**
 * @param bytes Where it lies, from `at` up to `end`.
 * @param rest Bytes from `at` to the end of its file.
 */
export function checkAsRocketmq(
  bytes: Buffer,
  at: number,
  end: number,
  rest: number,
  options: RocketmqCheckOptions,
): RocketmqCheck {
  if (rest < 8) return bad("the file ends");
  if (end - at < 8) return { kind: "short", needed: 8 };
  const size = readTotalSize(bytes, at);
  const magic = readMagic(bytes, at);
  const isOld = options.version === "4.9";
  const tooLarge = `TOTALSIZE is ${size}, ${rest} bytes are left in the file`;
  if (!isOld && size > rest) return bad(tooLarge);
  if (options.version === "5.5" && size < 0) return bad(`TOTALSIZE is ${size}`);
  if (magic === MAGIC_BLANK) return { kind: "blank" };
  if (magic !== MAGIC_V1 && (isOld || magic !== MAGIC_V2)) {
    if (size === 0 && magic === 0) return bad("zeros where a record should be");
    return bad(`MAGICCODE is ${(magic >>> 0).toString(16).padStart(8, "0")}`);
  }
  if (size > rest) return bad(`${tooLarge} (it makes room for as much, and may run out of memory)`);
  if (size < RECORD_SIZE_MIN) return bad(`TOTALSIZE is ${size}`);
  if (end - at < size) return { kind: "short", needed: size };
  return checkBody(bytes, at, size, magic === MAGIC_V1 ? 1 : 2, options);
}

function checkBody(
  bytes: Buffer,
  at: number,
  size: number,
  topicLengthBytes: 1 | 2,
  { version, checkCrc, forceVerifyPropCRC }: RocketmqCheckOptions,
): RocketmqCheck {
  const limit = at + size;
  const sysFlag = readSysFlag(bytes, at);
  const bodyStart = at + bodyAt(sysFlag);
  if (at + KNOWN_AT > limit || bodyStart > limit) return bad("TOTALSIZE is too little");
  const bodySize = readInt32(bytes, at + bodyLengthAt(sysFlag));
  const bodyEnd = bodyStart + Math.max(bodySize, 0);
  if (bodyEnd + topicLengthBytes > limit) return bad(`BODYLENGTH is ${bodySize}`);
  const ownCrc = forceVerifyPropCRC && version !== "4.9";
  if (bodySize > 0 && checkCrc && !ownCrc) {
    const isRight = maskedCrc32(bytes, bodyStart, bodyEnd) === readInt32(bytes, at + BODY_CRC_AT);
    if (!isRight) return bad("BODYCRC is not that of the body");
  }
  const topicSize =
    topicLengthBytes === 1 ? (bytes[bodyEnd]! << 24) >> 24 : readInt16(bytes, bodyEnd);
  const topicStart = bodyEnd + topicLengthBytes;
  const propertiesStart = topicStart + topicSize + PROPERTIES_LENGTH_SIZE;
  if (topicSize < 0 || propertiesStart > limit) return bad(`TOPICLENGTH is ${topicSize}`);
  const propertiesSize = readInt16(bytes, propertiesStart - PROPERTIES_LENGTH_SIZE);
  if (propertiesStart + Math.max(propertiesSize, 0) !== limit || bodySize < 0) {
    return bad(`TOTALSIZE is ${size}, which does not fit the lengths of the parts`);
  }
  const topic = decodeUtf8(bytes, topicStart, topicStart + topicSize);
  const text = decodeUtf8(bytes, propertiesStart, limit);
  let crc: string | undefined;
  let delay: string | undefined;
  forEachProperty(text, (name, value) => {
    if (name === PROPERTY_CRC) crc = value;
    if (name === PROPERTY_DELAY_TIME_LEVEL) delay = value;
  });
  if (topic === SCHEDULE_TOPIC && delay !== undefined && parseInt32(delay) === undefined) {
    return bad(`property ${PROPERTY_DELAY_TIME_LEVEL} is "${delay}"`);
  }
  if (checkCrc && ownCrc) {
    const claimed = crc === undefined ? -1 : Number([...crc].reverse().join(""));
    const whole = maskedCrc32(bytes, at, limit - PROPERTY_CRC_SIZE);
    if (claimed !== whole) return bad("the record's own CRC is missing or wrong");
  }
  return { kind: "record", size };
}

function bad(reason: string): RocketmqCheck {
  return { kind: "bad", reason };
}
