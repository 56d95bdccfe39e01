// Runs what was built under every line of Node that is supported, and the TypeScript sources as
// they are where Node can do that. The Nodes come from npm; where it has none for this system,
// there is nothing to test and a line says so.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The oldest that is supported, the oldest that runs TypeScript unasked, and the newest line. */
const NODES = [
  { version: "20.19.0", runsTypeScript: false },
  { version: "22.18.0", runsTypeScript: true },
  { version: "24.21.0", runsTypeScript: true },
];
const FIXTURE = "v1-basic";

const root = join(import.meta.dirname, "..");
const cache = join(root, "node_modules", ".cache", "node-versions");

/** @returns The program by version, or why there is none. */
function fetchNodes() {
  const name = ({ version }) => `node-${version}`;
  const programs = new Map(
    NODES.map((node) => [node, join(cache, "node_modules", name(node), "bin", "node")]),
  );
  if (![...programs.values()].every((path) => existsSync(path))) {
    mkdirSync(cache, { recursive: true });
    writeFileSync(join(cache, "package.json"), '{ "private": true }\n');
    const aliases = NODES.map(
      (node) => `${name(node)}@npm:node-${process.platform}-${process.arch}@${node.version}`,
    );
    const { status, stderr } = spawnSync(
      "npm",
      ["install", "--no-save", "--no-package-lock", "--ignore-scripts", "--prefer-offline"].concat(
        aliases,
      ),
      { cwd: cache, encoding: "utf8", timeout: 300_000 },
    );
    if (status !== 0) return { reason: stderr.trim().split("\n", 1)[0] || "npm took too long" };
  }
  return { programs };
}

/** Where the library lies, and how the `forcelog` command is started, in each of its forms. */
const FORMS = {
  dist: { lib: join(root, "dist/lib"), cli: join(root, "dist/cli/main.js"), suffix: "js" },
  sources: { lib: join(root, "lib"), cli: join(root, "cli/main.ts"), suffix: "ts" },
};

function smoke(node, { lib, suffix }) {
  const modules = ["mod", "testing/mod"].map(
    (name) => pathToFileURL(join(lib, `${name}.${suffix}`)).href,
  );
  return execFileSync(node, [join(root, "scripts/smoke.mjs"), ...modules], {
    encoding: "utf8",
    timeout: 60_000,
  }).trim();
}

/** The command, on a store that RocketMQ wrote. */
function dump(node, { cli }) {
  const fixture = join(root, "tests/fixtures/golden", FIXTURE);
  const directory = mkdtempSync(join(tmpdir(), "forcelog-nodes-"));
  try {
    execFileSync("tar", ["-xzf", join(fixture, "store.tar.gz"), "-C", directory]);
    const script = `
      process.argv.splice(1, 0, "forcelog");
      const { runProcess } = await import(${JSON.stringify(pathToFileURL(cli).href)});
      await runProcess();`;
    const verb = ["dump", "--dir", directory, "--config", join(fixture, "recipe.json")];
    const output = execFileSync(node, ["--input-type=module", "--eval", script, ...verb], {
      encoding: "utf8",
      timeout: 60_000,
    });
    const expected = JSON.parse(readFileSync(join(fixture, "expected.json"), "utf8"));
    const [seen, due] = [JSON.parse(output), expected].map(({ commitLog }) => commitLog.records);
    if (seen.length !== due.length) {
      throw new Error(`dump has ${seen.length} records of ${FIXTURE}, not ${due.length}`);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

if (!existsSync(FORMS.dist.lib)) throw new Error("Nothing is built: npm run build");
const { programs, reason } = fetchNodes();
if (programs === undefined) {
  console.log(`skipped: no Nodes from npm for this system: ${reason}`);
} else {
  for (const [{ version, runsTypeScript }, program] of programs) {
    for (const form of runsTypeScript ? ["dist", "sources"] : ["dist"]) {
      try {
        const said = smoke(program, FORMS[form]);
        dump(program, FORMS[form]);
        console.log(`ok ${form}: ${said}`);
      } catch (error) {
        console.log(`not ok ${form} on Node ${version}: ${error.message}`);
        process.exitCode = 1;
      }
    }
  }
}
