/**
 * The command `npm run crash`: what to explore, and what is said about it.
 *
 * @module
 */

import { fork } from "node:child_process";
import { parseArgs } from "node:util";
import { CANARIES, tryCanary } from "./canaries.ts";
import { fieldsOf, parseCase } from "./crash_case.ts";
import { Explorer, type Failure, type Tally } from "./explorer.ts";
import {
  FailureTable,
  formatTrial,
  someWays,
  targetsOf,
  tryFailure,
  tryFullDisk,
} from "./syscall_failures.ts";
import { MODES, type ModeName, type Workload } from "./workload.ts";
import { WORKLOADS } from "./workloads.ts";

const USAGE = `npm run crash -- [options]

  --seed N           of the first round; the next ones count on   (default: by chance)
  --rounds N         how often all workloads are played           (default: 1)
  --workload NAME    only this one; may be repeated               (${[...WORKLOADS.keys()].join(", ")})
  --mode NAME        only this one; may be repeated               (${Object.keys(MODES).join(", ")})
  --jobs N           in so many processes                         (default: 1)
  --replay "LINE"    once more what a line tells of
  --failures         fails each system call once, in each way that fits it
  --some             with --failures: each call in one way only
  --canary           explores stores that lie: each must be caught`;

interface Wishes {
  readonly seed: number;
  readonly rounds: number;
  readonly workloads: readonly Workload[];
  readonly modes: readonly ModeName[];
  readonly jobs: number;
  /** This process does every so many-th play, beginning with this one. */
  readonly job: number;
}

type Print = (line: string) => void;

/** @returns The exit code: 0, 1 if a promise was broken, 2 for a mistake in the call. */
export async function crashCommand(args: readonly string[], print: Print): Promise<number> {
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(args);
  } catch (error) {
    print(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  const { values, wishes } = parsed;
  if (values.help) {
    print(USAGE);
    return 0;
  }
  if (values.replay !== undefined) {
    try {
      return await replay(values.replay, print);
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
      print(error.message);
      return 2;
    }
  }
  if (values.canary) return canaries(wishes, print);
  if (values.failures) return failures(wishes, values.some, print);
  return wishes.jobs > 1 && process.send === undefined
    ? exploreInProcesses(args, wishes, print)
    : explore(wishes, print);
}

function parse(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: "string" },
      rounds: { type: "string", default: "1" },
      workload: { type: "string", multiple: true, default: [...WORKLOADS.keys()] },
      mode: { type: "string", multiple: true, default: Object.keys(MODES) },
      jobs: { type: "string", default: "1" },
      job: { type: "string", default: "0" },
      replay: { type: "string" },
      failures: { type: "boolean", default: false },
      some: { type: "boolean", default: false },
      canary: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const wishes: Wishes = {
    seed: numberOf(values.seed ?? String(Math.floor(Math.random() * 2 ** 31))),
    rounds: numberOf(values.rounds),
    workloads: values.workload.map(workloadOf),
    modes: values.mode.map(modeOf),
    jobs: numberOf(values.jobs),
    job: numberOf(values.job),
  };
  return { values, wishes };
}

function numberOf(text: string): number {
  if (!/^\d+$/.test(text)) throw new TypeError(`Cannot use "${text}": expected a whole number`);
  return Number(text);
}

function workloadOf(name: string): Workload {
  const workload = WORKLOADS.get(name);
  if (!workload) throw new TypeError(`There is no workload "${name}"`);
  return workload;
}

function modeOf(name: string): ModeName {
  if (!(name in MODES)) throw new TypeError(`There is no mode "${name}"`);
  return name as ModeName;
}

async function explore(wishes: Wishes, print: Print): Promise<number> {
  const { seed, rounds, workloads, modes, jobs, job } = wishes;
  print(`seed ${seed}, ${rounds} rounds${jobs > 1 ? `, job ${job} of ${jobs}` : ""}`);
  const explorer = new Explorer({ onFailure: (failure) => printFailure(failure, print) });
  const startedAt = performance.now();
  let number = 0;
  for (let round = 0; round < rounds; round++) {
    for (const workload of workloads) {
      for (const mode of modes) {
        if (number++ % jobs !== job || explorer.over) continue;
        await explorer.explore(seed + round, workload, mode);
        const { cuts, disks } = explorer.totals;
        const rate = Math.round(cuts / ((performance.now() - startedAt) / 1000));
        print(
          `round ${round + 1}, ${workload.name}, ${mode}: ${cuts} cuts of ${disks} disks so far, ${rate} a second`,
        );
      }
    }
  }
  const { plays, calls, cuts, disks, messages, acknowledged } = explorer.totals;
  for (const line of formatTallies(explorer.tallies.values())) print(line);
  print(
    `${plays} plays of ${calls} calls, ${messages} messages put, ${acknowledged} acknowledged; ` +
      `${cuts} cuts, ${disks} different disks; ${explorer.failures.length} failures`,
  );
  return explorer.failures.length > 0 ? 1 : 0;
}

/** Shares the plays among processes, whose lines come mixed. */
async function exploreInProcesses(
  args: readonly string[],
  { seed, jobs }: Wishes,
  print: Print,
): Promise<number> {
  const codes = await Promise.all(
    Array.from({ length: jobs }, (_, job) => {
      const child = fork(
        process.argv[1] as string,
        [...args, "--seed", String(seed), "--job", String(job)],
        { stdio: ["ignore", "pipe", "inherit", "ipc"] },
      );
      child.stdout?.setEncoding("utf8").on("data", (text: string) => print(text.trimEnd()));
      return new Promise<number>((resolve) => child.once("exit", (code) => resolve(code ?? 1)));
    }),
  );
  return Math.max(...codes);
}

async function replay(line: string, print: Print): Promise<number> {
  const field = fieldsOf(line);
  const seed = numberOf(field("seed"));
  const workload = workloadOf(field("workload"));
  const mode = modeOf(field("mode"));
  if (/\bfail=/.test(line)) {
    return replayFailure(seed, workload, mode, numberOf(field("fail")), field("way"), print);
  }
  const explorer = new Explorer({ onFailure: (failure) => printFailure(failure, print) });
  // What went wrong without a crash has no call.
  if (/\bcall=/.test(line)) await explorer.replay(parseCase(line), workload);
  else await explorer.rehearse(seed, workload, mode);
  if (explorer.failures.length === 0) print("Nothing was violated");
  return explorer.failures.length > 0 ? 1 : 0;
}

async function replayFailure(
  seed: number,
  workload: Workload,
  mode: ModeName,
  fail: number,
  wayText: string,
  print: Print,
): Promise<number> {
  const target = (await targetsOf(seed, workload, mode)).find(({ number }) => number === fail);
  if (!target) throw new RangeError(`There is no call ${fail}`);
  const way = wayText.replace(":", " ");
  const trial =
    way === "full disk"
      ? await tryFullDisk(seed, workload, mode, target)
      : await tryFailure(seed, workload, mode, target, way);
  print(`${trial.verdict}: ${target.name} ${target.path} (${way})`);
  for (const detail of trial.details) print(`  ${shortened(detail)}`);
  return isBad(trial.verdict) ? 1 : 0;
}

async function canaries({ seed }: Wishes, print: Print): Promise<number> {
  let blind = 0;
  for (const canary of CANARIES) {
    const failure = await tryCanary(canary, seed);
    if (!failure) blind++;
    print(`${canary.name} (${canary.about}): ${failure ? "caught" : "NOT CAUGHT"}`);
    if (failure) print(`  ${failure.line}: ${failure.violations[0]}`);
  }
  return blind > 0 ? 1 : 0;
}

async function failures(wishes: Wishes, some: boolean, print: Print): Promise<number> {
  const { seed, rounds, workloads, modes } = wishes;
  print(`seed ${seed}, ${rounds} rounds`);
  const table = new FailureTable();
  for (let round = 0; round < rounds; round++) {
    for (const workload of workloads) {
      for (const mode of modes) {
        const targets = await targetsOf(seed + round, workload, mode);
        for (const target of targets) {
          for (const way of [...someWays(target, seed + round, !some), "full disk"]) {
            const trial =
              way === "full disk"
                ? await tryFullDisk(seed + round, workload, mode, target)
                : await tryFailure(seed + round, workload, mode, target, way);
            table.add(trial);
            if (!isBad(trial.verdict)) continue;
            print(`${trial.verdict}: ${target.name} ${target.path} (${way})`);
            for (const detail of trial.details.slice(0, 5)) print(`  ${shortened(detail)}`);
            print(`  npm run crash -- --replay "${formatTrial(trial)}"`);
          }
        }
        print(
          `${workload.name}, ${mode}: ${targets.length} calls; ${table.trials.length} failed so far`,
        );
      }
    }
  }
  for (const line of table.format()) print(line);
  return table.trials.some(({ verdict }) => isBad(verdict)) ? 1 : 0;
}

function isBad(verdict: string): boolean {
  return verdict === "lost" || verdict === "hung" || verdict === "wrong";
}

function printFailure({ line, at, violations }: Failure, print: Print): void {
  print(`FAILED at ${at}:`);
  for (const violation of violations.slice(0, 8)) print(`  ${shortened(violation)}`);
  if (violations.length > 8) print(`  and ${violations.length - 8} more`);
  print(`  npm run crash -- --replay "${line}"`);
}

/** Some names are long. */
function shortened(text: string): string {
  return text.replace(/([^ ]{24})[^ ]{80,}([^ ]{16})/g, "$1...$2").slice(0, 400);
}

/** Cuts by workload and mode, a column for each kind; those in a recovery behind a plus. */
function formatTallies(tallies: Iterable<Tally>): string[] {
  const rows = new Map<string, Tally[]>();
  const cuts = new Set<string>();
  for (const tally of tallies) {
    const key = `${tally.workload}, ${tally.mode}`;
    const row = rows.get(key);
    if (row) row.push(tally);
    else rows.set(key, [tally]);
    cuts.add(tally.cut);
  }
  const line = (name: string, cells: readonly string[]): string =>
    name.padEnd(28) + cells.map((cell) => cell.padStart(14)).join("");
  return [
    line("", [...cuts]),
    ...[...rows].map(([key, row]) =>
      line(
        key,
        [...cuts].map((cut) => {
          const tally = row.find((one) => one.cut === cut);
          return tally ? `${tally.cuts - tally.second}+${tally.second}` : ".";
        }),
      ),
    ),
  ];
}
