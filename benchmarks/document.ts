/**
 * Puts the results of the benchmarks into a document, between marks that name a part:
 *
 *     <!-- figures: put -->
 *     ... is replaced ...
 *     <!-- end of figures -->
 *
 * Pictures go into `pictures/` beside it. The part `targets` stands for the targets of all parts. A part without a result keeps what it
 * has.
 *
 * Run: `npm run bench:document`, or with `npx tsx benchmarks/document.ts DOCUMENT RESULTS` another
 * document and another folder of results.
 *
 * @module
 */

import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Environment, environmentText } from "./support/environment.ts";
import { type Table, tableMarkdown } from "./support/report.ts";
import { PARTS, type PartName } from "./support/settings.ts";
import { type Target, targetsTable } from "./support/targets.ts";

/** What a document needs of a part's results. */
interface Result {
  readonly environment: Environment;
  readonly command: string;
  readonly minutes: number;
  readonly settings: { readonly rounds: number; readonly seconds: number };
  readonly tables: readonly Table[];
  readonly targets: readonly Target[];
  /** File names of the pictures. */
  readonly charts: readonly string[];
}

const MARKS = /(<!-- figures: (\w+) -->\n).*?(\n<!-- end of figures -->)/gs;

const [document = join("docs", "performance.md"), folder = join("benchmarks", "results")] =
  process.argv.slice(2);
const results = new Map<PartName, Result>();
for (const name of PARTS) {
  const path = join(folder, `${name}.json`);
  if (existsSync(path)) results.set(name, JSON.parse(readFileSync(path, "utf8")) as Result);
}
let filled = 0;
const text = readFileSync(document, "utf8").replace(
  MARKS,
  (whole, begin: string, name: string, end: string) => {
    const content = contentOf(name);
    if (content === undefined) return whole;
    filled++;
    return `${begin}\n${content}\n${end}`;
  },
);
writeFileSync(document, text);
console.log(`${filled} sections of ${document} filled from ${results.size} results`);

function contentOf(name: string): string | undefined {
  if (name === "targets") {
    if (results.size === 0) return undefined;
    return tableMarkdown(targetsTable([...results.values()].flatMap(({ targets }) => targets)));
  }
  const result = results.get(name as PartName);
  if (!result) return undefined;
  const { environment, command, minutes, settings, tables, charts } = result;
  const pictures = join(dirname(document), "pictures");
  mkdirSync(pictures, { recursive: true });
  for (const file of charts) copyFileSync(join(folder, file), join(pictures, file));
  return [
    "```",
    environmentText(environment),
    `${command}   (${minutes.toFixed(1)} minutes; ${settings.rounds} rounds of ${settings.seconds} s)`,
    "```",
    ...tables.flatMap((table) => ["", tableMarkdown(table)]),
    ...charts.flatMap((file) => ["", `![${name}](pictures/${file})`]),
  ].join("\n");
}
