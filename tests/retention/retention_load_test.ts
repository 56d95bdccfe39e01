// Puts, reads of all kinds and deletion at once; `npm run retention -- --seconds 120` goes on for longer.

import t from "tap";
import { seedOf } from "../support/random.ts";
import { BYTES_BOUND, retentionLoad } from "../support/retention_load.ts";
import { storePath } from "../support/stores.ts";

const SECONDS = 3;

for (const [name, options] of [
  ["SYNC_FLUSH", { flushDiskType: "SYNC_FLUSH" }],
  ["ASYNC_FLUSH", { flushDiskType: "ASYNC_FLUSH" }],
  ["the pool", { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true }],
] as const) {
  t.test(`${name}: no answer is wrong while files are deleted`, async (t) => {
    const result = await retentionLoad(storePath(t), seedOf(t), SECONDS, options);
    t.comment(JSON.stringify({ ...result, answers: Object.fromEntries(result.answers) }));
    t.ok(result.deletedLogFiles >= 5, `${result.deletedLogFiles} files were deleted`);
    t.ok(result.reads > 0 && result.messages > 0, `${result.puts} puts, ${result.reads} reads`);
    t.ok(result.mostBytes <= BYTES_BOUND, `${result.mostBytes} of ${BYTES_BOUND} bytes on disk`);
    const [before, most, after] = result.descriptors;
    t.ok(after <= before, `${before} descriptors became ${after}`);
    t.ok(most - before < 150, `at most ${most - before} more were open`);
  });
}
