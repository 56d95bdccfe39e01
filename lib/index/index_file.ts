/**
 * One index file. RocketMQ: `IndexFile`, without the mapping.
 *
 * The file that is being written keeps its header and its slots in memory, and of its entries those
 * that are not in the file yet: a key is inserted without a call of the system. Entries go to the file
 * in their order; slots that changed, and the header, when the file is made durable. A file that is
 * full is read from disk only.
 *
 *     entries   1 .......... written .......... count
 *                 in the file     in memory
 *
 * After a crash neither header nor slots of a file that was being written say anything: they are made
 * anew from the entries, of which the checkpoint tells how many are durable ({@linkcode IndexFile.rebuild}).
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import { createDirectory } from "../io/create_directory.ts";
import { createFile } from "../io/directory.ts";
import type { FileHandle, FileSystem } from "../io/file_system.ts";
import { writeFully } from "../io/fully.ts";
import { hasCode } from "../io/system_error.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import type { FilePosition, PhysicalOffset } from "../units.ts";
import {
  ENTRY_BYTES,
  encodeEntry,
  encodeHeader,
  entryHash,
  entryOffset,
  entryPosition,
  entryPrevious,
  entrySeconds,
  FIRST_ENTRY,
  fileSizeOf,
  HEADER_BYTES,
  type IndexHeader,
  type IndexShape,
  secondsSince,
  slotPosition,
} from "./index_format.ts";
import type { HashedKeys } from "./key_batch.ts";

/** What index files need of their store. */
export interface IndexFileContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  /** `index/` of the store. */
  readonly directory: string;
  /** Folder of half-made files. */
  readonly staging: string;
  readonly shape: IndexShape;
}

/** Entries of one piece of memory. */
const CHUNK_ENTRIES = 4096;
const CHUNK_BYTES = CHUNK_ENTRIES * ENTRY_BYTES;
/** Chunks that go to the file with one write. */
const CHUNKS_AT_ONCE = 16;
/** What is noted as changed and written as a whole. */
const PAGE_BYTES = 4096;
/** Pages that go to the file with one write. */
const PAGES_AT_ONCE = 64;
/** What is read at once where a file is read as a whole: its check takes well below a millisecond. */
const PIECE_BYTES = 64 * 1024;

/** Written chunks that are kept for the next entries: fresh memory costs more than the entries themselves. */
const SPARE_CHUNKS_MAX = 16;

interface Chunk {
  readonly bytes: Buffer;
  readonly view: DataView;
}

/** What a file that is being written has in memory. */
interface Working {
  /** Header and slots, as they are to be in the file. */
  readonly front: Buffer;
  readonly view: DataView;
  /** By page of the front: 1 if the file's one differs. */
  readonly changed: Uint8Array;
  /** Entries from number `firstChunk * CHUNK_ENTRIES` on. */
  readonly chunks: Chunk[];
  firstChunk: number;
  readonly spare: Chunk[];
  /** Entries below are in the file. */
  written: number;
}

export class IndexFile {
  readonly name: string;
  readonly path: string;
  readonly header: IndexHeader;
  readonly #context: IndexFileContext;
  #working: Working | undefined;
  /** The file is on disk. */
  #exists: boolean;
  #broken = false;
  /** {@linkcode IndexHeader.count} when the file was last made durable. */
  #durable: number;

  /** @param exists Whether the file is on disk; else it is made when it is first written to. */
  constructor(context: IndexFileContext, name: string, header: IndexHeader, exists: boolean) {
    this.name = name;
    this.path = `${context.directory}/${name}`;
    this.header = header;
    this.#context = context;
    this.#exists = exists;
    this.#durable = exists ? header.count : 0;
    if (!exists) this.#working = working(context.shape, FIRST_ENTRY);
  }

  get isFull(): boolean {
    return this.header.count >= this.#context.shape.entries;
  }

  /** A sync failed, or the file is gone: what was written since the last good sync may be lost. */
  get isBroken(): boolean {
    return this.#broken;
  }

  /** It has something in memory that belongs into the file. */
  get isDirty(): boolean {
    return this.#working !== undefined && this.#durable !== this.header.count;
  }

  /** Whether keys can be put into it: after {@linkcode load} or {@linkcode rebuild}, until it is full. */
  get isWritable(): boolean {
    return this.#working !== undefined && !this.isFull;
  }

  /** Bytes of entries that are in memory only. */
  get unwrittenBytes(): number {
    if (!this.#working) return 0;
    return (this.header.count - this.#working.written) * ENTRY_BYTES;
  }

  /**
   * Inserts keys, until the file is full (`IndexFile.putKey`). It must be writable.
   *
   * @param from The first of them.
   * @returns The first one that has no room.
   */
  put({ length, hashes, offsets, timestamps }: HashedKeys, from: number): number {
    const working = this.#working as Working;
    const { view, changed } = working;
    const { header } = this;
    const { slots, entries } = this.#context.shape;
    let number = header.count;
    let { usedSlots, beginTimestamp } = header;
    const end = Math.min(length, from + entries - number);
    for (let key = from; key < end; ) {
      const target = chunkOf(working, number);
      let at = (number % CHUNK_ENTRIES) * ENTRY_BYTES;
      const stop = Math.min(end, key + CHUNK_ENTRIES - (number % CHUNK_ENTRIES));
      for (; key < stop; key++, number++, at += ENTRY_BYTES) {
        const hash = hashes[key]!;
        const timestamp = timestamps[key]!;
        const position = slotPosition(hash % slots);
        const previous = view.getInt32(position);
        // The first entry of a follow-up file counts from the preset begin, as in RocketMQ.
        const seconds = secondsSince(beginTimestamp, timestamp);
        encodeEntry(target, at, hash, offsets[key]!, seconds, previous);
        view.setInt32(position, number);
        changed[Math.floor(position / PAGE_BYTES)] = 1;
        if (previous === 0) usedSlots++;
        if (number === FIRST_ENTRY) beginTimestamp = timestamp;
      }
    }
    if (header.count === FIRST_ENTRY) header.beginPhysicalOffset = offsets[from]!;
    header.beginTimestamp = beginTimestamp;
    header.usedSlots = usedSlots;
    header.count = number;
    header.endPhysicalOffset = offsets[end - 1]!;
    header.endTimestamp = timestamps[end - 1]!;
    return end;
  }

  /** Number of the newest entry in the slot of a hash; 0 without one. */
  async newest(hash: number): Promise<number> {
    const position = slotPosition(hash % this.#context.shape.slots);
    if (this.#working) return this.#working.view.getInt32(position);
    const bytes = Buffer.allocUnsafe(4);
    return (await this.#read(bytes, position)) ? bytes.readInt32BE(0) : 0;
  }

  /**
   * Reads one entry.
   *
   * @param number From 1 to `header.count - 1`.
   * @returns Whether it is there: a file may be cut short.
   */
  async entry(number: number, into: Buffer): Promise<boolean> {
    const working = this.#working;
    if (working && number >= working.written) {
      const chunk = Math.floor(number / CHUNK_ENTRIES) - working.firstChunk;
      const at = (number % CHUNK_ENTRIES) * ENTRY_BYTES;
      working.chunks[chunk]?.bytes.copy(into, 0, at, at + ENTRY_BYTES);
      return true;
    }
    return this.#read(into, entryPosition(this.#context.shape, number));
  }

  /** Writes the entries that are in memory, making the file if there is none. One call at a time. */
  async commit(): Promise<void> {
    const working = this.#working;
    if (!working) return;
    if (!this.#exists) await this.#create();
    const { shape, files } = this.#context;
    while (working.written < this.header.count) {
      const from = working.written;
      const firstChunk = Math.floor(from / CHUNK_ENTRIES);
      const end = Math.min(this.header.count, (firstChunk + CHUNKS_AT_ONCE) * CHUNK_ENTRIES);
      const buffers: Buffer[] = [];
      for (let number = from; number < end; ) {
        const chunk = Math.floor(number / CHUNK_ENTRIES);
        const stop = Math.min(end, (chunk + 1) * CHUNK_ENTRIES);
        const start = chunk * CHUNK_ENTRIES;
        const { bytes } = working.chunks[chunk - working.firstChunk] as Chunk;
        // What is appended meanwhile lies behind.
        buffers.push(bytes.subarray((number - start) * ENTRY_BYTES, (stop - start) * ENTRY_BYTES));
        number = stop;
      }
      await this.#doing("write", () =>
        files.use(this.path, (file) => writeFully(file, buffers, entryPosition(shape, from))),
      );
      working.written = end;
      const keptFrom = Math.floor(end / CHUNK_ENTRIES);
      working.spare.push(...working.chunks.splice(0, keptFrom - working.firstChunk));
      working.spare.splice(SPARE_CHUNKS_MAX);
      working.firstChunk = keptFrom;
    }
  }

  /**
   * Writes all that is in memory and syncs the file: every entry that was there when this was called
   * survives a power cut. One call at a time.
   *
   * @throws {StoreError} `STORE_IO`, or `STORE_FILES_VANISHED` if somebody removed the file.
   */
  async force(): Promise<void> {
    const working = this.#working;
    if (!working || !this.isDirty) return;
    const { count } = this.header;
    await this.commit();
    await this.#writeFront(working);
    await this.#doing("sync", async () => {
      await this.#context.files.use(this.path, (file) => file.fdatasync());
      await this.#context.fileSystem.stat(this.path);
    });
    this.#durable = count;
    // A full file is read from disk from now on.
    if (this.isFull && count === this.header.count) this.#working = undefined;
  }

  /** Makes a file that was closed well writable again. @returns Whether its slots can be believed. */
  async load(): Promise<boolean> {
    const { shape } = this.#context;
    const state = working(shape, this.header.count);
    const isGood = await this.#eachPiece(state.front, (bytes, position) => {
      bytes.copy(state.front, position);
      for (let at = Math.max(HEADER_BYTES - position, 0); at < bytes.length; at += 4) {
        const number = bytes.readInt32BE(at);
        if (number < 0 || number >= this.header.count) return false;
      }
      return true;
    });
    if (isGood) this.#working = state;
    return isGood;
  }

  /**
   * Makes slots and header anew from the entries, and the file writable.
   *
   * An entry is right if it leads to the one that its slot had before it. The first one that is not
   * ends the file, as one does of a message that lies at `limit` or behind.
   *
   * @param count Entries below may be believed, if they pass.
   * @param endTimestamp Store time of the last of them, if that is known.
   */
  async rebuild(
    count: number,
    limit: PhysicalOffset,
    endTimestamp: number | undefined,
  ): Promise<void> {
    const { shape, files } = this.#context;
    const { header } = this;
    const state = working(shape, FIRST_ENTRY);
    let number = FIRST_ENTRY;
    let last: PhysicalOffset = 0;
    let seconds = 0;
    header.usedSlots = 0;
    const piece = Buffer.allocUnsafeSlow(PIECE_BYTES - (PIECE_BYTES % ENTRY_BYTES));
    // A damaged mark may count more than there is room for.
    const stop = Math.min(count, shape.entries);
    while (number < stop) {
      const wanted = Math.min(piece.length, (stop - number) * ENTRY_BYTES);
      const bytes = piece.subarray(0, wanted);
      const first = number;
      if (!(await this.#read(bytes, entryPosition(shape, number)))) break;
      for (let at = 0; at < wanted; at += ENTRY_BYTES) {
        const hash = entryHash(bytes, at);
        const offset = entryOffset(bytes, at);
        if (hash < 0 || offset < last || offset >= limit || entrySeconds(bytes, at) < 0) break;
        const position = slotPosition(hash % shape.slots);
        const previous = state.view.getInt32(position);
        if (entryPrevious(bytes, at) !== previous) break;
        if (number === FIRST_ENTRY && offset !== header.beginPhysicalOffset) break;
        if (previous === 0) header.usedSlots++;
        state.view.setInt32(position, number);
        last = offset;
        seconds = entrySeconds(bytes, at);
        number++;
      }
      if (number < first + wanted / ENTRY_BYTES) break;
      await files.turn.next(wanted);
    }
    state.written = number;
    state.firstChunk = Math.floor(number / CHUNK_ENTRIES);
    header.count = number;
    if (number > FIRST_ENTRY) header.endPhysicalOffset = last;
    if (endTimestamp === undefined || number < count) {
      // Entries count whole seconds: the message may have come so much later.
      header.endTimestamp = header.beginTimestamp + seconds * 1000 + 999;
    } else {
      header.endTimestamp = endTimestamp;
    }
    encodeHeader(state.view, header);
    await this.#eachPiece(state.front, (bytes, position) => {
      for (let at = 0; at < bytes.length; at += PAGE_BYTES) {
        const end = Math.min(at + PAGE_BYTES, bytes.length);
        const isSame = state.front.compare(bytes, at, end, position + at, position + end) === 0;
        if (!isSame) state.changed[(position + at) / PAGE_BYTES] = 1;
      }
      return true;
    });
    this.#working = state;
    this.#durable = 0;
  }

  /**
   * The hashes of the entries of the last message.
   *
   * @throws {StoreError} `STORE_IO`.
   */
  async lastHashes(): Promise<Set<number>> {
    const hashes = new Set<number>();
    const bytes = Buffer.alloc(ENTRY_BYTES);
    for (let number = this.header.count - 1; number >= FIRST_ENTRY; number--) {
      if (!(await this.entry(number, bytes))) break;
      if (entryOffset(bytes) !== this.header.endPhysicalOffset) break;
      hashes.add(entryHash(bytes));
    }
    return hashes;
  }

  async #create(): Promise<void> {
    const { fileSystem, files, directory, staging, shape } = this.#context;
    await this.#doing("make", async () => {
      await createDirectory(fileSystem, directory);
      const head = Buffer.alloc(HEADER_BYTES);
      encodeHeader(new DataView(head.buffer, head.byteOffset, head.length), this.header);
      const handle = await createFile(fileSystem, {
        staging,
        path: this.path,
        size: fileSizeOf(shape),
        fill: (file: FileHandle) => writeFully(file, [head], 0),
      });
      files.adopt(this.path, handle);
    });
    this.#exists = true;
  }

  async #writeFront(state: Working): Promise<void> {
    const { files } = this.#context;
    encodeHeader(state.view, this.header);
    state.changed[0] = 1;
    const { changed, front } = state;
    for (let page = changed.indexOf(1); page >= 0; page = changed.indexOf(1, page)) {
      let end = page + 1;
      while (end < changed.length && end - page < PAGES_AT_ONCE && changed[end] === 1) end++;
      changed.fill(0, page, end);
      // A copy: the slots move on while it is written.
      const bytes = Buffer.from(front.subarray(page * PAGE_BYTES, end * PAGE_BYTES));
      try {
        await this.#doing("write", () =>
          files.use(this.path, (file) => writeFully(file, [bytes], page * PAGE_BYTES)),
        );
      } catch (error) {
        changed.fill(1, page, end);
        throw error;
      }
      page = end;
    }
  }

  /**
   * Reads header and slots piece by piece.
   *
   * @returns Whether they are all there, and no visit answered no.
   */
  async #eachPiece(
    front: Buffer,
    visit: (bytes: Buffer, position: FilePosition) => boolean,
  ): Promise<boolean> {
    const { files } = this.#context;
    const piece = Buffer.allocUnsafeSlow(PIECE_BYTES);
    for (let position = 0; position < front.length; position += PIECE_BYTES) {
      const bytes = piece.subarray(0, Math.min(PIECE_BYTES, front.length - position));
      if (!(await this.#read(bytes, position))) return false;
      if (!visit(bytes, position)) return false;
      await files.turn.next(bytes.length);
    }
    return true;
  }

  /** @returns Whether the file has so many bytes there. */
  async #read(bytes: Buffer, position: FilePosition): Promise<boolean> {
    const { files } = this.#context;
    const got = await this.#doing("read", async () => files.read(this.path, bytes, position));
    return got === bytes.length;
  }

  async #doing<T>(what: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (cause) {
      if (cause instanceof StoreError) throw cause;
      const gone = this.#exists && hasCode(cause, "ENOENT");
      if (gone || what === "sync") this.#broken = true;
      throw new StoreError(
        gone ? "STORE_FILES_VANISHED" : "STORE_IO",
        gone
          ? `Cannot ${what} ${this.path}: it was removed by somebody else`
          : `Cannot ${what} ${this.path}`,
        { path: this.path, cause },
      );
    }
  }
}

function working({ slots }: IndexShape, next: number): Working {
  const front = Buffer.alloc(slotPosition(slots));
  return {
    front,
    view: new DataView(front.buffer, front.byteOffset, front.length),
    changed: new Uint8Array(Math.ceil(front.length / PAGE_BYTES)),
    chunks: [],
    spare: [],
    firstChunk: Math.floor(next / CHUNK_ENTRIES),
    written: next,
  };
}

/** The memory of an entry that is written next. */
function chunkOf(state: Working, number: number): DataView {
  const chunk = Math.floor(number / CHUNK_ENTRIES) - state.firstChunk;
  if (chunk === state.chunks.length) state.chunks.push(state.spare.pop() ?? newChunk());
  return (state.chunks[chunk] as Chunk).view;
}

function newChunk(): Chunk {
  const bytes = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  return { bytes, view: new DataView(bytes.buffer, 0, CHUNK_BYTES) };
}
