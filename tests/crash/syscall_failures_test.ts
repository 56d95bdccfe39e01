// A slice of what `npm run crash -- --failures` does: one system call of a store fails, and nobody is
// lied to. The seed is printed; SEED=<seed> runs the same again.

import t from "tap";
import {
  FailureTable,
  formatTrial,
  MODES,
  type ModeName,
  randomOf,
  type Trial,
  targetsOf,
  tryFailure,
  tryFullDisk,
  WORKLOADS,
  type Workload,
  waysOf,
} from "../../lib/testing/mod.ts";
import { sliceSeedOf } from "../support/random.ts";

const NAMES = ["first", "loose", "rolls", "reopen"];
/** Of each workload in each mode. */
const TRIALS = 6;

const seed = sliceSeedOf(t);
const random = randomOf(seed);
const table = new FailureTable();

function pick<T>(values: readonly T[]): T {
  return values[random(values.length)] as T;
}

function workloadOf(name: string): Workload {
  return WORKLOADS.get(name) as Workload;
}

for (const mode of Object.keys(MODES) as ModeName[]) {
  t.test(`${mode}: a failed call is made good, or told`, async (t) => {
    for (const name of NAMES) {
      const workload = workloadOf(name);
      const targets = await targetsOf(seed, workload, mode);
      for (let i = 0; i < TRIALS; i++) {
        const target = pick(targets);
        const trial =
          i === 0
            ? await tryFullDisk(seed, workload, mode, target)
            : await tryFailure(seed, workload, mode, target, pick(waysOf(target)));
        table.add(trial);
        check(trial);
      }
    }

    function check(trial: Trial): void {
      const { verdict, details, target, way } = trial;
      const isBad = ["lost", "hung", "wrong"].includes(verdict);
      if (!isBad) return;
      t.comment(`npm run crash -- --replay "${formatTrial(trial)}"`);
      t.fail(
        `${verdict}: ${target.name} ${target.path} (${way}): ${details.slice(0, 3).join("; ")}`,
      );
    }
  });
}

t.test("FailureTable.format() has a row for each call and way", async (t) => {
  const lines = table.format();
  for (const line of lines) t.comment(line);
  const counts = ["unaffected", "told", "waits", "lost", "hung", "wrong"] as const;
  const sum = counts.map((verdict) => table.count(verdict)).reduce((a, b) => a + b, 0);
  t.equal(sum, table.trials.length);
  t.equal(sum, NAMES.length * TRIALS * Object.keys(MODES).length);
  t.match(lines[0], /^call and way +unaffected +told +waits +lost +hung +wrong$/);
});

t.test("an interrupted write is nothing that anybody notices, a failed sync is told", async (t) => {
  const workload = workloadOf("first");
  const targets = await targetsOf(seed, workload, "SYNC_FLUSH");
  const ofLog = targets.filter(({ path }) => path.includes("/commitlog/"));
  const write = ofLog.find(({ name }) => name === "pwritev");
  const sync = ofLog.find(({ name }) => name === "fdatasync");
  t.ok(write && sync);
  if (!write || !sync) return;
  for (const way of ["EINTR", "short 1", "short half"]) {
    const { verdict } = await tryFailure(seed, workload, "SYNC_FLUSH", write, way);
    t.equal(verdict, "unaffected", way);
  }
  const failed = await tryFailure(seed, workload, "SYNC_FLUSH", sync, "EIO");
  t.equal(failed.verdict, "told");
  t.match(failed.details.join("; "), /Cannot confirm the message at \d+: .*EIO/);
  const held = await tryFailure(seed, workload, "SYNC_FLUSH", sync, "hang");
  t.match(held.details.join("; "), /its sync takes longer than 5000 ms/);
  t.notMatch(held.details.join("; "), /put waits|get waits|lookup waits/);
});
