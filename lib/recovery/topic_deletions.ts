/**
 * Completes deletions of topics that a crash cut short, and those that a Java store has undone: its
 * recovery builds the queues of such a topic again.
 *
 * A queue of ours that was made since begins where the deletion said, behind the files that were deleted.
 * A Java store knows nothing of that: it begins with 0, or goes on with what it has built. If messages were
 * put to such a queue since, it stays.
 *
 * @module
 */

import { join } from "node:path";
import { writeDeletedTopics } from "../checkpoint/deleted_topics.ts";
import { ConsumeQueue } from "../consume_queue/consume_queue.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import { removeFolder } from "../consume_queue/topic_folders.ts";
import type { FileSystem } from "../io/file_system.ts";
import type { StorePaths } from "../io/store_paths.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { doubleQueue, type StoreFiles } from "./store_files.ts";

export interface DeletionsContext {
  readonly fileSystem: FileSystem;
  readonly paths: StorePaths;
}

/** @throws {StoreError} `STORE_IO`, or `STORE_UNEXPECTED_FILE` if a queue has files of both kinds. */
export async function completeDeletions(
  { queues, doubles, cleanStop }: StoreFiles,
  { fileSystem, paths }: DeletionsContext,
): Promise<void> {
  const deletions = queues.deleted.list();
  if (!cleanStop && deletions.length > 0) {
    // What a killed process has written down need not be durable, whatever a sync says that comes later.
    const { deletedTopics: path, own: staging } = paths;
    await writeDeletedTopics(fileSystem, { path, staging }, deletions);
  }
  for (const { topic, below, next } of deletions) {
    let wasWhole = cleanStop;
    for (const double of doubles.filter((queue) => queue.topic === topic)) {
      const other = queues.find(topic, double.queueId) as MessageQueue;
      const begin = next.get(double.queueId) ?? 0;
      wasWhole = false;
      if (await isLeftOver(double, below, begin)) {
        await double.remove();
      } else if (await isLeftOver(other, below, begin)) {
        await other.remove();
        queues.add(double);
      } else {
        throw doubleQueue(double, other);
      }
    }
    for (const queue of queues.of(topic)) {
      if (!(await isLeftOver(queue, below, next.get(queue.queueId) ?? 0))) continue;
      wasWhole = false;
      await queue.remove();
      queues.delete(queue);
    }
    if (wasWhole || queues.of(topic).length > 0) continue;
    for (const folder of [paths.consumeQueue, paths.queueExtension, paths.batchQueue]) {
      await removeFolder(fileSystem, join(folder, topic));
    }
  }
}

/** Whether nothing of it was put since; what lies in front of that goes. */
async function isLeftOver(
  queue: MessageQueue,
  below: PhysicalOffset,
  next: QueueOffset,
): Promise<boolean> {
  if (queue instanceof ConsumeQueue) {
    const last = queue.segments.at(-1);
    if (last && next > 0 && last.start >= next * queue.unitBytes) {
      await queue.removeFilesBefore(next);
      return false;
    }
  }
  await queue.findEnd(Number.POSITIVE_INFINITY);
  return queue.maxPhysicalOffset <= below;
}
