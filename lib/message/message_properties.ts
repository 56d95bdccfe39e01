/**
 * The properties of a message that is to be stored: the text that goes into its record, and what
 * the store itself wants to know of it.
 *
 * @module
 */

import { wrongType } from "./fields.ts";
import { isAscii, toJavaWellFormed } from "./java_string.ts";
import type { BatchItem, Message } from "./message.ts";
import {
  BROKER_MAP_CAPACITY,
  CLIENT_MAP_CAPACITY,
  deleteProperty,
  encodeMap,
  findProperty,
} from "./properties.ts";
import {
  KEY_SEPARATOR,
  PROPERTY_CRC32,
  PROPERTY_DELAY_TIME_LEVEL,
  PROPERTY_KEYS,
  PROPERTY_TAGS,
  PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
  PROPERTY_WAIT_STORE_MSG_OK,
} from "./property_names.ts";

/** Property text, and the values that a reader of it will find. */
export interface MessageProperties {
  readonly text: string;
  /** Whether every character of the text is one byte. */
  readonly ascii: boolean;
  readonly tags: string | undefined;
  readonly keys: string | undefined;
  readonly uniqKey: string | undefined;
  readonly wait: string | undefined;
  readonly delay: string | undefined;
}

const NO_PROPERTIES: MessageProperties = {
  text: "",
  ascii: true,
  tags: undefined,
  keys: undefined,
  uniqKey: undefined,
  wait: undefined,
  delay: undefined,
};

/**
 * As a broker writes them: it reads the producer's text into a map of its own, which drops empty
 * names and values.
 *
 * @throws {TypeError} If one is no text.
 */
export function propertiesOfMessage(message: Message): MessageProperties {
  const { propertiesString, waitStoreMsgOK } = message;
  const wait = waitText(waitStoreMsgOK);
  if (propertiesString !== undefined) return fromText(propertiesString);
  const { keys, uniqKey, tags, properties } = message;
  if ((wait ?? keys ?? uniqKey ?? tags ?? properties) === undefined) return NO_PROPERTIES;
  return fromMap(mapOf(message, wait, true), BROKER_MAP_CAPACITY);
}

/**
 * As a client writes them, from a map of its own: a broker stores those of a batch's members as
 * they came.
 *
 * @throws {TypeError} If one is no text.
 */
export function propertiesOfItem(item: BatchItem): MessageProperties {
  const { propertiesString } = item;
  if (propertiesString !== undefined) return fromText(propertiesString);
  return fromMap(mapOf(item, undefined, false), CLIENT_MAP_CAPACITY);
}

/** Whether a put waits (`MessageExt.isWaitStoreMsgOK`): absent is true, else only "true" is. */
export function isWait(property: string | undefined): boolean {
  return property === undefined || property.toLowerCase() === "true";
}

/** The value of `WAIT`. */
export function waitText(wait: boolean | undefined): string | undefined {
  if (wait === undefined) return undefined;
  if (typeof wait !== "boolean") throw wrongType("waitStoreMsgOK", "a boolean", wait);
  return wait ? "true" : "false";
}

/** The value of `KEYS`. */
export function keysText(keys: string | readonly string[]): string {
  if (typeof keys === "string") return keys;
  if (!Array.isArray(keys)) throw wrongType("keys", "a string or an array", keys);
  return keys.join(KEY_SEPARATOR);
}

function fromText(given: string): MessageProperties {
  if (typeof given !== "string") throw wrongType("propertiesString", "a string", given);
  // A CRC that the caller hands in was another record's: it covers the offset.
  const text = deleteProperty(toJavaWellFormed(given), PROPERTY_CRC32);
  return {
    text,
    ascii: isAscii(text),
    tags: findProperty(text, PROPERTY_TAGS),
    keys: findProperty(text, PROPERTY_KEYS),
    uniqKey: findProperty(text, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX),
    wait: findProperty(text, PROPERTY_WAIT_STORE_MSG_OK),
    delay: findProperty(text, PROPERTY_DELAY_TIME_LEVEL),
  };
}

/** All of them, in the order in which a client sets them. */
function mapOf(
  message: BatchItem,
  wait: string | undefined,
  dropEmpty: boolean,
): Map<string, string> {
  const map = new Map<string, string>();
  const { keys, uniqKey, tags, properties } = message;
  if (keys !== undefined) set(map, PROPERTY_KEYS, keysText(keys), dropEmpty);
  if (uniqKey !== undefined) {
    set(map, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, uniqKey, dropEmpty);
  }
  if (wait !== undefined) map.set(PROPERTY_WAIT_STORE_MSG_OK, wait);
  if (tags !== undefined) set(map, PROPERTY_TAGS, tags, dropEmpty);
  if (properties !== undefined) {
    for (const name of Object.keys(properties)) {
      const value = properties[name];
      if (value != null) set(map, name, value, dropEmpty);
    }
  }
  return map;
}

function set(map: Map<string, string>, name: string, value: string, dropEmpty: boolean): void {
  if (typeof value !== "string") throw wrongType(`property ${name}`, "a string", value);
  // A CRC that the caller hands in was another record's: it covers the offset.
  if (name === PROPERTY_CRC32) return;
  if (dropEmpty && (value === "" || name === "")) map.delete(name);
  else map.set(name, value);
}

function fromMap(map: ReadonlyMap<string, string>, capacity: number): MessageProperties {
  if (map.size === 0) return NO_PROPERTIES;
  const text = encodeMap(map, capacity);
  const ascii = isAscii(text);
  return {
    text: ascii ? text : toJavaWellFormed(text),
    ascii,
    tags: found(map, PROPERTY_TAGS, ascii),
    keys: found(map, PROPERTY_KEYS, ascii),
    uniqKey: found(map, PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, ascii),
    wait: found(map, PROPERTY_WAIT_STORE_MSG_OK, ascii),
    delay: found(map, PROPERTY_DELAY_TIME_LEVEL, ascii),
  };
}

/** The value as a reader will find it: an empty one does not count. */
function found(map: ReadonlyMap<string, string>, name: string, ascii: boolean): string | undefined {
  const value = map.get(name);
  if (value === undefined || value === "") return undefined;
  return ascii ? value : toJavaWellFormed(value);
}
