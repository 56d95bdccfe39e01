/**
 * Consume queues without a store around them.
 *
 * @module
 */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Test } from "tap";
import { ConsumeQueue, type QueueContext } from "../../lib/consume_queue/consume_queue.ts";
import type { ConsumeQueueTable } from "../../lib/consume_queue/consume_queue_table.ts";
import { type ExtensionContext, QueueExtension } from "../../lib/consume_queue/queue_extension.ts";
import { isFiller, lostUnit, UNIT_BYTES, unitOffset } from "../../lib/consume_queue/queue_unit.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OverlayFileSystem } from "../../lib/io/overlay_file_system.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { segmentOf } from "../../lib/segment/segment.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { testFolder } from "./test_folder.ts";

/** Bytes of each message's record in the log of a rig. */
export const RECORD = 100;

export class QueueRig {
  readonly fs: InterceptedFileSystem;
  readonly files: OpenFiles;
  readonly context: QueueContext;

  /**
   * @param unitsPerFile Units in one file.
   * @param inMemory Writes nothing to the disk: for tests of many steps.
   */
  constructor(t: Test, unitsPerFile = 10, inMemory = false) {
    const base = new NodeFileSystem();
    this.fs = new InterceptedFileSystem(inMemory ? new OverlayFileSystem(base) : base);
    this.files = new OpenFiles(this.fs);
    const root = mkdtempSync(join(testFolder(t), "store-"));
    const [directory, staging] = [join(root, "consumequeue"), join(root, "forcelog")];
    for (const path of [directory, staging]) mkdirSync(path);
    this.context = {
      fileSystem: this.fs,
      files: this.files,
      directory,
      staging,
      fileSize: unitsPerFile * UNIT_BYTES,
    };
    t.teardown(async () => {
      this.fs.clear();
      await this.files.closeAll();
    });
  }

  get folder(): string {
    return join(this.context.directory, "T", "0");
  }

  get starts(): number[] {
    return existsSync(this.folder) ? readdirSync(this.folder).sort().map(Number) : [];
  }

  queue(): ConsumeQueue {
    return new ConsumeQueue(this.context, "T", 0);
  }

  /** Of the queue's extension: a folder beside the queues, and files of `fileSize` bytes. */
  extensionContext(fileSize: number, writes = true): ExtensionContext {
    const { fileSystem, files, staging } = this.context;
    const directory = join(dirname(this.context.directory), "consumequeue_ext");
    return { fileSystem, files, staging, directory, fileSize, writes };
  }

  /** The queue with an extension, as an open finds their files. */
  extended(context: ExtensionContext): ConsumeQueue {
    const folder = join(context.directory, "T", "0");
    const found = (from: string, size: number) =>
      (existsSync(from) ? readdirSync(from) : [])
        .sort()
        .map((name) => segmentOf(from, Number(name), size));
    const extension = new QueueExtension(context, "T", 0, found(folder, context.fileSize));
    const segments = found(this.folder, this.context.fileSize);
    return new ConsumeQueue(this.context, "T", 0, segments, extension);
  }

  /** The queue as an open finds its files: those on the disk, or these. */
  reopened(starts = this.starts): ConsumeQueue {
    const segments = starts.map((start) => segmentOf(this.folder, start, this.context.fileSize));
    return new ConsumeQueue(this.context, "T", 0, segments);
  }

  /** All files, one behind the other. */
  bytes(): Buffer {
    return Buffer.concat(this.starts.map((start) => readFileSync(this.path(start))));
  }

  path(start: number): string {
    return segmentOf(this.folder, start, this.context.fileSize).path;
  }
}

/** A queue of a table, where no topic has another type. */
export function plainQueue(queues: ConsumeQueueTable, topic: string, queueId: number) {
  const queue = queues.findOrCreate(topic, queueId);
  if (queue instanceof ConsumeQueue) return queue;
  throw new Error(`${topic}/${queueId} is a batch queue`);
}

/** Appends messages up to `end`; message n lies at n × 100. */
export function fill(queue: ConsumeQueue, end: number): void {
  while (queue.max < end) {
    const offset = queue.max;
    if (queue.append(offset, offset * RECORD, RECORD, offset) !== "appended") {
      throw new Error(`Unit ${offset} was not appended`);
    }
  }
}

/** Physical offsets of all units from `from` on; -1 for a filler. */
export async function offsets(queue: ConsumeQueue, from = queue.min): Promise<number[]> {
  const found: number[] = [];
  for (let next = from; next < queue.max; ) {
    const units = await queue.units(next, 1000);
    if (units.length === 0) throw new Error(`No units at ${next}`);
    for (let at = 0; at < units.length; at += UNIT_BYTES) {
      found.push(isFiller(units, at) ? -1 : unitOffset(units, at));
    }
    next += units.length / UNIT_BYTES;
  }
  return found;
}

export function range(from: number, end: number): number[] {
  return Array.from({ length: Math.max(0, end - from) }, (_, i) => (from + i) * RECORD);
}

/** Gives the messages up to `offset` units that say that they were lost. */
export function lose(queue: ConsumeQueue, offset: number): void {
  while (queue.max < offset) queue.append(queue.max, ...lostUnit((queue.max + 1) * RECORD));
}
