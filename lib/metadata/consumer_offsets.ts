/**
 * How far each consumer group has come, in `config/consumerOffset.json`. RocketMQ:
 * `ConsumerOffsetManager`; with `enableLmq` `LmqConsumerOffsetManager` and `lmqConsumerOffset.json`.
 *
 * Commits go to memory, and to the file every `flushConsumerOffsetInterval` ms, with `flush()`, and when the
 * store closes: a killed process loses what was committed since, and these messages are delivered again.
 *
 * Unlike RocketMQ's, an offset in the file never leads past what is durable of the log: the log is synced
 * before the file is written. Otherwise a power cut could take messages whose offsets then belong to new
 * ones, which the group would never see.
 *
 * @module
 */

import type { Clock, Timer } from "../io/clock.ts";
import { LIGHT_QUEUE_PREFIX } from "../message/light_queues.ts";
import type { ResolvedOptions } from "../options.ts";
import type { QueueOffset } from "../units.ts";
import { byName, numberIn, objectIn, wrong } from "./config_fields.ts";
import { ConfigObject, type ConfigValue } from "./config_json.ts";
import { ConfigTable, type TableContext } from "./config_table.ts";

/** Commits after which the version grows (`consumerOffsetUpdateVersionStep`). */
const COMMITS_PER_VERSION = 500;

export interface OffsetsContext extends TableContext {
  readonly clock: Clock;
  readonly options: Pick<ResolvedOptions, "enableLmq" | "flushConsumerOffsetInterval">;
  /** Makes durable what can be read now. */
  readonly forceLog: () => Promise<void>;
}

/** Whose offset in which queue. */
export interface ConsumerQueue {
  readonly group: string;
  readonly topic: string;
  /** @default 0 */
  readonly queueId?: number;
}

/** A group's offset in a queue. */
export interface ConsumerOffset extends Required<ConsumerQueue> {
  /** Queue offset of the next message that it wants. */
  readonly offset: QueueOffset;
}

export class ConsumerOffsets extends ConfigTable {
  readonly #options: OffsetsContext["options"];
  readonly #clock: Clock;
  readonly #forceLog: () => Promise<void>;
  /** By `topic@group`, then by queue. */
  #table = new Map<string, Map<number, QueueOffset>>();
  /** Of light queues, which are one queue each: by `topic@group`. */
  #light = new Map<string, QueueOffset>();
  /** Resets that no consumer has heard of, like `#table`. */
  readonly #resets = new Map<string, Map<number, QueueOffset>>();
  /** When a group last committed for a topic, monotonic ms, by `topic@group`. */
  readonly #committedAt = new Map<string, number>();
  /** The same for those in the file. */
  #loadedAt = 0;
  #commits = 0;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(context: OffsetsContext) {
    super(context, context.options.enableLmq ? "lmqConsumerOffset.json" : "consumerOffset.json");
    this.#options = context.options;
    this.#clock = context.clock;
    this.#forceLog = context.forceLog;
  }

  /**
   * Notes how far a group has come. The last call counts, whether it goes on or back.
   *
   * @param queue.offset Queue offset of the next message that it wants, from 0 on.
   * @returns `false` if a reset is pending, which {@linkcode ConsumerOffsets.takeReset} ends: then
   *   nothing was noted.
   * @throws {TypeError | RangeError} for names with `@` in the topic, and numbers out of range.
   */
  commit({ group, topic, queueId = 0, offset }: ConsumerQueue & { offset: QueueOffset }): boolean {
    this.context.checkWritable();
    const key = keyOf(group, topic);
    checkNumber("offset", offset, Number.MAX_SAFE_INTEGER);
    checkNumber("queueId", queueId, 2 ** 31 - 1);
    if (this.#resets.get(key)?.has(queueId)) return false;
    this.#set(group, key, queueId, offset);
    this.#committedAt.set(key, this.#clock.monotonic());
    this.#commits++;
    this.#touched(this.#commits % COMMITS_PER_VERSION === 0);
    return true;
  }

  /**
   * Where a group goes on in a queue: the offset of a pending reset, or what was committed.
   *
   * @returns `undefined` if it never committed (RocketMQ's -1).
   */
  get({ group, topic, queueId = 0 }: ConsumerQueue): QueueOffset | undefined {
    const key = keyOf(group, topic);
    return (
      this.#resets.get(key)?.get(queueId) ??
      (this.#isLight(group) ? this.#light.get(key) : this.#table.get(key)?.get(queueId))
    );
  }

  /**
   * Sets a group's offset for a consumer that is running: until {@linkcode ConsumerOffsets.takeReset} is
   * called for the queue its commits are not taken, since they come from before the reset. That state is in
   * memory only; the offset is committed as well.
   */
  reset({ group, topic, queueId = 0, offset }: ConsumerQueue & { offset: QueueOffset }): void {
    const key = keyOf(group, topic);
    this.#resets.get(key)?.delete(queueId);
    this.commit({ group, topic, queueId, offset });
    const resets = this.#resets.get(key) ?? new Map<number, QueueOffset>();
    this.#resets.set(key, resets.set(queueId, offset));
  }

  /** Ends a pending reset: the consumer has heard of it. @returns Its offset, if there was one. */
  takeReset({ group, topic, queueId = 0 }: ConsumerQueue): QueueOffset | undefined {
    const key = keyOf(group, topic);
    const resets = this.#resets.get(key);
    const offset = resets?.get(queueId);
    resets?.delete(queueId);
    if (resets?.size === 0) this.#resets.delete(key);
    return offset;
  }

  /** All offsets, or those of a group or a topic: by topic, group and queue. */
  list({
    group,
    topic,
  }: {
    readonly group?: string;
    readonly topic?: string;
  } = {}): ConsumerOffset[] {
    const found: ConsumerOffset[] = [];
    const take = (key: string, queues: Iterable<readonly [number, QueueOffset]>): void => {
      const names = namesOf(key);
      if (group !== undefined && names.group !== group) return;
      if (topic !== undefined && names.topic !== topic) return;
      for (const [queueId, offset] of queues) found.push({ ...names, queueId, offset });
    };
    for (const [key, queues] of this.#table) take(key, queues);
    for (const [key, offset] of this.#light) take(key, [[0, offset]]);
    return found.sort(
      (a, b) =>
        compare(a.topic, b.topic) || compare(a.group, b.group) || compare(a.queueId, b.queueId),
    );
  }

  /**
   * The offsets of groups that have committed for their topic in the last `ms`. Nobody knows when those
   * in the file did: for these it is when it was read.
   */
  active(ms: number): ConsumerOffset[] {
    const since = this.#clock.monotonic() - ms;
    const isActive = ({ topic, group }: ConsumerOffset): boolean =>
      (this.#committedAt.get(`${topic}@${group}`) ?? this.#loadedAt) > since;
    return this.list().filter(isActive);
  }

  /** Forgets every group's offsets in a topic. @returns How many queues of groups these were. */
  removeTopic(topic: string): number {
    return this.#remove((names) => names.topic === topic);
  }

  /** Forgets a group's offsets in every topic. @returns How many queues these were. */
  removeGroup(group: string): number {
    return this.#remove((names) => names.group === group);
  }

  /** No write begins by itself any more. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** A key with a third part belongs to somebody else (a proxy's broadcasts) and is left. */
  #remove(isMeant: (names: ReturnType<typeof namesOf>) => boolean): number {
    this.context.checkWritable();
    let removed = 0;
    const keys = [...this.#table.keys(), ...this.#light.keys(), ...this.#resets.keys()];
    for (const key of keys) {
      const names = namesOf(key);
      if (names.group.includes("@") || !isMeant(names)) continue;
      removed += this.#table.get(key)?.size ?? 0;
      this.#table.delete(key);
      if (this.#light.delete(key)) removed++;
      this.#resets.delete(key);
      this.#committedAt.delete(key);
    }
    if (removed > 0) this.#touched(true);
    return removed;
  }

  #set(group: string, key: string, queueId: number, offset: QueueOffset): void {
    if (this.#isLight(group)) {
      this.#light.set(key, offset);
      return;
    }
    const queues = this.#table.get(key);
    if (queues) queues.set(queueId, offset);
    else this.#table.set(key, new Map([[queueId, offset]]));
  }

  #isLight(group: string): boolean {
    return this.#options.enableLmq && group.startsWith(LIGHT_QUEUE_PREFIX);
  }

  #touched(counts: boolean): void {
    this.changed(counts);
    if (!this.#timer && !this.#stopped) this.#arm();
  }

  #arm(): void {
    this.#timer = this.#clock.setTimer(() => {
      this.#timer = undefined;
      this.flush().then(
        () => {
          if (this.isDirty && !this.#timer && !this.#stopped) this.#arm();
        },
        (error: Error) => {
          this.context.warn(`${error.message}; consumer offsets are only in memory`);
          if (!this.#timer && !this.#stopped) this.#arm();
        },
      );
    }, this.#options.flushConsumerOffsetInterval);
  }

  protected override beforeSave(): Promise<void> {
    return this.#forceLog();
  }

  protected override read(root: ConfigObject): void {
    const offsets = objectIn(root, "offsetTable");
    const table = new Map<string, Map<number, QueueOffset>>();
    for (const key of offsets.keys()) {
      const queues = objectIn(offsets, key);
      const read = new Map<number, QueueOffset>();
      for (const queueId of queues.keys()) {
        if (!/^-?\d{1,10}$/.test(queueId)) throw wrong(offsets, key, "a map by queue");
        read.set(Number(queueId), numberIn(queues, queueId, 0));
      }
      table.set(key, read);
    }
    const lights = objectIn(root, "lmqOffsetTable");
    const light = new Map([...lights.keys()].map((key) => [key, numberIn(lights, key, 0)]));
    // Made from the table, and not read by RocketMQ either.
    root.delete("groupTopicMap");
    this.#table = table;
    this.#light = light;
    this.#loadedAt = this.#clock.monotonic();
  }

  protected override members(): [string, ConfigValue][] {
    const table = [...this.#table].map(([key, queues]): [string, ConfigValue] => {
      const sorted = [...queues].sort(([a], [b]) => a - b);
      return [key, new ConfigObject(sorted.map(([queueId, offset]) => [String(queueId), offset]))];
    });
    const members: [string, ConfigValue][] = [
      ["offsetTable", new ConfigObject(table.sort(byName))],
    ];
    if (this.#options.enableLmq || this.#light.size > 0) {
      members.push(["lmqOffsetTable", new ConfigObject([...this.#light].sort(byName))]);
    }
    return members;
  }
}

/** `TOPIC_GROUP_SEPARATOR` is `@`. */
function keyOf(group: string, topic: string): string {
  for (const [what, name] of [
    ["group", group],
    ["topic", topic],
  ] as const) {
    if (typeof name !== "string" || name === "") {
      throw new TypeError(`Cannot use ${what} ${JSON.stringify(name)}: expected a name`);
    }
  }
  if (topic.includes("@")) throw new RangeError(`Cannot use topic "${topic}": it contains "@"`);
  return `${topic}@${group}`;
}

function namesOf(key: string): { readonly topic: string; readonly group: string } {
  const at = key.indexOf("@");
  return at < 0 ? { topic: key, group: "" } : { topic: key.slice(0, at), group: key.slice(at + 1) };
}

function compare<T extends string | number>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function checkNumber(name: string, value: number, greatest: number): void {
  if (!Number.isInteger(value) || value < 0 || value > greatest) {
    throw new RangeError(
      `Cannot commit ${name} ${value}: expected a whole number from 0 to ${greatest}`,
    );
  }
}
