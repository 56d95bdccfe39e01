/**
 * The packages of `benchmarks/peers`: whether they are there, and how they get there.
 *
 * They have native code and install scripts, so they are no dependencies of the project; whoever
 * wants to compare installs them here.
 *
 * @module
 */

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

export const PACKAGES = ["lmdb", "better-sqlite3", "classic-level"] as const;
export type Package = (typeof PACKAGES)[number];

/** Where they are, from wherever this file was built to. */
function folder(): string {
  let root = import.meta.dirname;
  while (!existsSync(join(root, "package.json")) && dirname(root) !== root) root = dirname(root);
  return join(root, "benchmarks", "peers");
}

/** Installs what the lock file says, unless it is there. @returns Why that failed, if it did. */
export function installPackages(): string | undefined {
  if (PACKAGES.every((name) => versionOf(name) !== undefined)) return undefined;
  // The headers that came with this Node.js, if any, rather than a download.
  const prefix = dirname(dirname(process.execPath));
  const nodedir = existsSync(join(prefix, "include", "node", "node_api.h"))
    ? { npm_config_nodedir: prefix }
    : {};
  const { status, error } = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], {
    cwd: folder(),
    env: { ...process.env, ...nodedir },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (error) return error.message;
  return status === 0 ? undefined : `npm ci in ${folder()} ended with ${status}`;
}

/** Of a package that is installed; `undefined` of one that is not. */
export function versionOf(name: Package): string | undefined {
  const file = join(folder(), "node_modules", name, "package.json");
  if (!existsSync(file)) return undefined;
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

/** What the package exports. */
export function load<T>(name: Package): T {
  return createRequire(join(folder(), "package.json"))(name) as T;
}
