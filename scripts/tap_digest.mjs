// Reads TAP of `tap --reporter=tap`, prints a line for each test file and what failed in it, and
// writes tap's totals to a file:
//
//   tap --reporter=tap | node scripts/tap_digest.mjs FILE      FILE gets "PASSED FAILED SKIPPED"

import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const totals = { pass: 0, fail: 0, skip: 0, todo: 0 };
/** Of the failed assertion that is being printed. */
let indent;
let file = "";

for await (const line of createInterface({ input: process.stdin })) {
  const [, started] = /^# Subtest: (.*)/.exec(line) ?? [];
  const [, spaces, verdict] = /^( *)(ok|not ok) /.exec(line) ?? [];
  const [, summary] = /^# (\{ total: \d+.*\})$/.exec(line) ?? [];
  if (started !== undefined) file = started;
  if (summary !== undefined) {
    for (const [, name, count] of summary.matchAll(/(\w+): (\d+)/g)) totals[name] = Number(count);
  }
  if (spaces === "") {
    console.log(line);
    indent = undefined;
  } else if (verdict !== undefined) {
    const failed = verdict === "not ok" && !/ # (TODO|SKIP)/i.test(line);
    indent = failed ? spaces : undefined;
    if (failed) console.log(`    in ${file}:\n${line}`);
  } else if (indent !== undefined) {
    console.log(line);
    if (line === `${indent}  ...`) indent = undefined;
  }
}
writeFileSync(process.argv[2], `${totals.pass} ${totals.fail} ${totals.skip + totals.todo}\n`);
console.log(`${totals.pass} assertions passed, ${totals.fail} failed, ${totals.skip} skipped`);
