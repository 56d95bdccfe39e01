/**
 * A store under load: opened, warmed up, loaded for a while, closed, and opened again to see that
 * everything that was acknowledged is there.
 *
 * @module
 */

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import {
  MessageStore,
  NodeFileSystem,
  type PutResult,
  type StoreOptions,
  type StoreStats,
} from "../../lib/mod.ts";
import type { LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import { Latencies, type Percentiles, randomBytes } from "./numbers.ts";

export const MODE_OPTIONS = {
  SYNC_FLUSH: { flushDiskType: "SYNC_FLUSH" },
  ASYNC_FLUSH: { flushDiskType: "ASYNC_FLUSH" },
  pool: { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
} as const satisfies Record<string, StoreOptions>;

export type Mode = keyof typeof MODE_OPTIONS;
export const MODES = Object.keys(MODE_OPTIONS) as Mode[];

const TOPIC = "bench";
/** A load ends early when it has put so much: a slow disk would write for minutes afterwards. */
const BYTES_MAX = 2 * 1024 ** 3;
/** Puts of an open loop that may be under way, and that begin in one turn of the event loop. */
const OUTSTANDING_MAX = 65_536;
const BEGIN_PER_TURN = 64;

export interface Load {
  readonly mode: Mode;
  readonly bodyBytes: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly seed: number;
  /** So many callers, each of which awaits its put before the next. */
  readonly callers: number;
  /** Instead of callers: puts begin at this rate, whether the ones before are done or not. */
  readonly ratePerSecond?: number;
}

export interface Measured {
  readonly messages: number;
  readonly seconds: number;
  readonly messagesPerSecond: number;
  /** Size of a record in the log. */
  readonly recordBytes: number;
  /** From the call, or in an open loop from the moment at which the call was due; in ms. */
  readonly latencyMs: Percentiles;
  readonly forces: number;
  readonly commits: number;
  readonly messagesPerForce: number;
  readonly messagesPerCommit: number;
  readonly loopDelayMs: LoopDelay;
  /** Of the body that was read back last. */
  readonly crc: number;
}

/**
 * Runs one load on a store of its own.
 *
 * @throws {Error} if the store that was written does not hold what it acknowledged.
 */
export async function runLoad(
  directory: string,
  load: Load,
  monitor: LoopDelayMonitor,
): Promise<Measured> {
  const path = mkdtempSync(join(directory, "store-"));
  try {
    const written = new Written();
    const body = randomBytes(load.bodyBytes, load.seed);
    let measured: Omit<Measured, "crc">;
    const store = await MessageStore.open(path, MODE_OPTIONS[load.mode]);
    try {
      const run = { store, load, body, written };
      await drive({ ...run, latencies: new Latencies() }, load.warmUpSeconds);
      measured = await measure(run, monitor);
    } finally {
      await store.close();
    }
    return { ...measured, crc: await check(path, load, body, written) };
  } finally {
    rmSync(path, { recursive: true });
    // The blocks that this set free are given back now, not while others are measured.
    await new NodeFileSystem().syncDirectory(directory);
  }
}

/** What was acknowledged: how many messages, and which was the last. */
class Written {
  messages = 0;
  lastQueueOffset = -1;
  lastStamp = 0;

  note(result: PutResult, stamp: number): void {
    this.messages++;
    if (result.queueOffset <= this.lastQueueOffset) return;
    this.lastQueueOffset = result.queueOffset;
    this.lastStamp = stamp;
  }
}

interface Run {
  readonly store: MessageStore;
  readonly load: Load;
  /** Of every message, but for its first four bytes. */
  readonly body: Buffer;
  readonly written: Written;
  readonly latencies: Latencies;
}

async function measure(
  run: Omit<Run, "latencies">,
  monitor: LoopDelayMonitor,
): Promise<Omit<Measured, "crc">> {
  const { store, load, written } = run;
  const latencies = new Latencies();
  const messagesBefore = written.messages;
  const before = store.stats();
  const wroteBefore = store.watermarks.wrote;
  monitor.start();
  const startedAt = performance.now();
  await drive({ ...run, latencies }, load.seconds);
  const seconds = (performance.now() - startedAt) / 1000;
  const loopDelayMs = monitor.stop();
  const after: StoreStats = store.stats();
  const { wrote, committed, flushed } = store.watermarks;
  if (load.mode === "SYNC_FLUSH" && flushed < wrote) throw new Error("A put was not forced");
  if (load.mode === "ASYNC_FLUSH" && committed < wrote) throw new Error("A put was not committed");
  const messages = written.messages - messagesBefore;
  const forces = after.forces - before.forces;
  const commits = after.commits - before.commits;
  return {
    messages,
    seconds,
    messagesPerSecond: messages / seconds,
    recordBytes: (wrote - wroteBefore) / messages,
    latencyMs: latencies.percentiles(),
    forces,
    commits,
    messagesPerForce: messages / Math.max(forces, 1),
    messagesPerCommit: messages / Math.max(commits, 1),
    loopDelayMs,
  };
}

function drive(run: Run, seconds: number): Promise<unknown> {
  const until = performance.now() + seconds * 1000;
  const { callers, ratePerSecond } = run.load;
  return ratePerSecond === undefined
    ? Promise.all(Array.from({ length: callers }, () => closedLoop(run, until)))
    : openLoop(run, until, ratePerSecond);
}

async function closedLoop(
  { store, load, body: template, written, latencies }: Run,
  until: number,
): Promise<void> {
  // A body of its own, so that each message can be told from the others.
  const body = Buffer.from(template);
  const messagesMax = BYTES_MAX / load.bodyBytes;
  let startedAt = performance.now();
  while (startedAt < until && written.messages < messagesMax) {
    const stamp = written.lastQueueOffset + 1;
    body.writeUInt32BE(stamp);
    const result = await store.put({ topic: TOPIC, body });
    const now = performance.now();
    written.note(result, stamp);
    latencies.add(now - startedAt);
    startedAt = now;
  }
}

function openLoop(
  { store, load, body: template, written, latencies }: Run,
  until: number,
  ratePerSecond: number,
): Promise<void> {
  const body = Buffer.from(template);
  body.writeUInt32BE(0);
  const startedAt = performance.now();
  const seconds = (until - startedAt) / 1000;
  const total = Math.min(seconds * ratePerSecond, BYTES_MAX / load.bodyBytes);
  let begun = 0;
  let underWay = 0;
  return new Promise((resolve, reject) => {
    const turn = (): void => {
      const now = performance.now();
      for (let i = 0; i < BEGIN_PER_TURN && begun < total && underWay < OUTSTANDING_MAX; i++) {
        const due = startedAt + (begun * 1000) / ratePerSecond;
        if (due > now) break;
        begun++;
        underWay++;
        store.put({ topic: TOPIC, body }).then((result) => {
          latencies.add(performance.now() - due);
          written.note(result, 0);
          underWay--;
        }, reject);
      }
      if (begun >= total && underWay === 0) resolve();
      else setImmediate(turn);
    };
    turn();
  });
}

/** @returns The CRC of the last message's body. */
async function check(path: string, load: Load, template: Buffer, written: Written) {
  const store = await MessageStore.open(path, MODE_OPTIONS[load.mode]);
  try {
    const count = store.maxOffset(TOPIC) - store.minOffset(TOPIC);
    if (count !== written.messages) {
      throw new Error(`${written.messages} puts were acknowledged, ${count} messages are there`);
    }
    const { messages } = await store.get({ topic: TOPIC, offset: count - 1 });
    const expected = Buffer.from(template);
    expected.writeUInt32BE(written.lastStamp);
    const body = messages[0]?.body ?? Buffer.alloc(0);
    if (!expected.equals(body)) throw new Error("The last message is not the one that was put");
    return crc32(body);
  } finally {
    await store.close();
  }
}
