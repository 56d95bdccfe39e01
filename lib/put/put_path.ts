/**
 * The way of a put: rules, records, append, promise. RocketMQ: `CommitLog.asyncPutMessage`, with
 * the hooks of the broker before it.
 *
 * @module
 */

import type { Blocked } from "../commit_log/append_gate.ts";
import { type Appended, type CommitLog, noSpaceRefusal } from "../commit_log/commit_log.ts";
import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import { PutError, type StoreError } from "../errors.ts";
import type { Clock, Timer } from "../io/clock.ts";
import { parseHost } from "../message/host.ts";
import {
  innerBatchOf,
  isInnerBatch,
  wantsInnerBatch,
  withInnerBase,
} from "../message/inner_batch.ts";
import {
  LIGHT_QUEUE_ID,
  LIGHT_QUEUE_PREFIX,
  lightQueuesOf,
  withLightQueueOffsets,
} from "../message/light_queues.ts";
import type { Message, MessageBatch } from "../message/message.ts";
import {
  batchViolation,
  brokerViolation,
  type SizeLimits,
  storeViolation,
  type Violation,
} from "../message/message_rules.ts";
import {
  INNER_BATCH_MAX,
  type OutgoingRecord,
  prepareBatch,
  prepareRecord,
  type RecordDefaults,
} from "../message/outgoing_record.ts";
import { messagesOf, PutResult } from "../message/put_result.ts";
import { QUEUE_OFFSET_MAX } from "../message/record_layout.ts";
import { takesQueueOffset } from "../message/sys_flag.ts";
import type { ResolvedOptions } from "../options.ts";
import type { Refusals } from "../segment/waiters.ts";
import type { PhysicalOffset } from "../units.ts";

export interface PutPathContext {
  readonly log: CommitLog;
  readonly queues: ConsumeQueueTable;
  readonly options: ResolvedOptions;
  readonly clock: Clock;
  /** Hurries the queues, which are too far behind the log. */
  readonly flushQueues: () => void;
  /** A put resolves without waiting for anything. */
  readonly toldAtOnce?: (result: PutResult) => void;
}

/**
 * From here on a queue takes no message: a record's QUEUEOFFSET is not believed beyond 2^48, and puts may
 * be waiting.
 */
const QUEUE_OFFSET_PUT_END = QUEUE_OFFSET_MAX - 2 ** 24;

const NO_NAMES: readonly string[] = [];
const NO_QUEUES: readonly MessageQueue[] = [];

export class PutPath {
  readonly #context: PutPathContext;
  readonly #options: ResolvedOptions;
  readonly #limits: SizeLimits;
  readonly #hosts: Pick<RecordDefaults, "bornHost" | "storeHost">;
  /** Messages appended, and puts that were refused before that. */
  readonly counters = { messagesPut: 0, bytesPut: 0, putsFailed: 0 };
  /** Topics that take no messages for a moment, and when that ends. */
  readonly #held = new Map<string, Promise<void>>();
  readonly #refusals: Refusals<PutResult> = {
    expired: ({ physicalOffset }) =>
      unconfirmed(
        "FLUSH_DISK_TIMEOUT",
        physicalOffset,
        `its sync takes longer than ${this.#options.syncFlushTimeout} ms`,
      ),
    failed: ({ physicalOffset }, cause) =>
      unconfirmed("UNKNOWN_ERROR", physicalOffset, cause.message, cause),
  };

  /** @throws {RangeError} if the option `bornHost` or `storeHost` is no address. */
  constructor(context: PutPathContext) {
    const { options } = context;
    this.#context = context;
    this.#options = options;
    this.#limits = {
      maxMessageSize: options.maxMessageSize,
      fileSize: options.mappedFileSizeCommitLog,
    };
    this.#hosts = {
      bornHost: parseHost(options.bornHost),
      storeHost: parseHost(options.storeHost),
    };
  }

  /** @param refusal Why the store takes no puts, if it does not. */
  put(message: Message, refusal: string | undefined): Promise<PutResult> {
    try {
      this.#admit(refusal);
      if (this.#options.brokerChecks) {
        const isInner = isInnerBatch(message.sysFlag ?? 0);
        refuseIf(brokerViolation(message, isInner && this.#context.queues.isBatch(message.topic)));
      }
      const defaults = this.#defaults();
      const record = prepareRecord(message, defaults);
      refuseIf(storeViolation(record, this.#limits));
      return this.#append([record], record.wait, defaults.now);
    } catch (error) {
      return this.#refused(error);
    }
  }

  putBatch(batch: MessageBatch, refusal: string | undefined): Promise<PutResult> {
    try {
      this.#admit(refusal);
      if (this.#options.brokerChecks) refuseIf(batchViolation(batch));
      const defaults = this.#defaults();
      if (wantsInnerBatch(batch) && this.#context.queues.isBatch(batch.topic)) {
        const record = prepareRecord(innerBatchOf(batch), defaults);
        refuseIf(storeViolation(record, this.#limits));
        return this.#append([record], record.wait, defaults.now);
      }
      const records = prepareBatch(batch, defaults);
      if (isInnerBatch(records[0]?.sysFlag ?? 0)) {
        const reason = "sysFlag says inner batch, which is one record: give it a UNIQ_KEY";
        refuseIf({ status: "MESSAGE_ILLEGAL", reason });
      }
      refuseIf(storeViolation(records, this.#limits));
      return this.#append(records, records[0]?.wait ?? true, defaults.now);
    } catch (error) {
      return this.#refused(error);
    }
  }

  /**
   * Lets puts to these topics, or to these light queues, wait: none of them is appended meanwhile, those apart
   * that wait for room already. One that waits longer than `syncFlushTimeout` is refused.
   *
   * @returns What ends it.
   */
  hold(topics: Iterable<string>): () => void {
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const names = [...topics];
    for (const name of names) this.#held.set(name, ended);
    return () => {
      for (const name of names) this.#held.delete(name);
      end();
    };
  }

  #heldUntil(topic: string, lightQueues: readonly string[]): Promise<void> | undefined {
    if (this.#held.size === 0) return undefined;
    const held = [topic, ...lightQueues].find((name) => this.#held.has(name));
    return held === undefined ? undefined : this.#held.get(held);
  }

  /** What a broker asks of the store before it looks at a message. */
  #admit(refusal: string | undefined): void {
    const { failure, noSpace, busyForMs } = this.#context.log.pipeline;
    const why = refusal ?? (failure && "an earlier write or sync failed");
    if (why !== undefined) {
      const facts = { cause: failure };
      throw new PutError("SERVICE_NOT_AVAILABLE", "not stored", `Cannot put: ${why}`, facts);
    }
    if (noSpace) throw noSpaceRefusal(noSpace);
    if (busyForMs > this.#options.osPageCacheBusyTimeOutMills) {
      const reason = `a write has been going on for ${Math.round(busyForMs)} ms`;
      refuseIf({ status: "OS_PAGE_CACHE_BUSY", reason });
    }
  }

  #refused(error: unknown): Promise<never> {
    this.counters.putsFailed++;
    return Promise.reject(error);
  }

  #defaults(): RecordDefaults {
    // Field by field: with a spread the whole put takes twice as long.
    const { bornHost, storeHost } = this.#hosts;
    return {
      bornHost,
      storeHost,
      now: this.#context.clock.now(),
      appendPropertyCrc: this.#options.enabledAppendPropCRC,
      autoVersion: this.#options.autoMessageVersionOnTopicLen,
    };
  }

  /** @param now Wall time in ms. */
  #append(records: readonly OutgoingRecord[], wait: boolean, now: number): Promise<PutResult> {
    const [first] = records as readonly [OutgoingRecord];
    const lightNames = this.#lightQueuesOf(records);
    if (isInnerBatch(first.sysFlag)) refuseIf(this.#innerBatchViolation(first));
    const held = this.#heldUntil(first.topic, lightNames);
    if (held) return this.#appendAfter(held, keptOf(records), wait);
    const queue = this.#context.queues.findOrCreate(first.topic, first.queueId);
    const lightQueues = this.#lightQueues(lightNames);
    refuseIfFull(queue);
    for (const lightQueue of lightQueues) refuseIfFull(lightQueue);
    const { gate } = this.#context.log;
    // Behind others it waits for whatever they wait for.
    let blocked: Blocked = "buffer";
    if (!gate.closed) {
      const put = this.#tryAppend(records, queue, lightQueues, wait, now);
      if (typeof put !== "string") return put;
      blocked = put;
      const { transientStorePoolEnable, fastFailIfNoBufferInStorePool } = this.#options;
      if (put === "buffer" && transientStorePoolEnable && fastFailIfNoBufferInStorePool) {
        refuseIf({ status: "CREATE_MAPPED_FILE_FAILED", reason: "the write buffer is full" });
      }
    }
    const kept = keptOf(records);
    return new Promise((resolve, reject) => {
      const refuse = (error: PutError): void => {
        this.counters.putsFailed++;
        reject(error);
      };
      const attempt = (): Blocked | undefined => {
        // All of it is looked for anew: the topic may have been deleted meanwhile.
        const violation = isInnerBatch(first.sysFlag) && this.#innerBatchViolation(first);
        if (violation) {
          refuse(refusalOf(violation));
          return undefined;
        }
        const own = this.#context.queues.findOrCreate(first.topic, first.queueId);
        const lights = this.#lightQueues(lightNames);
        const put = this.#tryAppend(kept, own, lights, wait, this.#context.clock.now());
        if (typeof put === "string") return put;
        resolve(put);
        return undefined;
      };
      gate.wait(blocked, attempt, refuse);
    });
  }

  /** Appends, or hurries what that has to wait for. */
  #tryAppend(
    records: readonly OutgoingRecord[],
    queue: MessageQueue,
    lightQueues: readonly MessageQueue[],
    wait: boolean,
    now: number,
  ): Promise<PutResult> | Blocked {
    const { log, flushQueues } = this.#context;
    const placed = placedIn(queue, lightQueues, records);
    const size = sizeOf(placed);
    const appended = log.append(placed, size, queue, now);
    if (appended === "buffer") log.makeRoom();
    else if (appended === "queues") flushQueues();
    if (typeof appended === "string") return appended;
    for (const lightQueue of lightQueues) lightQueue.nextOffset++;
    const { put } = queue;
    put.messages += messagesOf(records);
    put.bytes += size;
    put.puts++;
    return this.#acknowledge(placed, size, appended, wait);
  }

  #appendAfter(
    held: Promise<void>,
    records: readonly OutgoingRecord[],
    wait: boolean,
  ): Promise<PutResult> {
    const { clock } = this.#context;
    const { syncFlushTimeout } = this.#options;
    let timer: Timer | undefined;
    const late = new Promise<"late">((resolve) => {
      timer = clock.setTimer(() => resolve("late"), syncFlushTimeout);
    });
    return Promise.race([held, late]).then((what) => {
      timer?.cancel();
      try {
        if (what === "late") {
          const reason = `its topic has been being deleted for more than ${syncFlushTimeout} ms`;
          refuseIf({ status: "OS_PAGE_CACHE_BUSY", reason });
        }
        this.#admit(undefined);
        return this.#append(records, wait, clock.now());
      } catch (error) {
        return this.#refused(error);
      }
    });
  }

  /** Names of the light queues that a message enters besides its own (`enableLmq`); a batch enters none. */
  #lightQueuesOf(records: readonly OutgoingRecord[]): readonly string[] {
    const { queues } = this.#context;
    const { enableLmq, enableMultiDispatch, enableLmqQuota } = this.#options;
    const { maxLmqConsumeQueueNum, maxMessageSize } = this.#options;
    const [record, ...more] = records as readonly [OutgoingRecord, ...OutgoingRecord[]];
    if (!enableLmq || more.length > 0 || isInnerBatch(record.sysFlag)) return NO_NAMES;
    // What is prepared or rolled back enters no queue at all.
    if (!takesQueueOffset(record.sysFlag)) return NO_NAMES;
    const names = lightQueuesOf(record);
    if (names.length === 0) return NO_NAMES;
    const wrong = names.find((name) => !name.startsWith(LIGHT_QUEUE_PREFIX) || name.includes("/"));
    if (wrong !== undefined) {
      const reason = `light queue "${wrong}" does not begin with ${LIGHT_QUEUE_PREFIX}, or contains "/"`;
      refuseIf({ status: "MESSAGE_ILLEGAL", reason });
    }
    const own = record.queueId === LIGHT_QUEUE_ID ? [record.topic, ...names] : names;
    if (new Set(own).size < own.length) {
      refuseIf({ status: "MESSAGE_ILLEGAL", reason: `a queue is named twice in "${names}"` });
    }
    // The offsets make the record longer: at most so much.
    const longest = withLightQueueOffsets(
      record,
      names.map(() => Number.MAX_SAFE_INTEGER),
    );
    refuseIf(storeViolation(longest, this.#limits));
    if (longest.size > maxMessageSize) {
      const reason = `the record may have ${longest.size} bytes, the most with light queues are ${maxMessageSize}`;
      refuseIf({ status: "MESSAGE_ILLEGAL", reason });
    }
    if (enableLmqQuota && enableMultiDispatch) {
      const isNew = names.some((name) => !queues.find(name, LIGHT_QUEUE_ID));
      if (isNew && queues.countTopics(LIGHT_QUEUE_PREFIX) >= maxLmqConsumeQueueNum) {
        const reason = `there are ${maxLmqConsumeQueueNum} light queues already`;
        refuseIf({ status: "LMQ_CONSUME_QUEUE_NUM_EXCEEDED", reason });
      }
    }
    return names;
  }

  #lightQueues(names: readonly string[]): readonly MessageQueue[] {
    if (names.length === 0) return NO_QUEUES;
    return names.map((name) => this.#context.queues.findOrCreate(name, LIGHT_QUEUE_ID));
  }

  /** What a store asks of an inner batch, whoever checked it. */
  #innerBatchViolation(record: OutgoingRecord): Violation | undefined {
    const illegal = (reason: string): Violation => ({ status: "MESSAGE_ILLEGAL", reason });
    if (!this.#context.queues.isBatch(record.topic)) {
      return illegal("sysFlag says inner batch, but the topic's queue type is not BatchCQ");
    }
    if (record.messages === 0) {
      return illegal(`its property INNER_NUM is no number from 1 to ${INNER_BATCH_MAX}`);
    }
    // The offset makes the record longer: at most so much.
    return storeViolation(withInnerBase(record, Number.MAX_SAFE_INTEGER), this.#limits);
  }

  #acknowledge(
    records: readonly OutgoingRecord[],
    size: number,
    appended: Appended,
    wait: boolean,
  ): Promise<PutResult> {
    this.counters.messagesPut += messagesOf(records);
    this.counters.bytesPut += size;
    const { pipeline } = this.#context.log;
    const promised = pipeline.promised(wait);
    const result = new PutResult(records, size, appended);
    if (promised === "append") this.#context.toldAtOnce?.(result);
    return pipeline.keep(promised, appended.end, result, this.#refusals);
  }
}

/** The error of a put whose record has its place in the log, and may stay there. */
function unconfirmed(
  status: PutError["status"],
  offset: PhysicalOffset,
  why: string,
  cause?: StoreError,
): PutError {
  const facts = { offset, cause };
  return new PutError(status, "unknown", `Cannot confirm the message at ${offset}: ${why}`, facts);
}

function refuseIf(violation: Violation | undefined): void {
  if (violation) throw refusalOf(violation);
}

function refusalOf({ status, reason }: Violation): PutError {
  return new PutError(status, "not stored", `Cannot put: ${reason}`);
}

/** Only a damaged store comes so far. */
function refuseIfFull({ nextOffset, topic, queueId }: MessageQueue): void {
  if (nextOffset < QUEUE_OFFSET_PUT_END) return;
  const reason = `queue ${topic}/${queueId} ends at ${nextOffset}: it holds no more`;
  refuseIf({ status: "MESSAGE_ILLEGAL", reason });
}

/** The caller's bodies may change once its call has returned. */
function keptOf(records: readonly OutgoingRecord[]): OutgoingRecord[] {
  return records.map((record) => ({ ...record, body: Buffer.from(record.body) }));
}

/** The records as they are to be written, with the places that they say of themselves. */
function placedIn(
  queue: MessageQueue,
  lightQueues: readonly MessageQueue[],
  records: readonly OutgoingRecord[],
): readonly OutgoingRecord[] {
  const [first] = records as readonly [OutgoingRecord];
  if (isInnerBatch(first.sysFlag)) return [withInnerBase(first, queue.nextOffset)];
  if (lightQueues.length === 0) return records;
  const offsets = lightQueues.map(({ nextOffset }) => nextOffset);
  return records.map((record) => withLightQueueOffsets(record, offsets));
}

/** Bytes of all records. */
function sizeOf(records: readonly OutgoingRecord[]): number {
  let size = 0;
  for (const record of records) size += record.size;
  return size;
}
