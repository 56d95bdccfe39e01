/**
 * From visible bytes to the queues. RocketMQ: `ReputMessageService`.
 *
 * What an append just encoded is not read again: the log notes each record here, in order, and when
 * the visible offset passes it, it gets its queue unit and its readers are woken. Nothing is
 * skipped: a record that can't be dispatched stops everything behind it, and says so.
 *
 * @module
 */

import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import { StoreError } from "../errors.ts";
import type { DispatchRequest } from "../message/dispatch_request.ts";
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

/** A message that has become readable: the arguments of RocketMQ's `MessageArrivingListener`. */
export interface Arrival {
  readonly topic: string;
  readonly queueId: number;
  /** The message's queue offset + 1: the new end of its queue. */
  readonly logicOffset: QueueOffset;
  readonly tagsCode: number;
  /** Wall time in ms. */
  readonly storeTimestamp: number;
}

export interface DispatcherContext {
  readonly queues: ConsumeQueueTable;
  /** Light queues are built (`enableMultiDispatch`). */
  readonly multiDispatch: boolean;
  readonly arrived: (arrival: Arrival) => void;
  /** Dispatch has stopped for good. */
  readonly failed: (error: StoreError) => void;
}

export class Dispatcher {
  readonly #context: DispatcherContext;
  #pending: DispatchRequest[] = [];
  #head = 0;
  #last: Dispatched;
  #failure: StoreError | undefined;

  /** @param last The newest record that recovery found in its queue. */
  constructor(context: DispatcherContext, last: Dispatched) {
    this.#context = context;
    this.#last = last;
  }

  /** The newest record that is in its queue. */
  get last(): Dispatched {
    return this.#last;
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
      const request = this.#pending[this.#head];
      if (!request || request.physicalOffset + request.size > visible) break;
      const entries = queuesOf(request, this.#context.multiDispatch);
      const failure = appendUnits(request, entries, this.#context);
      if (failure) {
        this.#failure = failure;
        this.#context.failed(failure);
        return;
      }
      this.#head++;
      this.#last = {
        offset: request.physicalOffset,
        end: request.physicalOffset + request.size,
        storeTimestamp: request.storeTimestamp,
      };
      // Only now: whoever hears of it may read it at once.
      for (const [topic, queueId, offset] of entries) {
        const { tagsCode, storeTimestamp } = request;
        this.#context.arrived({
          topic,
          queueId,
          logicOffset: offset + 1,
          tagsCode,
          storeTimestamp,
        });
      }
    }
    if (this.#head === this.#pending.length) {
      this.#pending = [];
      this.#head = 0;
    } else if (this.#head > 4096) {
      this.#pending.splice(0, this.#head);
      this.#head = 0;
    }
  }
}

/** Gives one record its units; a record that has them already gets none. */
function appendUnits(
  request: DispatchRequest,
  entries: ReturnType<typeof queuesOf>,
  context: DispatcherContext,
): StoreError | undefined {
  const { tagsCode } = request;
  for (const [name, id, offset] of entries) {
    const queue = context.queues.findOrCreate(name, id);
    if (!queue.exists && offset > 0 && queue.max === 0) queue.startAt(offset);
    if (queue.append(offset, request.physicalOffset, request.size, tagsCode) === "gap") {
      return new StoreError(
        "STORE_QUEUE_DAMAGED",
        `Cannot dispatch the record at ${request.physicalOffset} as message ${offset} of queue ${name}/${id}: the queue ends at ${queue.max}`,
        { offset: request.physicalOffset },
      );
    }
  }
  return undefined;
}

/** The queues that a record goes to, with its offset in each. */
export function queuesOf(
  request: DispatchRequest,
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
