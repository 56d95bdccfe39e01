/**
 * Finds messages of a queue by the time at which they were stored. RocketMQ:
 * `ConsumeQueue.getOffsetInQueueByTime`.
 *
 *     store time    100 100 100 200 200        asked for 100    150    250
 *     offset          0   1   2   3   4        lower       0      3      5
 *                                              upper       2      2      4
 *
 * Store times rise with the offsets, so a binary search over the units needs few of them; each costs
 * a read of the head of its record. (RocketMQ's clock may go back: in a log of its own the answer is
 * then one of those that fit.) The messages of one record were stored together: asked for one of them, the first is the answer.
 * Units that lead to no message, since it is lost or its file is gone,
 * have no time: the next message behind them stands for them.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import { BatchQueue } from "../consume_queue/batch_queue.ts";
import { batchBase, batchMessages } from "../consume_queue/batch_unit.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import { isFiller, isUnit, unitOffset } from "../consume_queue/queue_unit.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

/** `"lower"`: the first message stored then or later; `"upper"`: the last one stored then or before. */
export type TimeBoundary = "lower" | "upper";

export interface TimeRequest {
  readonly topic: string;
  /** @default 0 */
  readonly queueId?: number;
  /** Unix time in ms. */
  readonly timestamp: number;
  /** @default "lower" */
  readonly boundary?: TimeBoundary;
}

/** Units read at once: 4 KiB. */
const PAGE_UNITS = 200;

interface TimeSearchContext {
  readonly log: CommitLog;
  /** Nothing at or behind this offset is readable yet. */
  readonly visible: () => PhysicalOffset;
}

/** A message, or those that one record holds, and the store time. */
interface Timed {
  readonly offset: QueueOffset;
  /** Behind the last of them. */
  readonly end: QueueOffset;
  readonly time: number;
}

export class TimeSearch {
  readonly #context: TimeSearchContext;

  constructor(context: TimeSearchContext) {
    this.#context = context;
  }

  /**
   * @returns A queue offset from `min` to `max`: for a time before all messages `min`; for one after
   *   them `max` (`"lower"`) or the last message (`"upper"`).
   * @throws {StoreError} `STORE_IO`.
   */
  async offsetByTime(
    queue: MessageQueue,
    timestamp: number,
    boundary: TimeBoundary,
  ): Promise<QueueOffset> {
    const { min, max } = queue;
    let low = min;
    let high = max;
    let left = min;
    let right = max;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const found = await this.#firstTimed(queue, middle, high);
      const isLeft =
        found && (boundary === "lower" ? found.time < timestamp : found.time <= timestamp);
      if (isLeft) {
        left = found.offset;
        low = found.end;
      } else {
        right = found?.offset ?? right;
        high = middle;
      }
    }
    // Files may have been deleted meanwhile.
    return Math.max(boundary === "lower" ? right : left, queue.min);
  }

  /** Store time of message `offset`, in ms; `undefined` if there is no such message. */
  async timeOf(queue: MessageQueue, offset: QueueOffset): Promise<number | undefined> {
    const found = await this.#firstTimed(queue, offset, offset + 1);
    return found?.time;
  }

  /** Store time of the first message of the log; `undefined` if there is none. */
  async earliest(): Promise<number | undefined> {
    const { minOffset } = this.#context.log.segments;
    return minOffset === undefined ? undefined : this.#timeAt(minOffset);
  }

  /** The first message from `from` on, and before `end`, that tells its time. */
  async #firstTimed(
    queue: MessageQueue,
    from: QueueOffset,
    end: QueueOffset,
  ): Promise<Timed | undefined> {
    for (let offset = from; offset < end; ) {
      offset = queue.heldFrom(Math.max(offset, queue.min));
      if (offset >= end) return undefined;
      const units = await queue.unitsAsTheyAre(offset, Math.min(PAGE_UNITS, end - offset));
      // Its file was deleted just now: the next round begins behind it.
      if (units.length === 0 && offset >= queue.min) return undefined;
      const isBatch = queue instanceof BatchQueue;
      let next = offset;
      for (let at = 0; at < units.length; at += queue.unitBytes) {
        const isWhole = isBatch ? queue.isUnitAt(units, at, next) : isUnit(units, at);
        const first = isBatch && isWhole ? batchBase(units, at) : next;
        next = first + (isBatch && isWhole ? batchMessages(units, at) : 1);
        if (first >= end) return undefined;
        if (!isWhole || isFiller(units, at)) continue;
        const time = await this.#timeAt(unitOffset(units, at));
        if (time !== undefined) return { offset: first, end: next, time };
      }
      offset = next;
    }
    return undefined;
  }

  #timeAt(offset: PhysicalOffset): Promise<number | undefined> {
    return this.#context.log.storeTimeAt(offset, this.#context.visible());
  }
}
