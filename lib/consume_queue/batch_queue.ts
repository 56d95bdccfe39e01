/**
 * A queue whose records may hold many messages each (topics with `queue.type=BatchCQ`): it has a unit for
 * each record. RocketMQ: `BatchConsumeQueue`.
 *
 *     unit          0              1      2
 *     messages   0 ... 9         10     11 ... 14      max = 15
 *
 * Units lie as those of a consume queue do, and are counted as messages are there; the messages of a unit
 * are found by a search. The queue begins with unit 0, whatever its first message.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import type { Segment } from "../segment/segment.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import {
  BATCH_UNIT_BYTES,
  batchBase,
  batchMessages,
  encodeBatch,
  isBatchUnit,
} from "./batch_unit.ts";
import { ConsumeQueue } from "./consume_queue.ts";
import type { QueueFilesContext } from "./queue_files.ts";
import { encodeUnit, type RecordPlace, unitOffset } from "./queue_unit.ts";

/** Units that a search looks at in one place: those before the first may be damaged. */
const SEARCH_UNITS = 16;

const NOTHING: Buffer = Buffer.alloc(0);

/** Where the messages of a unit begin. */
interface Found {
  /** Number of the unit. */
  readonly unit: number;
  readonly base: QueueOffset;
}

export class BatchQueue {
  readonly topic: string;
  readonly queueId: number;
  readonly queueType = "BatchCQ" as const;
  /** What the next put to this queue gets. */
  nextOffset: QueueOffset = 0;
  /** As `ConsumeQueue.put`. */
  readonly put = { messages: 0, bytes: 0, puts: 0 };
  /** There is none: a unit has room for what it holds. */
  readonly extension = undefined;
  readonly unitBytes = BATCH_UNIT_BYTES;
  /** Units by their number. */
  readonly #units: ConsumeQueue;
  readonly #unit = Buffer.allocUnsafe(BATCH_UNIT_BYTES);
  #min: QueueOffset = 0;
  #max: QueueOffset = 0;
  /** The unit behind those that were read last: who reads on needs no search. */
  #ahead: Found | undefined;

  constructor(
    context: QueueFilesContext,
    topic: string,
    queueId: number,
    segments: Segment[] = [],
  ) {
    this.topic = topic;
    this.queueId = queueId;
    const unitBytes = BATCH_UNIT_BYTES;
    this.#units = new ConsumeQueue({ ...context, unitBytes }, topic, queueId, segments);
  }

  get directory(): string {
    return this.#units.directory;
  }

  get segments(): readonly Segment[] {
    return this.#units.segments;
  }

  /** The first message that the log still holds. */
  get min(): QueueOffset {
    return this.#min;
  }

  /** One past the last readable message. */
  get max(): QueueOffset {
    return this.#max;
  }

  get maxPhysicalOffset(): PhysicalOffset {
    return this.#units.maxPhysicalOffset;
  }

  get foundLast(): RecordPlace | undefined {
    return this.#units.foundLast;
  }

  get unwrittenBytes(): number {
    return this.#units.unwrittenBytes;
  }

  get hasUnforcedFiles(): boolean {
    return this.#units.hasUnforcedFiles;
  }

  get fileBytes(): number {
    return this.#units.fileBytes;
  }

  get exists(): boolean {
    return this.#max > 0 || this.#units.exists;
  }

  /** An empty queue begins at `offset`: the messages before it are no longer in the log. */
  startAt(offset: QueueOffset): void {
    this.#min = offset;
    this.#max = offset;
    this.nextOffset = offset;
    this.#ahead = undefined;
  }

  /**
   * Appends the unit of a record. Nothing is written to a file yet.
   *
   * @param offset Of its first message.
   * @param messages How many it holds, 1 to 32767.
   * @returns As `ConsumeQueue.append`.
   */
  append(
    offset: QueueOffset,
    physicalOffset: PhysicalOffset,
    size: number,
    tagsCode: number,
    storeTimestamp: number,
    messages: number,
  ): "appended" | "known" | "gap" {
    if (offset < this.#max) return "known";
    if (offset > this.#max) return "gap";
    encodeUnit(this.#unit, 0, physicalOffset, size, tagsCode);
    encodeBatch(this.#unit, 0, storeTimestamp, offset, messages);
    this.#units.appendUnit(this.#unit);
    this.#max = offset + messages;
    if (this.nextOffset < this.#max) this.nextOffset = this.#max;
    return "appended";
  }

  /**
   * Reads units, from that of message `from` on: at most `count`, and none behind the end of their file.
   * Where no unit says that it has message `from`, the next ones come.
   *
   * @returns Whole units of 46 bytes; empty if there are none.
   * @throws {StoreError} `STORE_IO`, or `STORE_QUEUE_DAMAGED` if the first one is damaged.
   */
  async units(from: QueueOffset, count: number): Promise<Buffer> {
    const units = await this.unitsAsTheyAre(from, count);
    let next = from;
    for (let at = 0; at < units.length; at += BATCH_UNIT_BYTES) {
      if (this.isUnitAt(units, at, next)) {
        next = batchBase(units, at) + batchMessages(units, at);
        continue;
      }
      if (at > 0) return units.subarray(0, at);
      throw new StoreError(
        "STORE_QUEUE_DAMAGED",
        `Cannot read the unit of message ${from} of queue ${this.topic}/${this.queueId}: it is damaged`,
        await this.placeOf(from),
      );
    }
    return units;
  }

  /**
   * Whether a unit that was read is one, and of messages that come at `next` or behind it: the messages of
   * the first one may begin before.
   */
  isUnitAt(units: Buffer, at: number, next: QueueOffset): boolean {
    if (!isBatchUnit(units, at)) return false;
    const base = batchBase(units, at);
    const end = base + batchMessages(units, at);
    return end > next && end <= this.#max && (at === 0 || base >= next);
  }

  /** The same, with whatever the units hold. */
  async unitsAsTheyAre(from: QueueOffset, count: number): Promise<Buffer> {
    if (from < this.#min || from >= this.#max) return NOTHING;
    const unit = await this.#find(from);
    const units = await this.#units.unitsAsTheyAre(unit, count);
    const last = units.length - BATCH_UNIT_BYTES;
    if (last >= 0 && this.isUnitAt(units, last, from)) {
      const base = batchBase(units, last) + batchMessages(units, last);
      this.#ahead = { unit: unit + units.length / BATCH_UNIT_BYTES, base };
    }
    return units;
  }

  /** Where the unit of a message lies on disk, or will. */
  async placeOf(
    offset: QueueOffset,
  ): Promise<{ readonly path: string; readonly position: number }> {
    return this.#units.placeOf(await this.#find(offset));
  }

  /** Whether the unit of a message is the first one of its file. */
  async startsFile(offset: QueueOffset): Promise<boolean> {
    return (await this.#find(offset)) % this.#units.unitsPerFile === 0;
  }

  /** `offset`: whether its unit is there, only a look at it tells. */
  heldFrom(offset: QueueOffset): QueueOffset {
    return offset;
  }

  /** Number of the unit that holds a message; without one, that of the next. */
  async #find(offset: QueueOffset): Promise<number> {
    if (this.#ahead?.base === offset) return this.#units.heldFrom(this.#ahead.unit);
    let low = this.#units.min;
    let high = this.#units.max;
    let isCovered = false;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const found = await this.#firstFrom(middle, high);
      if (found && found.base <= offset) {
        low = found.unit + 1;
        isCovered = offset < found.base + found.messages;
      } else {
        high = middle;
      }
    }
    return isCovered ? low - 1 : this.#units.heldFrom(low);
  }

  /** The first unit from `from` on, and before `end`, that is not damaged. */
  async #firstFrom(
    from: number,
    end: number,
  ): Promise<(Found & { readonly messages: number }) | undefined> {
    for (let unit = this.#units.heldFrom(from); unit < end; unit = this.#units.heldFrom(unit)) {
      const units = await this.#units.unitsAsTheyAre(unit, Math.min(SEARCH_UNITS, end - unit));
      if (units.length === 0) return undefined;
      for (let at = 0; at < units.length; at += BATCH_UNIT_BYTES, unit++) {
        if (!this.isUnitAt(units, at, 0)) continue;
        return { unit, base: batchBase(units, at), messages: batchMessages(units, at) };
      }
    }
    return undefined;
  }

  /** As `ConsumeQueue.commit`. */
  commit(): Promise<void> {
    return this.#units.commit();
  }

  /** As `ConsumeQueue.force`. */
  force(): Promise<void> {
    return this.#units.force();
  }

  // Recovery and retention.

  /** As `ConsumeQueue.findEnd`. */
  async findEnd(limit: PhysicalOffset): Promise<boolean> {
    const isWhole = await this.#units.findEnd(limit);
    const { min: first, max: end } = this.#units;
    this.startAt(0);
    if (first === end) return isWhole;
    const last = await this.#units.unitsAsTheyAre(end - 1, 1);
    if (!isBatchUnit(last, 0)) return false;
    this.startAt(batchBase(last, 0) + batchMessages(last, 0));
    const begin = await this.#firstFrom(first, end);
    this.#min = begin?.base ?? this.#max;
    return isWhole;
  }

  /** Removes every file: the queue is about to be rebuilt from the log. */
  async reset(): Promise<void> {
    this.startAt(0);
    await this.#units.reset();
  }

  /** As `ConsumeQueue.clearBehind`. */
  clearBehind(): Promise<string[]> {
    return this.#units.clearBehind();
  }

  /** As `ConsumeQueue.lookBehind`. */
  lookBehind(): Promise<void> {
    return this.#units.lookBehind();
  }

  /** Moves `min` to the first message whose record starts at `logMin` or behind it. */
  async correctMin(logMin: PhysicalOffset): Promise<void> {
    await this.#units.correctMin(logMin);
    await this.#followMin();
  }

  /** The same while the queue is in use: `min` never goes back. */
  async expire(logMin: PhysicalOffset): Promise<void> {
    await this.#units.expire(logMin);
    await this.#followMin();
  }

  async #followMin(): Promise<void> {
    const { min, max } = this.#units;
    const end = this.#max;
    const first = await this.#firstFrom(min, max);
    this.#min = Math.max(this.#min, first?.base ?? end);
  }

  /** As `ConsumeQueue.placeFrom`. */
  async placeFrom(offset: QueueOffset): Promise<PhysicalOffset | undefined> {
    const units = await this.unitsAsTheyAre(Math.max(offset, this.#min), 1);
    return units.length > 0 && isBatchUnit(units, 0) ? unitOffset(units, 0) : undefined;
  }

  /** As `ConsumeQueue.remove`. */
  async remove(): Promise<void> {
    this.#min = this.#max;
    await this.#units.remove();
  }

  get hasExpiredFiles(): boolean {
    return this.#units.hasExpiredFiles;
  }

  /** As `ConsumeQueue.removeExpiredFiles`. */
  removeExpiredFiles(): Promise<string[]> {
    return this.#units.removeExpiredFiles();
  }
}
