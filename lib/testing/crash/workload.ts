/**
 * What a store is put through while the explorer cuts the power at every call of it.
 *
 * @module
 */

import type { MessageStore } from "../../message_store.ts";
import type { TopicSettings } from "../../metadata/topic_table.ts";
import type { StoreOptions } from "../../options.ts";
import type { Random } from "../random.ts";
import type { MessageSpec } from "./planned_message.ts";

/** A store's mode by its name, as `--mode` has it. */
export const MODES = {
  SYNC_FLUSH: { flushDiskType: "SYNC_FLUSH" },
  ASYNC_FLUSH: { flushDiskType: "ASYNC_FLUSH" },
  pool: { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
  "SYNC_FLUSH+pool": { flushDiskType: "SYNC_FLUSH", transientStorePoolEnable: true },
} as const satisfies Readonly<Record<string, StoreOptions>>;

export type ModeName = keyof typeof MODES;

/** How something that a workload asked of the store has ended; `"died"` with the process. */
export type Outcome = "done" | "refused" | "hung" | "died";

/**
 * The store as a workload has it. Nothing here rejects: what goes wrong is noted, and the workload
 * goes on.
 */
export interface Stage {
  readonly random: Random;
  readonly options: StoreOptions;
  /** The open store; `undefined` if it could not be opened. What is asked of it directly is not noted. */
  readonly store: MessageStore | undefined;

  put(message: MessageSpec): Promise<Outcome>;
  /** Messages of one topic and queue. */
  putBatch(messages: readonly MessageSpec[]): Promise<Outcome>;
  /** Makes a topic. */
  topic(name: string, settings: TopicSettings): Promise<Outcome>;
  flush(): Promise<Outcome>;
  checkpoint(): Promise<Outcome>;
  /** Deletes what retention would delete now. */
  clean(): Promise<Outcome>;
  /** Deletes topics. */
  deleteTopics(topics: readonly string[]): Promise<Outcome>;
  /** Waits until what has been acknowledged so far survives a cut, without hurrying it. */
  durable(): Promise<Outcome>;
  /** Reads so many of the acknowledged messages, each through its queue and by its id. */
  readBack(count: number): Promise<void>;
  /** Lets time pass, in ms. */
  pass(ms: number): Promise<void>;
  /** Closes the store and opens it again. */
  reopen(): Promise<void>;
  /** Kills the process, and opens the store in another one. */
  kill(): Promise<void>;
  /** Cuts the power, and opens the store again. */
  cut(): Promise<void>;
}

/** Something to do with a store that is open, and is left open. */
export interface Workload {
  readonly name: string;
  /** In a word: what it is about. */
  readonly about: string;
  /** Beside those of the mode. */
  options(random: Random): StoreOptions;
  run(stage: Stage): Promise<void>;
  /** The power is cut at one call of so many, on average. @default 1 */
  readonly callsPerCut?: number;
  /**
   * Looks at a store that was opened after a crash, for what the workload alone knows of.
   *
   * @returns What is wrong.
   */
  check?(store: MessageStore): Promise<string[]>;
}
