/**
 * Messages by key. RocketMQ: `DefaultMessageStore.queryMessage`, which compares no keys.
 *
 * The index leads to messages whose keys have the hash of the one that is asked for; what is returned
 * has that very key.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import { TAG_KEY_PREFIX } from "../index/key_batch.ts";
import type { IndexPlace, KeyIndex } from "../index/key_index.ts";
import {
  KEY_SEPARATOR,
  PROPERTY_KEYS,
  PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
} from "../message/property_names.ts";
import type { StoredMessage } from "../message/record.ts";
import type { ResolvedOptions } from "../options.ts";
import type { PhysicalOffset } from "../units.ts";

export interface QueryRequest {
  readonly topic: string;
  /** One of a message's `KEYS`, or its `UNIQ_KEY`; with the index type `"T"` its tag. */
  readonly key: string;
  /** What kind of key: `"T"` is a tag. @default keys and unique keys */
  readonly indexType?: "T";
  /** Only messages stored from this time on, in ms since the epoch. @default 0 */
  readonly begin?: number;
  /** Only messages stored up to this time, included, in ms since the epoch. @default no limit */
  readonly end?: number;
  /** At most so many messages; no more than `maxMsgsNumBatch`. @default `defaultQueryMaxNum` */
  readonly maxNum?: number;
  /** Goes on where the result with this {@linkcode QueryResult.cursor} ended. */
  readonly cursor?: string;
  /** Ends the search by throwing its reason. */
  readonly signal?: AbortSignal;
}

export interface QueryResult {
  /** The newest first, each once. They own their bytes. */
  readonly messages: readonly StoredMessage[];
  /** There may be older ones: ask for them with it. `undefined` if these were the last. */
  readonly cursor: string | undefined;
  /** Where the index leads and no whole record starts: damage, of a message that may have the key. */
  readonly unreadable: readonly PhysicalOffset[];
  /** Of the newest message with any key: its store time in ms and where it starts; 0 without one. */
  readonly indexLastUpdateTimestamp: number;
  readonly indexLastUpdatePhyOffset: PhysicalOffset;
}

export interface KeyQueryContext {
  readonly index: KeyIndex;
  readonly options: ResolvedOptions;
  readonly lookup: (offset: PhysicalOffset) => Promise<StoredMessage | undefined>;
  /** First byte of the log. */
  readonly minOffset: () => PhysicalOffset;
}

/**
 * @throws {RangeError} for a cursor that no result had.
 * @throws {StoreError} `STORE_IO`.
 */
export async function queryByKey(
  context: KeyQueryContext,
  request: QueryRequest,
): Promise<QueryResult> {
  const { index, options, lookup, minOffset } = context;
  const { topic, key, indexType, begin = 0, end = Number.MAX_SAFE_INTEGER, signal } = request;
  const most = Math.min(request.maxNum ?? options.defaultQueryMaxNum, options.maxMsgsNumBatch);
  const newest = index.files.at(-1);
  const messages: StoredMessage[] = [];
  const unreadable: PhysicalOffset[] = [];
  let cursor: string | undefined;
  const search = {
    topic,
    key: indexType === "T" ? TAG_KEY_PREFIX + key : key,
    begin,
    end,
    ...cursorOf(request.cursor),
  };
  if (key !== "" && most > 0) {
    for await (const hit of index.search(search)) {
      signal?.throwIfAborted();
      // What is older has gone as well.
      if (hit.offset < minOffset()) break;
      try {
        const message = await lookup(hit.offset);
        if (message && isWanted(message, request, begin, end)) messages.push(message);
      } catch (error) {
        if (!(error instanceof StoreError) || error.code !== "STORE_RECORD_DAMAGED") throw error;
        unreadable.push(hit.offset);
      }
      if (messages.length === most) {
        cursor = `${hit.offset}.${hit.file}.${hit.number}`;
        break;
      }
    }
  }
  return {
    messages,
    cursor,
    unreadable,
    indexLastUpdateTimestamp: newest?.endTimestamp ?? 0,
    indexLastUpdatePhyOffset: newest?.endPhysicalOffset ?? 0,
  };
}

function isWanted(
  message: StoredMessage,
  { topic, key, indexType }: QueryRequest,
  begin: number,
  end: number,
): boolean {
  const { storeTimestamp, properties } = message;
  if (message.topic !== topic || storeTimestamp < begin || storeTimestamp > end) return false;
  if (indexType === "T") return message.tags === key;
  return (
    properties?.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX) === key ||
    (properties?.get(PROPERTY_KEYS)?.split(KEY_SEPARATOR).includes(key) ?? false)
  );
}

function cursorOf(cursor: string | undefined): {
  before: PhysicalOffset;
  at: IndexPlace | undefined;
} {
  if (cursor === undefined) return { before: Number.POSITIVE_INFINITY, at: undefined };
  const parts = /^(\d{1,16})\.(\d{17})\.(\d{1,10})$/.exec(cursor);
  if (!parts) throw new RangeError(`Cannot use cursor "${cursor}": no query answers with it`);
  const [, before, file, number] = parts as unknown as [string, string, string, string];
  return { before: Number(before), at: { file, number: Number(number) } };
}
