// The package as it is published: what the tarball holds, and that it works in an empty project
// where nothing is compiled and no registry is asked.

import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import t from "tap";
import { loadNativeBinding, nativeBindingStatus } from "../../lib/io/native_binding.ts";
import { openGolden } from "../support/golden.ts";

const ROOT = join(import.meta.dirname, "../..");
const PREBUILT = `prebuilds/${process.platform}-${process.arch}/forcelog.node`;

interface Manifest {
  readonly version: string;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/** What npm tells the scripts it runs is about another package than the one a test is about. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^npm_(package|lifecycle|config_local_prefix)/.test(name),
  ),
);

function run(cwd: string, program: string, ...args: string[]): string {
  return execFileSync(program, args, { cwd, env: environment, encoding: "utf8" });
}

/** The names of the files in the packed folder, and the path of the tarball. */
function pack(folder: string, to: string): { files: string[]; path: string } {
  const output = run(to, "npm", "pack", folder, "--json", "--ignore-scripts");
  const [packed] = JSON.parse(output);
  return {
    files: packed.files.map((file: { path: string }) => file.path),
    path: join(to, packed.filename),
  };
}

/**
 * Makes a copy and builds in it: other tests may run what lies in `dist/` meanwhile. The addon is
 * not compiled again.
 */
function buildCopy(to: string): void {
  const left = ["node_modules", ".git", ".tap", "build", "dist", "prebuilds", "tests"];
  cpSync(ROOT, to, {
    recursive: true,
    filter: (source) => !left.includes(relative(ROOT, source)),
  });
  symlinkSync(join(ROOT, "node_modules"), join(to, "node_modules"));
  run(to, "npm", "run", "build", "--ignore-scripts");
  mkdirSync(dirname(join(to, PREBUILT)), { recursive: true });
  copyFileSync(nativeBindingStatus().replace("loaded from ", ""), join(to, PREBUILT));
}

t.test("package.json depends on commander alone", async (t) => {
  const { dependencies, optionalDependencies } = readManifest(ROOT);
  t.same(Object.keys(dependencies), ["commander"]);
  t.same(Object.keys(optionalDependencies), ["fs-ext"]);
});

t.test("npm pack builds before it packs, the addon first", async (t) => {
  const { prepack, prebuild } = readManifest(ROOT).scripts ?? {};
  t.equal(prepack, "npm run build", "which runs prebuild before it, by its name");
  t.equal(prebuild, "node scripts/prebuild.mjs");
});

t.test("package-lock.json says nothing of where packages came from", async (t) => {
  t.notMatch(readFileSync(join(ROOT, "package-lock.json"), "utf8"), /"resolved"/);
});

const skip = loadNativeBinding() === undefined && "the addon isn't built";
t.test("the packed package", { skip }, async (t) => {
  // Outside of the checkout, whose node_modules would be found from within.
  const folder = mkdtempSync(join(tmpdir(), "forcelog-package-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const [checkout, project] = [join(folder, "checkout"), join(folder, "project")];
  mkdirSync(project);
  buildCopy(checkout);
  const { files, path } = pack(checkout, folder);
  const commander = pack(join(ROOT, "node_modules/commander"), folder);

  t.test("holds what was built, and no sources that npm would compile", async (t) => {
    for (const file of [
      "package.json",
      "README.md",
      "CHANGELOG.md",
      "LICENSE",
      "cli/forcelog.mjs",
      "dist/cli/main.js",
      "dist/lib/mod.js",
      "dist/lib/mod.d.ts",
      "dist/lib/testing/mod.js",
      "dist/lib/testing/mod.d.ts",
      PREBUILT,
    ]) {
      t.ok(files.includes(file), file);
    }
    const expected =
      /^(package\.json|[A-Z]+(\.md)?|docs\/\w+\.md|docs\/pictures\/[\w-]+\.svg|cli\/forcelog\.mjs|prebuilds\/.*\.node|dist\/(lib|cli)\/.*\.(js|js\.map|d\.ts))$/;
    t.same(
      files.filter((file) => !expected.test(file)),
      [],
      "nothing else",
    );
  });

  // Without the optional dependency, with a cache of its own that is empty, and with commander from
  // node_modules: nothing is fetched.
  writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }\n');
  const offline = ["--offline", "--cache", join(folder, "cache"), "--omit=optional"];
  run(project, "npm", "install", "--ignore-scripts", ...offline, path, commander.path);
  const installed = join(project, "node_modules/forcelog");

  t.test("has no script that npm runs at its installation", async (t) => {
    const { scripts = {} } = readManifest(installed);
    for (const name of ["preinstall", "install", "postinstall"]) t.notOk(name in scripts, name);
    t.notOk(existsSync(join(installed, "binding.gyp")), "which npm would build from by itself");
    t.notOk(existsSync(join(project, "node_modules/fs-ext")), "the optional one isn't there");
  });

  t.test("puts and reads with the addon that it carries", async (t) => {
    copyFileSync(join(ROOT, "scripts/smoke.mjs"), join(project, "smoke.mjs"));
    const said = run(project, process.execPath, "smoke.mjs", "forcelog", "forcelog/testing");
    t.ok(said.trimEnd().endsWith(join(installed, PREBUILT)), said);
  });

  t.test("brings the command forcelog", async (t) => {
    const { dir, recipe, expected } = openGolden(t, "v1-basic");
    const info = ["info", "--json", "--config", JSON.stringify(recipe.config), dir];
    const facts = JSON.parse(run(project, "npx", "--no", "forcelog", ...info));
    t.equal(facts.commitLog.maxOffset, expected.commitLog.maxOffset);
    const { version } = readManifest(ROOT);
    t.equal(run(project, "node_modules/.bin/forcelog", "--version").trim(), version);
  });

  t.test("brings types that a strict project can use", async (t) => {
    writeFileSync(
      join(project, "user.ts"),
      `import { MessageStore, type PutResult } from "forcelog";
       import { FakeClock } from "forcelog/testing";
       const store: MessageStore = await MessageStore.open("data", { flushDiskType: "SYNC_FLUSH" });
       export const result: PutResult = await store.put({ topic: "a", body: new Uint8Array() });
       // @ts-expect-error: there is no such mode
       await MessageStore.open("data", { flushDiskType: "NO_FLUSH" });
       export const clock = new FakeClock();`,
    );
    const options = {
      compilerOptions: {
        strict: true,
        noEmit: true,
        module: "NodeNext",
        target: "ES2023",
        lib: ["ES2023", "ESNext.Disposable"],
        types: ["node"],
        typeRoots: [join(ROOT, "node_modules/@types")],
      },
      files: ["user.ts"],
    };
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify(options));
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    t.equal(run(project, process.execPath, tsc, "-p", "."), "");
  });
});
