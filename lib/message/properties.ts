/**
 * The list of properties of a message, as text: `name 01 value 02 name 01 value 02 …`.
 *
 * Nothing is escaped. Releases differ in whether `02` follows the last entry (5.2.0 and later, and
 * up to 4.9.0: yes); readers accept both. An entry counts only if it has a name and a value of at
 * least one character each. The first `01` ends the name, further ones belong to the value. Of a
 * repeated name the last counts.
 *
 * The order is that of a Java `HashMap`, which readers do not depend on: see
 * {@linkcode encodeProperties}.
 *
 * @module
 */

import { javaStringHash } from "./java_string.ts";
import { NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR } from "./property_names.ts";

/** Buckets of the map that a broker reads them into (`MessageDecoder.string2messageProperties`). */
export const BROKER_MAP_CAPACITY = 128;

/** Buckets of a Java `HashMap` made from scratch, as a client's message has it. */
export const CLIENT_MAP_CAPACITY = 16;

/**
 * Property text in the order in which Java writes it: by bucket of the name's hash, inside a bucket
 * as inserted; the number of buckets doubles as long as it is less than 4/3 of the entries.
 *
 * (A Java map turns a bucket of nine or more into a tree and may then begin with another entry than
 * the first inserted. This is not followed.)
 *
 * @param entries Names and values, of which none contains `01` or `02`. Of a repeated name the last
 * value counts, in the first one's place. A value that is `null` or `undefined` is skipped, an
 * empty one is written.
 * @param capacity Buckets to begin with: a power of two.
 * @returns Every entry followed by `02`; empty if there is none.
 */
export function encodeProperties(
  entries: Iterable<readonly [string, string | null | undefined]>,
  capacity: number = BROKER_MAP_CAPACITY,
): string {
  const map = new Map<string, string>();
  for (const [name, value] of entries) if (value != null) map.set(name, value);
  return encodeMap(map, capacity);
}

/** {@linkcode encodeProperties} of a map without `null`. */
export function encodeMap(map: ReadonlyMap<string, string>, capacity: number): string {
  let buckets = capacity;
  while (map.size > buckets * 0.75) buckets *= 2;
  const texts: string[] = [];
  const places: number[] = [];
  for (const [name, value] of map) {
    texts.push(name + NAME_VALUE_SEPARATOR + value + PROPERTY_SEPARATOR);
    places.push(bucketOf(name, buckets));
  }
  if (texts.length > SORT_BY_HAND_MAX) return sorted(texts, places).join("");
  // Insertion sort: stable, and for the usual handful faster than a comparison function.
  for (let i = 1; i < texts.length; i++) {
    const text = texts[i]!;
    const place = places[i]!;
    let j = i;
    for (; j > 0 && places[j - 1]! > place; j--) {
      texts[j] = texts[j - 1]!;
      places[j] = places[j - 1]!;
    }
    texts[j] = text;
    places[j] = place;
  }
  let text = "";
  for (const entry of texts) text += entry;
  return text;
}

const SORT_BY_HAND_MAX = 16;

function sorted(texts: readonly string[], places: readonly number[]): string[] {
  const order = texts.map((_, i) => i);
  order.sort((a, b) => places[a]! - places[b]! || a - b);
  return order.map((i) => texts[i]!);
}

/** The bucket of a name in a Java `HashMap` of that many (`HashMap.hash`, `HashMap.putVal`). */
function bucketOf(name: string, buckets: number): number {
  const hash = javaStringHash(name);
  return (hash ^ (hash >>> 16)) & (buckets - 1);
}

/**
 * Calls `visit` with each entry that counts, in the order of the text, repeated names included
 * (`MessageDecoder.string2messageProperties`).
 */
export function forEachProperty(text: string, visit: (name: string, value: string) => void): void {
  let separator = -1;
  for (let start = 0; start < text.length; ) {
    let end = text.indexOf(PROPERTY_SEPARATOR, start);
    if (end < 0) end = text.length;
    // Not again for each of many items without one: that would take the square of their number.
    if (separator < start) separator = text.indexOf(NAME_VALUE_SEPARATOR, start);
    if (separator < 0) return;
    if (separator > start && separator < end - 1) {
      visit(text.slice(start, separator), text.slice(separator + 1, end));
    }
    start = end + 1;
  }
}

/**
 * Reads property text.
 *
 * @returns Names and values; in the order of the text, a repeated name in its first place.
 */
export function parseProperties(text: string): Map<string, string> {
  const map = new Map<string, string>();
  forEachProperty(text, (name, value) => {
    map.set(name, value);
  });
  return map;
}

/**
 * The value of one property, without reading the others.
 *
 * @param text Property text.
 * @param name Its name.
 * @returns Of a repeated name the last value; `undefined` if no entry with that name counts.
 */
export function findProperty(text: string, name: string): string | undefined {
  const key = name + NAME_VALUE_SEPARATOR;
  for (
    let at = text.lastIndexOf(key);
    at >= 0;
    at = at === 0 ? -1 : text.lastIndexOf(key, at - 1)
  ) {
    if (at > 0 && text[at - 1] !== PROPERTY_SEPARATOR) continue;
    const start = at + key.length;
    const end = text.indexOf(PROPERTY_SEPARATOR, start);
    const value = text.slice(start, end < 0 ? text.length : end);
    if (value !== "") return value;
  }
  return undefined;
}

/**
 * The text without the entries of one name; all else stays as it is, byte for byte
 * (`MessageUtils.deleteProperty`).
 */
export function deleteProperty(text: string, name: string): string {
  const key = name + NAME_VALUE_SEPARATOR;
  if (!text.includes(key)) return text;
  let rest = "";
  for (let start = 0; start < text.length; ) {
    const separator = text.indexOf(PROPERTY_SEPARATOR, start);
    const end = separator < 0 ? text.length : separator + 1;
    if (!text.startsWith(key, start)) rest += text.slice(start, end);
    start = end;
  }
  return rest;
}
