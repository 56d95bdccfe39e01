/**
 * A commit log without a store around it.
 *
 * @module
 */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Test } from "tap";
import type { Blocked } from "../../lib/commit_log/append_gate.ts";
import { type Appended, CommitLog, type QueueCursor } from "../../lib/commit_log/commit_log.ts";
import type { PutError } from "../../lib/errors.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import type { DispatchRequest } from "../../lib/message/dispatch_request.ts";
import { parseHost } from "../../lib/message/host.ts";
import type { Message } from "../../lib/message/message.ts";
import {
  type OutgoingRecord,
  prepareRecord,
  type RecordDefaults,
} from "../../lib/message/outgoing_record.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import { type ResolvedOptions, resolveOptions, type StoreOptions } from "../../lib/options.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { segmentName } from "../../lib/segment/segment.ts";
import { SegmentQueue } from "../../lib/segment/segment_queue.ts";
import { FakeClock, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { testFolder } from "./test_folder.ts";

/** TOTALSIZE of a record of topic `T` without body and properties. */
export const BARE = 92;

export const DEFAULTS: RecordDefaults = {
  bornHost: parseHost("127.0.0.1:0"),
  storeHost: parseHost("127.0.0.1:10911"),
  now: 1_700_000_000_000,
  appendPropertyCrc: false,
  autoVersion: true,
};

/** A record of so many bytes. */
export function recordOf(size: number, more: Partial<Message> = {}): OutgoingRecord {
  const bare = prepareRecord({ topic: "T", body: Buffer.alloc(0), ...more }, DEFAULTS);
  const body = Buffer.alloc(size - bare.size, "b");
  return prepareRecord({ topic: "T", body, ...more }, DEFAULTS);
}

export class LogRig {
  readonly clock = new FakeClock();
  readonly fs = new InterceptedFileSystem(new NodeFileSystem());
  readonly files = new OpenFiles(this.fs);
  readonly directory: string;
  readonly staging: string;
  readonly log: CommitLog;
  readonly options: ResolvedOptions;
  readonly requests: DispatchRequest[] = [];
  readonly queue: QueueCursor = { nextOffset: 0 };
  mayRoll: (start: number) => boolean = () => true;

  constructor(t: Test, options: StoreOptions = {}, end = 0, lastStoreTimestamp = 0) {
    const root = mkdtempSync(join(testFolder(t), "store-"));
    this.directory = join(root, "commitlog");
    this.staging = join(root, "forcelog");
    mkdirSync(this.directory);
    mkdirSync(this.staging);
    this.options = resolveOptions({ mappedFileSizeCommitLog: 1024, ...options });
    const fileSize = this.options.mappedFileSizeCommitLog;
    this.log = new CommitLog(
      {
        fileSystem: this.fs,
        files: this.files,
        clock: this.clock,
        options: this.options,
        delayLevels: DelayLevels.parse(this.options.messageDelayLevel),
        segments: new SegmentQueue(this.directory, fileSize, this.files),
        staging: this.staging,
        noteFailedSync: async () => undefined,
        listener: {
          committed: () => undefined,
          flushed: () => undefined,
          failed: () => undefined,
          noSpace: () => undefined,
          slowForce: () => undefined,
        },
        appended: (request) => this.requests.push(request),
        mayRoll: (start) => this.mayRoll(start),
      },
      end,
      lastStoreTimestamp,
    );
    t.teardown(async () => {
      this.fs.clear();
      await this.log.close().catch(() => undefined);
      await this.files.closeAll();
    });
  }

  /** As a store does: at once, or in order behind those that wait. */
  put(records: OutgoingRecord | readonly OutgoingRecord[], queue = this.queue): Promise<Appended> {
    const all = Array.isArray(records)
      ? (records as OutgoingRecord[])
      : [records as OutgoingRecord];
    const size = all.reduce((sum, record) => sum + record.size, 0);
    const attempt = (): Appended | Blocked => {
      const appended = this.log.append(all, size, queue, this.clock.now());
      if (appended === "buffer") this.log.makeRoom();
      return appended;
    };
    const { gate } = this.log;
    if (!gate.closed) {
      const appended = attempt();
      if (typeof appended !== "string") return Promise.resolve(appended);
    }
    return new Promise((resolve, reject) => {
      gate.wait(
        "buffer",
        () => {
          const appended = attempt();
          if (typeof appended === "string") return appended;
          resolve(appended);
          return undefined;
        },
        reject as (error: PutError) => void,
      );
      if (gate.length === 1) gate.drain();
    });
  }

  /** Starts of the files that are there. */
  get starts(): number[] {
    return readdirSync(this.directory)
      .sort()
      .map((name) => Number(name));
  }

  file(start: number): Buffer {
    return readFileSync(join(this.directory, segmentName(start)));
  }
}
