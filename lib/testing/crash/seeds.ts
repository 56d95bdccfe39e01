/**
 * Chance for one thing alone: what is drawn for a cut must not depend on what was drawn before it,
 * or a single case could not be had again.
 *
 * @module
 */

import { crc32 } from "node:zlib";
import { type Random, randomOf } from "../random.ts";

/** Chance that follows from these parts, and from nothing else. */
export function randomFor(...parts: readonly (string | number)[]): Random {
  return randomOf(crc32(parts.join("\n")));
}

/** One of the values. */
export function oneOf<T>(random: Random, values: readonly T[]): T {
  return values[random(values.length)] as T;
}
