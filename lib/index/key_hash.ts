/**
 * What the index keeps of a key: a hash of `topic#key`. RocketMQ: `IndexFile.indexKeyHashMethod`.
 *
 * Topic and key are hashed one after the other, without a text that holds both: nothing is allocated.
 *
 * @module
 */

import { javaStringHash } from "../message/java_string.ts";

/** Between topic and key (`IndexService.buildKey`). */
const SEPARATOR = "#";

/** Hash of `topic#`: what the keys of a topic begin with. */
export function topicHash(topic: string): number {
  return javaStringHash(SEPARATOR, javaStringHash(topic));
}

/** The entry's hash: no sign, and 0 for the int32 that has no positive counterpart. */
export function keyHash(hash: number): number {
  return hash === -2147483648 ? 0 : Math.abs(hash);
}
