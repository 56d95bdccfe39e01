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

import { StoreError } from "../errors.ts";
import type { Soon } from "../io/soon.ts";
import type { Segment } from "../segment/segment.ts";
import { OS_PAGE_SIZE, type PhysicalOffset, type QueueOffset } from "../units.ts";
import type { QueueExtension } from "./queue_extension.ts";
import { type Content, lastNonZero, QueueFiles, type QueueFilesContext } from "./queue_files.ts";
import {
  addressedOffset,
  encodeUnit,
  fillerUnits,
  isFiller,
  isMarkedLost,
  isUnit,
  isUnitOffset,
  type RecordPlace,
  setUnitTagsCode,
  UNIT_BYTES,
  unitOffset,
  unitPlace,
  unitSize,
} from "./queue_unit.ts";
import { UnitWindow } from "./unit_window.ts";

/** The first message of a part of a queue. */
interface NextMessage {
  readonly offset: QueueOffset;
  /** `undefined` if its unit is damaged. */
  readonly physicalOffset: PhysicalOffset | undefined;
  /** Where in the extension its unit leads, if it does. */
  readonly addressed: number | undefined;
}

/** What a queue needs of its store. */
export interface QueueContext extends QueueFilesContext {
  /** Size of a unit, of which the first 20 bytes are as in `queue_unit.ts`. @default 20 */
  readonly unitBytes?: number;
}

/** Units that a search reads at once: a page. */
const SEARCH_UNITS = 200;
/** Units that are looked through at once for an address: most do not end in a page without one. */
const ADDRESS_UNITS = 2000;
/** Pages that are looked through at once for units behind the end: most queues have none. */
const BEHIND_PAGES_MAX = 16;

export class ConsumeQueue {
  readonly topic: string;
  readonly queueId: number;
  /** RocketMQ's `queue.type` of its topic. */
  readonly queueType = "SimpleCQ" as const;
  /** What the next put to this queue gets. */
  nextOffset: QueueOffset = 0;
  /** What was put to it since the store was opened; bytes are those of records. */
  readonly put = { messages: 0, bytes: 0, puts: 0 };
  /** Holds more of its messages, if anything does. */
  readonly extension: QueueExtension | undefined;
  readonly #files: QueueFiles;
  readonly unitBytes: number;
  #min: QueueOffset = 0;
  #max: QueueOffset = 0;
  /** Where the record of message `min` lies, if that is known. */
  #minPhysicalOffset: PhysicalOffset | undefined;
  /** Units of the queue lead to no unit of the extension below. */
  #minAddressed = 0;
  /** End of the last unit's record; -1 without one. */
  #maxPhysicalOffset: PhysicalOffset = -1;
  /** Where the first and the last unit lead that {@linkcode ConsumeQueue.findEnd} found, until `min` is correct. */
  #foundFirst: RecordPlace | undefined;
  #foundLast: RecordPlace | undefined;

  constructor(
    context: QueueContext,
    topic: string,
    queueId: number,
    segments: Segment[] = [],
    extension?: QueueExtension,
  ) {
    this.extension = extension;
    this.topic = topic;
    this.queueId = queueId;
    const { unitBytes = UNIT_BYTES } = context;
    this.unitBytes = unitBytes;
    const content = new UnitsOf(this);
    this.#files = new QueueFiles(context, topic, queueId, content, segments);
  }

  get directory(): string {
    return this.#files.sequence.directory;
  }

  get segments(): readonly Segment[] {
    return this.#files.sequence.segments;
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
    return this.#files.unwrittenBytes / this.unitBytes;
  }

  get unwrittenBytes(): number {
    return this.#files.unwrittenBytes;
  }

  get hasUnforcedFiles(): boolean {
    return this.#files.hasUnforced || this.extension?.hasUnforcedFiles === true;
  }

  /** Size of all its files, in bytes. */
  get fileBytes(): number {
    const { segments, fileSize } = this.#files.sequence;
    return segments.length * fileSize + (this.extension?.fileBytes ?? 0);
  }

  /** Units in one file. */
  get unitsPerFile(): number {
    return this.#files.sequence.fileSize / this.unitBytes;
  }

  /** Whether there has ever been anything in it. */
  get exists(): boolean {
    return this.#max > 0 || this.#files.sequence.first !== undefined;
  }

  /** An empty queue begins at `offset`: the messages before it are no longer in the log. */
  startAt(offset: QueueOffset): void {
    this.#foundFirst = undefined;
    this.#moveTo(offset);
    this.#files.startAt(offset * this.unitBytes);
  }

  #moveTo(offset: QueueOffset): void {
    this.#foundLast = undefined;
    this.#files.moveTo(offset * this.unitBytes);
    this.#min = offset;
    this.#minPhysicalOffset = undefined;
    this.#max = offset;
    this.nextOffset = offset;
  }

  /**
   * Appends the unit of the message at `offset`. Nothing is written to a file yet.
   *
   * @param storeTimestamp Of the record, in ms: with it, the message gets a unit in the extension, too.
   * @returns `"appended"`, `"known"` if the queue already has it, or `"gap"` if units before it are
   *   missing, and nothing was done.
   */
  append(
    offset: QueueOffset,
    physicalOffset: PhysicalOffset,
    size: number,
    tagsCode: number,
    storeTimestamp?: number,
  ): "appended" | "known" | "gap" {
    if (offset < this.#max) return "known";
    if (offset > this.#max) return "gap";
    const at = this.#files.grow(this.unitBytes);
    encodeUnit(this.#files.tail, at, physicalOffset, size, tagsCode);
    if (this.extension?.writes && storeTimestamp !== undefined) {
      setUnitTagsCode(this.#files.tail, at, this.extension.append(tagsCode, storeTimestamp));
    }
    this.#appended(physicalOffset + size);
    return "appended";
  }

  /** Appends a unit that is encoded already: the next one. */
  appendUnit(unit: Buffer): void {
    const at = this.#files.grow(unit.length);
    unit.copy(this.#files.tail, at);
    this.#appended(unitOffset(unit, 0) + unitSize(unit, 0));
  }

  #appended(physicalEnd: PhysicalOffset): void {
    this.#max++;
    if (this.nextOffset < this.#max) this.nextOffset = this.#max;
    this.#maxPhysicalOffset = physicalEnd;
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
    for (let at = 0; at < units.length; at += this.unitBytes) {
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
  unitsAsTheyAre(from: QueueOffset, count: number): Soon<Buffer> {
    if (from < this.#min || from >= this.#max) return Buffer.alloc(0);
    const end = Math.min(from + count, this.#max, this.#fileEnd(from));
    // Up to what is in files, or all of it in memory.
    const written = this.#files.written / this.unitBytes;
    return this.#read(from, from < written ? Math.min(end, written) : end);
  }

  /** `offset`, or behind it the first one whose unit is in a file that is there or in memory. */
  heldFrom(offset: QueueOffset): QueueOffset {
    const { sequence, written } = this.#files;
    const at = offset * this.unitBytes;
    if (at >= written || sequence.find(at)) return offset;
    return Math.min(sequence.nextFrom(at)?.start ?? written, written) / this.unitBytes;
  }

  /** Where the unit of a message lies on disk, or will. */
  placeOf(offset: QueueOffset): { readonly path: string; readonly position: number } {
    return this.#files.placeOf(offset * this.unitBytes);
  }

  /**
   * Writes the units that are in memory to their files, making these as needed. A killed process
   * loses none of them afterwards. Only one call at a time.
   *
   * @throws {StoreError} `STORE_IO` naming the file; the units stay in memory.
   */
  async commit(): Promise<void> {
    // First what units lead to.
    await this.extension?.commit();
    await this.#files.commit();
  }

  /**
   * Syncs every file that was written: a power cut loses no committed unit afterwards.
   *
   * @throws {StoreError} `STORE_IO`, or `STORE_FILES_VANISHED` if somebody removed a file meanwhile.
   */
  async force(): Promise<void> {
    await this.extension?.force();
    await this.#files.force();
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
    const { sequence } = this.#files;
    const files = sequence.segments;
    const window = new UnitWindow(this.#files, this.unitBytes);
    const first = (files[0]?.start ?? 0) / this.unitBytes;
    this.#foundFirst = await this.#placeOfUnit(window, first, limit);
    let end = first;
    for (let i = files.length - 1; i >= 0; i--) {
      const page = await this.#lastPageBelow(
        window,
        (files[i] as Segment).start / this.unitBytes,
        limit,
      );
      if (page === undefined) continue;
      end = page;
      break;
    }
    let last: RecordPlace | undefined;
    let endsInFiller = false;
    while (sequence.find(end * this.unitBytes)) {
      const units = await window.read(end, Math.min(end + SEARCH_UNITS, this.#fileEnd(end)));
      let isOver = false;
      let lastAt: number | undefined;
      for (let at = 0; at < units.length; at += this.unitBytes, end++) {
        isOver = !isUnitBelow(units, at, limit);
        if (isOver) break;
        endsInFiller = isFiller(units, at);
        // What fills the front of a queue stands nowhere else.
        const isFirst = !last && lastAt === undefined && !this.#foundFirst;
        isOver = endsInFiller && !isFirst && !isMarkedLost(units, at);
        if (isOver) break;
        if (!endsInFiller) lastAt = at;
      }
      if (lastAt !== undefined) last = unitPlace(units, lastAt);
      if (isOver) break;
    }
    this.#moveTo(end);
    this.#min = first;
    this.#foundLast = endsInFiller ? undefined : last;
    this.#maxPhysicalOffset = last ? last.offset + last.size : -1;
    if (this.extension?.writes) {
      await this.extension.goOnAfter(await this.#lastAddressed(first, end));
    }
    const isDamaged =
      end === first && limit === Number.POSITIVE_INFINITY && (await this.#holdsAny(window, first));
    // A queue without a unit before the log's beginning gets all of them anew, whatever lies there.
    const isAnew = limit === 0 && end === 0;
    return !isDamaged && (isAnew || !(await this.#leadsBelow(window, limit, end)));
  }

  /** Where in the extension the last unit leads that leads there. */
  async #lastAddressed(first: QueueOffset, end: QueueOffset): Promise<number | undefined> {
    for (let to = end; to > first; ) {
      const from = Math.max(first, this.#fileEnd(to - 1) - this.unitsPerFile, to - ADDRESS_UNITS);
      const isThere = this.#files.sequence.find(from * this.unitBytes) !== undefined;
      const units = isThere ? await this.#readFiles(from, to) : Buffer.alloc(0);
      for (let at = units.length - this.unitBytes; at >= 0; at -= this.unitBytes) {
        const offset = addressedOffset(units, at);
        if (offset !== undefined) return offset;
      }
      to = from;
    }
    return undefined;
  }

  /** Whether the first page from a unit on holds anything. */
  async #holdsAny(window: UnitWindow, from: QueueOffset): Promise<boolean> {
    if (!this.#files.sequence.find(from * this.unitBytes)) return false;
    const units = await window.read(from, Math.min(from + SEARCH_UNITS, this.#fileEnd(from)));
    return lastNonZero(units) >= 0;
  }

  async #placeOfUnit(
    window: UnitWindow,
    offset: QueueOffset,
    limit: PhysicalOffset,
  ): Promise<RecordPlace | undefined> {
    if (!this.#files.sequence.first) return undefined;
    const unit = await window.read(offset, offset + 1);
    const leads = isUnitBelow(unit, 0, limit) && !isFiller(unit, 0);
    return leads ? unitPlace(unit, 0) : undefined;
  }

  /** Whether a unit from `from` on leads below `limit`; looks as far as there are any units. */
  async #leadsBelow(
    window: UnitWindow,
    limit: PhysicalOffset,
    from: QueueOffset,
  ): Promise<boolean> {
    let isAny = true;
    let pages = 1;
    for (let offset = from; isAny && this.#files.sequence.find(offset * this.unitBytes); ) {
      // Up to the end of the page: behind it is a hole as a rule, whose reading takes a thread.
      const bytes = pages * OS_PAGE_SIZE - ((offset * this.unitBytes) % OS_PAGE_SIZE);
      pages = Math.min(2 * pages, BEHIND_PAGES_MAX);
      const count = Math.max(1, Math.floor(bytes / this.unitBytes));
      const units = await window.read(offset, Math.min(offset + count, this.#fileEnd(offset)));
      offset += units.length / this.unitBytes;
      const found = lookBelow(units, this.unitBytes, limit);
      if (found === "below") return true;
      isAny = found === "behind";
    }
    return false;
  }

  /** The last place in the file that starts at unit `start` from which on the next message is below. */
  async #lastPageBelow(
    window: UnitWindow,
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
        const units = await window.read(from, Math.min(from + count, end));
        for (let at = 0; at < units.length; at += this.unitBytes) {
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
    this.#maxPhysicalOffset = -1;
    await this.extension?.reset();
    await this.clearBehind();
  }

  /**
   * Makes what lies on disk behind the end harmless: files behind it are removed, the rest of the
   * last file is zero. RocketMQ takes an empty file at the end for a message.
   *
   * @returns What was removed or zeroed, for the report.
   */
  async clearBehind(): Promise<string[]> {
    const done = await this.#files.clearBehind();
    return this.extension ? [...done, ...(await this.extension.clearBehind())] : done;
  }

  /** Looks at once at what {@linkcode ConsumeQueue.clearBehind} would have to look at later. */
  async lookBehind(): Promise<void> {
    await this.#files.lookBehind();
  }

  /** Moves `min` to the first message whose record starts at `logMin` or behind it. */
  async correctMin(logMin: PhysicalOffset): Promise<void> {
    const { first } = this.#files.sequence;
    if (first) this.#min = first.start / this.unitBytes;
    const found = this.#foundFirst?.offset ?? Number.NEGATIVE_INFINITY;
    this.#foundFirst = undefined;
    this.#foundLast = undefined;
    this.#minPhysicalOffset = found >= logMin ? found : undefined;
    if (found < logMin) await this.expire(logMin);
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
    const addressed = first ? first.addressed : this.extension?.end;
    if (addressed !== undefined) this.#minAddressed = addressed;
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
    return (
      this.#files.hasFilesBefore(this.#min * this.unitBytes) ||
      this.extension?.hasFilesBefore(this.#minAddressed) === true
    );
  }

  /**
   * Deletes the files in front of the one that holds `min`, the oldest first, but never the last file:
   * its name tells where the queue goes on. Not while the queue is being forced.
   *
   * @returns Their paths.
   * @throws {StoreError} `STORE_IO` naming the file.
   */
  async removeExpiredFiles(): Promise<string[]> {
    const removed = await this.#files.removeBefore(this.#min * this.unitBytes);
    if (!this.extension) return removed;
    return [...removed, ...(await this.extension.removeBefore(this.#minAddressed))];
  }

  /**
   * Deletes the files in front of `offset`, with which one begins or would, the oldest first. They are none of
   * this queue's but those of the topic that was deleted. Not while the queue is being forced.
   *
   * @throws {StoreError} `STORE_IO` naming the file.
   */
  removeFilesBefore(offset: QueueOffset): Promise<void> {
    return this.#files.removeAllBefore(offset * this.unitBytes);
  }

  /**
   * Deletes the queue, the oldest file first, and its folder. Whoever still has it finds no message in it.
   * Not while it is being written or forced; a power cut does not bring it back.
   *
   * @throws {StoreError} `STORE_IO`; some files may be left.
   */
  async remove(): Promise<void> {
    this.#min = this.#max;
    await this.#files.remove();
    await this.extension?.remove();
  }

  /** The first message from `from` on and before `end`: fillers, and files that are gone, have none. */
  async #nextMessage(from: QueueOffset, end: QueueOffset): Promise<NextMessage | undefined> {
    for (let offset = from; offset < end; ) {
      const held = this.heldFrom(offset);
      if (held > offset) {
        offset = held;
        continue;
      }
      const units = await this.unitsAsTheyAre(offset, Math.min(SEARCH_UNITS, end - offset));
      for (let at = 0; at < units.length; at += this.unitBytes, offset++) {
        if (isFiller(units, at)) continue;
        const physicalOffset = isUnit(units, at) ? unitOffset(units, at) : undefined;
        return { offset, physicalOffset, addressed: addressedOffset(units, at) };
      }
    }
    return undefined;
  }

  /** Behind the last unit of the file that holds `offset`. */
  #fileEnd(offset: QueueOffset): QueueOffset {
    return offset - (offset % this.unitsPerFile) + this.unitsPerFile;
  }

  #read(from: QueueOffset, end: QueueOffset): Soon<Buffer> {
    return this.#files.read(from * this.unitBytes, end * this.unitBytes);
  }

  #readFiles(from: QueueOffset, end: QueueOffset): Soon<Buffer> {
    return this.#files.readFiles(from * this.unitBytes, end * this.unitBytes);
  }
}

/** What is in the files of a queue. */
class UnitsOf implements Content {
  readonly #queue: ConsumeQueue;

  constructor(queue: ConsumeQueue) {
    this.#queue = queue;
  }

  front(position: number): Buffer {
    return fillerUnits(position / this.#queue.unitBytes);
  }

  text(from: number, end: number): string {
    const { topic, queueId, unitBytes } = this.#queue;
    return `units ${from / unitBytes} to ${end / unitBytes - 1} of queue ${topic}/${queueId}`;
  }
}

/** Whether there are units, and one that leads below `limit` or fills the front. */
function lookBelow(
  units: Buffer,
  unitBytes: number,
  limit: PhysicalOffset,
): "none" | "behind" | "below" {
  let found: "none" | "behind" = "none";
  const end = lastNonZero(units) + 1;
  for (let at = 0; at < end; at += unitBytes) {
    if (!isUnit(units, at)) continue;
    found = "behind";
    const isBelow = isFiller(units, at) ? !isMarkedLost(units, at) : unitOffset(units, at) < limit;
    if (isBelow) return "below";
  }
  return found;
}

function isUnitBelow(units: Buffer, at: number, limit: PhysicalOffset): boolean {
  return isUnit(units, at) && (isFiller(units, at) || unitOffset(units, at) < limit);
}
