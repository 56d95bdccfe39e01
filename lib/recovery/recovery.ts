/**
 * Makes a directory a store that can go on: finds the end of the log, cuts what lies behind it, and
 * brings the queues to exactly what the log holds. RocketMQ: `CommitLog.recoverNormally` and
 * `recoverAbnormally`, with other rules where theirs lose data.
 *
 * 1. Each queue is loaded up to the start of the scan (after a clean stop: up to its own end).
 * 2. The log is read from there; every record that is whole and states its own offset gets its
 *    units. Damage with such a record behind it is a hole (`damagedLogPolicy: "keep"`); other damage,
 *    or the first one at all (`"cut"`), is where the log ends.
 * 3. Holes are saved and covered. What lies behind the end is saved and zeroed; units that point
 *    there are dropped.
 * 4. A queue that does not agree with the log is rebuilt by a walk over all of it, which cuts
 *    nothing: a damaged record before the scan's start is left where it is.
 *
 * Nothing is changed before `abort` is on disk, so a crash in the middle leads back here.
 *
 * @module
 */

import {
  type Checkpoint,
  type CheckpointLongs,
  NO_CHECKPOINT,
  type Watermarks,
  writeCheckpoint,
} from "../checkpoint/store_checkpoint.ts";
import { findNextRecord, scanLog } from "../commit_log/log_scanner.ts";
import type { ConsumeQueue } from "../consume_queue/consume_queue.ts";
import { isFiller, unitOffset, unitSize } from "../consume_queue/queue_unit.ts";
import { type Dispatched, queuesOf } from "../dispatch/dispatcher.ts";
import { StoreError } from "../errors.ts";
import type { Clock } from "../io/clock.ts";
import type { FileSystem } from "../io/file_system.ts";
import type { StorePaths } from "../io/store_paths.ts";
import { type DispatchRequest, dispatchRequestOf } from "../message/dispatch_request.ts";
import { isHoleRecordAt } from "../message/hole_record.ts";
import { LIGHT_QUEUE_PREFIX } from "../message/light_queues.ts";
import { checkRecord, type RecordCheckOptions } from "../message/record.ts";
import { BLANK_SIZE, RECORD_SIZE_MIN } from "../message/record_layout.ts";
import type { DelayLevels } from "../message/tags_code.ts";
import type { ResolvedOptions } from "../options.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import type { PhysicalOffset } from "../units.ts";
import { type BadPlace, type LogHole, type MendedHole, mendHole } from "./log_hole.ts";
import { chooseScanStart, type ScanStart } from "./scan_start.ts";
import type { StoreFiles } from "./store_files.ts";
import { cutTail, lastNonZero } from "./tail_cut.ts";

/** Units gathered in memory before they are written, while the log is scanned. */
const UNWRITTEN_UNITS_MAX = 1_000_000;

/** What recovery found and did. */
export interface RecoveryReport {
  /** There was no `abort` file. */
  readonly cleanStop: boolean;
  /** What the `checkpoint` file said. */
  readonly checkpoint: Checkpoint;
  readonly scanStart: ScanStart;
  /** Records read from there on. */
  readonly scannedRecords: number;
  /** Where the log ends. */
  readonly end: PhysicalOffset;
  /** What ended it, if bytes that are no record follow. */
  readonly cut:
    | (BadPlace & { readonly droppedBytes: number; readonly evidence: readonly string[] })
    | undefined;
  /** Damage with whole records behind it, kept out of the way. */
  readonly holes: readonly MendedHole[];
  /** Damaged places that were left, since they lie before the scan's start. */
  readonly left: readonly BadPlace[];
  /** Files missing from the middle of the log. */
  readonly gaps: readonly { readonly offset: PhysicalOffset; readonly size: number }[];
  /** Queues that were rebuilt from the log, as `topic/queueId`. */
  readonly rebuiltQueues: readonly string[];
  /** Files behind the end that held nothing. */
  readonly removedFiles: readonly string[];
}

export interface Recovered {
  readonly report: RecoveryReport;
  /** The newest record. */
  readonly last: Dispatched;
}

export interface RecoveryContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  readonly paths: StorePaths;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly delayLevels: DelayLevels;
}

export async function recover(store: StoreFiles, context: RecoveryContext): Promise<Recovered> {
  return new Recovery(store, context).run();
}

/**
 * A log that is gone while its queues are there is no new store.
 *
 * @throws {StoreError} `STORE_LOG_MISSING`; nothing was changed.
 */
export function checkLogIsThere({ segments, queues }: StoreFiles, options: ResolvedOptions): void {
  if (segments.first || options.unsafeAcceptLostCommitLog) return;
  for (const queue of queues) {
    if (queue.segments.length === 0) continue;
    throw new StoreError(
      "STORE_LOG_MISSING",
      `Cannot open the store: there are consume queues in ${queue.directory}, but no commit log in ${segments.directory}`,
      { path: segments.directory },
    );
  }
}

/** What the walk over the log found. */
interface Scan {
  /**
   * Where the log goes on: at the blank record before `behind` if no file follows it, since RocketMQ
   * goes on in its place.
   */
  readonly end: PhysicalOffset;
  /** Where what is to be cut begins. */
  readonly behind: PhysicalOffset;
  /** What lies there, if it is no record. */
  readonly bad: BadPlace | undefined;
  readonly records: number;
  readonly holes: readonly LogHole[];
}

class Recovery {
  readonly #store: StoreFiles;
  readonly #context: RecoveryContext;
  readonly #check: RecordCheckOptions;
  /** Queues that do not agree with the log. */
  readonly #suspects = new Set<ConsumeQueue>();
  /** Some queue is lost, nobody knows which: all are rebuilt. */
  #allSuspect = false;
  readonly #left: BadPlace[] = [];
  readonly #gaps: { offset: PhysicalOffset; size: number }[] = [];
  #last: Dispatched | undefined;
  #unwritten = 0;
  /** Nothing but zeros from here on, if that is known. */
  #zeroFrom: PhysicalOffset | undefined;
  /** Bytes met so far that may have been records of any queue. */
  #missingBytes = 0;

  constructor(store: StoreFiles, context: RecoveryContext) {
    this.#store = store;
    this.#context = context;
    this.#check = {
      checkCrc: context.options.checkCRCOnRecover,
      forceVerifyPropCRC: context.options.forceVerifyPropCRC,
    };
  }

  async run(): Promise<Recovered> {
    const { segments, queues, cleanStop, checkpoint } = this.#store;
    await this.#extendShortFiles();
    if (!segments.first) for (const queue of queues) await queue.reset();
    const unitsKnown = cleanStop && !this.#context.options.recoverWholeLog;
    const start = await this.#loadQueues();
    const { watermarks } = checkpoint;
    if (watermarks && (unitsKnown || watermarks.queuesEnd === start.offset)) {
      this.#compareCounts(watermarks);
    }
    await this.#compareLastUnits();
    let scan = await this.#scan(start.offset, unitsKnown);
    if (scan === "damaged") {
      // Units of what may be lost are no evidence: as after a crash, only whole records count.
      for (const queue of queues) await queue.findEnd(start.offset);
      scan = await this.#scan(start.offset, false);
    }
    const { end, behind, bad, records, holes: found } = scan as Scan;
    const context = {
      ...this.#context,
      own: this.#context.paths.logOwn,
      now: this.#context.clock.now(),
    };
    const { enabledAppendPropCRC, forceVerifyPropCRC } = this.#context.options;
    const holes: MendedHole[] = [];
    for (const hole of found) {
      const withCrc = enabledAppendPropCRC || forceVerifyPropCRC;
      holes.push(await mendHole(segments, hole, withCrc, context));
    }
    const cut = await cutTail(segments, behind, {
      ...context,
      trustBlocks: cleanStop && watermarks?.logEnd === end,
      isZero: this.#zeroFrom === behind,
    });
    for (const queue of queues) {
      if (queue.maxPhysicalOffset > end) await queue.findEnd(end);
    }
    const rebuiltQueues = await this.#rebuild(end);
    const untouched = unitsKnown && !bad && holes.length === 0 && rebuiltQueues.length === 0;
    await this.#settleQueues(untouched);
    await this.#forceLog(start.offset, end);
    return {
      last: this.#last ?? (await this.#lastBefore(end)),
      report: {
        cleanStop,
        checkpoint,
        scanStart: start,
        scannedRecords: records,
        end,
        cut: bad && cut.droppedBytes > 0 ? { ...bad, ...cut } : undefined,
        holes,
        left: this.#left,
        gaps: this.#gaps,
        rebuiltQueues,
        removedFiles: cut.removedFiles,
      },
    };
  }

  async #extendShortFiles(): Promise<void> {
    for (const { path, size } of this.#store.shortFiles) {
      await this.#context.files.use(path, async (file) => {
        await file.ftruncate(size);
        await file.fdatasync();
      });
    }
  }

  /** Finds the ends of the queues and where the scan starts; after a crash units behind it are void. */
  async #loadQueues(): Promise<ScanStart> {
    const { queues, cleanStop } = this.#store;
    if (this.#context.options.recoverWholeLog) {
      const oldest = this.#store.segments.minOffset ?? 0;
      for (const queue of queues) await queue.findEnd(oldest);
      return { offset: oldest, why: "asked for: the whole log" };
    }
    let queuesEnd = -1;
    if (cleanStop) {
      for (const queue of queues) {
        await queue.findEnd(Number.POSITIVE_INFINITY);
        queuesEnd = Math.max(queuesEnd, queue.maxPhysicalOffset);
      }
    }
    const start = await chooseScanStart(this.#store, queuesEnd, this.#check);
    if (!cleanStop) for (const queue of queues) await queue.findEnd(start.offset);
    return start;
  }

  /** With a queue lost as a whole nothing in the scanned part may tell: the counts do. */
  #compareCounts({ queueCount, unitCount }: Watermarks): void {
    let queues = 0;
    let units = 0;
    for (const queue of this.#store.queues) {
      if (queue.max > 0) queues++;
      units += queue.max;
    }
    this.#allSuspect = queues !== queueCount || units !== unitCount;
  }

  /** The last unit of each queue must lead to the message that it says, if that can be read. */
  async #compareLastUnits(): Promise<void> {
    const { segments, queues } = this.#store;
    for (const queue of queues) {
      // Units of a light queue lead to records of other topics.
      if (queue.max === 0 || queue.topic.startsWith(LIGHT_QUEUE_PREFIX)) continue;
      const unit = await queue.units(queue.max - 1, 1);
      if (unit.length === 0 || isFiller(unit, 0)) continue;
      const offset = unitOffset(unit, 0);
      if (offset < (segments.minOffset ?? 0)) continue;
      const bytes = await segments.read(offset, unitSize(unit, 0));
      if (!bytes || checkRecord(bytes, 0, bytes.length, offset, this.#check).kind !== "record") {
        continue;
      }
      const record = dispatchRequestOf(bytes, 0, this.#context.delayLevels);
      if (
        record.topic !== queue.topic ||
        record.queueId !== queue.queueId ||
        record.queueOffset !== queue.max - 1
      ) {
        this.#suspects.add(queue);
      }
    }
  }

  /**
   * Reads the log from `from` on and gives every record its units.
   *
   * @param unitsKnown Queues were loaded up to their own ends. With damage in the log they are not to
   *   be believed: then nothing was done, and the answer is `"damaged"`.
   */
  async #scan(from: PhysicalOffset, unitsKnown: boolean): Promise<Scan | "damaged"> {
    const { segments } = this.#store;
    const whole = from <= (segments.minOffset ?? 0);
    const holes: LogHole[] = [];
    let blank: PhysicalOffset | undefined;
    let records = 0;
    let behind = from;
    for (;;) {
      const met = { bad: undefined as BadPlace | undefined, full: false };
      behind = await scanLog(segments, behind, this.#check, (step) => {
        blank = step.kind === "blank" && step.size >= BLANK_SIZE ? step.offset : undefined;
        if (step.kind === "record") {
          if (this.#unwritten >= UNWRITTEN_UNITS_MAX) {
            met.full = true;
            return "stop";
          }
          records++;
          const request = dispatchRequestOf(step.bytes, step.at, this.#context.delayLevels);
          this.#last = {
            offset: step.offset,
            end: step.offset + step.size,
            storeTimestamp: request.storeTimestamp,
          };
          this.#dispatch(request, whole);
          if (isHoleRecordAt(step.bytes, step.at)) this.#missingBytes += step.size;
        } else if (step.kind === "blank") {
          // It may cover a hole: nothing tells it from others, and this is but a bound.
          this.#missingBytes += step.size;
        } else if (step.kind === "gap") {
          this.#gaps.push({ offset: step.offset, size: step.size });
          this.#missingBytes += step.size;
        } else if (step.kind === "bad") {
          const { offset, path, position, reason } = step;
          met.bad = { offset, path, position, reason };
        }
        return undefined;
      });
      if (met.full) {
        await this.#commitQueues();
        continue;
      }
      const { bad } = met;
      const hole = bad && (await this.#holeAt(bad, unitsKnown));
      if (hole === "damaged") {
        this.#gaps.length = 0;
        this.#missingBytes = 0;
        this.#last = undefined;
        return hole;
      }
      if (!hole) return { end: blank ?? behind, behind, bad, records, holes };
      holes.push(hole);
      this.#missingBytes += hole.size;
      behind = hole.offset + hole.size;
    }
  }

  /** Whether whole records follow a bad place: it is then no end but a hole. */
  async #holeAt(bad: BadPlace, unitsKnown: boolean): Promise<LogHole | "damaged" | undefined> {
    if (this.#context.options.damagedLogPolicy === "cut") return undefined;
    const { segments } = this.#store;
    if (await this.#isZeroFrom(bad.offset)) {
      this.#zeroFrom = bad.offset;
      return undefined;
    }
    if (unitsKnown) return "damaged";
    const storeTimestamp = this.#last?.storeTimestamp ?? 0;
    for (let from = bad.offset; ; ) {
      const segment = segments.find(from) ?? segments.nextFrom(from);
      if (!segment) return undefined;
      const fileEnd = segment.start + segment.size;
      const found = await findNextRecord(
        segments,
        Math.max(from, segment.start),
        this.#check,
        (bytes, at) => this.#isSuccessor(bytes, at, storeTimestamp),
      );
      if (found < fileEnd) return { ...bad, size: found - bad.offset, storeTimestamp };
      from = fileEnd;
    }
  }

  async #isZeroFrom(offset: PhysicalOffset): Promise<boolean> {
    const { cleanStop, checkpoint, segments } = this.#store;
    const trustBlocks = cleanStop && checkpoint.watermarks?.logEnd === offset;
    for (const segment of segments.segments) {
      if (segment.start + segment.size <= offset) continue;
      const from = Math.max(offset - segment.start, 0);
      if ((await lastNonZero(this.#context, segment, from, trustBlocks)) > from) return false;
    }
    return true;
  }

  /**
   * Whether a record behind damage belongs to this log. What a store left behind a cut that it did
   * not zero, as RocketMQ's does, is older than the records before the damage, or its places in the
   * queues have been given to others since.
   */
  #isSuccessor(bytes: Buffer, at: number, storeTimestamp: number): boolean {
    const request = dispatchRequestOf(bytes, at, this.#context.delayLevels);
    return (
      request.storeTimestamp >= storeTimestamp &&
      this.#queuesOf(request).every(([topic, queueId, offset]) => {
        const queue = this.#store.queues.find(topic, queueId);
        return !queue || this.#suspects.has(queue) || offset >= queue.max;
      })
    );
  }

  /** @param whole The scan began with the first record that the log has. */
  #dispatch(request: DispatchRequest, whole: boolean): void {
    for (const [topic, queueId, offset] of this.#queuesOf(request)) {
      const queue = this.#store.queues.findOrCreate(topic, queueId);
      if (this.#suspects.has(queue)) continue;
      if (whole && queue.max === 0 && offset > 0) queue.startAt(offset);
      this.#fillLost(queue, offset);
      const result = queue.append(offset, request.physicalOffset, request.size, request.tagsCode);
      if (result === "gap") this.#suspects.add(queue);
      else if (result === "appended") this.#unwritten++;
    }
  }

  /** No more messages can be missing than fit into the bytes that held no record. */
  #fillLost(queue: ConsumeQueue, offset: number): void {
    const missing = offset - queue.max;
    if (missing > 0 && missing <= this.#missingBytes / RECORD_SIZE_MIN) queue.fillTo(offset);
  }

  #queuesOf(request: DispatchRequest): ReturnType<typeof queuesOf> {
    return queuesOf(request, this.#context.options.enableMultiDispatch);
  }

  /** Rebuilds the suspect queues from the whole log, up to `end`. */
  async #rebuild(end: PhysicalOffset): Promise<string[]> {
    const suspects = this.#suspects;
    if (this.#allSuspect) for (const queue of this.#store.queues) suspects.add(queue);
    if (suspects.size === 0 && !this.#allSuspect) return [];
    const { segments } = this.#store;
    await this.#disownCheckpoint();
    for (const queue of suspects) await queue.reset();
    this.#missingBytes = 0;
    let from = segments.minOffset ?? 0;
    while (from < end) {
      let bad: BadPlace | undefined;
      let full = false;
      from = await scanLog(segments, from, this.#check, (step) => {
        if (step.offset >= end) return "stop";
        if (step.kind === "gap" || step.kind === "blank") this.#missingBytes += step.size;
        if (step.kind === "bad") {
          bad = {
            offset: step.offset,
            path: step.path,
            position: step.position,
            reason: step.reason,
          };
        }
        if (step.kind !== "record") return undefined;
        if (this.#unwritten >= UNWRITTEN_UNITS_MAX) {
          full = true;
          return "stop";
        }
        if (isHoleRecordAt(step.bytes, step.at)) this.#missingBytes += step.size;
        const request = dispatchRequestOf(step.bytes, step.at, this.#context.delayLevels);
        for (const [topic, queueId, offset] of this.#queuesOf(request)) {
          const queue = this.#store.queues.findOrCreate(topic, queueId);
          if (this.#allSuspect) suspects.add(queue);
          else if (!suspects.has(queue)) continue;
          this.#appendRebuilt(queue, offset, request);
        }
        return undefined;
      });
      if (full) {
        await this.#commitQueues();
      } else if (bad) {
        this.#left.push(bad);
        const next = await findNextRecord(segments, from, this.#check);
        this.#missingBytes += next - from;
        from = next;
      } else {
        break;
      }
    }
    return [...suspects].map(({ topic, queueId }) => `${topic}/${queueId}`).sort();
  }

  #appendRebuilt(queue: ConsumeQueue, offset: number, request: DispatchRequest): void {
    if (queue.max === 0 && offset > 0) queue.startAt(offset);
    this.#fillLost(queue, offset);
    const { physicalOffset, size, tagsCode } = request;
    if (queue.append(offset, physicalOffset, size, tagsCode) === "appended") this.#unwritten++;
    // Its place in the queue can't be right: the place that was its own stays empty.
    else this.#missingBytes += size;
  }

  /** A rebuild that is cut short must begin anew: until it is done nothing vouches for a queue. */
  async #disownCheckpoint(): Promise<void> {
    const { paths, fileSystem } = this.#context;
    const { longs } = this.#store.checkpoint;
    const none: CheckpointLongs = {
      ...NO_CHECKPOINT.longs,
      indexMsgTimestamp: longs.indexMsgTimestamp,
      masterFlushedOffset: longs.masterFlushedOffset,
    };
    const from = this.#store.segments.minOffset ?? 0;
    const nothing: Watermarks = { logEnd: from, queuesEnd: from, queueCount: 0, unitCount: 0 };
    await writeCheckpoint(
      fileSystem,
      { path: paths.checkpoint, staging: paths.own },
      none,
      nothing,
    );
  }

  async #commitQueues(): Promise<void> {
    for (const queue of this.#store.queues) await queue.commit();
    this.#unwritten = 0;
  }

  /** @param untouched Nothing was cut or rebuilt after a clean stop: what lies behind is zero. */
  async #settleQueues(untouched: boolean): Promise<void> {
    const logMin = this.#store.segments.minOffset ?? 0;
    await this.#commitQueues();
    for (const queue of [...this.#store.queues]) {
      if (!untouched) await queue.clearBehind();
      await queue.force();
      await queue.correctMin(logMin);
    }
  }

  /** What a killed process wrote is in the page cache only: it becomes durable here. */
  async #forceLog(from: PhysicalOffset, end: PhysicalOffset): Promise<void> {
    for (const { path, start, size } of this.#store.segments.segments) {
      if (start >= end || start + size <= from) continue;
      try {
        await this.#context.files.use(path, (file) => file.fdatasync());
      } catch (cause) {
        throw new StoreError("STORE_IO", `Cannot sync ${path}`, { path, cause });
      }
    }
  }

  /** The newest record that the queues know: the scan met none. */
  async #lastBefore(end: PhysicalOffset): Promise<Dispatched> {
    let newest: Dispatched = { offset: 0, end, storeTimestamp: 0 };
    for (const queue of this.#store.queues) {
      if (queue.max === queue.min) continue;
      const unit = await queue.units(queue.max - 1, 1);
      if (unit.length === 0 || isFiller(unit, 0) || unitOffset(unit, 0) < newest.offset) continue;
      const offset = unitOffset(unit, 0);
      const bytes = await this.#store.segments.read(offset, unitSize(unit, 0));
      if (!bytes || checkRecord(bytes, 0, bytes.length, offset, this.#check).kind !== "record") {
        continue;
      }
      const { storeTimestamp } = dispatchRequestOf(bytes, 0, this.#context.delayLevels);
      newest = { offset, end, storeTimestamp };
    }
    return newest;
  }
}
