/**
 * What does each flush mode cost, beside the device's own limit, and does the event loop stay free?
 *
 * Rows: mode × callers × body. A caller awaits its put before the next; latency is counted from the
 * call. One row per mode is an *open* loop: puts begin at a fixed rate, half of what the callers
 * reached, and latency is counted from the moment at which a put was due, so that a store that
 * stands still is not asked less. Each row has a store of its own, in an empty folder, with default
 * options but for the mode; it is loaded, closed, and opened again: all acknowledged messages must
 * be there, and the last body must be the one that was put.
 *
 * The floor, measured right beside each row: for SYNC_FLUSH `pwrite` and `fdatasync` of as many
 * bytes as the store wrote per force, one call after the other in one hop to a thread, into a sparse
 * file (as the commit log is) and into one that had zeros written before; for the others `pwrite`
 * of as many bytes as the store wrote per commit, on the main thread, beside a sync every 500 ms.
 * A row says how much of its floor's messages per second the store reached. How late the event loop
 * was is told of both: what the floor's loop shows is the machine's, not the store's.
 *
 * The rows are measured in rounds, in an order that the seed shuffles; a figure is the median of
 * the rounds with the smallest and the largest. Only what was measured in one run may be compared.
 *
 * Not measured: reading, batches, several queues, recovery of a large store, a store larger than
 * the memory, other processes on the device, ASYNC_FLUSH for longer than a few flush intervals.
 *
 * Run: `npm run bench`, or with `npx tsx benchmarks/flush_modes.ts --smoke` only see that it runs.
 * `--help` tells the options.
 *
 * @module
 */

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { MessageStore } from "../lib/mod.ts";
import { DeviceFloor } from "./support/device_floor.ts";
import { environmentOf, environmentText } from "./support/environment.ts";
import { type LoopDelay, LoopDelayMonitor } from "./support/loop_delay.ts";
import { type Percentiles, randomOf, type Spread, shuffled, spreadOf } from "./support/numbers.ts";
import { bytesText, figure, percent, spreadText, tableText } from "./support/report.ts";
import { type Load, type Measured, MODES, type Mode, runLoad } from "./support/store_load.ts";

const USAGE = `Usage: flush_modes.ts [options]
  --smoke          the smallest size: shows that it runs, its figures say nothing
  --seconds N      of load per row and round (1)
  --rounds N       (3)
  --callers LIST   (1,16,64,256)
  --bodies LIST    bytes (256,1024,4096,65536)
  --modes LIST     (${MODES.join(",")})
  --dir DIR        where the stores are made: choose the device (the system's folder for such files)
  --out DIR        for flush_modes.json and flush_modes.svg (benchmarks/results)`;

const SEED = 20240601;
const LOG_FILE_BYTES = 1024 ** 3;
const MIB = 1024 * 1024;
/** What the project wants to reach. */
const TARGETS = { syncOfFloor: 0.5, loneAsync: 100_000, loopP99Ms: 5, idleMiB: 60 } as const;

interface Settings {
  readonly smoke: boolean;
  readonly seconds: number;
  readonly rounds: number;
  readonly callers: readonly number[];
  readonly bodies: readonly number[];
  readonly modes: readonly Mode[];
  readonly directory: string;
  readonly out: string;
}

/** What a row is about. */
interface Row {
  readonly mode: Mode;
  readonly callers: number;
  readonly bodyBytes: number;
  readonly loop: "closed" | "open";
  /** Of an open loop. */
  ratePerSecond?: number;
}

/** A row in one round, and how many messages per second its floors would carry. */
interface Round extends Measured {
  readonly floorFirst: boolean;
  readonly floor: {
    readonly sparse: number;
    readonly zeroed?: number;
    /** How late the event loop was meanwhile: what the machine adds, whoever is at work. */
    readonly loopDelayMs: LoopDelay;
  };
}

interface Result extends Row {
  readonly messagesPerSecond: Spread;
  readonly ofFloor: { readonly sparse: Spread; readonly zeroed?: Spread };
  readonly floorPerSecond: { readonly sparse: Spread; readonly zeroed?: Spread };
  readonly latencyMs: Readonly<Record<keyof Percentiles, Spread>>;
  readonly forces: Spread;
  readonly messagesPerForce: Spread;
  readonly messagesPerCommit: Spread;
  readonly loopDelayMs: Readonly<Record<keyof LoopDelay, Spread>>;
  readonly floorLoopDelayMs: Readonly<Record<keyof LoopDelay, Spread>>;
  readonly rounds: readonly Round[];
}

const settings = settingsOf(process.argv.slice(2));
if (settings === USAGE) {
  console.log(USAGE);
} else if (typeof settings === "string") {
  console.error(settings);
  process.exitCode = 2;
} else {
  const directory = mkdtempSync(join(settings.directory, "forcelog-bench-"));
  try {
    await main(settings, directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function main(settings: Settings, directory: string): Promise<void> {
  const { smoke, seconds, rounds, out } = settings;
  const environment = environmentOf(directory);
  console.log(environmentText(environment));
  if (/^(tmpfs|ramfs)/.test(environment.fileSystem)) {
    console.log("This is no device: a sync costs nothing here. Choose another folder with --dir.");
  }
  const monitor = await LoopDelayMonitor.make(smoke ? 50 : 1000);
  const floor = await DeviceFloor.make(directory, {
    sparseBytes: LOG_FILE_BYTES,
    zeroedBytes: (smoke ? 16 : 256) * MIB,
    seed: SEED,
  });
  const runs = await measureRows(settings, { directory, monitor, floor });
  await floor.close();
  const results = [...runs].map(([row, rounds]) => resultOf(row, rounds));
  const openAndClose = await measureOpenAndClose(directory, smoke ? 2 : 11);
  const idle = measureIdleMemory(directory, smoke ? 1 : 5);

  console.log(`\n${rounds} rounds of ${seconds} s; median [smallest-largest]\n`);
  console.log(resultsText(results));
  console.log(
    `\nopen of an empty folder ${spreadText(openAndClose.openMs)} ms, close ${spreadText(openAndClose.closeMs)} ms` +
      `\nidle store ${spreadText(idle.storeMiB)} MiB resident, bare Node ${spreadText(idle.bareMiB)} MiB` +
      `\nan idle event loop shows ${monitor.idleMs.toFixed(2)} ms, which is taken off all of its figures\n`,
  );
  console.log(targetsText(results, idle.storeMiB.median - idle.bareMiB.median));
  const checksum = results.reduce((sum, { rounds }) => (sum + lastCrc(rounds)) % 2 ** 32, 0);
  console.log(`\nseed ${SEED}, checksum ${checksum.toString(16)}`);

  mkdirSync(out, { recursive: true });
  const { directory: _, out: __, ...options } = settings;
  const report = { environment, seed: SEED, options, results, openAndClose, idle, checksum };
  writeFileSync(join(out, "flush_modes.json"), `${JSON.stringify(report, undefined, 2)}\n`);
  const bodyBytes = chartedBody(settings.bodies);
  const { chartSvg } = await import("./support/chart.ts");
  writeFileSync(
    join(out, "flush_modes.svg"),
    chartSvg({
      bodyBytes,
      subtitle: environmentText(environment),
      rows: results
        .filter((result) => result.bodyBytes === bodyBytes && result.loop === "closed")
        .map(({ mode, callers, messagesPerSecond, floorPerSecond, latencyMs }) => ({
          mode,
          callers,
          messagesPerSecond: messagesPerSecond.median,
          floorPerSecond: floorPerSecond.sparse.median,
          p50Ms: latencyMs.p50.median,
          p99Ms: latencyMs.p99.median,
        })),
    }),
  );
  console.log("written: flush_modes.json and flush_modes.svg");
}

// Rows.

interface Bench {
  readonly directory: string;
  readonly monitor: LoopDelayMonitor;
  readonly floor: DeviceFloor;
}

async function measureRows(settings: Settings, bench: Bench): Promise<Map<Row, Round[]>> {
  const { callers, bodies, modes, rounds, smoke } = settings;
  const rows: Row[] = bodies.flatMap((bodyBytes) =>
    callers.flatMap((count) =>
      modes.map((mode): Row => ({ mode, callers: count, bodyBytes, loop: "closed" })),
    ),
  );
  const openCallers = Math.max(...callers.filter((count) => count <= 64), callers[0]!);
  const bodyBytes = chartedBody(bodies);
  const openRows = modes.map(
    (mode): Row => ({ mode, callers: openCallers, bodyBytes, loop: "open" }),
  );
  const runs = new Map<Row, Round[]>([...rows, ...openRows].map((row) => [row, []]));
  const random = randomOf(SEED);
  if (!smoke) {
    // Compiled code and a heap of its later size, before anything counts.
    for (const row of rows.slice(0, modes.length))
      await measureRow(row, undefined, settings, bench);
  }
  for (let round = 0; round < rounds; round++) {
    for (const row of [...shuffled(rows, random), ...shuffled(openRows, random)]) {
      if (row.loop === "open") {
        const closed = rows.find(
          (one) =>
            one.mode === row.mode && one.callers === openCallers && one.bodyBytes === bodyBytes,
        ) as Row;
        row.ratePerSecond ??= Math.ceil((runs.get(closed)?.[0]?.messagesPerSecond ?? 0) / 2);
      }
      const before = runs.get(row) as Round[];
      const measured = await measureRow(row, before.at(-1), settings, bench);
      before.push(measured);
      console.error(
        `round ${round + 1}/${rounds}  ${nameOf(row)}  ${figure(measured.messagesPerSecond)} msg/s  ${percent(measured.messagesPerSecond / measured.floor.sparse)} of the floor`,
      );
    }
  }
  return runs;
}

/** The store beside its floors: it goes first in the first round, and then every other time. */
async function measureRow(
  row: Row,
  last: Round | undefined,
  { seconds, smoke }: Settings,
  { directory, monitor, floor }: Bench,
): Promise<Round> {
  const { mode, callers, bodyBytes, ratePerSecond } = row;
  const load: Load = {
    mode,
    callers,
    bodyBytes,
    seconds,
    warmUpSeconds: Math.min(seconds / 4, 0.25),
    seed: SEED,
    ...(ratePerSecond === undefined ? {} : { ratePerSecond }),
  };
  const floorsFor = async (measured: Measured): Promise<Round["floor"]> => {
    const { recordBytes, messagesPerForce, messagesPerCommit } = measured;
    const floorSeconds = smoke ? seconds : seconds / 2;
    if (mode !== "SYNC_FLUSH") {
      const bytes = Math.round(recordBytes * messagesPerCommit);
      const { callsPerSecond, loopDelayMs } = await floor.writeNow(bytes, floorSeconds, monitor);
      return { sparse: callsPerSecond * messagesPerCommit, loopDelayMs };
    }
    const bytes = Math.round(recordBytes * messagesPerForce);
    const sparse = await floor.writeAndSync("sparse", bytes, floorSeconds, monitor);
    const zeroed = await floor.writeAndSync("zeroed", bytes, floorSeconds, monitor);
    return {
      sparse: sparse.callsPerSecond * messagesPerForce,
      zeroed: zeroed.callsPerSecond * messagesPerForce,
      loopDelayMs: sparse.loopDelayMs,
    };
  };
  const floorFirst = last !== undefined && last.floorFirst !== true;
  const before = floorFirst ? await floorsFor(last) : undefined;
  const measured = await runLoad(directory, load, monitor);
  return { ...measured, floorFirst, floor: before ?? (await floorsFor(measured)) };
}

function resultOf(row: Row, rounds: readonly Round[]): Result {
  const spread = (value: (round: Round) => number): Spread => spreadOf(rounds.map(value));
  const zeroed = row.mode === "SYNC_FLUSH";
  return {
    ...row,
    messagesPerSecond: spread((round) => round.messagesPerSecond),
    ofFloor: {
      sparse: spread((round) => round.messagesPerSecond / round.floor.sparse),
      ...(zeroed && { zeroed: spread((round) => round.messagesPerSecond / round.floor.zeroed!) }),
    },
    floorPerSecond: {
      sparse: spread((round) => round.floor.sparse),
      ...(zeroed && { zeroed: spread((round) => round.floor.zeroed!) }),
    },
    latencyMs: {
      p50: spread((round) => round.latencyMs.p50),
      p99: spread((round) => round.latencyMs.p99),
      p999: spread((round) => round.latencyMs.p999),
      max: spread((round) => round.latencyMs.max),
    },
    forces: spread((round) => round.forces),
    messagesPerForce: spread((round) => round.messagesPerForce),
    messagesPerCommit: spread((round) => round.messagesPerCommit),
    loopDelayMs: {
      p99: spread((round) => round.loopDelayMs.p99),
      max: spread((round) => round.loopDelayMs.max),
    },
    floorLoopDelayMs: {
      p99: spread((round) => round.floor.loopDelayMs.p99),
      max: spread((round) => round.floor.loopDelayMs.max),
    },
    rounds,
  };
}

// Open, close, and memory.

async function measureOpenAndClose(directory: string, times: number) {
  const openMs: number[] = [];
  const closeMs: number[] = [];
  for (let i = 0; i < times; i++) {
    const path = mkdtempSync(join(directory, "empty-"));
    const startedAt = performance.now();
    const store = await MessageStore.open(path);
    const openedAt = performance.now();
    await store.close();
    closeMs.push(performance.now() - openedAt);
    openMs.push(openedAt - startedAt);
    rmSync(path, { recursive: true });
  }
  return { openMs: spreadOf(openMs), closeMs: spreadOf(closeMs) };
}

function measureIdleMemory(directory: string, times: number) {
  const program = fileURLToPath(
    new URL(`./support/idle_memory${extname(import.meta.url)}`, import.meta.url),
  );
  const run = (args: readonly string[]): number => {
    const command = [...process.execArgv, "--expose-gc", program, ...args];
    return Number(execFileSync(process.execPath, command, { encoding: "utf8" })) / MIB;
  };
  const bare: number[] = [];
  const store: number[] = [];
  for (let i = 0; i < times; i++) {
    bare.push(run([]));
    store.push(run([mkdtempSync(join(directory, "idle-"))]));
  }
  return { bareMiB: spreadOf(bare), storeMiB: spreadOf(store) };
}

// Text.

function nameOf({ mode, callers, bodyBytes, loop, ratePerSecond }: Row): string {
  const crowd = `${callers} ${callers === 1 ? "caller" : "callers"}`;
  const load = loop === "closed" ? crowd : `${figure(ratePerSecond ?? 0)}/s`;
  return `${mode} × ${load} × ${bytesText(bodyBytes)}`;
}

function resultsText(results: readonly Result[]): string {
  const header = [
    "mode",
    "load",
    "body",
    "msg/s",
    "MiB/s",
    "of sparse floor",
    "of zeroed floor",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "forces",
    "msg/force",
    "loop p99 ms",
    "loop max ms",
    "floor's loop p99",
  ];
  const rows = results.map((result) => {
    const { messagesPerSecond, ofFloor, latencyMs, loopDelayMs, bodyBytes } = result;
    return [
      result.mode,
      result.loop === "closed" ? `${result.callers}` : "open",
      bytesText(bodyBytes),
      spreadText(messagesPerSecond),
      figure((messagesPerSecond.median * bodyBytes) / MIB),
      spreadText(ofFloor.sparse, percent),
      ofFloor.zeroed ? spreadText(ofFloor.zeroed, percent) : "-",
      figure(latencyMs.p50.median),
      figure(latencyMs.p99.median),
      spreadText(latencyMs.p999),
      figure(result.forces.median),
      result.forces.median === 0 ? "-" : figure(result.messagesPerForce.median),
      figure(loopDelayMs.p99.median),
      figure(loopDelayMs.max.median),
      figure(result.floorLoopDelayMs.p99.median),
    ];
  });
  return tableText(header, rows);
}

/** What the project wants to reach, and what this run found. */
function targetsText(results: readonly Result[], idleMiB: number): string {
  const closed = results.filter(({ loop }) => loop === "closed");
  const find = (mode: Mode, callers: number): Result | undefined =>
    closed.find(
      (row) =>
        row.mode === mode &&
        row.callers === callers &&
        row.bodyBytes === chartedBody([...new Set(closed.map((one) => one.bodyBytes))]),
    );
  const sync = find("SYNC_FLUSH", 64);
  const lone = find("ASYNC_FLUSH", 1);
  const latest = results.reduce((a, b) =>
    a.loopDelayMs.p99.median > b.loopDelayMs.p99.median ? a : b,
  );
  const rows: string[][] = [];
  const add = (name: string, found: string, target: string, reached: boolean): void => {
    rows.push([name, found, target, reached ? "yes" : "no"]);
  };
  if (sync) {
    const { sparse } = sync.ofFloor;
    add(
      "64 callers in SYNC_FLUSH, of the sparse floor",
      spreadText(sparse, percent),
      ">= 50%",
      sparse.median >= TARGETS.syncOfFloor,
    );
  }
  if (lone) {
    const { messagesPerSecond: rate } = lone;
    add(
      "one awaiting caller in ASYNC_FLUSH, msg/s",
      spreadText(rate),
      ">= 100,000",
      rate.median >= TARGETS.loneAsync,
    );
  }
  const { p99 } = latest.loopDelayMs;
  add(
    `event loop p99, at worst (${nameOf(latest)}), ms`,
    spreadText(p99),
    "< 5",
    p99.median < TARGETS.loopP99Ms,
  );
  add(
    "memory of an idle store above bare Node, MiB",
    figure(idleMiB),
    "< 60",
    idleMiB < TARGETS.idleMiB,
  );
  return tableText(["target", "found", "wanted", "reached"], rows);
}

function lastCrc(rounds: readonly Round[]): number {
  return rounds.at(-1)?.crc ?? 0;
}

/** The body size of the open loops, the chart and the targets: 1 KiB where it is measured. */
function chartedBody(bodies: readonly number[]): number {
  return bodies.includes(1024) ? 1024 : bodies[0]!;
}

// Options.

/** The settings, or what to tell instead: the usage, or what is wrong. */
function settingsOf(args: readonly string[]): Settings | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        smoke: { type: "boolean", default: false },
        seconds: { type: "string" },
        rounds: { type: "string" },
        callers: { type: "string" },
        bodies: { type: "string" },
        modes: { type: "string", default: MODES.join(",") },
        dir: { type: "string", default: tmpdir() },
        out: { type: "string", default: join("benchmarks", "results") },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help) return USAGE;
    const { smoke } = values;
    return {
      smoke,
      seconds: numbersOf("seconds", values.seconds ?? (smoke ? "0.05" : "1"))[0]!,
      rounds: numbersOf("rounds", values.rounds ?? (smoke ? "1" : "3"))[0]!,
      callers: numbersOf("callers", values.callers ?? (smoke ? "1,16" : "1,16,64,256")),
      bodies: numbersOf("bodies", values.bodies ?? (smoke ? "1024" : "256,1024,4096,65536")),
      modes: modesOf(values.modes),
      directory: resolve(values.dir),
      out: resolve(values.out),
    };
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) return error.message;
    throw error;
  }
}

function numbersOf(name: string, text: string): number[] {
  const numbers = text.split(",").map(Number);
  if (!numbers.every((number) => Number.isFinite(number) && number > 0)) {
    throw new RangeError(`Cannot use --${name} ${text}: expected numbers above 0`);
  }
  return numbers;
}

function modesOf(text: string): Mode[] {
  const names = text.split(",");
  const unknown = names.find((name) => !MODES.some((mode) => mode === name));
  if (unknown !== undefined) {
    throw new RangeError(`Cannot use --modes ${text}: expected some of ${MODES.join(",")}`);
  }
  return MODES.filter((mode) => names.includes(mode));
}
