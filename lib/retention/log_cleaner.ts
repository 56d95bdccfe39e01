/**
 * Deletes files of the log, whole ones, from the oldest on, never the newest. RocketMQ:
 * `CleanCommitLogService`, `MappedFileQueue.deleteExpiredFileByTime`.
 *
 * A file goes only when everything in it is durable and has its units on disk: whatever a crash
 * leaves then, no queue forgets where it goes on. Each deletion is durable before the next one
 * begins, so a crash leaves a log without gaps.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import { StoreError } from "../errors.ts";
import type { Clock } from "../io/clock.ts";
import type { FileSystem } from "../io/file_system.ts";
import type { ResolvedOptions } from "../options.ts";
import type { Segment } from "../segment/segment.ts";
import type { PhysicalOffset } from "../units.ts";
import type { DiskGauge } from "./disk_gauge.ts";
import type { DeletionReason, RetentionEvent } from "./retention_event.ts";

const HOUR_MS = 3_600_000;
/** Clocks of two machines may differ by so much, in ms. */
const CLOCK_SKEW_MS = 60_000;

export interface LogCleanerContext {
  readonly fileSystem: FileSystem;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly log: CommitLog;
  readonly gauge: DiskGauge;
  /** Every record below is durable and has its units on disk. */
  readonly settled: () => PhysicalOffset;
  /** Moves that to the end of the log. */
  readonly settle: () => Promise<void>;
  /** Where what a consumer still needs begins, if anybody knows. */
  readonly neededFrom: () => Promise<PhysicalOffset | undefined>;
  readonly deleted: (event: RetentionEvent) => void;
  readonly warn: (warning: string) => void;
  /** Waits so many ms. @returns Whether to go on. */
  readonly pause: (ms: number) => Promise<boolean>;
}

/** What a run may delete. */
export interface LogCleaning {
  /** What has expired. */
  readonly expired: boolean;
  /** The oldest, until there is space. */
  readonly oldest: boolean;
  /** At most so many files. */
  readonly filesMax: number;
}

export class LogCleaner {
  readonly #context: LogCleanerContext;
  /** A file that could not be deleted is not tried again before. */
  #notBefore = Number.NEGATIVE_INFINITY;
  /** The file that was last told to be from the future. */
  #future: string | undefined;
  /** A sync of the log's folder failed: what later ones say is not to be believed. */
  #broken = false;

  constructor(context: LogCleanerContext) {
    this.#context = context;
  }

  /** @returns Whether files are left that were to go as well: the run has had its share. */
  async run({ expired, oldest, filesMax }: LogCleaning): Promise<boolean> {
    const { clock, options, log, gauge, pause } = this.#context;
    if (this.#broken || clock.monotonic() < this.#notBefore) return false;
    let needsSpace = oldest;
    for (let count = 0; ; count++) {
      const [first, next] = log.segments.segments;
      if (!first || !next) return false;
      const neededFrom = await this.#context.neededFrom();
      const needed = neededFrom !== undefined && neededFrom < next.start;
      const isHeld = needed && gauge.percent <= options.consumerHoldMaxRatio;
      const reason = await this.#reasonFor(first, next, {
        expired: expired && !isHeld,
        oldest: needsSpace && !isHeld,
      });
      if (reason === undefined) return false;
      if (count >= filesMax) return true;
      if (!(await this.#delete(first, reason, needed))) return false;
      if (!(await pause(options.deleteCommitLogFilesInterval))) return false;
      // No more than has to go.
      if (needsSpace) needsSpace = (await gauge.probe()) === "oldest";
    }
  }

  async #reasonFor(
    first: Segment,
    next: Segment,
    { expired, oldest }: { readonly expired: boolean; readonly oldest: boolean },
  ): Promise<DeletionReason | undefined> {
    const { log, options } = this.#context;
    const { segments } = log;
    const most = options.commitLogMaxBytes;
    if (most > 0 && segments.segments.length * segments.fileSize > most) return "size";
    if (expired && (await this.#hasExpired(first, next))) return "age";
    return oldest ? "disk" : undefined;
  }

  async #hasExpired(first: Segment, next: Segment): Promise<boolean> {
    const { clock, options, log, fileSystem, warn } = this.#context;
    const { path } = first;
    const now = clock.now();
    let since: number | undefined;
    if (options.fileAgeBy === "storeTimestamp") {
      // Every message of the file is as old, or older.
      since = await log.storeTimeAt(next.start, log.pipeline.committed);
    }
    try {
      since ??= (await fileSystem.stat(path)).mtimeMs;
    } catch (cause) {
      throw new StoreError("STORE_IO", `Cannot look at ${path}`, { path, cause });
    }
    if (since > now + CLOCK_SKEW_MS && this.#future !== path) {
      this.#future = path;
      warn(
        `${path} was changed at ${dateOf(since)}, which is still to come: it is kept until then`,
      );
    }
    return now >= since + options.fileReservedTime * HOUR_MS;
  }

  /** @returns Whether it is gone. */
  async #delete(segment: Segment, reason: DeletionReason, needed: boolean): Promise<boolean> {
    const { clock, options, log, fileSystem, settled, settle, deleted, warn } = this.#context;
    const { path, start: offset, size } = segment;
    if (settled() < offset + size) await settle();
    if (settled() < offset + size) return false;
    try {
      await log.segments.removeFirst(fileSystem);
    } catch (cause) {
      const isGone = log.segments.first !== segment;
      const { message } = cause as Error;
      if (isGone) {
        this.#broken = true;
        warn(`Cannot make the deletion of ${path} durable: ${message}; no more files are deleted`);
      } else {
        this.#notBefore = clock.monotonic() + options.redeleteHangedFileInterval;
        warn(`Cannot delete ${path}: ${message}; it is tried again`);
      }
      if (!isGone) return false;
    }
    deleted({ kind: "logFile", path, offset, size, reason, needed });
    return !this.#broken;
  }
}

function dateOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}
