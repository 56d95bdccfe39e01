// Batch queues (queue.type=BatchCQ) and inner batches that one side has written are read by the other:
// RocketMQ's own store and ours, after a clean stop and after a process that ended without one.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { innerMessagesOf, MessageStore, type StoreOptions } from "../../lib/mod.ts";
import type { JavaVersion, Line, Oracle, Script } from "../support/oracle.ts";
import { copyOf, dump, javaDump, oracleFor, run, SIZES, takeTurns } from "./forcelog.ts";
import { difference, faultsOf, viewOf } from "./views.ts";

const oracle = oracleFor(t);
const VERSIONS = ["5.3.3", "5.5.1"] as const satisfies readonly JavaVersion[];

/** Files of ten units. */
const CONFIG = { ...SIZES, mapperFileSizeBatchConsumeQueue: 460 };
const TOPICS = { Batch: { "queue.type": "BatchCQ" } };
const QUEUES = [0, 1];

function scriptOf(end: string, from = 0): Script {
  const of = { topic: "Batch", queues: QUEUES.length, from };
  const messages = [{ body: "a" }, { body: "b", tags: "inner", keys: "k" }, { body: "c" }];
  const inner = { ...of, op: "putBatch", innerBatch: true, messages, tags: "TagB" };
  return {
    config: CONFIG,
    topics: TOPICS,
    steps: [
      { ...of, op: "put", repeat: 14, body: "single", tags: "TagA" },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the script's own
      { ...inner, repeat: 16, uniqKey: "U-${i}" },
      { ...of, op: "putBatch", repeat: 4, messages },
      { op: "put", topic: "Plain", repeat: 5, body: "plain" },
      { op: "waitDispatched" },
    ],
    end,
  } as Script;
}

/** What reads at all offsets, some times and with a filter answer. */
const READS = QUEUES.flatMap((queueId) => {
  const of = { topic: "Batch", queueId };
  const gets = Array.from({ length: 46 }, (_, i) => i - 1).map((offset) => ({
    ...{ read: "getMessage", ...of, offset, maxMsgNums: 7 },
  }));
  const filtered = [0, 8, 20].map((offset) => ({
    ...{ read: "getMessage", ...of, offset, maxMsgNums: 32, tags: "TagB" },
  }));
  return [...gets, ...filtered];
});

async function javaReads(java: Oracle, version: JavaVersion, dir: string): Promise<unknown[]> {
  const script = { config: CONFIG, topics: TOPICS, reads: READS };
  const lines: Line[] = await java.run(version, "read", copyOf(dir), script);
  return lines.filter((line) => "nextBeginOffset" in line).map((line) => answerOf(line));
}

async function ourReads(dir: string): Promise<unknown[]> {
  await using store = await MessageStore.open(dir, CONFIG as StoreOptions, { readOnly: true });
  const answers: unknown[] = [];
  for (const { topic, queueId, offset, maxMsgNums, ...rest } of READS) {
    const filter = "tags" in rest ? { filter: rest.tags as string } : {};
    const get = { topic, queueId, offset, maxMessages: maxMsgNums, ...filter };
    const { messages, ...result } = await store.get(get);
    const places = messages.map(({ queueOffset, physicalOffset, size }) => [
      ...[queueOffset, physicalOffset, size],
    ]);
    answers.push(answerOf({ ...result, messages: places }));
  }
  return answers;
}

function answerOf({ status, messages, nextBeginOffset }: Line): unknown {
  return { status, messages, nextBeginOffset };
}

/** All files of batch queues, without store times. */
function unitsIn(dir: string): Record<string, string> {
  const units: Record<string, string> = {};
  for (const queueId of QUEUES) {
    const folder = join(dir, "batchconsumequeue", "Batch", String(queueId));
    for (const name of readdirSync(folder)) {
      const bytes = readFileSync(join(folder, name));
      for (let at = 20; at < bytes.length; at += 46) bytes.fill(0, at, at + 8);
      units[`${queueId}/${name}`] = bytes.toString("hex");
    }
  }
  return units;
}

async function agree(t: Test, java: Oracle, version: JavaVersion, dir: string): Promise<void> {
  const ours = await dump(dir, CONFIG);
  const theirs = await javaDump(java, version, dir, CONFIG, TOPICS);
  t.same([...faultsOf(ours), ...faultsOf(theirs)], []);
  // Of batch queues Java's side tells the bounds only.
  for (const { queues } of [ours, theirs]) {
    for (const queue of queues) if (queue.topic === "Batch") Object.assign(queue, { units: [] });
  }
  t.equal(difference(viewOf(theirs), viewOf(ours)), undefined);
  const found = await ourReads(dir);
  t.same(found, await javaReads(java, version, dir));
}

if (oracle) {
  t.jobs = 2;
  t.testdir();
  for (const version of VERSIONS) {
    for (const end of ["shutdown", "halt"]) {
      t.test(
        `${version} and we write the same batch queues, and read each other's: ${end}`,
        async (t) => {
          const folder = t.testdir({ ours: {}, theirs: {} });
          const [ours, theirs] = [join(folder, "ours"), join(folder, "theirs")];
          await run(ours, scriptOf(end));
          await oracle.run(version, "write", theirs, scriptOf(end));
          await agree(t, oracle, version, ours);
          await agree(t, oracle, version, theirs);
          // 5.3.3 adds the properties of an ordinary batch to its members: other places in the log.
          if (end === "shutdown" && version === "5.5.1") t.same(unitsIn(ours), unitsIn(theirs));
        },
      );
    }

    t.test(`${version} and we go on with each other's batch queues`, async (t) => {
      const dir = join(t.testdir({ store: {} }), "store");
      await takeTurns(oracle, version, dir, scriptOf);
      await agree(t, oracle, version, dir);
    });
  }

  t.test("an inner batch of RocketMQ's own is unpacked", async (t) => {
    const dir = join(t.testdir({ store: {} }), "store");
    await oracle.run("5.5.1", "write", dir, scriptOf("shutdown"));
    await using store = await MessageStore.open(dir, CONFIG as StoreOptions, { readOnly: true });
    const { messages } = await store.get({ topic: "Batch", offset: 8, maxMessages: 1 });
    const inner = innerMessagesOf(messages[0] as NonNullable<(typeof messages)[0]>);
    t.same(
      inner?.map(({ queueOffset, body, properties }) => [
        ...[queueOffset, body.toString(), properties.get("KEYS")],
      ]),
      [
        [7, "a", undefined],
        [8, "b", "k"],
        [9, "c", undefined],
      ],
    );
  });
}
