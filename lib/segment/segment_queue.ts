/**
 * The files of one sequence, in order. RocketMQ: `MappedFileQueue`.
 *
 * Names are offsets, so file `n` is found by arithmetic; where a file is missing from the middle,
 * an offset in the hole belongs to no file, never to a neighbour.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import type { FileSystem } from "../io/file_system.ts";
import { readFully } from "../io/fully.ts";
import { type Soon, soon } from "../io/soon.ts";
import { hasCode } from "../io/system_error.ts";
import type { PhysicalOffset } from "../units.ts";
import type { OpenFiles } from "./open_files.ts";
import type { Segment } from "./segment.ts";

export class SegmentQueue {
  readonly directory: string;
  /** Size of every file, in bytes. */
  readonly fileSize: number;
  readonly #files: OpenFiles;
  readonly #segments: Segment[];

  /** @param segments In ascending order, each `fileSize` long, each start a multiple of it. */
  constructor(directory: string, fileSize: number, files: OpenFiles, segments: Segment[] = []) {
    this.directory = directory;
    this.fileSize = fileSize;
    this.#files = files;
    this.#segments = segments;
  }

  get segments(): readonly Segment[] {
    return this.#segments;
  }

  get first(): Segment | undefined {
    return this.#segments[0];
  }

  get last(): Segment | undefined {
    return this.#segments.at(-1);
  }

  /** Offset of the first byte of the first file, or `undefined` without files. */
  get minOffset(): PhysicalOffset | undefined {
    return this.#segments[0]?.start;
  }

  /** Start of the file that holds `offset`, whether it exists or not. */
  startOf(offset: PhysicalOffset): PhysicalOffset {
    return offset - (offset % this.fileSize);
  }

  /** The file that holds `offset`. */
  find(offset: PhysicalOffset): Segment | undefined {
    const first = this.#segments[0];
    if (!first || offset < first.start) return undefined;
    const start = this.startOf(offset);
    const guess = this.#segments[(start - first.start) / this.fileSize];
    if (guess?.start === start) return guess;
    return this.#segments.find((segment) => segment.start === start);
  }

  /** The first file that starts at `offset` or behind it. */
  nextFrom(offset: PhysicalOffset): Segment | undefined {
    return this.#segments.find((segment) => segment.start >= offset);
  }

  /** Takes a new file in at its place. */
  add(segment: Segment): void {
    const at = this.#segments.findLastIndex(({ start }) => start < segment.start) + 1;
    if (this.#segments[at]?.start === segment.start) {
      throw new Error(`There is a file ${segment.path} already`);
    }
    this.#segments.splice(at, 0, segment);
  }

  /** Forgets the files behind the one that holds `offset - 1`; the caller moves or removes them. */
  dropFrom(offset: PhysicalOffset): Segment[] {
    let kept = this.#segments.length;
    while (kept > 0 && (this.#segments[kept - 1] as Segment).start >= offset) kept--;
    return this.#segments.splice(kept);
  }

  /**
   * Deletes the first file. Nobody finds it afterwards, and who is reading it reads on; its space is
   * free, and this resolves, when the last of them is done. The deletion survives a power cut then.
   *
   * @throws What the file system refuses with. If the file could not be removed, it is still there.
   */
  async removeFirst(fileSystem: FileSystem): Promise<void> {
    const [segment] = this.#segments as [Segment];
    const { path } = segment;
    const forget = (): void => {
      this.#segments.splice(this.#segments.indexOf(segment), 1);
    };
    try {
      // Open while it goes: who has found it just before reads through this handle.
      await this.#files.use(path, async () => {
        await fileSystem.unlink(path);
        forget();
      });
    } catch (error) {
      // Somebody else was faster.
      if (!hasCode(error, "ENOENT")) throw error;
      forget();
    }
    await fileSystem.syncDirectory(this.directory);
    await this.#files.close(path);
  }

  /**
   * Reads `length` bytes that lie in one file; it does not know how much of the file is written.
   *
   * @param memory To read into, if it is large enough.
   * @returns The bytes, fewer only where the file itself is shorter, or `undefined` if no file holds
   *   `offset`.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  read(offset: PhysicalOffset, length: number, memory?: Buffer): Soon<Buffer | undefined> {
    const segment = this.find(offset);
    if (!segment) return undefined;
    const position = offset - segment.start;
    const wanted = Math.min(length, segment.size - position);
    // Small ones share memory: most are units of a queue.
    const buffer =
      memory && memory.length >= wanted ? memory.subarray(0, wanted) : Buffer.allocUnsafe(wanted);
    const got = this.#reading(segment, position, wanted, () =>
      this.#files.read(segment.path, buffer, position),
    );
    return soon(got, (bytes) => (bytes === wanted ? buffer : buffer.subarray(0, bytes)));
  }

  /**
   * Fills a buffer on a thread, for a caller that has something else to do meanwhile.
   *
   * @returns What could be read of it, or `undefined` if no file holds `offset`.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  async readOnThread(offset: PhysicalOffset, buffer: Buffer): Promise<Buffer | undefined> {
    const segment = this.find(offset);
    if (!segment) return undefined;
    const position = offset - segment.start;
    const got = await this.#reading(segment, position, buffer.length, () =>
      this.#files.use(segment.path, (file) => readFully(file, buffer, position)),
    );
    return buffer.subarray(0, got);
  }

  /**
   * Fills a buffer at once, if all of it lies in one file and in the page cache.
   *
   * @returns Whether it did.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  async readIfCached(offset: PhysicalOffset, buffer: Buffer): Promise<boolean> {
    const segment = this.find(offset);
    if (!segment) return false;
    const position = offset - segment.start;
    return this.#reading(segment, position, buffer.length, () =>
      this.#files.readIfCached(segment.path, buffer, position),
    );
  }

  /**
   * Reads ranges of one file, one behind the other.
   *
   * @param start Where the file starts.
   * @param ranges Of each its position in the file and its length.
   * @param buffer As long as all of them.
   * @returns Whether there is such a file, and it holds all of them.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  readEach(start: PhysicalOffset, ranges: Float64Array, buffer: Buffer): Soon<boolean> {
    const segment = this.find(start);
    if (!segment) return false;
    return this.#reading(segment, ranges[0] as number, buffer.length, () => {
      const { path } = segment;
      const cached = this.#files.ready(path)?.preadEachIfCached(buffer, ranges) ?? 0;
      let next = 0;
      let at = 0;
      for (; next < cached * 2; next += 2) at += ranges[next + 1] as number;
      if (next === ranges.length) return soon(this.#files.turn.take(at), () => true);
      this.#files.turn.spend(at);
      return this.#files.use(path, async (file) => {
        const reads: Promise<boolean>[] = [];
        for (; next < ranges.length; next += 2) {
          const length = ranges[next + 1] as number;
          const part = buffer.subarray(at, at + length);
          reads.push(
            readFully(file, part, ranges[next] as number).then((count) => count === length),
          );
          at += length;
        }
        return (await Promise.all(reads)).every(Boolean);
      });
    });
  }

  /** Whatever a read fails with, the error names file and position. */
  #reading<T>({ path }: Segment, position: number, bytes: number, read: () => Soon<T>): Soon<T> {
    const fail = (cause: unknown): never => {
      const message = `Cannot read ${bytes} bytes of ${path} at ${position}`;
      throw new StoreError("STORE_IO", message, { path, position, cause });
    };
    try {
      const value = read();
      return value instanceof Promise ? value.catch(fail) : value;
    } catch (cause) {
      return fail(cause);
    }
  }
}
