/**
 * The figures of an open store. RocketMQ: `StoreStatsService`.
 *
 * What is on the way of a put is a few additions; times are those that the pipeline reads for itself, once
 * for each write or sync. There is no timer: counts are looked at when a write or sync ends, once a second,
 * and when somebody asks.
 *
 * @module
 */

import type { ConsumeQueueTable } from "../consume_queue/consume_queue_table.ts";
import type { MessageQueue } from "../consume_queue/message_queue.ts";
import type { Clock } from "../io/clock.ts";
import { PutResult } from "../message/put_result.ts";
import type { GetRequest, GetResult } from "../read/message_reader.ts";
import type { PhysicalOffset } from "../units.ts";
import { CHANNELS, type ForceEvent, type GetEvent, type PutEvent } from "./channels.ts";
import { CountWindow } from "./count_window.ts";
import { LatencyHistogram } from "./latency_histogram.ts";
import { PutTimes } from "./put_times.ts";
import { type StatItem, StatItems, type StatName } from "./stat_items.ts";

export interface StatisticsContext {
  readonly directory: string;
  readonly clock: Clock;
  readonly queues: ConsumeQueueTable;
  /** End of what is readable. */
  readonly dispatched: () => PhysicalOffset;
  /** Messages put so far. */
  readonly messagesPut: () => number;
}

/** Calls or messages in a second, over the last 10 s, minute and 10 minutes. */
export type Rates = readonly [of10s: number, of60s: number, of600s: number];

const RATE_SECONDS = [10, 60, 600] as const;
const SECOND_MS = 1000;
const MINUTE_MS = 60_000;
/** Of {@linkcode StatItems}. */
const ITEMS_EVERY_MS = 10_000;

export class StoreStatistics {
  /** Syncs of the log. */
  readonly forceTimes = new LatencyHistogram();
  readonly putTimes = new PutTimes();
  /** Gets that found something, and those that did not; messages and bytes that they returned. */
  readonly gets = { found: 0, missed: 0, messages: 0, bytes: 0, longestMs: 0 };
  /** Wall time of the open, in ms. */
  readonly openedAt: number;
  readonly #context: StatisticsContext;
  readonly #clock: Clock;
  readonly #items = new StatItems();
  readonly #startedAt: number;
  readonly #windows = {
    put: secondly(),
    getFound: secondly(),
    getMiss: secondly(),
    getTransferred: secondly(),
  };
  /** Wall time minus monotonic time, as of the last look. */
  #wallOffset = 0;
  /** The last time that the pipeline told, monotonic; and the last time that somebody put or got. */
  #now: number;
  #activeAt: number;
  #nextLookAt = Number.NEGATIVE_INFINITY;
  #minuteAt: number;
  #itemsAt: number;
  /** Puts to topics that were deleted. */
  #putsForgotten = 0;

  constructor(context: StatisticsContext) {
    this.#context = context;
    this.#clock = context.clock;
    this.openedAt = context.clock.now();
    this.#startedAt = context.clock.monotonic();
    this.#now = this.#startedAt;
    this.#activeAt = this.#startedAt;
    this.#minuteAt = this.#startedAt;
    this.#itemsAt = this.#startedAt;
    this.#look(this.#startedAt);
  }

  /** How long the store has been open, in ms. */
  get openForMs(): number {
    return this.#clock.monotonic() - this.#startedAt;
  }

  /** A write or sync of the log ended at `now` (monotonic ms): those who wait are told next. */
  tick(now: number): void {
    this.#now = now;
    if (now >= this.#nextLookAt) this.#look(now);
    this.#activeAt = now;
  }

  /** A put resolves. */
  told(value: unknown): void {
    if (!(value instanceof PutResult)) return;
    const elapsedMs = Math.floor(this.#now + this.#wallOffset - value.storeTimestamp);
    this.putTimes.record(elapsedMs);
    if (CHANNELS.put.hasSubscribers) {
      const { directory } = this.#context;
      const event: PutEvent = { directory, result: value, elapsedMs: Math.max(0, elapsedMs) };
      CHANNELS.put.publish(event);
    }
  }

  /** A put resolves without waiting for anything. */
  toldAtOnce(value: PutResult): void {
    this.putTimes.record(0);
    if (CHANNELS.put.hasSubscribers) {
      const event: PutEvent = { directory: this.#context.directory, result: value, elapsedMs: 0 };
      CHANNELS.put.publish(event);
    }
  }

  /** A sync of the log ended well. */
  forced(tookMs: number, flushed: PhysicalOffset): void {
    this.forceTimes.record(tookMs);
    if (CHANNELS.force.hasSubscribers) {
      const event: ForceEvent = { directory: this.#context.directory, tookMs, flushed };
      CHANNELS.force.publish(event);
    }
  }

  /** A get that began at `startedAt` (monotonic ms) is answered. */
  got({ topic, queueId = 0, group }: GetRequest, result: GetResult, startedAt: number): void {
    const { messages, messageCount, bytes, status } = result;
    const now = this.#clock.monotonic();
    const tookMs = now - startedAt;
    const { gets } = this;
    if (now >= this.#nextLookAt) this.#look(now);
    this.#activeAt = now;
    if (status === "FOUND") gets.found++;
    else gets.missed++;
    gets.messages += messageCount;
    gets.bytes += bytes;
    if (tookMs > gets.longestMs) gets.longestMs = tookMs;
    const last = messages.at(-1);
    if (last && group !== undefined) {
      const key = `${topic}@${group}`;
      this.#items.add("GROUP_GET_NUMS", key, messageCount, now);
      this.#items.add("GROUP_GET_SIZE", key, bytes, now);
      const behind = Math.max(0, this.#context.dispatched() - last.physicalOffset - last.size);
      const behindMs = behind === 0 ? 0 : now + this.#wallOffset - last.storeTimestamp;
      const queue = `${queueId}@${key}`;
      this.#items.set("GROUP_GET_FALL_SIZE", queue, behind, gets.found, now);
      this.#items.set(
        "GROUP_GET_FALL_TIME",
        queue,
        Math.max(0, Math.floor(behindMs)),
        gets.found,
        now,
      );
    }
    if (CHANNELS.get.hasSubscribers) {
      const { directory } = this.#context;
      const what: GetEvent = {
        directory,
        topic,
        queueId,
        group,
        status,
        messageCount,
        bytes,
        tookMs,
      };
      CHANNELS.get.publish(what);
    }
  }

  /** How many a second: messages put, gets, and messages got. */
  rates(): Readonly<Record<"put" | "getFound" | "getMiss" | "getTotal" | "getTransferred", Rates>> {
    const now = this.#clock.monotonic();
    this.#look(now);
    const counts = this.#counts();
    const rate = (name: keyof typeof counts): Rates =>
      RATE_SECONDS.map((seconds) => {
        const { by, inMs } = this.#windows[name].grown(now, counts[name], seconds * SECOND_MS);
        // What is a second old tells of a second at least.
        return (by * SECOND_MS) / Math.max(inMs, SECOND_MS);
      }) as unknown as Rates;
    const [getFound, getMiss] = [rate("getFound"), rate("getMiss")];
    const getTotal = getFound.map((found, i) => found + (getMiss[i] as number)) as unknown as Rates;
    const [put, getTransferred] = [rate("put"), rate("getTransferred")];
    return { put, getFound, getMiss, getTotal, getTransferred };
  }

  /** Counts by topic and group, over a minute, an hour and a day. */
  items(name?: StatName): StatItem[] {
    const now = this.#clock.monotonic();
    this.#look(now);
    this.#sampleItems(now);
    return this.#items.list(now, name);
  }

  /** Brings what is told of minutes up to now. */
  refresh(): void {
    this.#look(this.#clock.monotonic());
  }

  #look(now: number): void {
    this.#nextLookAt = now + SECOND_MS;
    this.#wallOffset = this.#clock.now() - now;
    const counts = this.#counts();
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) {
      this.#windows[name].sample(now, counts[name], this.#activeAt);
    }
    if (now - this.#minuteAt >= MINUTE_MS) {
      if (now - this.#minuteAt < 2 * MINUTE_MS) this.putTimes.rotate();
      else this.putTimes.clear();
      this.#minuteAt = now;
    }
    if (now - this.#itemsAt >= ITEMS_EVERY_MS) this.#sampleItems(now);
  }

  #counts() {
    const { found, missed, messages } = this.gets;
    return {
      put: this.#context.messagesPut(),
      getFound: found,
      getMiss: missed,
      getTransferred: messages,
    };
  }

  /** What was put to each topic that has queues; bytes are those of records. */
  topics(): Map<string, { messages: number; bytes: number; puts: number }> {
    const topics = new Map<string, { messages: number; bytes: number; puts: number }>();
    for (const { topic, put } of this.#context.queues) {
      const total = topics.get(topic) ?? { messages: 0, bytes: 0, puts: 0 };
      total.messages += put.messages;
      total.bytes += put.bytes;
      total.puts += put.puts;
      topics.set(topic, total);
    }
    return topics;
  }

  /** A topic was deleted, with these queues: its counts go. */
  forget(topic: string, queues: Iterable<MessageQueue>): void {
    for (const { put } of queues) this.#putsForgotten += put.puts;
    this.#items.deleteTopic(topic);
  }

  #sampleItems(now: number): void {
    this.#itemsAt = now;
    const topics = this.topics();
    const since = this.#activeAt;
    let puts = this.#putsForgotten;
    for (const [topic, total] of topics) {
      puts += total.puts;
      if (total.puts === 0) continue;
      this.#items.set("TOPIC_PUT_NUMS", topic, total.messages, total.puts, since);
      this.#items.set("TOPIC_PUT_SIZE", topic, total.bytes, total.puts, since);
    }
    const { found, messages } = this.gets;
    this.#items.set("BROKER_PUT_NUMS", "", this.#context.messagesPut(), puts, since);
    this.#items.set("BROKER_GET_NUMS", "", messages, found, since);
    this.#items.sample(now, (topic) => topic === "" || topics.has(topic));
  }
}

/** RocketMQ keeps 601 samples of a second. */
function secondly(): CountWindow {
  return new CountWindow(SECOND_MS, 601);
}
