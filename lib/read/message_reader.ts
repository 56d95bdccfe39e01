/**
 * Reads messages: by queue offset, as RocketMQ's `DefaultMessageStore.getMessage` answers, and by
 * physical offset.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import { batchBase, batchMessages } from "../consume_queue/batch_unit.ts";
import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import {
  isFiller,
  isMarkedLost,
  isUnit,
  unitOffset,
  unitSize,
} from "../consume_queue/queue_unit.ts";
import { StoreError } from "../errors.ts";
import type { Soon } from "../io/soon.ts";
import { isHoleRecord } from "../message/hole_record.ts";
import {
  PROPERTY_INNER_MULTI_DISPATCH,
  PROPERTY_INNER_MULTI_QUEUE_OFFSET,
  SCHEDULE_TOPIC,
} from "../message/property_names.ts";
import {
  checkRecord,
  decodeRecord,
  isTopic,
  type RecordCheck,
  type RecordCheckOptions,
  readQueueId,
  readQueueOffset,
  StoredMessage,
} from "../message/record.ts";
import { RecordPlaces } from "../message/record_places.ts";
import { topicOf } from "../message/topic.ts";
import type { ResolvedOptions } from "../options.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { RecordWindow, WINDOW_RECORDS } from "./record_window.ts";
import { TagFilter } from "./tag_filter.ts";

/** RocketMQ's `GetMessageStatus`, of those that a store gives. */
export type GetMessageStatus =
  | "FOUND"
  | "NO_MATCHED_MESSAGE"
  | "MESSAGE_WAS_REMOVING"
  | "OFFSET_FOUND_NULL"
  | "OFFSET_OVERFLOW_BADLY"
  | "OFFSET_OVERFLOW_ONE"
  | "OFFSET_TOO_SMALL"
  | "NO_MATCHED_LOGIC_QUEUE"
  | "NO_MESSAGE_IN_QUEUE";

export interface GetRequest {
  readonly topic: string;
  /** @default 0 */
  readonly queueId?: number;
  /** Queue offset of the first message wanted; one outside the queue gets a status that says so. */
  readonly offset: QueueOffset;
  /** At most so many messages; the store's transfer limits count too. @default 32 */
  readonly maxMessages?: number;
  /** At most so many bytes of records, 100 to 134217728; the first one passes whatever its size. */
  readonly maxTotalBytes?: number;
  /** Tags: `"TagA || TagB"`; all without one. */
  readonly filter?: string;
  /** The consumer group, for statistics. */
  readonly group?: string;
}

export interface GetResult {
  readonly status: GetMessageStatus;
  /** Where to go on reading: never the same again, unless there is nothing yet. */
  readonly nextBeginOffset: QueueOffset;
  readonly minOffset: QueueOffset;
  readonly maxOffset: QueueOffset;
  /**
   * In order. The store never changes their bytes; those of one answer may share memory, so that one
   * that is kept keeps up to twice the bytes of all.
   */
  readonly messages: readonly StoredMessage[];
  /** How many messages these are: an inner batch is many. */
  readonly messageCount: number;
  /** Bytes of the records. */
  readonly bytes: number;
  /** What was read is far behind the end of the log: a replica could serve it. */
  readonly suggestPullingFromSlave: boolean;
}

/** `DefaultMessageStore.MAX_PULL_MSG_SIZE`, in bytes. */
const TOTAL_BYTES_MAX = 128 * 1024 * 1024;
const TOTAL_BYTES_MIN = 100;
/** `PullMessageRequest`'s usual batch. */
const MESSAGES_DEFAULT = 32;
/** Most units read at once: 4 KiB. */
const UNITS_PER_READ_MAX = 200;
/** For bytes that have been in memory since they were encoded. */
const NO_CRC: RecordCheckOptions = { checkCrc: false };
/** Bytes read to learn the size of a single record. */
const LOOKUP_BYTES = 4096;

export interface ReaderContext {
  readonly log: CommitLog;
  readonly queues: ConsumeQueueTable;
  readonly options: ResolvedOptions;
  /** Nothing at or behind this offset is readable yet. */
  readonly visible: () => PhysicalOffset;
  /** Memory of the machine, in bytes. */
  readonly memoryBytes: number;
}

export class MessageReader {
  readonly #context: ReaderContext;
  readonly #check: RecordCheckOptions;

  constructor(context: ReaderContext) {
    this.#context = context;
    const { forceVerifyPropCRC } = context.options;
    // What is returned to a caller is verified, whatever recovery verifies.
    this.#check = { checkCrc: true, forceVerifyPropCRC };
  }

  /**
   * @throws {StoreError} `STORE_RECORD_DAMAGED` if the first message to return is damaged;
   *   `STORE_QUEUE_DAMAGED` if its unit leads to another message or to none; `STORE_IO`. Those before
   *   such a message are returned first.
   */
  get(request: GetRequest): Soon<GetResult> {
    const { topic, queueId = 0, offset } = request;
    const queue = this.#context.queues.find(topic, queueId);
    if (!queue) return answer("NO_MATCHED_LOGIC_QUEUE", 0, 0, 0);
    const { min, max } = queue;
    if (max === 0) return answer("NO_MESSAGE_IN_QUEUE", 0, min, 0);
    if (offset < min) return answer("OFFSET_TOO_SMALL", min, min, max);
    if (offset === max) return answer("OFFSET_OVERFLOW_ONE", offset, min, max);
    if (offset > max) return answer("OFFSET_OVERFLOW_BADLY", max, min, max);
    return new Scan(this.#context, queue, request, this.#check).run();
  }

  /**
   * The message whose record starts at `offset`.
   *
   * @returns `undefined` if the log has no bytes there, not yet or no longer.
   * @throws {StoreError} `STORE_RECORD_DAMAGED` if it has, and they are no record that starts there.
   */
  async lookup(offset: PhysicalOffset): Promise<StoredMessage | undefined> {
    const { log, visible } = this.#context;
    const limit = visible();
    const segment = log.segments.find(offset);
    if (!segment || offset >= limit) return undefined;
    const most = Math.min(segment.start + segment.size, limit) - offset;
    let bytes: Buffer | undefined;
    let check: RecordCheck = { kind: "short", needed: Math.min(LOOKUP_BYTES, most) };
    while (check.kind === "short" && check.needed > (bytes?.length ?? 0) && check.needed <= most) {
      bytes = await log.read(offset, check.needed, limit);
      if (!bytes) return undefined;
      check = checkRecord(bytes, 0, bytes.length, offset, this.#check);
    }
    if (bytes && check.kind === "record") {
      const message = decodeRecord(Buffer.from(bytes.subarray(0, check.size)));
      if (!isHoleRecord(message)) return message;
      throw damaged(offset, "recovery kept the bytes aside", segment.path, segment.start);
    }
    if (check.kind === "blank") return undefined;
    throw damaged(
      offset,
      check.kind === "bad" ? check.reason : "it is cut off",
      segment.path,
      segment.start,
    );
  }
}

/** Places that nobody uses at the moment, and how many are kept: memory outside of the heap is dear to make. */
const SPARE_MAX = 64;
const spare: RecordPlaces[] = [];

/** One look through a queue. */
class Scan {
  readonly #context: ReaderContext;
  readonly #check: RecordCheckOptions;
  readonly #queue: MessageQueue;
  /** It has a unit for each record, which may hold many messages. */
  readonly #isBatch: boolean;
  /** Its topic in UTF-8. */
  readonly #topic: Uint8Array;
  readonly #offset: QueueOffset;
  readonly #maxMessages: number;
  readonly #maxBytes: number;
  readonly #filter: TagFilter | undefined;
  readonly #maxPhysical: PhysicalOffset;
  readonly #inMemoryBytes: number;
  readonly #window: RecordWindow;
  readonly #messages: StoredMessage[] = [];
  /** Messages in these records. */
  #count = 0;
  #bytes = 0;
  #next: QueueOffset;
  #pulled: PhysicalOffset = 0;
  /** Records of a file that is gone are not asked for one by one. */
  #skipTo: PhysicalOffset = 0;
  #missed: "NO_MATCHED_MESSAGE" | "MESSAGE_WAS_REMOVING" = "NO_MATCHED_MESSAGE";
  /** Of what is loaded together; and whether they are those of messages one behind the other. */
  #places: RecordPlaces | undefined;
  #arePlacesInARow = true;

  constructor(
    context: ReaderContext,
    queue: MessageQueue,
    request: GetRequest,
    check: RecordCheckOptions,
  ) {
    this.#context = context;
    this.#check = check;
    this.#queue = queue;
    this.#isBatch = queue.queueType === "BatchCQ";
    this.#topic = topicOf(queue.topic).bytes;
    this.#offset = request.offset;
    this.#next = request.offset;
    this.#maxMessages = request.maxMessages ?? MESSAGES_DEFAULT;
    this.#maxBytes = Math.min(
      Math.max(request.maxTotalBytes ?? TOTAL_BYTES_MAX, TOTAL_BYTES_MIN),
      TOTAL_BYTES_MAX,
    );
    this.#filter = TagFilter.parse(request.filter);
    this.#maxPhysical = context.visible();
    this.#inMemoryBytes =
      (context.memoryBytes * context.options.accessMessageInMemoryMaxRatio) / 100;
    this.#window = new RecordWindow(
      context.log,
      this.#maxPhysical,
      (bytes, places, count, isRecent) =>
        places.check(bytes, count, this.#topic, queue.queueId, isRecent ? NO_CRC : this.#check),
    );
  }

  async run(): Promise<GetResult> {
    try {
      const { min, max, unitBytes } = this.#queue;
      const filterBytes = Math.max(
        this.#context.options.maxFilterMessageSize,
        this.#maxMessages * unitBytes,
      );
      const unitsEnd = this.#offset + Math.ceil(filterBytes / unitBytes);
      // Without a filter each unit is a hit; one more tells that the batch is full.
      const unitsPerRead = this.#filter
        ? UNITS_PER_READ_MAX
        : Math.min(this.#maxMessages + 1, UNITS_PER_READ_MAX);
      let files = 0;
      while (
        this.#messages.length === 0 &&
        this.#next < max &&
        files < this.#context.options.travelCqFileNumWhenGetMessage
      ) {
        files++;
        const fileEnd = this.#fileEnd();
        const end = Math.min(max, fileEnd, unitsEnd);
        if (this.#next >= end) break;
        let full = false;
        for (let page = 0; this.#next < end && !full; page++) {
          if (page > 0 && (await this.#isFileOver())) break;
          const units = await this.#units(Math.min(unitsPerRead, end - this.#next));
          if (!units && this.#messages.length === 0) {
            // Many files may be missing in a row.
            const next = Math.min(this.#queue.heldFrom(fileEnd), max);
            return this.#answer("OFFSET_FOUND_NULL", next, min, max);
          }
          const missing = units && this.#missingBefore(units);
          if (missing !== undefined) return this.#answer("OFFSET_FOUND_NULL", missing, min, max);
          full = !units || (await this.#take(units, end));
        }
      }
      return this.#answer(this.#messages.length > 0 ? "FOUND" : this.#missed, this.#next, min, max);
    } finally {
      if (this.#places && spare.length < SPARE_MAX) spare.push(this.#places);
    }
  }

  /** Behind the messages of the queue file that holds the next one; of a batch queue nobody knows it. */
  #fileEnd(): QueueOffset {
    if (!("unitsPerFile" in this.#queue)) return this.#queue.max;
    const { unitsPerFile } = this.#queue;
    return this.#next - (this.#next % unitsPerFile) + unitsPerFile;
  }

  /** Whether a batch queue goes on in its next file. */
  async #isFileOver(): Promise<boolean> {
    const queue = this.#queue;
    return queue.queueType === "BatchCQ" && (await queue.startsFile(this.#next));
  }

  /** Where a batch queue goes on, if its file with the next message is missing. */
  #missingBefore(units: Buffer): QueueOffset | undefined {
    if (!this.#isBatch || this.#count > 0 || !this.#isUnit(units, 0)) return undefined;
    const base = batchBase(units, 0);
    return base > this.#next ? base : undefined;
  }

  async #units(count: number): Promise<Buffer | undefined> {
    try {
      const read = this.#queue.unitsAsTheyAre(this.#next, count);
      const units = read instanceof Promise ? await read : read;
      if (this.#filter) await this.#queue.extension?.resolve(units);
      return units.length > 0 ? units : undefined;
    } catch (error) {
      // A missing queue file is an answer of its own; a failed read is not.
      if (error instanceof StoreError && error.code === "STORE_QUEUE_DAMAGED") return undefined;
      throw error;
    }
  }

  #isUnit(units: Buffer, at: number): boolean {
    const queue = this.#queue;
    if (queue.queueType !== "BatchCQ") return isUnit(units, at);
    return queue.isUnitAt(units, at, this.#next);
  }

  /** @returns Whether the batch is full, or the next message is none before `end`. */
  async #take(units: Buffer, end: QueueOffset): Promise<boolean> {
    const first = this.#next;
    const { unitBytes } = this.#queue;
    for (let at = 0; at < units.length; at += unitBytes) {
      if (!this.#isUnit(units, at)) {
        return this.#stopAt(this.#next, await this.#damagedUnit(this.#next));
      }
      const queueOffset = this.#isBatch ? batchBase(units, at) : first + at / unitBytes;
      const messages = this.#isBatch ? batchMessages(units, at) : 1;
      if (queueOffset >= end) return true;
      const offset = unitOffset(units, at);
      const size = unitSize(units, at);
      if (this.#isFull(this.#count, this.#bytes, offset, size, messages)) return true;
      this.#pulled = offset;
      this.#next = queueOffset + messages;
      if (offset < this.#skipTo) continue;
      if (isFiller(units, at)) {
        this.#missed = "MESSAGE_WAS_REMOVING";
        continue;
      }
      if (this.#filter && !this.#mayPass(this.#filter, units, at)) {
        this.#missed = "NO_MATCHED_MESSAGE";
        continue;
      }
      let start = this.#window.take(offset, size);
      if (start < 0) {
        const failed = await this.#load(units, at, queueOffset);
        if (failed) return this.#stopAt(queueOffset, failed);
        const taken = this.#takeVouched(queueOffset);
        if (taken > 0) {
          at += (taken - 1) * unitBytes;
          continue;
        }
        start = this.#window.take(offset, size);
      }
      if (start < 0) {
        this.#missed = "MESSAGE_WAS_REMOVING";
        const { segments } = this.#context.log;
        this.#skipTo = segments.startOf(offset) + segments.fileSize;
        continue;
      }
      const { bytes, isVouched } = this.#window;
      const fault = isVouched ? undefined : this.#faultOf(start, offset, size);
      if (fault) return this.#stopAt(queueOffset, fault);
      const message = new StoredMessage(bytes.subarray(start, start + size));
      if (!isVouched && !this.#isOwn(message, start, queueOffset)) {
        // A unit of the schedule topic has no room for the mark: it tells a time.
        const mayBeLost = isMarkedLost(units, at) || this.#queue.topic === SCHEDULE_TOPIC;
        if (!mayBeLost || !(await this.#isLost(message, offset, size, queueOffset))) {
          return this.#stopAt(queueOffset, await this.#damagedUnit(queueOffset, message));
        }
        this.#missed = "MESSAGE_WAS_REMOVING";
        continue;
      }
      if (this.#filter && !this.#filter.passes(message.tags)) {
        this.#missed = "NO_MATCHED_MESSAGE";
        continue;
      }
      this.#messages.push(message);
      this.#count += messages;
      this.#bytes += size;
      this.#skipTo = 0;
    }
    return false;
  }

  /**
   * Takes what was just loaded as far as somebody has vouched for it, if it is what the next units lead to,
   * each to one message that is wanted: none of it has to be looked at again.
   *
   * @param queueOffset Of the first message.
   * @returns How many messages.
   */
  #takeVouched(queueOffset: QueueOffset): number {
    if (this.#isBatch || this.#filter || !this.#arePlacesInARow) return 0;
    const places = this.#places as RecordPlaces;
    const { bytes } = this.#window;
    const count = this.#window.takeVouched();
    if (count === 0) return 0;
    for (let i = 0; i < count; i++) {
      const start = places.at(i);
      const size = places.size(i);
      this.#messages.push(new StoredMessage(bytes.subarray(start, start + size)));
      this.#bytes += size;
    }
    this.#count += count;
    this.#next = queueOffset + count;
    this.#pulled = places.offset(count - 1);
    this.#skipTo = 0;
    return count;
  }

  /** `DefaultMessageStore.isTheBatchFull`, after so many messages and bytes. */
  #isFull(
    count: number,
    bytes: number,
    offset: PhysicalOffset,
    size: number,
    messages: number,
  ): boolean {
    if (count === 0) return false;
    if (count + messages > this.#maxMessages || bytes + size > this.#maxBytes) return true;
    const { options } = this.#context;
    const recent = this.#maxPhysical - offset <= this.#inMemoryBytes;
    return recent
      ? bytes + size > options.maxTransferBytesOnMessageInMemory ||
          count >= options.maxTransferCountOnMessageInMemory
      : bytes + size > options.maxTransferBytesOnMessageInDisk ||
          count >= options.maxTransferCountOnMessageInDisk;
  }

  #mayPass(filter: TagFilter, units: Buffer, at: number): boolean {
    return filter.mayPass(units.readInt32BE(at + 12), units.readInt32BE(at + 16));
  }

  /** Of the record that a unit leads to, and of those after it that may be wanted. */
  #placesFrom(units: Buffer, from: number, queueOffset: QueueOffset): RecordPlaces {
    const { unitBytes } = this.#queue;
    const most = Math.min(
      WINDOW_RECORDS,
      this.#maxMessages - this.#count,
      (units.length - from) / unitBytes,
    );
    this.#places ??= spare.pop() ?? new RecordPlaces(WINDOW_RECORDS);
    const places = this.#places;
    places.count = 0;
    this.#arePlacesInARow = true;
    let count = this.#count;
    let bytes = this.#bytes;
    for (let at = from; at < units.length && isUnit(units, at); at += unitBytes) {
      if (isFiller(units, at) || (this.#filter && !this.#mayPass(this.#filter, units, at))) {
        this.#arePlacesInARow = false;
        continue;
      }
      const offset = unitOffset(units, at);
      const size = unitSize(units, at);
      const messages = this.#isBatch ? batchMessages(units, at) : 1;
      if (places.count > 0 && this.#isFull(count, bytes, offset, size, messages)) break;
      const message = this.#isBatch ? batchBase(units, at) : queueOffset + (at - from) / unitBytes;
      places.add(offset, size, message);
      if (places.count >= most) break;
      count += messages;
      bytes += size;
    }
    return places;
  }

  /** What is good is returned first; the next call meets the error. @returns That the batch is full. */
  #stopAt(queueOffset: QueueOffset, error: StoreError): true {
    if (this.#messages.length === 0) throw error;
    this.#next = queueOffset;
    return true;
  }

  /**
   * Reads a record and those after it.
   *
   * @returns What is wrong with it; nothing if it can be taken, or if its file is gone.
   */
  async #load(
    units: Buffer,
    at: number,
    queueOffset: QueueOffset,
  ): Promise<StoreError | undefined> {
    try {
      const loaded = this.#window.load(this.#placesFrom(units, at, queueOffset));
      if (loaded instanceof Promise ? await loaded : loaded) return undefined;
    } catch (error) {
      if (error instanceof StoreError) return error;
      throw error;
    }
    // Damage must not be taken for a message that is not there any more.
    const offset = unitOffset(units, at);
    const isGone = offset < this.#maxPhysical && !this.#context.log.segments.find(offset);
    return isGone ? undefined : this.#damagedUnit(queueOffset);
  }

  /** What is wrong with the record that was loaded. */
  #faultOf(start: number, offset: PhysicalOffset, size: number): StoreError | undefined {
    const { bytes, isRecent } = this.#window;
    const check = checkRecord(bytes, start, start + size, offset, isRecent ? NO_CRC : this.#check);
    if (check.kind === "record" && check.size === size) return undefined;
    const segment = this.#context.log.segments.find(offset);
    const reason = check.kind === "bad" ? check.reason : "its size is not the one in the queue";
    return damaged(offset, reason, segment?.path, segment?.start ?? 0);
  }

  /** Whether it is the message of that offset in this queue. */
  #isOwn(message: StoredMessage, start: number, queueOffset: QueueOffset): boolean {
    const { bytes } = this.#window;
    return (
      (readQueueOffset(bytes, start) === queueOffset &&
        readQueueId(bytes, start) === this.#queue.queueId &&
        isTopic(bytes, start, this.#topic)) ||
      offsetsIn(message, this.#queue).includes(queueOffset)
    );
  }

  /** A lost message's unit leads to the next one (`queue_assembly.ts`). */
  async #isLost(
    found: StoredMessage,
    offset: PhysicalOffset,
    size: number,
    queueOffset: QueueOffset,
  ): Promise<boolean> {
    const next = offsetsIn(found, this.#queue).find((one) => one > queueOffset);
    return next !== undefined && this.#isUnitOf(next, offset, size);
  }

  async #isUnitOf(
    queueOffset: QueueOffset,
    offset: PhysicalOffset,
    size: number,
  ): Promise<boolean> {
    const unit = await this.#queue.unitsAsTheyAre(queueOffset, 1);
    return (
      unit.length > 0 &&
      isUnit(unit, 0) &&
      unitSize(unit, 0) === size &&
      unitOffset(unit, 0) === offset
    );
  }

  async #damagedUnit(queueOffset: QueueOffset, found?: StoredMessage): Promise<StoreError> {
    const { topic, queueId } = this.#queue;
    return new StoreError(
      "STORE_QUEUE_DAMAGED",
      `Cannot read message ${queueOffset} of queue ${topic}/${queueId}: its unit leads to ${
        found
          ? `message ${found.queueOffset} of queue ${found.topic}/${found.queueId} at ${found.physicalOffset}`
          : "no record"
      }`,
      {
        ...(await this.#queue.placeOf(queueOffset)),
        ...(found ? { offset: found.physicalOffset } : {}),
      },
    );
  }

  #answer(
    status: GetMessageStatus,
    next: QueueOffset,
    min: QueueOffset,
    max: QueueOffset,
  ): GetResult {
    // Field by field: a spread takes longer than to read a message.
    return {
      status,
      nextBeginOffset: next,
      minOffset: min,
      maxOffset: max,
      messages: this.#messages,
      messageCount: this.#count,
      bytes: this.#bytes,
      suggestPullingFromSlave: this.#maxPhysical - this.#pulled > this.#inMemoryBytes,
    };
  }
}

function answer(
  status: GetMessageStatus,
  nextBeginOffset: QueueOffset,
  minOffset: QueueOffset,
  maxOffset: QueueOffset,
): GetResult {
  return {
    status,
    nextBeginOffset,
    minOffset,
    maxOffset,
    messages: [],
    messageCount: 0,
    bytes: 0,
    suggestPullingFromSlave: false,
  };
}

/** Where the message says that it is in the queue, its own or a light one that it entered. */
function offsetsIn(message: StoredMessage, { topic, queueId }: MessageQueue): QueueOffset[] {
  if (message.topic === topic) return message.queueId === queueId ? [message.queueOffset] : [];
  const names = message.properties?.get(PROPERTY_INNER_MULTI_DISPATCH)?.split(",") ?? [];
  const offsets = message.properties?.get(PROPERTY_INNER_MULTI_QUEUE_OFFSET)?.split(",") ?? [];
  return offsets.filter((_, i) => names[i] === topic).map(Number);
}

function damaged(
  offset: PhysicalOffset,
  reason: string,
  path: string | undefined,
  start: PhysicalOffset,
): StoreError {
  return new StoreError(
    "STORE_RECORD_DAMAGED",
    `Cannot read the record at ${offset}: damaged at position ${offset - start} of ${path}: ${reason}`,
    path === undefined ? { offset } : { offset, path, position: offset - start },
  );
}
