/**
 * All consume queues of a store, by topic and queue id.
 *
 * @module
 */

import { DeletedTopics } from "../checkpoint/deleted_topics.ts";
import { ConsumeQueue, type QueueContext } from "./consume_queue.ts";

export class ConsumeQueueTable {
  readonly context: QueueContext;
  /** Queues of these topics go on behind the messages that they had. */
  readonly deleted: DeletedTopics;
  readonly #topics = new Map<string, Map<number, ConsumeQueue>>();

  constructor(context: QueueContext, deleted = new DeletedTopics()) {
    this.context = context;
    this.deleted = deleted;
  }

  /** The queue, or `undefined` if there has never been one: asking makes none. */
  find(topic: string, queueId: number): ConsumeQueue | undefined {
    return this.#topics.get(topic)?.get(queueId);
  }

  /** The queue; a new one is in memory only, until its first unit is written. */
  findOrCreate(topic: string, queueId: number): ConsumeQueue {
    let queues = this.#topics.get(topic);
    if (!queues) {
      queues = new Map();
      this.#topics.set(topic, queues);
    }
    let queue = queues.get(queueId);
    if (!queue) {
      queue = new ConsumeQueue(this.context, topic, queueId);
      queue.nextOffset = this.deleted.nextOf(topic, queueId);
      queues.set(queueId, queue);
    }
    return queue;
  }

  add(queue: ConsumeQueue): void {
    let queues = this.#topics.get(queue.topic);
    if (!queues) {
      queues = new Map();
      this.#topics.set(queue.topic, queues);
    }
    queues.set(queue.queueId, queue);
  }

  delete(queue: ConsumeQueue): void {
    const queues = this.#topics.get(queue.topic);
    queues?.delete(queue.queueId);
    if (queues?.size === 0) this.#topics.delete(queue.topic);
  }

  /** Takes all queues of a topic out. */
  deleteTopic(topic: string): void {
    this.#topics.delete(topic);
  }

  /** How many topics begin with `prefix`. */
  countTopics(prefix: string): number {
    let count = 0;
    for (const topic of this.#topics.keys()) if (topic.startsWith(prefix)) count++;
    return count;
  }

  topics(): IterableIterator<string> {
    return this.#topics.keys();
  }

  /** The queues of a topic. */
  of(topic: string): ConsumeQueue[] {
    return [...(this.#topics.get(topic)?.values() ?? [])];
  }

  queueIds(topic: string): number[] {
    return [...(this.#topics.get(topic)?.keys() ?? [])].sort((a, b) => a - b);
  }

  *[Symbol.iterator](): Generator<ConsumeQueue> {
    for (const queues of this.#topics.values()) yield* queues.values();
  }
}
