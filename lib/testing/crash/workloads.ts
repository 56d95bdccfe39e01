/**
 * The workloads that ship with the explorer: short ones that are each about one thing, and one that
 * does whatever chance has it do.
 *
 * @module
 */

import type { StoreOptions } from "../../options.ts";
import type { Random } from "../random.ts";
import type { MessageSpec } from "./planned_message.ts";
import { oneOf } from "./seeds.ts";
import type { Stage, Workload } from "./workload.ts";

const KIB = 1024;

/** The type bits of a transaction's first half: it enters no queue. */
const TRANSACTION_PREPARED = 0x4;

/** The bits of an inner batch. */
const INNER_BATCH = 0xc0;

/** A topic of more than 127 bytes: its records are of version 2. */
const LONG_TOPIC = `%RETRY%${"long-".repeat(28)}`;

/** Files that a few messages fill. */
function small(more: StoreOptions = {}): StoreOptions {
  return {
    mappedFileSizeCommitLog: 4 * KIB,
    mappedFileSizeConsumeQueue: 400,
    maxHashSlotNum: 20,
    maxIndexNum: 30,
    maxMessageSize: 3 * KIB,
    ...more,
  };
}

/** One put after the other. */
async function putAll(stage: Stage, messages: Iterable<MessageSpec>): Promise<void> {
  for (const message of messages) await stage.put(message);
}

function* numbered(count: number, of: (i: number) => MessageSpec): Generator<MessageSpec> {
  for (let i = 0; i < count; i++) yield of(i);
}

const first: Workload = {
  name: "first",
  about: "a new store and its first messages, one by one and together",
  options: () => small(),
  async run(stage) {
    await stage.put({ topic: "first", tags: "a" });
    await stage.put({ topic: "first", bodyBytes: 0, keys: ["k1", "k2"] });
    await Promise.all([
      stage.put({ topic: "first", bodyBytes: 600 }),
      stage.put({ topic: "second", queueId: 3 }),
      stage.put({ topic: "first", queueId: 1, bodyBytes: 1 }),
    ]);
    await stage.readBack(2);
  },
};

const rolls: Workload = {
  name: "rolls",
  about: "the log goes on from file to file, the queues from file to file",
  options: () => small({ mappedFileSizeConsumeQueue: 100 }),
  async run(stage) {
    await putAll(
      stage,
      numbered(24, (i) => ({ topic: "rolls", queueId: i % 2, bodyBytes: (i * 397) % 1500 })),
    );
    // Two that leave next to nothing in their file, and one that just fits.
    await Promise.all([
      stage.put({ topic: "rolls", bodyBytes: 2900 }),
      stage.put({ topic: "rolls", bodyBytes: 2800 }),
      stage.put({ topic: "rolls", bodyBytes: 30 }),
    ]);
    await stage.readBack(3);
  },
};

const queues: Workload = {
  name: "queues",
  about: "many topics and queues, records of both versions, written by rounds of the services",
  options: () =>
    small({
      mappedFileSizeConsumeQueue: 60,
      flushConsumeQueueLeastPages: 0,
      flushIntervalConsumeQueue: 100,
      flushConsumeQueueThoroughInterval: 300,
      // So that no torn record can pass for a whole one.
      enabledAppendPropCRC: true,
      forceVerifyPropCRC: true,
    }),
  async run(stage) {
    for (let round = 0; round < 4; round++) {
      await Promise.all([
        stage.put({ topic: "a", queueId: round % 2 }),
        stage.put({ topic: "b", bodyBytes: 40, tags: "t" }),
        stage.put({ topic: LONG_TOPIC, queueId: 7, properties: { p: "ä" } }),
        stage.put({ topic: "a", sysFlag: TRANSACTION_PREPARED, properties: { TRAN_MSG: "true" } }),
        stage.put({ topic: `only-${round}`, bodyBytes: 5 }),
      ]);
      await stage.pass(170);
    }
    await stage.checkpoint();
    await stage.put({ topic: "b" });
  },
};

const batches: Workload = {
  name: "batches",
  about: "batches and single messages of callers that do not wait for one another",
  options: () => small({ mappedFileSizeCommitLog: 8 * KIB }),
  async run(stage) {
    const caller = async (queueId: number): Promise<void> => {
      for (let i = 0; i < 4; i++) {
        const count = 1 + ((queueId + i) % 5);
        const batch = Array.from({ length: count }, (_, k) => ({
          topic: "batches",
          queueId,
          bodyBytes: (k * 211 + i * 37) % 500,
          tags: `t${k}`,
        }));
        await stage.putBatch(batch);
        await stage.put({ topic: "batches", queueId, bodyBytes: 20 });
      }
    };
    await Promise.all([caller(0), caller(1), caller(2)]);
    await stage.flush();
    await stage.putBatch([
      { topic: "batches", bodyBytes: 1500 },
      { topic: "batches", bodyBytes: 1200 },
    ]);
  },
};

const loose: Workload = {
  name: "loose",
  about: "messages that do not wait for their store, among others that do",
  options: () => small({ mappedFileSizeCommitLog: 8 * KIB }),
  async run(stage) {
    for (let i = 0; i < 6; i++) {
      await Promise.all([
        stage.put({ topic: "loose", waitStoreMsgOK: i % 2 === 0, bodyBytes: 50 + 90 * i }),
        stage.put({ topic: "loose", queueId: 1, waitStoreMsgOK: false }),
      ]);
      if (i === 3) await stage.durable();
    }
    await stage.pass(250);
    await stage.readBack(3);
    await stage.put({ topic: "loose", waitStoreMsgOK: false });
  },
};

const time: Workload = {
  name: "time",
  about: "time passes: commits, forces and rounds of the queues come by their intervals",
  options: () => small({ mappedFileSizeCommitLog: 16 * KIB, maxMessageSize: 12 * KIB }),
  async run(stage) {
    await stage.put({ topic: "time", bodyBytes: 300 });
    await stage.pass(600);
    await putAll(
      stage,
      numbered(6, (i) => ({ topic: "time", queueId: i % 3, bodyBytes: 2500 })),
    );
    await stage.pass(700);
    await Promise.all([stage.put({ topic: "time" }), stage.put({ topic: "time" })]);
    await stage.pass(11_000);
    await stage.put({ topic: "time", bodyBytes: 9000 });
    await stage.pass(61_000);
    await stage.put({ topic: "time" });
    await stage.durable();
    await stage.put({ topic: "late" });
  },
};

const reopen: Workload = {
  name: "reopen",
  about: "closed and opened again, killed and opened again, and once the power is cut",
  options: () => small({ mappedFileSizeConsumeQueue: 100 }),
  async run(stage) {
    const some = (count: number) =>
      putAll(
        stage,
        numbered(count, (i) => ({ topic: "reopen", queueId: i % 2, bodyBytes: 60 + 150 * i })),
      );
    await some(7);
    await stage.reopen();
    await some(6);
    await stage.kill();
    await stage.readBack(2);
    await some(5);
    await Promise.all([
      stage.put({ topic: "reopen" }),
      stage.put({ topic: "reopen" }),
      stage.cut(),
    ]);
    await some(4);
    await stage.checkpoint();
    await some(3);
    await stage.reopen();
    await some(1);
  },
};

const large: Workload = {
  name: "large",
  about: "bodies of many sectors and pages beside tiny ones",
  options: () => ({
    mappedFileSizeCommitLog: 64 * KIB,
    mappedFileSizeConsumeQueue: 2000,
    maxHashSlotNum: 100,
    maxIndexNum: 400,
    maxMessageSize: 48 * KIB,
  }),
  async run(stage) {
    await stage.put({ topic: "large", bodyBytes: 9000 });
    await Promise.all([
      stage.put({ topic: "large", bodyBytes: 20_000 }),
      stage.put({ topic: "large", bodyBytes: 3 }),
      stage.put({ topic: "large", queueId: 1, bodyBytes: 5000 }),
    ]);
    await stage.pass(600);
    await stage.put({ topic: "large", bodyBytes: 40_000 });
    await Promise.all([
      stage.put({ topic: "large", bodyBytes: 30_000 }),
      stage.put({ topic: "large", bodyBytes: 0 }),
    ]);
    await stage.readBack(2);
  },
};

const keys: Workload = {
  name: "keys",
  about: "index files that are filled, made durable at different times, and killed at times",
  callsPerCut: 2,
  options: () =>
    small({ maxHashSlotNum: 5, maxIndexNum: 8, flushConsumeQueueThoroughInterval: 200 }),
  async run(stage) {
    const message = (i: number): MessageSpec => ({
      topic: i % 3 === 0 ? "keys" : "others",
      bodyBytes: 30,
      keys: [`k${i}`, "all", ...(i % 4 === 0 ? ["all", "a b"] : [])],
      ...(i % 5 === 0 ? { tags: "t" } : {}),
    });
    for (let round = 0; round < 3; round++) {
      await putAll(
        stage,
        numbered(4, (i) => message(round * 6 + i)),
      );
      await Promise.all([stage.put(message(round * 6 + 4)), stage.put(message(round * 6 + 5))]);
      await (round === 0 ? stage.checkpoint() : stage.pass(250));
      if (round === 1) await stage.kill();
    }
  },
};

const behind: Workload = {
  name: "behind",
  about: "the log runs ahead of its queues, and has to wait for them",
  options: () => small({ mappedFileSizeCommitLog: 1 * KIB, maxMessageSize: 800 }),
  async run(stage) {
    const caller = (queueId: number) =>
      putAll(
        stage,
        numbered(16, (i) => ({ topic: "behind", queueId, bodyBytes: 500 + ((i * 53) % 250) })),
      );
    await Promise.all([caller(0), caller(1)]);
  },
};

const elsewhere: Workload = {
  name: "elsewhere",
  about: "the log lies in another folder than the rest of the store; killed at times",
  options: () => small({ storePathCommitLog: "/log/commitlog", enabledAppendPropCRC: true }),
  async run(stage) {
    for (let round = 0; round < 3; round++) {
      const caller = (queueId: number) =>
        putAll(
          stage,
          numbered(4, (i) => ({ topic: "elsewhere", queueId, bodyBytes: 300 + 150 * i })),
        );
      await Promise.all([caller(0), caller(1)]);
      if (round < 2) await stage.kill();
    }
    await stage.readBack(2);
  },
};

const light: Workload = {
  name: "light",
  about: "messages that enter light queues besides their own",
  options: () =>
    small({
      mappedFileSizeConsumeQueue: 60,
      enableLmq: true,
      enableMultiDispatch: true,
      flushConsumeQueueLeastPages: 0,
      flushIntervalConsumeQueue: 100,
      enabledAppendPropCRC: true,
      forceVerifyPropCRC: true,
    }),
  async run(stage) {
    const message = (i: number): MessageSpec => ({
      topic: "light",
      queueId: i % 2,
      bodyBytes: 40 * (i % 9),
      properties: { INNER_MULTI_DISPATCH: i % 3 === 0 ? "%LMQ%a" : "%LMQ%a,%LMQ%b" },
    });
    for (let round = 0; round < 3; round++) {
      await putAll(stage, numbered(4, message));
      await Promise.all([stage.put(message(round)), stage.put({ topic: "light" })]);
      await stage.pass(130);
      if (round === 1) await stage.kill();
    }
    await stage.readBack(2);
  },
};

const expiring: Workload = {
  name: "expiring",
  about: "files of the log are deleted, asked for and by themselves, and the queues follow",
  options: () =>
    small({
      mappedFileSizeConsumeQueue: 60,
      commitLogMaxBytes: 12 * KIB,
      deleteWhen: "",
      flushConsumeQueueLeastPages: 0,
      flushIntervalConsumeQueue: 100,
    }),
  async run(stage) {
    const some = (count: number, topic: string) =>
      putAll(
        stage,
        numbered(count, (i) => ({ topic, queueId: i % 2, bodyBytes: 400 + ((i * 397) % 900) })),
      );
    await some(3, "early");
    await some(14, "expiring");
    await stage.clean();
    await stage.readBack(2);
    await Promise.all([some(9, "expiring"), stage.clean(), stage.clean()]);
    await stage.kill();
    await some(7, "expiring");
    await stage.pass(75_000);
    await some(6, "expiring");
    await Promise.all([stage.clean(), stage.put({ topic: "early" })]);
    await stage.reopen();
    await stage.readBack(2);
  },
};

const deleting: Workload = {
  name: "deleting",
  about: "topics are deleted, put to again, and deleted while they are put to; killed at times",
  options: () =>
    small({
      mappedFileSizeConsumeQueue: 60,
      enableConsumeQueueExt: true,
      mappedFileSizeConsumeQueueExt: 87,
      mapperFileSizeBatchConsumeQueue: 138,
      flushConsumeQueueLeastPages: 0,
      flushIntervalConsumeQueue: 100,
      enabledAppendPropCRC: true,
      forceVerifyPropCRC: true,
    }),
  async run(stage) {
    if ((await stage.topic("b", { attributes: { "queue.type": "BatchCQ" } })) !== "done") return;
    const some = (count: number, topic: string) =>
      putAll(
        stage,
        numbered(count, (i) => ({ topic, queueId: i % 2, bodyBytes: 40 + 90 * i, keys: ["k"] })),
      );
    await some(5, "a");
    await some(2, "b");
    await stage.checkpoint();
    await some(3, "a");
    await stage.deleteTopics(["a"]);
    await some(1, "b");
    await some(3, "a");
    await Promise.all([some(4, "a"), stage.deleteTopics(["a", "b"]), some(2, "c")]);
    await stage.pass(150);
    await some(2, "a");
    await stage.kill();
    await some(2, "b");
    await Promise.all([stage.deleteTopics(["c"]), stage.checkpoint()]);
    await stage.reopen();
    await some(2, "c");
    await stage.readBack(2);
    await stage.deleteTopics(["c", "b"]);
  },
};

const extensions: Workload = {
  name: "extensions",
  about: "queues with extensions, and batch queues: their files roll, are killed, and expire",
  options: () =>
    small({
      mappedFileSizeConsumeQueue: 100,
      enableConsumeQueueExt: true,
      mappedFileSizeConsumeQueueExt: 87,
      mapperFileSizeBatchConsumeQueue: 138,
      flushConsumeQueueLeastPages: 0,
      flushIntervalConsumeQueue: 100,
      commitLogMaxBytes: 12 * KIB,
      deleteWhen: "",
    }),
  async run(stage) {
    const attributes = { "queue.type": "BatchCQ" };
    if ((await stage.topic("in-batches", { attributes })) !== "done") return;
    const message = (i: number): MessageSpec => ({
      topic: i % 2 === 0 ? "extended" : "in-batches",
      queueId: i % 3 === 2 ? 1 : 0,
      bodyBytes: 40 + ((i * 137) % 500),
      ...(i % 3 === 0 ? { tags: `t${i % 4}` } : {}),
      // Of so many messages; what is in the body is for those who consume it.
      ...(i % 4 === 1 ? { sysFlag: INNER_BATCH, properties: { INNER_NUM: `${(i % 7) + 1}` } } : {}),
    });
    const some = (from: number, count: number) =>
      putAll(
        stage,
        numbered(count, (i) => message(from + i)),
      );
    await some(0, 9);
    await stage.pass(130);
    await Promise.all([some(10, 4), some(20, 4)]);
    await stage.checkpoint();
    await some(30, 3);
    await stage.kill();
    await stage.readBack(2);
    await some(40, 7);
    await Promise.all([stage.clean(), some(50, 3)]);
    await stage.reopen();
    await some(60, 5);
    await stage.readBack(2);
  },
};

/** Whatever chance has it do. */
const random: Workload = {
  name: "random",
  about: "everything, as the seed has it",
  callsPerCut: 6,
  options(random: Random): StoreOptions {
    const fileSize = oneOf(random, [4, 8, 16, 64]) * KIB;
    return {
      mappedFileSizeCommitLog: fileSize,
      mappedFileSizeConsumeQueue: oneOf(random, [60, 200, 400, 2000]),
      maxMessageSize: Math.floor(fileSize * 0.7),
      ...oneOf(random, [
        {},
        { enabledAppendPropCRC: true },
        { enabledAppendPropCRC: true, forceVerifyPropCRC: true },
      ]),
      damagedLogPolicy: oneOf(random, ["keep", "keep", "cut"]),
      recoverWholeLog: random(6) === 0,
      readUnCommitted: random(3) === 0,
      flushIntervalCommitLog: oneOf(random, [10, 500]),
      flushCommitLogLeastPages: oneOf(random, [0, 1, 4]),
      flushCommitLogTimed: random(2) === 0,
      wakeFlushWhenPutMessage: random(2) === 0,
      flushCommitLogThoroughInterval: oneOf(random, [300, 10_000]),
      transientStorePoolSize: oneOf(random, [1, 2, 5]),
      fastFailIfNoBufferInStorePool: random(4) === 0,
      commitIntervalCommitLog: oneOf(random, [20, 200]),
      commitCommitLogLeastPages: oneOf(random, [0, 1, 4]),
      wakeCommitWhenPutMessage: random(2) === 0,
      flushIntervalConsumeQueue: oneOf(random, [50, 1000]),
      flushConsumeQueueLeastPages: oneOf(random, [0, 2]),
      flushConsumeQueueThoroughInterval: oneOf(random, [200, 5000, 60_000]),
    };
  },
  async run(stage) {
    const { random } = stage;
    const topics = ["t0", "t1", LONG_TOPIC].slice(0, 1 + random(3));
    const queueCount = 1 + random(4);
    const most = Math.floor((stage.options.maxMessageSize ?? 2000) * 0.8);
    const size = (): number =>
      random(8) === 0 ? random(most) : oneOf(random, [0, 1, random(100), random(600)]);
    const spec = (): MessageSpec => ({
      topic: oneOf(random, topics),
      queueId: random(queueCount),
      bodyBytes: Math.min(size(), most),
      ...(random(3) === 0 ? { tags: `tag${random(3)}` } : {}),
      ...(random(4) === 0 ? { keys: [`k${random(9)}`] } : {}),
      ...(random(6) === 0 ? { waitStoreMsgOK: random(2) === 0 } : {}),
      ...(random(12) === 0 ? { sysFlag: TRANSACTION_PREPARED } : {}),
    });
    const batch = (): MessageSpec[] => {
      const queueId = random(queueCount);
      const count = 1 + random(6);
      const bodyBytes = Math.floor(size() / count);
      return Array.from({ length: count }, () => ({ topic: "t0", queueId, bodyBytes }));
    };
    const caller = async (steps: number): Promise<void> => {
      for (let i = 0; i < steps; i++) {
        await (random(5) === 0 ? stage.putBatch(batch()) : stage.put(spec()));
      }
    };
    const steps = 6 + random(10);
    for (let step = 0; step < steps; step++) {
      const what = random(16);
      if (what < 6) {
        await Promise.all(Array.from({ length: 1 + random(4) }, () => caller(1 + random(3))));
      } else if (what < 9) await stage.pass(oneOf(random, [1, 30, 300, 1200, 12_000]));
      else if (what === 9) await stage.flush();
      else if (what === 10) await stage.checkpoint();
      else if (what === 11) await stage.readBack(1 + random(3));
      else if (what === 12) await stage.reopen();
      else if (what === 13) await Promise.all([caller(2), stage.kill()]);
      else if (what === 14) await Promise.all([caller(2), stage.cut()]);
      else await caller(3);
    }
    await caller(2);
  },
};

/**
 * Each mark is put when offsets and topics have been written for the so-and-so-many-th time: a store
 * that has the mark must have them.
 */
const config: Workload = {
  name: "config",
  about: "topics, groups and consumer offsets are written between the puts",
  options: () => small({ flushConsumerOffsetInterval: 100 }),
  async run(stage) {
    const { store } = stage;
    // A call that fails is told, and that is all: what is there after it is looked at.
    const told = (promise: Promise<unknown> | undefined): Promise<boolean> =>
      promise?.then(
        () => true,
        () => false,
      ) ?? Promise.resolve(false);
    const group = "g";
    for (let round = 1; round <= 4 && store?.state === "open"; round++) {
      await stage.put({ topic: "of-config", bodyBytes: 100 * round });
      store.offsets.commit({ group, topic: "of-config", offset: store.maxOffset("of-config") });
      store.offsets.commit({ group, topic: "rounds", offset: round });
      const written = await Promise.all([
        told(store.offsets.flush()),
        told(store.topics.update("of-config", { readQueueNums: round })),
        told(store.groups.update(group, { retryMaxTimes: round })),
      ]);
      if (!written.every((one) => one)) return;
      await stage.put({ topic: "marks" });
      if (round === 2) await stage.pass(250);
    }
  },
  async check(store) {
    const wrong: string[] = [];
    const marks = store.maxOffset("marks");
    const rounds = store.offsets.get({ group: "g", topic: "rounds" }) ?? 0;
    const offset = store.offsets.get({ group: "g", topic: "of-config" }) ?? 0;
    const topic = store.topics.get("of-config")?.readQueueNums ?? 0;
    const retries = store.groups.get("g")?.retryMaxTimes ?? 0;
    for (const [what, value] of Object.entries({ rounds, topic, retries })) {
      if (value < marks) wrong.push(`${what} is ${value}, it was ${marks} and durable`);
    }
    const end = store.maxOffset("of-config");
    if (offset > end) wrong.push(`a group wants message ${offset} of a queue that ends at ${end}`);
    return wrong;
  },
};

/** By name. */
export const WORKLOADS: ReadonlyMap<string, Workload> = new Map(
  [
    ...[first, rolls, queues, batches, loose, time, reopen, large, keys, behind, elsewhere],
    ...[light, config, expiring, deleting, extensions, random],
  ].map((workload) => [workload.name, workload]),
);
