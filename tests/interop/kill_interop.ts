// After our process was killed, RocketMQ's own store opens the directory and finds every message
// that was acknowledged, in its queue, none twice: with more log files than its newest version looks
// at, with queues that lag far behind the log, with no checkpoint yet or only an old one.

import { join } from "node:path";
import t from "tap";
import type { StoreOptions } from "../../lib/mod.ts";
import { Child, type Keeps, Ledger } from "../support/kill_harness.ts";
import type { Plan } from "../support/kill_plan.ts";
import { JAVA_VERSIONS, type Oracle } from "../support/oracle.ts";
import { dump, javaDump, oracleFor, SIZES } from "./forcelog.ts";
import { difference, faultsOf, viewOf } from "./views.ts";

const seed = Number(process.env.FORCELOG_SEED ?? Math.floor(Math.random() * 2 ** 31));
/** Longer than the margin of RocketMQ's checkpoint times, 3 s. */
const LIFE_MS = 6000;
const GENERATIONS = 2;

const PLAN: Plan = {
  seed,
  lanes: 2,
  window: 2,
  steps: 100_000,
  topics: 3,
  queuesPerTopic: 4,
  bodyBytesMax: 3000,
  batches: 10,
  loose: 0,
  prepared: 3,
  pauseEvery: 1,
};

/** Queues are written and synced only when the log is about to get too far ahead of them. */
const LATE: StoreOptions = {
  flushIntervalConsumeQueue: 60_000,
  flushConsumeQueueThoroughInterval: 60_000,
};
/** A checkpoint several times a second. */
const EARLY: StoreOptions = {
  flushIntervalConsumeQueue: 50,
  flushConsumeQueueThoroughInterval: 300,
};

interface Kind {
  readonly name: string;
  readonly options: StoreOptions;
  readonly keeps: Keeps;
  readonly plan?: Partial<Plan>;
}

const KINDS: readonly Kind[] = [
  {
    name: "many small files, late queues",
    options: { ...LATE, mappedFileSizeCommitLog: 16 * 1024 },
    keeps: "all",
  },
  {
    name: "no checkpoint after the one at the opening",
    options: { ...LATE, mappedFileSizeCommitLog: 16 * 1024 },
    plan: { lanes: 1, window: 1, bodyBytesMax: 300, batches: 0 },
    keeps: "all",
  },
  {
    name: "many checkpoints",
    options: { ...EARLY, mappedFileSizeCommitLog: 16 * 1024 },
    keeps: "all",
  },
  {
    name: "usual intervals, SYNC_FLUSH",
    options: { flushDiskType: "SYNC_FLUSH", mappedFileSizeCommitLog: 32 * 1024 },
    keeps: "all",
  },
  {
    name: "pool",
    options: { ...EARLY, transientStorePoolEnable: true, mappedFileSizeCommitLog: 64 * 1024 },
    keeps: "all but the newest",
  },
];

const oracle = oracleFor(t);

async function live(ledgers: readonly Ledger[], ms: number): Promise<Child> {
  const child = new Child({ stores: ledgers.map((ledger) => ledger.next()) });
  await child.until(() => child.count("open") === ledgers.length, 30_000);
  await child.until(() => child.failure !== undefined, ms);
  await child.kill();
  ledgers.forEach((ledger, i) => {
    ledger.note(child, i);
  });
  return child;
}

async function everybodyAgrees(oracle: Oracle, ledger: Ledger): Promise<string[]> {
  const config = ledger.options as Readonly<Record<string, unknown>>;
  const wrong = await ledger.look();
  const ours = await dump(ledger.dir, config);
  const compared = JAVA_VERSIONS.map(async (version) => {
    const theirs = await javaDump(oracle, version, ledger.dir, config);
    const found = [...faultsOf(theirs)];
    const different = difference(viewOf(ours), viewOf(theirs));
    if (different) found.push(different);
    return found.map((text) => `${version}: ${text}`);
  });
  return [...wrong, ...(await Promise.all(compared)).flat()];
}

if (oracle) {
  t.comment(`FORCELOG_SEED=${seed}`);
  t.test("RocketMQ finds what we acknowledged before we were killed", async (t) => {
    t.testdir();
    const ledgers = KINDS.map(({ name, options, keeps, plan }) => {
      const dir = join(t.testdirName, name.replaceAll(/\W+/g, "-"));
      return new Ledger(dir, { ...SIZES, ...options }, { ...PLAN, ...plan }, keeps);
    });
    for (let generation = 0; generation < GENERATIONS; generation++) {
      const child = await live(ledgers, generation === 0 ? LIFE_MS : 1000 * generation);
      t.equal(child.failure, undefined);
      for (const [i, ledger] of ledgers.entries()) {
        const name = `generation ${generation}, ${KINDS[i]?.name}`;
        t.same(await everybodyAgrees(oracle, ledger), [], `${name}: ${ledger.messages} messages`);
      }
    }
    for (const [
      i,
      { acknowledgedMessages, lostMessages, messages, logFiles },
    ] of ledgers.entries()) {
      t.comment(
        `${KINDS[i]?.name}: ${acknowledgedMessages} acknowledged, ${lostMessages} lost, ${messages} there, ${logFiles} log files`,
      );
    }
    t.ok((ledgers[0]?.logFiles ?? 0) > 10);
  });
}
