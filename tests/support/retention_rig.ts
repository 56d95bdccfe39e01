/**
 * A store whose files roll after a few messages, on a disk that is as full as a test says, with a
 * clock that stands still.
 *
 * @module
 */

import { existsSync, readdirSync, utimesSync } from "node:fs";
import { join } from "node:path";
import type { Test } from "tap";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import type { MessageStore, RetentionEvent, StoreOptions } from "../../lib/mod.ts";
import { FakeClock, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { logFile, message, openStore, SMALL, storePath } from "./stores.ts";

/** Size of a log file. */
export const FILE = SMALL.mappedFileSizeCommitLog as number;
export const HOUR = 3_600_000;
/** Messages of `fill` that go into one log file. */
export const PER_FILE = 6;

/** Everything expires, at any hour, without pauses. */
export const EXPIRES: StoreOptions = {
  fileReservedTime: 0,
  deleteWhen: Array.from({ length: 24 }, (_, hour) => hour).join(";"),
  deleteCommitLogFilesInterval: 0,
  deleteConsumeQueueFilesInterval: 0,
};

export interface RetentionRig {
  readonly dir: string;
  readonly store: MessageStore;
  readonly clock: FakeClock;
  readonly fileSystem: InterceptedFileSystem;
  /** Per cent used. */
  readonly disk: { log: number; queues: number };
  readonly events: RetentionEvent[];
  readonly warnings: string[];
}

export async function retentionRig(
  t: Test,
  options: StoreOptions = {},
  more: {
    readonly dir?: string;
    readonly clock?: FakeClock;
    readonly neededFrom?: () => number | undefined;
    readonly disk?: { log: number; queues: number };
  } = {},
): Promise<RetentionRig> {
  const {
    dir = storePath(t),
    // Files are changed by the machine's clock.
    clock = new FakeClock(Date.now() + 30_000),
    disk = { log: 50, queues: 50 },
  } = more;
  const base = new NodeFileSystem();
  base.statfs = async (path) => {
    const free = 100 - (path.includes("consumequeue") ? disk.queues : disk.log);
    return { totalBytes: 100_000, freeBytes: free * 1000, availableBytes: free * 1000 };
  };
  const fileSystem = new InterceptedFileSystem(base);
  const events: RetentionEvent[] = [];
  const { store, warnings } = await openStore(
    t,
    dir,
    { deleteCommitLogFilesInterval: 0, deleteConsumeQueueFilesInterval: 0, ...options },
    {
      fileSystem,
      clock,
      onRetention: (event) => events.push(event),
      ...(more.neededFrom ? { neededFrom: more.neededFrom } : {}),
    },
  );
  return { dir, store, clock, fileSystem, disk, events, warnings };
}

/** Puts messages that fill so many log files, and one more that begins the next. */
export async function fillFiles(
  store: MessageStore,
  count: number,
  topic = "T",
  queueId = 0,
): Promise<void> {
  for (let i = 0; i < count * PER_FILE + 1; i++) {
    await store.put(message(`${i}`.padEnd(10_000, "."), { topic, queueId }));
  }
}

/** Starts of the log files that are there, those made ahead apart. */
export function logStarts({ dir, store }: RetentionRig): number[] {
  return startsIn(join(dir, "commitlog")).filter((start) => start < store.watermarks.wrote);
}

export function queueStarts(dir: string, topic = "T", queueId = 0): number[] {
  return startsIn(join(dir, "consumequeue", topic, String(queueId)));
}

function startsIn(folder: string): number[] {
  return existsSync(folder)
    ? readdirSync(folder)
        .map(Number)
        .sort((a, b) => a - b)
    : [];
}

/** Sets when a log file was last changed. */
export function setFileTime(dir: string, start: number, ms: number): void {
  utimesSync(logFile(dir, start), ms / 1000, ms / 1000);
}
