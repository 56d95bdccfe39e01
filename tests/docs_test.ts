// The documents say what is there: examples run, codes and options are the code's, and every file,
// test and heading that they name exists.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import t from "tap";
import { encodeCheckpoint, NO_CHECKPOINT } from "../lib/checkpoint/store_checkpoint.ts";
import { PUT_MESSAGE_STATUSES } from "../lib/errors.ts";
import { resolveOptions } from "../lib/options.ts";
import { BINDINGS } from "./support/stores.ts";

const ROOT = join(import.meta.dirname, "..");
const DOCUMENTS = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Every file below a folder, as a path from the root. */
function filesBelow(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true }).map((name) => `${folder}/${name}`);
}

/** The part of a text from one mark to the next. */
function between(text: string, begin: string, end: string): string {
  const from = text.indexOf(begin);
  if (from < 0) throw new Error(`There is no "${begin}"`);
  const to = text.indexOf(end, from + begin.length);
  return text.slice(from + begin.length, to < 0 ? undefined : to);
}

/** Cells of the rows whose first cell is code, without the backticks around a cell. */
function rowsOf(text: string): string[][] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim().replace(/^`([^`]*)`$/, "$1")),
    );
}

const first = (rows: readonly (readonly string[])[]): string[] => rows.map(([cell]) => cell ?? "");

const withoutLock =
  BINDINGS[0]?.options.unsafeOpenWithoutLock === true && "no lock of any kind here";

t.test("the example at the top of README.md runs", { skip: withoutLock }, async (t) => {
  const example = between(read("README.md"), "```ts\n", "```");
  t.ok(example.trimEnd().split("\n").length <= 16, "short");
  const core = example.slice(example.indexOf("\n\n") + 2);
  const whole = read("examples/quick_start.ts");
  t.ok(whole.includes(core.replace('"./data"', "directory")), "as in examples/quick_start.ts");
  const library = pathToFileURL(join(ROOT, "lib/mod.ts")).href;
  const directory = t.testdir();
  const file = join(directory, "example.ts");
  writeFileSync(
    file,
    example
      .replace('"forcelog"', JSON.stringify(library))
      .replace('"./data"', JSON.stringify(join(directory, "data"))),
  );
  const printed = execFileSync(process.execPath, ["--import=tsx", file], {
    cwd: ROOT,
    encoding: "utf8",
  });
  t.equal(printed, "0 new hello\n");
});

t.test("README.md has every error code and every status, and no other", async (t) => {
  const readme = read("README.md");
  const declared = between(read("lib/errors.ts"), "export type StoreErrorCode =", "\n\n");
  t.same(
    first(rowsOf(between(readme, "## Errors", "### Puts"))).sort(),
    [...declared.matchAll(/"(STORE_\w+)"/g)].map(([, code]) => code).sort(),
  );
  const sources = filesBelow("lib")
    .filter((path) => path.endsWith(".ts") && path !== "lib/errors.ts")
    .map(read);
  const used = PUT_MESSAGE_STATUSES.filter(
    (status) => status !== "PUT_OK" && sources.some((text) => text.includes(`"${status}"`)),
  );
  t.same(first(rowsOf(between(readme, "### Puts", "\n## "))).sort(), [...used].sort());
});

t.test("docs/operations.md has every option with its default and range", async (t) => {
  const table = between(read("docs/operations.md"), "<!-- options -->", "<!-- end of options -->");
  const rows = rowsOf(table);
  const defaults: Readonly<Record<string, unknown>> = { ...resolveOptions() };
  t.same(first(rows).sort(), Object.keys(defaults).sort());
  for (const [key, value, range = ""] of rows as [string, string, string][]) {
    if (key !== "storePathCommitLog" && key !== "messageDelayLevel") {
      t.equal(value, String(defaults[key]), `default of ${key}`);
    }
    if (typeof defaults[key] !== "number") continue;
    const [least, greatest] = (/^(\d+) to (\d+)$/.exec(range) ?? ["", "0", "2147483647"])
      .slice(1)
      .map(Number) as [number, number];
    for (const good of [least, greatest]) resolveOptions({ [key]: good });
    for (const bad of [least - 1, greatest + 1]) {
      t.throws(() => resolveOptions({ [key]: bad }), RangeError, `${key} ${bad}`);
    }
  }
});

t.test("README.md's short table of options agrees", async (t) => {
  const defaults: Readonly<Record<string, unknown>> = { ...resolveOptions() };
  const rows = rowsOf(between(read("README.md"), "### MessageStore.open", "| environment |"));
  t.ok(rows.length > 0);
  for (const [key, value] of rows as [string, string][]) {
    const [, plain] = /`([^`]*)`/.exec(value) ?? [undefined, value];
    t.equal(plain?.replaceAll('"', ""), String(defaults[key]), key);
  }
});

t.test("docs/compatibility.md has every key without effect, and every refused one", async (t) => {
  const document = read("docs/compatibility.md");
  const source = read("lib/options.ts");
  const silent = between(between(source, "const WITHOUT_EFFECT", ";"), "`", "`")
    .split(/\s+/)
    .filter((key) => key !== "");
  const listed = between(document, "<!-- keys: without effect -->", "**Refused**");
  t.same([...listed.matchAll(/`(\w+)`/g)].map(([, key]) => key).sort(), silent.sort());
  const refused = rowsOf(between(document, "<!-- keys: refused -->", "\n\nAny"));
  const declared = [
    ...between(source, "const ONLY_WITH", "};").matchAll(/^ {2}(\w+): (.*),$/gm),
  ].map(([, key, value]) => [key, value?.replaceAll('"', "")]);
  t.same(refused.sort(), declared.sort());
});

t.test("docs/format.md has our slot where it is", async (t) => {
  const numbers = { logEnd: 1111, queuesEnd: 2222, queueCount: 3333, unitCount: 4444 };
  const bytes = encodeCheckpoint(NO_CHECKPOINT.longs, numbers);
  const table = between(read("docs/format.md"), "## checkpoint", "\n## ");
  for (const [name, value] of Object.entries(numbers)) {
    const at = Number(new RegExp(`^\\| (\\d+) \\| 8 \\| ${name} `, "m").exec(table)?.[1]);
    t.equal(Number(bytes.readBigInt64BE(at)), value, `${name} at ${at}`);
  }
  t.equal(bytes.readUInt32BE(2048), 0x464c4331);
  t.equal(bytes.readUInt32BE(2136) === 0, false, "the CRC");
  t.notOk(
    bytes.subarray(2140).some((byte) => byte !== 0),
    "nothing behind it",
  );
  const index = { end: 5555, files: 6666, newest: "7777", count: 8888 };
  const times = { endTimestamp: 9999, fullTimestamp: 1234 };
  const mark = { ...index, ...times };
  const full = encodeCheckpoint(NO_CHECKPOINT.longs, { ...numbers, index: mark });
  for (const [name, value] of Object.entries(mark)) {
    const at = Number(new RegExp(`^\\| (23\\d+) \\| 8 \\| ${name} `, "m").exec(table)?.[1]);
    t.equal(Number(full.readBigInt64BE(at)), Number(value), `${name} at ${at}`);
  }
  t.equal(full.readUInt32BE(2304), 0x464c4931);
});

t.test("docs/architecture.md has every room", async (t) => {
  const rooms = readdirSync(join(ROOT, "lib"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== "testing")
    .map(({ name }) => `${name}/`);
  const document = read("docs/architecture.md");
  t.same(first(rowsOf(between(document, "| room |", "\n\n"))).sort(), rooms.sort());
  const floors = between(document, "```\n", "```");
  for (const room of rooms) t.match(floors, ` ${room}`);
});

t.test("files, tests and headings that the documents name exist", async (t) => {
  const tests = filesBelow("tests").filter((path) => path.endsWith("_test.ts"));
  const titles = tests.map(read).join("\n");
  const scripts = Object.keys((JSON.parse(read("package.json")) as { scripts: object }).scripts);
  for (const document of DOCUMENTS) {
    const text = read(document);
    for (const [, path] of text.matchAll(
      /`((?:lib|tests|cli|docs|examples|benchmarks|native)\/[\w./-]*)`/g,
    )) {
      t.ok(existsSync(join(ROOT, path ?? "")), `${document}: ${path}`);
    }
    for (const [, path] of text.matchAll(/(?:npx tsx|npx tap) ([\w./-]+)/g)) {
      if (path !== "...") t.ok(existsSync(join(ROOT, path ?? "")), `${document}: ${path}`);
    }
    for (const [, script] of text.matchAll(/npm run ([\w:-]+)/g)) {
      t.ok(scripts.includes(script ?? ""), `${document}: npm run ${script}`);
    }
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)]+)\)/g)) {
      const [path, anchor] = (target ?? "").split("#") as [string, string?];
      const file = path === "" ? document : join(dirname(document), path);
      if (!t.ok(existsSync(join(ROOT, file)), `${document}: ${target}`) || !anchor) continue;
      const anchors = [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
        anchorOf(heading ?? ""),
      );
      t.ok(anchors.includes(anchor), `${document}: ${target}`);
    }
  }
  // The last column of the table of weaknesses holds the beginnings of tests' names.
  const table = between(read("docs/compatibility.md"), "| weakness |", "\n\n");
  const named = table
    .split("\n")
    .slice(2)
    .flatMap((row) => [...(row.split("|").at(-2) ?? "").matchAll(/`([^`]+)`/g)])
    .map(([, name]) => name ?? "")
    .filter((name) => !name.endsWith(".ts"));
  t.ok(named.length > 20);
  for (const name of named) {
    const isThere = ['"', "`"].some((quote) => titles.includes(quote + name));
    t.ok(isThere, `a test begins with "${name}"`);
  }
});

/** As GitHub makes it from a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
