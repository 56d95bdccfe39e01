/**
 * The commit log: the records of all topics, one after the other, in files of one size. RocketMQ:
 * `CommitLog`.
 *
 * An append is one synchronous stretch, without an `await` from the first look at the offsets to
 * the last byte in the write buffer, so that offsets of a queue rise with the log. A record that
 * does not fit (its length and 8 bytes more) closes the file with a blank record; it never spans two.
 *
 * @module
 */

import { PutError, type StoreError } from "../errors.ts";
import type { Clock } from "../io/clock.ts";
import type { FileSystem } from "../io/file_system.ts";
import { type Soon, soon } from "../io/soon.ts";
import { type DispatchRequest, dispatchRequestFor } from "../message/dispatch_request.ts";
import { HOST_V6_SIZE } from "../message/host.ts";
import type { OutgoingRecord } from "../message/outgoing_record.ts";
import { encodeBlank, encodeRecord } from "../message/record.ts";
import {
  BLANK_SIZE,
  BORN_HOST_AT,
  END_FILE_MIN_BLANK_LENGTH,
  MAGIC_V1,
  MAGIC_V2,
  PHYSICAL_OFFSET_AT,
  readMagic,
  readSysFlag,
  storeTimestampAt,
} from "../message/record_layout.ts";
import { takesQueueOffset } from "../message/sys_flag.ts";
import type { DelayLevels } from "../message/tags_code.ts";
import type { ResolvedOptions } from "../options.ts";
import { FlushPipeline, ioError, type PipelineListener } from "../segment/flush_pipeline.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import type { Segment } from "../segment/segment.ts";
import { SegmentAllocator } from "../segment/segment_allocator.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import { WriteBuffer } from "../segment/write_buffer.ts";
import { ZEROS_AT_FIRST, ZeroFiller } from "../segment/zero_filler.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { AppendGate, type Blocked } from "./append_gate.ts";

/** What may wait in the write buffer without the pool, in bytes. */
const WRITE_BUFFER_BYTES = 64 * 1024 * 1024;
/** Bytes of a record up to the end of its STORETIMESTAMP; every record has more. */
const HEAD_BYTES = BORN_HOST_AT + HOST_V6_SIZE + 8;

/** Where the next queue offset of a queue is kept. */
export interface QueueCursor {
  nextOffset: QueueOffset;
}

/** The places of a put's records. */
export interface Appended {
  /** Of the (first) record. */
  readonly physicalOffset: PhysicalOffset;
  readonly queueOffset: QueueOffset;
  /** Wall time in ms; never lower than that of the record before. */
  readonly storeTimestamp: number;
  /** Offset behind the last record. */
  readonly end: PhysicalOffset;
}

export interface CommitLogContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly delayLevels: DelayLevels;
  /** The files that recovery found, up to the one that holds the end. */
  readonly segments: SegmentQueue;
  /** Folder of half-made files. */
  readonly staging: string;
  readonly listener: PipelineListener;
  readonly noteFailedSync: () => Promise<void>;
  /** Told of each record, in order, in the turn of its append. */
  readonly appended: (request: DispatchRequest) => void;
  /** Whether the file that starts at `start` may begin: the queues must not be too far behind. */
  readonly mayRoll: (start: PhysicalOffset) => boolean;
}

export class CommitLog {
  readonly segments: SegmentQueue;
  readonly pipeline: FlushPipeline;
  readonly gate: AppendGate;
  readonly #context: CommitLogContext;
  readonly #buffer: WriteBuffer;
  readonly #allocator: SegmentAllocator;
  /** Files to keep ready: one, or two once an append had to wait for one. */
  #filesAhead = 1;
  #lastStoreTimestamp: number;

  /**
   * @param end Where recovery found the end of the log.
   * @param lastStoreTimestamp Of the last record before it; 0 without one.
   */
  constructor(context: CommitLogContext, end: PhysicalOffset, lastStoreTimestamp: number) {
    const { options, segments } = context;
    this.#context = context;
    this.segments = segments;
    this.#lastStoreTimestamp = lastStoreTimestamp;
    this.#buffer = new WriteBuffer(
      options.transientStorePoolEnable
        ? options.transientStorePoolSize * options.mappedFileSizeCommitLog
        : WRITE_BUFFER_BYTES,
    );
    const sync = options.flushDiskType === "SYNC_FLUSH";
    const filler = new ZeroFiller({
      files: context.files,
      clock: context.clock,
      failed: async (segment, position, cause) => {
        await context.noteFailedSync();
        this.pipeline.fail(ioError("sync", segment, position, cause));
      },
    });
    this.pipeline = new FlushPipeline(
      {
        fileSystem: context.fileSystem,
        files: context.files,
        buffer: this.#buffer,
        clock: context.clock,
        options,
        filler: sync ? filler : undefined,
        noteFailedSync: context.noteFailedSync,
        segmentsBetween: (from, to) =>
          segments.segments.filter(({ start, size }) => start < to && start + size > from),
        listener: {
          ...context.listener,
          committed: (offset) => {
            context.listener.committed(offset);
            this.gate.drain();
          },
          failed: (error) => {
            context.listener.failed(error);
            this.gate.failAll(error);
          },
          noSpace: (error) => {
            context.listener.noSpace(error);
            if (error) this.gate.refuseAll(() => noSpaceRefusal(error));
            else this.gate.drain();
          },
        },
      },
      end,
    );
    this.gate = new AppendGate(context.clock, options.syncFlushTimeout);
    this.#allocator = new SegmentAllocator({
      fileSystem: context.fileSystem,
      files: context.files,
      directory: segments.directory,
      staging: context.staging,
      fileSize: segments.fileSize,
      zerosAtFirst: sync ? ZEROS_AT_FIRST : 0,
      settled: (error) => {
        if (error === undefined) this.gate.drain();
        else this.gate.refuse("file", error);
      },
    });
  }

  /** Bytes that wait for their commit. */
  get pendingBytes(): number {
    return this.#buffer.pendingBytes;
  }

  /** The most that may wait. */
  get budgetBytes(): number {
    return this.#buffer.budgetBytes;
  }

  /**
   * Appends one record, or the records of a batch, to the write buffer: all of them in one file, or
   * none at all.
   *
   * @param records Of one queue, each small enough for a file.
   * @param size Sum of their sizes.
   * @param now Wall time in ms.
   * @returns Where they are, or what they have to wait for; then nothing has happened.
   */
  append(
    records: readonly OutgoingRecord[],
    size: number,
    queue: QueueCursor,
    now: number,
  ): Appended | Blocked {
    const blocked = this.#place(size);
    if (blocked) return blocked;
    const segment = this.segments.last as Segment;
    const { wrote } = this.pipeline;
    const storeTimestamp = Math.max(now, this.#lastStoreTimestamp);
    const { target, at } = this.#buffer.room(segment, wrote - segment.start, size);
    const counts = takesQueueOffset((records[0] as OutgoingRecord).sysFlag);
    const firstQueueOffset = counts ? queue.nextOffset : 0;
    let offset = wrote;
    let queueOffset = firstQueueOffset;
    for (const record of records) {
      encodeRecord(target, at + offset - wrote, record, queueOffset, offset, storeTimestamp);
      offset += record.size;
      if (counts) queueOffset += record.messages;
    }
    // From here on it has happened.
    this.#buffer.append(size);
    this.#lastStoreTimestamp = storeTimestamp;
    if (counts) queue.nextOffset = queueOffset;
    offset = wrote;
    queueOffset = firstQueueOffset;
    for (const record of records) {
      this.#context.appended(
        dispatchRequestFor(record, queueOffset, offset, storeTimestamp, this.#context.delayLevels),
      );
      offset += record.size;
      if (counts) queueOffset += record.messages;
    }
    this.pipeline.appended(offset);
    this.#prepareAhead(segment, offset);
    return { physicalOffset: wrote, queueOffset: firstQueueOffset, storeTimestamp, end: offset };
  }

  /** Somebody waits for room in the write buffer. */
  makeRoom(): void {
    this.pipeline.makeRoom();
  }

  /**
   * Reads bytes of one file below `limit`.
   *
   * @returns The bytes, or `undefined` if they are not all there: behind the limit, over the end of
   *   their file, or in a file that is gone.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  async read(
    offset: PhysicalOffset,
    size: number,
    limit: PhysicalOffset,
  ): Promise<Buffer | undefined> {
    if (offset < 0 || size < 0 || offset + size > limit) return undefined;
    const segment = this.segments.find(offset);
    if (!segment || offset + size > segment.start + segment.size) return undefined;
    const bytes = await this.segments.read(offset, size);
    return bytes?.length === size ? bytes : undefined;
  }

  /**
   * Reads ranges of one file, one behind the other into one buffer: from memory if they were appended
   * not long ago. See {@linkcode SegmentQueue.readEach}.
   *
   * @returns `recent`: nothing can have damaged the bytes since they were encoded.
   */
  readEach(
    start: PhysicalOffset,
    ranges: Float64Array,
    bytes: number,
  ): Soon<{ readonly bytes: Buffer; readonly recent: boolean } | undefined> {
    const buffer = Buffer.allocUnsafeSlow(bytes);
    let at = 0;
    for (let i = 0; i < ranges.length; i += 2) {
      const end = at + (ranges[i + 1] as number);
      if (!this.#buffer.copy(start + (ranges[i] as number), buffer, at, end)) break;
      at = end;
    }
    if (at === bytes) {
      const { turn } = this.#context.files;
      return soon(turn.take(bytes), () => ({ bytes: buffer, recent: true }));
    }
    return soon(this.segments.readEach(start, ranges, buffer), (isRead) =>
      isRead ? { bytes: buffer, recent: false } : undefined,
    );
  }

  /**
   * When the record at `offset` was stored, in ms since the epoch. RocketMQ: `pickupStoreTimestamp`.
   *
   * @param limit As for {@linkcode CommitLog.read}.
   * @returns `undefined` if no record says that it lies there.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  async storeTimeAt(offset: PhysicalOffset, limit: PhysicalOffset): Promise<number | undefined> {
    const head = await this.read(offset, HEAD_BYTES, limit);
    if (!head) return undefined;
    const magic = readMagic(head, 0);
    if (magic !== MAGIC_V1 && magic !== MAGIC_V2) return undefined;
    if (head.readBigInt64BE(PHYSICAL_OFFSET_AT) !== BigInt(offset)) return undefined;
    const time = Number(head.readBigInt64BE(storeTimestampAt(readSysFlag(head, 0))));
    return Number.isSafeInteger(time) && time >= 0 ? time : undefined;
  }

  /** Commits and forces all, and removes the files that were made ahead. */
  async close(): Promise<void> {
    this.gate.refuseAll(
      () => new PutError("SERVICE_NOT_AVAILABLE", "not stored", "Cannot put: the store is closing"),
    );
    try {
      await this.pipeline.close();
    } finally {
      await this.#allocator.close();
    }
  }

  /** Makes the last file one in which `size` bytes fit, or says what is missing for that. */
  #place(size: number): Blocked | undefined {
    if (!this.#buffer.hasRoomFor(size + BLANK_SIZE)) return "buffer";
    const { last } = this.segments;
    const { wrote } = this.pipeline;
    const room = last ? last.start + last.size - wrote : 0;
    if (size + END_FILE_MIN_BLANK_LENGTH <= room) return undefined;
    const start = last ? last.start + last.size : this.segments.startOf(wrote);
    if (!this.#context.mayRoll(start)) return "queues";
    const next = this.#allocator.take(start);
    if (!next) {
      // The first file of a log is no sign that files come too slowly.
      if (last) this.#filesAhead = 2;
      this.#allocator.prepare(start);
      return "file";
    }
    if (last && room >= BLANK_SIZE) {
      const { target, at } = this.#buffer.room(last, wrote - last.start, BLANK_SIZE);
      encodeBlank(target, at, room);
      this.#buffer.append(BLANK_SIZE, true);
    }
    this.segments.add(next);
    this.pipeline.rolled(start);
    return undefined;
  }

  /** Makes the next files when this one is half full. */
  #prepareAhead(segment: Segment, end: PhysicalOffset): void {
    if ((end - segment.start) * 2 < segment.size) return;
    for (let i = 0; i < this.#filesAhead; i++) {
      this.#allocator.prepare(segment.start + (i + 1) * segment.size);
    }
  }
}

/** The error of a put while the device has no space for those before it. */
export function noSpaceRefusal(cause: StoreError): PutError {
  return new PutError(
    "SERVICE_NOT_AVAILABLE",
    "not stored",
    "Cannot put: the device of the commit log has no space",
    { cause },
  );
}
