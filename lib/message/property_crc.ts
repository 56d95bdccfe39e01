/**
 * The CRC of the whole record, kept as its last property (RocketMQ 5.2.0 and later,
 * `enabledAppendPropCRC`).
 *
 * The last 20 bytes of the record are `__CRC32#`, `01`, ten ASCII digits, `02`. The digits are the
 * masked CRC-32 of all bytes before these 20, in decimal, **the lowest digit first**, filled with
 * `0` to ten. They count in PROPERTIESLENGTH and TOTALSIZE. Example: 1890740277 is `7720470981`.
 *
 * @module
 */

import { PROPERTY_CRC32 } from "./property_names.ts";

/** 01 and 02, the separators, as bytes. */
const NAME_END = 1;
const PROPERTY_END = 2;

const NAME = Uint8Array.from(PROPERTY_CRC32, (c) => c.charCodeAt(0));
const DIGITS = 10;
const ZERO = 0x30;

/** Bytes of the property (`CommitLog.CRC32_RESERVED_LEN`). */
export const PROPERTY_CRC_SIZE = NAME.length + 1 + DIGITS + 1;

/** Writes the property at `at`. */
export function writePropertyCrc(target: Uint8Array, at: number, crc: number): void {
  target.set(NAME, at);
  let cursor = at + NAME.length;
  target[cursor++] = NAME_END;
  for (let rest = crc, i = 0; i < DIGITS; i++) {
    target[cursor++] = ZERO + (rest % 10);
    rest = Math.trunc(rest / 10);
  }
  target[cursor] = PROPERTY_END;
}

/**
 * The CRC that a record claims for itself.
 *
 * @param bytes Where the record lies.
 * @param propertiesStart Where its properties begin.
 * @param end One behind them.
 * @returns The claimed value, which may be beyond 2^31 - 1; `undefined` if the properties do not
 * end in the property. What is before it does not matter: RocketMQ leaves the separator out in a
 * batch, and a damaged separator must not hide the CRC that would show the damage.
 */
export function claimedCrc(
  bytes: Uint8Array,
  propertiesStart: number,
  end: number,
): number | undefined {
  const at = end - PROPERTY_CRC_SIZE;
  if (at < propertiesStart || bytes[end - 1] !== PROPERTY_END) return undefined;
  for (let i = 0; i < NAME.length; i++) if (bytes[at + i] !== NAME[i]) return undefined;
  const digitsAt = at + NAME.length + 1;
  if (bytes[digitsAt - 1] !== NAME_END) return undefined;
  let crc = 0;
  for (let i = DIGITS - 1; i >= 0; i--) {
    const digit = bytes[digitsAt + i]! - ZERO;
    if (digit < 0 || digit > 9) return undefined;
    crc = crc * 10 + digit;
  }
  return crc;
}

/**
 * Whether the text would be taken for a record's CRC if nothing followed it, as in
 * `x__CRC32# 01 0123456789 02`.
 */
export function endsLikeCrc(propertiesText: string): boolean {
  const at = propertiesText.length - PROPERTY_CRC_SIZE;
  if (at < 0 || !propertiesText.startsWith(PROPERTY_CRC32, at)) return false;
  const bytes = Buffer.from(propertiesText.slice(at), "latin1");
  return claimedCrc(bytes, 0, bytes.length) !== undefined;
}
