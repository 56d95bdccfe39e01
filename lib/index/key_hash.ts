/**
 * What the index keeps of a key: a hash of `topic#key`. RocketMQ: `IndexFile.indexKeyHashMethod`.
 *
 * Topic and key are hashed one after the other, without a text that holds both: nothing is allocated.
 *
 * @module
 */

/** Between topic and key (`IndexService.buildKey`). */
const SEPARATOR = 35;

/** Java's hash of a text that begins with what `hash` is of, and goes on with `text` from `from` to `to`. */
export function hashOn(hash: number, text: string, from = 0, to = text.length): number {
  let h = hash;
  for (let i = from; i < to; i++) h = (Math.imul(31, h) + text.charCodeAt(i)) | 0;
  return h;
}

/** Hash of `topic#`: what the keys of a topic begin with. */
export function topicHash(topic: string): number {
  return (Math.imul(31, hashOn(0, topic)) + SEPARATOR) | 0;
}

/** The entry's hash: no sign, and 0 for the int32 that has no positive counterpart. */
export function keyHash(hash: number): number {
  return hash === -2147483648 ? 0 : Math.abs(hash);
}
