/**
 * Retention: when it is time to delete, and one run after the other. RocketMQ: the tasks
 * `cleanFilesPeriodically` of `DefaultMessageStore`.
 *
 *     the disks are asked → files of the log go → queues follow → the index follows
 *
 * It works in the background, with pauses, and never holds up the event loop. A run that fails is
 * told and tried again with the next one.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import type { Clock, Timer } from "../io/clock.ts";
import type { FileSystem } from "../io/file_system.ts";
import { OneAtATime } from "../io/one_at_a_time.ts";
import { parseHours, type ResolvedOptions } from "../options.ts";
import type { PhysicalOffset } from "../units.ts";
import { DiskGauge } from "./disk_gauge.ts";
import { LogCleaner } from "./log_cleaner.ts";
import { QueueCleaner } from "./queue_cleaner.ts";
import type { RetentionEvent } from "./retention_event.ts";

/** From opening to the first run, in ms (`DefaultMessageStore.addScheduleTask`). */
const FIRST_RUN_MS = 60_000;
/** Runs that a manual one stands for (`CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES`). */
const MANUAL_RUNS = 20;

export interface RetentionContext {
  readonly fileSystem: FileSystem;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly log: CommitLog;
  readonly queues: ConsumeQueueTable;
  /** Every record below is durable and has its units on disk. */
  readonly settled: () => PhysicalOffset;
  /** Moves that to the end of the log. */
  readonly settle: () => Promise<void>;
  /** Runs an action while no queue is being written. */
  readonly alone: <T>(action: () => Promise<T>) => Promise<T>;
  /** Where what a consumer still needs begins, if anybody knows. */
  readonly neededFrom: () => Promise<PhysicalOffset | undefined>;
  /** The log now begins there: what points before it may go. */
  readonly deleteExpired?: (minPhysicalOffset: PhysicalOffset) => Promise<void>;
  readonly happened: (event: RetentionEvent) => void;
  readonly warn: (warning: string) => void;
}

export interface CleanRequest {
  /** Delete what has expired at any hour, and more than one run would. @default false */
  readonly manual?: boolean;
}

export class Retention {
  readonly gauge: DiskGauge;
  readonly #context: RetentionContext;
  readonly #logCleaner: LogCleaner;
  readonly #queueCleaner: QueueCleaner;
  readonly #hours: ReadonlySet<number>;
  #timer: Timer | undefined;
  readonly #runs = new OneAtATime();
  #closed = false;
  #endPause: (() => void) | undefined;
  /** Where the log began when the queues were last brought in line with it. */
  #cleanedTo: PhysicalOffset = -1;
  /** Files of the log that were deleted. */
  deletedFiles = 0;

  constructor(context: RetentionContext) {
    this.#context = context;
    const { options, log, queues } = context;
    this.#hours = parseHours(options.deleteWhen);
    this.gauge = new DiskGauge({
      fileSystem: context.fileSystem,
      commitLog: log.segments.directory,
      consumeQueue: queues.context.directory,
      options,
      storeBytes: () => this.#storeBytes(),
      warn: (error) => context.warn(error.message),
    });
    const pause = (ms: number): Promise<boolean> => this.#pause(ms);
    this.#logCleaner = new LogCleaner({
      ...context,
      gauge: this.gauge,
      deleted: (event) => {
        this.deletedFiles++;
        context.happened(event);
      },
      pause,
    });
    this.#queueCleaner = new QueueCleaner({ ...context, pause });
  }

  /** Asks the disks before the first put, and begins to run by itself. Never rejects. */
  async start(): Promise<void> {
    await this.#probe();
    this.#arm(FIRST_RUN_MS);
  }

  /**
   * One run, now, or once the one under way has ended.
   *
   * @throws {StoreError} `STORE_IO`, or what kept the queues from being written.
   */
  clean({ manual = false }: CleanRequest = {}): Promise<void> {
    return this.#runs.run(() => this.#clean(manual));
  }

  /** Ends a run after the file that it is at; none comes after it. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    this.#endPause?.();
    await this.#runs.idle();
  }

  #arm(ms: number): void {
    if (this.#closed) return;
    this.#timer = this.#context.clock.setTimer(() => {
      const { cleanResourceInterval } = this.#context.options;
      void this.clean()
        .catch((error: unknown) => this.#context.warn((error as Error).message))
        .then(() => this.#arm(cleanResourceInterval));
    }, ms);
  }

  async #clean(manual: boolean): Promise<void> {
    const { options, log } = this.#context;
    if (this.#closed || log.pipeline.failure) return;
    const need = await this.#probe();
    const expired = manual || need !== "none" || this.#isTheHour();
    const oldest = need === "oldest" && options.cleanFileForciblyEnable;
    for (let runs = 1; ; runs++) {
      const filesMax = options.deleteFileBatchMax;
      const isMore = await this.#logCleaner.run({ expired, oldest, filesMax });
      if (!(await this.#follow())) return;
      // A manual run stands for several; and neither a full disk nor a limit waits for the next one.
      const goesOn = manual ? runs < MANUAL_RUNS : oldest || options.commitLogMaxBytes > 0;
      if (!isMore || !goesOn || this.#closed) break;
    }
    await this.#probe();
  }

  /** Queues and index follow the log. @returns Whether to go on. */
  async #follow(): Promise<boolean> {
    const { log, deleteExpired } = this.#context;
    const logMin = log.segments.minOffset ?? 0;
    if (logMin <= this.#cleanedTo) return true;
    await this.#queueCleaner.correct(logMin);
    if (!(await this.#queueCleaner.removeFiles())) return false;
    await deleteExpired?.(logMin);
    this.#cleanedTo = logMin;
    return true;
  }

  async #probe(): ReturnType<DiskGauge["probe"]> {
    const before = this.gauge.refusal;
    const need = await this.gauge.probe();
    const { refusal } = this.gauge;
    if (refusal && !before) this.#context.warn(`Puts are refused: ${refusal}`);
    if (before && !refusal) this.#context.warn("There is space again on the disk; puts are taken");
    return need;
  }

  #isTheHour(): boolean {
    const now = new Date(this.#context.clock.now());
    return this.#hours.has(
      this.#context.options.deleteWhenUtc ? now.getUTCHours() : now.getHours(),
    );
  }

  #storeBytes(): number {
    const { log, queues } = this.#context;
    let bytes = log.segments.segments.length * log.segments.fileSize;
    for (const queue of queues) bytes += queue.fileBytes;
    return bytes;
  }

  /** @returns Whether to go on. */
  #pause(ms: number): Promise<boolean> {
    if (this.#closed || ms === 0) return Promise.resolve(!this.#closed);
    return new Promise((resolve) => {
      const timer = this.#context.clock.setTimer(() => this.#endPause?.(), ms);
      this.#endPause = () => {
        timer.cancel();
        this.#endPause = undefined;
        resolve(!this.#closed);
      };
    });
  }
}
