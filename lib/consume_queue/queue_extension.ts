/**
 * The extension of a consume queue (`enableConsumeQueueExt`): for each message a unit with its tags
 * code, its store time, and room for a bitmap. RocketMQ: `ConsumeQueueExt`.
 *
 *     queue unit            | offset | size | address |
 *                                                |
 *     extension     | unit | unit | unit | ffff  | unit | ...
 *                                         end of a file
 *
 * It says nothing that the log does not say: what cannot be read of it is looked up there. So its files
 * come and go with the units that lead to them. A file ends with an i16 of -1, where a unit and 4 bytes
 * more have no room.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import type { Segment } from "../segment/segment.ts";
import {
  addressOf,
  copyTagsCode,
  decodeExtensionUnit,
  EXTENSION_UNIT_BYTES_MIN,
  type ExtensionUnit,
  encodeExtensionUnit,
  extensionUnitSize,
} from "./extension_unit.ts";
import { QueueFiles, type QueueFilesContext } from "./queue_files.ts";
import { addressedOffset, UNIT_BYTES } from "./queue_unit.ts";

/** What extensions of queues need of their store. */
export interface ExtensionContext extends QueueFilesContext {
  /** New messages get a unit; else what is there is read only. */
  readonly writes: boolean;
}

/** What a file keeps free at its end (`ConsumeQueueExt.END_BLANK_DATA_LENGTH`). */
const END_BLANK_BYTES = 4;
/** Stands where no more unit fits. */
const END_MARK = -1;
/** The largest unit (`CqExtUnit.MAX_EXT_UNIT_SIZE`). */
const UNIT_BYTES_MAX = 32_767;
/** Bytes read at once: more than the units of a page of queue units have as a rule. */
const WINDOW_BYTES = 8192;

const NOTHING: Buffer = Buffer.alloc(0);

export class QueueExtension {
  readonly writes: boolean;
  readonly #files: QueueFiles;

  constructor(context: ExtensionContext, topic: string, queueId: number, segments: Segment[] = []) {
    this.writes = context.writes;
    const content = {
      front: (position: number) => Buffer.alloc(position),
      text: (from: number, end: number) =>
        `bytes ${from} to ${end - 1} of the extension of queue ${topic}/${queueId}`,
    };
    this.#files = new QueueFiles(context, topic, queueId, content, segments);
  }

  get directory(): string {
    return this.#files.sequence.directory;
  }

  get segments(): readonly Segment[] {
    return this.#files.sequence.segments;
  }

  /** Size of all its files, in bytes. */
  get fileBytes(): number {
    return this.segments.length * this.#files.sequence.fileSize;
  }

  /** No message to come gets a unit below. */
  get end(): number {
    return this.writes ? this.#files.end : Number.POSITIVE_INFINITY;
  }

  get hasUnforcedFiles(): boolean {
    return this.#files.hasUnforced;
  }

  /**
   * Appends the unit of a message, in memory.
   *
   * @returns Its address, for the queue unit.
   */
  append(tagsCode: number, storeTimestamp: number): bigint {
    const { fileSize } = this.#files.sequence;
    const left = fileSize - (this.#files.end % fileSize);
    if (EXTENSION_UNIT_BYTES_MIN > left - END_BLANK_BYTES) {
      const at = this.#files.grow(left);
      this.#files.tail.fill(0, at, at + left);
      if (left >= 2) this.#files.tail.writeInt16BE(END_MARK, at);
    }
    const offset = this.#files.end;
    const at = this.#files.grow(EXTENSION_UNIT_BYTES_MIN);
    encodeExtensionUnit(this.#files.tail, at, tagsCode, storeTimestamp);
    return addressOf(offset);
  }

  /** The unit at an offset; `undefined` if none can be read there. @throws {StoreError} `STORE_IO` */
  async unitAt(offset: number): Promise<ExtensionUnit | undefined> {
    return decodeExtensionUnit(await this.#window(offset, UNIT_BYTES_MAX), 0);
  }

  /**
   * Gives queue units the tags codes of their messages in place of addresses; a unit whose extension
   * cannot be read keeps the address.
   *
   * @param units A caller's own copy.
   * @throws {StoreError} `STORE_IO`
   */
  async resolve(units: Buffer): Promise<void> {
    let window = NOTHING;
    let from = 0;
    for (let at = 0; at < units.length; at += UNIT_BYTES) {
      const offset = addressedOffset(units, at);
      if (offset === undefined) continue;
      if (offset < from || offset + EXTENSION_UNIT_BYTES_MIN > from + window.length) {
        window = await this.#window(offset, WINDOW_BYTES);
        from = offset;
      }
      if (extensionUnitSize(window, offset - from) === undefined) continue;
      copyTagsCode(window, offset - from, units, at);
    }
  }

  /** What can be read from `offset` on, in its file: at most so many bytes. */
  async #window(offset: number, bytes: number): Promise<Buffer> {
    const { sequence, written, end } = this.#files;
    const isInMemory = this.writes && offset >= written;
    const limit = isInMemory
      ? end
      : Math.min(
          sequence.startOf(offset) + sequence.fileSize,
          this.writes ? written : Number.POSITIVE_INFINITY,
        );
    if (offset >= limit) return NOTHING;
    const to = Math.min(offset + bytes, limit);
    if (isInMemory) return this.#files.read(offset, to);
    try {
      return await this.#files.readFiles(offset, to);
    } catch (error) {
      if (error instanceof StoreError && error.code === "STORE_QUEUE_DAMAGED") return NOTHING;
      throw error;
    }
  }

  /** @throws {StoreError} `STORE_IO` naming the file; what was not written stays in memory. */
  commit(): Promise<void> {
    return this.#files.commit();
  }

  /** @throws {StoreError} `STORE_IO`, `STORE_FILES_VANISHED` */
  force(): Promise<void> {
    return this.#files.force();
  }

  // Recovery and retention.

  /**
   * Goes on behind the unit at `offset`, the last one that a queue unit leads to; without one, anew. If
   * it cannot be read, nobody knows its end: then in the next file.
   *
   * @throws {StoreError} `STORE_IO`
   */
  async goOnAfter(offset: number | undefined): Promise<void> {
    if (offset === undefined) {
      this.#files.moveTo(0);
      return;
    }
    const { sequence } = this.#files;
    const fileEnd = sequence.startOf(offset) + sequence.fileSize;
    // As if all of it were there.
    this.#files.moveTo(fileEnd);
    const unit = await this.unitAt(offset);
    if (unit) this.#files.moveTo(offset + EXTENSION_UNIT_BYTES_MIN + unit.bitmap.length);
  }

  /** Removes every file: no unit leads to it any more. */
  async reset(): Promise<void> {
    this.#files.moveTo(0);
    await this.#files.clearBehind();
  }

  /** As `ConsumeQueue.clearBehind`. What is only read stays as it is. */
  async clearBehind(): Promise<string[]> {
    return this.writes ? this.#files.clearBehind() : [];
  }

  /** Deletes all of it, and its folder. */
  remove(): Promise<void> {
    return this.#files.remove();
  }

  hasFilesBefore(offset: number): boolean {
    return this.#files.hasFilesBefore(offset);
  }

  /** Deletes files that no unit leads to, since they end before `offset`; the last one stays. */
  removeBefore(offset: number): Promise<string[]> {
    return this.#files.removeBefore(offset);
  }
}
