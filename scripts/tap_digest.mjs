// Reads TAP of `tap --reporter=tap`, prints a line for each test file and what failed in it, and
// writes tap's totals to a file:
//
//   tap --reporter=tap | node scripts/tap_digest.mjs FILE      FILE gets "PASSED FAILED SKIPPED"

import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const totals = { pass: 0, fail: 0, skip: 0, todo: 0 };
let file = "";
let announced = "";
/** Ends the details of the failure that is being printed. */
let end;

for await (const line of createInterface({ input: process.stdin })) {
  const [, started] = /^# Subtest: (.*)/.exec(line) ?? [];
  const [, indent, verdict] = /^( *)(ok|not ok) /.exec(line) ?? [];
  const [, summary] = /^# (\{ total: \d+.*\})$/.exec(line) ?? [];
  if (started !== undefined) {
    file = started;
  } else if (summary !== undefined) {
    for (const [, name, count] of summary.matchAll(/(\w+): (\d+)/g)) totals[name] = Number(count);
  } else if (indent === "") {
    console.log(line);
  } else if (verdict === "not ok" && !/ # (TODO|SKIP)/i.test(line)) {
    if (announced !== file) console.log(`in ${file}`);
    announced = file;
    console.log(line);
    // A test that failed because of what is in it has no details worth printing.
    end = / # time=/.test(line) ? undefined : `${indent}  ...`;
  } else if (verdict !== undefined) {
    end = undefined;
  } else if (end !== undefined) {
    console.log(line);
    if (line === end) end = undefined;
  }
}
writeFileSync(process.argv[2], `${totals.pass} ${totals.fail} ${totals.skip + totals.todo}\n`);
console.log(`${totals.pass} assertions passed, ${totals.fail} failed, ${totals.skip} skipped`);
