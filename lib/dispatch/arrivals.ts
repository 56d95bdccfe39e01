/**
 * Those who wait for a message to become readable. RocketMQ: `PullRequestHoldService`, without
 * polling.
 *
 * @module
 */

import type { QueueOffset } from "../units.ts";

/** A message that has become readable: the arguments of RocketMQ's `MessageArrivingListener`. */
export interface Arrival {
  readonly topic: string;
  readonly queueId: number;
  /** The message's queue offset + 1: the new end of its queue. */
  readonly logicOffset: QueueOffset;
  readonly tagsCode: number;
  /** Wall time in ms. */
  readonly storeTimestamp: number;
}

export class Arrivals {
  /** By topic and queue id; asking about a queue that does not exist makes none. */
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Resolves when something arrives in the queue, the signal aborts, or all are woken. */
  wait(topic: string, queueId: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    const key = `${topic}/${queueId}`;
    return new Promise((resolve) => {
      const wake = (): void => {
        signal?.removeEventListener("abort", wake);
        const waiting = this.#waiting.get(key);
        waiting?.delete(wake);
        if (waiting?.size === 0) this.#waiting.delete(key);
        resolve();
      };
      let waiting = this.#waiting.get(key);
      if (!waiting) {
        waiting = new Set();
        this.#waiting.set(key, waiting);
      }
      waiting.add(wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  wake(topic: string, queueId: number): void {
    if (this.#waiting.size === 0) return;
    for (const wake of [...(this.#waiting.get(`${topic}/${queueId}`) ?? [])]) wake();
  }

  wakeAll(): void {
    for (const waiting of [...this.#waiting.values()]) for (const wake of [...waiting]) wake();
  }
}
