/**
 * A batch queue as RocketMQ's recovery leaves it: `BatchConsumeQueue.recover`,
 * `putBatchMessagePositionInfo` and `truncateDirtyLogicFiles`. Nothing is written.
 *
 * @module
 */

import type { BatchQueue } from "../consume_queue/batch_queue.ts";
import {
  BATCH_UNIT_BYTES,
  batchBase,
  batchMessages,
  isBatchUnit,
} from "../consume_queue/batch_unit.ts";
import { messagesIn } from "../consume_queue/message_queue.ts";
import { unitOffset } from "../consume_queue/queue_unit.ts";
import type { DispatchRequest } from "../message/dispatch_request.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";

/** Its recovery begins in the third file from the end. */
const FILES_RECOVERED = 3;

interface Unit {
  readonly offset: PhysicalOffset;
  readonly base: QueueOffset;
  readonly end: QueueOffset;
}

export class RocketmqBatchQueue {
  readonly topic: string;
  readonly queueId: number;
  /** As in `RocketmqQueue`. */
  before: QueueOffset = 0;
  max: QueueOffset = 0;
  misplaced = 0;
  begunAt: QueueOffset | undefined;
  readonly #queue: BatchQueue;
  readonly #files: OpenFiles;
  /** The units from the third last file on, and those that were appended. */
  #units: Unit[] = [];
  /** What is below has its unit: where the last unit's record starts. */
  #known: PhysicalOffset = -1;

  constructor(queue: BatchQueue, files: OpenFiles) {
    this.topic = queue.topic;
    this.queueId = queue.queueId;
    this.#queue = queue;
    this.#files = files;
  }

  /** Where the record of the last unit starts: RocketMQ takes it for its end. -1 without one. */
  get maxPhysicalOffset(): PhysicalOffset {
    return this.#known;
  }

  /** `recover()`: the end is the first invalid unit. */
  async load(): Promise<void> {
    const { segments } = this.#queue;
    files: for (const { path, size } of segments.slice(-FILES_RECOVERED)) {
      const bytes = Buffer.allocUnsafeSlow(size);
      const got = await this.#files.read(path, bytes, 0);
      for (let at = 0; at + BATCH_UNIT_BYTES <= got; at += BATCH_UNIT_BYTES) {
        if (!isBatchUnit(bytes, at)) break files;
        const base = batchBase(bytes, at);
        const end = base + batchMessages(bytes, at);
        this.#units.push({ offset: unitOffset(bytes, at), base, end });
      }
    }
    this.#settle();
    this.before = this.max;
  }

  /** `putBatchMessagePositionInfo()`: whatever lies behind the last one is appended. */
  append(queueOffset: QueueOffset, request: DispatchRequest): void {
    const { physicalOffset: offset } = request;
    if (offset <= this.#known) return;
    if (this.#units.length === 0) this.begunAt = queueOffset;
    else if (queueOffset !== this.max) this.misplaced++;
    const end = queueOffset + messagesIn(this.#queue, request);
    this.#units.push({ offset, base: queueOffset, end });
    this.#settle();
  }

  /** `truncateDirtyLogicFiles()`. */
  async truncate(end: PhysicalOffset): Promise<void> {
    this.#units = this.#units.filter(({ offset }) => offset < end);
    this.#settle();
  }

  #settle(): void {
    const last = this.#units.at(-1);
    this.max = last?.end ?? 0;
    this.#known = last?.offset ?? -1;
  }
}
