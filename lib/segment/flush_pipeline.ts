/**
 * Commit and force. RocketMQ: `FlushManager` with `GroupCommitService`, `FlushRealTimeService` and
 * `CommitRealTimeService`, as one pipeline of three offsets of the whole log:
 *
 *     flushed ≤ committed ≤ wrote
 *
 * - *append* copies a record into the write buffer and moves `wrote`;
 * - *commit* writes buffered bytes to their file (a killed process loses nothing below `committed`);
 * - *force* syncs the files (a power cut loses nothing below `flushed`).
 *
 * At most one force is in flight; whoever comes meanwhile joins the next. A force covers what was
 * committed before it began. The first commit or force that fails latches the pipeline: every
 * waiting and later request fails with that cause, and nothing is tried again as if it had worked,
 * since after a failed sync the kernel may have dropped the pages.
 *
 * One failure is none of these: a write that finds no space. Nothing was promised of its bytes, and
 * they are still in the buffer. Whoever waits is told so, nobody is let in, and the same bytes are
 * written to the same place once there is space.
 *
 * @module
 */

import { setImmediate } from "node:timers";
import { StoreError } from "../errors.ts";
import type { Clock, Timer } from "../io/clock.ts";
import type { FileHandle, FileSystem } from "../io/file_system.ts";
import { commitAndForceFully, writeFully, writeFullyNow } from "../io/fully.ts";
import { nextLoop } from "../io/soon.ts";
import { hasCode, type SystemError } from "../io/system_error.ts";
import type { ResolvedOptions } from "../options.ts";
import { OS_PAGE_SIZE, type PhysicalOffset } from "../units.ts";
import type { OpenFiles } from "./open_files.ts";
import { positionIn, type Segment } from "./segment.ts";
import { Turn } from "./turn.ts";
import { type Refusals, Waiters } from "./waiters.ts";
import type { Piece, WriteBuffer } from "./write_buffer.ts";
import type { ZeroFiller } from "./zero_filler.ts";

/** Most bytes that a commit writes on the main thread: 256 KiB take about 60 µs. */
const NOW_BYTES_MAX = 256 * 1024;
/**
 * A write on the main thread that took so long was held back by the kernel, in ms: where writers
 * are faster than the device, it lets them sleep for 10 ms and more (`balance_dirty_pages`). A
 * thread that only lost its processor is back sooner.
 */
const HELD_BACK_MS = 10;
/**
 * The commits then go through a thread for as long as that took. If it happens again so soon after
 * that, in ms, it was no accident: for so many times as long as the last time, up to a most.
 */
const HELD_BACK_AGAIN_MS = 200;
const HELD_BACK_FACTOR = 4;
const HELD_BACK_FACTOR_MAX = 64;
/** Most bytes of one write: what a thread writes without a look at who else came. */
const PIECE_BYTES_MAX = 16 * 1024 * 1024;
/**
 * Puts that are told of their end in one turn of the event loop, and their bytes: most callers put
 * again at once, which takes a quarter of a millisecond then; 16 MiB would take 20 ms.
 */
const TOLD_AT_ONCE = { count: 64, bytes: 1024 * 1024 } as const;
/** Without space a write is tried again after so long, in ms. */
const NO_SPACE_RETRY_MS = 500;
/** A force that takes longer is reported, in ms (`CommitLog`: "flush data to disk costs"). */
const SLOW_FORCE_MS = 500;

/** What the pipeline tells, each before the puts that waited for it resolve. */
export interface PipelineListener {
  committed(offset: PhysicalOffset): void;
  flushed(offset: PhysicalOffset): void;
  failed(error: StoreError): void;
  /** A write found no space; `undefined`: one that was tried again did. */
  noSpace(error: StoreError | undefined): void;
  /** A force took `ms`. */
  slowForce(ms: number): void;
  /** A write or force ended at `now`, monotonic: those who waited for it are told next. */
  ended?(now: number): void;
  /** A force that took `ms` has made everything below `offset` durable. */
  forced?(ms: number, offset: PhysicalOffset): void;
  /** The log goes on in the file that starts there. */
  rolled?(start: PhysicalOffset): void;
  /** A promise resolves with `value`. */
  told?(value: unknown): void;
}

export interface PipelineContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  readonly buffer: WriteBuffer;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  /** The files between two offsets, in ascending order. */
  readonly segmentsBetween: (from: PhysicalOffset, to: PhysicalOffset) => readonly Segment[];
  readonly listener: PipelineListener;
  /** SYNC_FLUSH: writes zeros ahead of the log. */
  readonly filler?: ZeroFiller | undefined;
  /** Notes beside the log that a sync failed, before anybody hears of it. Never rejects. */
  readonly noteFailedSync: () => Promise<void>;
}

/** What a put waits for. */
export type Promised = "append" | "commit" | "force";

export class FlushPipeline {
  readonly #context: PipelineContext;
  readonly #options: ResolvedOptions;
  readonly #clock: Clock;
  readonly #buffer: WriteBuffer;
  readonly #sync: boolean;
  readonly #pool: boolean;

  #wrote: PhysicalOffset;
  #committed: PhysicalOffset;
  #flushed: PhysicalOffset;
  #failure: StoreError | undefined;
  #noSpace: StoreError | undefined;
  #closed = false;

  readonly #commitWaiters: Waiters;
  readonly #forceWaiters: Waiters;
  /** Waits without a deadline: `durable()` and `flush()`; their ends come in any order. */
  readonly #durableWaiters = new Set<{
    readonly end: PhysicalOffset;
    readonly resolve: () => void;
    readonly reject: (error: Error) => void;
  }>();

  #commitScheduled = false;
  #committing: Promise<void> | undefined;
  readonly #turn = new Turn();
  #lastAppendBytes = 0;
  #tellScheduled = false;
  #heldBackUntil = Number.NEGATIVE_INFINITY;
  #heldBackFactor = 1;
  #writeStartedAt: number | undefined;
  #forceWanted = false;
  #forcing: Promise<void> | undefined;
  /** A sync is on its way. */
  #syncing = false;
  #commitTimer: Timer | undefined;
  #flushTimer: Timer | undefined;
  #noSpaceTimer: Timer | undefined;
  #deadlineTimer: Timer | undefined;
  #lastCommitAt = Number.NEGATIVE_INFINITY;
  #lastThoroughFlushAt = Number.NEGATIVE_INFINITY;

  /** Syncs carried out, writes carried out, and the bytes of these. */
  readonly counters = { forces: 0, commits: 0, committedBytes: 0, longestForceMs: 0 };

  /** @param start Where recovery found the end of the log: durable up to there. */
  constructor(context: PipelineContext, start: PhysicalOffset) {
    this.#context = context;
    this.#options = context.options;
    this.#clock = context.clock;
    this.#buffer = context.buffer;
    this.#sync = context.options.flushDiskType === "SYNC_FLUSH";
    this.#pool = context.options.transientStorePoolEnable;
    const { listener } = context;
    const told = listener.told && ((value: unknown) => listener.told?.(value));
    this.#commitWaiters = new Waiters(told);
    this.#forceWaiters = new Waiters(told);
    this.#wrote = start;
    this.#committed = start;
    this.#flushed = start;
  }

  get wrote(): PhysicalOffset {
    return this.#wrote;
  }

  get committed(): PhysicalOffset {
    return this.#committed;
  }

  get flushed(): PhysicalOffset {
    return this.#flushed;
  }

  /** The first failure, which ended all writing. */
  get failure(): StoreError | undefined {
    return this.#failure;
  }

  /** The device has no space for what is in the buffer; nothing may be appended until it has. */
  get noSpace(): StoreError | undefined {
    return this.#noSpace;
  }

  /** For how long the write under way has been holding the log up, in ms; 0 without one. */
  get busyForMs(): number {
    return this.#writeStartedAt === undefined ? 0 : this.#clock.monotonic() - this.#writeStartedAt;
  }

  /** Puts that wait for their force, and for how long the first of them has, in ms. */
  get forceQueue(): { readonly length: number; readonly oldestMs: number } {
    const { first, size } = this.#forceWaiters;
    const since = first && first.deadline - this.#options.syncFlushTimeout;
    return { length: size, oldestMs: since === undefined ? 0 : this.#clock.monotonic() - since };
  }

  /** What a put waits for in this mode, if it waits for the store (`WAIT` not false) or does not. */
  promised(waitStoreMsgOK: boolean): Promised {
    if (this.#sync && waitStoreMsgOK) return "force";
    return this.#pool ? "append" : "commit";
  }

  /** Called after each append, in the same turn, with the log's new end. */
  appended(end: PhysicalOffset): void {
    this.#lastAppendBytes = end - this.#wrote;
    if (!this.#sync || this.#pool) this.#turn.spend(this.#lastAppendBytes);
    this.#wrote = end;
    if (this.#sync) {
      this.#wantForce();
    } else if (!this.#pool) {
      this.#scheduleCommit();
    } else if (this.#options.wakeCommitWhenPutMessage && this.#commitGateOpen()) {
      this.#scheduleCommit();
    } else {
      this.#armCommitTimer();
    }
  }

  /** The log goes on in the file that starts at `start`: an append follows in the same turn. */
  rolled(start: PhysicalOffset): void {
    this.#wrote = start;
    this.#context.listener.rolled?.(start);
  }

  /** Somebody waits for room in the write buffer: commit what there is, whatever the gates say. */
  makeRoom(): void {
    if (this.#sync) this.#wantForce();
    else this.#scheduleCommit();
  }

  /** Keeps the promise of a put that ends at `end`: resolves with `value` then. */
  keep<T>(promised: Promised, end: PhysicalOffset, value: T, refusals: Refusals<T>): Promise<T> {
    if (this.#failure) return Promise.reject(refusals.failed(value, this.#failure));
    if (promised === "append") {
      if (!this.#turn.over) return Promise.resolve(value);
      return this.#turn.next(this.#lastAppendBytes).then(() => {
        if (this.#failure) throw refusals.failed(value, this.#failure);
        return value;
      });
    }
    const timed = promised === "force";
    const deadline = timed
      ? this.#clock.monotonic() + this.#options.syncFlushTimeout
      : Number.POSITIVE_INFINITY;
    const promise = new Promise<T>(takeSettlers);
    const { resolve, reject } = settlers;
    const waiter = { end, deadline, value, resolve, reject, refusals };
    if (!timed) {
      this.#commitWaiters.push(waiter);
    } else {
      this.#forceWaiters.push(waiter);
      if (this.#forceWaiters.size === 1) this.#armDeadline();
    }
    return promise;
  }

  /**
   * Resolves once everything below `offset` would survive a power cut. Does not hurry the force.
   *
   * @throws {StoreError} the failure that ended all writing; `STORE_CLOSED` if it never will.
   */
  durable(offset: PhysicalOffset, signal?: AbortSignal): Promise<void> {
    if (offset <= this.#flushed) return Promise.resolve();
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#closed) return Promise.reject(neverDurable(offset));
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const settled = (): void => signal?.removeEventListener("abort", aborted);
      const waiter = {
        end: offset,
        resolve: () => {
          settled();
          resolve();
        },
        reject: (error: Error) => {
          settled();
          reject(error);
        },
      };
      const aborted = (): void => {
        this.#durableWaiters.delete(waiter);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", aborted, { once: true });
      this.#durableWaiters.add(waiter);
    });
  }

  /**
   * Commits and forces everything that has been appended.
   *
   * @throws {StoreError} the failure that ended all writing, or that there is no space.
   */
  flush(): Promise<void> {
    const done = this.durable(this.#wrote);
    if (!this.#failure && this.#flushed < this.#wrote) this.#wantForce();
    return done;
  }

  /**
   * Commits and forces all, then stops the services. Every promise given has settled afterwards.
   *
   * @throws {StoreError} the failure that ended all writing, or that there is no space.
   */
  async close(): Promise<void> {
    try {
      await this.flush();
    } finally {
      this.#closed = true;
      this.#commitTimer?.cancel();
      this.#flushTimer?.cancel();
      this.#noSpaceTimer?.cancel();
      this.#deadlineTimer?.cancel();
      await Promise.all([this.#committing, this.#forcing]);
      await this.#context.filler?.close();
      this.#tellAll();
      for (const { end, reject } of this.#durableWaiters) reject(neverDurable(end));
      this.#durableWaiters.clear();
    }
  }

  /** Ends all writing: nothing below is ever acknowledged again. */
  fail(error: StoreError): void {
    if (this.#failure) return;
    this.#failure = error;
    this.#context.listener.failed(error);
    this.#failWaiters(error);
  }

  #failWaiters(error: StoreError): void {
    // What had been reached before it is no part of the failure.
    this.#tellAll();
    this.#commitWaiters.failAll(error);
    this.#forceWaiters.failAll(error);
    for (const waiter of this.#durableWaiters) waiter.reject(error);
    this.#durableWaiters.clear();
  }

  // Commit.

  #scheduleCommit(): void {
    if (this.#commitScheduled || this.#committing) return;
    this.#commitScheduled = true;
    // At the end of this stretch of JavaScript: all that is put in it shares one write.
    if (this.#turn.over) setImmediate(this.#commitTurn);
    else process.nextTick(this.#commitTurn);
  }

  readonly #commitTurn = (): void => {
    this.#commitScheduled = false;
    if (this.#failure || this.#committing) return;
    const piece = this.#buffer.next(PIECE_BYTES_MAX);
    if (!piece) return;
    const handle = this.#context.files.ready(piece.segment.path);
    const startedAt = this.#clock.monotonic();
    // Not beside a sync: while it writes the journal, whoever writes to the same file waits for it.
    const now =
      handle !== undefined &&
      piece.bytes <= NOW_BYTES_MAX &&
      piece.segment.unverifiedIdentity === undefined &&
      !this.#syncing &&
      startedAt >= this.#heldBackUntil;
    if (!now) {
      this.#committing = this.#commitInThread();
      return;
    }
    try {
      writeFullyNow(handle, piece.buffers, piece.position);
    } catch (cause) {
      this.#writeFailedAt(piece.segment, piece.position, cause);
      return;
    }
    const endedAt = this.#clock.monotonic();
    if (endedAt - startedAt >= HELD_BACK_MS) this.#heldBack(startedAt, endedAt);
    this.#committedPiece(piece, endedAt);
    if (this.#buffer.pendingBytes > 0) this.#scheduleCommit();
  };

  /** A write stood still: once may be an accident, which must cost a lone producer little. */
  #heldBack(startedAt: number, endedAt: number): void {
    this.#heldBackFactor =
      startedAt - this.#heldBackUntil < HELD_BACK_AGAIN_MS
        ? Math.min(this.#heldBackFactor * HELD_BACK_FACTOR, HELD_BACK_FACTOR_MAX)
        : 1;
    this.#heldBackUntil = endedAt + this.#heldBackFactor * (endedAt - startedAt);
  }

  /** Commits what waits now. Never rejects. */
  async #commitInThread(): Promise<void> {
    try {
      await this.#commitAll();
    } finally {
      this.#committing = undefined;
      // Put by those whom the commit released: perhaps the main thread can take it again.
      if (this.#buffer.pendingBytes > 0 && !this.#noSpace) this.#scheduleCommit();
    }
  }

  /**
   * Not what is put meanwhile: a producer that awaits each commit would never let this end.
   *
   * @returns Whether all could be written.
   */
  async #commitAll(): Promise<boolean> {
    const wanted = this.#wrote;
    while (this.#committed < wanted && !this.#failure) {
      const piece = this.#buffer.next(PIECE_BYTES_MAX);
      if (!piece) break;
      const { buffers, position } = piece;
      // A sync may take its time; a write that goes on for so long holds the log up.
      this.#writeStartedAt = this.#clock.monotonic();
      const written = await this.#write(piece, (handle) => writeFully(handle, buffers, position));
      this.#writeStartedAt = undefined;
      if (!written) return false;
    }
    return !this.#failure;
  }

  /** Writes a piece with `action` and moves `committed`, or latches. */
  async #write(piece: Piece, action: (handle: FileHandle) => Promise<void>): Promise<boolean> {
    const { segment, position } = piece;
    try {
      if (segment.unverifiedIdentity !== undefined) await this.#verify(segment);
      const zeros = this.#context.filler?.clear(segment, position + piece.bytes);
      if (zeros) await zeros;
      await this.#context.files.use(segment.path, action);
    } catch (cause) {
      if (isSync(cause)) await this.#context.noteFailedSync();
      this.#writeFailedAt(segment, position, cause);
      return false;
    }
    if (this.#failure) return false;
    this.#context.filler?.advance(segment, position + piece.bytes);
    this.#committedPiece(piece, this.#clock.monotonic());
    return true;
  }

  #committedPiece(piece: Piece, now: number): void {
    this.#buffer.release(piece);
    this.#committed = piece.end;
    this.counters.commits++;
    this.counters.committedBytes += piece.bytes;
    this.#lastCommitAt = now;
    this.#context.listener.ended?.(now);
    if (this.#noSpace) {
      this.#noSpace = undefined;
      this.#noSpaceTimer?.cancel();
      this.#noSpaceTimer = undefined;
      this.#context.listener.noSpace(undefined);
    }
    this.#context.listener.committed(piece.end);
    this.#tell();
    if (!this.#sync) this.#afterAsyncCommit();
  }

  #afterAsyncCommit(): void {
    if (this.#options.wakeFlushWhenPutMessage && !this.#options.flushCommitLogTimed) {
      this.#flushRound();
    } else {
      this.#armFlushTimer();
    }
  }

  /** A file that was made ahead must still be there before its first byte is written. */
  async #verify(segment: Segment): Promise<void> {
    const identity = segment.unverifiedIdentity as string;
    await verifyIdentity(this.#context.fileSystem, segment.path, identity);
    segment.unverifiedIdentity = undefined;
  }

  #commitGateOpen(): boolean {
    return this.#gateOpen(this.#committed, this.#wrote, this.#options.commitCommitLogLeastPages);
  }

  #armCommitTimer(): void {
    if (this.#commitTimer || this.#closed) return;
    this.#commitTimer = this.#clock.setTimer(
      () => {
        this.#commitTimer = undefined;
        if (this.#failure || this.#closed || this.#committed === this.#wrote) return;
        const since = this.#clock.monotonic() - this.#lastCommitAt;
        if (since >= this.#options.commitCommitLogThoroughInterval || this.#commitGateOpen()) {
          this.#scheduleCommit();
        } else {
          this.#armCommitTimer();
        }
      },
      this.#options.commitIntervalCommitLog,
      { keepAlive: true },
    );
  }

  // Force.

  #wantForce(): void {
    this.#forceWanted = true;
    if (this.#forcing || this.#failure) return;
    this.#forcing = nextTurn().then(() => this.#forceWhileWanted());
  }

  /** Never rejects. */
  async #forceWhileWanted(): Promise<void> {
    try {
      while (this.#forceWanted && !this.#failure) {
        this.#forceWanted = false;
        if (this.#sync) await this.#commitAndForce();
        else await this.#commitThenForce();
        // Those whom it released put again, and share the next one: without the second turn those of 100
        // callers would be in two of them.
        await nextTurn();
        if (this.#tellScheduled) await nextLoop();
      }
    } finally {
      this.#forcing = undefined;
    }
  }

  /** SYNC_FLUSH: this loop is the only writer; it writes and syncs in one hop wherever it can. */
  async #commitAndForce(): Promise<void> {
    const commits = this.#commitWaiters.size > 0 || this.#options.readUnCommitted;
    if (commits && !(await this.#commitAll())) return;
    const piece = this.#buffer.next(PIECE_BYTES_MAX);
    const target = piece ? piece.segment.start : this.#committed;
    if (this.#flushed < target) {
      const startedAt = this.#clock.monotonic();
      if (!(await this.#forceFiles(this.#flushed, target))) return;
      if (!piece) this.#forced(startedAt, target);
    }
    if (!piece) return;
    const startedAt = this.#clock.monotonic();
    const { buffers, position, end } = piece;
    const written = await this.#write(piece, (handle) =>
      commitAndForceFully(handle, buffers, position),
    );
    if (!written) return;
    if (this.#buffer.pendingBytes > 0) this.#forceWanted = true;
    this.#forced(startedAt, end);
  }

  /** The asynchronous modes: the commits go on while this waits for the device. */
  async #commitThenForce(): Promise<void> {
    // Somebody may have asked for what is still in the buffer.
    const wanted = this.#durableWaiters.size > 0 ? this.#wrote : 0;
    while (this.#committed < wanted && !this.#failure) {
      this.#committing ??= this.#commitInThread();
      await this.#committing;
      if (this.#noSpace) return;
    }
    const target = this.#committed;
    if (this.#failure || this.#flushed === target) return;
    const startedAt = this.#clock.monotonic();
    if (await this.#forceFiles(this.#flushed, target)) this.#forced(startedAt, target);
    if (this.#flushed < this.#committed) this.#armFlushTimer();
  }

  /** Syncs, in ascending order, the files with bytes between the two offsets. */
  async #forceFiles(from: PhysicalOffset, to: PhysicalOffset): Promise<boolean> {
    for (const segment of this.#context.segmentsBetween(from, to)) {
      this.#syncing = true;
      try {
        await this.#context.files.use(segment.path, (handle) => handle.fdatasync());
      } catch (cause) {
        await this.#context.noteFailedSync();
        this.#failedAt("sync", segment, positionIn(segment, from), cause);
        return false;
      } finally {
        this.#syncing = false;
      }
    }
    return !this.#failure;
  }

  #forced(startedAt: number, offset: PhysicalOffset): void {
    const now = this.#clock.monotonic();
    const tookMs = now - startedAt;
    this.#context.listener.ended?.(now);
    this.#context.listener.forced?.(tookMs, offset);
    this.counters.forces++;
    this.counters.longestForceMs = Math.max(this.counters.longestForceMs, tookMs);
    if (tookMs > SLOW_FORCE_MS) this.#context.listener.slowForce(tookMs);
    this.#flushed = offset;
    this.#context.listener.flushed(offset);
    this.#tell();
    for (const waiter of this.#durableWaiters) {
      if (waiter.end > offset) continue;
      this.#durableWaiters.delete(waiter);
      waiter.resolve();
    }
  }

  #armFlushTimer(): void {
    if (this.#flushTimer || this.#closed) return;
    this.#flushTimer = this.#clock.setTimer(() => {
      this.#flushTimer = undefined;
      this.#flushRound();
    }, this.#options.flushIntervalCommitLog);
  }

  #flushRound(): void {
    if (this.#failure || this.#closed || this.#flushed === this.#committed) return;
    const now = this.#clock.monotonic();
    let leastPages = this.#options.flushCommitLogLeastPages;
    if (now >= this.#lastThoroughFlushAt + this.#options.flushCommitLogThoroughInterval) {
      this.#lastThoroughFlushAt = now;
      leastPages = 0;
    }
    if (this.#gateOpen(this.#flushed, this.#committed, leastPages)) this.#wantForce();
    else this.#armFlushTimer();
  }

  /** `isAbleToFlush` and `isAbleToCommit`: a full file passes, otherwise so many whole pages. */
  #gateOpen(from: PhysicalOffset, to: PhysicalOffset, leastPages: number): boolean {
    const size = this.#options.mappedFileSizeCommitLog;
    if (Math.floor(from / size) !== Math.floor(to / size)) return true;
    if (leastPages === 0) return to > from;
    const pages = (offset: number) => Math.floor((offset % size) / OS_PAGE_SIZE);
    return pages(to) - pages(from) >= leastPages;
  }

  // Promises, deadlines and failures.

  /** Resolves the puts that are committed or forced, in order, and not too many in one turn. */
  #tell(): void {
    if (this.#tellScheduled) return;
    const committed = this.#commitWaiters.resolveTo(this.#committed, TOLD_AT_ONCE);
    const forced = this.#forceWaiters.resolveTo(this.#flushed, TOLD_AT_ONCE);
    if (committed && forced) return;
    this.#tellScheduled = true;
    setImmediate(() => {
      this.#tellScheduled = false;
      this.#tell();
    });
  }

  #tellAll(): void {
    this.#commitWaiters.resolveTo(this.#committed);
    this.#forceWaiters.resolveTo(this.#flushed);
  }

  #armDeadline(): void {
    const first = this.#forceWaiters.first;
    if (!first || this.#deadlineTimer) return;
    const ms = Math.max(0, first.deadline - this.#clock.monotonic());
    this.#deadlineTimer = this.#clock.setTimer(() => {
      this.#deadlineTimer = undefined;
      this.#tellAll();
      const now = this.#clock.monotonic();
      for (
        let waiter = this.#forceWaiters.first;
        waiter && waiter.deadline <= now;
        waiter = this.#forceWaiters.first
      ) {
        this.#forceWaiters.shift();
        waiter.reject(waiter.refusals.expired(waiter.value));
      }
      this.#armDeadline();
    }, ms);
  }

  #writeFailedAt(segment: Segment, position: number, cause: unknown): void {
    if (!hasCode(cause, "ENOSPC", "EDQUOT") || isSync(cause)) {
      this.#failedAt("write", segment, position, cause);
      return;
    }
    const isNew = this.#noSpace === undefined;
    const error = ioError("write", segment, position, cause);
    this.#noSpace = error;
    if (isNew) this.#context.listener.noSpace(error);
    this.#failWaiters(error);
    this.#armNoSpaceTimer();
  }

  #armNoSpaceTimer(): void {
    if (this.#noSpaceTimer || this.#closed) return;
    this.#noSpaceTimer = this.#clock.setTimer(
      () => {
        this.#noSpaceTimer = undefined;
        if (this.#failure || this.#closed) return;
        if (this.#sync) this.#wantForce();
        else this.#scheduleCommit();
      },
      NO_SPACE_RETRY_MS,
      // What the pool has acknowledged must not be lost by an end of the process.
      { keepAlive: this.#pool },
    );
  }

  #failedAt(what: "write" | "sync", segment: Segment, position: number, cause: unknown): void {
    this.fail(cause instanceof StoreError ? cause : ioError(what, segment, position, cause));
  }
}

/** Whether a write that includes its sync failed in that. */
function isSync(cause: unknown): boolean {
  return /sync/.test((cause as Partial<SystemError>).syscall ?? "");
}

export function ioError(
  what: "write" | "sync",
  segment: Segment,
  position: number,
  cause: unknown,
): StoreError {
  return new StoreError("STORE_IO", `Cannot ${what} ${segment.path} at ${position}`, {
    path: segment.path,
    position,
    offset: segment.start + position,
    cause,
  });
}

/**
 * Makes sure that `path` still leads to the file that was created under it.
 *
 * @throws {StoreError} `STORE_FILES_VANISHED` if it does not.
 */
export async function verifyIdentity(
  fileSystem: FileSystem,
  path: string,
  identity: string,
): Promise<void> {
  let found: string | undefined;
  try {
    found = (await fileSystem.stat(path)).identity;
  } catch (cause) {
    if ((cause as { code?: string }).code !== "ENOENT") throw cause;
  }
  if (found === identity) return;
  throw new StoreError(
    "STORE_FILES_VANISHED",
    `Cannot write ${path}: it was ${found === undefined ? "removed" : "replaced"} by somebody else`,
    { path },
  );
}

/** The two functions of the promise that was made last: an executor for each would cost a closure. */
const settlers = {
  resolve: (_: unknown): void => undefined,
  reject: (_: unknown): void => undefined,
};

function takeSettlers(resolve: (value: never) => void, reject: (error: unknown) => void): void {
  settlers.resolve = resolve as (value: unknown) => void;
  settlers.reject = reject;
}

function neverDurable(offset: PhysicalOffset): StoreError {
  return new StoreError("STORE_CLOSED", `Cannot wait for ${offset}: the store was closed before`, {
    offset,
  });
}

/** After this stretch of JavaScript and all that it released. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
