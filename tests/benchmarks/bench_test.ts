// The benchmarks at their smallest size: they must not rot. No figure is judged.

import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { settingsOf } from "../../benchmarks/support/settings.ts";

const FOLDER = join(import.meta.dirname, "../../benchmarks");
const PARTS = ["put", "consume", "recovery", "queues", "interference", "query"];
const CHARTS = ["put-1", "put-32", "consume", "recovery", "queues", "interference"];

interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

interface Table {
  readonly title: string;
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

interface Result {
  readonly environment: { readonly node: string; readonly fileSystem: string };
  readonly command: string;
  readonly tables: readonly Table[];
  readonly targets: readonly { readonly name: string; readonly reached?: boolean }[];
  readonly charts: readonly string[];
  readonly results: unknown;
}

interface PutRow {
  readonly mode: string;
  readonly callers: number;
  readonly batch: number;
  readonly ratePerSecond?: number;
  readonly messagesPerSecond: Readonly<Record<string, Spread>>;
  readonly rounds: readonly Readonly<Record<string, PutRound>>[];
}

interface PutRound {
  readonly latencyMs: Readonly<Record<"p50" | "p99" | "p999" | "max", number>>;
  readonly put?: { readonly messages: number; readonly seconds: number; readonly forces: number };
}

function bench(...args: string[]): string {
  const command = ["--import=tsx", join(FOLDER, "bench.ts"), ...args];
  return execFileSync(process.execPath, command, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
}

function resultOf(directory: string, part: string): Result {
  return JSON.parse(readFileSync(join(directory, `${part}.json`), "utf8")) as Result;
}

t.test("benchmarks/bench.ts --smoke measures every part", async (t) => {
  const directory = t.testdir();
  const output = bench("--smoke", "--dir", directory, "--out", directory);
  t.strictSame(
    readdirSync(directory).sort(),
    [...PARTS.map((part) => `${part}.json`), ...CHARTS.map((chart) => `${chart}.svg`)].sort(),
    "stores and floors are removed",
  );
  for (const part of PARTS) {
    const { environment, command, tables, charts } = resultOf(directory, part);
    t.equal(environment.node, process.version);
    t.match(command, /^npm run bench -- --smoke /);
    t.ok(tables.length > 0 && tables.every(({ rows }) => rows.length > 0), `${part}: tables`);
    for (const { title, header, rows } of tables) {
      t.match(output, `\n${title}\n`);
      t.ok(
        rows.every((row) => row.length === header.length),
        `${part}: ${title}`,
      );
    }
    for (const chart of charts) {
      t.match(readFileSync(join(directory, chart), "utf8"), /^<svg .*<\/svg>/s, chart);
    }
    t.ok(tables.some(({ header }) => header.some((title) => title.startsWith("loop"))));
  }
  t.match(output, /^SYNC_FLUSH × 64 callers, of the written blocks' floor +\d+% /m, "a target");
  t.match(output, /^SYNC_FLUSH × 1 caller, beside Java +not measured +>= 1.30× +-$/m);

  const { closed, open } = resultOf(directory, "put").results as Record<string, PutRow[]>;
  const modes = ["SYNC_FLUSH", "ASYNC_FLUSH", "pool"];
  t.strictSame(
    closed?.map(({ mode, callers, batch }) => `${mode} ${callers} ${batch}`),
    ["SYNC_FLUSH 1 1", "SYNC_FLUSH 64 1"].concat(
      modes.slice(1).flatMap((mode) => [`${mode} 64 1`, `${mode} 64 32`]),
    ),
  );
  t.strictSame(
    open?.map(({ mode, batch }) => `${mode} ${batch}`),
    modes.map((mode) => `${mode} 1`),
  );
  for (const row of [...(closed ?? []), ...(open ?? [])]) {
    const name = `${row.mode} ${row.callers} ${row.batch}`;
    const durable = row.mode === "SYNC_FLUSH";
    const floors = durable ? ["floor, written", "floor, sparse", "prototype"] : ["floor, unsynced"];
    const beside = row.ratePerSecond === undefined ? floors : [];
    t.strictSame(Object.keys(row.messagesPerSecond), ["forcelog", ...beside], name);
    for (const { latencyMs, put } of row.rounds.flatMap((round) => Object.values(round))) {
      const { p50, p99, p999, max } = latencyMs;
      t.ok(p50 <= p99 && p99 <= p999 && p999 <= max, `${name}: percentiles are in order`);
      if (put) t.ok(put.messages > 0, `${name}: something was put`);
    }
    for (const { put } of row.rounds.flatMap(({ forcelog }) => forcelog ?? [])) {
      const { messages, seconds, forces } = put as NonNullable<PutRound["put"]>;
      // A group of callers shares a force; the other modes force twice a second.
      if (!durable) t.ok(forces <= 2 + 2 * seconds, `${name}: ${forces} forces`);
      else if (!row.ratePerSecond) t.ok(forces >= messages / row.callers, name);
      else t.ok(forces >= 1, name);
    }
  }

  const document = join(t.testdirName, "document.md");
  cpSync(join(FOLDER, "../docs/performance.md"), document);
  execFileSync(
    process.execPath,
    ["--import=tsx", join(FOLDER, "document.ts"), document, directory],
    { stdio: "ignore" },
  );
  const text = readFileSync(document, "utf8");
  for (const part of PARTS) {
    for (const { title } of resultOf(directory, part).tables) t.match(text, `\n**${title}**\n`);
  }
  t.match(text, /^\| SYNC_FLUSH × 1 caller, of the written blocks' floor \| \d+% \|/m);
});

t.test("benchmarks/bench.ts measures what is asked for", async (t) => {
  const directory = t.testdir();
  const small = ["--smoke", "--parts", "put", "--dir", directory, "--out", directory];
  bench(...small, "--modes", "pool", "--callers", "2", "--batches", "3", "--bodies", "256,300");
  const { closed, open } = resultOf(directory, "put").results as Record<string, PutRow[]>;
  t.strictSame(
    closed?.map(({ mode, callers, batch }) => [mode, callers, batch]),
    [
      ["pool", 2, 3],
      ["pool", 2, 3],
    ],
  );
  t.strictSame(open, []);
});

t.test("settingsOf() refuses what cannot be measured", async (t) => {
  for (const [args, message] of [
    [["--modes", "SOMETIMES"], "Cannot use --modes SOMETIMES: expected some of SYNC_FLUSH"],
    [["--callers", "0"], "Cannot use --callers 0: expected numbers above 0"],
    [["--rounds", "1,2"], "Cannot use --rounds 1,2: expected one number"],
    [["--parts", "put,else"], "Cannot use --parts put,else: expected some of put,consume"],
    [["--everything"], "Unknown option '--everything'"],
  ] as const) {
    t.throws(() => settingsOf(args), { message: new RegExp(`^${message}`) }, args.join(" "));
  }
  const command = ["--import=tsx", join(FOLDER, "bench.ts"), "--callers", "0"];
  const { status, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
  t.equal(status, 2, "and so does the command");
  t.match(stderr, "Cannot use --callers 0");
});

t.test("benchmarks/peers/package-lock.json says nothing of where packages came from", async (t) => {
  t.notMatch(readFileSync(join(FOLDER, "peers/package-lock.json"), "utf8"), /"resolved"/);
});
