/**
 * One consume queue: for each of its messages, in order, where it lies in the commit log. RocketMQ:
 * `ConsumeQueue`.
 *
 *     min          written          max            nextOffset
 *      |  in files  |   in memory    |  not readable yet |
 *
 * Units are appended in memory, in the turn that makes their messages readable, and written to
 * files later: a queue can always be rebuilt from the log. Offsets are contiguous: a unit that does
 * not come next is refused, never appended at a wrong place.
 *
 * @module
 */

import { dirname, join } from "node:path";
import { StoreError } from "../errors.ts";
import { createDirectory, createFile, removeFile } from "../io/directory.ts";
import type { FileHandle, FileSystem } from "../io/file_system.ts";
import { writeFully } from "../io/fully.ts";
import { hasCode } from "../io/system_error.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import { type Segment, segmentOf } from "../segment/segment.ts";
import { SegmentQueue } from "../segment/segment_queue.ts";
import { OS_PAGE_SIZE, type PhysicalOffset, type QueueOffset } from "../units.ts";
import {
  encodeUnit,
  fillerUnits,
  isFiller,
  isMarkedLost,
  isUnit,
  isUnitOffset,
  type RecordPlace,
  UNIT_BYTES,
  unitOffset,
  unitPlace,
} from "./queue_unit.ts";
import { removeFolder } from "./topic_folders.ts";

/** What a queue needs of its store. */
export interface QueueContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  /** `consumequeue/` of the store. */
  readonly directory: string;
  /** Folder of half-made files. */
  readonly staging: string;
  /** Size of a queue file, a multiple of 20. */
  readonly fileSize: number;
}

/** Units that a search reads at once: a page. */
const SEARCH_UNITS = 200;
/** What is looked through or zeroed at once. */
const PIECE_BYTES = 1024 * 1024;
/** Room for so many units when the first one comes. */
const FIRST_TAIL_UNITS = 8;

export class ConsumeQueue {
  readonly topic: string;
  readonly queueId: number;
  /** What the next put to this queue gets. */
  nextOffset: QueueOffset = 0;
  /** What was put to it since the store was opened; bytes are those of records. */
  readonly put = { messages: 0, bytes: 0, puts: 0 };
  readonly #context: QueueContext;
  readonly #segments: SegmentQueue;
  #min: QueueOffset = 0;
  #max: QueueOffset = 0;
  /** Where the record of message `min` lies, if that is known. */
  #minPhysicalOffset: PhysicalOffset | undefined;
  /** End of the last unit's record; -1 without one. */
  #maxPhysicalOffset: PhysicalOffset = -1;
  /** Where the first and the last unit lead that {@linkcode ConsumeQueue.findEnd} found. */
  #foundFirst: RecordPlace | undefined;
  #foundLast: RecordPlace | undefined;
  /** Where the queue begins, if nothing vouches for what is in the files before it. */
  #begin: QueueOffset | undefined;
  /** Units below are in files. */
  #written: QueueOffset = 0;
  /** Units from `#written` to `#max`. */
  #tail: Buffer | undefined;
  /** Files written since they were last synced. */
  readonly #unforced = new Set<Segment>();

  constructor(context: QueueContext, topic: string, queueId: number, segments: Segment[] = []) {
    this.#context = context;
    this.topic = topic;
    this.queueId = queueId;
    const directory = join(context.directory, topic, String(queueId));
    this.#segments = new SegmentQueue(directory, context.fileSize, context.files, segments);
  }

  get directory(): string {
    return this.#segments.directory;
  }

  get segments(): readonly Segment[] {
    return this.#segments.segments;
  }

  /** The first message that the log still holds. */
  get min(): QueueOffset {
    return this.#min;
  }

  /** One past the last readable message. */
  get max(): QueueOffset {
    return this.#max;
  }

  /** End of the last message's record in the log, or -1. */
  get maxPhysicalOffset(): PhysicalOffset {
    return this.#maxPhysicalOffset;
  }

  /** Where the last unit leads that {@linkcode ConsumeQueue.findEnd} found, if it is no filler. */
  get foundLast(): RecordPlace | undefined {
    return this.#foundLast;
  }

  /** Units that are in memory only. */
  get unwritten(): number {
    return this.#max - this.#written;
  }

  get hasUnforcedFiles(): boolean {
    return this.#unforced.size > 0;
  }

  /** Units in one file. */
  get unitsPerFile(): number {
    return this.#segments.fileSize / UNIT_BYTES;
  }

  /** Whether there has ever been anything in it. */
  get exists(): boolean {
    return this.#max > 0 || this.#segments.first !== undefined;
  }

  /** An empty queue begins at `offset`: the messages before it are no longer in the log. */
  startAt(offset: QueueOffset): void {
    this.#foundFirst = undefined;
    this.#moveTo(offset);
    this.#begin = offset;
  }

  #moveTo(offset: QueueOffset): void {
    this.#foundLast = undefined;
    this.#begin = undefined;
    this.#min = offset;
    this.#minPhysicalOffset = undefined;
    this.#max = offset;
    this.#written = offset;
    this.nextOffset = offset;
  }

  /**
   * Appends the unit of the message at `offset`. Nothing is written to a file yet.
   *
   * @returns `"appended"`, `"known"` if the queue already has it, or `"gap"` if units before it are
   *   missing, and nothing was done.
   */
  append(
    offset: QueueOffset,
    physicalOffset: PhysicalOffset,
    size: number,
    tagsCode: number,
  ): "appended" | "known" | "gap" {
    if (offset < this.#max) return "known";
    if (offset > this.#max) return "gap";
    const at = this.unwritten * UNIT_BYTES;
    this.#tail ??= Buffer.allocUnsafeSlow(FIRST_TAIL_UNITS * UNIT_BYTES);
    if (at + UNIT_BYTES > this.#tail.length) {
      const larger = Buffer.allocUnsafeSlow(this.#tail.length * 2);
      this.#tail.copy(larger, 0, 0, at);
      this.#tail = larger;
    }
    encodeUnit(this.#tail, at, physicalOffset, size, tagsCode);
    this.#max = offset + 1;
    if (this.nextOffset < this.#max) this.nextOffset = this.#max;
    this.#maxPhysicalOffset = physicalOffset + size;
    return "appended";
  }

  /**
   * Reads units from `from` on: at most `count`, and none behind `max`, the end of the file that
   * holds `from`, or a unit whose offset is no safe integer.
   *
   * @returns Whole units, valid until the next turn; empty if there are none at `from`.
   * @throws {StoreError} `STORE_IO`, or `STORE_QUEUE_DAMAGED` if a unit is missing in its file, or if
   *   the first one is damaged.
   */
  async units(from: QueueOffset, count: number): Promise<Buffer> {
    const units = await this.unitsAsTheyAre(from, count);
    for (let at = 0; at < units.length; at += UNIT_BYTES) {
      if (isUnitOffset(units, at)) continue;
      if (at > 0) return units.subarray(0, at);
      throw new StoreError(
        "STORE_QUEUE_DAMAGED",
        `Cannot read unit ${from} of queue ${this.topic}/${this.queueId}: its offset is beyond 2^53`,
        this.placeOf(from),
      );
    }
    return units;
  }

  /** The same, with whatever the units hold. */
  async unitsAsTheyAre(from: QueueOffset, count: number): Promise<Buffer> {
    if (from < this.#min || from >= this.#max) return Buffer.alloc(0);
    const end = Math.min(from + count, this.#max, this.#fileEnd(from));
    if (from >= this.#written) {
      const first = (from - this.#written) * UNIT_BYTES;
      // A copy: the tail moves when the queue is written.
      return Buffer.from((this.#tail as Buffer).subarray(first, first + (end - from) * UNIT_BYTES));
    }
    return this.#read(from, Math.min(end, this.#written));
  }

  /** `offset`, or behind it the first one whose unit is in a file that is there or in memory. */
  heldFrom(offset: QueueOffset): QueueOffset {
    if (offset >= this.#written || this.#segments.find(offset * UNIT_BYTES)) return offset;
    const next = this.#segments.nextFrom(offset * UNIT_BYTES);
    return next ? Math.min(next.start / UNIT_BYTES, this.#written) : this.#written;
  }

  /** Where the unit of a message lies on disk, or will. */
  placeOf(offset: QueueOffset): { readonly path: string; readonly position: number } {
    const start = this.#segments.startOf(offset * UNIT_BYTES);
    const { path } = segmentOf(this.directory, start, this.#segments.fileSize);
    return { path, position: offset * UNIT_BYTES - start };
  }

  /**
   * Writes the units that are in memory to their files, making these as needed. A killed process
   * loses none of them afterwards. Only one call at a time.
   *
   * @throws {StoreError} `STORE_IO` naming the file; the units stay in memory.
   */
  async commit(): Promise<void> {
    while (this.#written < this.#max) {
      const from = this.#written;
      const start = this.#segments.startOf(from * UNIT_BYTES);
      const end = Math.min(this.#max, start / UNIT_BYTES + this.unitsPerFile);
      const units = (this.#tail as Buffer).subarray(0, (end - from) * UNIT_BYTES);
      const position = from * UNIT_BYTES - start;
      const segment = this.#segments.find(start);
      try {
        if (segment) {
          const front = from === this.#begin ? fillerUnits(position / UNIT_BYTES) : undefined;
          await this.#context.files.use(segment.path, (file) =>
            front ? writeFully(file, [front, units], 0) : writeFully(file, [units], position),
          );
          this.#unforced.add(segment);
        } else {
          await this.#create(start, position, units);
        }
      } catch (cause) {
        throw new StoreError(
          "STORE_IO",
          `Cannot write units ${from} to ${end - 1} of queue ${this.topic}/${this.queueId} in ${this.directory}`,
          { ...this.placeOf(from), cause },
        );
      }
      this.#dropTail(end);
    }
  }

  /**
   * Syncs every file that was written: a power cut loses no committed unit afterwards.
   *
   * @throws {StoreError} `STORE_IO`, or `STORE_FILES_VANISHED` if somebody removed a file meanwhile.
   */
  async force(): Promise<void> {
    for (const segment of [...this.#unforced]) {
      this.#unforced.delete(segment);
      try {
        await this.#context.files.use(segment.path, (file) => file.fdatasync());
        await this.#context.fileSystem.stat(segment.path);
      } catch (cause) {
        this.#unforced.add(segment);
        const gone = (cause as { code?: string }).code === "ENOENT";
        throw new StoreError(
          gone ? "STORE_FILES_VANISHED" : "STORE_IO",
          gone
            ? `Cannot keep ${segment.path}: it was removed by somebody else`
            : `Cannot sync ${segment.path}`,
          { path: segment.path, cause },
        );
      }
    }
  }

  // Recovery.

  /**
   * Finds the end of a queue that was just loaded: behind the last valid unit of a record that
   * starts below `limit`. Units lie in the order of the log, so it takes a few reads.
   *
   * @returns Whether it is one: no unit close behind it leads below `limit`, as those behind a damaged
   *   unit do. A queue that has no unit at all, in a file that is not empty, has no end either if all of
   *   its units are wanted.
   */
  async findEnd(limit: PhysicalOffset): Promise<boolean> {
    const files = this.#segments.segments;
    const first = (files[0]?.start ?? 0) / UNIT_BYTES;
    this.#foundFirst = await this.#placeOfUnit(first, limit);
    let end = first;
    for (let i = files.length - 1; i >= 0; i--) {
      const page = await this.#lastPageBelow((files[i] as Segment).start / UNIT_BYTES, limit);
      if (page === undefined) continue;
      end = page;
      break;
    }
    let last: RecordPlace | undefined;
    let endsInFiller = false;
    scan: while (this.#segments.find(end * UNIT_BYTES)) {
      const units = await this.#read(end, Math.min(end + SEARCH_UNITS, this.#fileEnd(end)));
      for (let at = 0; at < units.length; at += UNIT_BYTES, end++) {
        if (!isUnitBelow(units, at, limit)) break scan;
        endsInFiller = isFiller(units, at);
        // What fills the front of a queue stands nowhere else.
        if (endsInFiller && (last || this.#foundFirst) && !isMarkedLost(units, at)) break scan;
        if (!endsInFiller) last = unitPlace(units, at);
      }
    }
    this.#moveTo(end);
    this.#min = first;
    this.#foundLast = endsInFiller ? undefined : last;
    this.#maxPhysicalOffset = last ? last.offset + last.size : -1;
    const isDamaged =
      end === first && limit === Number.POSITIVE_INFINITY && (await this.#holdsAny(first));
    return !isDamaged && !(await this.#leadsBelow(limit, end));
  }

  /** Whether the first page from a unit on holds anything. */
  async #holdsAny(from: QueueOffset): Promise<boolean> {
    if (!this.#segments.find(from * UNIT_BYTES)) return false;
    const units = await this.#read(from, Math.min(from + SEARCH_UNITS, this.#fileEnd(from)));
    return lastNonZero(units) >= 0;
  }

  async #placeOfUnit(offset: QueueOffset, limit: PhysicalOffset): Promise<RecordPlace | undefined> {
    if (!this.#segments.first) return undefined;
    const unit = await this.#read(offset, offset + 1);
    const leads = isUnitBelow(unit, 0, limit) && !isFiller(unit, 0);
    return leads ? unitPlace(unit, 0) : undefined;
  }

  /** Whether a unit from `from` on leads below `limit`; looks as far as there are any units. */
  async #leadsBelow(limit: PhysicalOffset, from: QueueOffset): Promise<boolean> {
    let isAny = true;
    for (let offset = from; isAny && this.#segments.find(offset * UNIT_BYTES); ) {
      // Up to the end of the page: behind it is a hole as a rule, whose reading takes a thread.
      const bytes = OS_PAGE_SIZE - ((offset * UNIT_BYTES) % OS_PAGE_SIZE);
      const count = Math.max(1, Math.floor(bytes / UNIT_BYTES));
      const units = await this.#read(offset, Math.min(offset + count, this.#fileEnd(offset)));
      isAny = false;
      for (let at = 0; at < units.length; at += UNIT_BYTES, offset++) {
        if (!isUnit(units, at)) continue;
        isAny = true;
        const isFront = isFiller(units, at) && !isMarkedLost(units, at);
        if (isFront || (!isFiller(units, at) && unitOffset(units, at) < limit)) return true;
      }
    }
    return false;
  }

  /** The last place in the file that starts at unit `start` from which on the next message is below. */
  async #lastPageBelow(
    start: QueueOffset,
    limit: PhysicalOffset,
  ): Promise<QueueOffset | undefined> {
    const end = start + this.unitsPerFile;
    const isBelow = async (page: number): Promise<boolean> => {
      let count = 1;
      for (
        let from = start + page * SEARCH_UNITS;
        from < end;
        from += count, count = SEARCH_UNITS
      ) {
        const units = await this.#read(from, Math.min(from + count, end));
        for (let at = 0; at < units.length; at += UNIT_BYTES) {
          if (!isFiller(units, at)) return isUnitBelow(units, at, limit);
        }
      }
      return false;
    };
    if (!(await isBelow(0))) return undefined;
    // Most queues are far from full: pages behind the end are holes, whose reading takes a thread.
    const pages = Math.ceil(this.unitsPerFile / SEARCH_UNITS);
    let low = 0;
    let high = 1;
    for (; high < pages && (await isBelow(high)); high *= 2) low = high;
    high = Math.min(high, pages);
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (await isBelow(middle)) low = middle;
      else high = middle;
    }
    return start + low * SEARCH_UNITS;
  }

  /** Removes every file: the queue is about to be rebuilt from the log. */
  async reset(): Promise<void> {
    this.startAt(0);
    this.#tail = undefined;
    this.#maxPhysicalOffset = -1;
    await this.clearBehind();
  }

  /**
   * Makes what lies on disk behind the end harmless: files behind it are removed, the rest of the
   * last file is zero. RocketMQ takes an empty file at the end for a message.
   *
   * @returns What was removed or zeroed, for the report.
   */
  async clearBehind(): Promise<string[]> {
    const done: string[] = [];
    const end = this.#written * UNIT_BYTES;
    // The last one first: whenever this is cut short, the files that are left have no gap.
    for (const segment of this.#segments.dropFrom(end).reverse()) {
      this.#unforced.delete(segment);
      await this.#context.files.close(segment.path);
      await removeFile(this.#context.fileSystem, segment.path);
      done.push(segment.path);
    }
    const { last } = this.#segments;
    if (!last || end >= last.start + last.size) return done;
    const fileEnd = last.start + last.size;
    let isStale = false;
    for (let offset = end; ; offset += PIECE_BYTES) {
      offset += await this.#holeAt(last, offset);
      if (offset >= fileEnd) break;
      const rest = await this.#segments.read(offset, PIECE_BYTES);
      const stale = rest ? lastNonZero(rest) + 1 : 0;
      if (stale === 0) continue;
      isStale = true;
      this.#unforced.add(last);
      const at = offset;
      await this.#context.files.use(last.path, (file) =>
        writeFully(file, [Buffer.alloc(stale)], at - last.start),
      );
    }
    if (isStale) done.push(last.path);
    return done;
  }

  /** Bytes from `offset` on that are zero since no block holds them. */
  async #holeAt({ path, start }: Segment, offset: number): Promise<number> {
    try {
      return await this.#context.files.use(
        path,
        async (file) => (await file.nextData(offset - start)) - (offset - start),
      );
    } catch (cause) {
      throw new StoreError("STORE_IO", `Cannot look for data in ${path}`, { path, cause });
    }
  }

  /** Moves `min` to the first message whose record starts at `logMin` or behind it. */
  async correctMin(logMin: PhysicalOffset): Promise<void> {
    this.#min = (this.#segments.first?.start ?? this.#min * UNIT_BYTES) / UNIT_BYTES;
    this.#minPhysicalOffset = undefined;
    if (this.#foundFirst && this.#foundFirst.offset >= logMin) {
      this.#minPhysicalOffset = this.#foundFirst.offset;
      return;
    }
    await this.expire(logMin);
  }

  // Retention.

  /**
   * The same while the queue is in use, after the first files of the log have been deleted: `min`
   * never goes back. A queue without messages keeps its end, where the next one goes on.
   */
  async expire(logMin: PhysicalOffset): Promise<void> {
    const end = this.#max;
    let low = this.#min;
    if (low === end || (this.#minPhysicalOffset ?? Number.NEGATIVE_INFINITY) >= logMin) return;
    let high = end;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const next = await this.#nextMessage(middle, high);
      // A damaged unit tells nothing: it stays in the queue, where whoever reads it is told.
      if (next?.physicalOffset !== undefined && next.physicalOffset < logMin) low = next.offset + 1;
      else high = middle;
    }
    const first = await this.#nextMessage(low, end);
    this.#min = first?.offset ?? end;
    this.#minPhysicalOffset = first?.physicalOffset;
  }

  /**
   * Where the record of message `offset` begins, or that of the first one behind it that is there;
   * `undefined` if there is none, or if its unit is damaged.
   *
   * @throws {StoreError} `STORE_IO`, `STORE_QUEUE_DAMAGED`.
   */
  async placeFrom(offset: QueueOffset): Promise<PhysicalOffset | undefined> {
    return (await this.#nextMessage(Math.max(offset, this.#min), this.#max))?.physicalOffset;
  }

  /** Whether there are files that hold nothing but expired messages. */
  get hasExpiredFiles(): boolean {
    const [first, next] = this.#segments.segments;
    return first !== undefined && next !== undefined && next.start <= this.#min * UNIT_BYTES;
  }

  /**
   * Deletes the files in front of the one that holds `min`, the oldest first, but never the last file:
   * its name tells where the queue goes on. Not while the queue is being forced.
   *
   * @returns Their paths.
   * @throws {StoreError} `STORE_IO` naming the file.
   */
  async removeExpiredFiles(): Promise<string[]> {
    const removed: string[] = [];
    while (this.hasExpiredFiles) {
      const first = this.#segments.first as Segment;
      // Its next force would miss it.
      if (this.#unforced.has(first)) break;
      try {
        await this.#segments.removeFirst(this.#context.fileSystem);
      } catch (cause) {
        const { path } = first;
        throw new StoreError("STORE_IO", `Cannot delete ${path}`, { path, cause });
      }
      removed.push(first.path);
    }
    return removed;
  }

  /**
   * Deletes the files in front of `offset`, with which one begins or would, the oldest first. They are none of
   * this queue's but those of the topic that was deleted. Not while the queue is being forced.
   *
   * @throws {StoreError} `STORE_IO` naming the file.
   */
  async removeFilesBefore(offset: QueueOffset): Promise<void> {
    for (;;) {
      const { first } = this.#segments;
      if (!first || first.start >= offset * UNIT_BYTES) return;
      this.#unforced.delete(first);
      try {
        await this.#segments.removeFirst(this.#context.fileSystem);
      } catch (cause) {
        const { path } = first;
        throw new StoreError("STORE_IO", `Cannot delete ${path}`, { path, cause });
      }
    }
  }

  /**
   * Deletes the queue, the oldest file first, and its folder. Whoever still has it finds no message in it.
   * Not while it is being written or forced; a power cut does not bring it back.
   *
   * @throws {StoreError} `STORE_IO`; some files may be left.
   */
  async remove(): Promise<void> {
    this.#min = this.#max;
    this.#written = this.#max;
    this.#tail = undefined;
    await this.removeFilesBefore(Number.POSITIVE_INFINITY);
    await removeFolder(this.#context.fileSystem, this.directory);
  }

  /** The first message from `from` on and before `end`: fillers, and files that are gone, have none. */
  async #nextMessage(
    from: QueueOffset,
    end: QueueOffset,
  ): Promise<{ offset: QueueOffset; physicalOffset: PhysicalOffset | undefined } | undefined> {
    for (let offset = from; offset < end; ) {
      const held = this.heldFrom(offset);
      if (held > offset) {
        offset = held;
        continue;
      }
      const units = await this.unitsAsTheyAre(offset, Math.min(SEARCH_UNITS, end - offset));
      for (let at = 0; at < units.length; at += UNIT_BYTES, offset++) {
        if (isFiller(units, at)) continue;
        return { offset, physicalOffset: isUnit(units, at) ? unitOffset(units, at) : undefined };
      }
    }
    return undefined;
  }

  /** Behind the last unit of the file that holds `offset`. */
  #fileEnd(offset: QueueOffset): QueueOffset {
    return offset - (offset % this.unitsPerFile) + this.unitsPerFile;
  }

  async #read(from: QueueOffset, end: QueueOffset): Promise<Buffer> {
    const wanted = (end - from) * UNIT_BYTES;
    const bytes = await this.#segments.read(from * UNIT_BYTES, wanted);
    if (bytes?.length === wanted) return bytes;
    const segment = this.#segments.find(from * UNIT_BYTES);
    throw new StoreError(
      "STORE_QUEUE_DAMAGED",
      `Cannot read units ${from} to ${end - 1} of queue ${this.topic}/${this.queueId}: ${
        segment ? `${segment.path} ends before` : `no file of ${this.directory} holds them`
      }`,
      this.placeOf(from),
    );
  }

  async #create(start: number, position: number, units: Buffer): Promise<void> {
    const { fileSystem, files, staging, fileSize } = this.#context;
    // Each by itself: a process that was killed may have left the topic's without its sync.
    await createDirectory(fileSystem, dirname(this.directory));
    await createDirectory(fileSystem, this.directory);
    const segment = segmentOf(this.directory, start, fileSize);
    const front = position > 0 ? [fillerUnits(position / UNIT_BYTES)] : [];
    // With its first units inside: RocketMQ takes an empty queue file for one with a message.
    const fill = (file: FileHandle) => writeFully(file, [...front, units], 0);
    const { path } = segment;
    const file = { staging, path, size: fileSize, fill };
    const handle = await createFile(fileSystem, file).catch(async (error: unknown) => {
      if (!hasCode(error, "EEXIST")) throw error;
      // A Java broker that was started beside us builds queues before it finds our lock. They come
      // from our log, but it may still have the file mapped: ours takes its place.
      await removeFile(fileSystem, path);
      return createFile(fileSystem, file);
    });
    files.adopt(path, handle);
    this.#segments.add(segment);
  }

  #dropTail(written: QueueOffset): void {
    const left = (this.#max - written) * UNIT_BYTES;
    const from = (written - this.#written) * UNIT_BYTES;
    this.#written = written;
    if (left === 0) this.#tail = undefined;
    else (this.#tail as Buffer).copyWithin(0, from, from + left);
  }
}

function isUnitBelow(units: Buffer, at: number, limit: PhysicalOffset): boolean {
  return isUnit(units, at) && (isFiller(units, at) || unitOffset(units, at) < limit);
}

function lastNonZero(bytes: Buffer): number {
  let at = bytes.length - 1;
  while (at >= 0 && bytes[at] === 0) at--;
  return at;
}
