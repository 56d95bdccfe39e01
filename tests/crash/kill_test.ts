// Processes that are killed with SIGKILL while they put messages, over and over on the same
// directories, and what is there afterwards.
//
// The seed is printed; FORCELOG_SEED=<seed> chooses the same options, messages and moments again.
// What the machine does between two moments is not in its hands.

import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { MessageStore, type StoreOptions } from "../../lib/mod.ts";
import {
  type Acknowledged,
  Child,
  type Keeps,
  Ledger,
  type Place,
  type StoreSpec,
} from "../support/kill_harness.ts";
import type { Plan } from "../support/kill_plan.ts";
import { type Random, randomOf } from "../support/random.ts";
import { overwrite } from "../support/stores.ts";

/** A family is a process with several stores, which is killed and succeeded so often. */
const FAMILIES = 2;
const GENERATIONS = 6;
/** The least number of times that a store was killed and looked at. */
const ROUNDS_MIN = 50;
/** A child that needs longer to reach the moment of its death is killed there and then, in ms. */
const PATIENCE_MS = 10_000;

const SYNC: StoreOptions = { flushDiskType: "SYNC_FLUSH" };
const ASYNC: StoreOptions = { flushDiskType: "ASYNC_FLUSH" };
const POOL: StoreOptions = { ...ASYNC, transientStorePoolEnable: true };

const MODES: readonly { readonly name: string; readonly options: StoreOptions; keeps: Keeps }[] = [
  { name: "SYNC_FLUSH", options: SYNC, keeps: "all" },
  {
    name: "SYNC_FLUSH with pool",
    options: { ...SYNC, transientStorePoolEnable: true },
    keeps: "all",
  },
  { name: "ASYNC_FLUSH", options: ASYNC, keeps: "all" },
  { name: "ASYNC_FLUSH again", options: ASYNC, keeps: "all" },
  { name: "pool", options: POOL, keeps: "all but the newest" },
];

const seed = Number(process.env.FORCELOG_SEED ?? Math.floor(Math.random() * 2 ** 31));

function oneOf<T>(random: Random, values: readonly T[]): T {
  return values[random(values.length)] as T;
}

/** Small files, and services that are in a hurry, late, or anything between. */
function optionsOf(random: Random): StoreOptions {
  return {
    mappedFileSizeCommitLog: oneOf(random, [16, 32, 64]) * 1024,
    mappedFileSizeConsumeQueue: oneOf(random, [200, 400, 2000]),
    maxHashSlotNum: oneOf(random, [1, 50]),
    maxIndexNum: oneOf(random, [20, 400]),
    maxMessageSize: 12 * 1024,
    flushIntervalConsumeQueue: oneOf(random, [5, 50, 1000]),
    flushConsumeQueueLeastPages: oneOf(random, [0, 2]),
    flushConsumeQueueThoroughInterval: oneOf(random, [20, 200, 60_000]),
    flushIntervalCommitLog: oneOf(random, [5, 500]),
    commitIntervalCommitLog: oneOf(random, [20, 200]),
    enabledAppendPropCRC: random(2) === 0,
    readUnCommitted: random(3) === 0,
  };
}

function planOf(random: Random, loose: boolean): Plan {
  return {
    seed: random(2 ** 31),
    lanes: 1 + random(6),
    window: oneOf(random, [1, 1, 4, 16]),
    steps: 120,
    topics: 1 + random(3),
    queuesPerTopic: 1 + random(4),
    bodyBytesMax: oneOf(random, [200, 2000, 9000]),
    batches: oneOf(random, [0, 10, 50]),
    loose: loose ? oneOf(random, [0, 20]) : 0,
    prepared: 3,
    pauseEvery: oneOf(random, [4, 16, 64]),
  };
}

/** Runs one process on the stores and sees it die, at a moment that `random` chooses. */
async function liveAndDie(random: Random, ledgers: readonly Ledger[]): Promise<Child> {
  const way = random(10);
  // One of the stores ends its process itself: in the middle of its recovery, or later.
  const suicide = way < 4 ? random(ledgers.length) : -1;
  const dies: NonNullable<StoreSpec["dies"]> = {
    atChange: way < 2 ? 1 + random(40) : 40 + random(500),
    ...(random(2) === 0 ? { tornBytes: random(6000) } : {}),
  };
  const child = new Child({
    stores: ledgers.map((ledger, i) => ledger.next(i === suicide ? { dies } : {})),
  });
  if (way === 4) {
    // While the stores open.
    await child.until(() => child.count("opening") > 0, PATIENCE_MS);
    await new Promise((resolve) => setTimeout(resolve, random(30)));
  } else {
    // Once one of them, the slowest it may be, has got so far.
    const store = random(ledgers.length);
    const enough = random(way < 8 ? 60 : 200);
    const stuck = () => child.failure !== undefined || child.count("done", store) > 0;
    await child.until(() => child.count("open") === ledgers.length || stuck(), PATIENCE_MS);
    await child.until(() => child.count("acknowledged", store) >= enough || stuck(), PATIENCE_MS);
    await new Promise((resolve) => setTimeout(resolve, random(20)));
  }
  await child.kill();
  ledgers.forEach((ledger, i) => {
    ledger.note(child, i);
  });
  return child;
}

/** Opens the store in this process and puts on; what is there has to be as it was left. */
async function goOn(t: Test, ledger: Ledger): Promise<void> {
  const { dir, options } = ledger;
  const environment = { onWarning: () => undefined };
  const store = await MessageStore.open(dir, options, environment);
  t.same(await ledger.compare(store), [], "after recovery");
  const ends = new Map<string, number>();
  for (let i = 0; i < 20; i++) {
    const topic = `topic-${i % 3}`;
    const end = ends.get(topic) ?? store.maxOffset(topic);
    const { queueOffset } = await store.put({ topic, body: Buffer.from(`after ${i}`) });
    if (queueOffset !== end) t.fail(`queue ${topic} goes on at ${queueOffset}, not ${end}`);
    ends.set(topic, end + 1);
  }
  await store.close();
  t.notOk(existsSync(join(dir, "abort")), "it was closed");
  const again = await MessageStore.open(dir, options, environment);
  t.ok(again.recovery.cleanStop);
  t.equal(again.recovery.cut, undefined);
  for (const [topic, end] of ends) t.equal(again.maxOffset(topic), end);
  await again.close();
}

async function family(t: Test, number: number): Promise<number> {
  const random = randomOf(seed + number);
  const ledgers = MODES.map(({ name, options, keeps }) => {
    const loose = options.flushDiskType === "SYNC_FLUSH" && !options.transientStorePoolEnable;
    const plan = planOf(random, loose);
    return new Ledger(join(t.testdirName, name), { ...optionsOf(random), ...options }, plan, keeps);
  });
  let rounds = 0;
  let early = 0;
  for (let generation = 0; generation < GENERATIONS; generation++) {
    const child = await liveAndDie(random, ledgers);
    t.equal(child.failure, undefined, "no put failed");
    for (const [i, ledger] of ledgers.entries()) {
      if (child.count("open", i) === 0) early++;
      if (!existsSync(ledger.dir)) continue;
      const wrong = await ledger.look();
      rounds++;
      t.same(wrong, [], `${MODES[i]?.name}, generation ${generation}`);
      if (wrong.length === 0) continue;
      t.comment(JSON.stringify({ options: ledger.options, plan: ledger.plan }));
      return rounds;
    }
  }
  t.comment(`${early} of ${rounds} times while the store was being opened`);
  for (const [i, ledger] of ledgers.entries()) {
    const { acknowledgedMessages, messages, lostMessages } = ledger;
    t.comment(
      `${MODES[i]?.name}: ${acknowledgedMessages} messages acknowledged, ${lostMessages} lost, ${messages} there`,
    );
    if (ledger.keeps === "all") t.equal(lostMessages, 0);
    await goOn(t, ledger);
  }
  return rounds;
}

t.comment(`FORCELOG_SEED=${seed}`);

t.test("what was acknowledged survives any number of kills", async (t) => {
  const rounds = await Promise.all(
    Array.from({ length: FAMILIES }, async (_, number) => {
      let rounds = 0;
      await t.test(`family ${number} of seed ${seed}`, async (t) => {
        t.testdir();
        rounds = await family(t, number);
      });
      return rounds;
    }),
  );
  const sum = rounds.reduce((a, b) => a + b, 0);
  t.ok(sum >= ROUNDS_MIN, `${sum} rounds`);
});

const QUIET: Plan = {
  seed,
  lanes: 2,
  window: 1,
  steps: 100_000,
  topics: 2,
  queuesPerTopic: 2,
  bodyBytesMax: 300,
  batches: 0,
  loose: 0,
  prepared: 0,
  pauseEvery: 2,
};

t.test("these checks see a loss: the pool's, if nothing may be lost", async (t) => {
  t.testdir();
  const lost = new Ledger(join(t.testdirName, "pool"), POOL, QUIET, "all");
  const kept = new Ledger(join(t.testdirName, "async"), ASYNC, QUIET, "all");
  const child = new Child({ stores: [lost.next(), kept.next()] });
  await child.until(() => child.count("acknowledged", 0) > 20, PATIENCE_MS);
  await child.until(() => child.count("acknowledged", 1) > 20, PATIENCE_MS);
  await child.kill();
  lost.note(child, 0);
  kept.note(child, 1);
  t.match(await lost.look(), [/was acknowledged at \d+ and is lost/]);
  t.same(await kept.look(), [], "the one beside it is whole");

  // And one that was there, is gone.
  const damaged = join(t.testdirName, "damaged");
  cpSync(kept.dir, damaged, { recursive: true });
  const last = child.reports.findLast(
    (report) => report.is === "acknowledged" && report.store === 1,
  );
  const { physicalOffset, size } = (last as Acknowledged).at as Place;
  overwrite(join(damaged, "commitlog", "0".repeat(20)), physicalOffset, Buffer.alloc(size));
  // Another one may have been written behind it before the kill.
  t.match(
    (await kept.look(damaged)).join(),
    /the log ends before it|was acknowledged at \d+ and is lost/,
  );
});

t.test("these checks see an acknowledgement that comes before the commit", async (t) => {
  t.testdir();
  const ledger = new Ledger(join(t.testdirName, "store"), ASYNC, { ...QUIET, lanes: 1 }, "all");
  // With one put at a time each change of the log is the commit of one message.
  const dies = { atChange: 20, under: "/commitlog/" };
  const child = new Child({ stores: [ledger.next({ lies: true, dies })] });
  await child.gone;
  await child.kill();
  ledger.note(child, 0);
  t.match(await ledger.look(), [/was acknowledged and is lost/]);
});
