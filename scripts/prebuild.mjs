// Builds the addon and puts it where the published package carries it:
// prebuilds/<platform>-<arch>/forcelog.node. npm runs it ahead of `npm run build`, by its name.
//
// It speaks Node-API 8, so one build serves every Node from 20.19 on.

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const built = join(root, "build", "Release", "forcelog.node");
const folder = join(root, "prebuilds", `${process.platform}-${process.arch}`);

// Compiles only what changed.
const nodeGyp = join(root, "node_modules", "node-gyp", "bin", "node-gyp.js");
const { status } = spawnSync(
  process.execPath,
  [nodeGyp, "configure", "build", "--loglevel=error"],
  {
    cwd: root,
    stdio: "inherit",
  },
);
if (status !== 0) process.exit(status ?? 1);

if (existsSync(built)) {
  mkdirSync(folder, { recursive: true });
  // Renamed into its place: a process that has the old one loaded keeps it whole.
  copyFileSync(built, join(folder, "forcelog.node.new"));
  renameSync(join(folder, "forcelog.node.new"), join(folder, "forcelog.node"));
} else {
  console.warn(`There is no addon for ${process.platform}: the stand-ins act`);
}
