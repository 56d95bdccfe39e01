/**
 * Writes the queues to their files, behind the puts. RocketMQ: `FlushConsumeQueueService`.
 *
 * A usual round writes the queues that have gathered a few pages. A thorough round writes and syncs
 * all of them, after the log itself, and then tells up to where every record has its unit on disk:
 * captured before the round, published after it, never the other way round.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import type { Clock, Timer } from "../io/clock.ts";
import { OneAtATime } from "../io/one_at_a_time.ts";
import { inParallel } from "../io/parallel.ts";
import type { ResolvedOptions } from "../options.ts";
import { OS_PAGE_SIZE } from "../units.ts";
import type { ConsumeQueueTable } from "./consume_queue_table.ts";

/** A failed write is tried again after so long, in ms. */
const RETRY_MS = 1000;

export interface FlusherContext<Mark> {
  readonly queues: ConsumeQueueTable;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  /** The state that a thorough round that begins now will have made durable. */
  readonly capture: () => Mark;
  /** Forces the log up to the mark: no unit may outlive its record. */
  readonly forceLog: (mark: Mark) => Promise<void>;
  /** Everything up to the mark is durable. */
  readonly publish: (mark: Mark) => Promise<void>;
  /** A write failed and will be tried again. */
  readonly warn: (error: StoreError) => void;
  /** A sync failed: nothing may be believed of the files any more. */
  readonly failed: (error: StoreError) => void;
}

export class ConsumeQueueFlusher<Mark> {
  readonly #context: FlusherContext<Mark>;
  #timer: Timer | undefined;
  #lastThoroughAt: number;
  readonly #rounds = new OneAtATime();
  #thoroughRound: Promise<void> | undefined;
  #closed = false;
  /** A sync that failed is never tried again. */
  #failure: unknown;

  constructor(context: FlusherContext<Mark>) {
    this.#context = context;
    this.#lastThoroughAt = context.clock.monotonic();
  }

  /** There are units to write: a round comes in time. */
  touched(): void {
    if (this.#timer || this.#closed) return;
    this.#arm(this.#context.options.flushIntervalConsumeQueue);
  }

  /**
   * A thorough round, now; or the one that is to begin.
   *
   * @throws {StoreError} what failed; units stay in memory.
   */
  flush(): Promise<void> {
    this.#thoroughRound ??= this.#after(async () => {
      this.#thoroughRound = undefined;
      await this.#thorough();
    });
    return this.#thoroughRound;
  }

  /** Does something to files of the queues while no round is under way. */
  alone<T>(action: () => Promise<T>): Promise<T> {
    return this.#rounds.run(action);
  }

  /** No round begins by itself any more. */
  stop(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** Waits for the round under way; none comes after it. */
  async close(): Promise<void> {
    this.stop();
    await this.#rounds.idle();
  }

  #arm(ms: number): void {
    this.#timer = this.#context.clock.setTimer(() => {
      this.#timer = undefined;
      const { clock, options } = this.#context;
      const thorough =
        clock.monotonic() - this.#lastThoroughAt >= options.flushConsumeQueueThoroughInterval;
      const round = thorough ? this.flush() : this.#after(() => this.#usual());
      void round.then(
        () => this.#again(options.flushIntervalConsumeQueue),
        () => {
          if (!this.#timer && !this.#closed) this.#arm(RETRY_MS);
        },
      );
    }, ms);
  }

  #again(ms: number): void {
    if (this.#timer || this.#closed) return;
    for (const queue of this.#context.queues) {
      if (queue.unwrittenBytes > 0 || queue.hasUnforcedFiles) {
        this.#arm(ms);
        return;
      }
    }
  }

  /** One round at a time; each begins when the one before has ended, well or not. */
  #after(round: () => Promise<void>): Promise<void> {
    const result = this.#rounds.run(round);
    result.catch((error: unknown) => {
      if (error instanceof StoreError) this.#context.warn(error);
    });
    return result;
  }

  async #usual(): Promise<void> {
    const leastBytes = this.#context.options.flushConsumeQueueLeastPages * OS_PAGE_SIZE;
    for (const queue of this.#context.queues) {
      const { unwrittenBytes } = queue;
      if (unwrittenBytes > 0 && unwrittenBytes >= leastBytes) await queue.commit();
    }
  }

  async #thorough(): Promise<void> {
    if (this.#failure) throw this.#failure;
    const { queues, clock, capture, forceLog, publish, failed } = this.#context;
    const beganAt = clock.monotonic();
    const mark = capture();
    await forceLog(mark);
    await inParallel(queues, (queue) => queue.commit());
    try {
      await inParallel(queues, (queue) => queue.force());
    } catch (error) {
      this.#failure = error;
      if (error instanceof StoreError) failed(error);
      throw error;
    }
    await publish(mark);
    this.#lastThoroughAt = beganAt;
  }
}
