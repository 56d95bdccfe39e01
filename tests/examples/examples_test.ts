// Every example runs as a user would run it.

import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import t from "tap";

const EXAMPLES = join(import.meta.dirname, "../../examples");

/** What each one has to print. */
const OUTPUT: Readonly<Record<string, readonly RegExp[]>> = {
  "quick_start.ts": [/^0 new hello$/m],
  "consume.ts": [/^message 1: paid o-1 order 1$/m, /^3 of 5 messages matched$/m],
  "flush_modes.ts": [
    /^SYNC_FLUSH .* 0 +nothing$/m,
    /^ASYNC_FLUSH {2,}.* 0 +about 0\.5 s/m,
    /^ASYNC_FLUSH \+ pool /m,
    /written by RocketMQ 5\.3\.3/,
    /written by RocketMQ 5\.5\.1/,
    /"from Node\.js"/,
  ],
};

t.strictSame(readdirSync(EXAMPLES).sort(), Object.keys(OUTPUT).sort(), "each example has a test");

for (const [name, patterns] of Object.entries(OUTPUT)) {
  t.test(`examples/${name} prints what it promises`, async (t) => {
    const output = execFileSync(
      process.execPath,
      [
        "--import=tsx",
        join(EXAMPLES, name),
        ...(name === "flush_modes.ts" ? [] : [join(t.testdir(), "data")]),
      ],
      { encoding: "utf8", timeout: 120_000 },
    );
    for (const pattern of patterns) t.match(output, pattern);
  });
}
