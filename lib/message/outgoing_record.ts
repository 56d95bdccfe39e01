/**
 * A message made ready to be written, before the append's critical stretch.
 *
 * Everything that does not depend on the record's place is done here, once: text to bytes, sizes,
 * the body's CRC. What is left for {@linkcode encodeRecord} is to copy.
 *
 * @module
 */

import type { PhysicalOffset } from "../units.ts";
import { maskedCrc32 } from "./crc32.ts";
import { INT32_MAX, INT32_MIN, integerOf, parseInt32, wrongType } from "./fields.ts";
import { type EncodedHost, parseHost } from "./host.ts";
import { encodeUtf8 } from "./java_string.ts";
import type { BatchItem, Message, MessageBatch } from "./message.ts";
import {
  isWait,
  type MessageProperties,
  propertiesOfItem,
  propertiesOfMessage,
  waitText,
} from "./message_properties.ts";
import { findProperty } from "./properties.ts";
import { PROPERTY_CRC_SIZE } from "./property_crc.ts";
import {
  PROPERTY_INNER_NUM,
  PROPERTY_SEPARATOR,
  PROPERTY_WAIT_STORE_MSG_OK,
  SCHEDULE_TOPIC,
} from "./property_names.ts";
import { type RecordVersion, recordSize, TOPIC_SIZE_MAX_V1 } from "./record_layout.ts";
import { BORN_HOST_V6_FLAG, INNER_BATCH_FLAG, STORE_HOST_V6_FLAG } from "./sys_flag.ts";
import { tagsCodeOf } from "./tags_code.ts";
import { type Topic, topicOf } from "./topic.ts";

/** Messages that an inner batch may have: a unit of its queue tells them in an i16. */
export const INNER_BATCH_MAX = 32_767;

/** A record but for its place: QUEUEOFFSET, PHYSICALOFFSET and STORETIMESTAMP are not known yet. */
export interface OutgoingRecord {
  /** The topic as a reader will see it. */
  readonly topic: string;
  /** The topic in UTF-8. Shared among records: do not change it. */
  readonly topicBytes: Uint8Array;
  readonly version: RecordVersion;
  readonly queueId: number;
  readonly flag: number;
  /** With the IPv6 bits as the hosts are. */
  readonly sysFlag: number;
  /** Unix time in milliseconds. */
  readonly bornTimestamp: number;
  readonly bornHost: EncodedHost;
  readonly storeHost: EncodedHost;
  readonly reconsumeTimes: number;
  readonly preparedTransactionOffset: PhysicalOffset;
  /** The caller's own bytes, not a copy. */
  readonly body: Uint8Array;
  /** Masked CRC-32 of the body. */
  readonly bodyCrc: number;
  /**
   * The properties as a reader will see them, without the CRC property; if that follows, ended
   * by `02`.
   */
  readonly propertiesText: string;
  /** The same in UTF-8; `undefined` if the text is ASCII and can be written as it is. */
  readonly propertiesBytes: Uint8Array | undefined;
  /** PROPERTIESLENGTH in bytes, the CRC property included. May be too large: see the rules. */
  readonly propertiesSize: number;
  /** Whether the record ends in the property of `property_crc.ts`. */
  readonly appendPropertyCrc: boolean;
  /** TOTALSIZE in bytes. */
  readonly size: number;
  /** Messages in it: of an inner batch, what its property says; 0 if that is no number of messages. Else 1. */
  readonly messages: number;
  /** Whether its put waits for flush and replicas. */
  readonly wait: boolean;
  /** Property `TAGS`. */
  readonly tags: string | undefined;
  /** Hash of the tag, an int32. Not the one of the schedule topic: that needs the store time. */
  readonly tagsCode: number;
  /** In the schedule topic the level that the message waits for; else, or without one, 0. */
  readonly delayLevel: number;
  /** Property `KEYS`. */
  readonly keys: string | undefined;
  /** Property `UNIQ_KEY`. */
  readonly uniqKey: string | undefined;
}

/** What a message that does not say it gets, and how its record is to be written. */
export interface RecordDefaults {
  readonly bornHost: EncodedHost;
  readonly storeHost: EncodedHost;
  /** Default born time: Unix time in milliseconds. */
  readonly now: number;
  /** RocketMQ's `enabledAppendPropCRC`. */
  readonly appendPropertyCrc: boolean;
  /** RocketMQ's `autoMessageVersionOnTopicLen`: V2 for topics of more than 127 bytes. */
  readonly autoVersion: boolean;
}

/**
 * Makes a message ready.
 *
 * Rules are checked elsewhere (`message_rules.ts`): before it the broker's, after it those of size.
 *
 * @param message Not changed, and not kept but for its body.
 * @param defaults For what the message does not say.
 * @throws {TypeError} If a field is not of its type.
 * @throws {RangeError} If a number is out of range, or a host is not an address.
 */
export function prepareRecord(message: Message, defaults: RecordDefaults): OutgoingRecord {
  const properties = propertiesOfMessage(message);
  const { propertiesString, waitStoreMsgOK } = message;
  const wait =
    propertiesString !== undefined && waitStoreMsgOK !== undefined
      ? waitStoreMsgOK
      : isWait(properties.wait);
  const offset = safeIntegerOf(message.preparedTransactionOffset, 0, "preparedTransactionOffset");
  return makeRecord(envelopeOf(message, defaults, wait, offset), message, properties, defaults);
}

/**
 * Makes the members of a batch ready, each as a record of its own.
 *
 * @param batch Not changed, and not kept but for the bodies.
 * @param defaults For what the batch does not say.
 * @returns One record for each member, in order.
 * @throws {TypeError} If a field is not of its type.
 * @throws {RangeError} If a number is out of range, or a host is not an address.
 */
export function prepareBatch(batch: MessageBatch, defaults: RecordDefaults): OutgoingRecord[] {
  if (!Array.isArray(batch.messages)) throw wrongType("messages", "an array", batch.messages);
  const messages: readonly BatchItem[] = batch.messages;
  const wait = isWait(
    batch.properties?.[PROPERTY_WAIT_STORE_MSG_OK] ?? waitText(batch.waitStoreMsgOK),
  );
  const envelope = envelopeOf(batch, defaults, wait, 0);
  return messages.map((item) => makeRecord(envelope, item, propertiesOfItem(item), defaults));
}

/** What all records of one call have in common. */
interface Envelope {
  readonly topic: Topic;
  readonly queueId: number;
  readonly sysFlag: number;
  readonly bornTimestamp: number;
  readonly bornHost: EncodedHost;
  readonly storeHost: EncodedHost;
  readonly reconsumeTimes: number;
  readonly preparedTransactionOffset: number;
  readonly wait: boolean;
}

function envelopeOf(
  request: Message | MessageBatch,
  defaults: RecordDefaults,
  wait: boolean,
  preparedTransactionOffset: number,
): Envelope {
  const bornHost = request.bornHost === undefined ? defaults.bornHost : parseHost(request.bornHost);
  const storeHost =
    request.storeHost === undefined ? defaults.storeHost : parseHost(request.storeHost);
  return {
    topic: topicOf(request.topic),
    queueId: integerOf(request.queueId, 0, "queueId", 0, INT32_MAX),
    sysFlag: withHostBits(int32Of(request.sysFlag, "sysFlag"), bornHost, storeHost),
    bornTimestamp: safeIntegerOf(request.bornTimestamp, defaults.now, "bornTimestamp"),
    bornHost,
    storeHost,
    reconsumeTimes: integerOf(request.reconsumeTimes, 0, "reconsumeTimes", 0, INT32_MAX),
    preparedTransactionOffset,
    wait,
  };
}

/** Messages of an inner batch; without the property 1, and 0 for what is no number of messages. */
function innerBatchSize(propertiesText: string): number {
  const text = findProperty(propertiesText, PROPERTY_INNER_NUM);
  if (text === undefined) return 1;
  const size = parseInt32(text) ?? 0;
  return size >= 1 && size <= INNER_BATCH_MAX ? size : 0;
}

function int32Of(value: number | undefined, name: string): number {
  return integerOf(value, 0, name, INT32_MIN, INT32_MAX);
}

function safeIntegerOf(value: number | undefined, otherwise: number, name: string): number {
  return integerOf(value, otherwise, name, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
}

/** Sets and clears the IPv6 bits: a record whose bits differ from its hosts cannot be read. */
function withHostBits(sysFlag: number, bornHost: EncodedHost, storeHost: EncodedHost): number {
  return (
    (sysFlag & ~(BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG)) |
    (bornHost.v6 ? BORN_HOST_V6_FLAG : 0) |
    (storeHost.v6 ? STORE_HOST_V6_FLAG : 0)
  );
}

function makeRecord(
  envelope: Envelope,
  item: BatchItem,
  properties: MessageProperties,
  defaults: RecordDefaults,
): OutgoingRecord {
  const { topic, sysFlag } = envelope;
  const { body } = item;
  if (!(body instanceof Uint8Array)) throw wrongType("body", "a Uint8Array", body);
  const version = defaults.autoVersion && topic.bytes.length > TOPIC_SIZE_MAX_V1 ? 2 : 1;
  const appendPropertyCrc = defaults.appendPropertyCrc;
  let { text } = properties;
  if (appendPropertyCrc && text !== "" && !text.endsWith(PROPERTY_SEPARATOR)) {
    text += PROPERTY_SEPARATOR;
  }
  const propertiesBytes = properties.ascii ? undefined : encodeUtf8(text);
  const propertiesSize =
    (propertiesBytes ?? text).length + (appendPropertyCrc ? PROPERTY_CRC_SIZE : 0);
  return {
    topic: topic.text,
    topicBytes: topic.bytes,
    version,
    queueId: envelope.queueId,
    flag: int32Of(item.flag, "flag"),
    sysFlag,
    bornTimestamp: envelope.bornTimestamp,
    bornHost: envelope.bornHost,
    storeHost: envelope.storeHost,
    reconsumeTimes: envelope.reconsumeTimes,
    preparedTransactionOffset: envelope.preparedTransactionOffset,
    body,
    bodyCrc: body.length === 0 ? 0 : maskedCrc32(body),
    propertiesText: text,
    propertiesBytes,
    propertiesSize,
    appendPropertyCrc,
    size: recordSize(version, sysFlag, body.length, topic.bytes.length, propertiesSize),
    messages: (sysFlag & INNER_BATCH_FLAG) === 0 ? 1 : innerBatchSize(text),
    wait: envelope.wait,
    tags: properties.tags,
    tagsCode: tagsCodeOf(properties.tags),
    delayLevel: topic.text === SCHEDULE_TOPIC ? (parseInt32(properties.delay ?? "") ?? 0) : 0,
    keys: properties.keys,
    uniqKey: properties.uniqKey,
  };
}
