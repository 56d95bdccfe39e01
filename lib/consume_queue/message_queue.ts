/**
 * A queue of messages, of either kind: most have a unit for each message, those of topics with
 * `queue.type=BatchCQ` one for each record, which may hold many.
 *
 * @module
 */

import type { QueueRequest } from "../message/dispatch_request.ts";
import { isInnerBatch } from "../message/inner_batch.ts";
import { INNER_BATCH_MAX } from "../message/outgoing_record.ts";
import type { QueueOffset } from "../units.ts";
import type { BatchQueue } from "./batch_queue.ts";
import type { ConsumeQueue } from "./consume_queue.ts";

export type MessageQueue = ConsumeQueue | BatchQueue;

/** How many messages of the queue a record is: 1 if it says a number that it cannot be. */
export function messagesIn(
  queue: MessageQueue,
  { sysFlag, batchSize }: Pick<QueueRequest, "sysFlag" | "batchSize">,
): number {
  if (queue.queueType !== "BatchCQ" || !isInnerBatch(sysFlag)) return 1;
  return batchSize >= 1 && batchSize <= INNER_BATCH_MAX ? batchSize : 1;
}

/** Appends the unit of a record, as message `offset` of the queue. */
export function appendRecord(
  queue: MessageQueue,
  offset: QueueOffset,
  request: QueueRequest,
): "appended" | "known" | "gap" {
  const { physicalOffset, size, tagsCode, storeTimestamp } = request;
  if (queue.queueType !== "BatchCQ") {
    return queue.append(offset, physicalOffset, size, tagsCode, storeTimestamp);
  }
  const messages = messagesIn(queue, request);
  return queue.append(offset, physicalOffset, size, tagsCode, storeTimestamp, messages);
}
