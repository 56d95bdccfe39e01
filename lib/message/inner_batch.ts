/**
 * Inner batches: many messages in the body of one record, for topics with `queue.type=BatchCQ`. The record
 * has bits 6 and 7 of SYSFLAG, the number of messages in its property `INNER_NUM` and the queue offset of
 * the first one in `INNER_BASE`. RocketMQ: `SendMessageProcessor.sendBatchMessage`, `BatchConsumeQueue`.
 *
 * @module
 */

import type { QueueOffset } from "../units.ts";
import { decodeBatchBody, encodeBatchBody } from "./batch.ts";
import type { BatchItem, Message, MessageBatch } from "./message.ts";
import type { OutgoingRecord } from "./outgoing_record.ts";
import { parseProperties } from "./properties.ts";
import {
  PROPERTY_INNER_BASE,
  PROPERTY_INNER_NUM,
  PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
} from "./property_names.ts";
import { withProperty } from "./record_properties.ts";
import type { StoredMessage } from "./stored_message.ts";
import { COMPRESSED_FLAG, INNER_BATCH_FLAG, NEED_UNWRAP_FLAG } from "./sys_flag.ts";

/** One of the messages in an inner batch. */
export interface InnerMessage extends Required<Pick<BatchItem, "body" | "flag">> {
  readonly queueOffset: QueueOffset;
  readonly properties: ReadonlyMap<string, string>;
}

export function isInnerBatch(sysFlag: number): boolean {
  return (sysFlag & INNER_BATCH_FLAG) !== 0;
}

/** Whether a client's batch becomes an inner one on a topic of batch queues: one with a unique key does. */
export function wantsInnerBatch({ properties }: MessageBatch): boolean {
  const uniqKey = properties?.[PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX];
  return uniqKey !== undefined && uniqKey !== "";
}

/**
 * The one message that a batch becomes.
 *
 * @throws As {@linkcode encodeBatchBody}.
 */
export function innerBatchOf({ messages, properties, ...envelope }: MessageBatch): Message {
  return {
    ...envelope,
    sysFlag: (envelope.sysFlag ?? 0) | INNER_BATCH_FLAG | NEED_UNWRAP_FLAG,
    body: encodeBatchBody(messages),
    properties: { ...properties, [PROPERTY_INNER_NUM]: String(messages.length) },
  };
}

/** The record with the queue offset of its first message. */
export function withInnerBase(record: OutgoingRecord, base: QueueOffset): OutgoingRecord {
  return withProperty(record, PROPERTY_INNER_BASE, String(base));
}

/**
 * The messages of an inner batch, as its consumer unpacks them.
 *
 * @returns `undefined` if the message is none. Bodies are views.
 * @throws {RangeError} if its body is no row of messages, or is compressed: see `sysFlag`.
 */
export function innerMessagesOf(message: StoredMessage): InnerMessage[] | undefined {
  const { sysFlag, queueOffset, body } = message;
  if (!isInnerBatch(sysFlag)) return undefined;
  if ((sysFlag & COMPRESSED_FLAG) !== 0) {
    throw new RangeError(`Cannot unpack the inner batch at ${message.physicalOffset}: compressed`);
  }
  return decodeBatchBody(body).map((item, i) => ({
    queueOffset: queueOffset + i,
    body: item.body,
    flag: item.flag ?? 0,
    properties: parseProperties(item.propertiesString ?? ""),
  }));
}
