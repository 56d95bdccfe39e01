/**
 * The class that users hold: it wires the rooms and decides little.
 *
 * @module
 */

import { totalmem } from "node:os";
import { resolve } from "node:path";
import { createAbort, removeAbort } from "./checkpoint/abort_file.ts";
import { type DeletedTopic, writeDeletedTopics } from "./checkpoint/deleted_topics.ts";
import {
  type CheckpointLongs,
  type IndexMark,
  UNCOUNTED,
  writeCheckpoint,
} from "./checkpoint/store_checkpoint.ts";
import { forgetFailedSync, hasFailedSync, noteFailedSync } from "./checkpoint/sync_failed_file.ts";
import { CommitLog } from "./commit_log/commit_log.ts";
import { BatchQueue } from "./consume_queue/batch_queue.ts";
import { batchBase, batchMessages } from "./consume_queue/batch_unit.ts";
import { ConsumeQueueFlusher } from "./consume_queue/consume_queue_flusher.ts";
import type { ConsumeQueueTable } from "./consume_queue/consume_queue_table.ts";
import type { ExtensionUnit } from "./consume_queue/extension_unit.ts";
import { addressedOffset, decodeUnit, type QueueUnit } from "./consume_queue/queue_unit.ts";
import { Arrivals } from "./dispatch/arrivals.ts";
import { type Dispatched, Dispatcher } from "./dispatch/dispatcher.ts";
import { IndexFeeder } from "./dispatch/index_feeder.ts";
import { asStoreError, StoreError } from "./errors.ts";
import type { IndexFileContext } from "./index/index_file.ts";
import { type IndexFileFacts, KeyIndex } from "./index/key_index.ts";
import { createDirectory } from "./io/create_directory.ts";
import { removeFile } from "./io/directory.ts";
import type { FileSystem } from "./io/file_system.ts";
import { StoreLock } from "./io/store_lock.ts";
import type { StorePaths } from "./io/store_paths.ts";
import { LIGHT_QUEUE_PREFIX } from "./message/light_queues.ts";
import type { Message, MessageBatch } from "./message/message.ts";
import { parseMessageId } from "./message/message_id.ts";
import { SCHEDULE_TOPIC } from "./message/property_names.ts";
import type { PutResult } from "./message/put_result.ts";
import type { StoredMessage } from "./message/record.ts";
import type { DelayLevels } from "./message/tags_code.ts";
import type { ConsumerOffsets } from "./metadata/consumer_offsets.ts";
import type { DelayOffsets } from "./metadata/delay_offsets.ts";
import type { GroupTable } from "./metadata/group_table.ts";
import { Metadata } from "./metadata/metadata.ts";
import { isSystemTopic } from "./metadata/resource_name.ts";
import type { QueueType, TopicTable } from "./metadata/topic_table.ts";
import { type ResolvedOptions, resolveOptions, type StoreOptions } from "./options.ts";
import { PutPath } from "./put/put_path.ts";
import { type ConsumeRequest, consume } from "./read/consume.ts";
import { type QueryRequest, type QueryResult, queryByKey } from "./read/key_query.ts";
import { type LogEntry, readLog } from "./read/log_reader.ts";
import { type GetRequest, type GetResult, MessageReader } from "./read/message_reader.ts";
import { type TimeRequest, TimeSearch } from "./read/time_search.ts";
import { checkQueueTypes } from "./recovery/queue_types.ts";
import {
  checkLogIsThere,
  type Recovered,
  type RecoveryReport,
  recover,
} from "./recovery/recovery.ts";
import { listStoreFiles, type StoreFiles } from "./recovery/store_files.ts";
import { checkStoreKind } from "./recovery/store_kind.ts";
import { neededFrom } from "./retention/consumer_needs.ts";
import { type CleanRequest, Retention } from "./retention/retention.ts";
import { TopicRemover } from "./retention/topic_remover.ts";
import type { OpenFiles } from "./segment/open_files.ts";
import {
  CHANNELS,
  type FailureEvent,
  type RecoveryEvent,
  type RollEvent,
} from "./stats/channels.ts";
import { diskRatio, runtimeInfo } from "./stats/runtime_info.ts";
import type { StatItem, StatName } from "./stats/stat_items.ts";
import { StoreStatistics } from "./stats/store_statistics.ts";
import type { StoreStats } from "./stats/store_stats.ts";
import {
  type OpenContext,
  openContext,
  type ResolvedEnvironment,
  type StoreEnvironment,
} from "./store_environment.ts";
import type { PhysicalOffset, QueueOffset } from "./units.ts";

/** `opening` and back to `closed` it goes only once; `failed` is a store that can only be read. */
export type StoreState = "open" | "failed" | "closing" | "closed";

/** Offsets of the log: `flushed ≤ committed ≤ wrote`. */
export interface StoreWatermarks {
  /** End of what has been appended. */
  readonly wrote: PhysicalOffset;
  /** End of what a killed process does not lose. */
  readonly committed: PhysicalOffset;
  /** End of what a power cut does not lose. */
  readonly flushed: PhysicalOffset;
  /** End of what is in its queues: readable. */
  readonly dispatched: PhysicalOffset;
}

/** A consume queue, as it is at the moment. */
export interface QueueBounds {
  readonly topic: string;
  readonly queueId: number;
  /** Has a unit for each message, or with `"BatchCQ"` for each record, which may hold many. */
  readonly queueType: QueueType;
  /** Of the first message that the log still holds. */
  readonly minOffset: QueueOffset;
  /** One past the last readable message. */
  readonly maxOffset: QueueOffset;
  /** End of the last message's record in the log, or -1. */
  readonly maxPhysicalOffset: PhysicalOffset;
}

export interface UnitsRequest {
  readonly topic: string;
  /** @default 0 */
  readonly queueId?: number;
  /** Queue offset of the first unit wanted. */
  readonly from: QueueOffset;
  /** At most so many. @default 200 */
  readonly count?: number;
}

/** Where a message of a queue lies, or several that are in one record. */
export interface MessagePlace extends QueueUnit {
  /** Of the (first) message. */
  readonly queueOffset: QueueOffset;
  /** How many there are: more than 1 in batch queues only. */
  readonly messages: number;
  /** What the extension of the queue has of it, if `tagsCode` is an address there that can be read. */
  readonly extension: ExtensionUnit | undefined;
}

/** What the queue flusher makes durable. */
interface Mark {
  readonly last: Dispatched;
  readonly queueCount: number;
  readonly unitCount: number;
  readonly index: IndexMark | undefined;
}

/** The log may be so many files ahead of the durable queues; a Java broker looks at ten. */
const QUEUES_BEHIND_FILES_MAX = 7;
const HOUR_MS = 3_600_000;
/** From so many on the queues are flushed whatever their interval. */
const QUEUES_BEHIND_FILES_SOON = 4;

/**
 * A message store on a directory, in RocketMQ's own format.
 *
 * ```ts
 * await using store = await MessageStore.open("./data", { flushDiskType: "SYNC_FLUSH" });
 * const { queueOffset } = await store.put({ topic: "orders", body: Buffer.from("hello") });
 * ```
 */
export class MessageStore {
  /** What recovery found and did. */
  readonly recovery: RecoveryReport;
  readonly #environment: ResolvedEnvironment;
  readonly #options: ResolvedOptions;
  readonly #paths: StorePaths;
  readonly #files: OpenFiles;
  readonly #lock: StoreLock;
  readonly #queues: ConsumeQueueTable;
  readonly #log: CommitLog;
  readonly #dispatcher: Dispatcher;
  readonly #arrivals = new Arrivals();
  readonly #flusher: ConsumeQueueFlusher<Mark>;
  readonly #reader: MessageReader;
  readonly #index: KeyIndex;
  readonly #feeder: IndexFeeder;
  readonly #times: TimeSearch;
  readonly #retention: Retention;
  readonly #remover: TopicRemover;
  readonly #puts: PutPath;
  readonly #metadata: Metadata;
  readonly #statistics: StoreStatistics;
  readonly #delayLevels: DelayLevels;
  #longs: CheckpointLongs;
  /** What the checkpoint tells. */
  #published: Mark | undefined;
  /** Every record below has its units on disk. */
  #queuesDurable: PhysicalOffset;
  #state: StoreState = "open";
  #closing: Promise<void> | undefined;

  private constructor(
    context: OpenContext,
    store: StoreFiles,
    recovered: Recovered,
    lock: StoreLock,
    metadata: Metadata,
  ) {
    const { environment, options, paths, files, delayLevels } = context;
    const { last, report } = recovered;
    this.recovery = report;
    this.#environment = environment;
    this.#options = options;
    this.#paths = paths;
    this.#files = files;
    this.#lock = lock;
    this.#metadata = metadata;
    this.#queues = store.queues;
    this.#delayLevels = delayLevels;
    this.#longs = store.checkpoint.longs;
    this.#queuesDurable = report.end;
    this.#dispatcher = new Dispatcher(
      {
        queues: this.#queues,
        multiDispatch: options.enableMultiDispatch,
        dispatched: (request) => this.#feeder.dispatched(request),
        arrived: (topic, queueId, offset, { tagsCode, storeTimestamp }) => {
          this.#arrivals.wake(topic, queueId);
          environment.onArrival?.({
            topic,
            queueId,
            logicOffset: offset + 1,
            tagsCode,
            storeTimestamp,
          });
        },
        // A RocketMQ that finds no such queue after our crash would begin it with 0.
        begun: () => this.#flushQueues(),
        failed: (error) => this.#log.pipeline.fail(error),
      },
      { ...last, end: report.end },
    );
    this.#statistics = new StoreStatistics({
      directory: paths.root,
      clock: environment.clock,
      queues: this.#queues,
      dispatched: () => this.#dispatcher.end,
      messagesPut: () => this.#puts?.counters.messagesPut ?? 0,
    });
    const early = options.flushDiskType === "ASYNC_FLUSH" || options.readUnCommitted;
    this.#log = new CommitLog(
      {
        fileSystem: environment.fileSystem,
        files,
        clock: environment.clock,
        options,
        delayLevels,
        segments: store.segments,
        staging: paths.logOwn,
        noteFailedSync: () => noteFailedSync(environment.fileSystem, paths.syncFailed),
        listener: {
          committed: (offset) => {
            if (early) this.#dispatch(offset);
          },
          flushed: (offset) => {
            if (!early) this.#dispatch(offset);
          },
          ended: (now) => this.#statistics.tick(now),
          forced: (ms, offset) => this.#statistics.forced(ms, offset),
          told: (value) => this.#statistics.told(value),
          rolled: (offset) => {
            if (!CHANNELS.roll.hasSubscribers) return;
            const event: RollEvent = { directory: paths.root, offset };
            CHANNELS.roll.publish(event);
          },
          failed: (error) => {
            if (this.#state === "open") this.#state = "failed";
            this.#flusher.stop();
            void this.#feeder.close(false);
            this.#metadata.stop();
            environment.onWarning(`${error.message}; the store takes no more puts`);
            if (!CHANNELS.failure.hasSubscribers) return;
            const event: FailureEvent = { directory: paths.root, error };
            CHANNELS.failure.publish(event);
          },
          noSpace: (error) => {
            environment.onWarning(
              error
                ? `${error.message}: no space; puts are refused until there is some`
                : "There is space again for the commit log; puts are taken",
            );
          },
          slowForce: (ms) => {
            environment.onWarning(`A sync of the commit log took ${Math.round(ms)} ms`);
          },
        },
        appended: (request) => this.#dispatcher.note(request),
        mayRoll: (start) => this.#mayRoll(start),
      },
      report.end,
      last.storeTimestamp,
    );
    this.#flusher = new ConsumeQueueFlusher<Mark>({
      queues: this.#queues,
      clock: environment.clock,
      options,
      capture: () => this.#capture(),
      forceLog: async ({ last: { end } }) => {
        if (this.#log.pipeline.flushed < end) await this.#log.pipeline.flush();
      },
      publish: (mark) => this.#publish(mark),
      warn: (error) => environment.onWarning(error.message),
      failed: (error) => this.#log.pipeline.fail(error),
    });
    const indexFiles: IndexFileContext = {
      fileSystem: environment.fileSystem,
      files,
      directory: paths.index,
      staging: paths.own,
      shape: { slots: options.maxHashSlotNum, entries: options.maxIndexNum },
    };
    this.#index = new KeyIndex(indexFiles);
    this.#feeder = new IndexFeeder({
      index: this.#index,
      files: indexFiles,
      segments: this.#log.segments,
      clock: environment.clock,
      delayLevels,
      enabled: options.messageIndexEnable && options.indexFileWriteEnable,
      cleanStop: report.cleanStop,
      longs: store.checkpoint.longs,
      mark: store.checkpoint.watermarks?.index,
      anew: options.recoverWholeLog,
      visible: () => this.#dispatcher.end,
      publish: async () => {
        if (!environment.readOnly) await this.#flusher.flush();
      },
      warn: environment.onWarning,
    });
    this.#puts = new PutPath({
      log: this.#log,
      queues: this.#queues,
      options,
      clock: environment.clock,
      flushQueues: () => this.#flushQueues(),
      toldAtOnce: (result) => this.#statistics.toldAtOnce(result),
    });
    this.#reader = new MessageReader({
      log: this.#log,
      queues: this.#queues,
      options,
      visible: () => this.#dispatcher.end,
      memoryBytes: totalmem(),
    });
    this.#times = new TimeSearch({ log: this.#log, visible: () => this.#dispatcher.end });
    this.#retention = new Retention({
      fileSystem: environment.fileSystem,
      clock: environment.clock,
      options,
      log: this.#log,
      queues: this.#queues,
      settled: () => Math.min(this.#log.pipeline.flushed, this.#queuesDurable),
      settle: () => this.#flusher.flush(),
      alone: (action) => this.#flusher.alone(action),
      neededFrom: async () =>
        environment.neededFrom
          ? environment.neededFrom()
          : neededFrom(
              this.offsets.active(options.consumerActiveHours * HOUR_MS),
              this.#queues,
              environment.onWarning,
            ),
      deleteExpired: async (logMin) => {
        this.#queues.deleted.forgetBelow(logMin);
        await this.#index.deleteExpired(logMin, () => this.#flusher.flush());
      },
      happened: (event) => environment.onRetention?.(event),
      warn: environment.onWarning,
    });
    this.#remover = new TopicRemover({
      fileSystem: environment.fileSystem,
      paths,
      log: this.#log,
      queues: this.#queues,
      hold: (topics) => this.#puts.hold(topics),
      alone: (action) => this.#flusher.alone(action),
      disownCounts: async () => {
        if (this.#published) await this.#publish({ ...this.#published, ...UNCOUNTED });
      },
      settle: () => this.#flusher.flush(),
      removed: (topic, queues) => this.#statistics.forget(topic, queues),
    });
  }

  /**
   * Opens the store in `directory`, making it if there is none, and recovers it if its last stop was
   * no clean one: see {@linkcode MessageStore.recovery}.
   *
   * While it is open nobody else can open it for writing, a Java broker included.
   *
   * @throws {TypeError | RangeError} for an option that does not exist or is out of range.
   * @throws {StoreError} `STORE_LOCKED`, `STORE_LOCK_UNAVAILABLE`, `STORE_KIND_UNSUPPORTED`,
   *   `STORE_UNEXPECTED_FILE`, `STORE_LOG_MISSING`, `STORE_CONFIG_DAMAGED` or `STORE_IO`. After the last
   *   two `abort` may tell the next open to recover; after the others nothing was changed.
   */
  static async open(
    directory: string,
    options: StoreOptions = {},
    environment: StoreEnvironment = {},
  ): Promise<MessageStore> {
    const context = openContext(resolve(directory), resolveOptions(options), environment);
    const { fileSystem, readOnly, onWarning } = context.environment;
    const { paths } = context;
    try {
      for (const warning of await checkStoreKind(fileSystem, paths, readOnly)) onWarning(warning);
      await createDirectory(fileSystem, paths.root);
    } catch (error) {
      throw asStoreError(error, `Cannot open ${paths.root}`);
    }
    const lock = await StoreLock.acquire(fileSystem, {
      lockPath: paths.lock,
      holderPath: paths.holder,
      description: "forcelog",
      clock: context.environment.clock,
      unsafeOpenWithoutLock: context.options.unsafeOpenWithoutLock,
      onWarning,
    });
    try {
      return await MessageStore.#openLocked(context, lock);
    } catch (error) {
      await context.files.closeAll().catch(() => undefined);
      await lock.close();
      throw asStoreError(error, `Cannot open ${paths.root}`);
    }
  }

  static async #openLocked(context: OpenContext, lock: StoreLock): Promise<MessageStore> {
    const { environment, options, paths, files, delayLevels } = context;
    const { fileSystem, clock, readOnly } = environment;
    const metadata = new Metadata({
      ...environment,
      options,
      config: paths.config,
      own: paths.own,
      now: () => clock.now(),
      warn: environment.onWarning,
      checkWritable: () => opened.#checkWritable(),
      forceLog: () => opened.#forceLog(),
      queueTypeOf: (topic) => store.queues.queueTypeOf(topic),
    });
    const store = await listStoreFiles({
      fileSystem,
      files,
      paths,
      options,
      adoptFileSizes: readOnly,
      ...(readOnly ? { warn: environment.onWarning } : {}),
      queueTypeFor: (topic) => metadata.topics.queueTypeOf(topic),
    });
    checkLogIsThere(store, options);
    await createAbort(fileSystem, { path: paths.abort, staging: paths.own }, process.pid);
    for (const path of [paths.commitLog, paths.consumeQueue, paths.logOwn]) {
      await createDirectory(fileSystem, path);
    }
    await removeHalfMadeFiles(fileSystem, paths.own);
    if (paths.logOwn !== paths.own) await removeHalfMadeFiles(fileSystem, paths.logOwn);
    await metadata.load();
    checkQueueTypes(store.queues, metadata.topics, "to be completed");
    const adopted: ResolvedOptions = {
      ...options,
      mappedFileSizeCommitLog: store.segments.fileSize,
      mappedFileSizeConsumeQueue: store.queues.context.fileSize,
      mapperFileSizeBatchConsumeQueue:
        store.queues.context.batches?.fileSize ?? options.mapperFileSizeBatchConsumeQueue,
      mappedFileSizeConsumeQueueExt:
        store.queues.context.extension?.fileSize ?? options.mappedFileSizeConsumeQueueExt,
    };
    // What a reader mends is in its memory only.
    const syncFailed = !readOnly && (await hasFailedSync(fileSystem, paths.syncFailed));
    const recovered = await recover(store, {
      fileSystem,
      files,
      paths,
      clock,
      options: adopted,
      delayLevels,
      syncFailed,
    });
    if (syncFailed) await forgetFailedSync(fileSystem, paths.syncFailed);
    checkQueueTypes(store.queues, metadata.topics, "completed");
    const { deleted } = store.queues;
    if (deleted.endAt(recovered.report.end)) {
      const { deletedTopics: path, own: staging } = paths;
      await writeDeletedTopics(fileSystem, { path, staging }, deleted.list());
    }
    const opened: MessageStore = new MessageStore(
      { ...context, options: adopted },
      store,
      recovered,
      lock,
      metadata,
    );
    await opened.#publish(opened.#capture());
    if (readOnly) return opened;
    // A reader changed nothing: what recovery would do is in its report.
    opened.#warnAboutRecovery();
    opened.#warnAboutOffsets();
    opened.#feeder.start();
    if (options.retentionEnable) await opened.#retention.start();
    if (CHANNELS.recovery.hasSubscribers) {
      const event: RecoveryEvent = { directory: paths.root, recovery: opened.recovery };
      CHANNELS.recovery.publish(event);
    }
    return opened;
  }

  get state(): StoreState {
    return this.#state;
  }

  /** The options in force. */
  get options(): ResolvedOptions {
    return this.#options;
  }

  get watermarks(): StoreWatermarks {
    const { wrote, committed, flushed } = this.#log.pipeline;
    return { wrote, committed, flushed, dispatched: this.#dispatcher.end };
  }

  /** RocketMQ's six longs as the `checkpoint` file has them: how far the store is durable. */
  get checkpointLongs(): CheckpointLongs {
    return this.#longs;
  }

  /** Topics and their settings, as `config/topics.json` has them. */
  get topics(): TopicTable {
    return this.#metadata.topics;
  }

  /** Consumer groups and their settings, as `config/subscriptionGroup.json` has them. */
  get groups(): GroupTable {
    return this.#metadata.groups;
  }

  /** How far consumer groups have come: `config/consumerOffset.json`. */
  get offsets(): ConsumerOffsets {
    return this.#metadata.offsets;
  }

  /** How far delay levels have been delivered: `config/delayOffset.json`. */
  get delayOffsets(): DelayOffsets {
    return this.#metadata.delayOffsets;
  }

  /** What made the store `"failed"`: no put was or will be acknowledged after it. */
  get failure(): StoreError | undefined {
    return this.#log.pipeline.failure;
  }

  /**
   * Stores a message.
   *
   * When this resolves, the message is readable (with the pool: soon), and
   *
   * | mode | a killed process loses | a power cut loses |
   * |---|---|---|
   * | `SYNC_FLUSH` | nothing | nothing |
   * | `ASYNC_FLUSH` | nothing | about 0.5 s; the last less-than-4 pages up to about 10.5 s |
   * | with the pool | up to 200 ms | as above and 200 ms more |
   *
   * With `waitStoreMsgOK: false`, `SYNC_FLUSH` resolves as `ASYNC_FLUSH` does, and the message is readable
   * after its force.
   *
   * @param message Its body must not change until the call returns; it is copied then.
   * @throws {PutError} with RocketMQ's status; `outcome` says whether it may have been stored.
   * @throws {TypeError | RangeError} if a field is of a wrong type or out of its range.
   */
  put(message: Message): Promise<PutResult> {
    return this.#puts.put(message, this.#refusal());
  }

  /**
   * Stores the messages of a batch, one record each, next to each other in one file: all, or none. For
   * topics with `queue.type=BatchCQ` a batch with a unique key is one record. Promises and errors are those of {@linkcode MessageStore.put}.
   */
  putBatch(batch: MessageBatch): Promise<PutResult> {
    return this.#puts.putBatch(batch, this.#refusal());
  }

  /** Reads messages of a queue by queue offset; the status says what was found, as RocketMQ's does. */
  async get(request: GetRequest): Promise<GetResult> {
    this.#checkOpen();
    checkWhole("offset", request.offset, Number.MIN_SAFE_INTEGER);
    checkWhole("maxMessages", request.maxMessages ?? 1, 1);
    checkWhole("queueId", request.queueId ?? 0, 0);
    const startedAt = this.#environment.clock.monotonic();
    const result = await this.#reader.get(request);
    this.#statistics.got(request, result, startedAt);
    // Who asks again and again for what is not there yet must not keep the event loop to himself.
    if (result.messageCount === 0) await this.#files.turn.take(0);
    return result;
  }

  /**
   * The message with that id, or whose record starts at that physical offset.
   *
   * @returns `undefined` if the log has nothing there, not yet or no longer.
   * @throws {StoreError} `STORE_RECORD_DAMAGED` if it has, and that is no whole record.
   */
  async lookup(idOrOffset: string | PhysicalOffset): Promise<StoredMessage | undefined> {
    this.#checkOpen();
    const offset =
      typeof idOrOffset === "string" ? parseMessageId(idOrOffset).physicalOffset : idOrOffset;
    checkWhole("offset", offset, 0);
    return this.#reader.lookup(offset);
  }

  /**
   * Messages by one of their keys, the newest first.
   *
   * Every message is found whose put has resolved (with the pool: that is readable). After a crash, or
   * if the store was open without an index, the first call may have to wait until the log was read.
   *
   * @throws {RangeError} for a number that is no whole one, is negative, or for another's cursor.
   * @throws {StoreError} `STORE_IO`, `STORE_FILES_VANISHED`; the signal's reason if it aborts.
   */
  async query(request: QueryRequest): Promise<QueryResult> {
    this.#checkOpen();
    for (const name of ["begin", "end", "maxNum"] as const) checkWhole(name, request[name] ?? 0, 0);
    request.signal?.throwIfAborted();
    await this.#feeder.ready();
    return queryByKey(
      {
        index: this.#index,
        options: this.#options,
        lookup: (offset) => this.#reader.lookup(offset),
        minOffset: () => this.#log.segments.minOffset ?? 0,
      },
      request,
    );
  }

  /**
   * The files of the index, the oldest first, once everything is in it that is readable now.
   *
   * @throws {StoreError} `STORE_IO`, `STORE_FILES_VANISHED`.
   */
  async indexFiles(): Promise<readonly IndexFileFacts[]> {
    this.#checkOpen();
    await this.#feeder.ready();
    return this.#index.files;
  }

  /** The messages of a queue, as an async iterator that waits for new ones. */
  consume(request: ConsumeRequest): AsyncGenerator<StoredMessage, void, void> {
    this.#checkOpen();
    return consume(request, {
      get: (get) => this.get(get),
      bounds: (topic, queueId) => ({
        min: this.minOffset(topic, queueId),
        max: this.maxOffset(topic, queueId),
      }),
      arrival: (topic, queueId, signal) => this.#arrivals.wait(topic, queueId, signal),
      closed: () => this.#state === "closing" || this.#state === "closed",
    });
  }

  /** Queue offset of the first message; 0 if there is no such queue. */
  minOffset(topic: string, queueId = 0): QueueOffset {
    return this.#queues.find(topic, queueId)?.min ?? 0;
  }

  /** One past the queue offset of the last readable message; 0 if there is no such queue. */
  maxOffset(topic: string, queueId = 0): QueueOffset {
    return this.#queues.find(topic, queueId)?.max ?? 0;
  }

  /**
   * The queue offset that belongs to a time: of the first message stored then or later
   * (`boundary: "lower"`), or of the last one stored then or before (`"upper"`).
   *
   * @returns An offset from `minOffset` to `maxOffset`: for a time before all messages the first of
   *   them, for one after them `maxOffset`, or the last message with `"upper"`; 0 if there is no such
   *   queue.
   * @throws {StoreError} `STORE_IO`.
   */
  async offsetByTime(request: TimeRequest): Promise<QueueOffset> {
    const { topic, queueId = 0, timestamp, boundary = "lower" } = request;
    this.#checkOpen();
    checkWhole("timestamp", timestamp, Number.MIN_SAFE_INTEGER);
    if (boundary !== "lower" && boundary !== "upper") {
      throw new TypeError(`Cannot use boundary ${boundary}: expected "lower" or "upper"`);
    }
    const queue = this.#queues.find(topic, queueId);
    return queue ? this.#times.offsetByTime(queue, timestamp, boundary) : 0;
  }

  /**
   * When message `offset` of a queue was stored, in ms since the epoch; `undefined` if the store has
   * no such message. RocketMQ: `getMessageStoreTimeStamp`, -1 there.
   *
   * @throws {StoreError} `STORE_IO`.
   */
  async messageStoreTime(
    topic: string,
    queueId: number,
    offset: QueueOffset,
  ): Promise<number | undefined> {
    this.#checkOpen();
    checkWhole("offset", offset, Number.MIN_SAFE_INTEGER);
    const queue = this.#queues.find(topic, queueId);
    const isThere = queue && offset >= queue.min && offset < queue.max;
    return isThere ? this.#times.timeOf(queue, offset) : undefined;
  }

  /**
   * When the first message that is still there was stored, in ms since the epoch: of a queue, or
   * without a topic of the whole log; `undefined` if there is none.
   *
   * @throws {StoreError} `STORE_IO`.
   */
  async earliestMessageTime(topic?: string, queueId = 0): Promise<number | undefined> {
    this.#checkOpen();
    if (topic === undefined) return this.#times.earliest();
    return this.messageStoreTime(topic, queueId, this.minOffset(topic, queueId));
  }

  /** The queues that hold or held messages, by topic and id. */
  queues(): QueueBounds[] {
    return [...this.#queues]
      .filter((queue) => queue.exists)
      .map(({ topic, queueId, queueType, min, max, maxPhysicalOffset }) => ({
        topic,
        queueId,
        queueType,
        minOffset: min,
        maxOffset: max,
        maxPhysicalOffset,
      }))
      .sort((a, b) => (a.topic === b.topic ? a.queueId - b.queueId : a.topic < b.topic ? -1 : 1));
  }

  /**
   * The units of a queue from `from` on: where its messages lie in the log. For looking at a store;
   * messages are read with {@linkcode MessageStore.get}.
   *
   * @returns Fewer than asked for at the end of a queue file; none outside the queue. The first one may
   *   begin before `from`, if it is that of several messages.
   * @throws {StoreError} `STORE_QUEUE_DAMAGED` if a file of the queue is missing, `STORE_IO`.
   */
  async units({ topic, queueId = 0, from, count = 200 }: UnitsRequest): Promise<MessagePlace[]> {
    this.#checkOpen();
    checkWhole("from", from, 0);
    checkWhole("count", count, 1);
    const units: MessagePlace[] = [];
    const queue = this.#queues.find(topic, queueId);
    if (!queue) return units;
    const isBatch = queue instanceof BatchQueue;
    const bytes = await queue.units(from, count);
    let next = from;
    for (let at = 0; at < bytes.length; at += queue.unitBytes) {
      const queueOffset = isBatch ? batchBase(bytes, at) : next;
      const messages = isBatch ? batchMessages(bytes, at) : 1;
      next = queueOffset + messages;
      const offset = addressedOffset(bytes, at);
      const extension = offset === undefined ? undefined : await queue.extension?.unitAt(offset);
      units.push({ ...decodeUnit(bytes, at), queueOffset, messages, extension });
    }
    return units;
  }

  /**
   * What lies in the log, in physical order: records of all topics, the blanks that close files,
   * damaged places and missing files. For looking at a store, not for consuming.
   *
   * @param range.from Start of a record or of a file. @default the first byte of the log
   * @param range.to Nothing from there on. @default the end of what is readable now
   * @throws {StoreError} `STORE_IO`. Damage is no error here: it is an entry.
   */
  records(
    range: { readonly from?: PhysicalOffset; readonly to?: PhysicalOffset } = {},
  ): AsyncGenerator<LogEntry, void, void> {
    this.#checkOpen();
    const { segments } = this.#log;
    const first = segments.minOffset ?? 0;
    const { from = first, to = this.watermarks.dispatched } = range;
    checkWhole("from", from, 0);
    checkWhole("to", to, 0);
    return readLog(
      segments,
      Math.max(from, first),
      Math.min(to, this.watermarks.dispatched),
      { checkCrc: true, forceVerifyPropCRC: this.#options.forceVerifyPropCRC },
      this.#delayLevels,
    );
  }

  /** First byte of the log, or -1 without a file. */
  get minPhysicalOffset(): PhysicalOffset {
    return this.#log.segments.minOffset ?? -1;
  }

  /**
   * Resolves once everything below `offset` would survive a power cut; does not hurry it.
   *
   * @throws {StoreError} what made the store `"failed"`; the signal's reason if it aborts.
   */
  durable(offset: PhysicalOffset, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    checkWhole("offset", offset, 0);
    return this.#log.pipeline.durable(offset, signal);
  }

  /** Makes everything that was put so far survive a power cut. */
  async flush(): Promise<void> {
    this.#checkOpen();
    await this.#log.pipeline.flush();
  }

  /** Writes and syncs the queues and then the checkpoint, whatever their intervals say. */
  async checkpoint(): Promise<void> {
    this.#checkOpen();
    await this.#flusher.flush();
  }

  /**
   * Deletes files now, as the scheduled run does: what has expired, if it is the hour (`deleteWhen`)
   * or the disk is full beyond `diskMaxUsedSpaceRatio`; the oldest, if it is beyond
   * `diskSpaceCleanForciblyRatio`; and what is beyond `commitLogMaxBytes`. Never the newest file of the
   * log. RocketMQ: `CleanCommitLogService.run`, and with `manual` `executeDeleteFilesManually`.
   *
   * Resolves once the run has ended. What was deleted stays so after a power cut; a run that is cut
   * short anywhere leaves a store that opens without complaint.
   *
   * @throws {StoreError} `STORE_IO`, `STORE_CLOSED`.
   * @throws {TypeError} if the store is open for reading only.
   */
  async clean(request: CleanRequest = {}): Promise<void> {
    this.#checkWritable("clean");
    await this.#retention.clean(request);
  }

  /**
   * Deletes topics: their queues, their settings in `config/topics.json`, what groups have committed for them,
   * and their statistics. Their records stay in the log, and in the index, until the log's files are deleted:
   * `lookup`, `query` and `records` find them there. RocketMQ: `deleteTopics`.
   *
   * Once this resolves the queues do not come back, after a power cut neither; a crash before that leaves a
   * topic as it was, without its settings, or without queues as well. Puts to these topics wait meanwhile. A put
   * that comes after it makes the topic anew; each of its queues goes on behind the offsets that it had, at the
   * next one with which a queue file begins, so that no offset is given twice as long as records of the old ones
   * are in the log.
   *
   * @param topics Any names but those of RocketMQ's own topics; one that there is not is passed over.
   * @returns How many of them there were.
   * @throws {TypeError | RangeError} for one of RocketMQ's own, and if the store is open for reading only.
   * @throws {StoreError} `STORE_CLOSED`, `STORE_IO`: call it again, or open the store again, to be sure.
   */
  async deleteTopics(topics: Iterable<string>): Promise<number> {
    this.#checkWritable("delete topics of");
    const names = [...new Set(topics)];
    for (const name of names) {
      if (typeof name !== "string")
        throw new TypeError(`Cannot delete topic ${name}: it is no name`);
      if (!isSystemTopic(name)) continue;
      throw new RangeError(`Cannot delete topic "${name}": it is one of RocketMQ's own`);
    }
    await this.#forceLog();
    const there = new Set(names.filter((name) => this.topics.get(name)));
    await Promise.all([...there].map((name) => this.topics.delete(name)));
    for (const name of await this.#remover.remove(names)) there.add(name);
    // Consumers may have committed meanwhile.
    for (const name of names) this.offsets.removeTopic(name);
    await this.offsets.flush();
    return there.size;
  }

  /**
   * Deletes the topics with queues that are not named, as {@linkcode MessageStore.deleteTopics} does, but for
   * RocketMQ's own and light queues. RocketMQ: `cleanUnusedTopic`, which a broker calls with the topics of
   * `config/topics.json`.
   *
   * @returns The names of those that were deleted.
   */
  async cleanUnusedTopics(retain: Iterable<string>): Promise<string[]> {
    const retained = new Set(retain);
    const unused = [...new Set(this.queues().map(({ topic }) => topic))].filter(
      (topic) =>
        !retained.has(topic) && !isSystemTopic(topic) && !topic.startsWith(LIGHT_QUEUE_PREFIX),
    );
    await this.deleteTopics(unused);
    return unused;
  }

  /** Topics that were deleted and still have records in the log, by name. */
  get deletedTopics(): readonly DeletedTopic[] {
    return this.#queues.deleted.list();
  }

  /** Figures since the store was opened, as of now. */
  stats(): StoreStats {
    const statistics = this.#statistics;
    statistics.refresh();
    const { pipeline } = this.#log;
    const { wrote, committed, flushed } = pipeline;
    const { forceTimes, putTimes } = statistics;
    return {
      ...this.#puts.counters,
      ...pipeline.counters,
      pendingBytes: this.#log.pendingBytes,
      pendingBytesMax: this.#log.budgetBytes,
      waitingPuts: this.#log.gate.length,
      behind: {
        commit: wrote - committed,
        flush: wrote - flushed,
        dispatch: wrote - this.#dispatcher.end,
      },
      forceQueue: pipeline.forceQueue,
      forceTimes: {
        count: forceTimes.count,
        averageMs: forceTimes.averageMs,
        p50Ms: forceTimes.percentile(0.5),
        p99Ms: forceTimes.percentile(0.99),
        p999Ms: forceTimes.percentile(0.999),
        maxMs: forceTimes.maxMs,
        buckets: forceTimes.buckets(),
      },
      putTimes: {
        maxMs: putTimes.maxMs,
        p99Ms: putTimes.percentile(0.99),
        p999Ms: putTimes.percentile(0.999),
        minuteBefore: putTimes.distribution(),
        thisMinute: putTimes.distributionNow(),
      },
      gets: { ...statistics.gets },
      perSecond: statistics.rates(),
      topics: [...statistics.topics()]
        .filter(([, { puts }]) => puts > 0)
        .map(([topic, { messages, bytes }]) => ({ topic, messages, bytes })),
      commitLogDiskRatio: this.#retention.gauge.logRatio,
      consumeQueueDiskRatio: this.#retention.gauge.queuesRatio,
      diskFull: this.#retention.gauge.refusal !== undefined,
      deletedLogFiles: this.#retention.deletedFiles,
    };
  }

  /** Counts by topic and group over a minute, an hour and a day, as RocketMQ's broker keeps them. */
  statItems(name?: StatName): StatItem[] {
    return this.#statistics.items(name);
  }

  /**
   * What RocketMQ's `getRuntimeInfo` tells, under its names and as its text.
   *
   * @throws {StoreError} `STORE_CLOSED`
   */
  async runtimeInfo(): Promise<Record<string, string>> {
    this.#checkOpen();
    this.#statistics.refresh();
    const { fileSystem } = this.#environment;
    const { commitLog, consumeQueue } = this.#paths;
    // What cannot be read is not told.
    const earliestTime = await this.#times.earliest().catch(() => undefined);
    const { wrote, flushed, busyForMs } = this.#log.pipeline;
    return runtimeInfo({
      statistics: this.#statistics,
      puts: this.#puts.counters,
      minOffset: this.minPhysicalOffset,
      maxOffset: wrote,
      dispatchBehind: wrote - this.#dispatcher.end,
      flushBehind: wrote - flushed,
      busyForMs,
      earliestTime: earliestTime ?? -1,
      delayLevels: this.delayOffsets.list().map(({ level, offset }) => ({
        level,
        offset,
        max: this.maxOffset(SCHEDULE_TOPIC, level - 1),
      })),
      commitLogDiskRatio: await diskRatio(fileSystem, commitLog),
      consumeQueueDiskRatio: await diskRatio(fileSystem, consumeQueue),
      commitLogPath: commitLog,
    });
  }

  /**
   * Commits and forces everything, settles every promise, writes queues, checkpoint and the files of
   * `config/` that have changed, and removes `abort` last: the next open is a quick one. An index that is
   * behind is completed first, which takes as long as reading that part of the log. A second call waits for
   * the first.
   *
   * @throws {StoreError} if that fails; `abort` then stays. A store that had failed before just closes.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close().catch((error: unknown) => {
      throw asStoreError(error, `Cannot close ${this.#paths.root}`);
    });
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const failedBefore = this.#state === "failed";
    this.#state = "closing";
    this.#arrivals.wakeAll();
    try {
      try {
        await this.#remover.close();
        await this.#retention.close();
        await this.#log.close();
        await this.#feeder.close(!failedBefore && !this.#environment.readOnly);
        if (!failedBefore) {
          await this.#flusher.flush();
          await this.#metadata.flush();
        }
      } catch (error) {
        if (!failedBefore) throw error;
      } finally {
        this.#metadata.stop();
        await this.#feeder.close(false);
        await this.#flusher.close();
        await this.#files.closeAll();
      }
      if (!failedBefore) await removeAbort(this.#environment.fileSystem, this.#paths.abort);
    } finally {
      this.#state = "closed";
      await this.#lock.close();
    }
  }

  #checkOpen(): void {
    if (this.#state === "open" || this.#state === "failed") return;
    throw new StoreError(
      "STORE_CLOSED",
      `Cannot use the store in ${this.#paths.root}: it is ${this.#state}`,
      {
        path: this.#paths.root,
      },
    );
  }

  /** For whatever changes the store other than a put. */
  #checkWritable(what = "change"): void {
    this.#checkOpen();
    if (!this.#environment.readOnly) return;
    throw new TypeError(`Cannot ${what} ${this.#paths.root}: it is open for reading only`);
  }

  /** What can be read now survives a power cut once this resolves. */
  async #forceLog(): Promise<void> {
    if (this.#log.pipeline.failure) throw this.#log.pipeline.failure;
    if (this.#log.pipeline.flushed < this.#dispatcher.end) await this.#log.pipeline.flush();
  }

  /** Why the store takes no puts, if it does not. */
  #refusal(): string | undefined {
    if (this.#state === "closing" || this.#state === "closed") return `the store is ${this.#state}`;
    if (this.#environment.readOnly) return "the store is open for reading only";
    if (this.#options.brokerRole === "SLAVE") return "the store is a slave";
    return this.#retention.gauge.refusal;
  }

  #dispatch(visible: PhysicalOffset): void {
    const before = this.#dispatcher.end;
    this.#dispatcher.advance(visible);
    if (this.#dispatcher.end !== before) this.#flusher.touched();
  }

  /** The queues must not be more files behind than a Java broker looks at after our crash. */
  #mayRoll(start: PhysicalOffset): boolean {
    const size = this.#options.mappedFileSizeCommitLog;
    const behind = start / size - Math.floor(this.#queuesDurable / size);
    if (behind >= QUEUES_BEHIND_FILES_SOON) this.#flushQueues();
    return behind <= QUEUES_BEHIND_FILES_MAX;
  }

  #flushQueues(): void {
    void this.#flusher.flush().then(
      () => this.#log.gate.drain(),
      // It was reported where it happened; the puts that wait for it give up in time.
      () => undefined,
    );
  }

  #capture(): Mark {
    let queueCount = 0;
    let unitCount = 0;
    for (const { max } of this.#queues) {
      if (max > 0) queueCount++;
      unitCount += max;
    }
    const index = this.#feeder.mark();
    return { last: this.#dispatcher.last, queueCount, unitCount, index };
  }

  async #publish(published: Mark): Promise<void> {
    const { last, queueCount, unitCount, ...mark } = published;
    const { fileSystem, readOnly } = this.#environment;
    const index = readOnly ? mark.index : await this.#feeder.force(mark.index);
    const longs: CheckpointLongs = {
      ...this.#longs,
      physicMsgTimestamp: last.storeTimestamp,
      logicsMsgTimestamp: last.storeTimestamp,
      indexMsgTimestamp: index?.fullTimestamp ?? this.#longs.indexMsgTimestamp,
      confirmPhyOffset: last.offset,
      logicsPhysicalOffset: last.offset,
    };
    const { end } = last;
    const watermarks = { logEnd: end, queuesEnd: end, queueCount, unitCount, index };
    const { checkpoint: path, own: staging } = this.#paths;
    await writeCheckpoint(fileSystem, { path, staging }, longs, watermarks);
    this.#longs = longs;
    this.#published = published;
    this.#queuesDurable = last.end;
  }

  /** They lead into messages that are not there: their groups will miss what is put there. */
  #warnAboutOffsets(): void {
    const beyond = this.offsets.list().filter(({ topic, queueId, offset }) => {
      const next = this.#queues.deleted.nextOf(topic, queueId);
      return offset > Math.max(this.maxOffset(topic, queueId), next);
    });
    const [first] = beyond;
    if (!first) return;
    const { group, topic, queueId, offset } = first;
    const queue = `${topic}/${queueId}`;
    this.#environment.onWarning(
      `Consumer offsets lie beyond the end of their queues: ${beyond.length}, the first that of group ${group} at ${offset} in ${queue}, which ends at ${this.maxOffset(topic, queueId)}`,
    );
  }

  #warnAboutRecovery(): void {
    const { cut, holes, left, gaps, vanished, misplaced, rebuiltQueues } = this.recovery;
    const { onWarning } = this.#environment;
    for (const { offset, size, path, position, reason, evidence, covered } of holes) {
      const became = covered
        ? `its bytes are kept in ${evidence.join(", ")}`
        : "it is too small for a record to cover it: RocketMQ would cut the log there";
      onWarning(
        `The commit log is damaged at ${offset} (position ${position} of ${path}), and goes on ${size} bytes behind: ${reason}; ${became}`,
      );
    }
    if (cut) {
      onWarning(
        `The commit log was cut at ${cut.offset} (position ${cut.position} of ${cut.path}): ${cut.reason}; ${cut.droppedBytes} bytes are kept in ${cut.evidence.join(", ")}`,
      );
    }
    for (const { path, position, reason } of left) {
      onWarning(`Damage at position ${position} of ${path} was left: ${reason}`);
    }
    for (const { offset, size } of gaps) {
      onWarning(`Files of the commit log are missing: ${size} bytes at ${offset}`);
    }
    if (vanished) {
      const { offset, size } = vanished;
      onWarning(
        `The commit log ends at ${offset}, but ${size} bytes behind that had been durable: they are gone`,
      );
    }
    if (misplaced.length > 0) {
      onWarning(
        `No queue leads to ${misplaced.length} records, the first at ${misplaced[0]}: each claims a place in its queue that cannot be its own`,
      );
    }
    if (rebuiltQueues.length > 0) {
      onWarning(
        `Queues did not agree with the commit log and were rebuilt: ${rebuiltQueues.join(", ")}`,
      );
    }
  }
}

/** Files that a killed store had not finished making. */
async function removeHalfMadeFiles(fileSystem: FileSystem, own: string): Promise<void> {
  for (const { name, kind } of await fileSystem.readdir(own)) {
    if (kind === "file" && name.endsWith(".tmp")) await removeFile(fileSystem, `${own}/${name}`);
  }
}

function checkWhole(name: string, value: number, least: number): void {
  if (!Number.isSafeInteger(value) || value < least) {
    throw new RangeError(
      `Cannot use ${name} ${value}: expected a whole number${least > Number.MIN_SAFE_INTEGER ? ` from ${least} on` : ""}`,
    );
  }
}
