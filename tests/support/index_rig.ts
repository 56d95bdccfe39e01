/**
 * An index in a folder, without a store around it.
 *
 * @module
 */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Test } from "tap";
import { type CheckpointLongs, NO_CHECKPOINT } from "../../lib/checkpoint/store_checkpoint.ts";
import type { IndexFileContext } from "../../lib/index/index_file.ts";
import type { IndexShape } from "../../lib/index/index_format.ts";
import {
  type IndexLoaderContext,
  type LoadedIndex,
  loadIndex,
} from "../../lib/index/index_loader.ts";
import { type IndexSearch, KeyIndex } from "../../lib/index/key_index.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import type { DispatchRequest } from "../../lib/message/dispatch_request.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { plainRequest } from "./requests.ts";
import { testFolder } from "./test_folder.ts";

/** Store time of a record at offset 0. */
export const T0 = 1_700_000_000_000;

/** A record as dispatch sees it; stored a second later for each 100 bytes that it lies behind. */
export function requestAt(offset: number, more: Partial<DispatchRequest> = {}): DispatchRequest {
  return plainRequest({
    physicalOffset: offset,
    storeTimestamp: T0 + offset * 10,
    queueOffset: offset / 100,
    ...more,
  });
}

export class IndexRig {
  readonly fs = new InterceptedFileSystem(new NodeFileSystem());
  readonly files = new OpenFiles(this.fs);
  readonly directory: string;
  readonly context: IndexFileContext;
  readonly warnings: string[] = [];
  index: KeyIndex;

  constructor(t: Test, shape: IndexShape = { slots: 10, entries: 8 }) {
    const root = existsSync(t.testdirName) ? t.testdirName : testFolder(t);
    const dir = mkdtempSync(join(root, "index-"));
    mkdirSync(join(dir, "forcelog"));
    this.directory = join(dir, "index");
    this.context = {
      fileSystem: this.fs,
      files: this.files,
      directory: this.directory,
      staging: join(dir, "forcelog"),
      shape,
    };
    this.index = new KeyIndex(this.context);
    t.teardown(() => this.files.closeAll());
  }

  /** Names of the files on disk. */
  get names(): string[] {
    return existsSync(this.directory) ? readdirSync(this.directory).sort() : [];
  }

  path(name: string | undefined): string {
    return join(this.directory, name ?? "");
  }

  bytes(name: string | undefined): Buffer {
    return readFileSync(this.path(name));
  }

  /** Puts `count` messages with keys `k<i>` and `all`. */
  fill(count: number, from = 0): void {
    for (let i = from; i < from + count; i++) {
      this.index.add(requestAt(i * 100, { keys: `k${i} all` }));
    }
  }

  /** A new index on the same folder. */
  async load(more: Partial<IndexLoaderContext> = {}): Promise<LoadedIndex> {
    this.index = new KeyIndex(this.context);
    return this.index.open(() =>
      loadIndex({
        ...this.context,
        cleanStop: true,
        longs: NO_CHECKPOINT.longs,
        mark: undefined,
        logEnd: 2 ** 40,
        anew: false,
        warn: (text) => this.warnings.push(text),
        ...more,
      }),
    );
  }

  async found(key: string, more: Partial<IndexSearch> = {}): Promise<number[]> {
    const offsets: number[] = [];
    const search = {
      topic: "T",
      key,
      begin: 0,
      end: Number.MAX_SAFE_INTEGER,
      before: Number.POSITIVE_INFINITY,
      at: undefined,
      ...more,
    };
    for await (const { offset } of this.index.search(search)) offsets.push(offset);
    return offsets;
  }
}

export function longsWith(indexMsgTimestamp: number): CheckpointLongs {
  return { ...NO_CHECKPOINT.longs, indexMsgTimestamp };
}
