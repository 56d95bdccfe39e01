/**
 * Every path of a store, in one place. RocketMQ: `StorePathConfigHelper`.
 *
 * @module
 */

import { dirname, join } from "node:path";

export interface StorePaths {
  readonly root: string;
  readonly commitLog: string;
  readonly consumeQueue: string;
  /** Queues of topics with `queue.type=BatchCQ`. */
  readonly batchQueue: string;
  /** Extensions of consume queues. */
  readonly queueExtension: string;
  readonly index: string;
  readonly checkpoint: string;
  readonly abort: string;
  readonly lock: string;
  /** Topics, groups and offsets, as JSON. */
  readonly config: string;
  /**
   * Ours; RocketMQ ignores it. Half-made files (`*.tmp`), evidence of what recovery cut
   * (`cut-*`, `hole-*`) and of damaged files of `config` (`config-*`), who holds the lock (`holder.json`), which
   * topics were deleted (`deleted-topics`), and that a sync failed (`sync-failed`).
   */
  readonly own: string;
  /** The same beside a commit log that lies elsewhere: files are renamed within one file system. */
  readonly logOwn: string;
  readonly holder: string;
  /** Topics that were deleted and have messages in the log. */
  readonly deletedTopics: string;
  /** There since a sync of the log failed: what was read back may be on no device. */
  readonly syncFailed: string;
}

export function storePaths(root: string, storePathCommitLog: string | undefined): StorePaths {
  const own = join(root, "forcelog");
  return {
    root,
    commitLog: storePathCommitLog ?? join(root, "commitlog"),
    consumeQueue: join(root, "consumequeue"),
    batchQueue: join(root, "batchconsumequeue"),
    queueExtension: join(root, "consumequeue_ext"),
    index: join(root, "index"),
    checkpoint: join(root, "checkpoint"),
    abort: join(root, "abort"),
    lock: join(root, "lock"),
    config: join(root, "config"),
    own,
    logOwn: storePathCommitLog === undefined ? own : join(dirname(storePathCommitLog), "forcelog"),
    holder: join(own, "holder.json"),
    deletedTopics: join(own, "deleted-topics"),
    syncFailed: join(own, "sync-failed"),
  };
}
