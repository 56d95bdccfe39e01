/**
 * Records byte by byte: as the wild has them, or odd in one way or another, or damaged.
 *
 * @module
 */

import { maskedCrc32 } from "../../lib/message/crc32.ts";
import { PROPERTY_CRC_SIZE, writePropertyCrc } from "../../lib/message/property_crc.ts";
import { MAGIC_BLANK, MAGIC_V1, MAGIC_V2 } from "../../lib/message/record.ts";
import {
  BODY_CRC_AT,
  bodyAt,
  bodyLengthAt,
  MAGIC_AT,
  PHYSICAL_OFFSET_AT,
  PROPERTIES_LENGTH_SIZE,
  QUEUE_ID_AT,
  QUEUE_OFFSET_AT,
  QUEUE_OFFSET_MAX,
  SYS_FLAG_AT,
  storeTimestampAt,
} from "../../lib/message/record_layout.ts";
import type { Random } from "./random.ts";

/** A record byte by byte, right but for what is asked for. */
export interface Raw {
  readonly magic: number;
  readonly sysFlag: number;
  readonly queueId: number;
  readonly queueOffset: bigint;
  readonly storeTimestamp: bigint;
  readonly offset: number;
  readonly flag: number;
  readonly body: Buffer;
  readonly topic: Buffer;
  readonly properties: Buffer;
  readonly ownCrc: boolean;
}

export const USUAL: Raw = {
  magic: MAGIC_V1,
  sysFlag: 0,
  queueId: 0,
  queueOffset: 0n,
  storeTimestamp: 1n,
  offset: 0,
  flag: 0,
  body: Buffer.from("b"),
  topic: Buffer.from("T"),
  properties: Buffer.alloc(0),
  ownCrc: false,
};

export function encodeRaw(raw: Raw): Buffer {
  const topicLengthSize = raw.magic === MAGIC_V1 ? 1 : 2;
  const ownCrc = Buffer.alloc(raw.ownCrc ? PROPERTY_CRC_SIZE : 0);
  const start = bodyAt(raw.sysFlag);
  const topicAt = start + raw.body.length + topicLengthSize;
  const propertiesAt = topicAt + raw.topic.length + PROPERTIES_LENGTH_SIZE;
  const size = propertiesAt + raw.properties.length + ownCrc.length;
  const bytes = Buffer.alloc(size, 7);
  bytes.writeInt32BE(size, 0);
  bytes.writeInt32BE(raw.magic, MAGIC_AT);
  bytes.writeInt32BE(maskedCrc32(raw.body), BODY_CRC_AT);
  bytes.writeInt32BE(raw.queueId, QUEUE_ID_AT);
  bytes.writeInt32BE(raw.flag, QUEUE_ID_AT + 4);
  bytes.writeBigInt64BE(raw.queueOffset, QUEUE_OFFSET_AT);
  bytes.writeBigInt64BE(BigInt(raw.offset), PHYSICAL_OFFSET_AT);
  bytes.writeInt32BE(raw.sysFlag, SYS_FLAG_AT);
  bytes.writeBigInt64BE(raw.storeTimestamp, storeTimestampAt(raw.sysFlag));
  bytes.writeInt32BE(raw.body.length, bodyLengthAt(raw.sysFlag));
  raw.body.copy(bytes, start);
  if (topicLengthSize === 1) bytes[topicAt - 1] = raw.topic.length;
  else bytes.writeUInt16BE(raw.topic.length, topicAt - 2);
  raw.topic.copy(bytes, topicAt);
  bytes.writeUInt16BE(raw.properties.length + ownCrc.length, propertiesAt - 2);
  raw.properties.copy(bytes, propertiesAt);
  if (raw.ownCrc) {
    const crc = maskedCrc32(bytes, 0, size - PROPERTY_CRC_SIZE);
    writePropertyCrc(bytes, size - PROPERTY_CRC_SIZE, crc);
  }
  return bytes;
}

const TOPICS = ["T", "orders", "%RETRY%group", "a".repeat(127), "b".repeat(255), "c".repeat(256)];
const ODD_TOPICS = ["", ".", "..", ".a", "a/b", "ü", "a\0", "SCHEDULE_TOPIC_XXXX", "FORCELOG_HOLE"];
const PARTS = [
  "TAGS\x01red\x02",
  "KEYS\x01k1 k2\x02",
  "UNIQ_KEY\x017F000001\x02",
  "WAIT\x01true\x02",
  "name\x01Jürgen 訂單\x02",
];
const ODD_PARTS = [
  "TAGS\x01\x02",
  "TAGS\x01a",
  "TAGS\x01ü\x02",
  "TAGS\x01a\x01b\x02",
  "TAGS\x02",
  "TAGSX\x01a\x02",
  "\x01TAGS\x01a\x02",
  "TAGS",
  "DELAY\x013\x02",
  "DELAY\x01\x02",
  "DELAYED\x013\x02",
  "INNER_NUM\x015\x02INNER_BASE\x011\x02",
  "INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x017\x02",
  "\x02",
  "\x01",
  "\0",
  "a\0b\x01c\x02",
  "\0".repeat(600),
  "__CRC32#\x010000000000\x02",
  "__CRC32#\x01000000000x\x02",
  "__CRC32#",
];
const ODD_BYTES = [0xff, 0xc3, 0xed, 0xa0, 0x80, 0xef, 0xbb, 0xbf];

/** A record as the wild has it, or odd in one way or another. */
export function anyRecord(random: Random, offset: number): Buffer {
  const oneIn = (count: number): boolean => random(count) === 0;
  const pick = <T>(items: readonly T[]): T => items[random(items.length)] as T;
  const odd = oneIn(2);
  const properties: Buffer[] = [];
  for (let parts = random(5); parts > 0; parts--) {
    properties.push(Buffer.from(pick(odd && oneIn(3) ? ODD_PARTS : PARTS)));
    if (odd && oneIn(8)) properties.push(Buffer.from([pick(ODD_BYTES)]));
  }
  const time = BigInt(1_700_000_000_000 + random(1e9));
  return encodeRaw({
    magic: odd && oneIn(10) ? pick([MAGIC_BLANK, 0, 1]) : pick([MAGIC_V1, MAGIC_V2]),
    sysFlag: odd ? random(0x800) : pick([0, 0, 1, 2, 0x08, 0x30, 0x101]),
    queueId: odd && oneIn(8) ? pick([-1, -(2 ** 31), 2 ** 31 - 1]) : random(16),
    queueOffset:
      odd && oneIn(6)
        ? pick([-1n, BigInt(QUEUE_OFFSET_MAX), BigInt(QUEUE_OFFSET_MAX) + 1n, 2n ** 62n])
        : BigInt(random(1e9)),
    storeTimestamp:
      odd && oneIn(6) ? pick([-1n, 0n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n]) : time,
    offset: odd && oneIn(12) ? offset + pick([-1, 1, 2 ** 32]) : offset,
    flag: oneIn(8) ? 0x464c4831 : random(3),
    body: Buffer.alloc(pick([0, 1, 15, 16, 63, 64, 65, 200, 3000]), random(256)),
    topic: Buffer.from(pick(odd && oneIn(4) ? ODD_TOPICS : TOPICS)),
    properties: Buffer.concat(properties),
    ownCrc: oneIn(4),
  });
}

/** Some bytes with others in their place, mostly such as length fields hate. */
export function damage(random: Random, bytes: Buffer): void {
  for (let count = 1 + random(2); count > 0; count--) {
    const at = random(Math.min(bytes.length, random(2) === 0 ? 100 : bytes.length));
    const values = [0, 0xff, 0x7f, 0x80, 1, bytes[at]! ^ (1 << random(8))];
    bytes[at] = values[random(values.length)] as number;
  }
}
