/**
 * One subject under load, in an empty folder: opened, warmed up, loaded for a while, closed, and
 * looked at: everything that was acknowledged must be there.
 *
 * @module
 */

import { type Drive, drive, Kept, stamped } from "./drive.ts";
import { type LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import type { Mode } from "./modes.ts";
import { Latencies, type Percentiles, randomBytes } from "./numbers.ts";
import { keepPoolBusy } from "./pool_jobs.ts";
import { openSubject, type SubjectName } from "./subject.ts";

/** A load ends early when it has put so much: a slow disk would write for minutes afterwards. */
const BYTES_MAX = 2 * 1024 ** 3;
const WARM_UP_BYTES_MAX = BYTES_MAX / 4;

export interface PutInput {
  /** It must be empty. */
  readonly directory: string;
  readonly subject: SubjectName;
  readonly mode: Mode;
  readonly callers: number;
  /** Instead of callers: messages a second, in an open loop. */
  readonly ratePerSecond?: number | undefined;
  readonly batch: number;
  readonly bodyBytes: number;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly seed: number;
  /** Jobs of others that keep the thread pool busy meanwhile. */
  readonly poolJobs?: number;
}

export interface PutMeasured {
  readonly messages: number;
  readonly seconds: number;
  readonly messagesPerSecond: number;
  /** From the call, or in an open loop from the moment at which the call was due; in ms. */
  readonly latencyMs: Percentiles;
  readonly loopDelayMs: LoopDelay;
  /** Processor time of the whole process for one message, in µs. */
  readonly cpuMicros: number;
  /** The rest is of a log. Bytes of a record: */
  readonly recordBytes: number | undefined;
  readonly forces: number | undefined;
  readonly messagesPerForce: number | undefined;
  readonly messagesPerCommit: number | undefined;
  /** Jobs of others that ended in a second. */
  readonly poolJobsPerSecond: number | undefined;
}

export async function measurePuts(input: PutInput): Promise<PutMeasured> {
  const { bodyBytes, seed, poolJobs = 0 } = input;
  const monitor = await LoopDelayMonitor.make();
  const body = randomBytes(bodyBytes, seed);
  const subject = await openSubject(input.subject, input.directory, input.mode);
  const kept = new Kept();
  const run: Drive = {
    subject,
    callers: input.callers,
    putsPerSecond:
      input.ratePerSecond === undefined ? undefined : input.ratePerSecond / input.batch,
    batch: input.batch,
    body,
    kept,
    latencies: new Latencies(),
  };
  let measured: PutMeasured;
  try {
    await drive(run, input.warmUpSeconds, WARM_UP_BYTES_MAX / bodyBytes);
    const pool = keepPoolBusy(poolJobs);
    measured = await measure({ ...run, latencies: new Latencies() }, input, monitor);
    if (poolJobs > 0) {
      measured = { ...measured, poolJobsPerSecond: pool.ended / measured.seconds };
    }
    await pool.stop();
  } finally {
    await subject.close();
  }
  await subject.check(kept.messages, {
    offset: kept.lastOffset,
    body: stamped(body, kept.lastStamp),
  });
  return measured;
}

async function measure(
  run: Drive,
  { seconds: wanted, bodyBytes }: PutInput,
  monitor: LoopDelayMonitor,
): Promise<PutMeasured> {
  const { subject, kept, latencies } = run;
  const before = subject.counters?.();
  const messagesBefore = kept.messages;
  monitor.start();
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  await drive(run, wanted, (BYTES_MAX - WARM_UP_BYTES_MAX) / bodyBytes);
  const seconds = (performance.now() - startedAt) / 1000;
  const cpu = process.cpuUsage(cpuBefore);
  const loopDelayMs = monitor.stop();
  const after = subject.counters?.();
  const messages = kept.messages - messagesBefore;
  const log = before &&
    after && {
      recordBytes: (after.bytes - before.bytes) / messages,
      forces: after.forces - before.forces,
      messagesPerForce: messages / Math.max(after.forces - before.forces, 1),
      messagesPerCommit: messages / Math.max(after.commits - before.commits, 1),
    };
  return {
    messages,
    seconds,
    messagesPerSecond: messages / seconds,
    latencyMs: latencies.percentiles(),
    loopDelayMs,
    cpuMicros: (cpu.user + cpu.system) / messages,
    recordBytes: log?.recordBytes,
    forces: log?.forces,
    messagesPerForce: log?.messagesPerForce,
    messagesPerCommit: log?.messagesPerCommit,
    poolJobsPerSecond: undefined,
  };
}
