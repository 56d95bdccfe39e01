/**
 * Makes a directory a store that can go on: finds the end of the log, cuts what lies behind it, and
 * brings the queues to exactly what the log holds. RocketMQ: `CommitLog.recoverNormally` and
 * `recoverAbnormally`, with other rules where theirs lose data.
 *
 * 0. What a deletion of a topic has left of its queues goes; its messages get no units.
 * 1. Each queue is loaded up to the start of the scan (after a clean stop: up to its own end).
 * 2. The log is read from there; every record that is whole and states its own offset gets its
 *    units. Damage with such a record behind it is a hole (`damagedLogPolicy: "keep"`); other damage,
 *    or the first one at all (`"cut"`), is where the log ends.
 * 3. Units that point behind the end are dropped. A queue that does not agree with the log is rebuilt
 *    by a walk over all of it, which cuts nothing: a damaged record before the scan's start is left
 *    where it is.
 * 4. The queues are made durable, with the places of lost messages, and only then are holes saved and
 *    covered: a RocketMQ that opens the store in between must not build queues from a log that has
 *    them covered. What lies behind the end is saved and zeroed.
 *
 * Nothing is changed before `abort` is on disk, so a crash in the middle leads back here.
 *
 * @module
 */

import {
  type Checkpoint,
  type CheckpointLongs,
  NO_CHECKPOINT,
  UNCOUNTED,
  type Watermarks,
  writeCheckpoint,
} from "../checkpoint/store_checkpoint.ts";
import { noteFailedSync } from "../checkpoint/sync_failed_file.ts";
import {
  findNextRecord,
  type ScanAnswer,
  type ScanStep,
  scanLog,
} from "../commit_log/log_scanner.ts";
import { type MessageQueue, messagesIn } from "../consume_queue/message_queue.ts";
import { isFiller, unitOffset, unitSize } from "../consume_queue/queue_unit.ts";
import type { Dispatched } from "../dispatch/dispatcher.ts";
import { StoreError } from "../errors.ts";
import type { Clock } from "../io/clock.ts";
import type { FileSystem } from "../io/file_system.ts";
import { inParallel, LOOKS_AT_ONCE } from "../io/parallel.ts";
import type { StorePaths } from "../io/store_paths.ts";
import {
  type DispatchRequest,
  dispatchRequestOf,
  type QueueRequest,
} from "../message/dispatch_request.ts";
import { type HoleCrc, isHoleRecordAt } from "../message/hole_record.ts";
import { isLightQueue } from "../message/light_queues.ts";
import { checkRecord, type RecordCheckOptions } from "../message/record.ts";
import { BLANK_SIZE } from "../message/record_layout.ts";
import type { DelayLevels } from "../message/tags_code.ts";
import { isTornRecord } from "../message/torn_record.ts";
import type { ResolvedOptions } from "../options.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import type { Segment } from "../segment/segment.ts";
import type { PhysicalOffset } from "../units.ts";
import { type BadPlace, type LogHole, type MendedHole, mendHole } from "./log_hole.ts";
import { QueueAssembly, type QueueAssemblyContext } from "./queue_assembly.ts";
import { rewriteLog } from "./rewrite.ts";
import { chooseScanStart, type ScanStart } from "./scan_start.ts";
import type { StoreFiles } from "./store_files.ts";
import { cutTail, isZeroFrom } from "./tail_cut.ts";
import { completeDeletions } from "./topic_deletions.ts";

/** A clock may be set back by so much, in ms, and a broker cannot be started again in less. */
const CLOCK_STEP_MAX_MS = 1000;

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
  readonly gaps: readonly LogRange[];
  /** What the checkpoint vouches for behind the end: it was durable, and is gone. */
  readonly vanished: LogRange | undefined;
  /**
   * Whole records that no queue leads to: each claims a place in its queue that cannot be its own, as
   * one whose header is damaged does.
   */
  readonly misplaced: readonly PhysicalOffset[];
  /** Queues that were rebuilt from the log, as `topic/queueId`. */
  readonly rebuiltQueues: readonly string[];
  /** Files behind the end that held nothing. */
  readonly removedFiles: readonly string[];
}

/** A part of the log, in bytes. */
export interface LogRange {
  readonly offset: PhysicalOffset;
  readonly size: number;
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
  /** A sync of the log failed since it was last recovered: what can be read may be on no device. */
  readonly syncFailed: boolean;
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

/** What the scan of the log found. */
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
  readonly last: Dispatched | undefined;
  readonly holes: readonly LogHole[];
  readonly gaps: readonly LogRange[];
  readonly misplaced: ReadonlySet<PhysicalOffset>;
}

/** Where a walk over whole records stopped. */
interface Walk {
  readonly offset: PhysicalOffset;
  /** What lies there, if it is no record. */
  readonly bad: BadPlace | undefined;
  /** The blank record that ends there, if that is the end of the log's files. */
  readonly blank: PhysicalOffset | undefined;
}

interface WalkVisitor {
  record?(request: QueueRequest): void;
  gap?(gap: LogRange): void;
  /** Whether a blank record is damage: it says that the file is longer or shorter than it is. */
  isHole(blank: LogRange): boolean | Promise<boolean>;
}

class Recovery {
  readonly #store: StoreFiles;
  readonly #context: RecoveryContext;
  readonly #check: RecordCheckOptions;
  /** Queues that do not agree with the log. */
  readonly #suspects = new Set<MessageQueue>();
  /** Some queue is lost, nobody knows which: all are rebuilt. */
  #allSuspect = false;
  readonly #left: BadPlace[] = [];
  /** Nothing but zeros from here on, if that is known. */
  #zeroFrom: PhysicalOffset | undefined;

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
    const { watermarks } = checkpoint;
    await this.#extendShortFiles();
    await completeDeletions(this.#store, this.#context);
    if (!segments.first) for (const queue of queues) await queue.reset();
    const unitsKnown = cleanStop && !this.#context.options.recoverWholeLog;
    const start = await this.#loadQueues();
    const isCounted =
      watermarks &&
      watermarks.queueCount !== UNCOUNTED.queueCount &&
      (unitsKnown || watermarks.queuesEnd === start.offset);
    if (isCounted) this.#compareCounts(watermarks);
    const isVouched = isCounted === true && !this.#allSuspect;
    await this.#lookAtQueues((queue) => this.#compareLastUnit(queue));
    let scan: Scan | "damaged" = "damaged";
    let wereCut = false;
    if (unitsKnown) {
      const units = isVouched ? "vouched" : "complete";
      scan = await this.#scan(start.offset, units, watermarks?.queuesEnd ?? 0, true);
      // Units of what may be lost are no evidence: as after a crash, only whole records count.
      if (scan === "damaged") wereCut = await this.#cutQueues(start.offset);
    }
    if (scan === "damaged") {
      const isWhole = start.offset <= (segments.minOffset ?? 0);
      const units = isWhole ? "none" : isVouched ? "vouched" : "unvouched";
      scan = (await this.#scan(start.offset, units, 0, false)) as Scan;
    }
    const { end, behind, bad } = scan;
    wereCut = (await this.#cutQueues(end)) || wereCut;
    const rebuilt = await this.#rebuild(start.offset, end, scan.holes);
    const isUntouched =
      unitsKnown &&
      isVouched &&
      (!bad || this.#zeroFrom === behind) &&
      scan.holes.length === 0 &&
      !wereCut &&
      rebuilt.queues.length === 0;
    await this.#settleQueues(isUntouched);
    const evidence = {
      ...this.#context,
      own: this.#context.paths.logOwn,
      now: this.#context.clock.now(),
    };
    const holes: MendedHole[] = [];
    for (const hole of scan.holes) {
      holes.push(await mendHole(segments, hole, this.#holeCrc, evidence));
    }
    const staleBlank = end < behind ? await this.#staleBlank(end) : undefined;
    const cut = await cutTail(segments, staleBlank ? end : behind, {
      ...evidence,
      trustBlocks: cleanStop && watermarks?.logEnd === end,
      isZero: this.#zeroFrom === behind,
    });
    const logEnd = watermarks?.logEnd ?? 0;
    if (this.#context.syncFailed) {
      await rewriteLog(segments, Math.min(start.offset, logEnd), end, this.#context);
    }
    await this.#forceLog(start.offset, end);
    // Where all messages of a queue are lost its offsets are given all the same.
    for (const queue of queues) {
      const next = queues.deleted.nextOf(queue.topic, queue.queueId);
      if (!queue.exists) queue.nextOffset = Math.max(queue.nextOffset, next);
    }
    const ended = bad ?? staleBlank;
    return {
      last: scan.last ?? (await this.#lastBefore(end)),
      report: {
        cleanStop,
        checkpoint,
        scanStart: start,
        scannedRecords: scan.records,
        end,
        cut: ended && cut.droppedBytes > 0 ? { ...ended, ...cut } : undefined,
        holes,
        left: this.#left,
        gaps: scan.gaps,
        vanished: logEnd > end ? { offset: end, size: logEnd - end } : undefined,
        misplaced: [...new Set([...scan.misplaced, ...rebuilt.misplaced])].sort((a, b) => a - b),
        rebuiltQueues: rebuilt.queues,
        removedFiles: cut.removedFiles,
      },
    };
  }

  get #holeCrc(): HoleCrc {
    const { enabledAppendPropCRC, forceVerifyPropCRC } = this.#context.options;
    return forceVerifyPropCRC ? "always" : enabledAppendPropCRC ? "if it fits" : "never";
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
      await this.#lookAtQueues((queue) => this.#findEnd(queue, oldest));
      return { offset: oldest, why: "asked for: the whole log" };
    }
    let queuesEnd = -1;
    if (cleanStop) {
      await this.#lookAtQueues((queue) => this.#findEnd(queue, Number.POSITIVE_INFINITY));
      for (const queue of queues) queuesEnd = Math.max(queuesEnd, queue.maxPhysicalOffset);
    }
    const start = await chooseScanStart(this.#store, queuesEnd, this.#check);
    if (!cleanStop) {
      await this.#lookAtQueues(async (queue) => {
        await this.#findEnd(queue, start.offset);
        await queue.lookBehind();
      });
    }
    return start;
  }

  async #findEnd(queue: MessageQueue, limit: PhysicalOffset): Promise<void> {
    if (!(await queue.findEnd(limit))) this.#suspects.add(queue);
  }

  /**
   * Drops the units of what lies behind `limit`, where a record ends. What is then the last unit of a
   * queue must be as good as any other.
   *
   * @returns Whether there were any.
   */
  async #cutQueues(limit: PhysicalOffset): Promise<boolean> {
    let wereAny = false;
    for (const queue of this.#store.queues) {
      const { max, maxPhysicalOffset } = queue;
      if (maxPhysicalOffset <= limit) continue;
      await this.#findEnd(queue, limit);
      if (queue.maxPhysicalOffset > limit) this.#suspects.add(queue);
      await this.#compareLastUnit(queue);
      if (queue.max < max) wereAny = true;
    }
    return wereAny;
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

  /** The last unit of a queue must lead to the message that it says, if that can be read. */
  async #compareLastUnit(queue: MessageQueue): Promise<void> {
    const { segments } = this.#store;
    // Units of a light queue lead to records of other topics.
    if (queue.max === 0 || isLightQueue(queue.topic)) return;
    const last = queue.foundLast;
    if (!last || last.offset < (segments.minOffset ?? 0)) return;
    const { offset, size } = last;
    const bytes = await segments.read(offset, size);
    if (!bytes || checkRecord(bytes, 0, bytes.length, offset, this.#check).kind !== "record") {
      return;
    }
    const record = dispatchRequestOf(bytes, 0, this.#context.delayLevels);
    if (
      record.topic !== queue.topic ||
      record.queueId !== queue.queueId ||
      record.queueOffset + messagesIn(queue, record) !== queue.max
    ) {
      this.#suspects.add(queue);
    }
  }

  /**
   * Reads the log from `from` on and gives every record its units.
   *
   * @param units What the queues have already; their units of records below `unitsEnd` are theirs.
   * @param unitsKnown Queues were loaded up to their own ends. With damage in the log they are not to
   *   be believed, and the answer is `"damaged"`.
   */
  async #scan(
    from: PhysicalOffset,
    units: QueueAssemblyContext["units"],
    unitsEnd: PhysicalOffset,
    unitsKnown: boolean,
  ): Promise<Scan | "damaged"> {
    const assembly = this.#assembly(units, unitsEnd, (queue) => !this.#suspects.has(queue));
    const { misplaced } = assembly;
    const holes: LogHole[] = [];
    const gaps: LogRange[] = [];
    let records = 0;
    const newest = { offset: 0, end: 0, storeTimestamp: 0 };
    const lastOf = (): Dispatched | undefined => (records > 0 ? { ...newest } : undefined);
    const visitor: WalkVisitor = {
      record({ physicalOffset, size, storeTimestamp }) {
        records++;
        newest.offset = physicalOffset;
        newest.end = physicalOffset + size;
        newest.storeTimestamp = storeTimestamp;
      },
      gap: (gap) => gaps.push(gap),
      // Queues that know the records behind it cannot tell which of them go on.
      isHole: async ({ offset, size }) =>
        unitsKnown ||
        (await this.#findSuccessor(offset, offset + size, assembly, lastOf())) !== undefined,
    };
    for (let offset = from; ; ) {
      const walk = await this.#walk(offset, Number.POSITIVE_INFINITY, assembly, visitor);
      const { offset: behind, bad, blank } = walk;
      const isEnd = !bad || (await this.#isEnd(bad.offset));
      if (!isEnd && unitsKnown) return "damaged";
      const hole = isEnd ? undefined : await this.#holeAt(bad, assembly, lastOf());
      if (!hole) {
        assembly.finish();
        return {
          end: blank ?? behind,
          behind,
          bad,
          records,
          last: lastOf(),
          holes,
          gaps,
          misplaced,
        };
      }
      holes.push(hole);
      gaps.push(...this.#gapsIn(hole));
      assembly.missed(hole.size);
      offset = hole.offset + hole.size;
    }
  }

  #assembly(
    units: QueueAssemblyContext["units"],
    unitsEnd: PhysicalOffset,
    wanted: QueueAssemblyContext["wanted"],
  ): QueueAssembly {
    const { segments, queues } = this.#store;
    return new QueueAssembly({
      queues,
      multiDispatch: this.#context.options.enableMultiDispatch,
      logMin: segments.minOffset ?? 0,
      logFileSize: segments.fileSize,
      units,
      unitsEnd,
      suspects: this.#suspects,
      wanted,
    });
  }

  /** Walks over whole records, from one on up to `to`, and puts their units together. */
  async #walk(
    from: PhysicalOffset,
    to: PhysicalOffset,
    assembly: QueueAssembly,
    visitor: WalkVisitor,
  ): Promise<Walk> {
    const { segments } = this.#store;
    const cuts = this.#context.options.damagedLogPolicy === "cut";
    let blank: PhysicalOffset | undefined;
    let offset = from;
    for (;;) {
      const met: {
        bad?: BadPlace;
        oddBlank?: Extract<ScanStep, { kind: "blank" }>;
        full?: boolean;
      } = {};
      const take = (request: QueueRequest): ScanAnswer => {
        if (request.physicalOffset >= to) return "stop";
        if (assembly.isFull) {
          met.full = true;
          return "stop";
        }
        blank = undefined;
        visitor.record?.(request);
        assembly.add(request);
        return undefined;
      };
      const visit = (step: ScanStep): ScanAnswer => {
        if (step.offset >= to) return "stop";
        blank = step.kind === "blank" && step.size >= BLANK_SIZE ? step.offset : undefined;
        switch (step.kind) {
          case "record": {
            if (this.#isTorn(step.bytes, step.at, step.offset)) {
              met.bad = this.#tornPlace(step.offset);
              return "stop";
            }
            const request = dispatchRequestOf(step.bytes, step.at, this.#context.delayLevels);
            if (take(request) === "stop") return "stop";
            if (isHoleRecordAt(step.bytes, step.at)) assembly.missed(step.size);
            break;
          }
          case "blank":
            if (step.declaredSize !== step.size && !cuts) {
              met.oddBlank = step;
              return "stop";
            }
            // It may cover a hole: nothing tells it from others.
            assembly.missed(step.size);
            break;
          case "gap":
            visitor.gap?.({ offset: step.offset, size: step.size });
            assembly.missed(step.size);
            break;
          case "bad": {
            const { offset, path, position, reason } = step;
            met.bad = { offset, path, position, reason };
          }
        }
        return undefined;
      };
      offset = await scanLog(segments, offset, this.#check, visit, take);
      const { bad, oddBlank, full } = met;
      if (oddBlank && (await visitor.isHole(oddBlank))) {
        return { offset, bad: this.#damagedBlank(oddBlank), blank: undefined };
      }
      if (oddBlank) {
        assembly.missed(oddBlank.size);
        offset = oddBlank.offset + oddBlank.size;
      } else if (full) {
        await this.#commitQueues();
        assembly.written();
      } else {
        return { offset, bad, blank };
      }
    }
  }

  #damagedBlank({ offset, size, declaredSize }: Extract<ScanStep, { kind: "blank" }>): BadPlace {
    const { path, start } = this.#store.segments.find(offset) as Segment;
    const reason = `a blank record of ${declaredSize} bytes, where ${size} are left in the file`;
    return { offset, path, position: offset - start, reason };
  }

  /** The log goes on in the place of a blank: what is left behind its head must not come back. */
  async #staleBlank(offset: PhysicalOffset): Promise<BadPlace | undefined> {
    const segment = this.#store.segments.find(offset) as Segment;
    const position = offset - segment.start;
    if (await isZeroFrom(this.#context, segment, position + BLANK_SIZE, false)) return undefined;
    return { offset, path: segment.path, position, reason: "a blank record with bytes behind it" };
  }

  /** Whether the log ends at a bad place, whatever whole records follow. */
  async #isEnd(offset: PhysicalOffset): Promise<boolean> {
    const cuts = this.#context.options.damagedLogPolicy === "cut";
    const { cleanStop, checkpoint, segments } = this.#store;
    const trustBlocks = cleanStop && checkpoint.watermarks?.logEnd === offset;
    for (const segment of segments.segments) {
      if (segment.start + segment.size <= offset) continue;
      const from = Math.max(offset - segment.start, 0);
      if (!(await isZeroFrom(this.#context, segment, from, trustBlocks))) return cuts;
    }
    this.#zeroFrom = offset;
    return true;
  }

  /** A bad place that whole records follow is no end but a hole. */
  async #holeAt(
    bad: BadPlace,
    assembly: QueueAssembly,
    last: Dispatched | undefined,
  ): Promise<LogHole | undefined> {
    const next = await this.#findSuccessor(bad.offset, Number.POSITIVE_INFINITY, assembly, last);
    if (!next) return undefined;
    const { offset, storeTimestamp } = next;
    return {
      ...bad,
      size: offset - bad.offset,
      storeTimestamp: last?.storeTimestamp ?? storeTimestamp,
    };
  }

  /** Files that are missing inside a hole. */
  #gapsIn({ offset, size }: LogHole): LogRange[] {
    const { segments } = this.#store;
    const gaps: LogRange[] = [];
    for (let from = offset; from < offset + size; ) {
      const next = segments.find(from) ?? segments.nextFrom(from);
      if (!next) break;
      if (next.start > from) gaps.push({ offset: from, size: next.start - from });
      from = next.start + next.size;
    }
    return gaps;
  }

  /** The first whole record behind a bad place, in files that begin before `to`. */
  async #findSuccessor(
    bad: PhysicalOffset,
    to: PhysicalOffset,
    assembly: QueueAssembly,
    last: Dispatched | undefined,
  ): Promise<{ offset: PhysicalOffset; storeTimestamp: number } | undefined> {
    const { segments } = this.#store;
    let storeTimestamp = 0;
    const accept = (bytes: Buffer, at: number): boolean => {
      const request = dispatchRequestOf(bytes, at, this.#context.delayLevels);
      storeTimestamp = request.storeTimestamp;
      return (
        !this.#isTorn(bytes, at, request.physicalOffset) &&
        this.#isSuccessor(request, assembly, last?.storeTimestamp ?? 0)
      );
    };
    for (let from = bad; ; ) {
      const segment = segments.find(from) ?? segments.nextFrom(from);
      if (!segment || segment.start >= to) return undefined;
      const fileEnd = segment.start + segment.size;
      const start = Math.max(from, segment.start);
      const offset = await findNextRecord(segments, start, this.#check, accept);
      if (offset < fileEnd) return { offset, storeTimestamp };
      from = fileEnd;
    }
  }

  /** After a crash, behind what was durable: whether a power cut tore the record. */
  #isTorn(bytes: Buffer, at: number, offset: PhysicalOffset): boolean {
    const { segments, cleanStop, checkpoint } = this.#store;
    if (cleanStop || offset < (checkpoint.watermarks?.logEnd ?? 0)) return false;
    return isTornRecord(bytes, at, offset - segments.startOf(offset));
  }

  #tornPlace(offset: PhysicalOffset): BadPlace {
    const { path, start } = this.#store.segments.find(offset) as Segment;
    const reason = "a whole sector of its topic or properties is zero";
    return { offset, path, position: offset - start, reason };
  }

  /**
   * Whether a record behind damage belongs to this log. What a store left behind a cut that it did
   * not zero, as RocketMQ's does, is older than the records before the damage, or its places in the
   * queues have been given to others since.
   */
  #isSuccessor(request: DispatchRequest, assembly: QueueAssembly, before: number): boolean {
    return (
      request.storeTimestamp >= before - CLOCK_STEP_MAX_MS &&
      assembly.queuesOf(request).every(([topic, queueId, offset]) => {
        const queue = this.#store.queues.find(topic, queueId);
        return !queue || this.#suspects.has(queue) || offset >= queue.max;
      })
    );
  }

  /** Rebuilds the suspect queues from the whole log, up to `end`; `scanned` is where the scan began. */
  async #rebuild(
    scanned: PhysicalOffset,
    end: PhysicalOffset,
    holes: readonly LogHole[],
  ): Promise<{ queues: string[]; misplaced: ReadonlySet<PhysicalOffset> }> {
    const { segments, queues } = this.#store;
    if (this.#allSuspect) for (const queue of queues) this.#suspects.add(queue);
    const suspects = new Set(this.#suspects);
    if (suspects.size === 0 && !this.#allSuspect) return { queues: [], misplaced: new Set() };
    await this.#disownCheckpoint();
    for (const queue of suspects) await queue.reset();
    const assembly = this.#assembly("none", 0, (queue) => {
      if (this.#allSuspect) suspects.add(queue);
      return suspects.has(queue);
    });
    const visitor: WalkVisitor = {
      isHole: async ({ offset, size }) =>
        offset < scanned
          ? (await findNextRecord(segments, offset, this.#check)) < offset + size
          : holes.some((hole) => hole.offset === offset),
    };
    for (let from = segments.minOffset ?? 0; from < end; ) {
      const { offset, bad } = await this.#walk(from, end, assembly, visitor);
      if (!bad) break;
      const hole = holes.find((found) => found.offset === offset);
      if (!hole) this.#left.push(bad);
      from = hole ? offset + hole.size : await findNextRecord(segments, offset, this.#check);
      assembly.missed(from - offset);
    }
    assembly.finish();
    const names = [...suspects].filter((queue) => queue.exists).map(nameOf);
    return { queues: names.sort(), misplaced: assembly.misplaced };
  }

  /** A rebuild that is cut short must begin anew: until it is done nothing vouches for a queue. */
  async #disownCheckpoint(): Promise<void> {
    const { paths, fileSystem } = this.#context;
    const { longs, watermarks } = this.#store.checkpoint;
    const none: CheckpointLongs = {
      ...NO_CHECKPOINT.longs,
      indexMsgTimestamp: longs.indexMsgTimestamp,
      masterFlushedOffset: longs.masterFlushedOffset,
    };
    const from = this.#store.segments.minOffset ?? 0;
    const index = watermarks?.index;
    const nothing: Watermarks = {
      logEnd: from,
      queuesEnd: from,
      queueCount: 0,
      unitCount: 0,
      index,
    };
    await writeCheckpoint(
      fileSystem,
      { path: paths.checkpoint, staging: paths.own },
      none,
      nothing,
    );
  }

  async #commitQueues(): Promise<void> {
    await inParallel(this.#store.queues, (queue) => queue.commit());
  }

  /** @param untouched Nothing was cut or rebuilt after a clean stop of ours: what lies behind is zero. */
  async #settleQueues(untouched: boolean): Promise<void> {
    const logMin = this.#store.segments.minOffset ?? 0;
    await this.#commitQueues();
    if (!untouched) {
      await this.#lookAtQueues(async (queue) => {
        await queue.clearBehind();
      });
    }
    await inParallel([...this.#store.queues], async (queue) => {
      if (queue.hasUnforcedFiles) await queue.force();
      await this.#syncExpired(queue);
    });
    await this.#lookAtQueues((queue) => queue.correctMin(logMin));
  }

  async #lookAtQueues(look: (queue: MessageQueue) => Promise<void>): Promise<void> {
    await inParallel([...this.#store.queues], look, LOOKS_AT_ONCE);
  }

  /** Files that a killed process deleted from the front of a queue must not come back. */
  async #syncExpired(queue: MessageQueue): Promise<void> {
    if (this.#store.cleanStop) return;
    for (const files of [queue, queue.extension]) {
      const start = files?.segments[0]?.start ?? 0;
      if (files && start > 0) await this.#syncDirectory(files.directory);
    }
  }

  async #syncDirectory(path: string): Promise<void> {
    try {
      await this.#context.fileSystem.syncDirectory(path);
    } catch (cause) {
      throw new StoreError("STORE_IO", `Cannot sync ${path}`, { path, cause });
    }
  }

  /** What a killed process wrote is in the page cache only: it becomes durable here. */
  async #forceLog(from: PhysicalOffset, end: PhysicalOffset): Promise<void> {
    for (const { path, start, size } of this.#store.segments.segments) {
      if (start >= end || start + size <= from) continue;
      try {
        await this.#context.files.use(path, (file) => file.fdatasync());
      } catch (cause) {
        // The next open would find in the page cache what this sync did not bring to the device.
        await noteFailedSync(this.#context.fileSystem, this.#context.paths.syncFailed);
        throw new StoreError("STORE_IO", `Cannot sync ${path}`, { path, cause });
      }
    }
    // Nor was its name, if the process was killed between the rename and this sync.
    const { directory, first } = this.#store.segments;
    if (first) await this.#syncDirectory(directory);
  }

  /** The newest record that the checkpoint or the queues know: the scan met none. */
  async #lastBefore(end: PhysicalOffset): Promise<Dispatched> {
    const { watermarks, longs } = this.#store.checkpoint;
    if (watermarks?.queuesEnd === end) {
      // It need not have a queue.
      const offset = longs.logicsPhysicalOffset;
      const storeTimestamp = await this.#storeTimeAt(offset, end - offset);
      if (storeTimestamp !== undefined) return { offset, end, storeTimestamp };
    }
    const byEnd = [...this.#store.queues].sort((a, b) => b.maxPhysicalOffset - a.maxPhysicalOffset);
    for (const queue of byEnd) {
      if (queue.max === queue.min) continue;
      const unit = await queue.units(queue.max - 1, 1);
      if (unit.length === 0 || isFiller(unit, 0)) continue;
      const offset = unitOffset(unit, 0);
      const storeTimestamp = await this.#storeTimeAt(offset, unitSize(unit, 0));
      if (storeTimestamp !== undefined) return { offset, end, storeTimestamp };
    }
    return { offset: 0, end, storeTimestamp: 0 };
  }

  /** Of the record that has these bytes, if they are one. */
  async #storeTimeAt(offset: PhysicalOffset, size: number): Promise<number | undefined> {
    const bytes = size > 0 ? await this.#store.segments.read(offset, size) : undefined;
    if (!bytes) return undefined;
    const check = checkRecord(bytes, 0, bytes.length, offset, this.#check);
    if (check.kind !== "record" || check.size !== size) return undefined;
    return dispatchRequestOf(bytes, 0, this.#context.delayLevels).storeTimestamp;
  }
}

function nameOf({ topic, queueId }: MessageQueue): string {
  return `${topic}/${queueId}`;
}
