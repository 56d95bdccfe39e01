/**
 * What of the unsynced survives a power cut.
 *
 * @module
 */

import type { Random } from "./random.ts";

/** Of each kind, what becomes of that which no call has made durable. */
export interface Survival {
  /**
   * Unsynced sectors of 512 bytes, and sizes of files: none of them, all, or each on its own as
   * chance has it, in any of the versions that it had since the last sync.
   */
  readonly data: "none" | "all" | "random";
  /**
   * Unsynced operations on directories: none, all, all up to some moment (as a journal does), or
   * each on its own. The last is what POSIX allows and the harshest.
   */
  readonly names: "none" | "all" | "prefix" | "subset";
}

const DATA = ["none", "all", "random", "random", "random", "random", "random", "random"] as const;
const NAMES = ["none", "all", "prefix", "prefix", "subset", "subset", "subset", "subset"] as const;

/** One of the possible, the harsh ones more often. */
export function survivalOf(random: Random): Survival {
  return { data: DATA[random(DATA.length)]!, names: NAMES[random(NAMES.length)]! };
}

/** Picks for each of many what survives: of `count` changes the first so many, 0 to `count`. */
export type Lot = (count: number) => number;

/**
 * A way to draw lots that differs from cut to cut: mostly even, sometimes nearly all or nearly
 * nothing survives, so that also the single sector is seen that is lost among many, or kept.
 */
export function lotOf(random: Random): Lot {
  const kind = random(4);
  if (kind === 0) return (count) => (random(8) === 0 ? random(count + 1) : count);
  if (kind === 1) return (count) => (random(8) === 0 ? random(count + 1) : 0);
  return (count) => random(count + 1);
}
