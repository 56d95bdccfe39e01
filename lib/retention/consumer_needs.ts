/**
 * Where in the log what consumer groups have still to read begins, by the offsets that they have
 * committed.
 *
 * An offset counts if its group has committed one for its topic lately: a group that is gone would hold
 * the log for ever.
 *
 * @module
 */

import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import { StoreError } from "../errors.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

/** How far a group has come in a queue. */
export interface Progress {
  readonly topic: string;
  readonly queueId: number;
  /** Of the next message that it wants. */
  readonly offset: QueueOffset;
}

/**
 * @param progress Of all groups that count.
 * @param warn Told of a queue that can't be read: nobody knows what is needed of it.
 * @returns `undefined` if they have read everything.
 */
export async function neededFrom(
  progress: Iterable<Progress>,
  queues: ConsumeQueueTable,
  warn: (warning: string) => void,
): Promise<PhysicalOffset | undefined> {
  let needed: PhysicalOffset | undefined;
  for (const { topic, queueId, offset } of slowest(progress)) {
    const queue = queues.find(topic, queueId);
    if (!queue || offset >= queue.max) continue;
    try {
      const place = await queue.placeFrom(offset);
      if (place !== undefined) needed = Math.min(needed ?? place, place);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      warn(`${error.message}; what consumers need of it is not kept`);
    }
  }
  return needed;
}

/** Of each queue the lowest offset. */
function slowest(progress: Iterable<Progress>): Iterable<Progress> {
  const byQueue = new Map<string, Progress>();
  for (const one of progress) {
    const key = `${one.topic}/${one.queueId}`;
    const other = byQueue.get(key);
    if (!other || one.offset < other.offset) byQueue.set(key, one);
  }
  return byQueue.values();
}
