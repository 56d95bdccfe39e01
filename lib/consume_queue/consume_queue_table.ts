/**
 * All consume queues of a store, by topic and queue id.
 *
 * @module
 */

import { isLightQueue } from "../message/light_queues.ts";
import type { Segment } from "../segment/segment.ts";
import { ConsumeQueue, type QueueContext } from "./consume_queue.ts";
import { type ExtensionContext, QueueExtension } from "./queue_extension.ts";

export interface TableContext extends QueueContext {
  /** Of the queues' extensions, if there are any, or if new messages get units there. */
  readonly extension?: ExtensionContext;
}

export class ConsumeQueueTable {
  readonly context: TableContext;
  readonly #topics = new Map<string, Map<number, ConsumeQueue>>();

  constructor(context: TableContext) {
    this.context = context;
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
      queue = this.queueOf(topic, queueId);
      queues.set(queueId, queue);
    }
    return queue;
  }

  /** A queue for the files of one, to be added. */
  queueOf(
    topic: string,
    queueId: number,
    segments: Segment[] = [],
    extensionSegments: Segment[] = [],
  ): ConsumeQueue {
    const { extension } = this.context;
    // Units of a light queue have plain tags codes.
    const isExtended = extensionSegments.length > 0 || (extension?.writes && !isLightQueue(topic));
    return new ConsumeQueue(
      this.context,
      topic,
      queueId,
      segments,
      extension && isExtended
        ? new QueueExtension(extension, topic, queueId, extensionSegments)
        : undefined,
    );
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

  /** How many topics begin with `prefix`. */
  countTopics(prefix: string): number {
    let count = 0;
    for (const topic of this.#topics.keys()) if (topic.startsWith(prefix)) count++;
    return count;
  }

  topics(): IterableIterator<string> {
    return this.#topics.keys();
  }

  queueIds(topic: string): number[] {
    return [...(this.#topics.get(topic)?.keys() ?? [])].sort((a, b) => a - b);
  }

  *[Symbol.iterator](): Generator<ConsumeQueue> {
    for (const queues of this.#topics.values()) yield* queues.values();
  }
}
