/**
 * Does a record cost the same whatever the log holds: at the first million and at the twentieth, in
 * one queue and in ten thousand? And what does a queue cost that nothing happens to?
 *
 * ASYNC_FLUSH, small bodies, eight producers that await their batches of 32, so that what a record
 * costs is more than what a put does. The log grows in windows; a window's cost is the processor
 * time of the whole process, and the time that passed, by record. Over many queues batches go to
 * one after the other, in a new store, where every queue got its first batch before anything
 * counts; no queue gets so many that its file is made within the time.
 *
 * Stores with so many queues, each with its file, are then opened after a clean stop and after a
 * crash behind a watermark, and left alone to see what memory they take.
 *
 * Not measured: light queues, thousands of topics, reading.
 *
 * @module
 */

import { type Bench, MIB, type Part, SEED } from "./support/bench.ts";
import { chartSvg } from "./support/chart.ts";
import type { Cost, CostInput, CostWindow } from "./support/cost_job.ts";
import type { LoopDelay } from "./support/loop_delay.ts";
import { type Spread, spreadOf } from "./support/numbers.ts";
import {
  figure,
  medianText,
  type Report,
  spreadText,
  type Table,
  times,
  whole,
} from "./support/report.ts";
import type { Idle, Opened } from "./support/store_jobs.ts";
import { type Target, target } from "./support/targets.ts";

const BODY_BYTES = 64;
const BATCH = 32;
const CALLERS = 8;
/** Of the longest log: two to warm up, four early ones, and four late ones are compared. */
const WINDOWS = 80;
const EARLY = { from: 2, to: 6 } as const;
const LATE = { from: WINDOWS - 4, to: WINDOWS } as const;
/** Of the logs with many queues: an eighth of the first twentieth each. */
const QUEUE_WINDOWS = { warmUp: 2, counted: 6 } as const;
/** What the windows cost at most, beside the first ones or one queue. */
const FLAT = 1.2;

/** A log that grows, or so many queues. */
interface CostRow {
  readonly queues: number;
  readonly long: boolean;
}

interface StandingRound {
  readonly idle: Idle;
  readonly afterCrash: Opened;
}

export const queues: Part = {
  question: "Does a record cost the same whatever the log holds, and what does an idle queue cost?",

  async measure(bench: Bench): Promise<Report> {
    const { settings } = bench;
    const rows: CostRow[] = settings.queues.map((count) => ({ queues: count, long: false }));
    const long: CostRow = { queues: 1, long: true };
    const short = settings.size === "targets";
    const costs = new Map(
      await bench.inRounds<CostRow, Cost>(short ? rows : [...rows, long], nameOf, (row) =>
        measureCost(bench, row),
      ),
    );
    if (short) {
      // Its four windows early and late are its rounds.
      bench.say(nameOf(long));
      costs.set(long, [await measureCost(bench, long)]);
    }
    const standing = short ? undefined : await measureStanding(bench);
    return {
      tables: [
        growthTable(bench, costs.get(long) ?? []),
        queuesTable(rows, costs),
        ...(standing ? [standingTable(standing)] : []),
      ],
      targets: targetsOf(bench, rows, long, costs),
      charts: [
        {
          name: "queues",
          svg: chartSvg({
            title: "Cost of a record as the log grows, and by queues",
            subtitle: bench.about,
            panels: [
              {
                title: "µs for a record, by millions of records",
                log: false,
                categories: Array.from({ length: WINDOWS }, (_, i) =>
                  figure((windowRecords(bench) * (i + 1)) / 1e6),
                ),
                series: (["cpuMicros", "wallMicros"] as const).map((what) => ({
                  name: what === "cpuMicros" ? "processor time" : "time",
                  kind: "line",
                  values: Array.from(
                    { length: WINDOWS },
                    (_, i) => windowSpread(costs.get(long) ?? [], i, i + 1, what)?.median,
                  ),
                })),
              },
              {
                title: "µs for a record, by queues",
                log: false,
                categories: rows.map((row) => whole(row.queues)),
                series: (["cpuMicros", "wallMicros"] as const).map((what) => ({
                  name: what === "cpuMicros" ? "processor time" : "time",
                  kind: "bar",
                  values: rows.map((row) => counted(costs.get(row) ?? [], what)?.median),
                })),
              },
            ],
          }),
        },
      ],
      results: {
        costs: [...costs].map(([row, rounds]) => ({ ...row, rounds })),
        standing: standing && {
          ...standing,
          stores: [...standing.stores].map(([count, rounds]) => ({ queues: count, rounds })),
        },
      },
    };
  },
};

// Cost of a record.

function nameOf({ queues: count, long }: CostRow): string {
  return long ? "cost of a record as the log grows" : `cost of a record, ${count} queues`;
}

/** Of one window of the longest log. */
function windowRecords({ settings }: Bench): number {
  return Math.ceil(settings.records / WINDOWS);
}

function measureCost(bench: Bench, { queues: count, long }: CostRow): Promise<Cost> {
  const windows = long ? WINDOWS : QUEUE_WINDOWS.warmUp + QUEUE_WINDOWS.counted;
  return bench.inFolder("cost", (directory) =>
    bench.run("cost", {
      ...costInput(bench),
      directory,
      queues: count,
      windowRecords: long ? windowRecords(bench) : Math.ceil(windowRecords(bench) / 2),
      windows,
    }),
  );
}

function costInput(bench: Bench): Omit<CostInput, "directory" | "queues"> {
  return {
    bodyBytes: BODY_BYTES,
    seed: SEED,
    batch: BATCH,
    callers: CALLERS,
    windowRecords: 0,
    windows: 0,
    // What lies there is removed at once: there is no need to write all queues.
    end: bench.isSmoke ? "close" : "kill",
  };
}

type Micros = keyof CostWindow;

/** The windows from one to another, of all rounds. */
function windowSpread(
  rounds: readonly Cost[],
  from: number,
  to: number,
  what: Micros,
): Spread | undefined {
  const values = rounds.flatMap(({ windows }) =>
    windows.slice(from, to).map((window) => window[what]),
  );
  return values.length > 0 ? spreadOf(values) : undefined;
}

function counted(rounds: readonly Cost[], what: Micros): Spread | undefined {
  const { warmUp, counted: count } = QUEUE_WINDOWS;
  return windowSpread(rounds, warmUp, warmUp + count, what);
}

/** A quotient of two figures of the same round, of each round. */
function quotients(
  rounds: readonly Cost[],
  others: readonly Cost[],
  value: (cost: readonly Cost[]) => Spread | undefined,
  other: (cost: readonly Cost[]) => Spread | undefined,
): Spread | undefined {
  const values = rounds.flatMap((round, i) => {
    const beside = others[i] && other([others[i]])?.median;
    const found = value([round])?.median;
    return beside === undefined || found === undefined ? [] : [found / beside];
  });
  return values.length > 0 ? spreadOf(values) : undefined;
}

function targetsOf(
  bench: Bench,
  rows: readonly CostRow[],
  long: CostRow,
  costs: ReadonlyMap<CostRow, readonly Cost[]>,
): Target[] {
  const [first] = rows;
  const last = rows.at(-1);
  const grown = costs.get(long) ?? [];
  const end = figure(bench.settings.records / 1e6);
  const early = figure((windowRecords(bench) * EARLY.to) / 1.5e6);
  return (["cpuMicros", "wallMicros"] as const).flatMap((what) => {
    const name = what === "cpuMicros" ? "processor time" : "time";
    return [
      target({
        name: `${name} for a record at ${end} M records, to that at ${early} M`,
        found: quotients(
          grown,
          grown,
          (cost) => windowSpread(cost, LATE.from, LATE.to, what),
          (cost) => windowSpread(cost, EARLY.from, EARLY.to, what),
        ),
        bound: "<=",
        limit: FLAT,
        text: times,
      }),
      target({
        name: `${name} for a record in ${whole(last?.queues ?? 0)} queues, to that in ${whole(first?.queues ?? 0)}`,
        found: quotients(
          (last && costs.get(last)) ?? [],
          (first && costs.get(first)) ?? [],
          (cost) => counted(cost, what),
          (cost) => counted(cost, what),
        ),
        bound: "<=",
        limit: FLAT,
        text: times,
      }),
    ];
  });
}

function growthTable(bench: Bench, rounds: readonly Cost[]): Table {
  const records = windowRecords(bench);
  const delay = (what: keyof LoopDelay): string =>
    medianText(spreadOf(rounds.map(({ loopDelayMs }) => loopDelayMs[what])));
  const places = [0, EARLY.from, ...[1, 2, 3].map((quarter) => (WINDOWS * quarter) / 4), LATE.from];
  return {
    title: "Cost of a record as the log grows",
    header: ["records before, M", "processor time µs", "time µs"],
    rows: places.map((from) => [
      figure((records * from) / 1e6),
      spreadText(windowSpread(rounds, from, Math.min(from + 4, WINDOWS), "cpuMicros")),
      spreadText(windowSpread(rounds, from, Math.min(from + 4, WINDOWS), "wallMicros")),
    ]),
    notes: [
      "",
      `Medians of ${whole(records * 4)} records in four windows.` +
        ` Event loop delay p99 ${delay("p99")} ms, max ${delay("max")} ms.`,
    ],
  };
}

function queuesTable(
  rows: readonly CostRow[],
  costs: ReadonlyMap<CostRow, readonly Cost[]>,
): Table {
  return {
    title: "Cost of a record by queues",
    header: ["queues", "processor time µs", "time µs", "loop p99 ms", "loop max ms"],
    rows: rows.map((row) => {
      const rounds = costs.get(row) ?? [];
      return [
        whole(row.queues),
        spreadText(counted(rounds, "cpuMicros")),
        spreadText(counted(rounds, "wallMicros")),
        medianText(spreadOf(rounds.map(({ loopDelayMs }) => loopDelayMs.p99))),
        medianText(spreadOf(rounds.map(({ loopDelayMs }) => loopDelayMs.max))),
      ];
    }),
  };
}

// Stores that stand.

interface Standing {
  /** Bare Node.js. */
  readonly bare: Idle;
  readonly stores: ReadonlyMap<number, readonly StandingRound[]>;
}

async function measureStanding(bench: Bench): Promise<Standing> {
  const counts = bench.settings.queues;
  const folders = new Map<number, string>();
  for (const count of counts) {
    bench.say(`making a store with ${count} queues`);
    const directory = bench.folder("standing");
    folders.set(count, directory);
    await bench.run("cost", { ...costInput(bench), directory, queues: count, end: "close" });
  }
  const stores = await bench.inRounds<number, StandingRound>(
    counts,
    (count) => `a store with ${count} queues`,
    async (count) => {
      const directory = folders.get(count) as string;
      const idle = await bench.run("idle", { directory });
      await bench.run("cost", { ...costInput(bench), directory, queues: 1, end: "kill" });
      const open = { directory, options: {}, end: "close" } as const;
      const afterCrash = await bench.run("open", open);
      if (afterCrash.cleanStop) throw new Error("The store was not left as a crash leaves it");
      return { idle, afterCrash };
    },
  );
  for (const directory of folders.values()) await bench.remove(directory);
  return { bare: await bench.run("idle", {}), stores };
}

function standingTable({ bare, stores }: Standing): Table {
  const [few] = [...stores.keys()];
  const many = [...stores.keys()].at(-1);
  const spread = (count: number, value: (round: StandingRound) => number): Spread | undefined => {
    const rounds = stores.get(count);
    return rounds && spreadOf(rounds.map(value));
  };
  const perQueue = (value: (round: StandingRound) => number): string => {
    if (few === undefined || many === undefined || few === many) return "-";
    const more = (spread(many, value)?.median ?? 0) - (spread(few, value)?.median ?? 0);
    return figure(more / (many - few));
  };
  return {
    title: "Stores that nothing happens to",
    header: [
      "queues",
      "open ms, clean stop",
      "open ms, crash",
      "loop max ms in it",
      "resident MiB",
      "heap MiB",
    ],
    rows: [...stores.keys()].map((count) => [
      whole(count),
      spreadText(spread(count, ({ idle }) => idle.openMs)),
      spreadText(spread(count, ({ afterCrash }) => afterCrash.openMs)),
      medianText(spread(count, ({ afterCrash }) => afterCrash.loopDelayMs.max)),
      spreadText(spread(count, ({ idle }) => idle.residentBytes / MIB)),
      spreadText(spread(count, ({ idle }) => idle.heapBytes / MIB)),
    ]),
    notes: [
      "",
      `Bare Node.js takes ${figure(bare.residentBytes / MIB)} MiB. A queue more takes` +
        ` ${perQueue(({ idle }) => idle.residentBytes)} bytes of memory,` +
        ` ${perQueue(({ idle }) => idle.heapBytes)} of them on the heap.`,
    ],
  };
}
