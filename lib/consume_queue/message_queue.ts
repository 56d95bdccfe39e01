/**
 * A queue of messages, of either kind: most have a unit for each message, those of topics with
 * `queue.type=BatchCQ` one for each record, which may hold many.
 *
 * @module
 */

import type { DispatchRequest } from "../message/dispatch_request.ts";
import { INNER_BATCH_FLAG } from "../message/sys_flag.ts";
import type { QueueOffset } from "../units.ts";
import { BatchQueue } from "./batch_queue.ts";
import type { ConsumeQueue } from "./consume_queue.ts";

export type MessageQueue = ConsumeQueue | BatchQueue;

/** How many messages of the queue a record is. */
export function messagesIn(
  queue: MessageQueue,
  { sysFlag, batchSize }: Pick<DispatchRequest, "sysFlag" | "batchSize">,
): number {
  return queue instanceof BatchQueue && (sysFlag & INNER_BATCH_FLAG) !== 0 ? batchSize : 1;
}

/** Appends the unit of a record, as message `offset` of the queue. */
export function appendRecord(
  queue: MessageQueue,
  offset: QueueOffset,
  request: DispatchRequest,
): "appended" | "known" | "gap" {
  const { physicalOffset, size, tagsCode, storeTimestamp } = request;
  if (!(queue instanceof BatchQueue)) {
    return queue.append(offset, physicalOffset, size, tagsCode, storeTimestamp);
  }
  const messages = messagesIn(queue, request);
  return queue.append(offset, physicalOffset, size, tagsCode, storeTimestamp, messages);
}
