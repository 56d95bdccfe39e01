/**
 * Counts by name and key, each over a minute, an hour and a day. RocketMQ: `BrokerStatsManager` with its
 * `StatsItemSet`s, of which those that a store alone can tell.
 *
 * | name | key | value |
 * |---|---|---|
 * | `TOPIC_PUT_NUMS`, `TOPIC_PUT_SIZE` | topic | messages and bytes of records put |
 * | `GROUP_GET_NUMS`, `GROUP_GET_SIZE` | topic@group | messages and bytes got |
 * | `BROKER_PUT_NUMS`, `BROKER_GET_NUMS` | `""` | messages of all topics |
 * | `GROUP_GET_FALL_SIZE`, `GROUP_GET_FALL_TIME` | queue@topic@group | the last value only: bytes and ms behind the log's end |
 *
 * Bounded: no more than {@linkcode ITEMS_MAX} keys, of which those that rested longest go first; keys that
 * rested for a day, and those of topics that are gone, go anyway.
 *
 * @module
 */

import { CountWindow } from "./count_window.ts";

export type StatName =
  | "TOPIC_PUT_NUMS"
  | "TOPIC_PUT_SIZE"
  | "GROUP_GET_NUMS"
  | "GROUP_GET_SIZE"
  | "BROKER_PUT_NUMS"
  | "BROKER_GET_NUMS"
  | "GROUP_GET_FALL_SIZE"
  | "GROUP_GET_FALL_TIME";

/** What was counted in a time. */
export interface StatSnapshot {
  readonly sum: number;
  /** Sum by second. */
  readonly tps: number;
  /** Calls that counted something, and the average of what they did. */
  readonly times: number;
  readonly average: number;
}

export interface StatItem {
  readonly name: StatName;
  readonly key: string;
  /** Since the store was opened; of `GROUP_GET_FALL_*` the last value. */
  readonly value: number;
  readonly times: number;
  readonly minute: StatSnapshot;
  readonly hour: StatSnapshot;
  readonly day: StatSnapshot;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** RocketMQ's sampling: 10 s for a minute, 10 min for an hour, 1 h for a day. */
const WINDOWS = [
  { name: "minute", ms: MINUTE, stepMs: 10 * SECOND },
  { name: "hour", ms: HOUR, stepMs: 10 * MINUTE },
  { name: "day", ms: DAY, stepMs: HOUR },
] as const;
export const ITEMS_MAX = 20_000;

class Item {
  readonly name: StatName;
  readonly key: string;
  value = 0;
  times = 0;
  /** Monotonic ms. */
  changedAt: number;
  readonly #values: CountWindow[] = [];
  readonly #times: CountWindow[] = [];

  constructor(name: StatName, key: string, now: number) {
    this.name = name;
    this.key = key;
    this.changedAt = now;
    for (const { ms, stepMs } of WINDOWS) {
      for (const windows of [this.#values, this.#times]) {
        const window = new CountWindow(stepMs, ms / stepMs);
        window.sample(now, 0);
        windows.push(window);
      }
    }
  }

  sample(now: number): void {
    for (const window of this.#values) window.sample(now, this.value, this.changedAt);
    for (const window of this.#times) window.sample(now, this.times, this.changedAt);
  }

  toStatItem(now: number): StatItem {
    const { name, key, value, times } = this;
    this.sample(now);
    const isLast = name.startsWith("GROUP_GET_FALL");
    const snapshots = WINDOWS.map(({ ms }, i): StatSnapshot => {
      const { by, inMs } = (this.#values[i] as CountWindow).grown(now, value, ms);
      const { by: calls } = (this.#times[i] as CountWindow).grown(now, times, ms);
      if (isLast) return { sum: 0, tps: 0, times: calls, average: 0 };
      // What is a second old tells of a second at least.
      const seconds = Math.max(inMs, SECOND) / SECOND;
      return { sum: by, tps: by / seconds, times: calls, average: calls === 0 ? 0 : by / calls };
    });
    const [minute, hour, day] = snapshots as [StatSnapshot, StatSnapshot, StatSnapshot];
    return { name, key, value, times, minute, hour, day };
  }
}

export class StatItems {
  readonly #items = new Map<StatName, Map<string, Item>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Counts `value` in one call. @param now Monotonic ms. */
  add(name: StatName, key: string, value: number, now: number): void {
    const item = this.#item(name, key, now);
    item.sample(now);
    item.value += value;
    item.times++;
    item.changedAt = now;
  }

  /** The count is `value` since `now`, of `times` calls. */
  set(name: StatName, key: string, value: number, times: number, now: number): void {
    const item = this.#item(name, key, now);
    if (item.times === times && item.value === value) return;
    item.value = value;
    item.times = times;
    item.changedAt = now;
  }

  /** Looks at all counts; to be called every 10 s while something is counted. */
  sample(now: number, isTopic: (topic: string) => boolean): void {
    for (const [name, items] of this.#items) {
      for (const item of items.values()) {
        const isGone = now - item.changedAt > DAY || !isTopic(topicOf(name, item.key));
        if (isGone) this.#delete(item);
        else item.sample(now);
      }
    }
  }

  /** Forgets all counts of a topic. */
  deleteTopic(topic: string): void {
    for (const [name, items] of this.#items) {
      for (const item of items.values()) if (topicOf(name, item.key) === topic) this.#delete(item);
    }
  }

  list(now: number, name?: StatName): StatItem[] {
    const names = name === undefined ? [...this.#items.keys()] : [name];
    return names.flatMap((one) =>
      [...(this.#items.get(one)?.values() ?? [])].map((item) => item.toStatItem(now)),
    );
  }

  #item(name: StatName, key: string, now: number): Item {
    let items = this.#items.get(name);
    if (!items) {
      items = new Map();
      this.#items.set(name, items);
    }
    let item = items.get(key);
    if (!item) {
      if (this.#size >= ITEMS_MAX) this.#forgetSome();
      item = new Item(name, key, now);
      items.set(key, item);
      this.#size++;
    }
    return item;
  }

  /** Makes room: a tenth at once, so that it does not happen with each new key. */
  #forgetSome(): void {
    const all = [...this.#items.values()].flatMap((items) => [...items.values()]);
    all.sort((a, b) => a.changedAt - b.changedAt);
    for (const item of all.slice(0, ITEMS_MAX / 10)) this.#delete(item);
  }

  #delete({ name, key }: Item): void {
    if (this.#items.get(name)?.delete(key)) this.#size--;
  }
}

/** The topic in a key; `""` in those of the broker. */
function topicOf(name: StatName, key: string): string {
  if (name.startsWith("TOPIC")) return key;
  const parts = key.split("@");
  return (name.startsWith("GROUP_GET_FALL") ? parts[1] : parts[0]) ?? "";
}
