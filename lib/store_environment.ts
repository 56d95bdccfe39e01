/**
 * What surrounds a store: the machine, and who listens.
 *
 * @module
 */

import { setImmediate } from "node:timers";
import type { Arrival } from "./dispatch/arrivals.ts";
import { type Clock, systemClock } from "./io/clock.ts";
import type { FileSystem } from "./io/file_system.ts";
import { NodeFileSystem } from "./io/node_file_system.ts";
import { OverlayFileSystem } from "./io/overlay_file_system.ts";
import { type StorePaths, storePaths } from "./io/store_paths.ts";
import { DelayLevels } from "./message/tags_code.ts";
import type { ResolvedOptions } from "./options.ts";
import type { RetentionEvent } from "./retention/retention_event.ts";
import { OpenFiles } from "./segment/open_files.ts";
import type { PhysicalOffset } from "./units.ts";

/** What surrounds a store; everything has a default. */
export interface StoreEnvironment {
  /** @default the machine's file system */
  readonly fileSystem?: FileSystem;
  /** @default the machine's clock */
  readonly clock?: Clock;
  /**
   * Opens a store for looking at it: as it would be after its recovery, without changing a byte,
   * with the file sizes that are found, and without a lock, so beside a live broker too. Puts are
   * refused. @default false
   */
  readonly readOnly?: boolean;
  /** Told of what deserves attention but is no error of a call. @default `process.emitWarning` */
  readonly onWarning?: (warning: string) => void;
  /** Told of each message as it becomes readable, in order. RocketMQ: `MessageArrivingListener`. */
  readonly onArrival?: (arrival: Arrival) => void;
  /** Told of each file that was deleted and why, and of each queue that lost messages with it. */
  readonly onRetention?: (event: RetentionEvent) => void;
  /**
   * Where in the log what the slowest consumer still needs begins; `undefined` if nobody needs
   * anything. Files that hold some of it are kept, up to the option `consumerHoldMaxRatio`.
   * @default what `store.offsets` say: the first message that a group has still to see which has committed
   * for its topic in the last `consumerActiveHours`
   */
  readonly neededFrom?: () => PhysicalOffset | undefined | Promise<PhysicalOffset | undefined>;
}

type Optional = "onArrival" | "onRetention" | "neededFrom";

/** With the defaults filled in; there is none for who is asked or told. */
export type ResolvedEnvironment = Required<Omit<StoreEnvironment, Optional>> & {
  readonly [name in Optional]: StoreEnvironment[name] | undefined;
};

/** Everything that opening a store needs. */
export interface OpenContext {
  readonly environment: ResolvedEnvironment;
  readonly options: ResolvedOptions;
  readonly paths: StorePaths;
  readonly files: OpenFiles;
  readonly delayLevels: DelayLevels;
}

export function openContext(
  root: string,
  options: ResolvedOptions,
  given: StoreEnvironment,
): OpenContext {
  const readOnly = given.readOnly ?? false;
  const base = given.fileSystem ?? new NodeFileSystem();
  const environment: ResolvedEnvironment = {
    fileSystem: readOnly ? new OverlayFileSystem(base) : base,
    clock: given.clock ?? systemClock,
    readOnly,
    onWarning: guarded(given.onWarning ?? emitWarning),
    onArrival: given.onArrival && guarded(given.onArrival),
    onRetention: given.onRetention && guarded(given.onRetention),
    neededFrom: given.neededFrom,
  };
  return {
    environment,
    options,
    paths: storePaths(root, options.storePathCommitLog),
    files: new OpenFiles(environment.fileSystem),
    delayLevels: DelayLevels.parse(options.messageDelayLevel),
  };
}

function emitWarning(warning: string): void {
  process.emitWarning(warning, "ForcelogWarning");
}

/** A listener's error must not reach the write path: it is thrown where nothing depends on it. */
function guarded<T>(listener: (value: T) => void): (value: T) => void {
  return (value) => {
    try {
      listener(value);
    } catch (error) {
      setImmediate(() => {
        throw error;
      });
    }
  };
}
