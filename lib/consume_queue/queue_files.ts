/**
 * The files of a queue, or of what belongs to one: they grow at their end, in memory at first.
 *
 *     0          written           end
 *     |  in files   |   in memory   |
 *
 * Offsets are in bytes from the start of the sequence. What is appended is written by
 * {@linkcode QueueFiles.commit} and synced by {@linkcode QueueFiles.force}.
 *
 * @module
 */

import { dirname, sep } from "node:path";
import { StoreError } from "../errors.ts";
import { createDirectory } from "../io/create_directory.ts";
import { createFile, removeFile } from "../io/directory.ts";
import type { FileHandle, FileSystem } from "../io/file_system.ts";
import { writeFully } from "../io/fully.ts";
import { type Soon, soon } from "../io/soon.ts";
import { hasCode } from "../io/system_error.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import { type Segment, segmentOf } from "../segment/segment.ts";
import { SegmentQueue } from "../segment/segment_queue.ts";
import { OS_PAGE_SIZE } from "../units.ts";
import { removeFolder } from "./topic_folders.ts";

/** What files of queues need of their store. */
export interface QueueFilesContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  /** The folder of all topics: `consumequeue/` or one like it. */
  readonly directory: string;
  /** Folder of half-made files. */
  readonly staging: string;
  /** Size of a file, in bytes. */
  readonly fileSize: number;
}

/** What is kept in the files. */
export interface Content {
  /** What fills a file before its first byte, up to `position`. */
  readonly front: (position: number) => Buffer;
  /** Names a part of it, for the message of an error. */
  readonly text: (from: number, end: number) => string;
}

/** What is looked through or zeroed at once. */
const PIECE_BYTES = 1024 * 1024;
/** Room for so many bytes when the first ones come. */
const FIRST_TAIL_BYTES = 160;

const EMPTY: Buffer = Buffer.alloc(0);
const ZERO_PAGE = Buffer.alloc(OS_PAGE_SIZE);
const NONE: readonly Segment[] = [];

export class QueueFiles {
  readonly sequence: SegmentQueue;
  /** What is in memory: `written` to `end`, and room for more. */
  tail: Buffer = EMPTY;
  readonly #context: QueueFilesContext;
  readonly #content: Content;
  /** Where the sequence begins, if nothing vouches for what is in the files before it. */
  #begin: number | undefined;
  #written = 0;
  #end = 0;
  /** Nothing but zeros lies in files behind the end. */
  #isZeroBehind = false;
  /** Files written since they were last synced: one or none, as a rule, which is less than a set. */
  #unforced: readonly Segment[] = NONE;

  constructor(
    context: QueueFilesContext,
    topic: string,
    queueId: number,
    content: Content,
    segments: Segment[] = [],
  ) {
    const { directory, fileSize, files } = context;
    this.#context = context;
    this.#content = content;
    const folder = `${directory}${sep}${topic}${sep}${queueId}`;
    this.sequence = new SegmentQueue(folder, fileSize, files, segments);
  }

  /** What is below is in files. */
  get written(): number {
    return this.#written;
  }

  get end(): number {
    return this.#end;
  }

  get unwrittenBytes(): number {
    return this.#end - this.#written;
  }

  get hasUnforced(): boolean {
    return this.#unforced.length > 0;
  }

  /** Goes on at `end`: what is before it is in files, and nothing is in memory. */
  moveTo(end: number): void {
    this.#begin = undefined;
    this.#isZeroBehind = false;
    this.#written = end;
    this.#end = end;
    this.tail = EMPTY;
  }

  /** The same where nothing is before it: the front of its file is filled when it is written. */
  startAt(begin: number): void {
    this.moveTo(begin);
    this.#begin = begin;
  }

  /**
   * Makes room at the end.
   *
   * @returns Where it begins in {@linkcode QueueFiles.tail}; the caller fills it in the same turn.
   */
  grow(bytes: number): number {
    const at = this.#end - this.#written;
    if (at + bytes > this.tail.length) this.#enlarge(at, at + bytes);
    this.#end += bytes;
    return at;
  }

  #enlarge(used: number, wanted: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(FIRST_TAIL_BYTES, this.tail.length * 2, wanted));
    this.tail.copy(larger, 0, 0, used);
    this.tail = larger;
  }

  /**
   * Reads a part that lies in one file, or in memory; it must lie before the end.
   *
   * @throws {StoreError} `STORE_IO`, or `STORE_QUEUE_DAMAGED` if it is missing.
   */
  read(from: number, end: number): Soon<Buffer> {
    if (from >= this.#written) {
      // A copy: the tail moves when it is written.
      return Buffer.from(this.tail.subarray(from - this.#written, end - this.#written));
    }
    return this.readFiles(from, end);
  }

  /** The same of what the files hold, wherever the end is. */
  readFiles(from: number, end: number): Soon<Buffer> {
    return soon(this.sequence.read(from, end - from), (bytes) => this.#whole(bytes, from, end));
  }

  #whole(bytes: Buffer | undefined, from: number, end: number): Buffer {
    if (bytes?.length === end - from) return bytes;
    const segment = this.sequence.find(from);
    throw new StoreError(
      "STORE_QUEUE_DAMAGED",
      `Cannot read ${this.#content.text(from, end)}: ${
        segment ? `${segment.path} ends before` : `no file of ${this.sequence.directory} holds them`
      }`,
      this.placeOf(from),
    );
  }

  /** Where a byte lies on disk, or will. */
  placeOf(offset: number): { readonly path: string; readonly position: number } {
    const start = this.sequence.startOf(offset);
    const { path } = segmentOf(this.sequence.directory, start, this.sequence.fileSize);
    return { path, position: offset - start };
  }

  /**
   * Writes what is in memory, making files as needed. A killed process loses none of it afterwards.
   * Only one call at a time.
   *
   * @throws {StoreError} `STORE_IO` naming the file; what was not written stays in memory.
   */
  async commit(): Promise<void> {
    while (this.#written < this.#end) {
      const from = this.#written;
      const start = this.sequence.startOf(from);
      const end = Math.min(this.#end, start + this.sequence.fileSize);
      const bytes = this.tail.subarray(0, end - from);
      const position = from - start;
      const segment = this.sequence.find(start);
      try {
        if (segment) {
          const isFirst = from === this.#begin && position > 0;
          const front = isFirst ? this.#content.front(position) : undefined;
          await this.#context.files.use(segment.path, (file) =>
            front ? writeFully(file, [front, bytes], 0) : writeFully(file, [bytes], position),
          );
          this.#wrote(segment);
        } else {
          await this.#create(start, position, bytes);
        }
      } catch (cause) {
        this.#isZeroBehind = false;
        throw new StoreError(
          "STORE_IO",
          `Cannot write ${this.#content.text(from, end)} in ${this.sequence.directory}`,
          { ...this.placeOf(from), cause },
        );
      }
      this.#dropTail(end);
    }
  }

  /**
   * Syncs every file that was written: a power cut loses nothing committed afterwards.
   *
   * @throws {StoreError} `STORE_IO`, or `STORE_FILES_VANISHED` if somebody removed a file meanwhile.
   */
  async force(): Promise<void> {
    for (const segment of this.#unforced) {
      this.#forget(segment);
      try {
        await this.#context.files.use(segment.path, (file) => file.fdatasync());
        await this.#context.fileSystem.stat(segment.path);
      } catch (cause) {
        this.#wrote(segment);
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

  /**
   * Makes what lies on disk behind the end harmless: files behind it are removed, the rest of the
   * last file is zero.
   *
   * @returns What was removed or zeroed, for the report.
   */
  async clearBehind(): Promise<string[]> {
    const done: string[] = [];
    const end = this.#written;
    // The last one first: whenever this is cut short, the files that are left have no gap.
    for (const segment of this.sequence.dropFrom(end).reverse()) {
      this.#forget(segment);
      await this.#context.files.close(segment.path);
      await removeFile(this.#context.fileSystem, segment.path);
      done.push(segment.path);
    }
    const { last } = this.sequence;
    if (!last || this.#isZeroBehind) return done;
    let stale = await this.#findStale(last, end);
    if (stale) done.push(last.path);
    for (; stale; stale = await this.#findStale(last, stale.end, PIECE_BYTES)) {
      const { offset, length } = stale;
      this.#wrote(last);
      await this.#context.files.use(last.path, (file) =>
        writeFully(file, [Buffer.alloc(length)], offset - last.start),
      );
    }
    return done;
  }

  /**
   * Looks at what lies on disk behind the end while the file is open: if there is nothing,
   * {@linkcode QueueFiles.clearBehind} need not look at it, whatever is committed meanwhile. Not while the end
   * is moved.
   */
  async lookBehind(): Promise<void> {
    const { last } = this.sequence;
    this.#isZeroBehind = false;
    if (!last || this.#end < last.start) return;
    try {
      this.#isZeroBehind = (await this.#findStale(last, this.#end)) === undefined;
    } catch {
      // It may belong to a queue that is about to be removed.
    }
  }

  /**
   * The first piece with anything in it behind `from`.
   *
   * @param bytes Of the first piece that is looked at. Behind most ends there is the rest of a page, and a
   *   hole: to read that as well would take a second for a hundred queues.
   * @returns Where it begins, how many bytes of it are to be zeroed, and where it ends.
   */
  async #findStale(
    last: Segment,
    from: number,
    bytes = OS_PAGE_SIZE,
  ): Promise<{ offset: number; length: number; end: number } | undefined> {
    const fileEnd = last.start + last.size;
    let pieceBytes = bytes;
    for (let offset = from; ; pieceBytes = Math.min(pieceBytes * 2, PIECE_BYTES)) {
      const isInPage = (offset - last.start) % OS_PAGE_SIZE > 0;
      if (!isInPage && offset < fileEnd) offset += await this.#holeAt(last, offset);
      if (offset >= fileEnd) return undefined;
      const end = offset + pieceBytes - ((offset - last.start) % OS_PAGE_SIZE);
      const rest = await this.sequence.read(offset, end - offset);
      const length = rest ? lastNonZero(rest) + 1 : 0;
      if (length > 0) return { offset, length, end };
      offset = end;
    }
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

  /** Whether there are files that end at `offset` or before it, besides the last one. */
  hasFilesBefore(offset: number): boolean {
    const [first, next] = this.sequence.segments;
    return first !== undefined && next !== undefined && next.start <= offset;
  }

  /**
   * Deletes the files that end at `offset` or before it, the oldest first, but never the last file: its
   * name tells where the sequence goes on. Not while the files are being forced.
   *
   * @returns Their paths.
   * @throws {StoreError} `STORE_IO` naming the file.
   */
  async removeBefore(offset: number): Promise<string[]> {
    const removed: string[] = [];
    while (this.hasFilesBefore(offset)) {
      const first = this.sequence.first as Segment;
      // Its next force would miss it.
      if (this.#unforced.includes(first)) break;
      await this.#removeFirst(first);
      removed.push(first.path);
    }
    return removed;
  }

  /**
   * Deletes the files that begin before `offset`, the last one too, the oldest first. Not while they are
   * being forced.
   *
   * @throws {StoreError} `STORE_IO` naming the file.
   */
  async removeAllBefore(offset: number): Promise<void> {
    for (;;) {
      const { first } = this.sequence;
      if (!first || first.start >= offset) return;
      this.#forget(first);
      await this.#removeFirst(first);
    }
  }

  /** Deletes all files, and the folder. What is in memory is gone, too. */
  async remove(): Promise<void> {
    this.moveTo(this.#end);
    await this.removeAllBefore(Number.POSITIVE_INFINITY);
    await removeFolder(this.#context.fileSystem, this.sequence.directory);
  }

  async #removeFirst({ path }: Segment): Promise<void> {
    try {
      await this.sequence.removeFirst(this.#context.fileSystem);
    } catch (cause) {
      throw new StoreError("STORE_IO", `Cannot delete ${path}`, { path, cause });
    }
  }

  async #create(start: number, position: number, bytes: Buffer): Promise<void> {
    const { fileSystem, files, staging, fileSize } = this.#context;
    const { directory } = this.sequence;
    // Each by itself: a process that was killed may have left the topic's without its sync.
    await createDirectory(fileSystem, dirname(directory));
    await createDirectory(fileSystem, directory);
    const segment = segmentOf(directory, start, fileSize);
    const front = position > 0 ? [this.#content.front(position)] : [];
    // With its first bytes inside: RocketMQ takes an empty queue file for one with a message.
    const fill = (file: FileHandle) => writeFully(file, [...front, bytes], 0);
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
    this.sequence.add(segment);
  }

  #wrote(segment: Segment): void {
    if (!this.#unforced.includes(segment)) this.#unforced = [...this.#unforced, segment];
  }

  /** It need not be synced any more. */
  #forget(segment: Segment): void {
    this.#unforced = this.#unforced.filter((other) => other !== segment);
  }

  #dropTail(written: number): void {
    const left = this.#end - written;
    const from = written - this.#written;
    this.#written = written;
    if (left === 0) this.tail = EMPTY;
    else this.tail.copyWithin(0, from, from + left);
  }
}

/** Where the last byte that is not zero lies, or -1. */
export function lastNonZero(bytes: Buffer): number {
  let end = bytes.length;
  // Page by page: most of what is looked through is zero.
  for (let start = end; start > 0; end = start) {
    start = Math.max(0, start - OS_PAGE_SIZE);
    if (bytes.compare(ZERO_PAGE, 0, end - start, start, end) !== 0) break;
  }
  let at = end - 1;
  while (at >= 0 && bytes[at] === 0) at--;
  return at;
}
