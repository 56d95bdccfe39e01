/**
 * The checksum of RocketMQ: CRC-32 without its top bit (`UtilAll.crc32`).
 *
 * @module
 */

import { loadNativeBinding, standIns } from "../io/native_binding.ts";

/** The bit that RocketMQ masks away, so that the value is never negative as an int32. */
export const CRC_MASK = 0x7fffffff;

let crc32 = (bytes: Uint8Array, start: number, end: number, seed: number): number => {
  crc32 = (loadNativeBinding() ?? standIns).crc32;
  return crc32(bytes, start, end, seed);
};

/**
 * The CRC-32 (as in zlib) of `bytes`, AND `0x7fffffff`.
 *
 * @param bytes What to sum up, from `start` to `end`; without these all of it.
 * @param seed The full 32-bit CRC of what came before, not a masked one. Default: nothing did.
 * @returns 0 to 2^31 - 1; 0 for no bytes.
 */
export function maskedCrc32(bytes: Uint8Array, start = 0, end = bytes.length, seed = 0): number {
  return crc32(bytes, start, end, seed) & CRC_MASK;
}
