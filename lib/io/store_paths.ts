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
  readonly checkpoint: string;
  readonly abort: string;
  readonly lock: string;
  /**
   * Ours; RocketMQ ignores it. Half-made files (`*.tmp`), evidence of what recovery cut
   * (`cut-*`), and who holds the lock (`holder.json`).
   */
  readonly own: string;
  /** The same beside a commit log that lies elsewhere: files are renamed within one file system. */
  readonly logOwn: string;
  readonly holder: string;
}

export function storePaths(root: string, storePathCommitLog: string | undefined): StorePaths {
  const own = join(root, "forcelog");
  return {
    root,
    commitLog: storePathCommitLog ?? join(root, "commitlog"),
    consumeQueue: join(root, "consumequeue"),
    checkpoint: join(root, "checkpoint"),
    abort: join(root, "abort"),
    lock: join(root, "lock"),
    own,
    logOwn: storePathCommitLog === undefined ? own : join(dirname(storePathCommitLog), "forcelog"),
    holder: join(own, "holder.json"),
  };
}
