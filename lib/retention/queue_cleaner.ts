/**
 * Brings the queues in line with a log that has lost its first files: messages that went with these
 * are no longer offered, and queue files that hold no others are deleted. RocketMQ:
 * `CleanConsumeQueueService`, `ConsumeQueue.correctMinOffset`.
 *
 * It comes after the log: who reads a unit meanwhile finds no record and is told so
 * (`MESSAGE_WAS_REMOVING`). Cut short anywhere, the next open or the next run goes on.
 *
 * @module
 */

import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import type { ResolvedOptions } from "../options.ts";
import type { PhysicalOffset } from "../units.ts";
import type { RetentionEvent } from "./retention_event.ts";

export interface QueueCleanerContext {
  readonly queues: ConsumeQueueTable;
  readonly options: ResolvedOptions;
  /** Runs an action while no queue is being written. */
  readonly alone: <T>(action: () => Promise<T>) => Promise<T>;
  readonly happened: (event: RetentionEvent) => void;
  /** Waits so many ms. @returns Whether to go on. */
  readonly pause: (ms: number) => Promise<boolean>;
}

export class QueueCleaner {
  readonly #context: QueueCleanerContext;

  constructor(context: QueueCleanerContext) {
    this.#context = context;
  }

  /**
   * Moves the first message of each queue to the first one whose record starts at `logMin` or behind.
   *
   * @throws {StoreError} `STORE_IO`.
   */
  async correct(logMin: PhysicalOffset): Promise<void> {
    for (const queue of [...this.#context.queues]) {
      const { topic, queueId, min: from } = queue;
      await queue.expire(logMin);
      const to = queue.min;
      if (to > from) this.#context.happened({ kind: "queue", topic, queueId, from, to });
    }
  }

  /**
   * Deletes files that hold no message any more.
   *
   * @returns Whether it came to its end.
   * @throws {StoreError} `STORE_IO`.
   */
  async removeFiles(): Promise<boolean> {
    const { queues, options, alone, pause } = this.#context;
    for (const queue of [...queues]) {
      if (!queue.hasExpiredFiles) continue;
      const removed = await alone(() => queue.removeExpiredFiles());
      this.#tell(queue, removed);
      if (!(await pause(options.deleteConsumeQueueFilesInterval))) return false;
    }
    return true;
  }

  #tell({ topic, queueId }: MessageQueue, paths: readonly string[]): void {
    for (const path of paths) {
      this.#context.happened({ kind: "queueFile", topic, queueId, path });
    }
  }
}
