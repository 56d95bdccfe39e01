/**
 * The next file and the one after, made ahead of need. RocketMQ: `AllocateMappedFileService`.
 *
 * A file is made at full length beside the store's folders, synced, renamed into place, and its
 * folder synced, all before it is handed out. A failure is no end: the next request tries again.
 *
 * @module
 */

import { createFile, removeFile } from "../io/directory.ts";
import type { FileSystem } from "../io/file_system.ts";
import { writeFully } from "../io/fully.ts";
import type { PhysicalOffset } from "../units.ts";
import type { OpenFiles } from "./open_files.ts";
import { type Segment, segmentOf } from "./segment.ts";

export interface SegmentAllocatorContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  readonly directory: string;
  /** Folder of half-made files. */
  readonly staging: string;
  readonly fileSize: number;
  /** A file begins with so many zeros that are written, not just read; the rest is a hole. */
  readonly zerosAtFirst: number;
  /** A request has ended: the file is ready, or `error` says why not. */
  readonly settled: (error: unknown) => void;
}

export class SegmentAllocator {
  readonly #context: SegmentAllocatorContext;
  readonly #ready = new Map<PhysicalOffset, Segment>();
  /** One file at a time, in the order of the requests. */
  #work: Promise<void> = Promise.resolve();
  readonly #requested = new Set<PhysicalOffset>();

  constructor(context: SegmentAllocatorContext) {
    this.#context = context;
  }

  /** Makes the file that starts at `start`, unless it is there or being made. */
  prepare(start: PhysicalOffset): void {
    if (this.#ready.has(start) || this.#requested.has(start)) return;
    this.#requested.add(start);
    this.#work = this.#work.then(() => this.#make(start));
  }

  /** The file that starts at `start`, if it is ready. It stays here until it is taken. */
  peek(start: PhysicalOffset): Segment | undefined {
    return this.#ready.get(start);
  }

  take(start: PhysicalOffset): Segment | undefined {
    const segment = this.#ready.get(start);
    this.#ready.delete(start);
    return segment;
  }

  /** Waits for what is being made and removes the files that nobody took. */
  async close(): Promise<void> {
    await this.#work;
    const { fileSystem, files } = this.#context;
    for (const { path, unverifiedIdentity } of this.#ready.values()) {
      await files.close(path);
      // Only our own file: somebody else may have put another one in its place.
      const found = await fileSystem.stat(path).catch(() => undefined);
      if (found?.identity === unverifiedIdentity) await removeFile(fileSystem, path);
    }
    this.#ready.clear();
  }

  async #make(start: PhysicalOffset): Promise<void> {
    const { fileSystem, files, directory, staging, fileSize, zerosAtFirst, settled } =
      this.#context;
    const segment = segmentOf(directory, start, fileSize);
    let failure: unknown;
    try {
      const handle = await createFile(fileSystem, {
        staging,
        path: segment.path,
        size: fileSize,
        // In here, so that no file is left under its name if this fails.
        fill: async (file) => {
          const zeros = Buffer.alloc(Math.min(zerosAtFirst, fileSize));
          await writeFully(file, [zeros], 0);
          segment.unverifiedIdentity = (await file.stat()).identity;
        },
      });
      files.adopt(segment.path, handle);
      this.#ready.set(start, segment);
    } catch (error) {
      failure = error;
    }
    this.#requested.delete(start);
    settled(failure);
  }
}
