/**
 * All consume queues of a store, by topic and queue id.
 *
 * @module
 */

import { DeletedTopics } from "../checkpoint/deleted_topics.ts";
import { isLightQueue } from "../message/light_queues.ts";
import type { Segment } from "../segment/segment.ts";
import { BatchQueue } from "./batch_queue.ts";
import { ConsumeQueue, type QueueContext } from "./consume_queue.ts";
import type { MessageQueue } from "./message_queue.ts";
import { type ExtensionContext, QueueExtension } from "./queue_extension.ts";
import type { QueueFilesContext } from "./queue_files.ts";

export interface TableContext extends QueueContext {
  /** Of the queues' extensions, if there are any, or if new messages get units there. */
  readonly extension?: ExtensionContext;
  /** Of batch queues. */
  readonly batches?: QueueFilesContext;
  /** Of what type queues of a topic are to be that has none yet; `undefined` if nothing says it. */
  readonly queueTypeFor?: (topic: string) => MessageQueue["queueType"] | undefined;
}

export class ConsumeQueueTable {
  readonly context: TableContext;
  /** Queues of these topics go on behind the messages that they had. */
  readonly deleted: DeletedTopics;
  readonly #topics = new Map<string, Map<number, MessageQueue>>();
  /** The topic that was asked for last: the next record is of the same one as a rule. */
  #last: { readonly topic: string; readonly queues: Map<number, MessageQueue> } | undefined;

  constructor(context: TableContext, deleted = new DeletedTopics()) {
    this.context = context;
    this.deleted = deleted;
  }

  /** The queue, or `undefined` if there has never been one: asking makes none. */
  find(topic: string, queueId: number): MessageQueue | undefined {
    return this.#topics.get(topic)?.get(queueId);
  }

  /**
   * The queue; a new one is in memory only, until its first unit is written.
   *
   * @param unsaid Its type, if nothing says it.
   */
  findOrCreate(
    topic: string,
    queueId: number,
    unsaid: MessageQueue["queueType"] = "SimpleCQ",
  ): MessageQueue {
    const queues = this.#last?.topic === topic ? this.#last.queues : this.#queuesOf(topic);
    let queue = queues.get(queueId);
    if (!queue) {
      queue = this.#make(topic, queueId, unsaid);
      queue.nextOffset = this.deleted.nextOf(topic, queueId);
      queues.set(queueId, queue);
    }
    return queue;
  }

  /** Whether queues of the topic have a unit for each record, not for each message. */
  isBatch(topic: string): boolean {
    const there = this.queueTypeOf(topic);
    return (there ?? this.context.queueTypeFor?.(topic)) === "BatchCQ";
  }

  /** Of what type the topic's queues are; `undefined` if it has none. */
  queueTypeOf(topic: string): MessageQueue["queueType"] | undefined {
    for (const { queueType } of this.#topics.get(topic)?.values() ?? []) return queueType;
    return undefined;
  }

  #make(topic: string, queueId: number, unsaid: MessageQueue["queueType"]): MessageQueue {
    const type = this.queueTypeOf(topic) ?? this.context.queueTypeFor?.(topic) ?? unsaid;
    return type === "BatchCQ" ? this.batchQueue(topic, queueId) : this.queue(topic, queueId);
  }

  /** A queue with these files, to be added. */
  queue(
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

  /** A batch queue with these files, to be added. */
  batchQueue(topic: string, queueId: number, segments: Segment[] = []): BatchQueue {
    return new BatchQueue(this.context.batches ?? this.context, topic, queueId, segments);
  }

  add(queue: MessageQueue): void {
    this.#queuesOf(queue.topic).set(queue.queueId, queue);
  }

  #queuesOf(topic: string): Map<number, MessageQueue> {
    let queues = this.#topics.get(topic);
    if (!queues) {
      queues = new Map();
      this.#topics.set(topic, queues);
    }
    this.#last = { topic, queues };
    return queues;
  }

  delete(queue: MessageQueue): void {
    const queues = this.#topics.get(queue.topic);
    queues?.delete(queue.queueId);
    if (queues?.size === 0) this.deleteTopic(queue.topic);
  }

  /** Takes all queues of a topic out. */
  deleteTopic(topic: string): void {
    this.#last = undefined;
    this.#topics.delete(topic);
  }

  /** How many topics begin with `prefix`. */
  countTopics(prefix: string): number {
    let count = 0;
    for (const topic of this.#topics.keys()) if (topic.startsWith(prefix)) count++;
    return count;
  }

  /** How many queues there are. */
  get size(): number {
    let count = 0;
    for (const queues of this.#topics.values()) count += queues.size;
    return count;
  }

  topics(): IterableIterator<string> {
    return this.#topics.keys();
  }

  /** The queues of a topic. */
  of(topic: string): MessageQueue[] {
    return [...(this.#topics.get(topic)?.values() ?? [])];
  }

  queueIds(topic: string): number[] {
    return [...(this.#topics.get(topic)?.keys() ?? [])].sort((a, b) => a - b);
  }

  *[Symbol.iterator](): Generator<MessageQueue> {
    for (const queues of this.#topics.values()) yield* queues.values();
  }
}
