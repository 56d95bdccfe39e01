/**
 * Everything that an open store shows: the records of its log and the units of its queues, each
 * held against the messages that were put and against one another.
 *
 * @module
 */

import { DeletedTopics } from "../../checkpoint/deleted_topics.ts";
import {
  encodeUnit,
  isFiller,
  type QueueUnit,
  UNIT_BYTES,
} from "../../consume_queue/queue_unit.ts";
import { liveQueuesOf } from "../../dispatch/dispatcher.ts";
import { dispatchRequestOf } from "../../message/dispatch_request.ts";
import { isHoleRecord } from "../../message/hole_record.ts";
import type { StoredMessage } from "../../message/record.ts";
import { DelayLevels, tagsCodeOf } from "../../message/tags_code.ts";
import type { MessagePlace, MessageStore } from "../../message_store.ts";
import type { QueryRequest } from "../../read/key_query.ts";
import { describe, type Entry } from "./ledger.ts";
import { numberOf, type PlannedMessage } from "./planned_message.ts";

export interface Survey {
  /** Messages that were put, by number, in the order of the log. */
  readonly messages: ReadonlyMap<number, StoredMessage>;
  /**
   * Of these, those that are not what was put, and what is different. Topic and properties have no
   * checksum unless `forceVerifyPropCRC` is on: a torn record may pass for a whole one.
   */
  readonly mangled: ReadonlyMap<number, string>;
  /** Of the messages, those whose topic was deleted behind them: no queue of it has them. */
  readonly deleted: ReadonlySet<number>;
  /** Places that recovery found damaged. */
  readonly holes: number;
  /** What does not fit together, whatever was promised. */
  readonly problems: readonly string[];
}

/**
 * @param entries What was put, by number.
 * @param hadHoles A recovery before this one found some: of a hole at the end of a file nothing is
 *   left to see but the units that lead nowhere.
 */
export async function survey(
  store: MessageStore,
  entries: readonly Entry[],
  hadHoles: boolean,
): Promise<Survey> {
  const messages = new Map<number, StoredMessage>();
  const mangled = new Map<number, string>();
  const problems: string[] = [];
  const holes = await readLog(store, entries, { messages, mangled, problems });
  const missing = new Map<string, number>();
  for (const { planned } of hadHoles || holes > 0 ? entries : []) {
    if (messages.has(planned.number)) continue;
    for (const key of planned.queues) {
      missing.set(key, (missing.get(key) ?? 0) + planned.messages);
    }
  }
  const byQueue = new Map<string, Map<number, StoredMessage>>();
  const deleted = new Set<number>();
  const deletions = new DeletedTopics(store.deletedTopics);
  const delayLevels = DelayLevels.parse(store.options.messageDelayLevel);
  for (const [number, message] of messages) {
    if (deletions.covers(message.topic, message.physicalOffset)) deleted.add(number);
    const request = dispatchRequestOf(message.bytes, 0, delayLevels);
    const { enableMultiDispatch } = store.options;
    for (const [topic, queueId, offset] of liveQueuesOf(request, enableMultiDispatch, deletions)) {
      const key = `${topic}/${queueId}`;
      let queue = byQueue.get(key);
      if (!queue) {
        queue = new Map();
        byQueue.set(key, queue);
      }
      if (queue.has(offset)) problems.push(`two records of ${key} are message ${offset}`);
      queue.set(offset, message);
    }
  }
  for (const { topic, queueId } of store.queues()) {
    const key = `${topic}/${queueId}`;
    const due = byQueue.get(key) ?? new Map();
    try {
      await readQueue(store, { topic, queueId }, due, missing.get(key) ?? 0, problems);
    } catch (error) {
      problems.push(`queue ${key} can't be read: ${describe(error)}`);
    }
    byQueue.delete(key);
  }
  for (const [key, { size }] of byQueue) problems.push(`queue ${key} with ${size} records is gone`);
  await readIndex(store, messages, problems);
  return { messages, mangled, deleted, holes, problems };
}

/** Each key must lead to all messages that have it, and to no other. */
async function readIndex(
  store: MessageStore,
  messages: ReadonlyMap<number, StoredMessage>,
  problems: string[],
): Promise<void> {
  const due = new Map<string, { request: QueryRequest; offsets: number[] }>();
  const add = (request: QueryRequest, offset: number): void => {
    const name = JSON.stringify(request);
    const same = due.get(name);
    if (!same) due.set(name, { request, offsets: [offset] });
    else if (same.offsets.at(-1) !== offset) same.offsets.push(offset);
  };
  for (const { topic, keys, tags, physicalOffset } of messages.values()) {
    for (const key of keys) if (key !== "") add({ topic, key }, physicalOffset);
    if (tags) add({ topic, key: tags, indexType: "T" }, physicalOffset);
  }
  for (const { request, offsets } of due.values()) {
    const found: number[] = [];
    try {
      for (let cursor: string | undefined; ; ) {
        const page = { ...request, ...(cursor === undefined ? {} : { cursor }) };
        const result = await store.query(page);
        found.unshift(...result.messages.map(({ physicalOffset }) => physicalOffset).reverse());
        ({ cursor } = result);
        if (cursor === undefined) break;
      }
    } catch (error) {
      problems.push(`the index can't be read: ${describe(error)}`);
      return;
    }
    if (found.join() === offsets.join()) continue;
    const { topic, key } = request;
    problems.push(`key ${key} of ${topic} leads to [${found}], it must lead to [${offsets}]`);
  }
}

/** @returns How many holes there are. */
async function readLog(
  store: MessageStore,
  entries: readonly Entry[],
  {
    messages,
    mangled,
    problems,
  }: {
    readonly messages: Map<number, StoredMessage>;
    readonly mangled: Map<number, string>;
    readonly problems: string[];
  },
): Promise<number> {
  const uncovered = new Set(
    store.recovery.holes.filter(({ covered }) => !covered).map(({ offset }) => offset),
  );
  let holes = store.recovery.holes.length;
  // Puts wait while their topic is being deleted, and others pass them.
  const isOrdered = store.deletedTopics.length === 0;
  const lasts = new Map<string, number>();
  for await (const entry of store.records()) {
    if (entry.kind === "blank") continue;
    if (entry.kind === "bad" && uncovered.has(entry.offset)) continue;
    if (entry.kind !== "record") {
      problems.push(`${entry.kind} in the log at ${entry.offset}`);
      continue;
    }
    const { message } = entry;
    if (isHoleRecord(message)) {
      holes++;
      continue;
    }
    const planned = plannedOf(entries, message);
    if (!planned) {
      problems.push(`the record at ${entry.offset} was never put`);
      continue;
    }
    const { number } = planned;
    const difference = planned.difference(message);
    if (difference) {
      if (!store.options.forceVerifyPropCRC) mangled.set(number, difference);
      else problems.push(`message ${number} at ${entry.offset}: ${difference}`);
    }
    if (messages.has(number)) problems.push(`message ${number} is there twice`);
    const order = isOrdered ? "" : planned.topic;
    const last = lasts.get(order) ?? -1;
    if (number < last) problems.push(`message ${number} lies behind message ${last}`);
    lasts.set(order, number);
    messages.set(number, message);
  }
  return holes;
}

/** By its properties, or by its flag and body if these are damaged. */
function plannedOf(entries: readonly Entry[], message: StoredMessage): PlannedMessage | undefined {
  const named = entries[numberOf(message) ?? -1];
  if (named) return named.planned;
  const flagged = entries[message.flag];
  return flagged?.planned.body.equals(message.body) ? flagged.planned : undefined;
}

/**
 * Units without gap or double, each leading to the record that is due.
 *
 * @param lostMax Messages of the queue that were lost in a hole: each has left a unit that leads to no
 *   message, or to the next one.
 */
async function readQueue(
  store: MessageStore,
  { topic, queueId }: { readonly topic: string; readonly queueId: number },
  due: ReadonlyMap<number, StoredMessage>,
  lostMax: number,
  problems: string[],
): Promise<void> {
  const key = `${topic}/${queueId}`;
  const min = store.minOffset(topic, queueId);
  const max = store.maxOffset(topic, queueId);
  let seen = 0;
  // Those before the first message are no longer shown; with the front of the log they went, too.
  const begin = new DeletedTopics(store.deletedTopics).nextOf(topic, queueId);
  let lost = store.minPhysicalOffset > 0 ? 0 : Math.max(min - begin, 0);
  let standIns: QueueUnit[] = [];
  for (let from = min; from < max; ) {
    const units = await store.units({ topic, queueId, from });
    if (units.length === 0) {
      problems.push(`queue ${key} has no unit ${from} of ${max}`);
      return;
    }
    for (const unit of units) {
      const record = due.get(unit.queueOffset);
      if (!record) {
        lost += unit.messages;
        standIns.push(unit);
      } else {
        seen++;
        if (!leadsTo(unit, record)) {
          problems.push(`unit ${from} of ${key} does not lead to ${record.physicalOffset}`);
        }
        if (!isExtended(store, topic, unit, record)) {
          problems.push(`the extension of unit ${from} of ${key} is not that of its message`);
        }
        for (const standIn of standIns) {
          if (isNoMessage(standIn) || leadsTo(standIn, record)) continue;
          problems.push(
            `queue ${key} has a unit for ${standIn.physicalOffset} before that of message ${from}`,
          );
        }
        standIns = [];
      }
      from = unit.queueOffset + unit.messages;
    }
  }
  for (const { physicalOffset } of standIns) {
    problems.push(
      `queue ${key} ends with a unit for ${physicalOffset}, which is none of its messages`,
    );
  }
  if (seen !== due.size) problems.push(`queue ${key} has ${seen} of ${due.size} messages`);
  if (lost > lostMax) {
    problems.push(`queue ${key} has units for ${lost} messages too many, ${lostMax} were lost`);
  }
  await readMessages(store, topic, queueId, due, problems);
}

function leadsTo(unit: QueueUnit, { physicalOffset, size }: StoredMessage): boolean {
  return unit.physicalOffset === physicalOffset && unit.size === size;
}

/** Whether the unit's extension tells what the record tells, if it has to have one. */
function isExtended(
  store: MessageStore,
  topic: string,
  { extension, tagsCode }: MessagePlace,
  record: StoredMessage,
): boolean {
  if (!store.options.enableConsumeQueueExt || record.topic !== topic) return true;
  const isBatch = store
    .queues()
    .some((queue) => queue.topic === topic && queue.queueType === "BatchCQ");
  if (isBatch) return tagsCode === BigInt(tagsCodeOf(record.tags));
  return (
    extension?.storeTimestamp === BigInt(record.storeTimestamp) &&
    extension.tagsCode === BigInt(tagsCodeOf(record.tags))
  );
}

/** A unit that says so. */
function isNoMessage({ physicalOffset, size, tagsCode }: QueueUnit): boolean {
  const bytes = Buffer.alloc(UNIT_BYTES);
  encodeUnit(bytes, 0, physicalOffset, size, Number(tagsCode));
  return isFiller(bytes, 0);
}

/** The same through `get`, as a consumer reads. */
async function readMessages(
  store: MessageStore,
  topic: string,
  queueId: number,
  due: ReadonlyMap<number, StoredMessage>,
  problems: string[],
): Promise<void> {
  const key = `${topic}/${queueId}`;
  const max = store.maxOffset(topic, queueId);
  const records = new Map([...due.values()].map((record) => [record.physicalOffset, record]));
  let got = 0;
  for (let offset = store.minOffset(topic, queueId); offset < max; ) {
    const { status, messages, nextBeginOffset } = await store.get({ topic, queueId, offset });
    for (const message of messages) {
      if (records.get(message.physicalOffset)?.bytes.equals(message.bytes) !== true) {
        problems.push(`what ${key} has at ${message.physicalOffset} is not what is in the log`);
      }
      got++;
    }
    if (nextBeginOffset <= offset) {
      problems.push(`queue ${key} can't be read from ${offset} on: ${status}`);
      return;
    }
    offset = nextBeginOffset;
  }
  if (got !== due.size) problems.push(`${got} of ${due.size} messages of queue ${key} can be read`);
}
