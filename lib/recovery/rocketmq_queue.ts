/**
 * A consume queue as RocketMQ's recovery leaves it: `ConsumeQueue.recover`, `putMessagePositionInfo`
 * and `truncateDirtyLogicFiles`, faults included. Nothing is written.
 *
 * @module
 */

import type { ConsumeQueue } from "../consume_queue/consume_queue.ts";
import {
  FILLER_SIZE,
  type RecordPlace,
  UNIT_BYTES,
  unitPlace,
  unitSize,
} from "../consume_queue/queue_unit.ts";
import type { DispatchRequest } from "../message/dispatch_request.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import { SegmentQueue } from "../segment/segment_queue.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

/** Its recovery begins in the third file from the end. */
const FILES_RECOVERED = 3;
/** Units read at once. */
const PAGE_UNITS = 2048;

const NOTHING: RecordPlace = { offset: 0, size: 0 };

export class RocketmqQueue {
  readonly topic: string;
  readonly queueId: number;
  /** Units before the recovery of the log. */
  before: QueueOffset = 0;
  /** One past the last unit. */
  max: QueueOffset = 0;
  /** End of the record that the last unit leads to; -1 without one. */
  maxPhysicalOffset: PhysicalOffset = -1;
  /** Units that were appended at another place than their messages claim. */
  misplaced = 0;
  /** The first unit that was appended to a queue without files; `undefined` if it had some. */
  begunAt: QueueOffset | undefined;
  readonly #segments: SegmentQueue;
  /** First units of its files. */
  #files: QueueOffset[];
  readonly #appended = new Map<QueueOffset, RecordPlace>();
  #page: { readonly from: QueueOffset; readonly bytes: Buffer } | undefined;

  constructor(queue: ConsumeQueue, files: OpenFiles) {
    this.topic = queue.topic;
    this.queueId = queue.queueId;
    const { directory, unitsPerFile, segments } = queue;
    this.#segments = new SegmentQueue(directory, unitsPerFile * UNIT_BYTES, files, [...segments]);
    this.#files = queue.segments.map(({ start }) => start / UNIT_BYTES);
  }

  get #unitsPerFile(): number {
    return this.#segments.fileSize / UNIT_BYTES;
  }

  /** `recover()`: the end is the first invalid unit, from the third file from the end on. */
  async load(): Promise<void> {
    for (let i = Math.max(this.#files.length - FILES_RECOVERED, 0); i < this.#files.length; i++) {
      const start = this.#files[i] as QueueOffset;
      this.max = start;
      while (this.max < start + this.#unitsPerFile) {
        const { offset, size } = await this.#unit(this.max);
        if (offset < 0 || size <= 0) break;
        this.max++;
        this.maxPhysicalOffset = offset + size;
      }
      if (this.max < start + this.#unitsPerFile) break;
    }
    // A file that starts at the end stays, and is empty.
    this.#files = this.#files.filter((start) => start <= this.max);
    this.before = this.max;
  }

  /** `putMessagePositionInfo()`. */
  append(queueOffset: QueueOffset, { physicalOffset: offset, size }: DispatchRequest): void {
    if (offset + size <= this.maxPhysicalOffset) return;
    const last = this.#files.at(-1);
    if (last === undefined) {
      this.max = queueOffset - (queueOffset % this.#unitsPerFile);
      this.#files.push(this.max);
      this.begunAt = queueOffset;
      while (this.max < queueOffset)
        this.#appended.set(this.max++, { offset: 0, size: FILLER_SIZE });
    } else if (this.max === last + this.#unitsPerFile) {
      this.#files.push(this.max);
    }
    if (queueOffset !== 0) {
      if (queueOffset < this.max) return;
      if (queueOffset !== this.max) this.misplaced++;
    }
    this.maxPhysicalOffset = offset + size;
    this.#appended.set(this.max++, { offset, size });
  }

  /** `truncateDirtyLogicFiles()`: the first unit of a file counts whatever its size. */
  async truncate(end: PhysicalOffset): Promise<void> {
    this.maxPhysicalOffset = end;
    for (let start = this.#files.at(-1); start !== undefined; start = this.#files.at(-1)) {
      this.max = start;
      const first = await this.#unit(start);
      if (first.offset >= end) {
        this.#files.pop();
        continue;
      }
      this.maxPhysicalOffset = first.offset + first.size;
      for (this.max++; this.max < start + this.#unitsPerFile; this.max++) {
        const { offset, size } = await this.#unit(this.max);
        if (offset < 0 || size <= 0 || offset >= end) return;
        this.maxPhysicalOffset = offset + size;
      }
      return;
    }
    this.max = 0;
  }

  async #unit(queueOffset: QueueOffset): Promise<RecordPlace> {
    const appended = this.#appended.get(queueOffset);
    if (appended) return appended;
    const at = queueOffset - (this.#page?.from ?? Number.POSITIVE_INFINITY);
    if (!this.#page || at < 0 || (at + 1) * UNIT_BYTES > this.#page.bytes.length) {
      const bytes = await this.#segments.read(queueOffset * UNIT_BYTES, PAGE_UNITS * UNIT_BYTES);
      if (!bytes || bytes.length < UNIT_BYTES) return NOTHING;
      this.#page = { from: queueOffset, bytes };
    }
    const { from, bytes } = this.#page as { from: QueueOffset; bytes: Buffer };
    const position = (queueOffset - from) * UNIT_BYTES;
    try {
      return unitPlace(bytes, position);
    } catch {
      // Beyond 2^53: no offset of any log.
      return { offset: Number.MAX_SAFE_INTEGER, size: unitSize(bytes, position) };
    }
  }
}
