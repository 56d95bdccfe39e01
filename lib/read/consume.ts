/**
 * The messages of a queue as an async iterator.
 *
 * @module
 */

import type { StoredMessage } from "../message/record.ts";
import type { QueueOffset } from "../units.ts";
import type { GetRequest, GetResult } from "./message_reader.ts";

export interface ConsumeRequest {
  readonly topic: string;
  /** @default 0 */
  readonly queueId?: number;
  /** Where to begin: a queue offset, the first message there is, or the next one put. @default "earliest" */
  readonly from?: QueueOffset | "earliest" | "latest";
  /** Tags: `"TagA || TagB"`; all without one. */
  readonly filter?: string;
  /** The consumer group, for statistics. */
  readonly group?: string;
  /** Ends the iteration by throwing its reason. */
  readonly signal?: AbortSignal;
}

/** What the iterator needs of its store. */
export interface ConsumeSource {
  readonly get: (request: GetRequest) => Promise<GetResult>;
  /** Ends of the queue: its first message and one past its last. */
  readonly bounds: (topic: string, queueId: number) => { min: QueueOffset; max: QueueOffset };
  readonly arrival: (topic: string, queueId: number, signal?: AbortSignal) => Promise<void>;
  readonly closed: () => boolean;
}

/**
 * Yields the messages from `from` on, and waits for more. It follows the store's own answers: an
 * offset outside the queue goes on where RocketMQ would send the consumer. Ends when the store
 * closes.
 *
 * @throws The signal's reason once it aborts; what `get` throws.
 */
export async function* consume(
  request: ConsumeRequest,
  source: ConsumeSource,
): AsyncGenerator<StoredMessage, void, void> {
  const { topic, queueId = 0, from = "earliest", filter, group, signal } = request;
  signal?.throwIfAborted();
  const bounds = source.bounds(topic, queueId);
  let offset = from === "earliest" ? bounds.min : from === "latest" ? bounds.max : from;
  while (!source.closed()) {
    const arrival = source.bounds(topic, queueId).max;
    const result = await source.get({
      topic,
      queueId,
      offset,
      ...(filter === undefined ? {} : { filter }),
      ...(group === undefined ? {} : { group }),
    });
    signal?.throwIfAborted();
    for (const message of result.messages) {
      yield message;
      signal?.throwIfAborted();
    }
    const stuck = result.messages.length === 0 && result.nextBeginOffset === offset;
    offset = result.nextBeginOffset;
    // Nothing there, and nothing has come while we looked.
    if ((stuck || isEmpty(result)) && source.bounds(topic, queueId).max === arrival) {
      if (source.closed()) return;
      await source.arrival(topic, queueId, signal);
      signal?.throwIfAborted();
    }
  }
}

function isEmpty({ status }: GetResult): boolean {
  return (
    status === "NO_MATCHED_LOGIC_QUEUE" ||
    status === "NO_MESSAGE_IN_QUEUE" ||
    status === "OFFSET_OVERFLOW_ONE"
  );
}
