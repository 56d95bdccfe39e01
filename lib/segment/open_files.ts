/**
 * The open handles of a store, at most so many at once: a store of 10,000 queues must not need
 * 10,000 descriptors.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import type { FileHandle, FileSystem } from "../io/file_system.ts";
import { readFully } from "../io/fully.ts";
import { type Soon, soon } from "../io/soon.ts";
import { Turn } from "./turn.ts";

/** Handles kept open beyond those in use. */
const OPEN_FILES_MAX = 512;

interface OpenFile {
  handle: FileHandle | undefined;
  opening: Promise<FileHandle> | undefined;
  uses: number;
  /** Called when the last use has ended, if somebody waits for that. */
  unused: (() => void) | undefined;
}

export class OpenFiles {
  /** What is read on the main thread, of all files together. */
  readonly turn = new Turn();
  readonly #fileSystem: FileSystem;
  readonly #max: number;
  #closed = false;
  /** In order of last use: the first is the longest unused. */
  readonly #files = new Map<string, OpenFile>();

  constructor(fileSystem: FileSystem, max = OPEN_FILES_MAX) {
    this.#fileSystem = fileSystem;
    this.#max = max;
  }

  /** Calls `action` with the file's handle, which stays open until the action has settled. */
  async use<T>(path: string, action: (handle: FileHandle) => Promise<T>): Promise<T> {
    if (this.#closed)
      throw new StoreError("STORE_CLOSED", `Cannot use ${path}: the store is closed`);
    const file = this.#touch(path);
    file.uses++;
    try {
      return await action(file.handle ?? (await this.#open(path, file)));
    } finally {
      file.uses--;
      if (file.uses === 0) file.unused?.();
      if (this.#files.size > this.#max) this.#closeUnused();
    }
  }

  /**
   * Reads into `buffer`: at once if all of it lies in the page cache, otherwise on a thread.
   *
   * @returns Bytes read; fewer only at the end of the file.
   */
  read(path: string, buffer: Uint8Array, position: number): Soon<number> {
    const open = this.ready(path);
    const isCached = (file: FileHandle): boolean =>
      file.preadIfCached(buffer, position) === buffer.length;
    if (open && isCached(open)) return soon(this.turn.take(buffer.length), () => buffer.length);
    return this.use(path, async (file) => {
      if (open || !isCached(file)) return readFully(file, buffer, position);
      await this.turn.take(buffer.length);
      return buffer.length;
    });
  }

  /** Reads into `buffer` at once, if all of it lies in the page cache. @returns Whether it does. */
  async readIfCached(path: string, buffer: Uint8Array, position: number): Promise<boolean> {
    const isCached = await this.use(
      path,
      async (file) => file.preadIfCached(buffer, position) === buffer.length,
    );
    if (isCached) await this.turn.take(buffer.length);
    return isCached;
  }

  /** The handle if the file is open: only for a call that ends before anything else runs. */
  ready(path: string): FileHandle | undefined {
    return this.#files.get(path)?.handle;
  }

  /** Takes over the handle of a file that was just created. */
  adopt(path: string, handle: FileHandle): void {
    this.#files.set(path, { handle, opening: undefined, uses: 0, unused: undefined });
    if (this.#files.size > this.#max) this.#closeUnused();
  }

  /**
   * Closes the file, before it is renamed or removed, once every action that uses it has settled:
   * one that writes in parts must not find its handle closed between two of them.
   */
  async close(path: string): Promise<void> {
    const file = this.#files.get(path);
    if (!file) return;
    this.#files.delete(path);
    if (file.uses > 0) {
      await new Promise<void>((resolve) => {
        file.unused = resolve;
      });
    }
    await file.handle?.close();
  }

  /** Closes all files, for good. */
  async closeAll(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#files.keys()].map((path) => this.close(path)));
  }

  #touch(path: string): OpenFile {
    let file = this.#files.get(path);
    if (file) this.#files.delete(path);
    else file = { handle: undefined, opening: undefined, uses: 0, unused: undefined };
    this.#files.set(path, file);
    return file;
  }

  #open(path: string, file: OpenFile): Promise<FileHandle> {
    file.opening ??= this.#fileSystem.open(path, "write").then(
      (handle) => {
        file.handle = handle;
        file.opening = undefined;
        return handle;
      },
      (error: unknown) => {
        file.opening = undefined;
        if (this.#files.get(path) === file) this.#files.delete(path);
        throw error;
      },
    );
    return file.opening;
  }

  #closeUnused(): void {
    for (const [path, file] of this.#files) {
      if (this.#files.size <= this.#max) return;
      if (file.uses > 0 || !file.handle) continue;
      this.#files.delete(path);
      // Nothing was promised for this handle: what it wrote is forced through another one.
      void file.handle.close().catch(() => undefined);
    }
  }
}
