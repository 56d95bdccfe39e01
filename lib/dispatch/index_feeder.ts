/**
 * Keeps the index at the end of the log. RocketMQ: `CommitLogDispatcherBuildIndex`.
 *
 * Records come from the dispatcher as they become readable. Where that is not enough the log is read:
 * behind a crash, over a time without an index, after a file of it was lost or a device refused a write.
 *
 *     log      ........ indexed ........ readable
 *     live              both are the same: each record is indexed in the turn that makes it readable
 *     behind            the log between them is read, in the background, until they are the same
 *
 * So the index never holds up a put, and its failure stops nothing else. A search waits until what was
 * readable when it began is indexed.
 *
 * @module
 */

import type { CheckpointLongs, IndexMark } from "../checkpoint/store_checkpoint.ts";
import { findNextRecord, scanLog } from "../commit_log/log_scanner.ts";
import { StoreError } from "../errors.ts";
import type { IndexFileContext } from "../index/index_file.ts";
import { loadIndex } from "../index/index_loader.ts";
import type { KeyIndex } from "../index/key_index.ts";
import type { Clock, Timer } from "../io/clock.ts";
import { type DispatchRequest, dispatchRequestOf } from "../message/dispatch_request.ts";
import type { DelayLevels } from "../message/tags_code.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import type { PhysicalOffset } from "../units.ts";

/** Entries in memory from which on they are written, in bytes. */
const COMMIT_BYTES = 1024 * 1024;
/** Entries that may be in memory: with more the index falls behind. */
const UNWRITTEN_BYTES_MAX = 64 * 1024 * 1024;
/** After a failure it is tried again in so many ms. */
const RETRY_MS = 1000;
/** A checkpoint that vouches for no file of the index. */
const NOTHING: IndexMark = {
  end: 0,
  files: 0,
  newest: "",
  count: 0,
  endTimestamp: 0,
  fullTimestamp: 0,
};
/** Bodies matter to who reads a message, not to its keys. */
const CHECK = { checkCrc: false, forceVerifyPropCRC: false };

export interface IndexFeederContext {
  readonly index: KeyIndex;
  readonly files: IndexFileContext;
  readonly segments: SegmentQueue;
  readonly clock: Clock;
  readonly delayLevels: DelayLevels;
  /** Keys are indexed; else the index stays as it is. */
  readonly enabled: boolean;
  readonly cleanStop: boolean;
  readonly longs: CheckpointLongs;
  /** What the checkpoint vouches for. */
  readonly mark: IndexMark | undefined;
  /** Everything is to be made anew. */
  readonly anew: boolean;
  /** The log is readable below. */
  readonly visible: () => PhysicalOffset;
  /** Writes the checkpoint. */
  readonly publish: () => Promise<void>;
  readonly warn: (text: string) => void;
}

interface Waiter {
  readonly offset: PhysicalOffset;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class IndexFeeder {
  readonly #context: IndexFeederContext;
  /** The keys of every record below are in the index. */
  #indexed: PhysicalOffset = 0;
  /** The files are known. */
  #loaded = false;
  #live = false;
  #closed = false;
  #isRunning = false;
  /** The last run, under way or ended. */
  #running: Promise<void> | undefined;
  /** What failed last; gone once all is indexed. */
  #failure: StoreError | undefined;
  #waiters: Waiter[] = [];
  #retry: { readonly timer: Timer; readonly wake: () => void } | undefined;
  /** What the last checkpoint says. */
  #durable: IndexMark | undefined;
  #committing = false;
  /** The first record to be read is the last one that is indexed: these of its keys are. */
  #done: { readonly offset: PhysicalOffset; readonly hashes: ReadonlySet<number> } | undefined;
  #opened = false;
  /** Where the log ended before anything was put. */
  readonly #endAtOpen: PhysicalOffset;
  /** No file is to be believed at first. */
  readonly #anew: boolean;

  constructor(context: IndexFeederContext) {
    this.#context = context;
    const { mark, anew, visible } = context;
    this.#endAtOpen = visible();
    // The log has lost what the index had: nothing may vouch for it once there is more again.
    this.#anew = anew || (mark !== undefined && mark.end > this.#endAtOpen);
    this.#durable = this.#anew ? NOTHING : mark;
  }

  /** A record has become readable; the next one by the order of the log. */
  dispatched(request: DispatchRequest): void {
    if (!this.#live) {
      this.start();
      return;
    }
    const { index } = this.#context;
    this.#indexed = request.physicalOffset + request.size;
    if (!index.add(request)) return;
    const { unwrittenBytes } = index;
    if (unwrittenBytes >= COMMIT_BYTES) this.#commit();
    if (unwrittenBytes >= UNWRITTEN_BYTES_MAX) this.#live = false;
  }

  /** Begins to read what is behind, if anything is. */
  start(): void {
    if (this.#live || this.#closed || !this.#context.enabled) return;
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#running = this.#run();
  }

  /**
   * Resolves once everything is indexed that is readable now.
   *
   * @throws {StoreError} `STORE_IO` if the index cannot be written, `STORE_CLOSED`.
   */
  async ready(): Promise<void> {
    if (this.#live) return;
    if (this.#closed) throw closed();
    if (!this.#context.enabled) {
      if (!this.#loaded) await this.#load();
      return;
    }
    this.start();
    if (this.#failure) throw this.#failure;
    const offset = this.#context.visible();
    if (this.#loaded && this.#indexed >= offset) return;
    await new Promise<void>((resolve, reject) => {
      this.#waiters.push({ offset, resolve, reject });
    });
  }

  /** What a checkpoint may say after {@linkcode force}. */
  mark(): IndexMark | undefined {
    if (!this.#loaded || !this.#context.enabled) return this.#durable;
    return this.#context.index.mark(this.#indexed);
  }

  /**
   * Makes the index durable.
   *
   * @returns `mark`, or if that failed what was durable before: the log has it all.
   */
  async force(mark: IndexMark | undefined): Promise<IndexMark | undefined> {
    if (!this.#loaded || !this.#context.enabled || mark === this.#durable) return this.#durable;
    try {
      await this.#context.index.force();
      this.#durable = mark;
    } catch (error) {
      this.#fail(error);
      this.start();
    }
    return this.#durable;
  }

  /**
   * Ends it.
   *
   * @param whole Waits until the index has everything, unless it cannot be written.
   */
  async close(whole: boolean): Promise<void> {
    if (whole && this.#context.enabled && !this.#closed) await this.ready().catch(() => undefined);
    this.#closed = true;
    this.#retry?.timer.cancel();
    this.#retry?.wake();
    await this.#running;
    this.#settle(closed());
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      try {
        if (!this.#loaded) await this.#load();
        const { visible, index } = this.#context;
        while (!this.#closed && this.#indexed < visible()) {
          await this.#read(visible());
          if (index.unwrittenBytes >= COMMIT_BYTES) await index.commit();
          this.#settle(undefined);
        }
        // No turn ends between the last look and this.
        if (this.#closed) return;
        this.#live = true;
        this.#isRunning = false;
        this.#failure = undefined;
        this.#settle(undefined);
        return;
      } catch (error) {
        this.#fail(error);
        if (!this.#closed) await this.#pause();
      }
    }
  }

  async #load(): Promise<void> {
    const { index, files, cleanStop, longs, visible, warn, publish, enabled } = this.#context;
    const isFirst = !this.#opened;
    const logEnd = isFirst ? this.#endAtOpen : visible();
    const loaded = await index.open(() =>
      loadIndex({
        ...files,
        cleanStop: cleanStop && isFirst,
        longs,
        // What was written since the last checkpoint is to be written again.
        mark: this.#durable,
        logEnd,
        anew: this.#anew && isFirst,
        warn,
      }),
    );
    this.#opened = true;
    this.#indexed = Math.max(loaded.from, this.#context.segments.minOffset ?? 0);
    const { done } = loaded;
    this.#done =
      done && this.#indexed === loaded.from ? { offset: loaded.from, hashes: done } : undefined;
    this.#loaded = true;
    // A Java store must not believe files that are to be made anew.
    if (loaded.lost && enabled) {
      this.#durable = undefined;
      await publish();
    }
  }

  /** Reads a part of the log up to `to`. */
  async #read(to: PhysicalOffset): Promise<void> {
    const { segments, index, delayLevels } = this.#context;
    const from = this.#indexed;
    let isBad = false;
    let isFull = false;
    let isForeign = false;
    const end = await scanLog(segments, from, CHECK, (step) => {
      if (step.offset >= to || this.#closed) return "stop";
      if (index.unwrittenBytes >= COMMIT_BYTES) {
        isFull = true;
        return "stop";
      }
      if (step.kind === "bad") {
        isBad = true;
        return undefined;
      }
      const done = this.#done?.offset === step.offset ? this.#done.hashes : undefined;
      if (step.kind === "record") {
        const request = dispatchRequestOf(step.bytes, step.at, delayLevels);
        if (done && !isSubset(done, index.hashesOf(request))) isForeign = true;
        else index.add(request, done);
      } else {
        isForeign = done !== undefined;
      }
      if (isForeign) return "stop";
      this.#done = undefined;
      this.#indexed = step.offset + step.size;
      return undefined;
    });
    if (isFull || this.#closed) return;
    if (isForeign || (isBad && this.#done?.offset === from)) {
      // The index leads to messages that this log does not have.
      this.#done = undefined;
      await this.#beginAnew();
    } else if (isBad) {
      this.#indexed = Math.min(await findNextRecord(segments, end, CHECK), to);
    } else if (end < to && !segments.find(end)) {
      // The file that was being read has been deleted: it goes on behind it.
      this.#indexed = Math.min(segments.nextFrom(end)?.start ?? to, to);
    } else {
      this.#indexed = Math.max(this.#indexed, to);
    }
  }

  async #beginAnew(): Promise<void> {
    const { index, files, longs, visible, warn, publish, segments } = this.#context;
    warn("The index is made anew from the log: it leads to messages that the log does not have");
    const all = { cleanStop: false, mark: undefined, anew: true };
    await index.open(() => loadIndex({ ...files, ...all, longs, logEnd: visible(), warn }));
    this.#indexed = segments.minOffset ?? 0;
    this.#durable = undefined;
    await publish();
  }

  /** Writes entries behind the puts. */
  #commit(): void {
    if (this.#committing) return;
    this.#committing = true;
    const done = (): void => {
      this.#committing = false;
    };
    void this.#context.index.commit().then(done, (error: unknown) => {
      this.#fail(error);
      this.#context.clock.setTimer(done, RETRY_MS);
      this.start();
    });
  }

  #fail(error: unknown): void {
    if (this.#context.index.isBroken) {
      // Not even what can be read back may be on the device: it begins anew where it was durable.
      this.#live = false;
      this.#loaded = false;
    }
    const failure =
      error instanceof StoreError
        ? error
        : new StoreError("STORE_IO", "Cannot keep the index", { cause: error });
    if (failure.message !== this.#failure?.message && !this.#closed) {
      this.#context.warn(`${failure.message}; its keys are indexed later, from the log`);
    }
    this.#failure = failure;
    this.#settle(failure);
  }

  /** Answers those who wait: all of them with an error, or those whose records are indexed. */
  #settle(error: StoreError | undefined): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) {
      if (error) waiter.reject(error);
      else if (waiter.offset <= this.#indexed) waiter.resolve();
      else this.#waiters.push(waiter);
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#retry = undefined;
        resolve();
      };
      this.#retry = { timer: this.#context.clock.setTimer(wake, RETRY_MS), wake };
    });
  }
}

function closed(): StoreError {
  return new StoreError("STORE_CLOSED", "Cannot search the index: the store is closed");
}

function isSubset(part: ReadonlySet<number>, whole: ReadonlySet<number>): boolean {
  for (const item of part) if (!whole.has(item)) return false;
  return true;
}
