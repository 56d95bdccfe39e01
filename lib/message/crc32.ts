/**
 * The checksum of RocketMQ: CRC-32 without its top bit (`UtilAll.crc32`).
 *
 * @module
 */

import { crc32 } from "node:zlib";

/** The bit that RocketMQ masks away, so that the value is never negative as an int32. */
export const CRC_MASK = 0x7fffffff;

/**
 * The CRC-32 (as in zlib) of `bytes`, AND `0x7fffffff`.
 *
 * @param bytes What to sum up.
 * @param seed The full 32-bit CRC of what came before, not a masked one. Default: nothing did.
 * @returns 0 to 2^31 - 1; 0 for no bytes.
 */
export function maskedCrc32(bytes: Uint8Array, seed = 0): number {
  return crc32(bytes, seed) & CRC_MASK;
}
