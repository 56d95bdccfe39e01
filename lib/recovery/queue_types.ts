/**
 * Whether the queues of a store are what the settings of their topics say. RocketMQ:
 * `ConsumeQueueStore.queueTypeShouldBe`.
 *
 * @module
 */

import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import { StoreError } from "../errors.ts";
import type { TopicTable } from "../metadata/topic_table.ts";

/**
 * A topic that has no settings may have queues of either type, but of one only.
 *
 * @param deletions Whether what is left of deleted topics has been removed: until then their queues may be of
 *   any type.
 * @throws {StoreError} `STORE_UNEXPECTED_FILE` naming the folder of the first queue that is not.
 */
export function checkQueueTypes(
  queues: ConsumeQueueTable,
  topics: TopicTable,
  deletions: "to be completed" | "completed",
): void {
  for (const topic of queues.topics()) {
    if (deletions === "to be completed" && queues.deleted.get(topic)) continue;
    const said = topics.queueTypeOf(topic);
    const types = new Set(queues.of(topic).map(({ queueType }) => queueType));
    if (types.size === 1 && (said === undefined || types.has(said))) continue;
    let due = said;
    for (const queueId of queues.queueIds(topic)) {
      const { queueType, directory } = queues.findOrCreate(topic, queueId);
      due ??= queueType;
      if (queueType === due) continue;
      const why = said
        ? `its queue.type in ${topics.path} is ${due}`
        : `it has queues that are ${due}`;
      throw new StoreError(
        "STORE_UNEXPECTED_FILE",
        `Cannot open ${directory}: queue ${queueId} of topic "${topic}" is ${queueType}, and ${why}`,
        { path: directory },
      );
    }
  }
}
