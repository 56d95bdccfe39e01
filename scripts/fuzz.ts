/**
 * Damages stores in memory at random, and opens, reads and writes them: each must work or fail with a
 * proper error.
 *
 *     npm run fuzz -- --seed 1 --rounds 10000
 *     npm run fuzz -- --base extensions --base killed-extensions
 *     npm run fuzz -- --replay '{"base":...}'
 *
 * @module
 */

import { parseArgs } from "node:util";
import { type FailedTrial, failureText, HostileRun } from "../tests/support/hostile_run.ts";
import type { TrialPlan } from "../tests/support/hostile_trial.ts";
import { Watchdog } from "../tests/support/watchdog.ts";

/** A round takes some milliseconds. */
const ROUND_MS_MAX = 120_000;
const PROGRESS_MS = 10_000;

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    rounds: { type: "string", default: "1000" },
    from: { type: "string", default: "0" },
    base: { type: "string", multiple: true },
    replay: { type: "string" },
    help: { type: "boolean", short: "h" },
  },
});

const HELP = `npm run fuzz -- [options]
  --seed N       of the first round (random, and told)
  --rounds N     each damages one store (1000)
  --from N       the first round (0)
  --base NAME    only of that store; more than once for several
  --replay PLAN  one damaged store, as a failure tells it`;

function whole(name: "seed" | "rounds" | "from"): number {
  const value = Number(values[name]);
  if (Number.isSafeInteger(value) && value >= 0 && value < 2 ** 31) return value;
  throw new RangeError(`Cannot use --${name} ${values[name]}: expected a whole number`);
}

function table(title: string, counts: ReadonlyMap<string, number>): void {
  console.log(`\n${title}`);
  for (const [name, count] of [...counts].sort(([, a], [, b]) => b - a)) {
    console.log(`${String(count).padStart(10)}  ${name}`);
  }
}

function tell({ plan, error }: FailedTrial): void {
  console.log(`\nFAILED: ${failureText(error)}`);
  for (const mutation of plan.mutations) console.log(`  ${JSON.stringify(mutation)}`);
  console.log(`  npm run fuzz -- --replay '${JSON.stringify(plan).replaceAll("'", "\\u0027")}'`);
}

async function fuzz(): Promise<HostileRun> {
  const [seed, rounds, from] = [whole("seed"), whole("rounds"), whole("from")];
  const run = new HostileRun();
  const format = "npm run fuzz -- --seed %1 --from %2 --rounds 1";
  const watchdog = new Watchdog(ROUND_MS_MAX, format);
  const startedAt = performance.now();
  const progress = (): string => {
    const ms = performance.now() - startedAt;
    const { user, system } = process.cpuUsage();
    const perSecond = (of: number): string => ((run.trials / of) * 1000).toFixed(0);
    return `${run.trials} stores, ${perSecond(ms)} a second, ${perSecond((user + system) / 1000)} a second of processor time, ${run.failures.length} kinds of failures`;
  };
  console.log(`seed ${seed}, rounds ${from} to ${from + rounds - 1}`);
  let toldAt = startedAt;
  let told = 0;
  for (let round = from; round < from + rounds; round++) {
    watchdog.step(seed, round);
    await run.round(seed, round, values.base);
    for (; told < run.failures.length; told++) tell(run.failures[told] as FailedTrial);
    if (performance.now() - toldAt < PROGRESS_MS) continue;
    toldAt = performance.now();
    console.log(`round ${round}: ${progress()}`);
  }
  console.log(progress());
  table("Outcomes", run.outcomes);
  table("Errors", run.errors);
  console.log(`\nThe heap has grown by ${run.heapGrowth ?? "?"} bytes`);
  run.checkHeap();
  for (const { error, count } of run.failures) {
    console.log(`\n${count} times: ${failureText(error).split("\n")[0]}`);
  }
  await watchdog.close();
  return run;
}

async function replay(text: string): Promise<HostileRun> {
  const run = new HostileRun();
  await run.trial(JSON.parse(text) as TrialPlan);
  for (const failure of run.failures) tell(failure);
  table("Outcome", run.outcomes);
  table("Errors", run.errors);
  return run;
}

if (values.help) {
  console.log(HELP);
} else {
  const run = values.replay === undefined ? await fuzz() : await replay(values.replay);
  process.exitCode = run.failures.length > 0 ? 1 : 0;
}
