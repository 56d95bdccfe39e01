/**
 * forcelog: Apache RocketMQ's message store as a TypeScript library, with the same files.
 *
 * ```ts
 * import { MessageStore } from "forcelog";
 *
 * await using store = await MessageStore.open("./data", { flushDiskType: "SYNC_FLUSH" });
 * await store.put({ topic: "orders", body: Buffer.from("hello"), tags: "new" });
 * const { messages } = await store.get({ topic: "orders", offset: 0 });
 * ```
 *
 * @module
 */

export type { DeletedTopic } from "./checkpoint/deleted_topics.ts";
export type {
  Checkpoint,
  CheckpointLongs,
  IndexMark,
  Watermarks,
} from "./checkpoint/store_checkpoint.ts";
export type { ExtensionUnit } from "./consume_queue/extension_unit.ts";
export type { QueueUnit } from "./consume_queue/queue_unit.ts";
export type { Arrival } from "./dispatch/arrivals.ts";
export {
  PUT_MESSAGE_STATUSES,
  PutError,
  type PutMessageStatus,
  StoreError,
  type StoreErrorCode,
  type StoreErrorFacts,
} from "./errors.ts";
export {
  explainRecovery,
  type RecoveryExplanation,
  type RocketmqExplanation,
} from "./explain_recovery.ts";
export type { IndexFileFacts } from "./index/key_index.ts";
export { type Clock, systemClock, type Timer } from "./io/clock.ts";
export type {
  Advice,
  DirectoryEntry,
  FileHandle,
  FileLock,
  FileStat,
  FileSystem,
  FileSystemSpace,
  OpenMode,
} from "./io/file_system.ts";
export { NodeFileSystem } from "./io/node_file_system.ts";
export { OverlayFileSystem } from "./io/overlay_file_system.ts";
export { type InnerMessage, innerMessagesOf } from "./message/inner_batch.ts";
export type { BatchItem, Message, MessageBatch } from "./message/message.ts";
export { PutResult } from "./message/put_result.ts";
export { StoredMessage } from "./message/record.ts";
export {
  type MessagePlace,
  MessageStore,
  type QueueBounds,
  type StoreState,
  type StoreWatermarks,
  type UnitsRequest,
} from "./message_store.ts";
export type { AttributeChanges, Attributes } from "./metadata/attributes.ts";
export type {
  ConsumerOffset,
  ConsumerOffsets,
  ConsumerQueue,
} from "./metadata/consumer_offsets.ts";
export type { DataVersion } from "./metadata/data_version.ts";
export type { DelayOffsets } from "./metadata/delay_offsets.ts";
export type {
  GroupConfig,
  GroupRetryPolicy,
  GroupSettings,
  GroupTable,
} from "./metadata/group_table.ts";
export {
  type QueueType,
  TOPIC_PERMISSIONS,
  type TopicConfig,
  type TopicSettings,
  type TopicTable,
} from "./metadata/topic_table.ts";
export type { BrokerRole, FlushDiskType, ResolvedOptions, StoreOptions } from "./options.ts";
export type { ConsumeRequest } from "./read/consume.ts";
export type { QueryRequest, QueryResult } from "./read/key_query.ts";
export type { LogEntry } from "./read/log_reader.ts";
export type { GetMessageStatus, GetRequest, GetResult } from "./read/message_reader.ts";
export type { TimeBoundary, TimeRequest } from "./read/time_search.ts";
export type { BadPlace, LogHole, MendedHole } from "./recovery/log_hole.ts";
export type { LogRange, RecoveryReport } from "./recovery/recovery.ts";
export type { RocketmqVersion } from "./recovery/rocketmq_record_check.ts";
export type {
  RocketmqQueueOutcome,
  RocketmqRecovery,
} from "./recovery/rocketmq_recovery.ts";
export type { ScanStart } from "./recovery/scan_start.ts";
export type { CleanRequest } from "./retention/retention.ts";
export type { DeletionReason, RetentionEvent } from "./retention/retention_event.ts";
export type {
  FailureEvent,
  ForceEvent,
  GetEvent,
  PutEvent,
  RecoveryEvent,
  RollEvent,
} from "./stats/channels.ts";
export { PUT_TIME_SLOTS } from "./stats/put_times.ts";
export type { StatItem, StatName, StatSnapshot } from "./stats/stat_items.ts";
export type { Rates } from "./stats/store_statistics.ts";
export type { StoreStats } from "./stats/store_stats.ts";
export type { StoreEnvironment } from "./store_environment.ts";
export type { PhysicalOffset, QueueOffset } from "./units.ts";
