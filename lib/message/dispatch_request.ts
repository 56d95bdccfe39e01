/**
 * What queues and index need to know of a record (RocketMQ: `DispatchRequest`).
 *
 * @module
 */

import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { parseInt32 } from "./fields.ts";
import { readInt16 } from "./int64.ts";
import { decodeUtf8 } from "./java_string.ts";
import type { OutgoingRecord } from "./outgoing_record.ts";
import { forEachProperty } from "./properties.ts";
import {
  PROPERTY_DELAY_TIME_LEVEL,
  PROPERTY_INNER_BASE,
  PROPERTY_INNER_MULTI_DISPATCH,
  PROPERTY_INNER_MULTI_QUEUE_OFFSET,
  PROPERTY_INNER_NUM,
  PROPERTY_KEYS,
  PROPERTY_TAGS,
  PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
  SCHEDULE_TOPIC,
} from "./property_names.ts";
import {
  PROPERTIES_LENGTH_SIZE,
  QUEUE_OFFSET_MAX,
  readPhysicalOffset,
  readQueueId,
  readQueueOffset,
  readStoreTimestamp,
  readSysFlag,
  readTotalSize,
  readVersion,
  topicLengthAt,
} from "./record_layout.ts";
import { type DelayLevels, tagsCodeOf } from "./tags_code.ts";
import { storedTopic, topicOf } from "./topic.ts";

/** Further queues that the record also goes to, and its offsets there. */
export interface MultiDispatch {
  readonly queues: readonly string[];
  /** In units, one for each queue. */
  readonly offsets: readonly QueueOffset[];
}

/** One record, as its queues see it. */
export interface QueueRequest {
  readonly topic: string;
  readonly queueId: number;
  /** PHYSICALOFFSET, as stored in the record. */
  readonly physicalOffset: PhysicalOffset;
  /** TOTALSIZE in bytes. */
  readonly size: number;
  /**
   * What the queue unit holds: hash of the tag (an int32), or in the schedule topic the time of
   * delivery (Unix time in milliseconds). Always a safe integer; sign-extend it to 64 bits.
   */
  readonly tagsCode: number;
  /** Unix time in milliseconds. */
  readonly storeTimestamp: number;
  /** In units. */
  readonly queueOffset: QueueOffset;
  readonly sysFlag: number;
  /**
   * `undefined` if the record names no further queues, or not as many offsets as queues. A name that
   * is none of a directory is left out, as RocketMQ leaves out one with a path separator.
   */
  readonly multiDispatch: MultiDispatch | undefined;
  /** Messages in the record: `INNER_NUM` of an inner batch, else 1. */
  readonly batchSize: number;
}

/** One record, as the dispatchers see it. */
export interface DispatchRequest extends QueueRequest {
  /** Property `KEYS`; `undefined` if absent. */
  readonly keys: string | undefined;
  /** Property `UNIQ_KEY`; `undefined` if absent. */
  readonly uniqKey: string | undefined;
  /** Property `TAGS`; `undefined` if absent. */
  readonly tags: string | undefined;
  /** All properties as text; the record's own CRC may be left out. */
  readonly propertiesText: string;
}

/**
 * The request for a record in memory.
 *
 * @param bytes Where the record lies.
 * @param start Its first byte. `checkRecord` said that it is a whole record.
 * @param delayLevels For records of the schedule topic.
 */
export function dispatchRequestOf(
  bytes: Buffer,
  start: number,
  delayLevels: DelayLevels,
): DispatchRequest {
  const size = readTotalSize(bytes, start);
  const version = readVersion(bytes, start);
  const lengthAt = start + topicLengthAt(bytes, start);
  const topicStart = lengthAt + version;
  const topicEnd = topicStart + (version === 1 ? bytes[lengthAt]! : readInt16(bytes, lengthAt));
  const topic = storedTopic(bytes, topicStart, topicEnd);
  const propertiesText = decodeUtf8(bytes, topicEnd + PROPERTIES_LENGTH_SIZE, start + size);
  const storeTimestamp = readStoreTimestamp(bytes, start);
  const found = propertiesText === "" ? NOTHING_FOUND : scan(propertiesText);
  return {
    topic,
    queueId: readQueueId(bytes, start),
    physicalOffset: readPhysicalOffset(bytes, start),
    size,
    tagsCode: tagsCode(topic, found.tags, found.delay, storeTimestamp, delayLevels),
    storeTimestamp,
    queueOffset: readQueueOffset(bytes, start),
    sysFlag: readSysFlag(bytes, start),
    keys: found.keys,
    uniqKey: found.uniqKey,
    tags: found.tags,
    multiDispatch: multiDispatchOf(found),
    batchSize: batchSizeOf(found),
    propertiesText,
  };
}

/**
 * The request for a record that is just being appended: what {@linkcode dispatchRequestOf} would
 * read from its bytes.
 *
 * @param record What was written.
 * @param queueOffset Where in its queue, in units.
 * @param physicalOffset Where in the log, in bytes.
 * @param storeTimestamp When: Unix time in milliseconds.
 * @param delayLevels For records of the schedule topic.
 */
export function dispatchRequestFor(
  record: OutgoingRecord,
  queueOffset: QueueOffset,
  physicalOffset: PhysicalOffset,
  storeTimestamp: number,
  delayLevels: DelayLevels,
): DispatchRequest {
  const { propertiesText, delayLevel } = record;
  // Few records carry one of these; for the others the text need not be looked at.
  const inner = propertiesText.includes("INNER_") ? scan(propertiesText) : NOTHING_FOUND;
  return {
    topic: record.topic,
    queueId: record.queueId,
    physicalOffset,
    size: record.size,
    tagsCode:
      delayLevel > 0 ? delayLevels.deliverTime(delayLevel, storeTimestamp) : record.tagsCode,
    storeTimestamp,
    queueOffset,
    sysFlag: record.sysFlag,
    keys: record.keys,
    uniqKey: record.uniqKey,
    tags: record.tags,
    multiDispatch: multiDispatchOf(inner),
    batchSize: batchSizeOf(inner),
    propertiesText,
  };
}

/** The properties that dispatch looks at. */
interface Found {
  tags: string | undefined;
  keys: string | undefined;
  uniqKey: string | undefined;
  delay: string | undefined;
  innerNum: string | undefined;
  innerBase: string | undefined;
  multiQueues: string | undefined;
  multiOffsets: string | undefined;
}

const NOTHING_FOUND: Readonly<Found> = nothingFound();

function nothingFound(): Found {
  return {
    tags: undefined,
    keys: undefined,
    uniqKey: undefined,
    delay: undefined,
    innerNum: undefined,
    innerBase: undefined,
    multiQueues: undefined,
    multiOffsets: undefined,
  };
}

function scan(text: string): Found {
  const found = nothingFound();
  forEachProperty(text, (name, value) => {
    switch (name) {
      case PROPERTY_TAGS:
        found.tags = value;
        break;
      case PROPERTY_KEYS:
        found.keys = value;
        break;
      case PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX:
        found.uniqKey = value;
        break;
      case PROPERTY_DELAY_TIME_LEVEL:
        found.delay = value;
        break;
      case PROPERTY_INNER_NUM:
        found.innerNum = value;
        break;
      case PROPERTY_INNER_BASE:
        found.innerBase = value;
        break;
      case PROPERTY_INNER_MULTI_DISPATCH:
        found.multiQueues = value;
        break;
      case PROPERTY_INNER_MULTI_QUEUE_OFFSET:
        found.multiOffsets = value;
        break;
    }
  });
  return found;
}

function tagsCode(
  topic: string,
  tags: string | undefined,
  delay: string | undefined,
  storeTimestamp: number,
  delayLevels: DelayLevels,
): number {
  if (topic === SCHEDULE_TOPIC && delay !== undefined) {
    const level = parseInt32(delay) ?? 0;
    if (level > 0) return delayLevels.deliverTime(level, storeTimestamp);
  }
  return tagsCodeOf(tags);
}

function multiDispatchOf(found: Readonly<Found>): MultiDispatch | undefined {
  if (found.multiQueues === undefined || found.multiOffsets === undefined) return undefined;
  const queues = found.multiQueues.split(",");
  const offsets = found.multiOffsets.split(",");
  // RocketMQ 5.x leaves the offset empty for a queue that is not a light one, and dispatches none.
  if (queues.length !== offsets.length || !offsets.every(isOffset)) return undefined;
  const isName = queues.map((name) => topicOf(name).fault === undefined);
  return {
    queues: queues.filter((_, i) => isName[i]),
    offsets: offsets.filter((_, i) => isName[i]).map(Number),
  };
}

function isOffset(text: string): boolean {
  return /^[0-9]{1,16}$/.test(text) && Number(text) <= QUEUE_OFFSET_MAX;
}

function batchSizeOf(found: Readonly<Found>): number {
  if (found.innerNum === undefined || found.innerBase === undefined) return 1;
  return parseInt32(found.innerNum) ?? 1;
}
