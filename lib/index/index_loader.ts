/**
 * Which index files can be believed when a store is opened, and from where on the log is to be indexed
 * anew. RocketMQ: `IndexService.load`, with other rules where its lose keys.
 *
 * The checkpoint tells what is durable. Where it does not, since a Java store was here: after a clean
 * stop all files, after a crash those that are older than its `indexMsgTimestamp`. What is not believed
 * is removed, with all files behind it; the log has it all.
 *
 * @module
 */

import type { CheckpointLongs, IndexMark } from "../checkpoint/store_checkpoint.ts";
import { StoreError } from "../errors.ts";
import { removeFile } from "../io/directory.ts";
import type { DirectoryEntry } from "../io/file_system.ts";
import { readFully } from "../io/fully.ts";
import type { PhysicalOffset } from "../units.ts";
import { IndexFile, type IndexFileContext } from "./index_file.ts";
import {
  decodeHeader,
  FIRST_ENTRY,
  fileSizeOf,
  HEADER_BYTES,
  type IndexHeader,
  isIndexName,
} from "./index_format.ts";

export interface IndexLoaderContext extends IndexFileContext {
  /** No `abort` file: the last stop was a clean one. */
  readonly cleanStop: boolean;
  readonly longs: CheckpointLongs;
  /** What the checkpoint vouches for. */
  readonly mark: IndexMark | undefined;
  /** End of the log; nothing may lead behind it. */
  readonly logEnd: PhysicalOffset;
  /** Everything is to be made anew. */
  readonly anew: boolean;
  /** Told why a file is removed. */
  readonly warn: (text: string) => void;
}

export interface LoadedIndex {
  readonly files: readonly IndexFile[];
  /** The log is to be indexed from there on. */
  readonly from: PhysicalOffset;
  /**
   * If the record there is the last one that is indexed: hashes of those of its keys that are. It must
   * be a record of this log, or the index is another one's.
   */
  readonly done: ReadonlySet<number> | undefined;
  /** Files were removed that the checkpoint may still vouch for. */
  readonly lost: boolean;
}

/**
 * @throws {StoreError} `STORE_IO`.
 */
export async function loadIndex(context: IndexLoaderContext): Promise<LoadedIndex> {
  return new Loader(context).run();
}

/** A file that was found, with its header if it has a sound one. */
interface Found {
  readonly name: string;
  readonly path: string;
  readonly header: IndexHeader | undefined;
  /** What is wrong with it. */
  readonly fault: string | undefined;
}

class Loader {
  readonly #context: IndexLoaderContext;
  #lost = false;

  constructor(context: IndexLoaderContext) {
    this.#context = context;
  }

  async run(): Promise<LoadedIndex> {
    const { mark, logEnd, cleanStop } = this.#context;
    const files = (await this.#believed(await this.#find())).map(
      ({ name, header }) => new IndexFile(this.#context, name, header as IndexHeader, true),
    );
    /** The checkpoint, as long as the files are what it says. */
    let vouched = this.#lost ? undefined : mark;
    let count = vouched?.count;
    for (let file = files.at(-1); file; file = files.at(-1)) {
      const { header } = file;
      const wanted = count ?? header.count;
      const isWritten = wanted === header.count;
      const isInLog = header.count === FIRST_ENTRY || header.endPhysicalOffset < logEnd;
      if (isWritten && isInLog && (file.isFull || (cleanStop && (await file.load())))) break;
      const endTimestamp = isWritten ? header.endTimestamp : vouched?.endTimestamp;
      await file.rebuild(wanted, logEnd, endTimestamp);
      if (header.count === wanted) break;
      vouched = undefined;
      if (header.count > FIRST_ENTRY) break;
      files.pop();
      count = undefined;
      await this.#remove(file.path, "none of its entries can be believed");
    }
    const lost = this.#lost;
    if (vouched) return { files, from: Math.min(vouched.end, logEnd), done: undefined, lost };
    // A new file of RocketMQ's may still be empty.
    const last = files.findLast(({ header }) => header.count > FIRST_ENTRY);
    if (!last) return { files, from: 0, done: undefined, lost };
    const done = await last.lastHashes();
    return { files, from: last.header.endPhysicalOffset, done, lost };
  }

  /** The files that may be believed; the others are removed. */
  async #believed(found: readonly Found[]): Promise<Found[]> {
    const { mark, cleanStop, longs, anew } = this.#context;
    let first = 0;
    let end = found.length;
    let fault: string | undefined;
    if (anew) {
      end = 0;
      this.#lost = true;
    } else if (mark) {
      const newest = found.findIndex(({ name }) => name === mark.newest);
      first = newest + 1 - mark.files;
      end = newest + 1;
      if (first < 0 || (mark.files > 0 && newest < 0)) {
        first = 0;
        end = 0;
        fault = "files of the index are missing";
      }
    } else if (!cleanStop) {
      // They were open when the store stopped.
      const isNew = ({ header }: Found) =>
        header !== undefined && header.endTimestamp > longs.indexMsgTimestamp;
      const newest = found.findIndex(isNew);
      if (newest >= 0) end = newest;
    }
    for (let i = first; i < end; i++) {
      const own = faultOf(found[i] as Found, found[i - 1], i === end - 1);
      if (own === undefined) continue;
      end = i;
      fault = own;
    }
    if (fault !== undefined) this.#lost = true;
    // The last one first: whenever this is cut short, the files that are left have no gap.
    for (const { path } of found.slice(end).reverse()) await this.#remove(path, fault);
    // They have expired: the checkpoint does not count them any more.
    for (const { path } of found.slice(0, first)) await this.#remove(path, undefined);
    return found.slice(first, end);
  }

  /** @param fault What is wrong, if anything is. */
  async #remove(path: string, fault: string | undefined): Promise<void> {
    const { fileSystem, files, warn } = this.#context;
    if (fault !== undefined) {
      this.#lost = true;
      warn(`The index file ${path} is made anew from the log: ${fault}`);
    }
    try {
      await files.close(path);
      await removeFile(fileSystem, path);
    } catch (cause) {
      throw new StoreError("STORE_IO", `Cannot remove ${path}`, { path, cause });
    }
  }

  async #find(): Promise<Found[]> {
    const { fileSystem, directory } = this.#context;
    let entries: DirectoryEntry[];
    try {
      entries = await fileSystem.readdir(directory);
    } catch (cause) {
      if ((cause as { code?: string }).code === "ENOENT") return [];
      throw new StoreError("STORE_IO", `Cannot list ${directory}`, { path: directory, cause });
    }
    const names = entries
      .filter(({ name, kind }) => kind === "file" && isIndexName(name))
      .map(({ name }) => name)
      .sort();
    const found: Found[] = [];
    for (const name of names) found.push(await this.#look(name));
    return found;
  }

  async #look(name: string): Promise<Found> {
    const { fileSystem, files, directory, shape } = this.#context;
    const path = `${directory}/${name}`;
    const due = fileSizeOf(shape);
    try {
      const { size } = await fileSystem.stat(path);
      if (size !== due) {
        return { name, path, header: undefined, fault: `it has ${size} bytes, ${due} are due` };
      }
      const bytes = Buffer.alloc(HEADER_BYTES);
      await files.use(path, (file) => readFully(file, bytes, 0));
      const header = decodeHeader(bytes, shape);
      return { name, path, header, fault: header ? undefined : "its header is damaged" };
    } catch (cause) {
      throw new StoreError("STORE_IO", `Cannot read ${path}`, { path, cause });
    }
  }
}

/** @param isLast Only the newest file may be empty. */
function faultOf(
  { header, fault }: Found,
  before: Found | undefined,
  isLast: boolean,
): string | undefined {
  if (!header) return fault;
  const previousEnd = before?.header?.endPhysicalOffset ?? 0;
  if (header.beginPhysicalOffset < previousEnd) return "it begins before the end of the one before";
  return header.count > FIRST_ENTRY || isLast ? undefined : "it is empty";
}
