/**
 * Deletes the queues of topics; their messages stay in the log until that is deleted. RocketMQ:
 * `DefaultMessageStore.deleteTopics`.
 *
 *     the log is durable → puts to the topics wait → what was deleted is written down → the files go
 *
 * The third step decides: a crash before it leaves everything, one behind it nothing. Whoever reads or
 * dispatches meanwhile finds the queues as they were, and then none. Puts wait for the third step only; no
 * queue is written until the last one has ended.
 *
 * @module
 */

import { join } from "node:path";
import { type DeletedTopic, writeDeletedTopics } from "../checkpoint/deleted_topics.ts";
import type { CommitLog } from "../commit_log/commit_log.ts";
import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import { UNIT_BYTES } from "../consume_queue/queue_unit.ts";
import { removeTree } from "../consume_queue/topic_folders.ts";
import { StoreError } from "../errors.ts";
import type { FileSystem } from "../io/file_system.ts";
import { OneAtATime } from "../io/one_at_a_time.ts";
import type { StorePaths } from "../io/store_paths.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

export interface TopicRemoverContext {
  readonly fileSystem: FileSystem;
  readonly paths: StorePaths;
  readonly log: CommitLog;
  readonly queues: ConsumeQueueTable;
  /** Lets puts to topics wait. @returns What ends that. */
  readonly hold: (topics: Iterable<string>) => () => void;
  /** Runs an action while no queue is being written. */
  readonly alone: <T>(action: () => Promise<T>) => Promise<T>;
  /** Lets the checkpoint tell no longer how many queues there are. */
  readonly disownCounts: () => Promise<void>;
  /** Writes the queues, and a checkpoint that tells it again. */
  readonly settle: () => Promise<void>;
  /** A topic has no queues any more; it had these. */
  readonly removed: (topic: string, queues: readonly MessageQueue[]) => void;
}

export class TopicRemover {
  readonly #context: TopicRemoverContext;
  readonly #removals = new OneAtATime();
  #closed = false;

  constructor(context: TopicRemoverContext) {
    this.#context = context;
  }

  /**
   * Deletes the queues of those topics that have any.
   *
   * @returns Their names. Once this resolves they do not come back, whatever happens.
   * @throws {StoreError} `STORE_IO`. Either nothing was deleted, or the queues are gone and the next open
   *   removes what is left of their files. If nobody can tell which, the store has failed.
   */
  async remove(names: readonly string[]): Promise<string[]> {
    if (this.#closed) {
      const { root: path } = this.#context.paths;
      throw new StoreError("STORE_CLOSED", `Cannot delete topics of ${path}: it is closed`, {
        path,
      });
    }
    return this.#removals.run(() => this.#remove(names));
  }

  /** Waits for what was asked for, and takes no more. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#removals.idle();
  }

  async #remove(names: readonly string[]): Promise<string[]> {
    const { queues, alone, settle } = this.#context;
    const left = names.filter(
      (name) => queues.of(name).length > 0 || queues.deleted.get(name) !== undefined,
    );
    if (left.length === 0) return [];
    const removed = await alone(() => this.#removeAlone(left));
    await settle();
    return removed;
  }

  async #removeAlone(names: readonly string[]): Promise<string[]> {
    const { fileSystem, paths, log, queues, hold, disownCounts, removed } = this.#context;
    await log.pipeline.flush();
    await disownCounts();
    const release = hold(names);
    let gone: readonly { readonly topic: string; readonly queues: readonly MessageQueue[] }[];
    try {
      await this.#writeDown(names);
      gone = names.map((topic) => ({ topic, queues: queues.of(topic) }));
      for (const topic of names) queues.deleteTopic(topic);
    } finally {
      release();
    }
    const had = gone.filter((topic) => topic.queues.some(({ exists }) => exists));
    for (const { topic, queues } of gone) removed(topic, queues);
    for (const { topic, queues } of gone) {
      for (const queue of queues) await queue.remove();
      for (const folder of [paths.consumeQueue, paths.queueExtension, paths.batchQueue]) {
        await removeTree(fileSystem, join(folder, topic));
      }
    }
    return had.map(({ topic }) => topic);
  }

  /** From here on the queues of these topics are deleted. */
  async #writeDown(names: readonly string[]): Promise<void> {
    const { log, queues } = this.#context;
    const { deleted } = queues;
    deleted.forgetBelow(log.segments.minOffset ?? 0);
    const kept = deleted.list().filter(({ topic }) => !names.includes(topic));
    for (;;) {
      const below = log.pipeline.wrote;
      const ends = this.#endsOf(names);
      const topics = [
        ...kept,
        ...names.map((topic) => ({ topic, below, next: this.#nextOf(topic) })),
      ];
      await this.#write(topics, below);
      // Puts that had waited for room may have come meanwhile.
      if (log.pipeline.wrote > below && this.#endsOf(names) !== ends) continue;
      deleted.set(topics);
      return;
    }
  }

  async #write(topics: readonly DeletedTopic[], below: PhysicalOffset): Promise<void> {
    const { fileSystem, paths, log, queues } = this.#context;
    const { deletedTopics: path, own: staging } = paths;
    try {
      // What a cut of the power took must not make room for messages that would count as deleted.
      if (log.pipeline.flushed < below) await log.pipeline.flush();
      await writeDeletedTopics(fileSystem, { path, staging }, topics);
    } catch (error) {
      // It may be there all the same: the queues must not go on in front of what it says.
      try {
        await writeDeletedTopics(fileSystem, { path, staging }, queues.deleted.list());
      } catch (cause) {
        log.pipeline.fail(cause as StoreError);
      }
      throw error;
    }
  }

  /** Something else once there was a put. */
  #endsOf(names: readonly string[]): string {
    const { queues } = this.#context;
    return names
      .map((topic) => queues.of(topic).map(({ queueId, nextOffset }) => `${queueId}:${nextOffset}`))
      .join();
  }

  /** Where the queues of a topic go on: at the beginning of a file. */
  #nextOf(topic: string): Map<number, QueueOffset> {
    const { queues } = this.#context;
    const next = new Map(queues.deleted.get(topic)?.next);
    // Of either kind: the topic may come back with queues of the other one.
    const unitsPerFile = queues.context.fileSize / UNIT_BYTES;
    for (const { queueId, nextOffset } of queues.of(topic)) {
      const file = Math.ceil(nextOffset / unitsPerFile);
      if (file > 0) next.set(queueId, file * unitsPerFile);
    }
    return next;
  }
}
