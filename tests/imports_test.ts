// The floors of the house: imports go down only, never in a circle, and nothing above the ground
// floor touches the operating system.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import t from "tap";

const LIB = join(import.meta.dirname, "../lib");

/** Rooms by floor; a room may import from its own floor and from those below. */
const FLOORS: Readonly<Record<string, number>> = {
  io: 0,
  message: 1,
  segment: 2,
  commit_log: 3,
  consume_queue: 3,
  index: 3,
  checkpoint: 3,
  metadata: 3,
  put: 4,
  dispatch: 4,
  read: 4,
  recovery: 4,
  stats: 4,
  retention: 4,
};
/** Any floor may use these. */
const EVERYWHERE = ["errors.ts", "options.ts", "units.ts"];
/** These may use any floor. */
const ROOF = [
  "mod.ts",
  "message_store.ts",
  "explain_recovery.ts",
  "store_environment.ts",
  "testing",
];

interface Import {
  readonly from: string;
  readonly to: string;
}

function files(): string[] {
  return readdirSync(LIB, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".ts"));
}

function importsOf(file: string): string[] {
  const text = readFileSync(join(LIB, file), "utf8");
  return [
    ...text.matchAll(/^(?:import|export)\b[^"']*?from\s+"([^"]+)"|import\("([^"]+)"\)/gm),
  ].map((found) => (found[1] ?? found[2]) as string);
}

const all: Import[] = files().flatMap((from) =>
  importsOf(from)
    .filter((to) => to.startsWith("."))
    .map((to) => ({ from, to: relative(LIB, join(LIB, dirname(from), to)) })),
);

function room(file: string): string {
  return file.split("/")[0] as string;
}

t.test("a room imports from its own floor or from below", async (t) => {
  t.ok(all.length > 100, `${all.length} imports were read`);
  for (const { from, to } of all) {
    if (ROOF.includes(room(from)) || EVERYWHERE.includes(to)) continue;
    if (EVERYWHERE.includes(from)) {
      t.fail(`${from} imports ${to}, but any floor may use it`);
      continue;
    }
    const [above, below] = [FLOORS[room(from)], FLOORS[room(to)]];
    t.ok(above !== undefined, `${from} lies in a room of the house`);
    t.ok(below !== undefined && below <= (above as number), `${from} imports ${to}`);
  }
});

t.test("no files, and no rooms, import each other in a circle", async (t) => {
  for (const [what, name] of [
    ["file", (file: string) => file],
    ["room", room],
  ] as const) {
    const edges = new Map<string, Set<string>>();
    for (const { from, to } of all) {
      if (name(from) === name(to)) continue;
      if (what === "room" && (ROOF.includes(room(from)) || EVERYWHERE.includes(to))) continue;
      const targets = edges.get(name(from)) ?? new Set();
      edges.set(name(from), targets.add(name(to)));
    }
    const done = new Set<string>();
    const visit = (node: string, path: readonly string[]): void => {
      if (path.includes(node)) {
        t.fail(`a circle of ${what}s: ${[...path.slice(path.indexOf(node)), node].join(" > ")}`);
        return;
      }
      if (done.has(node)) return;
      for (const next of edges.get(node) ?? []) visit(next, [...path, node]);
      done.add(node);
    };
    for (const node of edges.keys()) visit(node, []);
    t.ok(done.size > 0, `${done.size} ${what}s were visited`);
  }
});

t.test("nothing outside io/ and testing/ imports node:fs", async (t) => {
  for (const file of files()) {
    const outside = !["io", "testing"].includes(room(file));
    const touches = importsOf(file).filter((name) => /^node:(fs|child_process|net)/.test(name));
    if (outside) t.same(touches, [], file);
  }
});
