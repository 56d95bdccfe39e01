/**
 * Gives the records of the log their places in the queues, while the log is read in its order.
 *
 * A record says its place itself, but nothing protects that: only a record with a CRC of its own is
 * checked as a whole. So one that does not come next in its queue waits until the next record of the
 * queue agrees with it or not:
 *
 *     in the log      5  6  7  8          5  6  70 8  9         5  8  9
 *     in the queue    5  6  7  8          5  6  -  8  9         5  -  -  8  9
 *                                         70 is not believed    6 and 7 are lost
 *
 * The place of a lost message stays: those of others must not move. It needs a unit, and what a
 * RocketMQ broker makes of that if it serves the store later is to be minded. Where a unit leads
 * nowhere, the broker takes the whole file that it points into for gone, and passes over all other
 * messages in there. So
 *
 * - if a file of the log begins between the lost message and the next one, the unit points to the
 *   last byte of the file before it, and the broker goes on at the next message;
 * - else the unit leads to the next message, which the broker delivers once more (not to those who
 *   want certain tags: the unit's tags code is no tag's, but in a queue of delayed messages, where it is
 *   the time of delivery).
 *
 * @module
 */

import { BatchQueue } from "../consume_queue/batch_queue.ts";
import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import { appendRecord, type MessageQueue } from "../consume_queue/message_queue.ts";
import { LOST_TAGS_CODE, lostUnit } from "../consume_queue/queue_unit.ts";
import { liveQueuesOf, unusualQueuesOf } from "../dispatch/dispatcher.ts";
import type { QueueRequest } from "../message/dispatch_request.ts";
import { isInnerBatch } from "../message/inner_batch.ts";
import { INNER_BATCH_MAX } from "../message/outgoing_record.ts";
import { SCHEDULE_TOPIC } from "../message/property_names.ts";
import { RECORD_SIZE_MIN } from "../message/record_layout.ts";
import { takesQueueOffset } from "../message/sys_flag.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

export interface QueueAssemblyContext {
  readonly queues: ConsumeQueueTable;
  readonly multiDispatch: boolean;
  /** Start of the log, and the size of its files. */
  readonly logMin: PhysicalOffset;
  readonly logFileSize: number;
  /**
   * What is known of the units that the queues have already. `"complete"`: they are those of all
   * records, or nearly. `"vouched"`: those of all records below `unitsEnd`. `"unvouched"`: the same, if
   * no file of a queue was lost. `"none"`: the first record that is added is that of the log.
   */
  readonly units: "complete" | "vouched" | "unvouched" | "none";
  readonly unitsEnd: PhysicalOffset;
  /** Queues that are to be rebuilt from the whole log; those that turn out to need it join them. */
  readonly suspects: Set<MessageQueue>;
  /** Whether a queue is to be assembled. */
  readonly wanted: (queue: MessageQueue) => boolean;
}

/** A place that a record claims in a queue. */
interface Claim {
  readonly offset: QueueOffset;
  readonly request: QueueRequest;
}

/** With nothing to explain it, so many messages of a queue may be missing before its last one. */
const UNEXPLAINED_MAX = 100;
/** Units in memory: of all queues, */
const UNWRITTEN_MAX = 1_000_000;
/** and of each, more or less. Memory of a queue that grows on is copied: all of them would hold up a turn. */
const UNWRITTEN_PER_QUEUE_MAX = 16_384;

export class QueueAssembly {
  /** Records whose claim was not believed. */
  readonly misplaced = new Set<PhysicalOffset>();
  readonly #context: QueueAssemblyContext;
  #unwritten = 0;
  #unwrittenMax: number;
  /** Claims that wait for the next record of their queue. */
  readonly #waiting = new Map<MessageQueue, Claim>();
  /** Queues that were given a unit, where units are `"unvouched"`. */
  readonly #met = new Set<MessageQueue>();
  /** Bytes so far that may have been messages of any queue. */
  #missingBytes = 0;

  constructor(context: QueueAssemblyContext) {
    this.#context = context;
    this.#unwrittenMax = unwrittenMaxOf(context.queues);
  }

  /** Whether the units that were put together should be written before there are more. */
  get isFull(): boolean {
    return this.#unwritten >= this.#unwrittenMax;
  }

  /** All of them have been written. */
  written(): void {
    this.#unwritten = 0;
    this.#unwrittenMax = unwrittenMaxOf(this.#context.queues);
  }

  /** Where a record goes, with its offset in each queue. It goes to none that was deleted behind it. */
  queuesOf(request: QueueRequest): ReturnType<typeof liveQueuesOf> {
    const { multiDispatch, queues } = this.#context;
    return liveQueuesOf(request, multiDispatch, queues.deleted);
  }

  /** Takes the next record of the log. The request may change afterwards. */
  add(request: QueueRequest): void {
    const { queues, units, unitsEnd, multiDispatch } = this.#context;
    const { topic, queueId, queueOffset, physicalOffset, sysFlag } = request;
    if (units === "vouched" && physicalOffset < unitsEnd) return;
    const entries = unusualQueuesOf(request, multiDispatch, queues.deleted);
    if (!entries) {
      if (takesQueueOffset(sysFlag)) this.#addTo(topic, queueId, queueOffset, request);
      return;
    }
    for (const [name, id, offset] of entries) this.#addTo(name, id, offset, request);
  }

  #addTo(topic: string, queueId: number, offset: QueueOffset, request: QueueRequest): void {
    const { queues, units, wanted } = this.#context;
    // An inner batch is in batch queues only.
    const unsaid = isInnerBatch(request.sysFlag) ? "BatchCQ" : "SimpleCQ";
    const queue = queues.findOrCreate(topic, queueId, unsaid);
    if (!wanted(queue)) return;
    const next = queues.deleted.nextOf(topic, queueId);
    if (next > 0 && !queue.exists && offset >= next) queue.startAt(next);
    if (units === "complete") this.#confirm(queue, offset, request);
    else if (offset === queue.max && this.#waiting.size === 0) this.#append(queue, request);
    else this.#claim(queue, { offset, request: { ...request } });
  }

  /** The next bytes of the log are no record, but may have been some. */
  missed(bytes: number): void {
    this.#missingBytes += bytes;
  }

  /** Decides about what still waits: there are no more records. */
  finish(): void {
    for (const [queue, claim] of this.#waiting) {
      const missing = claim.offset - queue.max;
      const isLikely =
        missing <= Math.max(this.#missingMax * mostIn(queue), UNEXPLAINED_MAX) &&
        !isBehind(queue, claim);
      if (queue.max === 0 || isLikely) this.#believe(queue, claim);
      else this.#disbelieve(claim);
    }
    this.#waiting.clear();
  }

  /** No more records can be missing. */
  get #missingMax(): number {
    return Math.floor(this.#missingBytes / RECORD_SIZE_MIN);
  }

  #confirm(queue: MessageQueue, offset: QueueOffset, request: QueueRequest): void {
    if (offset < queue.min) {
      // The file that held its unit is gone.
      this.#context.suspects.add(queue);
      return;
    }
    // A record before the queue's last one has its unit, whatever it says.
    if (request.physicalOffset < queue.maxPhysicalOffset || offset < queue.max) return;
    if (offset > queue.max) this.#context.suspects.add(queue);
    else this.#append(queue, request);
  }

  #claim(queue: MessageQueue, claim: Claim): void {
    const { offset, request } = claim;
    const waiting = this.#waiting.get(queue);
    if (offset < queue.max) {
      this.#disbelieve(claim);
    } else if (offset === queue.max && waiting?.offset !== offset) {
      // One that waits for a higher place may be right all the same, but not against two.
      if (waiting && isBehind(queue, waiting)) this.#drop(queue, waiting);
      this.#append(queue, request);
    } else if (!waiting) {
      this.#wait(queue, claim);
    } else if (offset > waiting.offset) {
      this.#believe(queue, waiting);
      this.#claim(queue, claim);
    } else {
      this.#drop(queue, waiting);
      this.#claim(queue, claim);
    }
  }

  #wait(queue: MessageQueue, claim: Claim): void {
    // What is missing may lie in the log before the first record that was added.
    const isUnvouched = this.#context.units === "unvouched" && !this.#met.has(queue);
    if (isUnvouched) this.#context.suspects.add(queue);
    else this.#waiting.set(queue, claim);
  }

  /** Gives a claim its place: messages between it and the end of the queue are lost. */
  #believe(queue: MessageQueue, claim: Claim): void {
    this.#waiting.delete(queue);
    const { offset, request } = claim;
    const missing = offset - queue.max;
    // Never were so many messages in the log.
    const isTooMany = missing > (request.physicalOffset / RECORD_SIZE_MIN) * mostIn(queue);
    const missingMax = this.#missingMax * mostIn(queue);
    const isNew = queue.max === 0 && (this.#context.logMin > 0 || missing > missingMax);
    if (missing > 0 && isNew) {
      // Its first messages have expired.
      queue.startAt(offset);
    } else if (missing < 0 || isTooMany) {
      this.#disbelieve(claim);
      return;
    }
    if (offset > queue.max) this.#fill(queue, offset, request);
    this.#append(queue, request);
  }

  #drop(queue: MessageQueue, waiting: Claim): void {
    this.#waiting.delete(queue);
    this.#disbelieve(waiting);
  }

  #disbelieve({ request }: Claim): void {
    this.misplaced.add(request.physicalOffset);
    // The place that is its own stays empty.
    this.#missingBytes += request.size;
  }

  /** Gives the lost messages before `offset` their units. */
  #fill(queue: MessageQueue, offset: QueueOffset, next: QueueRequest): void {
    const { physicalOffset, size } = next;
    const fileStart = physicalOffset - (physicalOffset % this.#context.logFileSize);
    const isNextFile = fileStart > 0 && queue.maxPhysicalOffset <= fileStart;
    const tagsCode = queue.topic === SCHEDULE_TOPIC ? next.tagsCode : LOST_TAGS_CODE;
    const unit = isNextFile ? lostUnit(fileStart) : ([physicalOffset, size, tagsCode] as const);
    while (queue.max < offset) {
      if (queue instanceof BatchQueue) {
        const messages = Math.min(offset - queue.max, INNER_BATCH_MAX);
        queue.append(queue.max, ...unit, next.storeTimestamp, messages);
      } else {
        queue.append(queue.max, ...unit);
      }
      this.#unwritten++;
    }
  }

  #append(queue: MessageQueue, request: QueueRequest): void {
    appendRecord(queue, queue.max, request);
    if (this.#context.units === "unvouched") this.#met.add(queue);
    this.#unwritten++;
  }
}

function unwrittenMaxOf({ size }: ConsumeQueueTable): number {
  return Math.min(UNWRITTEN_PER_QUEUE_MAX * Math.max(size, 1), UNWRITTEN_MAX);
}

/** Messages that one record may be in the queue. */
function mostIn(queue: MessageQueue): number {
  return queue instanceof BatchQueue ? INNER_BATCH_MAX : 1;
}

/** Whether a later record of the log has its place already: units lie in the order of the log. */
function isBehind(queue: MessageQueue, { request }: Claim): boolean {
  return request.physicalOffset < queue.maxPhysicalOffset;
}
