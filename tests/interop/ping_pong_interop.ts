// One directory in turn: we write, RocketMQ's own store opens it, goes on and stops, we open it
// again and go on, and so on; each side stops well or not at all. Whatever was acknowledged stays
// where it was, and the queues go on where they ended.

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: whoever carries out a script fills in the number of the repeat

import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { readCheckpoint } from "../../lib/checkpoint/store_checkpoint.ts";
import { MessageStore, NodeFileSystem, type StoreOptions } from "../../lib/mod.ts";
import { JAVA_VERSIONS, type JavaVersion, type Line, type Oracle } from "../support/oracle.ts";
import { dump, eachVersion, javaDump, oracleFor, run } from "./forcelog.ts";
import { script } from "./scripts.ts";
import { difference, faultsOf, isRecord, type View, viewOf } from "./views.ts";

/** Who has the directory next, and how he leaves it. */
type Turn = readonly [who: "we" | JavaVersion, end: "shutdown" | "halt", mode?: "SYNC_FLUSH"];

const oracle = oracleFor(t);

/** Some puts of one turn: they tell which turn it was. */
function stepsOf(turn: number): readonly Readonly<Record<string, unknown>>[] {
  return [
    {
      topic: "Shared",
      queues: 3,
      repeat: 40,
      body: `${turn}: \${i}`,
      tags: `turn${turn}`,
      keys: "k",
    },
    { topic: `Own-${turn}`, repeat: 5, body: { size: 2000, seed: turn } },
    { op: "putBatch", topic: "Shared", messages: [{ body: `${turn} a` }, { body: `${turn} b` }] },
    { topic: "Shared", queueId: 2, body: { size: 20_000, seed: turn }, repeat: 2 },
    { topic: "Pay", sysFlag: 4, body: `${turn}: prepared` },
    { topic: "Pay", sysFlag: 8, body: `${turn}: committed` },
    { op: "flush" },
    { op: "waitDispatched" },
  ];
}

/** Whether our checkpoint slot counts. */
async function vouches(dir: string): Promise<boolean> {
  const { watermarks } = await readCheckpoint(new NodeFileSystem(), join(dir, "checkpoint"));
  return watermarks !== undefined;
}

/** The parts of a view that were there before, as they are now. */
function restrictedTo(before: View, now: View): View {
  const queues = Object.entries(before.queues).map(([name, queue]) => {
    const { units = [], ...bounds } = (now.queues[name] ?? {}) as { units?: unknown[] };
    const { units: had, max } = queue as { units: unknown[]; max: number };
    return [name, { ...bounds, max, units: units.slice(0, had.length) }];
  });
  return {
    minOffset: now.minOffset,
    maxOffset: before.maxOffset,
    records: now.records.slice(0, before.records.length),
    queues: Object.fromEntries(queues),
  };
}

/** What was acknowledged is in the log and leads there through its queue. */
function missing(acknowledged: readonly Line[], view: View): string[] {
  const records = new Map(view.records.map((record) => [record.offset, record]));
  return acknowledged.flatMap(({ wroteOffset, queueOffset, msgId, storeTimestamp }) => {
    const found = records.get(wroteOffset as number);
    const same =
      found &&
      isRecord(found) &&
      found.queueOffset === queueOffset &&
      found.storeTimestamp === storeTimestamp &&
      (msgId as string).startsWith(found.msgId);
    return same ? [] : [`${msgId} at ${wroteOffset}`];
  });
}

async function play(t: Test, oracle: Oracle, turns: readonly Turn[]): Promise<void> {
  const dir = join(t.testdir({ store: {} }), "store");
  const acknowledged: Line[] = [];
  let before: View | undefined;
  for (const [number, [who, end, mode]] of turns.entries()) {
    const name = `turn ${number}: ${who}, ${end}`;
    const config = { flushDiskType: mode ?? "ASYNC_FLUSH" };
    const wanted = script(stepsOf(number), config, end);
    const lines =
      who === "we" ? await run(dir, wanted) : await oracle.run(who, "write", dir, wanted);
    acknowledged.push(...lines.filter(({ op }) => op === "put" || op === "putBatch"));
    if (who !== "we" && end === "shutdown") {
      t.equal(await vouches(dir), false, `${name}: our checkpoint slot is void`);
    } else if (who === "we") {
      t.equal(await vouches(dir), true, `${name}: our checkpoint slot is valid`);
    }
    const ours = await dump(dir, wanted.config);
    t.same(faultsOf(ours), [], name);
    const view = viewOf(ours);
    t.same(missing(acknowledged, view), [], `${name}: all ${acknowledged.length} puts are there`);
    if (before) {
      const kept = difference(before, restrictedTo(before, view));
      t.equal(kept, undefined, `${name}: what was there is as it was`);
    }
    const next = turns[number + 1]?.[0] ?? "we";
    const judge = next === "we" ? (JAVA_VERSIONS.at(-1) as JavaVersion) : next;
    const theirs = viewOf(await javaDump(oracle, judge, dir, wanted.config));
    t.equal(difference(theirs, view), undefined, `${name}: ${judge} sees the same`);
    before = view;
  }
}

/**
 * Our log up to the blank record that closes its first file, as a kill between this record and the
 * first one behind it leaves it: with the next file, still empty, or without one.
 */
async function closedFile(dir: string, next: "empty" | "gone"): Promise<StoreOptions> {
  const options: StoreOptions = script([], {}).config;
  const store = await MessageStore.open(dir, options);
  for (const size of [32_000, 33_000, 1000])
    await store.put({ topic: "T", body: Buffer.alloc(size) });
  await store.close();
  const second = join(dir, "commitlog", String(options.mappedFileSizeCommitLog).padStart(20, "0"));
  if (next === "gone") rmSync(second);
  else writeFileSync(second, Buffer.alloc(options.mappedFileSizeCommitLog as number));
  rmSync(join(dir, "checkpoint"));
  writeFileSync(join(dir, "abort"), "1");
  return options;
}

if (oracle) {
  t.jobs = 4;
  for (const next of ["empty", "gone"] as const) {
    eachVersion(t, `we go on where it goes on if the next file is ${next}`, async (t, version) => {
      const dir = join(t.testdir({ store: {} }), "store");
      const options = await closedFile(dir, next);
      const { config } = script([], {});
      const theirs = viewOf(await javaDump(oracle, version, dir, config));
      t.equal(difference(theirs, viewOf(await dump(dir, config))), undefined);
      const warnings: string[] = [];
      const onWarning = (warning: string) => warnings.push(warning);
      // Opened and left alone, so that our checkpoint vouches for the place.
      await (await MessageStore.open(dir, options, { onWarning })).close();
      const small = script([{ topic: "T", body: "in the blank's place, if it fits" }], {}, "halt");
      const lines = await oracle.run(version, "write", dir, small);
      t.equal(lines[0]?.wroteOffset, theirs.maxOffset);
      const store = await MessageStore.open(dir, options, { onWarning });
      t.same(store.recovery.left, [], "there is no hole in the log");
      t.equal(store.maxOffset("T"), 3);
      t.equal((await store.put({ topic: "T", body: Buffer.from("ours") })).queueOffset, 3);
      await store.close();
      t.same(warnings, []);
      const ours = viewOf(await dump(dir, config));
      t.equal(difference(viewOf(await javaDump(oracle, version, dir, config)), ours), undefined);
    });
  }

  for (const version of JAVA_VERSIONS) {
    t.test(`we and RocketMQ ${version} take turns`, (t) =>
      play(t, oracle, [
        ["we", "shutdown"],
        [version, "shutdown"],
        ["we", "halt"],
        [version, "halt"],
        ["we", "halt", "SYNC_FLUSH"],
        [version, "shutdown", "SYNC_FLUSH"],
        ["we", "shutdown"],
        [version, "halt"],
        ["we", "shutdown"],
      ]),
    );
  }

  t.test("we and all versions take turns, upwards and downwards", (t) =>
    play(t, oracle, [
      ["5.5.1", "shutdown"],
      ["we", "halt"],
      ["4.9.8", "shutdown"],
      ["we", "shutdown"],
      ["5.3.3", "halt"],
      ["5.5.1", "halt"],
      ["we", "halt"],
      ["4.9.8", "halt"],
      ["we", "shutdown"],
      ["5.5.1", "shutdown"],
    ]),
  );
}
