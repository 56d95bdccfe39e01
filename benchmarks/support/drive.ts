/**
 * Puts without end: callers that await each put before the next (a closed loop), or puts that begin
 * at a fixed rate, whether the ones before are done or not (an open loop).
 *
 * In an open loop latency counts from the moment at which a put was due, so that a store that
 * stands still is not asked less.
 *
 * @module
 */

import { QUEUES } from "./forcelog_subject.ts";
import type { Latencies } from "./numbers.ts";
import type { PutSubject } from "./subject.ts";

/** Puts of an open loop that may be under way, and that begin in one turn of the event loop. */
const OUTSTANDING_MAX = 65_536;
const BEGIN_PER_TURN = 64;

/** What was acknowledged: how many messages, and which put is the last in the log. */
export class Kept {
  messages = 0;
  lastOffset = -1;
  lastStamp = 0;

  note(messages: number, offset: number, stamp: number): void {
    this.messages += messages;
    if (offset <= this.lastOffset) return;
    this.lastOffset = offset;
    this.lastStamp = stamp;
  }
}

export interface Drive {
  readonly subject: PutSubject;
  /** So many callers, each of which awaits its put before the next. */
  readonly callers: number;
  /** Instead of callers: puts a second. */
  readonly putsPerSecond?: number | undefined;
  /** Messages of a put. */
  readonly batch: number;
  /** Of every message, but for the first four bytes of a put's first one. */
  readonly body: Buffer;
  readonly kept: Kept;
  readonly latencies: Latencies;
}

/**
 * Puts until the time is over or so many messages were put.
 *
 * @returns When every put has ended.
 */
export async function drive(run: Drive, seconds: number, messagesMax: number): Promise<void> {
  const until = performance.now() + seconds * 1000;
  const limit = run.kept.messages + messagesMax;
  if (run.putsPerSecond !== undefined) return openLoop(run, until, run.putsPerSecond, limit);
  await Promise.all(
    Array.from({ length: run.callers }, (_, caller) => closedLoop(run, caller, until, limit)),
  );
}

/** The body of the put with that stamp. */
export function stamped(body: Buffer, stamp: number): Buffer {
  const copy = Buffer.from(body);
  copy.writeUInt32BE(stamp);
  return copy;
}

async function closedLoop(
  { subject, batch, body, kept, latencies }: Drive,
  caller: number,
  until: number,
  limit: number,
): Promise<void> {
  // Bodies of its own, so that each put can be told from the others.
  const bodies = Array.from({ length: batch }, () => Buffer.from(body));
  const first = bodies[0] as Buffer;
  let stamp = caller << 24;
  let queueId = caller % QUEUES;
  let startedAt = performance.now();
  while (startedAt < until && kept.messages < limit) {
    first.writeUInt32BE(++stamp >>> 0);
    queueId = (queueId + 1) % QUEUES;
    const result =
      batch === 1 ? await subject.put(queueId, first) : await putBatch(subject, queueId, bodies);
    const now = performance.now();
    kept.note(batch, subject.offsetOf(result), stamp >>> 0);
    latencies.add(now - startedAt);
    startedAt = now;
  }
}

function openLoop(
  { subject, batch, body, kept, latencies }: Drive,
  until: number,
  putsPerSecond: number,
  limit: number,
): Promise<void> {
  const first = stamped(body, 0);
  const bodies = Array.from({ length: batch }, () => first);
  const startedAt = performance.now();
  const puts = ((until - startedAt) * putsPerSecond) / 1000;
  const total = Math.min(puts, (limit - kept.messages) / batch);
  let begun = 0;
  let underWay = 0;
  return new Promise((resolve, reject) => {
    const turn = (): void => {
      const now = performance.now();
      for (let i = 0; i < BEGIN_PER_TURN && begun < total && underWay < OUTSTANDING_MAX; i++) {
        const due = startedAt + (begun * 1000) / putsPerSecond;
        if (due > now) break;
        const queueId = begun % QUEUES;
        begun++;
        underWay++;
        const put = batch === 1 ? subject.put(queueId, first) : putBatch(subject, queueId, bodies);
        put.then((result) => {
          latencies.add(performance.now() - due);
          kept.note(batch, subject.offsetOf(result), 0);
          underWay--;
        }, reject);
      }
      if (begun >= total && underWay === 0) resolve();
      else setImmediate(turn);
    };
    turn();
  });
}

function putBatch(
  subject: PutSubject,
  queueId: number,
  bodies: readonly Buffer[],
): Promise<unknown> {
  if (!subject.putBatch) throw new TypeError("It takes no batches");
  return subject.putBatch(queueId, bodies);
}
