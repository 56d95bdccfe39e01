// A slice of what `npm run crash` does: the power is cut at calls of stores on simulated disks, and
// what had been promised has to be there. The seed is printed; SEED=<seed> runs the same again.

import t from "tap";
import {
  CANARIES,
  type CrashCase,
  Explorer,
  formatCase,
  MODES,
  type ModeName,
  parseCase,
  playTrace,
  tryCanary,
  WORKLOADS,
  type Workload,
} from "../../lib/testing/mod.ts";
import { sliceSeedOf } from "../support/random.ts";

/** Cuts of one mode, shared among the workloads. */
const CUTS_PER_MODE = 600;
const CUTS_PER_WORKLOAD = Math.ceil(CUTS_PER_MODE / WORKLOADS.size);

const seed = sliceSeedOf(t);

function workloadOf(name: string): Workload {
  return WORKLOADS.get(name) as Workload;
}

/** The same, with the power cut so rarely that there is time for each part of it. */
function thinned(workload: Workload, callsPerCut: number): Workload {
  return { ...workload, callsPerCut };
}

for (const mode of Object.keys(MODES) as ModeName[]) {
  t.test(`${mode}: promises outlive kills and power cuts`, async (t) => {
    for (const workload of WORKLOADS.values()) {
      const explorer = new Explorer({ cutsMax: CUTS_PER_WORKLOAD });
      await explorer.explore(seed, thinned(workload, 30), mode);
      const { cuts, disks, acknowledged } = explorer.totals;
      t.comment(`${workload.name}: ${cuts} cuts, ${disks} different disks`);
      t.ok(
        acknowledged > 0 || workload.name === "random",
        `${workload.name}: puts are acknowledged`,
      );
      for (const { line, at, violations } of explorer.failures) {
        t.comment(`npm run crash -- --replay "${line}"`);
        t.same(violations.slice(0, 5), [], `${line} (${at})`);
      }
    }
  });
}

for (const canary of CANARIES) {
  t.test(`a store that ${canary.about} is caught`, async (t) => {
    const failure = await tryCanary(canary, seed);
    t.ok(failure, `seed ${seed}`);
    t.comment(`${failure?.line}: ${failure?.violations[0]}`);
  });
}

t.test("Explorer.replay() finds a failure again", async (t) => {
  const [canary] = CANARIES;
  const { wrap, mode } = canary as (typeof CANARIES)[number];
  const workload = workloadOf((canary as (typeof CANARIES)[number]).workload);
  const explorer = new Explorer({ wrap, failuresMax: 2 });
  await explorer.explore(seed, workload, mode);
  for (const failure of explorer.failures) {
    const which = parseCase(failure.line);
    t.same(which, failure.case);
    const again = await new Explorer({ wrap }).replay(which, workload);
    t.ok(again.length > 0);
    t.same(await new Explorer().replay(which, workload), [], "a store that does not lie is fine");
  }
});

t.test("a seed has one trace", async (t) => {
  for (const mode of Object.keys(MODES) as ModeName[]) {
    for (const name of ["reopen", "random"]) {
      const trace = await playTrace(seed, workloadOf(name), mode);
      t.equal(await playTrace(seed, workloadOf(name), mode), trace, `${name}, ${mode}`);
    }
  }
  const first = await playTrace(seed, workloadOf("first"), "SYNC_FLUSH");
  t.not(await playTrace(seed + 1, workloadOf("first"), "SYNC_FLUSH"), first);
});

t.test("a workload has its own word after each crash", async (t) => {
  let looks = 0;
  const watchful: Workload = {
    ...workloadOf("first"),
    async check(store) {
      looks++;
      return store.maxOffset("first") > 2 ? ["there are three"] : [];
    },
  };
  const explorer = new Explorer({ failuresMax: 1 });
  await explorer.explore(seed, watchful, "ASYNC_FLUSH");
  t.ok(looks > 0);
  t.match(explorer.failures[0]?.violations, ["there are three"]);
});

t.test("parseCase() reads what formatCase() writes, and nothing else", async (t) => {
  const plain: CrashCase = {
    seed: 7,
    workload: "rolls",
    mode: "SYNC_FLUSH+pool",
    call: 118,
    cut: "torn",
    second: undefined,
  };
  const twice: CrashCase = { ...plain, second: { call: 3, cut: "kill" } };
  for (const one of [plain, twice]) t.same(parseCase(formatCase(one)), one);
  t.equal(
    formatCase(twice),
    "seed=7 workload=rolls mode=SYNC_FLUSH+pool call=118 cut=torn second=3/kill",
  );
  for (const line of ["", "seed=7", formatCase(plain).replace("torn", "worn"), "seed=x"]) {
    t.throws(() => parseCase(line), TypeError);
  }
});
