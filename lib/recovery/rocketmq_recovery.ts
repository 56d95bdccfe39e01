/**
 * What RocketMQ's own recovery would make of a store: `CommitLog.recoverNormally` and
 * `recoverAbnormally` of three releases. It looks only, and tells what would be lost.
 *
 * Its rules, and where they differ from ours:
 *
 * - The walk ends at the first place that is no record to it, wherever that is; files behind it are
 *   deleted, and bytes behind it in its file are written over by and by.
 * - It begins in a file whose first record passes a test (below). 5.4 and later look at ten files.
 * - A queue is not compared with the log: what it lacks before that file stays missing.
 *
 * | | after a clean stop | after a crash |
 * |---|---|---|
 * | 4.9 | the third file from the end | store time ≤ min(physic, logics) − 3 s |
 * | 5.3 | file start ≤ the queues' end | the same |
 * | 5.5 | offset of a whole record ≤ the queues' end | ... ≤ logicsPhysicalOffset, or without one store time ≤ logics |
 *
 * @module
 */

import type { CheckpointLongs } from "../checkpoint/store_checkpoint.ts";
import { BatchQueue } from "../consume_queue/batch_queue.ts";
import { queuesOf } from "../dispatch/dispatcher.ts";
import { type DispatchRequest, dispatchRequestOf } from "../message/dispatch_request.ts";
import {
  MAGIC_V1,
  MAGIC_V2,
  readMagic,
  readPhysicalOffset,
  readStoreTimestamp,
} from "../message/record_layout.ts";
import type { DelayLevels } from "../message/tags_code.ts";
import type { ResolvedOptions } from "../options.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import type { Segment } from "../segment/segment.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import type { BadPlace } from "./log_hole.ts";
import { RocketmqBatchQueue } from "./rocketmq_batch_queue.ts";
import { RocketmqQueue } from "./rocketmq_queue.ts";
import {
  checkAsRocketmq,
  type RocketmqCheck,
  type RocketmqCheckOptions,
  type RocketmqVersion,
} from "./rocketmq_record_check.ts";
import type { ScanStart } from "./scan_start.ts";
import type { StoreFiles } from "./store_files.ts";

/** Margin of the checkpoint's times, in ms (`StoreCheckpoint.getMinTimestamp`). */
const TIME_MARGIN_MS = 3000;
/** Files from the end that are looked at for a start (`commitLogRecoverMaxNum`). */
const FILES_LOOKED_AT = 10;
/** Files from the end that 4.9 walks over after a clean stop. */
const FILES_WALKED = 3;
/** What is read at once. */
const PIECE_BYTES = 512 * 1024;
/** A first record is looked at with so many bytes; more if it has more. */
const HEAD_BYTES = 4096;

/** What it would make of one queue. */
export interface RocketmqQueueOutcome {
  readonly topic: string;
  readonly queueId: number;
  /** Units that it finds. */
  readonly before: QueueOffset;
  /** One past the last unit afterwards. */
  readonly max: QueueOffset;
  /** End of the record that the last unit leads to, or -1. */
  readonly maxPhysicalOffset: PhysicalOffset;
  /** The queue was lost; it comes back from this message on. */
  readonly begunAt: QueueOffset | undefined;
  /** Units at another place than their messages claim: readers get them under wrong offsets. */
  readonly misplaced: number;
}

export interface RocketmqRecovery {
  readonly version: RocketmqVersion;
  /** Why it does not open the directory at all: the rest tells nothing then. */
  readonly refusal: string | undefined;
  readonly scanStart: ScanStart;
  /** There were more files to look at for a start than it does. */
  readonly isLimited: boolean;
  readonly scannedRecords: number;
  /** Where it lets the log end. */
  readonly end: PhysicalOffset;
  /** What it took for the end, if a file goes on there. */
  readonly stop: BadPlace | undefined;
  /** Files behind the end, and an empty last one, which it deletes. */
  readonly deletedFiles: readonly string[];
  readonly queues: readonly RocketmqQueueOutcome[];
}

export interface RocketmqContext {
  readonly files: OpenFiles;
  readonly options: ResolvedOptions;
  readonly delayLevels: DelayLevels;
}

/** Tells what `version` would do. Reads only. */
export async function simulateRocketmq(
  store: StoreFiles,
  context: RocketmqContext,
  version: RocketmqVersion,
): Promise<RocketmqRecovery> {
  return new Simulation(store, context, version).run();
}

class Simulation {
  readonly #store: StoreFiles;
  readonly #context: RocketmqContext;
  readonly #version: RocketmqVersion;
  readonly #check: RocketmqCheckOptions;
  readonly #queues = new Map<string, RocketmqQueue | RocketmqBatchQueue>();
  /** Last files that hold nothing at all: 5.x deletes them. */
  readonly #emptyFiles = new Set<string>();
  #refusal: string | undefined;

  constructor(store: StoreFiles, context: RocketmqContext, version: RocketmqVersion) {
    this.#store = store;
    this.#context = context;
    this.#version = version;
    this.#check = {
      version,
      checkCrc: context.options.checkCRCOnRecover,
      forceVerifyPropCRC: context.options.forceVerifyPropCRC,
    };
  }

  async run(): Promise<RocketmqRecovery> {
    const { queues, cleanStop } = this.#store;
    await this.#lookAtSizes();
    for (const queue of queues) await this.#queueOf(queue.topic, queue.queueId).load();
    const found = this.#maxPhysicalOffset;
    const { files, index, start, isLimited } = await this.#chooseStart(found);
    // After a clean stop only what lies behind the queues is dispatched; 4.9 does that later.
    const dispatches = (request: DispatchRequest): boolean =>
      !cleanStop || (this.#version !== "4.9" && request.physicalOffset > found);
    const walk = await this.#walk(files, index, 0, (request) => {
      if (dispatches(request)) this.#dispatch(request);
    });
    const { end, records, stop } = walk;
    const queuesEnd = this.#version === "5.5" ? this.#maxPhysicalOffset : found;
    if (files.length === 0) this.#queues.clear();
    else if (queuesEnd >= end) for (const queue of this.#queues.values()) await queue.truncate(end);
    if (this.#version === "4.9") await this.#catchUp(files, end);
    return {
      version: this.#version,
      refusal: this.#refusal,
      scanStart: start,
      isLimited,
      scannedRecords: records,
      end,
      stop,
      deletedFiles: this.#store.segments.segments
        .filter(({ start, path }) => start > end || this.#emptyFiles.has(path))
        .map(({ path }) => path),
      queues: [...this.#queues.values()]
        .filter(({ before, max }) => before > 0 || max > 0)
        .map(({ topic, queueId, before, max, maxPhysicalOffset, begunAt, misplaced }) => ({
          topic,
          queueId,
          before,
          max,
          maxPhysicalOffset,
          begunAt,
          misplaced,
        })),
    };
  }

  /** A file that is too short makes it refuse the store; an empty one at the end is deleted by 5.x. */
  async #lookAtSizes(): Promise<void> {
    for (const { path, size: due } of this.#store.shortFiles) {
      const { size } = await this.#context.files.use(path, (file) => file.stat());
      if (size === 0 && this.#version !== "4.9") this.#emptyFiles.add(path);
      else this.#refusal = `${path} has ${size} bytes, ${due} are due`;
    }
  }

  get #maxPhysicalOffset(): PhysicalOffset {
    let most = -1;
    for (const { maxPhysicalOffset } of this.#queues.values()) {
      most = Math.max(most, maxPhysicalOffset);
    }
    return most;
  }

  async #chooseStart(queuesEnd: PhysicalOffset): Promise<{
    files: readonly Segment[];
    index: number;
    start: ScanStart;
    isLimited: boolean;
  }> {
    const { segments, cleanStop, checkpoint } = this.#store;
    const files = segments.segments.filter(({ path }) => !this.#emptyFiles.has(path));
    if (cleanStop && this.#version === "4.9") {
      const index = Math.max(files.length - FILES_WALKED, 0);
      const offset = files[index]?.start ?? 0;
      const why = `clean stop: the last ${FILES_WALKED} files`;
      return { files, index, start: { offset, why }, isLimited: false };
    }
    const { longs } = checkpoint;
    const rule = cleanStop ? `the queues' end (${queuesEnd})` : this.#ruleText(longs);
    const what = cleanStop ? "clean stop" : "crash";
    const limit = this.#version === "5.5" ? FILES_LOOKED_AT : Number.POSITIVE_INFINITY;
    let index = files.length - 1;
    for (let looked = 1; index >= 0; index--, looked++) {
      const file = files[index] as Segment;
      const passes = await this.#passes(file, queuesEnd, longs);
      if (!passes && looked < limit) continue;
      const why = passes
        ? `${what}: the last file that ${rule} vouches for`
        : `${what}: ${rule} vouches for none of the last ${limit} files, and it looks at no more`;
      return { files, index, start: { offset: file.start, why }, isLimited: !passes && index > 0 };
    }
    const offset = files[0]?.start ?? 0;
    const why = `${what}: ${rule} vouches for no file: the whole log`;
    return { files, index: 0, start: { offset, why }, isLimited: false };
  }

  #ruleText({ logicsPhysicalOffset, ...longs }: CheckpointLongs): string {
    if (this.#version !== "5.5") return `the checkpoint's time (${minTimestamp(longs)})`;
    return logicsPhysicalOffset > 0
      ? `logicsPhysicalOffset (${logicsPhysicalOffset})`
      : `logicsMsgTimestamp (${longs.logicsMsgTimestamp})`;
  }

  /** Whether the walk may begin with this file. */
  async #passes(
    file: Segment,
    queuesEnd: PhysicalOffset,
    longs: CheckpointLongs,
  ): Promise<boolean> {
    const { cleanStop } = this.#store;
    if (cleanStop && this.#version === "5.3") return file.start <= queuesEnd;
    const first = await this.#firstRecord(file);
    if (!first || first.storeTimestamp === 0) return false;
    if (this.#version !== "5.5") return first.storeTimestamp <= minTimestamp(longs);
    if (cleanStop) return first.offset <= queuesEnd;
    const { logicsPhysicalOffset, logicsMsgTimestamp } = longs;
    return logicsPhysicalOffset > 0
      ? first.offset <= logicsPhysicalOffset
      : first.storeTimestamp <= logicsMsgTimestamp;
  }

  /** What the first record of a file says of itself; 5.5 wants it to be whole. */
  async #firstRecord(
    file: Segment,
  ): Promise<{ offset: PhysicalOffset; storeTimestamp: number } | undefined> {
    const { segments } = this.#store;
    let bytes = (await segments.read(file.start, HEAD_BYTES)) ?? Buffer.alloc(0);
    if (this.#version === "5.5") {
      let check = checkAsRocketmq(bytes, 0, bytes.length, file.size, this.#check);
      if (check.kind === "short") {
        bytes = (await segments.read(file.start, check.needed)) ?? bytes;
        check = checkAsRocketmq(bytes, 0, bytes.length, file.size, this.#check);
      }
      if (check.kind !== "record") return undefined;
    }
    const magic = bytes.length < HEAD_BYTES / 8 ? 0 : readMagic(bytes, 0);
    if (magic !== MAGIC_V1 && (magic !== MAGIC_V2 || this.#version === "4.9")) return undefined;
    try {
      return { offset: readPhysicalOffset(bytes, 0), storeTimestamp: readStoreTimestamp(bytes, 0) };
    } catch {
      // Numbers that no store of ours or theirs has written.
      return undefined;
    }
  }

  /** Walks from a position of a file on to what is no record, over the borders of files. */
  async #walk(
    files: readonly Segment[],
    index: number,
    position: number,
    visit: (request: DispatchRequest) => void,
  ): Promise<{ end: PhysicalOffset; records: number; stop: BadPlace | undefined }> {
    const { segments } = this.#store;
    let records = 0;
    let bytes: Buffer = Buffer.alloc(0);
    let bytesAt = 0;
    let needed = 8;
    for (let file = files[index]; file; ) {
      const offset = file.start + position;
      let at = offset - bytesAt;
      const rest = file.size - position;
      if (at < 0 || at > bytes.length || (bytes.length - at < needed && bytes.length - at < rest)) {
        bytes = (await segments.read(offset, Math.max(PIECE_BYTES, needed))) ?? Buffer.alloc(0);
        bytesAt = offset;
        at = 0;
      }
      const check: RocketmqCheck = checkAsRocketmq(bytes, at, bytes.length, rest, this.#check);
      if (check.kind === "short" && bytes.length - at < Math.min(check.needed, rest)) {
        needed = check.needed;
        if (at > 0) continue;
      }
      needed = 8;
      if (check.kind === "record") {
        records++;
        const request = requestOf(bytes, at, this.#context.delayLevels);
        if (request) visit(request);
        position += check.size;
        continue;
      }
      if (check.kind === "blank") {
        const next = files[index + 1];
        if (!next) return { end: offset, records, stop: undefined };
        index++;
        file = next;
        position = 0;
        continue;
      }
      const reason = check.kind === "bad" ? check.reason : "the file ends";
      const stop = rest > 0 ? { offset, path: file.path, position, reason } : undefined;
      return { end: offset, records, stop };
    }
    return { end: 0, records: 0, stop: undefined };
  }

  /** 4.9 dispatches at its start what no queue has: behind the end that any of them knows. */
  async #catchUp(files: readonly Segment[], end: PhysicalOffset): Promise<void> {
    const from = Math.max(this.#store.segments.minOffset ?? 0, this.#maxPhysicalOffset, 0);
    const index = files.findIndex(({ start, size }) => start <= from && from < start + size);
    const file = files[index];
    if (!file || from >= end) return;
    await this.#walk(files, index, from - file.start, (request) => {
      if (request.physicalOffset < end) this.#dispatch(request);
    });
  }

  #dispatch(request: DispatchRequest): void {
    const { enableMultiDispatch } = this.#context.options;
    for (const [topic, queueId, offset] of queuesOf(request, enableMultiDispatch)) {
      this.#queueOf(topic, queueId).append(offset, request);
    }
  }

  #queueOf(topic: string, queueId: number): RocketmqQueue | RocketmqBatchQueue {
    const key = `${topic}/${queueId}`;
    let queue = this.#queues.get(key);
    if (!queue) {
      const { files } = this.#context;
      const ours = this.#store.queues.findOrCreate(topic, queueId);
      queue =
        ours instanceof BatchQueue
          ? new RocketmqBatchQueue(ours, files)
          : new RocketmqQueue(ours, files);
      this.#queues.set(key, queue);
    }
    return queue;
  }
}

/** `StoreCheckpoint.getMinTimestamp`. */
function minTimestamp({
  physicMsgTimestamp,
  logicsMsgTimestamp,
}: Pick<CheckpointLongs, "physicMsgTimestamp" | "logicsMsgTimestamp">): number {
  return Math.max(Math.min(physicMsgTimestamp, logicsMsgTimestamp) - TIME_MARGIN_MS, 0);
}

/** What a record would be dispatched as; numbers beyond 2^53 are no place in any queue of ours. */
function requestOf(
  bytes: Buffer,
  at: number,
  delayLevels: DelayLevels,
): DispatchRequest | undefined {
  try {
    return dispatchRequestOf(bytes, at, delayLevels);
  } catch {
    return undefined;
  }
}
