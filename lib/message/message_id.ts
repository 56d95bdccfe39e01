/**
 * The id that the store gives to a message: address of the store and physical offset, in hex
 * (RocketMQ: `MessageDecoder.createMessageId`).
 *
 * | part | IPv4 | IPv6 |
 * |---|---|---|
 * | address of the store | 4 bytes | 16 bytes |
 * | its port | i32 | i32 |
 * | physical offset | i64 | i64 |
 * | text | 32 upper-case digits | 56 upper-case digits |
 *
 * Not to be mixed up with the client's unique id (property `UNIQ_KEY`), which looks alike.
 *
 * @module
 */

import type { PhysicalOffset } from "../units.ts";
import { type EncodedHost, formatHost, HOST_V4_SIZE, HOST_V6_SIZE } from "./host.ts";
import { readInt64 } from "./int64.ts";

const OFFSET_SIZE = 8;

/**
 * The id of the message at an offset.
 *
 * @param storeHost The host as in the record: 8 or 20 bytes, or a parsed one.
 * @param physicalOffset 0 to 2^53 - 1.
 */
export function messageIdOf(
  storeHost: EncodedHost | Uint8Array,
  physicalOffset: PhysicalOffset,
): string {
  const host =
    storeHost instanceof Uint8Array
      ? Buffer.from(storeHost).toString("hex").toUpperCase()
      : storeHost.hex;
  return (
    host +
    physicalOffset
      .toString(16)
      .toUpperCase()
      .padStart(2 * OFFSET_SIZE, "0")
  );
}

/** What a message id says. */
export interface MessageIdParts {
  /** `1.2.3.4:5` or `[0:0:0:0:0:0:0:1]:5`. */
  readonly storeHost: string;
  readonly physicalOffset: PhysicalOffset;
}

/**
 * Reads a message id.
 *
 * @param text 32 or 56 hex digits, of either case.
 * @throws {TypeError} If it is not text.
 * @throws {RangeError} If it is not of that form, or the offset is negative or beyond 2^53 - 1.
 */
export function parseMessageId(text: string): MessageIdParts {
  if (typeof text !== "string") {
    throw new TypeError(`Cannot read message id: expected text, got ${typeof text}`);
  }
  const hostSize = text.length / 2 - OFFSET_SIZE;
  if ((hostSize !== HOST_V4_SIZE && hostSize !== HOST_V6_SIZE) || !/^[0-9A-Fa-f]*$/.test(text)) {
    throw new RangeError(`Cannot read message id "${text}": expected 32 or 56 hex digits`);
  }
  const bytes = Buffer.from(text, "hex");
  const physicalOffset = readInt64(bytes, hostSize, `the offset of message id "${text}"`);
  if (physicalOffset < 0) {
    throw new RangeError(`Cannot read message id "${text}": its offset is ${physicalOffset}`);
  }
  return { storeHost: formatHost(bytes.subarray(0, hostSize)), physicalOffset };
}
