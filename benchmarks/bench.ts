/**
 * Measures, prints tables and the targets, and writes JSON and pictures: one command for all
 * questions of this folder. What is measured, and how, stands at the head of each part.
 *
 * Run: `npm run bench`, with `-- --help` for the options. `npx tsx benchmarks/bench.ts --smoke`
 * only shows that everything runs.
 *
 * @module
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Bench, type Part, SEED } from "./support/bench.ts";
import { type Environment, environmentOf, environmentText } from "./support/environment.ts";
import { JAVA_VERSION, Java } from "./support/java.ts";
import { installPackages, PACKAGES, versionOf } from "./support/peers/packages.ts";
import { figure, type Report, tableText } from "./support/report.ts";
import { type PartName, type Settings, settingsOf, USAGE } from "./support/settings.ts";
import { PEERS } from "./support/subject.ts";
import { type Target, targetsTable } from "./support/targets.ts";

/** Loaded when they are measured: a mistake in the options is told at once. */
const LOAD_PART: Readonly<Record<PartName, () => Promise<Part>>> = {
  put: async () => (await import("./put.ts")).put,
  consume: async () => (await import("./consume.ts")).consume,
  recovery: async () => (await import("./recovery.ts")).recovery,
  queues: async () => (await import("./queues.ts")).queues,
  interference: async () => (await import("./interference.ts")).interference,
  query: async () => (await import("./query.ts")).query,
};

let settings: Settings | undefined;
try {
  settings = settingsOf(process.argv.slice(2));
  if (!settings) console.log(USAGE);
} catch (error) {
  if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
if (settings) await main(settings);

async function main(settings: Settings): Promise<void> {
  const directory = mkdtempSync(join(settings.directory, "forcelog-bench-"));
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      remove();
      process.exit(1);
    });
  }
  try {
    await measure(settings, directory);
  } finally {
    remove();
  }
}

async function measure(settings: Settings, directory: string): Promise<void> {
  const others = findOthers(settings);
  const environment = environmentOf(directory, others.versions);
  const about = environmentText(environment);
  console.log(`${about}\n`);
  for (const remark of [...others.missing, ...remarksOn(environment)]) console.log(remark);
  const { java, peers } = others;
  const bench = new Bench({ settings, directory, about, java, peers });
  const targets: Target[] = [];
  mkdirSync(settings.out, { recursive: true });
  const { without, directory: _, out, ...asked } = settings;
  for (const name of settings.parts) {
    const part = await LOAD_PART[name]();
    const startedAt = performance.now();
    let report: Report;
    try {
      report = await part.measure(bench);
    } catch (error) {
      // The others may still say something.
      console.error(`The part ${name} failed:`, error);
      process.exitCode = 1;
      continue;
    }
    const minutes = (performance.now() - startedAt) / 60_000;
    console.log(`\n== ${name}: ${part.question} (${figure(minutes)} minutes)`);
    for (const table of report.tables) console.log(`\n${tableText(table)}`);
    targets.push(...report.targets);
    const { charts, ...found } = report;
    const content = {
      part: name,
      question: part.question,
      environment,
      command: commandText(),
      settings: { ...asked, without: [...without] },
      seed: SEED,
      minutes,
      charts: charts.map((chart) => `${chart.name}.svg`),
      ...found,
    };
    writeFileSync(join(out, `${name}.json`), `${JSON.stringify(content, undefined, 2)}\n`);
    for (const { name: file, svg } of charts) writeFileSync(join(out, `${file}.svg`), svg);
  }
  console.log(`\n${tableText(targetsTable(targets))}`);
  console.log(
    `\n${settings.rounds} rounds; median [smallest-largest]; seed ${SEED}; ` +
      "only what was measured in one run may be compared",
  );
}

interface Others {
  readonly java: Java | string;
  readonly peers: (typeof PEERS)[number][];
  readonly missing: readonly string[];
  readonly versions: Readonly<Record<string, string>>;
}

/** Whom to compare with: what is missing is said, and the rest goes on. */
function findOthers({ without, install, parts }: Settings): Others {
  const missing: string[] = [];
  const versions: Record<string, string> = {};
  let java: Java | string = "left out";
  if (!without.has("java")) {
    java = Java.find();
    if (typeof java === "string") missing.push(`The Java store is missing: ${java}`);
    else versions.java = `RocketMQ ${JAVA_VERSION} on Java ${java.runtime}`;
  }
  const wanted = parts.includes("put") && (install || !without.has("peers"));
  if (install) {
    const failed = installPackages();
    if (failed !== undefined) missing.push(`The other stores could not be installed: ${failed}`);
  }
  for (const name of wanted ? PACKAGES : []) {
    const version = versionOf(name);
    if (version === undefined) missing.push(`${name} is missing: --peers installs it`);
    else versions[name] = version;
  }
  const peers = PEERS.filter((peer) => (peer.split(",")[0] as string) in versions);
  return { java, peers, missing, versions };
}

function remarksOn({ fileSystem, load, processors }: Environment): string[] {
  const remarks: string[] = [];
  if (/^(tmpfs|ramfs)/.test(fileSystem)) {
    remarks.push("This is no device: a sync costs nothing here. Choose another folder with --dir.");
  }
  if (load > processors / 2) {
    remarks.push("Other processes are at work here: the figures say little.");
  }
  return remarks;
}

/** As it can be typed again. */
function commandText(): string {
  const args = process.argv.slice(2);
  return ["npm run bench", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
}
