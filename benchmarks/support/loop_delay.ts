/**
 * How late the event loop is: Node's own monitor, without what the monitor itself adds.
 *
 * The monitor sets a timer of 1 ms again and again and counts the time between two of its calls, so
 * even an idle loop shows a little more than 1 ms. What an idle loop shows in the middle (its
 * median, measured in this process before anything else) is taken off every figure.
 *
 * It counts calls, not time: a loop that stood still for 100 ms adds one figure of 100 ms, not a
 * hundred. That is why the longest one is reported beside the 99th percentile.
 *
 * @module
 */

import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

const NS_PER_MS = 1e6;
/** Of an idle loop, in ms: some hundred figures. */
const IDLE_FOR_MS = 120;

let idleMs: number | undefined;

export interface LoopDelay {
  readonly p99: number;
  readonly max: number;
}

export class LoopDelayMonitor {
  readonly #histogram = monitorEventLoopDelay({ resolution: 1 });
  /** What an idle loop shows, in ms. */
  readonly idleMs: number;

  private constructor(idleMs: number) {
    this.idleMs = idleMs;
  }

  /** The first one of a process waits until it knows what an idle loop shows. */
  static async make(): Promise<LoopDelayMonitor> {
    idleMs ??= await LoopDelayMonitor.#measureIdle();
    return new LoopDelayMonitor(idleMs);
  }

  static async #measureIdle(): Promise<number> {
    const monitor = new LoopDelayMonitor(0);
    monitor.start();
    await sleep(IDLE_FOR_MS);
    monitor.#histogram.disable();
    return monitor.#histogram.percentile(50) / NS_PER_MS;
  }

  start(): void {
    this.#histogram.reset();
    this.#histogram.enable();
  }

  /** In ms, without what an idle loop shows; 0 where it was no later than that. */
  stop(): LoopDelay {
    this.#histogram.disable();
    // A loop that stood still all the while has no figure yet.
    if (this.#histogram.count === 0) return { p99: 0, max: 0 };
    const late = (ns: number) => Math.max(0, ns / NS_PER_MS - this.idleMs);
    return { p99: late(this.#histogram.percentile(99)), max: late(this.#histogram.max) };
  }
}
