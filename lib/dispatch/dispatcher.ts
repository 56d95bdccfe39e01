/**
 * From visible bytes to the queues and the index. RocketMQ: `ReputMessageService`.
 *
 * What an append just encoded is not read again: the log notes each record here, in order, and when
 * the visible offset passes it, it gets its queue unit and its readers are woken. Nothing is
 * skipped: a record that can't be dispatched stops everything behind it, and says so.
 *
 * @module
 */

import type { DeletedTopics } from "../checkpoint/deleted_topics.ts";
import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import { appendRecord } from "../consume_queue/message_queue.ts";
import { StoreError } from "../errors.ts";
import { Fifo } from "../io/fifo.ts";
import type { DispatchRequest, QueueRequest } from "../message/dispatch_request.ts";
import { takesQueueOffset } from "../message/sys_flag.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

/** The newest record that is in its queue. */
export interface Dispatched {
  /** Where it starts. */
  readonly offset: PhysicalOffset;
  /** Where it ends. */
  readonly end: PhysicalOffset;
  readonly storeTimestamp: number;
}

export interface DispatcherContext {
  readonly queues: ConsumeQueueTable;
  /** Light queues are built (`enableMultiDispatch`). */
  readonly multiDispatch: boolean;
  /** The record is in its queues, and comes next in the index. */
  readonly dispatched?: (request: DispatchRequest) => void;
  /** The record is message `offset` of that queue, and readable. */
  readonly arrived: (
    topic: string,
    queueId: number,
    offset: QueueOffset,
    request: DispatchRequest,
  ) => void;
  /** A queue begins with another message than its first. */
  readonly begun?: () => void;
  /** Dispatch has stopped for good. */
  readonly failed: (error: StoreError) => void;
}

export class Dispatcher {
  readonly #context: DispatcherContext;
  readonly #pending = new Fifo<DispatchRequest>();
  /** Of the newest record that is in its queue. */
  #offset: PhysicalOffset;
  #end: PhysicalOffset;
  #storeTimestamp: number;
  #failure: StoreError | undefined;

  /** @param last The newest record that recovery found in its queue. */
  constructor(context: DispatcherContext, last: Dispatched) {
    this.#context = context;
    this.#offset = last.offset;
    this.#end = last.end;
    this.#storeTimestamp = last.storeTimestamp;
  }

  /** The newest record that is in its queue. */
  get last(): Dispatched {
    return { offset: this.#offset, end: this.#end, storeTimestamp: this.#storeTimestamp };
  }

  /** Where it ends: the log is readable below. */
  get end(): PhysicalOffset {
    return this.#end;
  }

  get failure(): StoreError | undefined {
    return this.#failure;
  }

  /** Notes a record; it waits until it is visible. */
  note(request: DispatchRequest): void {
    this.#pending.push(request);
  }

  /** Dispatches every noted record that ends at `visible` or before it. */
  advance(visible: PhysicalOffset): void {
    while (!this.#failure) {
      const request = this.#pending.first;
      if (!request) break;
      const end = request.physicalOffset + request.size;
      if (end > visible) break;
      // Nearly every record goes to one queue: nothing is allocated for it.
      const { queues, multiDispatch } = this.#context;
      const entries = unusualQueuesOf(request, multiDispatch, queues.deleted);
      if (!(entries ? this.#appendAll(request, entries) : this.#appendOwn(request))) return;
      this.#pending.shift();
      this.#offset = request.physicalOffset;
      this.#end = end;
      this.#storeTimestamp = request.storeTimestamp;
      const { arrived, dispatched } = this.#context;
      dispatched?.(request);
      // Only now: whoever hears of it may read it at once.
      if (entries) {
        for (const [topic, queueId, offset] of entries) arrived(topic, queueId, offset, request);
      } else if (takesQueueOffset(request.sysFlag)) {
        arrived(request.topic, request.queueId, request.queueOffset, request);
      }
    }
  }

  #appendOwn(request: DispatchRequest): boolean {
    if (!takesQueueOffset(request.sysFlag)) return true;
    return this.#append(request, request.topic, request.queueId, request.queueOffset);
  }

  #appendAll(request: DispatchRequest, entries: ReturnType<typeof queuesOf>): boolean {
    return entries.every(([topic, queueId, offset]) =>
      this.#append(request, topic, queueId, offset),
    );
  }

  /** Gives a record its unit in one queue; one that has it already gets none. */
  #append(request: DispatchRequest, topic: string, queueId: number, offset: QueueOffset): boolean {
    const { physicalOffset } = request;
    const { queues, begun } = this.#context;
    const queue = queues.findOrCreate(topic, queueId);
    if (!queue.exists && offset > 0 && queue.max === 0) {
      // More may have been put to it already.
      const { nextOffset } = queue;
      queue.startAt(offset);
      queue.nextOffset = Math.max(nextOffset, offset);
      begun?.();
    }
    if (appendRecord(queue, offset, request) !== "gap") return true;
    this.#failure = new StoreError(
      "STORE_QUEUE_DAMAGED",
      `Cannot dispatch the record at ${physicalOffset} as message ${offset} of queue ${topic}/${queueId}: the queue ends at ${queue.max}`,
      { offset: physicalOffset },
    );
    this.#context.failed(this.#failure);
    return false;
  }
}

/** The queues that a record goes to, with its offset in each. */
export function queuesOf(
  request: QueueRequest,
  multiDispatch: boolean,
): [topic: string, queueId: number, offset: number][] {
  const queues: [string, number, number][] = [];
  if (takesQueueOffset(request.sysFlag)) {
    queues.push([request.topic, request.queueId, request.queueOffset]);
    if (multiDispatch && request.multiDispatch) {
      const { queues: names, offsets } = request.multiDispatch;
      names.forEach((name, i) => {
        // A path separator in a name would lead out of the folder; RocketMQ skips such a name.
        if (!name.includes("/")) queues.push([name, 0, offsets[i] as number]);
      });
    }
  }
  return queues;
}

/** The same, without those of topics that were deleted behind the record. */
export function liveQueuesOf(
  request: QueueRequest,
  multiDispatch: boolean,
  deleted: DeletedTopics,
): ReturnType<typeof queuesOf> {
  return queuesOf(request, multiDispatch).filter(
    ([topic]) => !deleted.covers(topic, request.physicalOffset),
  );
}

/**
 * The same of a record that goes to other queues than its own, or to none since its topic was deleted;
 * `undefined` for all others, which are nearly all: nothing is allocated for them.
 */
export function unusualQueuesOf(
  request: QueueRequest,
  multiDispatch: boolean,
  deleted: DeletedTopics,
): ReturnType<typeof queuesOf> | undefined {
  const isMulti = request.multiDispatch !== undefined && multiDispatch;
  if (!isMulti && !deleted.covers(request.topic, request.physicalOffset)) return undefined;
  return liveQueuesOf(request, multiDispatch, deleted);
}
