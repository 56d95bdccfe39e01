/**
 * Light queues (LMQ): further queues that a record enters, named by its property
 * `INNER_MULTI_DISPATCH`, with its offsets there in `INNER_MULTI_QUEUE_OFFSET`. RocketMQ:
 * `MultiDispatch`, `LmqDispatch`.
 *
 * @module
 */

import type { QueueOffset } from "../units.ts";
import type { OutgoingRecord } from "./outgoing_record.ts";
import { findProperty } from "./properties.ts";
import {
  DLQ_TOPIC_PREFIX,
  PROPERTY_INNER_MULTI_DISPATCH,
  PROPERTY_INNER_MULTI_QUEUE_OFFSET,
  RETRY_TOPIC_PREFIX,
  SCHEDULE_TOPIC,
  SYSTEM_TOPIC_PREFIX,
} from "./property_names.ts";
import { withProperty } from "./record_properties.ts";

/** How the name of a light queue begins (`MixAll.LMQ_PREFIX`). */
export const LIGHT_QUEUE_PREFIX = "%LMQ%";
/** Separates names, and offsets (`MixAll.LMQ_DISPATCH_SEPARATOR`). */
const SEPARATOR = ",";

/** The queue id of every light queue (`MixAll.LMQ_QUEUE_ID`). */
export const LIGHT_QUEUE_ID = 0;

/** Whether the topic is the name of a light queue. */
export function isLightQueue(topic: string): boolean {
  return topic.startsWith(LIGHT_QUEUE_PREFIX);
}

/** Names of the light queues that a record is to enter; none if it names none, or its topic may not. */
export function lightQueuesOf(record: OutgoingRecord): readonly string[] {
  const { propertiesText, topic } = record;
  if (!propertiesText.includes(PROPERTY_INNER_MULTI_DISPATCH)) return [];
  const barred =
    topic === SCHEDULE_TOPIC ||
    [RETRY_TOPIC_PREFIX, DLQ_TOPIC_PREFIX, SYSTEM_TOPIC_PREFIX].some((prefix) =>
      topic.startsWith(prefix),
    );
  const names = barred ? undefined : findProperty(propertiesText, PROPERTY_INNER_MULTI_DISPATCH);
  return names === undefined || names.trim() === "" ? [] : names.split(SEPARATOR);
}

/** The record with its offsets in its light queues, one for each. */
export function withLightQueueOffsets(
  record: OutgoingRecord,
  offsets: readonly QueueOffset[],
): OutgoingRecord {
  return withProperty(record, PROPERTY_INNER_MULTI_QUEUE_OFFSET, offsets.join(SEPARATOR));
}
