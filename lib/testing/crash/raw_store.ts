/**
 * A store's files as they lie on a simulated disk, read without the store: what it would make of
 * them is not asked.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { DeletedTopics, decodeDeletedTopics } from "../../checkpoint/deleted_topics.ts";
import { decodeCheckpoint } from "../../checkpoint/store_checkpoint.ts";
import { BATCH_UNIT_BYTES, batchBase, isBatchUnit } from "../../consume_queue/batch_unit.ts";
import { decodeExtensionUnit } from "../../consume_queue/extension_unit.ts";
import {
  addressedOffset,
  isUnit,
  UNIT_BYTES,
  unitOffset,
  unitSize,
} from "../../consume_queue/queue_unit.ts";
import { type StorePaths, storePaths } from "../../io/store_paths.ts";
import { BLANK_SIZE, checkRecord, decodeRecord, type StoredMessage } from "../../message/record.ts";
import { takesQueueOffset } from "../../message/sys_flag.ts";
import type { ResolvedOptions } from "../../options.ts";
import { segmentName, segmentStart } from "../../segment/segment.ts";
import type { PhysicalOffset } from "../../units.ts";
import type { SimulatedDisk } from "../simulated_disk.ts";

/** A folder of segments. */
interface Folder {
  readonly path: string;
  readonly fileSize: number;
}

/** Where the files lie, and how large they are. */
export type FileOptions = Pick<
  ResolvedOptions,
  | "mappedFileSizeCommitLog"
  | "mappedFileSizeConsumeQueue"
  | "mappedFileSizeConsumeQueueExt"
  | "mapperFileSizeBatchConsumeQueue"
  | "storePathCommitLog"
>;

export class RawStore {
  readonly #disk: SimulatedDisk;
  readonly #paths: StorePaths;
  readonly #sizes: FileOptions;
  readonly #read = new Map<string, Buffer>();

  constructor(disk: SimulatedDisk, root: string, options: FileOptions) {
    this.#disk = disk;
    this.#paths = storePaths(root, options.storePathCommitLog);
    this.#sizes = options;
  }

  /** Names and sizes that RocketMQ would refuse. */
  strangers(): string[] {
    const wrong: string[] = [];
    for (const { path, fileSize } of this.#folders()) {
      for (const { name, kind } of this.#list(path)) {
        const file = join(path, name);
        if (kind !== "file" || segmentStart(name) === undefined) {
          wrong.push(`${file} is no segment`);
        } else if (this.#disk.size(file) !== fileSize) {
          wrong.push(`${file} has ${this.#disk.size(file)} bytes, ${fileSize} are due`);
        } else if ((segmentStart(name) as number) % fileSize !== 0) {
          wrong.push(`the name of ${file} is no multiple of ${fileSize}`);
        }
      }
    }
    return wrong;
  }

  /** The records of the log, in order, up to the first place that holds none. */
  *records(): Generator<StoredMessage> {
    for (const { record } of this.#walk()) if (record) yield record;
  }

  /** The same with the blanks that close files. */
  *#walk(): Generator<{
    readonly record: StoredMessage | undefined;
    readonly end: PhysicalOffset;
  }> {
    const { mappedFileSizeCommitLog: size } = this.#sizes;
    for (let offset = this.#logStart(); ; ) {
      const start = offset - (offset % size);
      const file = this.#logFile(start);
      if (!file) return;
      const at = offset - start;
      const check = checkRecord(file, at, file.length, offset, { checkCrc: true });
      if (check.kind === "blank" || size - at < BLANK_SIZE) {
        offset = start + size;
        yield { record: undefined, end: offset };
      } else if (check.kind === "record") {
        offset += check.size;
        yield { record: decodeRecord(file, at, at + check.size), end: offset };
      } else {
        return;
      }
    }
  }

  /** The record that lies at `offset`, whatever is before it. */
  recordAt(offset: PhysicalOffset): StoredMessage | undefined {
    const { mappedFileSizeCommitLog: size } = this.#sizes;
    const start = offset - (offset % size);
    const file = this.#logFile(start);
    if (!file) return undefined;
    const at = offset - start;
    const check = checkRecord(file, at, file.length, offset, { checkCrc: true });
    return check.kind === "record" ? decodeRecord(file, at, at + check.size) : undefined;
  }

  /** What the checkpoint claims, and is not so. */
  falseClaims(): string[] {
    if (!this.#has(this.#paths.checkpoint)) return [];
    const bytes = Buffer.alloc(4096);
    this.#file(this.#paths.checkpoint).copy(bytes);
    const { longs, watermarks } = decodeCheckpoint(bytes);
    if (!watermarks) return ["the checkpoint's slot is void"];
    const { logEnd, queuesEnd } = watermarks;
    const wrong: string[] = [];
    const claimed = Math.max(logEnd, queuesEnd);
    const deleted = this.#deletedTopics();
    let end = this.#logStart();
    let newest: StoredMessage | undefined;
    let confirmed = longs.logicsPhysicalOffset === 0;
    for (const step of this.#walk()) {
      if (end >= claimed) break;
      end = step.end;
      const { record } = step;
      if (!record) continue;
      newest = record;
      if (record.physicalOffset === longs.logicsPhysicalOffset) confirmed = true;
      const isQueued =
        takesQueueOffset(record.sysFlag) && !deleted.covers(record.topic, record.physicalOffset);
      if (end <= queuesEnd && isQueued && !this.#hasUnit(record)) {
        wrong.push(
          `the checkpoint vouches for units below ${queuesEnd}, but the record at ${record.physicalOffset} has none as ${record.queueOffset} of ${record.topic}/${record.queueId}`,
        );
      }
    }
    if (end < claimed) {
      wrong.push(`the checkpoint vouches for the log up to ${claimed}, which ends at ${end}`);
    }
    if (!confirmed) {
      wrong.push(
        `the checkpoint's logicsPhysicalOffset is ${longs.logicsPhysicalOffset}, and no record begins there`,
      );
    }
    const times = [longs.physicMsgTimestamp, longs.logicsMsgTimestamp];
    if (wrong.length === 0 && times.some((time) => time > (newest?.storeTimestamp ?? 0))) {
      wrong.push(`the checkpoint's times ${times} are newer than the newest record it vouches for`);
    }
    return wrong;
  }

  #deletedTopics(): DeletedTopics {
    const { deletedTopics: path } = this.#paths;
    return new DeletedTopics(this.#has(path) ? decodeDeletedTopics(this.#file(path)) : []);
  }

  /** One text for all that lies in the folders of segments. */
  segmentsDigest(): string {
    const hash = createHash("sha1");
    for (const { path } of this.#folders()) {
      for (const { name } of [...this.#list(path)].sort((a, b) => (a.name < b.name ? -1 : 1))) {
        hash.update(`${path}/${name}\n`).update(this.#file(join(path, name)));
      }
    }
    return hash.digest("hex");
  }

  exists(path: string): boolean {
    return this.#has(path);
  }

  #folders(): Folder[] {
    const { commitLog, consumeQueue, queueExtension, batchQueue } = this.#paths;
    const sizes = this.#sizes;
    const folders: Folder[] = [{ path: commitLog, fileSize: sizes.mappedFileSizeCommitLog }];
    for (const [root, fileSize] of [
      [consumeQueue, sizes.mappedFileSizeConsumeQueue],
      [queueExtension, sizes.mappedFileSizeConsumeQueueExt],
      [batchQueue, sizes.mapperFileSizeBatchConsumeQueue],
    ] as const) {
      for (const topic of this.#list(root)) {
        for (const queue of this.#list(join(root, topic.name))) {
          folders.push({ path: join(root, topic.name, queue.name), fileSize });
        }
      }
    }
    return folders.sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  #logStart(): PhysicalOffset {
    const starts = this.#list(this.#paths.commitLog).map(({ name }) => segmentStart(name) ?? 0);
    return starts.length === 0 ? 0 : Math.min(...starts);
  }

  #logFile(start: PhysicalOffset): Buffer | undefined {
    const path = join(this.#paths.commitLog, segmentName(start));
    return this.#has(path) ? this.#file(path) : undefined;
  }

  #hasUnit(record: StoredMessage): boolean {
    const { topic, queueId, queueOffset, physicalOffset, size } = record;
    const { mappedFileSizeConsumeQueue: fileSize } = this.#sizes;
    const batches = join(this.#paths.batchQueue, topic, String(queueId));
    if (this.#has(batches)) return this.#hasBatchUnit(batches, record);
    const position = queueOffset * UNIT_BYTES;
    const start = position - (position % fileSize);
    const folder = join(this.#paths.consumeQueue, topic, String(queueId));
    const path = join(folder, segmentName(start));
    if (!this.#has(path)) return false;
    const units = this.#file(path);
    const at = position - start;
    return (
      isUnit(units, at) &&
      unitOffset(units, at) === physicalOffset &&
      unitSize(units, at) === size &&
      this.#hasExtension(addressedOffset(units, at), record)
    );
  }

  /** Whether the unit's address, if it is one, leads to what the record says. */
  #hasExtension(offset: number | undefined, record: StoredMessage): boolean {
    if (offset === undefined) return true;
    const { mappedFileSizeConsumeQueueExt: fileSize } = this.#sizes;
    const start = offset - (offset % fileSize);
    const folder = join(this.#paths.queueExtension, record.topic, String(record.queueId));
    const path = join(folder, segmentName(start));
    if (!this.#has(path)) return false;
    const unit = decodeExtensionUnit(this.#file(path), offset - start);
    return unit?.storeTimestamp === BigInt(record.storeTimestamp);
  }

  #hasBatchUnit(folder: string, { queueOffset, physicalOffset }: StoredMessage): boolean {
    return this.#list(folder).some(({ name }) => {
      const units = this.#file(join(folder, name));
      for (let at = 0; at < units.length; at += BATCH_UNIT_BYTES) {
        const isIt = batchBase(units, at) === queueOffset && isBatchUnit(units, at);
        if (isIt && unitOffset(units, at) === physicalOffset) return true;
      }
      return false;
    });
  }

  #has(path: string): boolean {
    const parent = path.slice(0, path.lastIndexOf("/")) || "/";
    const name = path.slice(parent === "/" ? 1 : parent.length + 1);
    return this.#list(parent).some((entry) => entry.name === name);
  }

  #list(path: string): ReturnType<SimulatedDisk["list"]> {
    try {
      return this.#disk.list(path);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === "ENOENT" || code === "ENOTDIR") return [];
      throw error;
    }
  }

  #file(path: string): Buffer {
    let bytes = this.#read.get(path);
    if (!bytes) {
      bytes = this.#disk.read(path);
      this.#read.set(path, bytes);
    }
    return bytes;
  }
}
