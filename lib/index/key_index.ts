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
import { TRANSACTION_ROLLBACK_TYPE } from "../message/sys_flag.ts";
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
import { keyHash, topicHash } from "./key_hash.ts";

/** Key text of a tag, between topic and tag (RocketMQ 5.4: index type "T"). */
export const TAG_KEY_PREFIX = "T#";

/** Topics whose hash is kept. */
const TOPICS_MAX = 1024;
const SPACE = 32;

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
  readonly #topics = new Map<string, number>();
  /** The record whose keys are being inserted, and which of them are there. */
  #request: DispatchRequest | undefined;
  #done: ReadonlySet<number> | undefined;
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
      return loaded;
    });
  }

  get files(): readonly IndexFileFacts[] {
    return this.#files.map(({ name, header }) => ({ name, ...header }));
  }

  /** What was written since the last good {@linkcode force} is not to be believed: open it again. */
  get isBroken(): boolean {
    return this.#files.some((file) => file.isBroken);
  }

  /** Bytes of entries that are in memory only. */
  get unwrittenBytes(): number {
    let bytes = 0;
    for (let i = this.#files.length - 1; i >= 0; i--) {
      const file = this.#files[i] as IndexFile;
      if (!file.isDirty) break;
      bytes += file.unwrittenBytes;
    }
    return bytes;
  }

  /**
   * Inserts the keys of a record: `UNIQ_KEY`, each word of `KEYS`, and the tag, in this order
   * (`IndexService.buildIndex`). Records come in the order of the log.
   *
   * @param done Hashes of this record's keys that are there already.
   */
  add(request: DispatchRequest, done?: ReadonlySet<number>): void {
    this.#request = request;
    this.#done = done;
    this.#forEachKey(request, this.#put);
    this.#done = undefined;
  }

  /** The hashes of a record's keys. */
  hashesOf(request: DispatchRequest): Set<number> {
    const hashes = new Set<number>();
    this.#forEachKey(request, (hash) => hashes.add(hash));
    return hashes;
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
      for (const file of this.#dirtyFiles()) await file.force();
    });
  }

  /** What the checkpoint is to say once all is durable, of an index that covers the log up to `end`. */
  mark(end: PhysicalOffset): IndexMark {
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

  /** Visits the hash of each key, in the order in which they are inserted. */
  #forEachKey(request: DispatchRequest, visit: (hash: number) => void): void {
    const { keys, uniqKey, tags } = request;
    if (keys === undefined && uniqKey === undefined && tags === undefined) return;
    if ((request.sysFlag & TRANSACTION_ROLLBACK_TYPE) === TRANSACTION_ROLLBACK_TYPE) return;
    const topic = this.#topicHash(request.topic);
    if (uniqKey !== undefined) visit(keyHash(javaStringHash(uniqKey, topic)));
    if (keys !== undefined) {
      let start = 0;
      for (let i = 0; i <= keys.length; i++) {
        if (i < keys.length && keys.charCodeAt(i) !== SPACE) continue;
        if (i > start) visit(keyHash(javaStringHash(keys, topic, start, i)));
        start = i + 1;
      }
    }
    if (tags !== undefined && tags !== "") {
      visit(keyHash(javaStringHash(tags, javaStringHash(TAG_KEY_PREFIX, topic))));
    }
  }

  readonly #put = (hash: number): void => {
    if (this.#done?.has(hash)) return;
    const { physicalOffset, storeTimestamp } = this.#request as DispatchRequest;
    let file = this.#files.at(-1);
    if (!file?.isWritable) {
      const name = indexName(storeTimestamp, file?.name);
      file = new IndexFile(this.#context, name, headerBehind(file?.header), false);
      // A search that is under way keeps the list that it has.
      this.#files = [...this.#files, file];
    }
    file.put(hash, physicalOffset, storeTimestamp);
  };

  #topicHash(topic: string): number {
    let hash = this.#topics.get(topic);
    if (hash === undefined) {
      hash = topicHash(topic);
      if (this.#topics.size >= TOPICS_MAX) this.#topics.clear();
      this.#topics.set(topic, hash);
    }
    return hash;
  }

  #dirtyFiles(): IndexFile[] {
    return this.#files.filter((file) => file.isDirty);
  }
}

function isEntry(number: number, count: number): boolean {
  return Number.isSafeInteger(number) && number >= FIRST_ENTRY && number < count;
}
