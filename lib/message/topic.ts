/**
 * A topic's name in the forms that the store needs again and again, kept for the next message.
 *
 * @module
 */

import { wrongType } from "./fields.ts";
import { decodeUtf8, encodeUtf8, toJavaWellFormed, utf8Length } from "./java_string.ts";

/** A topic, ready for use. */
export interface Topic {
  /** The name as a reader will see it: an unpaired surrogate is `?`. */
  readonly text: string;
  /** The name in UTF-8. Shared: do not change it. */
  readonly bytes: Uint8Array;
  /** Why it cannot be the name of a directory, or `undefined` if it can. */
  readonly fault: string | undefined;
}

/** The longest name of a file on the usual systems, in bytes (`Byte.MAX_VALUE * 2 + 1` there). */
export const TOPIC_SIZE_MAX = 255;

const CACHE_SIZE_MAX = 4096;
const cache = new Map<string, Topic>();
/** The one that was asked for last: a put asks three times, and the next one is of the same topic as a rule. */
let lastName = "";
let last: Topic | undefined;

/**
 * Looks a topic up, or works it out.
 *
 * @throws {TypeError} If it is not text.
 */
export function topicOf(name: string): Topic {
  if (last && name === lastName) return last;
  let topic = cache.get(name);
  if (topic === undefined) {
    if (typeof name !== "string") throw wrongType("topic", "a string", name);
    const text = toJavaWellFormed(name);
    const bytes = encodeUtf8(text);
    topic = { text, bytes, fault: faultOf(text, bytes.length) };
    if (cache.size >= CACHE_SIZE_MAX) cache.clear();
    // What is refused is not worth a place.
    if (topic.fault !== undefined) return topic;
    cache.set(name, topic);
  }
  lastName = name;
  last = topic;
  return topic;
}

/** Topics that were read last, each at a place that its bytes tell. */
const READ_SIZE = 64;
const read: (Topic | undefined)[] = new Array(READ_SIZE);

/**
 * The topic of a record as text.
 *
 * @param bytes Where its UTF-8 lies, from `start` up to `end`.
 */
export function storedTopic(bytes: Uint8Array, start: number, end: number): string {
  const size = end - start;
  if (size === 0) return "";
  const place = (size * 31 + bytes[end - 1]! * 7 + bytes[start + (size >> 1)]!) % READ_SIZE;
  const last = read[place];
  if (last && last.bytes.length === size) {
    let i = 0;
    while (i < size && last.bytes[i] === bytes[start + i]) i++;
    if (i === size) return last.text;
  }
  const text = decodeUtf8(bytes, start, end);
  // What is no UTF-8 would not come out as it was.
  if (size <= TOPIC_SIZE_MAX && !text.includes("\ufffd")) {
    read[place] = {
      text,
      bytes: Uint8Array.prototype.slice.call(bytes, start, end),
      fault: undefined,
    };
  }
  return text;
}

/**
 * Why the topic of a record cannot be the name of a directory, or `undefined` if it can: no store
 * writes such a topic, and its queue could be anywhere on the machine.
 *
 * @param bytes Where its UTF-8 lies, from `start` up to `end`.
 */
export function storedTopicFault(
  bytes: Uint8Array,
  start: number,
  end: number,
): string | undefined {
  const isUsual = end > start && end - start <= TOPIC_SIZE_MAX && bytes[start] !== DOT;
  for (let i = start; isUsual; i++) {
    if (i === end) return undefined;
    const byte = bytes[i]!;
    if (byte === SLASH || byte === 0 || byte > ASCII_MAX) break;
  }
  // What is no UTF-8 is longer as the name of a directory.
  const text = decodeUtf8(bytes, start, end);
  return faultOf(text, utf8Length(text));
}

const DOT = 0x2e;
const SLASH = 0x2f;
const ASCII_MAX = 0x7f;

function faultOf(text: string, size: number): string | undefined {
  if (size === 0) return "the topic is empty";
  if (size > TOPIC_SIZE_MAX) return `the topic has ${size} bytes, the most are ${TOPIC_SIZE_MAX}`;
  if (text === "." || text === "..")
    return `the topic is "${text}", which is no name of a directory`;
  if (text.includes("/")) return 'the topic contains "/"';
  if (text.includes("\0")) return "the topic contains NUL";
  return undefined;
}
