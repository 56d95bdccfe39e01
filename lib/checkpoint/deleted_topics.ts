/**
 * The file `forcelog/deleted-topics`: topics that were deleted while their messages still lie in the
 * log. RocketMQ has nothing like it: there a recovery brings such a topic back.
 *
 *     5f2b91c4                                                   CRC-32 of what follows, 8 hex digits
 *     [{"topic":"A","below":1310,"next":{"0":300000,"3":600000}}]
 *
 * Messages of topic A that lie below 1310 are none of its queues' any more: whoever reads the log must not
 * give them a unit. Should the topic be put to again, its queue 0 goes on with message 300000: an offset is
 * never given twice, so a group with an offset from before misses nothing, and a RocketMQ that knows nothing
 * of this file and builds the queues again finds no two messages for one place. It is the first unit of a
 * queue file: RocketMQ takes the front of a file for messages.
 *
 * Once the log begins behind `below` a topic is forgotten. The file is replaced as a whole, before
 * a file of a queue goes.
 *
 * @module
 */

import { crc32 } from "node:zlib";
import { StoreError } from "../errors.ts";
import { replaceFile } from "../io/directory.ts";
import type { FileSystem } from "../io/file_system.ts";
import { readFully } from "../io/fully.ts";
import { hasCode } from "../io/system_error.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

/** A topic that was deleted. */
export interface DeletedTopic {
  readonly topic: string;
  /** Its messages that lie in front of this place in the log are deleted. */
  readonly below: PhysicalOffset;
  /** By queue: the offset of the first message that is put to it after that. */
  readonly next: ReadonlyMap<number, QueueOffset>;
}

/** A longer one is not read, in bytes: millions of topics. */
const SIZE_MAX = 256 * 1024 * 1024;
/** Digits of the CRC, and the line's end. */
const HEAD_BYTES = 9;

export class DeletedTopics {
  #topics = new Map<string, DeletedTopic>();
  /** Most records lie behind all deletions: that is seen without looking for their topic. */
  #highest: PhysicalOffset = 0;

  constructor(topics: Iterable<DeletedTopic> = []) {
    this.set(topics);
  }

  /** These are all that there are. */
  set(topics: Iterable<DeletedTopic>): void {
    this.#topics = new Map([...topics].map((deleted) => [deleted.topic, deleted]));
    this.#highest = 0;
    for (const { below } of this.#topics.values()) this.#highest = Math.max(this.#highest, below);
  }

  /** By name. */
  list(): DeletedTopic[] {
    return [...this.#topics.values()].sort((a, b) => (a.topic < b.topic ? -1 : 1));
  }

  get(topic: string): DeletedTopic | undefined {
    return this.#topics.get(topic);
  }

  /** Whether the record of the topic at `offset` was deleted with it. */
  covers(topic: string, offset: PhysicalOffset): boolean {
    return offset < this.#highest && offset < (this.#topics.get(topic)?.below ?? 0);
  }

  /** Offset of the first message of a queue that is made now. */
  nextOf(topic: string, queueId: number): QueueOffset {
    // Nothing was deleted from most stores, and each record of a scan asks.
    if (this.#topics.size === 0) return 0;
    return this.#topics.get(topic)?.next.get(queueId) ?? 0;
  }

  /** Forgets those of which the log holds nothing any more. */
  forgetBelow(logMin: PhysicalOffset): void {
    if (this.#topics.size > 0) this.set(this.list().filter(({ below }) => below > logMin));
  }

  /** The log ends at `end`: what is put there is not deleted. @returns Whether that is news. */
  endAt(end: PhysicalOffset): boolean {
    if (this.#highest <= end) return false;
    this.set(this.list().map((topic) => ({ ...topic, below: Math.min(topic.below, end) })));
    return true;
  }
}

/**
 * Reads the file; without one nothing was deleted.
 *
 * @throws {StoreError} `STORE_CONFIG_DAMAGED`, `STORE_IO`.
 */
export async function readDeletedTopics(
  fileSystem: FileSystem,
  path: string,
): Promise<DeletedTopic[]> {
  let bytes: Buffer;
  try {
    const { kind, size } = await fileSystem.stat(path);
    if (kind !== "file") throw damaged(path, "it is no file");
    if (size > SIZE_MAX) throw damaged(path, `it has ${size} bytes`);
    const file = await fileSystem.open(path, "read");
    try {
      bytes = Buffer.alloc(size);
      bytes = bytes.subarray(0, await readFully(file, bytes, 0));
    } finally {
      await file.close();
    }
  } catch (cause) {
    if (hasCode(cause, "ENOENT")) return [];
    if (cause instanceof StoreError) throw cause;
    throw new StoreError("STORE_IO", `Cannot read ${path}`, { path, cause });
  }
  const topics = decodeDeletedTopics(bytes);
  if (!topics) throw damaged(path, "its text is not the one that its checksum is of");
  return topics;
}

/** @returns `undefined` if the bytes are damaged. */
export function decodeDeletedTopics(bytes: Buffer): DeletedTopic[] | undefined {
  const text = bytes.subarray(HEAD_BYTES);
  if (bytes.subarray(0, HEAD_BYTES).toString("latin1") !== headOf(text)) return undefined;
  const topics = JSON.parse(text.toString("utf8")) as {
    topic: string;
    below: PhysicalOffset;
    next: Record<string, QueueOffset>;
  }[];
  return topics.map(({ topic, below, next }) => ({
    topic,
    below,
    next: new Map(Object.entries(next).map(([queueId, offset]) => [Number(queueId), offset])),
  }));
}

export function encodeDeletedTopics(topics: readonly DeletedTopic[]): Buffer {
  const text = topics.map(({ topic, below, next }) =>
    JSON.stringify({ topic, below, next: Object.fromEntries(next) }),
  );
  const bytes = Buffer.from(`[${text.join(",\n")}]\n`, "utf8");
  return Buffer.concat([Buffer.from(headOf(bytes), "latin1"), bytes]);
}

/** Replaces the file. It survives a power cut once this resolves. */
export async function writeDeletedTopics(
  fileSystem: FileSystem,
  { path, staging }: { readonly path: string; readonly staging: string },
  topics: readonly DeletedTopic[],
): Promise<void> {
  try {
    await replaceFile(fileSystem, { staging, path, content: encodeDeletedTopics(topics) });
  } catch (cause) {
    throw new StoreError("STORE_IO", `Cannot write ${path}`, { path, cause });
  }
}

function headOf(text: Buffer): string {
  return `${crc32(text).toString(16).padStart(8, "0")}\n`;
}

function damaged(path: string, reason: string): StoreError {
  return new StoreError("STORE_CONFIG_DAMAGED", `Cannot read ${path}: damaged: ${reason}`, {
    path,
  });
}
