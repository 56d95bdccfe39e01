/**
 * Names of topics and groups, as a broker takes them. RocketMQ: `TopicValidator`.
 *
 * @module
 */

import {
  DLQ_TOPIC_PREFIX,
  RETRY_TOPIC_PREFIX,
  SCHEDULE_TOPIC,
  SYSTEM_TOPIC_PREFIX,
} from "../message/property_names.ts";

/** `TopicValidator.TOPIC_MAX_LENGTH` and `GROUP_MAX_LENGTH`, in characters. */
const TOPIC_LENGTH_MAX = 127;
const GROUP_LENGTH_MAX = 120;

export const DEFAULT_TOPIC = "TBW102";

/** Topics of RocketMQ's own, with their number of queues. */
export const SYSTEM_TOPICS: ReadonlyMap<string, number> = new Map([
  [DEFAULT_TOPIC, 8],
  [SCHEDULE_TOPIC, 18],
  ["BenchmarkTest", 1024],
  ["SELF_TEST_TOPIC", 1],
  ["OFFSET_MOVED_EVENT", 1],
  ["RMQ_SYS_TRACE_TOPIC", 1],
  ["RMQ_SYS_TRANS_HALF_TOPIC", 1],
  ["RMQ_SYS_TRANS_OP_HALF_TOPIC", 1],
  ["RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 1],
  ["RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", 1],
  ["TRANS_CHECK_MAX_TIME_TOPIC", 1],
]);

/** A topic of RocketMQ's own, which no user makes, changes or removes. */
export function isSystemTopic(name: string): boolean {
  return SYSTEM_TOPICS.has(name) || name.startsWith(SYSTEM_TOPIC_PREFIX);
}

/** A topic that a group has for its retries or its dead letters. */
export function isGroupTopic(name: string): boolean {
  return name.startsWith(RETRY_TOPIC_PREFIX) || name.startsWith(DLQ_TOPIC_PREFIX);
}

/** @throws {TypeError | RangeError} if it is no name of a topic or group. */
export function checkName(what: "topic" | "group", name: string): void {
  if (typeof name !== "string") throw new TypeError(`Cannot use a ${what}: its name is no text`);
  const longest = what === "topic" ? TOPIC_LENGTH_MAX : GROUP_LENGTH_MAX;
  const reason =
    name.length > longest
      ? `its name has ${name.length} characters, the most are ${longest}`
      : /^[%|a-zA-Z0-9_-]+$/.test(name)
        ? undefined
        : "a name has letters, digits, %, |, _ and -";
  if (reason !== undefined) throw new RangeError(`Cannot use ${what} "${name}": ${reason}`);
}
