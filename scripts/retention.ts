/**
 * Puts, reads of all kinds and deletion at once, for as long as wanted: whatever is deleted, no answer may
 * be wrong.
 *
 *     npm run retention -- --seconds 120 --seed 1
 *
 * @module
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { StoreOptions } from "../lib/mod.ts";
import { BYTES_BOUND, type LoadResult, retentionLoad } from "../tests/support/retention_load.ts";

const MODES: Readonly<Record<string, StoreOptions>> = {
  SYNC_FLUSH: { flushDiskType: "SYNC_FLUSH" },
  ASYNC_FLUSH: { flushDiskType: "ASYNC_FLUSH" },
  pool: { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
};

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    dir: { type: "string", default: tmpdir() },
    help: { type: "boolean", short: "h" },
  },
});

if (values.help) {
  console.log(`npm run retention -- [options]
  --seconds N  in each mode (60)
  --seed N     (random, and told)
  --dir DIR    where the stores are made (the system's folder for such files)`);
  process.exit();
}

function positive(name: "seconds" | "seed"): number {
  const value = Number(values[name]);
  if (Number.isFinite(value) && value > 0) return value;
  throw new RangeError(`Cannot use --${name} ${values[name]}: expected a number above 0`);
}

function tell(mode: string, { answers, descriptors, ...result }: LoadResult): boolean {
  const [before, most, after] = descriptors;
  console.log(
    `${mode}: ${result.puts} puts, ${result.reads} reads, ${result.messages} messages read`,
  );
  console.log(`  ${result.deletedLogFiles} files of the log deleted`);
  console.log(
    `  at most ${result.mostBytes} of ${BYTES_BOUND} bytes on disk, ${result.mostFiles} files`,
  );
  console.log(`  descriptors ${before} before, at most ${most}, ${after} after`);
  for (const [answer, count] of [...answers].sort(([, a], [, b]) => b - a)) {
    console.log(`${String(count).padStart(10)}  ${answer}`);
  }
  return result.mostBytes <= BYTES_BOUND && after <= before;
}

const [seconds, seed] = [positive("seconds"), positive("seed")];
console.log(`seed ${seed}, ${seconds} s in each mode`);
for (const [mode, options] of Object.entries(MODES)) {
  const directory = mkdtempSync(join(values.dir, "forcelog-retention-"));
  try {
    const result = await retentionLoad(join(directory, "store"), seed, seconds, options);
    if (!tell(mode, result)) process.exitCode = 1;
  } finally {
    rmSync(directory, { recursive: true });
  }
}
