// biome-ignore-all lint/suspicious/noTemplateCurlyInString: whoever carries out a script fills in the number of the repeat

/**
 * Scripts in the oracle's language, which RocketMQ's store and ours carry out.
 *
 * @module
 */

import type { JavaVersion, Script } from "../support/oracle.ts";
import { SIZES } from "./forcelog.ts";

type Step = Readonly<Record<string, unknown>>;

const V6_BORN = "[2001:db8::1]:54321";
const V6_STORE = "[2001:db8:0:1:2:3:4:7]:10911";

/** Records of every kind that all versions know. */
const EVERYTHING: readonly Step[] = [
  // Bodies, keys, tags, ids.
  {
    topic: "TopicTest",
    queueId: 3,
    body: "order paid",
    keys: "order-1001 order-1001b",
    tags: "refund",
    uniqKey: "C0A8010A1F4018B4AAC25ED7C9000000",
    properties: { CLUSTER: "DefaultCluster", price: "12.50" },
  },
  {
    topic: "TopicTest",
    queues: 3,
    repeat: 40,
    body: { size: 200, seed: 1, grow: 13 },
    keys: "k${i}",
  },
  { topic: "Empty", body: "" },
  {
    topic: "Binary",
    body: { base64: Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString("base64") },
  },
  { topic: "Zeros", body: { base64: Buffer.alloc(300).toString("base64") } },
  { topic: "Large", body: { size: 32_768, seed: 7 } },
  // Numbers at their ends.
  { topic: "Flags", flag: -2147483648, body: "f" },
  { topic: "Flags", flag: 2147483647, reconsumeTimes: 16, bornTimestamp: 0, body: "f" },
  { topic: "Flags", sysFlag: 0x701, body: { base64: "eJwDAAAAAAE=" } },
  { topic: "Flags", sysFlag: 0x302, body: "multi" },
  // Hosts: both of either family.
  { topic: "Hosts", body: "4 4", bornHost: "255.255.255.255:65535", storeHost: "0.0.0.0:0" },
  { topic: "Hosts", body: "6 4", bornHost: V6_BORN },
  { topic: "Hosts", body: "4 6", storeHost: V6_STORE },
  { topic: "Hosts", body: "6 6", bornHost: V6_BORN, storeHost: V6_STORE, tags: "v6", keys: "six" },
  // Text.
  {
    topic: "主题",
    body: "正文 🚀",
    tags: "标签",
    keys: "键 キー",
    properties: { 名: "值 🎉", é: "ß" },
  },
  { topic: "%RETRY%group", queueId: 0, body: "again", reconsumeTimes: 3, tags: "TagA" },
  { topic: "x".repeat(127), body: "the longest topic of version 1", tags: "t" },
  { topic: "Text", body: "raw", propertiesString: "a\u0001b" },
  { topic: "Text", body: "raw", propertiesString: "KEYS\u0001k\u0002TAGS\u0001tag\u0002" },
  { topic: "Text", body: "long", properties: { long: "v".repeat(20_000) } },
  // Tags: equal hashes, the least of all hashes, none.
  { topic: "Tags", body: "1", tags: "Aa" },
  { topic: "Tags", body: "2", tags: "BB" },
  { topic: "Tags", body: "3", tags: "polygenelubricants" },
  { topic: "Tags", body: "4", tags: "中文" },
  { topic: "Tags", body: "5" },
  { topic: "Tags", repeat: 30, body: "${i}", tags: "tag-${i}" },
  // Puts that do not wait, and many at once.
  { topic: "Loose", queues: 2, repeat: 10, body: "loose ${i}", wait: false },
  { topic: "Loose", queues: 2, repeat: 40, from: 10, body: { size: 700 }, async: true },
  // Transactions by their bits: prepared and rolled back ones enter no queue.
  { topic: "Pay", sysFlag: 4, body: "prepared", keys: "p1", tags: "T" },
  { topic: "Pay", body: "normal" },
  { topic: "Pay", sysFlag: 12, body: "rollback", preparedTransactionOffset: 4711 },
  { topic: "Pay", sysFlag: 8, body: "commit", preparedTransactionOffset: 77, tags: "T" },
  { topic: "Pay", body: "normal" },
  // Batches.
  {
    op: "putBatch",
    topic: "Batch",
    queueId: 3,
    messages: [
      { body: "m1", tags: "TagA", keys: "ka", flag: 9 },
      { body: "", keys: "kb" },
      { body: { size: 300, seed: 1 }, properties: { a: "b" } },
    ],
  },
  { op: "putBatch", topic: "Batch", bornHost: V6_BORN, messages: [{ body: "one alone" }] },
  { topic: "Batch", queueId: 3, body: "between" },
  {
    op: "putBatch",
    topic: "Batch",
    messages: [{ body: { size: 100, seed: 4, grow: 7 }, repeat: 40, tags: "small" }],
  },
  // Many topics and queues, and a queue of several files.
  { topic: "many-${i}", queueId: 1, repeat: 30, body: "${i}", tags: "m", async: true },
  { topic: "Queues", queues: 20, repeat: 60, body: "${i}", async: true },
  { topic: "Long", repeat: 350, body: "${i}", tags: "t${i}", async: true },
  { op: "sleep", ms: 30 },
  { topic: "Long", repeat: 3, from: 350, body: "${i}" },
];

/**
 * With its pool RocketMQ knows the place of the next record only once all others are in their files.
 * Its own service has to write them: a flush from outside meanwhile garbles its files.
 */
function settled({ transientStorePoolEnable }: Script["config"]): readonly Step[] {
  return transientStorePoolEnable === true ? [{ op: "sleep", ms: 300 }] : [];
}

/**
 * Brings the log to the middle of a new file: a file holds one such record, so the second one is in
 * a file of its own, with 32,536 bytes behind it.
 */
function halfAFile(config: Script["config"]): readonly Step[] {
  return [{ topic: "Half", body: { record: 33_000 }, repeat: 2 }, ...settled(config)];
}

/** Records that end at the last bytes of a file, and those that just do not fit. */
function boundaries(config: Script["config"]): readonly Step[] {
  return [
    // The least room that may be left is 8 bytes: the blank record that closes a file.
    ...[7, 8, 9, 15, 16, 100, 0].flatMap((leave) => [
      ...halfAFile(config),
      { topic: "Edge", body: { leave, seed: leave }, tags: "edge" },
      { topic: "Edge", body: "behind" },
    ]),
    ...halfAFile(config),
    { topic: "Edge", body: { leave: 8 } },
    { topic: "Edge", body: { record: 4096 }, repeat: 3 },
    // Batches move on whole.
    ...[2, 3, 4].map((seed) => ({
      op: "putBatch",
      topic: "Edge",
      messages: [{ body: { size: 5000, seed }, repeat: 6 }],
    })),
    // Queue files of 100 units: filled to the last, and one more.
    { topic: "Hundred", repeat: 100, body: "${i}", async: true },
    { topic: "HundredAndOne", repeat: 101, body: "${i}", async: true },
    { topic: "NinetyNine", repeat: 99, body: "${i}", async: true },
  ];
}

/** Topics of more than 127 bytes have records of version 2, which came with 5.0. */
function longTopics(config: Script["config"]): readonly Step[] {
  const shortest = "y".repeat(128);
  return [
    { topic: shortest, body: "1", tags: "TagA", keys: "k" },
    { topic: "z".repeat(255), body: "2", bornHost: V6_BORN, storeHost: V6_STORE },
    { topic: "%RETRY%".padEnd(200, "r"), queues: 3, repeat: 9, body: "${i}" },
    {
      op: "putBatch",
      topic: "b".repeat(130),
      messages: [{ body: "1" }, { body: "2", tags: "TagB" }],
    },
    ...halfAFile(config),
    { topic: shortest, body: { leave: 8 } },
    { topic: shortest, body: "behind" },
  ];
}

/** What only Java's side can be asked for: delays, and transactions as a broker writes them. */
function brokerRecords(config: Script["config"]): readonly Step[] {
  const half = { topic: "Pay", tran: "half" };
  return [
    { topic: "Later", body: "level 18", queueId: 1, delayLevel: 18, tags: "d", uniqKey: "D18" },
    { topic: "Later", body: "level 19 is 18", queueId: 2, delayLevel: 19 },
    { topic: "Later", body: "not delayed", delayLevel: 0 },
    { ...half, body: "pay 0", queueId: 2, id: "h0", keys: "pay-0", uniqKey: "TX0" },
    { ...half, body: "pay 1", queueId: 1, id: "h1", tags: "TagT" },
    ...settled(config),
    { op: "commit", half: "h0" },
    { op: "op", halves: ["h0", "h1"] },
  ];
}

/**
 * And what our side takes in their place: the records as they lie in the log. Of the longest levels,
 * since the store of 4.9 delivers by itself what is due.
 */
const RAW_DELAYS: readonly Step[] = [17, 18].map((level) => ({
  topic: "SCHEDULE_TOPIC_XXXX",
  queueId: level - 1,
  body: `level ${level}`,
  tags: "d",
  properties: { DELAY: String(level), REAL_TOPIC: "Later", REAL_QID: "1" },
}));

/** What both sides carry out to the letter. */
export function sharedSteps(version: JavaVersion, config: Script["config"]): readonly Step[] {
  const long = version.startsWith("4.") ? [] : longTopics(config);
  return [...EVERYTHING, ...boundaries(config), ...long];
}

export function scriptForUs(
  version: JavaVersion,
  config: Script["config"],
  end: "shutdown" | "halt",
): Script {
  return script([...RAW_DELAYS, ...sharedSteps(version, config)], config, end);
}

export function scriptForJava(
  version: JavaVersion,
  config: Script["config"],
  end: "shutdown" | "halt",
): Script {
  const steps = [...sharedSteps(version, config), ...brokerRecords(config)];
  return script([...steps, { op: "waitDispatched" }], config, end);
}

export function script(
  steps: readonly Step[],
  config: Script["config"],
  end: "shutdown" | "halt" = "shutdown",
): Script {
  return { config: { ...SIZES, ...config }, steps, end };
}
