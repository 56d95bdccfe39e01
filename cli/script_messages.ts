/**
 * Builds the messages that a script's steps describe.
 *
 * @module
 */

import type { BatchItem, Message, MessageBatch } from "../lib/mod.ts";
import { type Fields, isFields } from "./arguments.ts";
import { fieldsIn, listIn, numberIn, textIn, textOf } from "./script.ts";

const DEFAULT_TOPIC = "T";
const DEFAULT_BORN_TIMESTAMP = 1726740000000;
const DEFAULT_BORN_HOST = "192.168.1.10:54321";
const DEFAULT_STORE_HOST = "10.0.0.7:10911";

/** Bytes of a record of version 1 without hosts, body, topic and properties. */
const RECORD_BASE_BYTES = 75;
const HOST_BYTES = 8;
const HOST_V6_BYTES = 20;
/** A longer topic has a length of two bytes. */
const TOPIC_BYTES_MAX_V1 = 127;
/** Of the property `__CRC32#` with its separator. */
const PROPERTY_CRC_BYTES = 20;
const PROPERTY_SEPARATOR = "\u0002";

/** What the store says of itself while a script runs. */
export interface PutPlace {
  /** Where the next record will lie, in bytes from the start of the log. */
  readonly logEnd: number;
  readonly fileSize: number;
  readonly appendPropertyCrc: boolean;
  readonly autoVersion: boolean;
}

/** Whether the body depends on where the record will lie. */
export function dependsOnPlace(step: Fields): boolean {
  return isFields(step.body) && "leave" in step.body;
}

/** @param i Number of the repeat: `${i}`. */
export function messageOf(step: Fields, i: number, place: PutPlace): Message {
  const message: Message = {
    ...envelope(step, i),
    ...optional("preparedTransactionOffset", numberIn(step, "preparedTransactionOffset", 0)),
    flag: numberIn(step, "flag", 0),
    ...content(step, i),
  };
  const { body } = step;
  if (isFields(body) && "leave" in body) {
    const remaining = place.fileSize - (place.logEnd % place.fileSize);
    const size = remaining - numberIn(body, "leave", 0) - overhead(message, place);
    return { ...message, body: filler(numberIn(body, "seed", 0), size) };
  }
  if (isFields(body) && "record" in body) {
    const size = numberIn(body, "record", 0) - overhead(message, place);
    return { ...message, body: filler(numberIn(body, "seed", 0) + i, size) };
  }
  return message;
}

/** @param i Number of the repeat: `${i}`; a repeated member counts for itself. */
export function batchOf(step: Fields, i: number): MessageBatch {
  const messages: BatchItem[] = [];
  for (const item of listIn(step, "messages")) {
    const repeat = numberIn(item, "repeat", 1);
    for (let k = 0; k < repeat; k++) {
      const number = repeat > 1 ? k : i;
      messages.push({
        flag: numberIn(item, "flag", 0),
        body: bodyOf(item.body, number),
        propertiesString: copiedMapText(properties(item, number)),
      });
    }
  }
  return { ...envelope(step, i), properties: properties(step, i), messages };
}

function envelope(step: Fields, i: number) {
  const queues = numberIn(step, "queues", 0);
  return {
    topic: substitute(textIn(step, "topic") ?? DEFAULT_TOPIC, i),
    queueId: queues > 0 ? i % queues : numberIn(step, "queueId", 0),
    sysFlag: numberIn(step, "sysFlag", 0),
    bornTimestamp: numberIn(step, "bornTimestamp", DEFAULT_BORN_TIMESTAMP) + i,
    bornHost: textIn(step, "bornHost") ?? DEFAULT_BORN_HOST,
    storeHost: textIn(step, "storeHost") ?? DEFAULT_STORE_HOST,
    reconsumeTimes: numberIn(step, "reconsumeTimes", 0),
  };
}

function content(step: Fields, i: number): BatchItem {
  const raw = textIn(step, "propertiesString");
  return {
    body: bodyOf(step.body, i),
    ...(raw === undefined
      ? { properties: properties(step, i) }
      : { propertiesString: substitute(raw, i) }),
  };
}

/** All properties, in the order in which a client sets them. */
function properties(step: Fields, i: number): Record<string, string> {
  const entries = new Map<string, string>();
  const named = [
    ["KEYS", textIn(step, "keys")],
    ["UNIQ_KEY", textIn(step, "uniqKey")],
    ["WAIT", "wait" in step ? textOf(step.wait, "wait") : undefined],
    ["TAGS", textIn(step, "tags")],
  ] as const;
  for (const [name, value] of named) {
    if (value !== undefined) entries.set(name, name === "WAIT" ? value : substitute(value, i));
  }
  for (const [name, value] of Object.entries(fieldsIn(step, "properties"))) {
    entries.set(substitute(name, i), substitute(textOf(value, `properties.${name}`), i));
  }
  return Object.fromEntries(entries);
}

/**
 * Property text in the order of a Java `HashMap` that was copied from another map: its buckets are
 * as few as fit, where a client's own map begins with 16.
 */
function copiedMapText(map: Readonly<Record<string, string>>): string {
  const entries = Object.entries(map);
  let buckets = 1;
  while (buckets < Math.floor(entries.length / 0.75 + 1)) buckets *= 2;
  const bucketOf = (name: string): number => {
    let hash = 0;
    for (let at = 0; at < name.length; at++) hash = (31 * hash + name.charCodeAt(at)) | 0;
    return (hash ^ (hash >>> 16)) & (buckets - 1);
  };
  return entries
    .sort(([a], [b]) => bucketOf(a) - bucketOf(b))
    .map(([name, value]) => `${name}\u0001${value}${PROPERTY_SEPARATOR}`)
    .join("");
}

function bodyOf(body: unknown, i: number): Buffer {
  if (body === undefined || body === null) return Buffer.alloc(0);
  if (typeof body === "string") return Buffer.from(substitute(body, i));
  if (!isFields(body)) throw new TypeError('Cannot use "body": expected a string or an object');
  const base64 = textIn(body, "base64");
  if (base64 !== undefined) return Buffer.from(base64, "base64");
  if (!("size" in body)) return Buffer.alloc(0);
  const size = numberIn(body, "size", 0) + numberIn(body, "grow", 0) * i;
  return filler(numberIn(body, "seed", 0) + i, size);
}

/** Bytes that differ from place to place, the same for the same seed. */
export function filler(seed: number, size: number): Buffer {
  if (size < 0) throw new RangeError(`Cannot make a body of ${size} bytes`);
  const bytes = Buffer.allocUnsafe(size);
  for (let at = 0; at < size; at++) bytes[at] = seed + 31 * at + 17 * (at >>> 8);
  return bytes;
}

function substitute(text: string, i: number): string {
  return text.replaceAll(/\$\{i\}/g, String(i));
}

/** Bytes of the message's record without its body. */
function overhead(message: Message, place: PutPlace): number {
  const topicBytes = Buffer.byteLength(message.topic);
  const isV2 = place.autoVersion && topicBytes > TOPIC_BYTES_MAX_V1;
  return (
    RECORD_BASE_BYTES +
    hostBytes(message.bornHost) +
    hostBytes(message.storeHost) +
    topicBytes +
    (isV2 ? 1 : 0) +
    propertiesBytes(message, place)
  );
}

function hostBytes(host: string | undefined): number {
  return host?.startsWith("[") && !/^\[::ffff:\d+\.\d+\.\d+\.\d+\]/i.test(host)
    ? HOST_V6_BYTES
    : HOST_BYTES;
}

function propertiesBytes(message: Message, { appendPropertyCrc }: PutPlace): number {
  const { propertiesString, properties: map = {} } = message;
  // A broker drops a property without a value.
  const entries = Object.entries(map).filter(([name, value]) => name !== "" && value !== "");
  const text = propertiesString ?? entries.map(([name, value]) => `${name}=${value}|`).join("");
  const ended = text === "" || propertiesString === undefined || text.endsWith(PROPERTY_SEPARATOR);
  const crcBytes = appendPropertyCrc ? PROPERTY_CRC_BYTES + (ended ? 0 : 1) : 0;
  return Buffer.byteLength(text) + crcBytes;
}

function optional<Name extends string>(name: Name, value: number): Partial<Record<Name, number>> {
  return value === 0 ? {} : ({ [name]: value } as Record<Name, number>);
}
