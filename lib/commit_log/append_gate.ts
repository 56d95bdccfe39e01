/**
 * Where puts wait, in order, for what they need: a file, room in the write buffer, or the queues.
 *
 * As long as one waits, those behind it wait too, so that puts of one caller keep their order.
 *
 * @module
 */

import { PutError, type StoreError } from "../errors.ts";
import type { Clock, Timer } from "../io/clock.ts";

/**
 * What an append has to wait for: the next file, room in the write buffer, or the consume queues,
 * which must not be too many files behind the log.
 */
export type Blocked = "file" | "buffer" | "queues";

/** How long a put waits for a file, in ms (`AllocateMappedFileService.waitTimeOut`). */
const FILE_WAIT_MS = 5000;

interface Waiting {
  /** Tries again; `undefined` if the put is done. */
  readonly attempt: () => Blocked | undefined;
  readonly refuse: (error: PutError) => void;
  readonly since: number;
  blocked: Blocked;
}

export class AppendGate {
  readonly #clock: Clock;
  readonly #bufferWaitMs: number;
  #waiting: Waiting[] = [];
  #timer: Timer | undefined;
  #draining = false;

  /** @param bufferWaitMs How long a put waits for room in the write buffer. */
  constructor(clock: Clock, bufferWaitMs: number) {
    this.#clock = clock;
    this.#bufferWaitMs = bufferWaitMs;
  }

  /** Whether somebody waits: then nobody may pass. */
  get closed(): boolean {
    return this.#waiting.length > 0;
  }

  get length(): number {
    return this.#waiting.length;
  }

  /** Takes a put that could not be done. */
  wait(blocked: Blocked, attempt: Waiting["attempt"], refuse: Waiting["refuse"]): void {
    this.#waiting.push({ attempt, refuse, since: this.#clock.monotonic(), blocked });
    this.#arm();
  }

  /** Something has changed: lets pass who can, in order. */
  drain(): void {
    if (this.#draining || this.#waiting.length === 0) return;
    this.#draining = true;
    let done = 0;
    try {
      for (const put of this.#waiting) {
        const blocked = put.attempt();
        if (blocked) {
          put.blocked = blocked;
          break;
        }
        done++;
      }
    } finally {
      if (done > 0) this.#waiting = this.#waiting.slice(done);
      this.#draining = false;
    }
    // The first one may wait for something else now, and not for as long.
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#arm();
  }

  /** What they wait for can't be had: refuses those who can't do without. */
  refuse(what: Blocked, cause: unknown): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const put of waiting) {
      const blocked = this.#waiting.length > 0 ? put.blocked : put.attempt();
      if (blocked === what) put.refuse(refusal(what, cause));
      else if (blocked) {
        put.blocked = blocked;
        this.#waiting.push(put);
      }
    }
  }

  /** Writing has ended for good. */
  failAll(cause: StoreError): void {
    this.refuseAll(
      () =>
        new PutError(
          "SERVICE_NOT_AVAILABLE",
          "not stored",
          "Cannot put: an earlier write or sync failed",
          { cause },
        ),
    );
  }

  refuseAll(error: () => PutError): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const put of waiting) put.refuse(error());
  }

  #arm(): void {
    const first = this.#waiting[0];
    if (!first || this.#timer) return;
    const waitMs = first.blocked === "file" ? FILE_WAIT_MS : this.#bufferWaitMs;
    const ms = Math.max(0, first.since + waitMs - this.#clock.monotonic());
    this.#timer = this.#clock.setTimer(() => {
      this.#timer = undefined;
      const now = this.#clock.monotonic();
      // Those behind the first one wait for what it waits for.
      while (this.#waiting[0] && this.#waiting[0].since + waitMs <= now) {
        this.#waiting.shift()?.refuse(refusal(first.blocked, undefined));
      }
      this.drain();
      this.#arm();
    }, ms);
  }
}

/** The error of a put that could not get what it needed. */
export function refusal(what: Blocked, cause: unknown): PutError {
  if (what === "file") {
    return new PutError(
      "CREATE_MAPPED_FILE_FAILED",
      "not stored",
      "Cannot put: the next file of the commit log could not be made",
      { cause },
    );
  }
  return new PutError(
    "OS_PAGE_CACHE_BUSY",
    "not stored",
    what === "buffer"
      ? "Cannot put: the write buffer is full and the device does not take its bytes"
      : "Cannot put: the consume queues are too far behind the log",
    { cause },
  );
}
