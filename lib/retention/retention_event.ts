/**
 * What retention tells of its deeds.
 *
 * @module
 */

import type { PhysicalOffset, QueueOffset } from "../units.ts";

/**
 * Why a log file was deleted: it is older than `fileReservedTime`, the disk is too full, or the log
 * is larger than `commitLogMaxBytes`.
 */
export type DeletionReason = "age" | "disk" | "size";

export type RetentionEvent =
  /** A file of the log was deleted. */
  | {
      readonly kind: "logFile";
      readonly path: string;
      /** Of its first byte in the log. */
      readonly offset: PhysicalOffset;
      readonly size: number;
      readonly reason: DeletionReason;
      /** A consumer had not read all of it: see `StoreEnvironment.neededFrom`. */
      readonly needed: boolean;
    }
  /** Messages of a queue went with it: `from` to before `to`. */
  | {
      readonly kind: "queue";
      readonly topic: string;
      readonly queueId: number;
      readonly from: QueueOffset;
      readonly to: QueueOffset;
    }
  /** A file of a queue was deleted: all its messages had gone before. */
  | {
      readonly kind: "queueFile";
      readonly topic: string;
      readonly queueId: number;
      readonly path: string;
    };
