/**
 * Text as Java sees it: its hash, and its UTF-8.
 *
 * Java and JavaScript agree that text is a sequence of UTF-16 code units, and nearly agree on
 * UTF-8: they differ over a surrogate without its other half, for which Java writes `?` and Node
 * U+FFFD. Hashes of tags and keys depend on such details.
 *
 * @module
 */

/** Finds a surrogate without its other half: with the `u` flag a whole pair is one character. */
const UNPAIRED_SURROGATE = /\p{Surrogate}/gu;

/**
 * Java's `String.hashCode`: `h = 31 h + c` over the UTF-16 code units, modulo 2^32.
 *
 * @param before The hash of what comes before the text.
 * @param from Where in the text it begins, and `to` where it ends; without these all of it.
 * @returns A signed int32.
 */
export function javaStringHash(text: string, before = 0, from = 0, to = text.length): number {
  let hash = before;
  for (let i = from; i < to; i++) hash = (Math.imul(31, hash) + text.charCodeAt(i)) | 0;
  return hash;
}

/** Whether every character is one byte of UTF-8. */
export function isAscii(text: string): boolean {
  // Any character beyond ASCII takes more bytes than it has code units.
  return Buffer.byteLength(text) === text.length;
}

/** The text with each unpaired surrogate replaced by `?`: what Java would read back. */
export function toJavaWellFormed(text: string): string {
  return isAscii(text) ? text : text.replace(UNPAIRED_SURROGATE, "?");
}

/** Bytes that {@linkcode encodeUtf8} makes of `text`. */
export function utf8Length(text: string): number {
  const length = Buffer.byteLength(text);
  if (length === text.length) return length;
  // Node counts three bytes for an unpaired surrogate, Java writes one.
  const unpaired = text.match(UNPAIRED_SURROGATE);
  return unpaired === null ? length : length - 2 * unpaired.length;
}

/** UTF-8 as Java's `String.getBytes(UTF_8)` writes it. The bytes are the caller's own. */
export function encodeUtf8(text: string): Uint8Array {
  // Not Buffer.from: a kept slice would keep its 8 KiB pool alive.
  const target = new Uint8Array(utf8Length(text));
  Buffer.from(target.buffer).write(toJavaWellFormed(text), "utf8");
  return target;
}

/** Half of a surrogate pair, encoded as if it were a character: as latin1. */
const ENCODED_SURROGATE = /\xed[\xa0-\xbf][\x80-\xbf]?/g;

/**
 * Text from UTF-8 as Java's `new String(bytes, UTF_8)` reads it. What is not UTF-8 becomes U+FFFD.
 *
 * @param bytes Where it lies.
 * @param start Its first byte.
 * @param end One behind its last.
 */
export function decodeUtf8(bytes: Uint8Array, start = 0, end = bytes.length): string {
  if (start === end) return "";
  const buffer = Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const text = buffer.toString("utf8", start, end);
  if (!text.includes("\ufffd")) return text;
  // Node makes one U+FFFD of each byte of an encoded surrogate, Java one of all its bytes.
  const oneByteEach = buffer.toString("latin1", start, end).replace(ENCODED_SURROGATE, "\xff");
  return Buffer.from(oneByteEach, "latin1").toString("utf8");
}
