/**
 * The three ways to put, as options of a store.
 *
 * @module
 */

import type { StoreOptions } from "../../lib/mod.ts";

export const MODE_OPTIONS = {
  SYNC_FLUSH: { flushDiskType: "SYNC_FLUSH" },
  ASYNC_FLUSH: { flushDiskType: "ASYNC_FLUSH" },
  pool: { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
} as const satisfies Record<string, StoreOptions>;

export type Mode = keyof typeof MODE_OPTIONS;
export const MODES = Object.keys(MODE_OPTIONS) as Mode[];
