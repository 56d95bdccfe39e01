/**
 * The options of a store: RocketMQ's config keys (`MessageStoreConfig`) by their own names, and a
 * few of ours. Which of RocketMQ's keys have an effect, which are accepted without one and which are
 * refused stands in `docs/compatibility.md`; a key that is in neither list is a mistake.
 *
 * @module
 */

/** When a put resolves: see the table in `docs/durability.md`. */
export type FlushDiskType = "SYNC_FLUSH" | "ASYNC_FLUSH";

export type BrokerRole = "ASYNC_MASTER" | "SYNC_MASTER" | "SLAVE";

/** What is served of `MessageStoreConfig`. Times in ms and sizes in bytes, unless said otherwise. */
export interface StoreOptions {
  /**
   * `SYNC_FLUSH`: a put resolves once its bytes are behind an `fdatasync`. `ASYNC_FLUSH`: once they
   * are written to the file. @default "ASYNC_FLUSH"
   */
  readonly flushDiskType?: FlushDiskType;
  /** Folder of the commit log. @default `commitlog` in the store's folder */
  readonly storePathCommitLog?: string;
  /** Size of a commit log file, 1,024 to 2^31 - 1. An existing store must have this size. @default 1073741824 */
  readonly mappedFileSizeCommitLog?: number;
  /** Size of a consume queue file; rounded up to whole units of 20 bytes. @default 6000000 */
  readonly mappedFileSizeConsumeQueue?: number;
  /**
   * Each message also gets a unit in the extension of its queue, `consumequeue_ext`. Units that are there
   * are read either way. @default false
   */
  readonly enableConsumeQueueExt?: boolean;
  /** Size of a file of an extension, 24 to 2^31 - 1. With the option above a store must have it. @default 50331648 */
  readonly mappedFileSizeConsumeQueueExt?: number;
  /**
   * Size of a file of a batch queue (topics with `queue.type=BatchCQ`), a multiple of 46. An existing store
   * must have this size. RocketMQ's name for it. @default 13800000
   */
  readonly mapperFileSizeBatchConsumeQueue?: number;
  /** Largest body of a message, and of a batch. @default 4194304 */
  readonly maxMessageSize?: number;
  /** Records with a topic of more than 127 bytes get a two-byte topic length (V2). @default true */
  readonly autoMessageVersionOnTopicLen?: boolean;
  /** Every record ends in a CRC over all of it. Such a CRC is verified wherever it is met. @default false */
  readonly enabledAppendPropCRC?: boolean;
  /** A record without that CRC counts as damaged. @default false */
  readonly forceVerifyPropCRC?: boolean;
  /** Recovery verifies the CRC of bodies. @default true */
  readonly checkCRCOnRecover?: boolean;

  /** A put that waits longer for its force rejects with `FLUSH_DISK_TIMEOUT`. @default 5000 */
  readonly syncFlushTimeout?: number;
  /** ASYNC_FLUSH: period of the flush service. @default 500 */
  readonly flushIntervalCommitLog?: number;
  /** ASYNC_FLUSH: the flush service ignores wake-ups. @default true */
  readonly flushCommitLogTimed?: boolean;
  /** ASYNC_FLUSH: it forces only when so many pages of 4,096 bytes wait. @default 4 */
  readonly flushCommitLogLeastPages?: number;
  /** ASYNC_FLUSH: and whatever waits, so often. @default 10000 */
  readonly flushCommitLogThoroughInterval?: number;
  /** ASYNC_FLUSH: a put wakes the flush service, if it listens. @default false */
  readonly wakeFlushWhenPutMessage?: boolean;

  /** Puts go to a write buffer that a service commits (RocketMQ's transient store pool). @default false */
  readonly transientStorePoolEnable?: boolean;
  /** Budget of the write buffer, in commit log files. @default 5 */
  readonly transientStorePoolSize?: number;
  /** With the budget used up, a put is refused at once instead of waiting. @default false */
  readonly fastFailIfNoBufferInStorePool?: boolean;
  /** Pool: period of the commit service. @default 200 */
  readonly commitIntervalCommitLog?: number;
  /** Pool: it commits only when so many pages of 4,096 bytes wait. @default 4 */
  readonly commitCommitLogLeastPages?: number;
  /** Pool: and whatever waits, so often. @default 200 */
  readonly commitCommitLogThoroughInterval?: number;
  /** Pool: a put wakes the commit service. @default true */
  readonly wakeCommitWhenPutMessage?: boolean;

  /** Period of the consume queue flush service. @default 1000 */
  readonly flushIntervalConsumeQueue?: number;
  /** It writes a queue only when so many pages of 4,096 bytes wait. @default 2 */
  readonly flushConsumeQueueLeastPages?: number;
  /** It writes and forces every queue, and then the checkpoint, so often. @default 60000 */
  readonly flushConsumeQueueThoroughInterval?: number;
  /** SYNC_FLUSH: messages are readable once written, before their force. @default false */
  readonly readUnCommitted?: boolean;
  /** Light queues: `INNER_MULTI_DISPATCH` gets its queue offsets. @default false */
  readonly enableLmq?: boolean;
  /** Light queues are built. @default false */
  readonly enableMultiDispatch?: boolean;
  /** Light queues: no more than `maxLmqConsumeQueueNum` of them. @default false */
  readonly enableLmqQuota?: boolean;
  /** Light queues that may exist with `enableLmqQuota`. @default 20000 */
  readonly maxLmqConsumeQueueNum?: number;
  /** Delay levels 1 to n: numbers with unit s, m, h or d. */
  readonly messageDelayLevel?: string;

  /** The keys of messages are indexed. @default true */
  readonly messageIndexEnable?: boolean;
  /** The same, as later versions of RocketMQ call it: `false` in either turns it off. @default true */
  readonly indexFileWriteEnable?: boolean;
  /** Hash slots of an index file. With other numbers than the files have, the index is made anew. @default 5000000 */
  readonly maxHashSlotNum?: number;
  /** Entries of an index file, one of which is never used. @default 20000000 */
  readonly maxIndexNum?: number;
  /** Most messages that one query by key returns. @default 64 */
  readonly maxMsgsNumBatch?: number;
  /** And how many if it does not say. @default 32 */
  readonly defaultQueryMaxNum?: number;
  /** Hours for which a file of the log is kept once it is full. @default 72 */
  readonly fileReservedTime?: number;
  /** Hours of the day in which expired files are deleted, 0 to 23, with `;` between. @default "04" */
  readonly deleteWhen?: string;
  /** Per cent of the disk used beyond which expired files go at any hour; 10 to 95 count. @default 75 */
  readonly diskMaxUsedSpaceRatio?: number;
  /** Per cent used beyond which puts are refused; 35 to 90 count. @default 90 */
  readonly diskSpaceWarningLevelRatio?: number;
  /** Per cent used beyond which the oldest files go whatever their age; 30 to 85 count. @default 85 */
  readonly diskSpaceCleanForciblyRatio?: number;
  /** They do. @default true */
  readonly cleanFileForciblyEnable?: boolean;
  /** Period of the cleaner; its first run is 60 s after opening. @default 10000 */
  readonly cleanResourceInterval?: number;
  /** Pause behind each deleted log file. @default 100 */
  readonly deleteCommitLogFilesInterval?: number;
  /** Pause behind each queue that lost files. @default 100 */
  readonly deleteConsumeQueueFilesInterval?: number;
  /** Log files that one run deletes. @default 10 */
  readonly deleteFileBatchMax?: number;
  /** A file that could not be deleted is tried again so often. @default 120000 */
  readonly redeleteHangedFileInterval?: number;
  /** Stores that share the disk: with more than one each has its part of it. @default 1 */
  readonly replicasPerDiskPartition?: number;
  /** How much of its part may be used before the oldest files go, 0 to 1. @default 0.8 */
  readonly logicalDiskSpaceCleanForciblyThreshold?: number;

  /** A write that holds the log up for longer makes puts fail with `OS_PAGE_CACHE_BUSY`. @default 1000 */
  readonly osPageCacheBusyTimeOutMills?: number;
  /**
   * Consumer offsets that were committed are written to their file so often (`BrokerConfig`). @default 5000
   */
  readonly flushConsumerOffsetInterval?: number;
  /** A store in the role `SLAVE` refuses puts. @default "ASYNC_MASTER" */
  readonly brokerRole?: BrokerRole;

  /** Bytes of queue that one `get` with a filter looks through. @default 16000 */
  readonly maxFilterMessageSize?: number;
  /** Queue files that one `get` visits. @default 1 */
  readonly travelCqFileNumWhenGetMessage?: number;
  /** Bytes that one `get` returns of recent messages, the first one apart. @default 262144 */
  readonly maxTransferBytesOnMessageInMemory?: number;
  /** Messages that one `get` returns of recent ones. @default 32 */
  readonly maxTransferCountOnMessageInMemory?: number;
  /** Bytes that one `get` returns of older messages. @default 65536 */
  readonly maxTransferBytesOnMessageInDisk?: number;
  /** Messages that one `get` returns of older ones. @default 8 */
  readonly maxTransferCountOnMessageInDisk?: number;
  /** Per cent of the machine's memory; as many newest bytes of the log count as recent. @default 40 */
  readonly accessMessageInMemoryMaxRatio?: number;

  // Ours.

  /**
   * The checks that a broker makes before its store (topic length, delay and batch rules). Turn
   * them off only behind a broker. @default true
   */
  readonly brokerChecks?: boolean;
  /**
   * What recovery does with damage that whole records follow: `"keep"` these, with the damaged bytes
   * saved and covered; or `"cut"` the log there, as RocketMQ does. @default "keep"
   */
  readonly damagedLogPolicy?: "keep" | "cut";
  /**
   * Opening reads the whole log, whatever the checkpoint vouches for, and makes all queues anew: finds
   * damage in old files, too. @default false
   */
  readonly recoverWholeLog?: boolean;
  /** Files are deleted by themselves, and a disk that is nearly full refuses puts. @default true */
  readonly retentionEnable?: boolean;
  /**
   * What the age of a log file counts from: the last change of the file, as in RocketMQ, which a copy
   * or a restore renews; or the store time of the first message behind it. @default "mtime"
   */
  readonly fileAgeBy?: "mtime" | "storeTimestamp";
  /** The hours of `deleteWhen` are those of UTC, not local ones. @default false */
  readonly deleteWhenUtc?: boolean;
  /** Files of the log beyond so many bytes are deleted, the oldest first; 0: no limit. @default 0 */
  readonly commitLogMaxBytes?: number;
  /**
   * Per cent of the disk used up to which files are kept that a consumer still needs, see
   * `StoreEnvironment.neededFrom`. @default 85
   */
  readonly consumerHoldMaxRatio?: number;
  /**
   * Hours for which a group's offsets in a topic hold files of the log, since it last committed one there or
   * since the store was opened, unless `StoreEnvironment.neededFrom` tells; 0: they never do, as in RocketMQ.
   * @default 0
   */
  readonly consumerActiveHours?: number;
  /** Host of the producer in records whose message has none, `ip:port`. @default "127.0.0.1:0" */
  readonly bornHost?: string;
  /** Host of the broker in records and message ids, `ip:port`. @default "127.0.0.1:10911" */
  readonly storeHost?: string;
  /** Opens for writing where nothing keeps a second writer out. It will damage the store. @default false */
  readonly unsafeOpenWithoutLock?: boolean;
  /** Opens a store whose commit log is gone: its queues are dropped. @default false */
  readonly unsafeAcceptLostCommitLog?: boolean;
}

/** All options with their values. */
export type ResolvedOptions = Required<Omit<StoreOptions, "storePathCommitLog">> & {
  readonly storePathCommitLog: string | undefined;
};

const DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

const DEFAULTS: ResolvedOptions = {
  flushDiskType: "ASYNC_FLUSH",
  storePathCommitLog: undefined,
  mappedFileSizeCommitLog: 1024 * 1024 * 1024,
  mappedFileSizeConsumeQueue: 300_000 * 20,
  enableConsumeQueueExt: false,
  mappedFileSizeConsumeQueueExt: 48 * 1024 * 1024,
  mapperFileSizeBatchConsumeQueue: 300_000 * 46,
  maxMessageSize: 4 * 1024 * 1024,
  autoMessageVersionOnTopicLen: true,
  enabledAppendPropCRC: false,
  forceVerifyPropCRC: false,
  checkCRCOnRecover: true,
  syncFlushTimeout: 5000,
  flushIntervalCommitLog: 500,
  flushCommitLogTimed: true,
  flushCommitLogLeastPages: 4,
  flushCommitLogThoroughInterval: 10_000,
  wakeFlushWhenPutMessage: false,
  transientStorePoolEnable: false,
  transientStorePoolSize: 5,
  fastFailIfNoBufferInStorePool: false,
  commitIntervalCommitLog: 200,
  commitCommitLogLeastPages: 4,
  commitCommitLogThoroughInterval: 200,
  wakeCommitWhenPutMessage: true,
  flushIntervalConsumeQueue: 1000,
  flushConsumeQueueLeastPages: 2,
  flushConsumeQueueThoroughInterval: 60_000,
  readUnCommitted: false,
  enableLmq: false,
  enableMultiDispatch: false,
  enableLmqQuota: false,
  maxLmqConsumeQueueNum: 20_000,
  messageDelayLevel: DELAY_LEVELS,
  messageIndexEnable: true,
  indexFileWriteEnable: true,
  maxHashSlotNum: 5_000_000,
  maxIndexNum: 20_000_000,
  maxMsgsNumBatch: 64,
  defaultQueryMaxNum: 32,
  fileReservedTime: 72,
  deleteWhen: "04",
  diskMaxUsedSpaceRatio: 75,
  diskSpaceWarningLevelRatio: 90,
  diskSpaceCleanForciblyRatio: 85,
  cleanFileForciblyEnable: true,
  cleanResourceInterval: 10_000,
  deleteCommitLogFilesInterval: 100,
  deleteConsumeQueueFilesInterval: 100,
  deleteFileBatchMax: 10,
  redeleteHangedFileInterval: 120_000,
  replicasPerDiskPartition: 1,
  logicalDiskSpaceCleanForciblyThreshold: 0.8,
  osPageCacheBusyTimeOutMills: 1000,
  flushConsumerOffsetInterval: 5000,
  brokerRole: "ASYNC_MASTER",
  maxFilterMessageSize: 16_000,
  travelCqFileNumWhenGetMessage: 1,
  maxTransferBytesOnMessageInMemory: 256 * 1024,
  maxTransferCountOnMessageInMemory: 32,
  maxTransferBytesOnMessageInDisk: 64 * 1024,
  maxTransferCountOnMessageInDisk: 8,
  accessMessageInMemoryMaxRatio: 40,
  brokerChecks: true,
  damagedLogPolicy: "keep",
  recoverWholeLog: false,
  retentionEnable: true,
  fileAgeBy: "mtime",
  deleteWhenUtc: false,
  commitLogMaxBytes: 0,
  consumerHoldMaxRatio: 85,
  consumerActiveHours: 0,
  bornHost: "127.0.0.1:0",
  storeHost: "127.0.0.1:10911",
  unsafeOpenWithoutLock: false,
  unsafeAcceptLostCommitLog: false,
};

/** Least and greatest values of numeric keys; [0, 2^31 - 1] where nothing is said. */
const RANGES: Partial<Record<keyof StoreOptions, readonly [number, number]>> = {
  mappedFileSizeCommitLog: [1024, 2 ** 31 - 1],
  mappedFileSizeConsumeQueue: [20, 2 ** 31 - 1],
  mappedFileSizeConsumeQueueExt: [24, 2 ** 31 - 1],
  mapperFileSizeBatchConsumeQueue: [46, 2_147_483_642],
  maxMessageSize: [10, 2 ** 31 - 1 - 65_536],
  flushIntervalCommitLog: [1, 2 ** 31 - 1],
  transientStorePoolSize: [1, 1024],
  commitIntervalCommitLog: [1, 2 ** 31 - 1],
  flushIntervalConsumeQueue: [1, 2 ** 31 - 1],
  maxHashSlotNum: [1, 100_000_000],
  maxIndexNum: [2, 100_000_000],
  flushConsumerOffsetInterval: [1, 2 ** 31 - 1],
  travelCqFileNumWhenGetMessage: [1, 2 ** 31 - 1],
  accessMessageInMemoryMaxRatio: [0, 100],
  diskMaxUsedSpaceRatio: [0, 100],
  diskSpaceWarningLevelRatio: [0, 100],
  diskSpaceCleanForciblyRatio: [0, 100],
  cleanResourceInterval: [1, 2 ** 31 - 1],
  deleteFileBatchMax: [1, 2 ** 31 - 1],
  replicasPerDiskPartition: [1, 2 ** 31 - 1],
  logicalDiskSpaceCleanForciblyThreshold: [0, 1],
  commitLogMaxBytes: [0, Number.MAX_SAFE_INTEGER],
  consumerHoldMaxRatio: [0, 100],
};

/** Numeric keys that take fractions. */
const FRACTIONS: ReadonlySet<keyof StoreOptions> = new Set([
  "logicalDiskSpaceCleanForciblyThreshold",
]);

const CHOICES: Partial<Record<keyof StoreOptions, readonly string[]>> = {
  flushDiskType: ["SYNC_FLUSH", "ASYNC_FLUSH"],
  brokerRole: ["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"],
  damagedLogPolicy: ["keep", "cut"],
  fileAgeBy: ["mtime", "storeTimestamp"],
};

/** Keys that would change the files or the promises; served only with this value. */
const ONLY_WITH: Readonly<Record<string, unknown>> = {
  storeType: "default",
  duplicationEnable: false,
  enableControllerMode: false,
  enableDLegerCommitLog: false,
  indexRocksDBEnable: false,
  transRocksDBEnable: false,
  timerRocksDBEnable: false,
  rocksdbCQDoubleWriteEnable: false,
  readOnlyCommitLogStorePaths: null,
};

/** Keys of `MessageStoreConfig` that have no effect here, or none yet. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(
  `storePathRootDir storePathEpochFile storePathBrokerIdentity maxTopicLength writeWithoutMmap topicQueueLockNum
  useReentrantLockWhenPutMessage useABSLock spinLockCollisionRetreatOptimalDegree debugLockEnable
  maxAsyncPutMessageRequests putMessageTimeout putMsgIndexHightWater dataReadAheadEnable warmMapedFileEnable
  flushLeastPagesWhenWarmMapedFile enableRunningFlagsInFlush
  bitMapLengthConsumeQueueExt putConsumeQueueDataByFileChannel searchBcqByCacheEnable
  maxConsumeQueueScan sampleCountThreshold enableBuildConsumeQueueConcurrently batchDispatchRequestThreadPoolNums
  recheckReputOffsetFromCq dispatchFromSenderThread dispatchCqThreads dispatchCqCacheNum enableAsyncReput
  indexFileReadEnable messageIndexSafe flushDelayOffsetInterval destroyMapedFileIntervalForcibly
  correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval
  mappedFileSwapEnable commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
  logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum cleanSwapedMapInterval
  maxBatchDeleteFilesNum enableCleanExpiredOffset haListenPort haMasterAddress haSendHeartbeatInterval
  haHousekeepingInterval haTransferBatchSize haMaxGapNotInSync slaveTimeout totalReplicas inSyncReplicas
  minInSyncReplicas enableAutoInSyncReplicas allAckInSyncStateSet haFlowControlEnable maxHaTransferByteInSecond
  haMaxTimeSlaveNotCatchup syncMasterFlushOffsetWhenStartup syncFromLastFile asyncLearner maxChecksumRange
  maxSlaveResendLength offsetCheckInSlave maxRecoveryCommitlogFiles
  enableLogConsumeQueueRepeatedlyBuildWhenRecover enableAcceleratedRecovery commitLogRecoverMaxNum
  checkCommitLogOffsetOnRecover maxCheckMessageReuseBufferSize accessMessageInMemoryHotRatio
  coldDataFlowControlEnable coldDataScanEnable timerColdDataCheckIntervalMs sampleSteps
  diskFallRecorded pullBatchMaxMessageCount longPollingEnable enableCompaction maxOffsetMapSize sharedByteBufferNum
  timerWheelEnable timerPrecisionMs timerMaxDelaySec timerRollWindowSlot timerFlushIntervalMs timerStopEnqueue
  timerStopDequeue timerSkipUnknownError timerInterceptDelayLevel timerWarmEnable timerEnableCheckMetrics
  timerWheelSnapshotFlush enableScheduleMessageStats enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
  scheduleAsyncDeliverMaxResendNum2Blocked autoDeleteUnusedStats enableSlaveActingMaster combineCQLoadingCQTypes`.split(
    /\s+/,
  ),
);

/**
 * Fills in the defaults and checks every value.
 *
 * @throws {TypeError} if a key is unknown or a value is of the wrong type.
 * @throws {RangeError} if a value is out of its range or asks for what is not served.
 */
export function resolveOptions(options: StoreOptions = {}): ResolvedOptions {
  const resolved: Record<string, unknown> = { ...DEFAULTS };
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (key in DEFAULTS) {
      checkValue(key as keyof StoreOptions, value);
      resolved[key] = value;
    } else if (key in ONLY_WITH) {
      if (value !== ONLY_WITH[key] && value !== "") {
        throw new RangeError(
          `Cannot serve option "${key}" = ${JSON.stringify(value)}: only ${JSON.stringify(ONLY_WITH[key])} is served`,
        );
      }
    } else if (!WITHOUT_EFFECT.has(key)) {
      throw new TypeError(`Cannot use option "${key}": no such option`);
    }
  }
  const size = resolved.mappedFileSizeConsumeQueue as number;
  resolved.mappedFileSizeConsumeQueue = Math.ceil(size / 20) * 20;
  const { maxHashSlotNum, maxIndexNum } = resolved as ResolvedOptions;
  const { mapperFileSizeBatchConsumeQueue: batchSize } = resolved as ResolvedOptions;
  if (batchSize % 46 !== 0) {
    throw new RangeError(
      `Cannot use option "mapperFileSizeBatchConsumeQueue" = ${batchSize}: expected a multiple of 46, the size of a unit`,
    );
  }
  if (40 + 4 * maxHashSlotNum + 20 * maxIndexNum > 2 ** 31 - 1) {
    throw new RangeError(
      `Cannot use options "maxHashSlotNum" = ${maxHashSlotNum} and "maxIndexNum" = ${maxIndexNum}: an index file would be larger than 2^31 - 1 bytes`,
    );
  }
  return resolved as ResolvedOptions;
}

function checkValue(key: keyof StoreOptions, value: unknown): void {
  const wanted = key === "storePathCommitLog" ? "string" : typeof DEFAULTS[key];
  if (typeof value !== wanted) {
    throw new TypeError(
      `Cannot use option "${key}" = ${JSON.stringify(value)}: expected a ${wanted}`,
    );
  }
  if (typeof value === "number") {
    const [least, greatest] = RANGES[key] ?? [0, 2 ** 31 - 1];
    const isWhole = Number.isSafeInteger(value) || (FRACTIONS.has(key) && Number.isFinite(value));
    if (!isWhole || value < least || value > greatest) {
      throw new RangeError(
        `Cannot use option "${key}" = ${value}: expected a ${FRACTIONS.has(key) ? "" : "whole "}number from ${least} to ${greatest}`,
      );
    }
  }
  if (key === "deleteWhen") parseHours(value as string);
  const choices = CHOICES[key];
  if (choices && !choices.includes(value as string)) {
    throw new RangeError(
      `Cannot use option "${key}" = "${value}": expected one of ${choices.join(", ")}`,
    );
  }
}

/**
 * The hours of `deleteWhen`.
 *
 * @throws {RangeError} if one of them is no hour.
 */
export function parseHours(deleteWhen: string): ReadonlySet<number> {
  const hours = new Set<number>();
  for (const part of deleteWhen.split(";")) {
    const text = part.trim();
    if (text === "") continue;
    const hour = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
    if (!(hour <= 23)) {
      throw new RangeError(
        `Cannot use option "deleteWhen" = "${deleteWhen}": expected hours from 0 to 23 with ";" between`,
      );
    }
    hours.add(hour);
  }
  return hours;
}
