/**
 * What happens in a store, for who subscribes to it: channels of `node:diagnostics_channel`. While nobody
 * does, nothing is made for them. Subscribers are called at once and must not throw or wait.
 *
 * ```ts
 * import { subscribe } from "node:diagnostics_channel";
 *
 * subscribe("forcelog:force", (event) => console.log((event as ForceEvent).tookMs));
 * ```
 *
 * @module
 */

import { channel } from "node:diagnostics_channel";
import type { StoreError } from "../errors.ts";
import type { PutResult } from "../message/put_result.ts";
import type { PhysicalOffset } from "../units.ts";

/** Every event says of which store it is. */
interface StoreEvent {
  /** The store's directory. */
  readonly directory: string;
}

/** `forcelog:put`: a put resolves. */
export interface PutEvent extends StoreEvent {
  readonly result: PutResult;
  /** Whole ms from its append to now. */
  readonly elapsedMs: number;
}

/** `forcelog:get`: a get resolves. */
export interface GetEvent extends StoreEvent {
  readonly topic: string;
  readonly queueId: number;
  readonly group: string | undefined;
  readonly status: string;
  readonly messageCount: number;
  /** Of the records. */
  readonly bytes: number;
  readonly tookMs: number;
}

/** `forcelog:force`: a sync of the log has ended well. */
export interface ForceEvent extends StoreEvent {
  readonly tookMs: number;
  /** Everything below survives a power cut now. */
  readonly flushed: PhysicalOffset;
}

/** `forcelog:roll`: the log goes on in another file. */
export interface RollEvent extends StoreEvent {
  /** Where that file starts. */
  readonly offset: PhysicalOffset;
}

/** `forcelog:recovery`: a store was opened for writing. */
export interface RecoveryEvent extends StoreEvent {
  /** The store's `recovery`. */
  readonly recovery: object;
}

/** `forcelog:failure`: a write or sync failed; the store takes no more puts. */
export interface FailureEvent extends StoreEvent {
  readonly error: StoreError;
}

export const CHANNELS = {
  put: channel("forcelog:put"),
  get: channel("forcelog:get"),
  force: channel("forcelog:force"),
  roll: channel("forcelog:roll"),
  recovery: channel("forcelog:recovery"),
  failure: channel("forcelog:failure"),
} as const;
