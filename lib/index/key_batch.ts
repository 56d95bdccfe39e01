/**
 * Keys that wait to be put into the index together.
 *
 * A key alone takes twice as long: its characters are asked of a text one by one. Here many texts become
 * one, its characters numbers in memory, and one loop hashes them all.
 *
 * @module
 */

import type { DispatchRequest } from "../message/dispatch_request.ts";
import { javaStringHash } from "../message/java_string.ts";
import { TRANSACTION_ROLLBACK_TYPE } from "../message/sys_flag.ts";
import { keyHash, topicHash } from "./key_hash.ts";

/** Key text of a tag, between topic and tag (RocketMQ 5.4: index type "T"). */
export const TAG_KEY_PREFIX = "T#";

/** So many keys are enough, and so many characters: more gain nothing. */
const KEYS_ENOUGH = 256;
const TEXT_ENOUGH = 16 * 1024;
/** Topics whose hash is kept. */
const TOPICS_MAX = 1024;
const SPACE = " ";

/** Keys in the order in which they go into the index. What lies behind `length` means nothing. */
export interface HashedKeys {
  readonly length: number;
  readonly hashes: Int32Array;
  /** Where the records of the keys lie. */
  readonly offsets: Float64Array;
  /** Store times of the records, in ms. */
  readonly timestamps: Float64Array;
}

export class KeyBatch {
  #text = "";
  #length = 0;
  /** Of each key: where its characters begin and end in the text, and what they are hashed after. */
  #starts = new Int32Array(KEYS_ENOUGH);
  #ends = new Int32Array(KEYS_ENOUGH);
  #seeds = new Int32Array(KEYS_ENOUGH);
  #hashes = new Int32Array(KEYS_ENOUGH);
  #offsets = new Float64Array(KEYS_ENOUGH);
  #timestamps = new Float64Array(KEYS_ENOUGH);
  #characters = new DataView(new ArrayBuffer(4 * TEXT_ENOUGH));
  readonly #topics = new Map<string, number>();
  /** That of the last record. */
  #topic = "";
  #topicHash = topicHash("");

  /** Keys in it. */
  get length(): number {
    return this.#length;
  }

  /** Whether it is time to put them into the index; it takes more all the same. */
  get isFull(): boolean {
    return this.#length >= KEYS_ENOUGH || this.#text.length >= TEXT_ENOUGH;
  }

  /**
   * Adds the keys of a record: `UNIQ_KEY`, each word of `KEYS`, and the tag, in this order
   * (`IndexService.buildIndex`); none of one that was rolled back.
   */
  add(request: DispatchRequest): void {
    const { keys, uniqKey, tags } = request;
    if (keys === undefined && uniqKey === undefined && tags === undefined) return;
    if ((request.sysFlag & TRANSACTION_ROLLBACK_TYPE) === TRANSACTION_ROLLBACK_TYPE) return;
    const topic = this.#hashOfTopic(request.topic);
    if (uniqKey !== undefined) this.#addText(uniqKey, topic, request);
    if (keys !== undefined) this.#addWords(keys, topic, request);
    if (tags !== undefined && tags !== "") {
      this.#addText(tags, javaStringHash(TAG_KEY_PREFIX, topic), request);
    }
  }

  /**
   * The keys with their hashes, until the next one is added.
   *
   * @param except Hashes of keys that are left out.
   */
  hashed(except?: ReadonlySet<number>): HashedKeys {
    const text = this.#text;
    if (2 * text.length > this.#characters.byteLength) {
      this.#characters = new DataView(new ArrayBuffer(2 * text.length));
    }
    const characters = this.#characters;
    Buffer.from(characters.buffer).write(text, "utf16le");
    const hashes = this.#hashes;
    const offsets = this.#offsets;
    const timestamps = this.#timestamps;
    let length = 0;
    for (let key = 0; key < this.#length; key++) {
      const end = 2 * this.#ends[key]!;
      let hash = this.#seeds[key]!;
      let at = 2 * this.#starts[key]!;
      // Four characters a step: their products do not wait for one another.
      for (; at + 8 <= end; at += 8) {
        hash =
          (Math.imul(31 ** 4, hash) +
            Math.imul(31 ** 3, characters.getUint16(at, true)) +
            Math.imul(31 ** 2, characters.getUint16(at + 2, true)) +
            Math.imul(31, characters.getUint16(at + 4, true)) +
            characters.getUint16(at + 6, true)) |
          0;
      }
      for (; at < end; at += 2) {
        hash = (Math.imul(31, hash) + characters.getUint16(at, true)) | 0;
      }
      hash = keyHash(hash);
      if (except?.has(hash)) continue;
      hashes[length] = hash;
      offsets[length] = offsets[key]!;
      timestamps[length] = timestamps[key]!;
      length++;
    }
    return { length, hashes, offsets, timestamps };
  }

  clear(): void {
    this.#text = "";
    this.#length = 0;
  }

  #addText(key: string, seed: number, request: DispatchRequest): void {
    const start = this.#text.length;
    this.#text += key;
    this.#push(start, this.#text.length, seed, request);
  }

  #addWords(keys: string, topic: number, request: DispatchRequest): void {
    const before = this.#text.length;
    const count = this.#length;
    let start = 0;
    while (start <= keys.length) {
      const space = keys.indexOf(SPACE, start);
      const end = space < 0 ? keys.length : space;
      if (end > start) this.#push(before + start, before + end, topic, request);
      start = end + 1;
    }
    // Spaces alone are none, and would never be taken out again.
    if (this.#length > count) this.#text += keys;
  }

  #push(
    start: number,
    end: number,
    seed: number,
    { physicalOffset, storeTimestamp }: DispatchRequest,
  ): void {
    const key = this.#length++;
    if (key === this.#starts.length) this.#grow();
    this.#starts[key] = start;
    this.#ends[key] = end;
    this.#seeds[key] = seed;
    this.#offsets[key] = physicalOffset;
    this.#timestamps[key] = storeTimestamp;
  }

  /** A record may have thousands of keys. */
  #grow(): void {
    const length = 2 * this.#starts.length;
    const grown = <T extends Int32Array | Float64Array>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.#starts = grown(new Int32Array(length), this.#starts);
    this.#ends = grown(new Int32Array(length), this.#ends);
    this.#seeds = grown(new Int32Array(length), this.#seeds);
    this.#hashes = new Int32Array(length);
    this.#offsets = grown(new Float64Array(length), this.#offsets);
    this.#timestamps = grown(new Float64Array(length), this.#timestamps);
  }

  #hashOfTopic(topic: string): number {
    if (topic === this.#topic) return this.#topicHash;
    let hash = this.#topics.get(topic);
    if (hash === undefined) {
      hash = topicHash(topic);
      if (this.#topics.size >= TOPICS_MAX) this.#topics.clear();
      this.#topics.set(topic, hash);
    }
    this.#topic = topic;
    this.#topicHash = hash;
    return hash;
  }
}
