/**
 * What the store refuses to write, and with which of RocketMQ's statuses.
 *
 * Two sets. The **broker's** rules look at the message as it was handed in: RocketMQ has them in
 * hooks of the broker (`HookUtils`) and in the processors before it, so that a store alone takes
 * anything; ours can be switched off for the same effect. The **store's** rules look at the
 * prepared record, and hold always: without them a record could not be read back.
 *
 * A rule that is broken is an answer, not an exception: nothing was written and nothing is wrong
 * with the store. A field of the wrong type is an exception.
 *
 * @module
 */

import type { PutMessageStatus } from "../errors.ts";
import { BATCH_ITEM_SIZE_MIN } from "./batch.ts";
import { INT32_MAX, INT32_MIN, integerOf, parseInt32, wrongType } from "./fields.ts";
import type { BatchItem, Message, MessageBatch } from "./message.ts";
import { keysText } from "./message_properties.ts";
import type { OutgoingRecord } from "./outgoing_record.ts";
import { findProperty } from "./properties.ts";
import { endsLikeCrc, PROPERTY_CRC_SIZE } from "./property_crc.ts";
import {
  NAME_VALUE_SEPARATOR,
  PROPERTY_CRC32,
  PROPERTY_DELAY_TIME_LEVEL,
  PROPERTY_INNER_NUM,
  PROPERTY_KEYS,
  PROPERTY_SEPARATOR,
  PROPERTY_TAGS,
  PROPERTY_TIMER_DELAY_MS,
  PROPERTY_TIMER_DELAY_SEC,
  PROPERTY_TIMER_DELIVER_MS,
  PROPERTY_TIMER_OUT_MS,
  PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
  RETRY_TOPIC_PREFIX,
  TIMER_TOPIC,
} from "./property_names.ts";
import {
  END_FILE_MIN_BLANK_LENGTH,
  PROPERTIES_SIZE_MAX,
  TOPIC_SIZE_MAX_V1,
} from "./record_layout.ts";
import { INNER_BATCH_FLAG, TRANSACTION_ROLLBACK_TYPE, takesQueueOffset } from "./sys_flag.ts";
import { type Topic, topicOf } from "./topic.ts";

/** A refusal. */
export interface Violation {
  readonly status: Exclude<PutMessageStatus, "PUT_OK">;
  /** What is wrong with what, for the message of an error. */
  readonly reason: string;
}

/** Sizes that a record is held to, in bytes. */
export interface SizeLimits {
  /** RocketMQ's `maxMessageSize`: of a body, or of a batch's request body. */
  readonly maxMessageSize: number;
  /** Of a file of the commit log (`mappedFileSizeCommitLog`). */
  readonly fileSize: number;
}

/** The largest topic but for retry topics, in bytes (`HookUtils`: `Byte.MAX_VALUE`). */
const TOPIC_SIZE_MAX_ORDINARY = TOPIC_SIZE_MAX_V1;

/** What a record may have beyond `maxMessageSize`, in bytes (`MessageExtEncoder`: 64 KiB). */
const RECORD_ALLOWANCE = 64 * 1024;

const TIMER_PROPERTIES = [
  PROPERTY_TIMER_DELIVER_MS,
  PROPERTY_TIMER_DELAY_MS,
  PROPERTY_TIMER_DELAY_SEC,
] as const;

/**
 * Checks a message as a broker does before it calls the store.
 *
 * @param isBatchTopic The topic's queues are batch queues.
 *
 * Delays are not served yet, and a message that asks for one is refused rather than delivered at
 * once.
 *
 * @returns The first rule that it breaks, or `undefined`.
 * @throws {TypeError} If a field that is looked at is not of its type.
 */
export function brokerViolation(message: Message, isBatchTopic = false): Violation | undefined {
  const topic = topicOf(message.topic);
  const sysFlag = sysFlagOf(message.sysFlag);
  return (
    topicViolation(topic, topic.text.startsWith(RETRY_TOPIC_PREFIX)) ??
    contentViolation(message) ??
    innerBatchViolation(message, sysFlag, isBatchTopic) ??
    delayViolation(message, topic, sysFlag)
  );
}

/**
 * Checks a batch as a broker does before it calls the store. One bad member refuses the whole.
 *
 * @returns The first rule that it breaks, or `undefined`.
 * @throws {TypeError} If a field that is looked at is not of its type.
 */
export function batchViolation(batch: MessageBatch): Violation | undefined {
  const topic = topicOf(batch.topic);
  if (!Array.isArray(batch.messages)) throw wrongType("messages", "an array", batch.messages);
  const messages = batch.messages as readonly BatchItem[];
  if (messages.length === 0) return illegal("the batch is empty");
  if (topic.text.startsWith(RETRY_TOPIC_PREFIX)) {
    return illegal(`the topic begins with ${RETRY_TOPIC_PREFIX}, which a batch may not`);
  }
  const sysFlag = sysFlagOf(batch.sysFlag);
  if ((sysFlag & TRANSACTION_ROLLBACK_TYPE) !== 0) {
    return illegal("a batch may not be part of a transaction");
  }
  const whole =
    topicViolation(topic, false) ??
    innerBatchViolation(batch, sysFlag, false) ??
    delayViolation(batch, topic, sysFlag);
  if (whole !== undefined) return whole;
  for (const [i, item] of messages.entries()) {
    const violation =
      contentViolation(item) ??
      innerBatchViolation(item, 0, false) ??
      delayViolation(item, topic, 0);
    if (violation !== undefined) {
      return { status: violation.status, reason: `message ${i} of the batch: ${violation.reason}` };
    }
  }
  return undefined;
}

function illegal(reason: string): Violation {
  return { status: "MESSAGE_ILLEGAL", reason };
}

function sysFlagOf(sysFlag: number | undefined): number {
  return integerOf(sysFlag, 0, "sysFlag", INT32_MIN, INT32_MAX);
}

function topicViolation(topic: Topic, isRetry: boolean): Violation | undefined {
  if (topic.fault !== undefined) return illegal(topic.fault);
  if (topic.bytes.length > TOPIC_SIZE_MAX_ORDINARY && !isRetry) {
    return illegal(
      `the topic has ${topic.bytes.length} bytes, the most are ${TOPIC_SIZE_MAX_ORDINARY}`,
    );
  }
  return undefined;
}

/** Body and characters. */
function contentViolation(message: BatchItem): Violation | undefined {
  const { body, tags, keys, uniqKey, properties } = message;
  // Not in the type, but over the edge of a program without types.
  if (body === undefined || body === null) return illegal("the body is missing");
  const raw: unknown = message.propertiesString;
  if (raw !== undefined) {
    if (typeof raw !== "string") throw wrongType("propertiesString", "a string", raw);
    return undefined;
  }
  const broken =
    (tags === undefined ? undefined : separatorIn(PROPERTY_TAGS, tags)) ??
    (keys === undefined ? undefined : separatorIn(PROPERTY_KEYS, keysText(keys))) ??
    (uniqKey === undefined
      ? undefined
      : separatorIn(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, uniqKey));
  if (broken !== undefined || properties === undefined) return broken;
  for (const name of Object.keys(properties)) {
    const violation = separatorIn(name, properties[name]);
    if (violation !== undefined) return violation;
  }
  return undefined;
}

function separatorIn(name: string, value: string | null | undefined): Violation | undefined {
  if (value != null && typeof value !== "string") {
    throw wrongType(`property ${name}`, "a string", value);
  }
  const where = hasSeparator(name) ? "name" : hasSeparator(value) ? "value" : undefined;
  if (where === undefined) return undefined;
  return illegal(
    `the ${where} of property ${JSON.stringify(name)} contains byte 1 or byte 2, ` +
      "which separate properties",
  );
}

function hasSeparator(text: string | null | undefined): boolean {
  return text != null && (text.includes(NAME_VALUE_SEPARATOR) || text.includes(PROPERTY_SEPARATOR));
}

/** `INNER_NUM` and the inner batch bit belong together, and to batch queues. */
function innerBatchViolation(
  message: Propertied,
  sysFlag: number,
  isBatchTopic: boolean,
): Violation | undefined {
  if ((sysFlag & INNER_BATCH_FLAG) !== 0) {
    if (isBatchTopic) return undefined;
    return illegal("sysFlag says inner batch, but the topic's queue type is not BatchCQ");
  }
  if (propertyOf(message, PROPERTY_INNER_NUM) !== undefined) {
    return illegal(`property ${PROPERTY_INNER_NUM} is there, but sysFlag does not say inner batch`);
  }
  return undefined;
}

function delayViolation(message: Propertied, topic: Topic, sysFlag: number): Violation | undefined {
  // Most messages say nothing, and each put asks.
  if (message.properties === undefined && message.propertiesString === undefined) return undefined;
  // A prepared or rolled back message is not delayed, whatever it says.
  if (!takesQueueOffset(sysFlag)) return undefined;
  const delay = propertyOf(message, PROPERTY_DELAY_TIME_LEVEL);
  if (delay !== undefined) {
    const level = parseInt32(delay);
    if (level === undefined) {
      return illegal(`property ${PROPERTY_DELAY_TIME_LEVEL} is "${delay}", which is no number`);
    }
    if (level > 0) {
      return illegal(
        `property ${PROPERTY_DELAY_TIME_LEVEL} is ${level}, but delay levels are not served`,
      );
    }
  }
  if (topic.text === TIMER_TOPIC || propertyOf(message, PROPERTY_TIMER_OUT_MS) !== undefined) {
    return undefined;
  }
  const timer = TIMER_PROPERTIES.find((name) => propertyOf(message, name) !== undefined);
  if (timer === undefined) return undefined;
  return {
    status: "WHEEL_TIMER_NOT_ENABLE",
    reason: `property ${timer} is there, but timers are not served`,
  };
}

/** What carries properties. */
interface Propertied {
  readonly properties?: Readonly<Record<string, string>>;
  readonly propertiesString?: string;
}

/** The value of a property that has no field of its own; an empty one does not count. */
function propertyOf(message: Propertied, name: string): string | undefined {
  if (message.propertiesString !== undefined) return findProperty(message.propertiesString, name);
  const value = message.properties?.[name];
  return value === "" || value === null ? undefined : value;
}

/**
 * Checks sizes and topic of what is to be written.
 *
 * @param records One message, or the members of a batch, which are written together or not at all.
 * @returns The first rule that is broken, or `undefined`.
 */
export function storeViolation(
  records: OutgoingRecord | readonly OutgoingRecord[],
  limits: SizeLimits,
): Violation | undefined {
  return isBatch(records) ? batchSizeViolation(records, limits) : recordViolation(records, limits);
}

function isBatch(
  records: OutgoingRecord | readonly OutgoingRecord[],
): records is readonly OutgoingRecord[] {
  return Array.isArray(records);
}

function recordViolation(record: OutgoingRecord, limits: SizeLimits): Violation | undefined {
  const { topicBytes, propertiesSize, body, size } = record;
  const { fault } = topicOf(record.topic);
  if (fault !== undefined) return illegal(fault);
  if (record.version === 1 && topicBytes.length > TOPIC_SIZE_MAX_V1) {
    return illegal(
      `the topic has ${topicBytes.length} bytes, ` +
        `the most without autoMessageVersionOnTopicLen are ${TOPIC_SIZE_MAX_V1}`,
    );
  }
  if (propertiesSize > PROPERTIES_SIZE_MAX) {
    return {
      status: "PROPERTIES_SIZE_EXCEEDED",
      reason: `the properties have ${propertiesSize} bytes, the most are ${PROPERTIES_SIZE_MAX}`,
    };
  }
  if (!record.appendPropertyCrc && endsLikeCrc(record.propertiesText)) {
    return illegal(`the properties end in what reads as the record's own ${PROPERTY_CRC32}`);
  }
  if (body.length > limits.maxMessageSize) {
    return illegal(
      `the body has ${body.length} bytes, the most are ${limits.maxMessageSize} (maxMessageSize)`,
    );
  }
  if (size > limits.maxMessageSize + RECORD_ALLOWANCE) {
    return illegal(
      `the record has ${size} bytes, the most are ${limits.maxMessageSize + RECORD_ALLOWANCE}`,
    );
  }
  return fileViolation("the record", size, limits);
}

/** A record must fit one file, and leave room for a blank. */
function fileViolation(what: string, size: number, limits: SizeLimits): Violation | undefined {
  const most = limits.fileSize - END_FILE_MIN_BLANK_LENGTH;
  if (size <= most) return undefined;
  return illegal(`${what} has ${size} bytes, the most that fit a file are ${most}`);
}

function batchSizeViolation(
  records: readonly OutgoingRecord[],
  limits: SizeLimits,
): Violation | undefined {
  if (records.length === 0) return illegal("the batch is empty");
  let size = 0;
  let requestSize = 0;
  for (const [i, record] of records.entries()) {
    const violation = recordViolation(record, limits);
    if (violation !== undefined) {
      return { status: violation.status, reason: `message ${i} of the batch: ${violation.reason}` };
    }
    size += record.size;
    const crcSize = record.appendPropertyCrc ? PROPERTY_CRC_SIZE : 0;
    requestSize += BATCH_ITEM_SIZE_MIN + record.body.length + record.propertiesSize - crcSize;
  }
  if (requestSize > limits.maxMessageSize) {
    return illegal(
      `the batch has ${requestSize} bytes, the most are ${limits.maxMessageSize} (maxMessageSize)`,
    );
  }
  return fileViolation("the batch", size, limits);
}
