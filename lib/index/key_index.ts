/**
 * All index files of a store: which messages may have a key. RocketMQ: `IndexService`.
 *
 * Keys are inserted in the order of the log, into the newest file; when that is full another one
 * follows. What is in memory is found as what is on disk.
 *
 * @module
 */

import type { IndexMark } from "../checkpoint/store_checkpoint.ts";
import { removeFile } from "../io/directory.ts";
import { OneAtATime } from "../io/one_at_a_time.ts";
import type { DispatchRequest } from "../message/dispatch_request.ts";
import { javaStringHash } from "../message/java_string.ts";
import type { PhysicalOffset } from "../units.ts";
import { IndexFile, type IndexFileContext } from "./index_file.ts";
import {
  ENTRY_BYTES,
  entryHash,
  entryOffset,
  entryPrevious,
  entrySeconds,
  FIRST_ENTRY,
  headerBehind,
  indexName,
} from "./index_format.ts";
import { KeyBatch } from "./key_batch.ts";
import { keyHash, topicHash } from "./key_hash.ts";

/** What to look for. */
export interface IndexSearch {
  /** `topic#key`. */
  readonly topic: string;
  readonly key: string;
  /** Store times in ms, both included. */
  readonly begin: number;
  readonly end: number;
  /** Only messages that start before it. */
  readonly before: PhysicalOffset;
  /** Where an earlier search stopped, if it did. */
  readonly at: IndexPlace | undefined;
}

/** An entry. */
export interface IndexPlace {
  readonly file: string;
  readonly number: number;
}

/** An entry with the hash that was looked for: its message may have the key. */
export interface IndexHit extends IndexPlace {
  readonly offset: PhysicalOffset;
}

/** An index file, as it is at the moment. Times in ms. */
export interface IndexFileFacts {
  readonly name: string;
  readonly beginTimestamp: number;
  readonly endTimestamp: number;
  readonly beginPhysicalOffset: PhysicalOffset;
  readonly endPhysicalOffset: PhysicalOffset;
  /** Slots in use. */
  readonly usedSlots: number;
  /** Number of the next entry; the first is 1. */
  readonly count: number;
}

export class KeyIndex {
  readonly #context: IndexFileContext;
  /** The oldest first. */
  #files: readonly IndexFile[] = [];
  /** Keys that are in no file yet: whoever looks at entries puts them in first. */
  readonly #batch = new KeyBatch();
  /** One write after the other. */
  readonly #work = new OneAtATime();

  constructor(context: IndexFileContext) {
    this.#context = context;
  }

  /** Takes over the files that `load` finds; nothing is written meanwhile. */
  async open<T extends { readonly files: readonly IndexFile[] }>(
    load: () => Promise<T>,
  ): Promise<T> {
    return this.#work.run(async () => {
      const loaded = await load();
      this.#files = loaded.files;
      this.#batch.clear();
      return loaded;
    });
  }

  get files(): readonly IndexFileFacts[] {
    this.#insert();
    return this.#files.map(({ name, header }) => ({ name, ...header }));
  }

  /** What was written since the last good {@linkcode force} is not to be believed: open it again. */
  get isBroken(): boolean {
    return this.#files.some((file) => file.isBroken);
  }

  /** Bytes of entries that are in memory only. */
  get unwrittenBytes(): number {
    let bytes = this.#batch.length * ENTRY_BYTES;
    for (let i = this.#files.length - 1; i >= 0; i--) {
      const file = this.#files[i] as IndexFile;
      if (!file.isDirty) break;
      bytes += file.unwrittenBytes;
    }
    return bytes;
  }

  /**
   * Takes the keys of a record. Records come in the order of the log.
   *
   * @param done Hashes of this record's keys that are there already.
   * @returns Whether keys were put into files: those of one record may wait for others.
   */
  add(request: DispatchRequest, done?: ReadonlySet<number>): boolean {
    if (done) this.#insert();
    this.#batch.add(request);
    if (!done && !this.#batch.isFull) return false;
    this.#insert(done);
    return true;
  }

  /** The hashes of a record's keys. */
  hashesOf(request: DispatchRequest): Set<number> {
    const batch = new KeyBatch();
    batch.add(request);
    const { hashes, length } = batch.hashed();
    return new Set(hashes.subarray(0, length));
  }

  /**
   * The entries with the hash of a key, the newest first, each message once. Messages may be of
   * another key, or come from another millisecond than asked for: look at them.
   *
   * Store times are taken not to decrease along the log. Ends whatever the files hold, and at a file that
   * is deleted meanwhile: the older ones have gone before it.
   *
   * @throws {StoreError} `STORE_IO`.
   */
  async *search(search: IndexSearch): AsyncGenerator<IndexHit, void, void> {
    this.#insert();
    const { begin, at } = search;
    const hash = keyHash(javaStringHash(search.key, topicHash(search.topic)));
    const files = this.#files;
    let { before } = search;
    let i = files.length - 1;
    const resumed = at ? files.findIndex(({ name }) => name === at.file) : -1;
    if (resumed >= 0) i = resumed;
    for (; i >= 0; i--) {
      const file = files[i] as IndexFile;
      try {
        before = yield* this.#searchFile(file, hash, {
          ...search,
          before,
          at: i === resumed ? at : undefined,
        });
      } catch (error) {
        if (this.#files.some(({ name }) => name === file.name)) throw error;
        return;
      }
      if (file.header.beginTimestamp < begin) return;
    }
  }

  /** @returns Only messages in front of it are still to be found. */
  async *#searchFile(
    file: IndexFile,
    hash: number,
    search: IndexSearch,
  ): AsyncGenerator<IndexHit, PhysicalOffset, void> {
    const { begin, end, at } = search;
    let { before } = search;
    const entry = Buffer.alloc(ENTRY_BYTES);
    const { header } = file;
    const { beginTimestamp } = header;
    const isInside =
      header.count > FIRST_ENTRY &&
      beginTimestamp <= end &&
      header.endTimestamp >= begin &&
      header.beginPhysicalOffset < before;
    let number = isInside ? await file.newest(hash) : 0;
    if (isInside && at && isEntry(at.number, header.count)) {
      const isOurs = (await file.entry(at.number, entry)) && entryHash(entry) === hash;
      if (isOurs) number = at.number;
    }
    // Each entry leads to one before it: this ends.
    for (let limit = header.count; number >= FIRST_ENTRY && number < limit; ) {
      limit = number;
      if (!(await file.entry(number, entry))) break;
      const seconds = entrySeconds(entry);
      if (seconds < 0) break;
      const time = beginTimestamp + seconds * 1000;
      const offset = entryOffset(entry);
      // RocketMQ counts the first entry of a follow-up file from the end of the one before.
      const isTimed = number > FIRST_ENTRY;
      if (
        entryHash(entry) === hash &&
        offset >= 0 &&
        offset < before &&
        !(isTimed && (time > end || time + 999 < begin))
      ) {
        before = offset;
        const next = entryPrevious(entry);
        yield { file: file.name, number, offset };
        number = next;
      } else {
        number = entryPrevious(entry);
      }
      if (isTimed && time + 999 < begin) break;
    }
    return before;
  }

  /** Writes what is in memory to the files; full files are made durable. */
  commit(): Promise<void> {
    return this.#work.run(async () => {
      this.#insert();
      for (const file of this.#dirtyFiles()) {
        if (file.isFull) await file.force();
        else await file.commit();
      }
    });
  }

  /**
   * Makes all entries durable that are there when it is called.
   *
   * @throws {StoreError} `STORE_IO`, or `STORE_FILES_VANISHED`; see {@linkcode isBroken}.
   */
  force(): Promise<void> {
    return this.#work.run(async () => {
      this.#insert();
      for (const file of this.#dirtyFiles()) await file.force();
    });
  }

  /** What the checkpoint is to say once all is durable, of an index that covers the log up to `end`. */
  mark(end: PhysicalOffset): IndexMark {
    this.#insert();
    const newest = this.#files.at(-1);
    const full = this.#files.findLast((file) => file.isFull);
    return {
      end,
      files: this.#files.length,
      newest: newest?.name ?? "",
      count: newest?.header.count ?? 0,
      endTimestamp: newest?.header.endTimestamp ?? 0,
      fullTimestamp: full?.header.endTimestamp ?? 0,
    };
  }

  /**
   * Removes the files of which every message starts before `minPhysicalOffset`, but never the newest
   * one (`IndexService.deleteExpiredFile`).
   *
   * @param publish Writes the checkpoint: it must not count a file that may be gone.
   * @returns Names of the removed files.
   * @throws {StoreError} `STORE_IO`; files that could not be removed are gone for searches, and removed
   *   by the next open.
   */
  async deleteExpired(
    minPhysicalOffset: PhysicalOffset,
    publish: () => Promise<void>,
  ): Promise<string[]> {
    let count = 0;
    for (const file of this.#files.slice(0, -1)) {
      if (file.isDirty || file.header.endPhysicalOffset >= minPhysicalOffset) break;
      count++;
    }
    if (count === 0) return [];
    const expired = this.#files.slice(0, count);
    this.#files = this.#files.slice(count);
    await publish();
    for (const { path } of expired) {
      // A search may be in there: nobody opens it any more once it is gone.
      await removeFile(this.#context.fileSystem, path);
      await this.#context.files.close(path);
    }
    return expired.map(({ name }) => name);
  }

  /**
   * Puts the keys into the newest file, and into files behind it once that is full.
   *
   * @param done Hashes of keys that are there already.
   */
  #insert(done?: ReadonlySet<number>): void {
    if (this.#batch.length === 0) return;
    const keys = this.#batch.hashed(done);
    this.#batch.clear();
    for (let next = 0; next < keys.length; ) {
      let file = this.#files.at(-1);
      if (!file?.isWritable) {
        const name = indexName(keys.timestamps[next]!, file?.name);
        file = new IndexFile(this.#context, name, headerBehind(file?.header), false);
        // A search that is under way keeps the list that it has.
        this.#files = [...this.#files, file];
      }
      next = file.put(keys, next);
    }
  }

  #dirtyFiles(): IndexFile[] {
    return this.#files.filter((file) => file.isDirty);
  }
}

function isEntry(number: number, count: number): boolean {
  return Number.isSafeInteger(number) && number >= FIRST_ENTRY && number < count;
}
