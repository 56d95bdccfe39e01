#!/usr/bin/env node
// The `forcelog` command: runs what was built, or in a checkout that was not built its source.
import { existsSync } from "node:fs";

const built = new URL("../dist/cli/main.js", import.meta.url);
const source = new URL("./main.ts", import.meta.url);
const isBuilt = existsSync(built);
if (!isBuilt && !process.features.typescript) {
  const { register } = await import("tsx/esm/api").catch((error) => {
    console.error(
      `forcelog: Cannot run: not built, and no tsx to run the source: ${error.message}`,
    );
    process.exit(1);
  });
  register();
}
const { runProcess } = await import((isBuilt ? built : source).href);
await runProcess();
