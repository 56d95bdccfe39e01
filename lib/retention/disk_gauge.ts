/**
 * How full the disks of a store are, and what follows from that. RocketMQ:
 * `CleanCommitLogService.isSpaceToDelete`.
 *
 *     per cent used   0 ........ max ....... forcibly ...... warning .... 100
 *     deleted         what expires, at its hours
 *                                 what has expired, at any hour
 *                                             the oldest, whatever its age
 *     puts            taken       taken       as before      refused
 *
 * Puts that are refused are taken again once no more than `forcibly` is used. The disk of the log and
 * that of the queues are looked at apart: one cannot clear what the other has set. A disk that can't
 * be asked counts as one with space.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import { usedPercent } from "../io/disk_space.ts";
import type { FileSystem } from "../io/file_system.ts";
import type { ResolvedOptions } from "../options.ts";

/** What may be deleted for the sake of space: nothing, what has expired, or the oldest. */
export type SpaceNeed = "none" | "expired" | "oldest";

export interface DiskGaugeContext {
  readonly fileSystem: FileSystem;
  readonly commitLog: string;
  readonly consumeQueue: string;
  readonly options: ResolvedOptions;
  /** Bytes that the store's files have, for a disk that it shares with others. */
  readonly storeBytes: () => number;
  readonly warn: (error: StoreError) => void;
}

/** One of the two disks. */
interface Disk {
  readonly path: string;
  /** Per cent used, rounded up; `undefined` if it could not be asked. */
  percent: number | undefined;
  totalBytes: number;
  full: boolean;
  warned: boolean;
}

export class DiskGauge {
  readonly #context: DiskGaugeContext;
  readonly #log: Disk;
  readonly #queues: Disk;

  constructor(context: DiskGaugeContext) {
    this.#context = context;
    const disk = (path: string): Disk => ({
      path,
      percent: undefined,
      totalBytes: 0,
      full: false,
      warned: false,
    });
    this.#log = disk(context.commitLog);
    this.#queues = disk(context.consumeQueue);
  }

  /** Used part of the log's disk, 0 to 1; `undefined` if unknown. */
  get logRatio(): number | undefined {
    return ratioOf(this.#log);
  }

  /** Used part of the queues' disk, 0 to 1; `undefined` if unknown. */
  get queuesRatio(): number | undefined {
    return ratioOf(this.#queues);
  }

  /** Per cent used of the fuller disk; 0 if unknown. */
  get percent(): number {
    return Math.max(this.#log.percent ?? 0, this.#queues.percent ?? 0);
  }

  /** Why puts are refused, if they are. */
  get refusal(): string | undefined {
    if (!this.#log.full && !this.#queues.full) return undefined;
    const { path, percent } = this.#log.full ? this.#log : this.#queues;
    return `the disk of ${path} is ${percent} per cent full`;
  }

  /** Asks both disks. @returns What may be deleted. */
  async probe(): Promise<SpaceNeed> {
    const { options } = this.#context;
    const warning = clamp(options.diskSpaceWarningLevelRatio, 35, 90);
    const forcibly = clamp(options.diskSpaceCleanForciblyRatio, 30, 85);
    const most = clamp(options.diskMaxUsedSpaceRatio, 10, 95);
    let need: SpaceNeed = "none";
    for (const disk of [this.#log, this.#queues]) {
      await this.#ask(disk);
      const { percent } = disk;
      if (percent === undefined) continue;
      if (percent > warning) disk.full = true;
      else if (percent <= forcibly) disk.full = false;
      if (percent > forcibly) need = "oldest";
      else if (percent > most && need === "none" && options.replicasPerDiskPartition === 1) {
        need = "expired";
      }
    }
    return need === "none" ? this.#needOfShare(most) : need;
  }

  /** A store that shares the disk has its part of it. */
  #needOfShare(most: number): SpaceNeed {
    const { options, storeBytes } = this.#context;
    const { totalBytes } = this.#log;
    if (options.replicasPerDiskPartition === 1 || totalBytes === 0) return "none";
    const used = storeBytes() / (totalBytes / options.replicasPerDiskPartition);
    if (used > options.logicalDiskSpaceCleanForciblyThreshold) return "oldest";
    return used > most / 100 ? "expired" : "none";
  }

  async #ask(disk: Disk): Promise<void> {
    const { path } = disk;
    try {
      const space = await this.#context.fileSystem.statfs(path);
      disk.percent = usedPercent(space);
      disk.totalBytes = space.totalBytes;
      disk.warned = false;
    } catch (cause) {
      disk.percent = undefined;
      if (disk.warned) return;
      disk.warned = true;
      this.#context.warn(
        new StoreError("STORE_IO", `Cannot tell how full the disk of ${path} is`, { path, cause }),
      );
    }
  }
}

function ratioOf({ percent }: Disk): number | undefined {
  return percent === undefined ? undefined : percent / 100;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
