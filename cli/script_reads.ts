/**
 * The reads of a script: one object of results for each.
 *
 * @module
 */

import type { Arrival, MessageStore, TimeBoundary } from "../lib/mod.ts";
import type { Fields } from "./arguments.ts";
import type { Json, JsonObject } from "./json.ts";
import { messageJson } from "./message_json.ts";
import { numberIn, textIn } from "./script.ts";

/** Bits of RocketMQ's `RunningFlags`. */
const NOT_WRITEABLE = 1 << 1;
const DISK_FULL = 1 << 4;

/** The end of the log as RocketMQ tells it: what waits in the pool does not count. */
export function maxPhysicalOffset({ options, watermarks }: MessageStore): number {
  return options.transientStorePoolEnable ? watermarks.committed : watermarks.wrote;
}

/** @param arrivals What became readable since the store was opened. */
export async function read(
  store: MessageStore,
  fields: Fields,
  arrivals: readonly Arrival[],
): Promise<JsonObject> {
  const topic = textIn(fields, "topic") ?? "T";
  const queueId = numberIn(fields, "queueId", 0);
  const offset = numberIn(fields, "offset", 0);
  switch (fields.read) {
    case "getMessage":
      return getMessage(store, fields, topic, queueId, offset);
    case "queryMessage":
      return queryMessage(store, fields, topic);
    case "lookMessageByOffset": {
      const message = await store.lookup(offset);
      return { message: message ? messageJson(message) : null };
    }
    case "queue": {
      const min = store.minOffset(topic, queueId);
      const max = store.maxOffset(topic, queueId);
      const earliestTime = (await store.earliestMessageTime(topic, queueId)) ?? -1;
      return { min, max, earliestTime, total: max - min };
    }
    case "offsetByTime": {
      const boundary = (textIn(fields, "boundary") ?? "LOWER").toLowerCase();
      const timestamp = numberIn(fields, "time", 0);
      const request = { topic, queueId, timestamp, boundary: boundary as TimeBoundary };
      return { offset: await store.offsetByTime(request) };
    }
    case "unit":
      return { ...(await unit(store, topic, queueId, offset)) };
    case "store":
      return storeFacts(store);
    case "arrivals":
      return {
        arrivals: arrivals.map(
          ({ topic, queueId, logicOffset, tagsCode }): Json => ({
            topic,
            queueId,
            logicOffset,
            tagsCode,
          }),
        ),
      };
    default:
      throw new Error(`Cannot read ${JSON.stringify(fields.read)}`);
  }
}

async function getMessage(
  store: MessageStore,
  fields: Fields,
  topic: string,
  queueId: number,
  offset: number,
): Promise<JsonObject> {
  const tags = textIn(fields, "tags");
  const result = await store.get({
    group: textIn(fields, "group") ?? "g",
    topic,
    queueId,
    offset,
    // The first message passes whatever is asked for.
    maxMessages: Math.max(numberIn(fields, "maxMsgNums", 32), 1),
    ...(tags === undefined ? {} : { filter: tags }),
  });
  return {
    status: result.status,
    nextBeginOffset: result.nextBeginOffset,
    minOffset: result.minOffset,
    maxOffset: result.maxOffset,
    bufferTotalSize: result.bytes,
    suggestPullingFromSlave: result.suggestPullingFromSlave,
    messages: result.messages.map(({ queueOffset, physicalOffset, size }) => [
      queueOffset,
      physicalOffset,
      size,
    ]),
  };
}

async function queryMessage(
  store: MessageStore,
  fields: Fields,
  topic: string,
): Promise<JsonObject> {
  const end = numberIn(fields, "end", Number.MAX_SAFE_INTEGER);
  const request = {
    topic,
    key: textIn(fields, "key") ?? "",
    begin: Math.max(numberIn(fields, "begin", 0), 0),
    end: Math.max(end, 0),
    maxNum: end < 0 ? 0 : Math.max(numberIn(fields, "maxNum", 32), 0),
  };
  const result = await store.query(request);
  return {
    offsets: result.messages.map(({ physicalOffset }) => physicalOffset).reverse(),
    lastUpdateTimestamp: result.indexLastUpdateTimestamp,
    lastUpdatePhyOffset: result.indexLastUpdatePhyOffset,
  };
}

/** Where a message lies and when it was stored: 0 and -1 if there is none. */
async function unit(
  store: MessageStore,
  topic: string,
  queueId: number,
  offset: number,
): Promise<{ phyOffset: number; storeTimestamp: number }> {
  const [found] = offset < 0 ? [] : await store.units({ topic, queueId, from: offset, count: 1 });
  if (!found) return { phyOffset: 0, storeTimestamp: -1 };
  const storeTimestamp = (await store.messageStoreTime(topic, queueId, offset)) ?? -1;
  return { phyOffset: found.physicalOffset, storeTimestamp };
}

async function storeFacts(store: MessageStore): Promise<JsonObject> {
  const { minPhysicalOffset: min, watermarks } = store;
  return {
    minPhyOffset: min,
    maxPhyOffset: maxPhysicalOffset(store),
    confirmOffset: watermarks.dispatched,
    earliestMessageTime: (await store.earliestMessageTime()) ?? -1,
    runningFlags:
      (store.state === "failed" ? NOT_WRITEABLE : 0) | (store.stats().diskFull ? DISK_FULL : 0),
  };
}
