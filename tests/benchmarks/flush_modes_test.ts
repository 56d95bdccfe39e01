// The benchmark of the flush modes at its smallest size: it must not rot. No figure is judged.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";

const PROGRAM = join(import.meta.dirname, "../../benchmarks/flush_modes.ts");

interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

interface Round {
  readonly messages: number;
  readonly seconds: number;
  readonly forces: number;
}

interface Result {
  readonly mode: string;
  readonly callers: number;
  readonly bodyBytes: number;
  readonly loop: "closed" | "open";
  readonly messagesPerSecond: Spread;
  readonly ofFloor: { readonly sparse: Spread; readonly zeroed?: Spread };
  readonly latencyMs: Readonly<Record<"p50" | "p99" | "p999" | "max", Spread>>;
  readonly forces: Spread;
  readonly messagesPerForce: Spread;
  readonly loopDelayMs: Readonly<Record<"p99" | "max", Spread>>;
  readonly rounds: readonly Round[];
}

interface Report {
  readonly environment: { readonly node: string; readonly fileSystem: string };
  readonly seed: number;
  readonly results: readonly Result[];
  readonly openAndClose: { readonly openMs: Spread; readonly closeMs: Spread };
  readonly idle: { readonly bareMiB: Spread; readonly storeMiB: Spread };
}

function run(directory: string, ...args: string[]): string {
  const command = ["--import=tsx", PROGRAM, "--smoke", "--dir", directory, "--out", directory];
  return execFileSync(process.execPath, [...command, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
}

function isSpread({ median, min, max }: Spread): boolean {
  return min >= 0 && min <= median && median <= max;
}

t.test("benchmarks/flush_modes.ts --smoke measures every mode beside its floor", async (t) => {
  const directory = t.testdir();
  const output = run(directory);
  t.match(output, /^SYNC_FLUSH +1 +1 KiB +[\d,.]+ /m, "a row of the table");
  t.match(output, /^event loop p99, at worst \(.*\), ms/m);
  t.match(output, /^seed 20240601, checksum [0-9a-f]+$/m);
  t.strictSame(
    readdirSync(directory).sort(),
    ["flush_modes.json", "flush_modes.svg"],
    "stores and floors are removed",
  );
  t.match(readFileSync(join(directory, "flush_modes.svg"), "utf8"), /^<svg .*SYNC_FLUSH.*<\/svg>/s);

  const report = JSON.parse(readFileSync(join(directory, "flush_modes.json"), "utf8")) as Report;
  t.equal(report.environment.node, process.version);
  const names = report.results.map(({ mode, callers, loop }) => `${mode} ${callers} ${loop}`);
  const modes = ["SYNC_FLUSH", "ASYNC_FLUSH", "pool"];
  t.strictSame(names, [
    ...[1, 16].flatMap((callers) => modes.map((mode) => `${mode} ${callers} closed`)),
    ...modes.map((mode) => `${mode} 16 open`),
  ]);
  for (const result of report.results) {
    const name = `${result.mode} ${result.callers} ${result.loop}`;
    const spreads = [result.messagesPerSecond, result.ofFloor.sparse, result.forces];
    spreads.push(result.messagesPerForce, ...Object.values(result.loopDelayMs));
    t.ok(spreads.every(isSpread), name);
    const { p50, p99, p999, max } = result.latencyMs;
    const order = [p50, p99, p999, max].map(({ median }) => median);
    t.strictSame(
      order,
      [...order].sort((a, b) => a - b),
      `${name}: percentiles are in order`,
    );
    t.equal(result.ofFloor.zeroed !== undefined, result.mode === "SYNC_FLUSH");
    for (const { messages, seconds, forces } of result.rounds) {
      t.ok(messages > 0);
      // A group of callers shares a force; the other modes force twice a second.
      if (result.mode !== "SYNC_FLUSH")
        t.ok(forces <= 2 + 2 * seconds, `${name}: ${forces} forces`);
      else if (result.loop === "closed") t.ok(forces >= messages / result.callers, name);
      else t.ok(forces >= 1, name);
    }
  }
  for (const spread of [...Object.values(report.openAndClose), ...Object.values(report.idle)]) {
    t.ok(isSpread(spread));
  }
});

t.test("benchmarks/flush_modes.ts measures what is asked for", async (t) => {
  const directory = t.testdir();
  run(directory, "--modes", "pool", "--callers", "2", "--bodies", "256,300", "--rounds", "2");
  const report = JSON.parse(readFileSync(join(directory, "flush_modes.json"), "utf8")) as Report;
  t.strictSame(
    report.results.map((result) => [result.mode, result.callers, result.bodyBytes, result.loop]),
    [
      ["pool", 2, 256, "closed"],
      ["pool", 2, 300, "closed"],
      ["pool", 2, 256, "open"],
    ],
  );
  t.ok(report.results.every(({ rounds }) => rounds.length === 2));
  t.throws(() => run(directory, "--modes", "SOMETIMES"));
  t.throws(() => run(directory, "--callers", "0"));
});
