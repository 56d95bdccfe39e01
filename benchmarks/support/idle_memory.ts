/**
 * A child process that says how much memory it takes: bare Node, or Node with an idle store.
 *
 * Run by `flush_modes.ts`, which starts it with `--expose-gc`: `idle_memory.ts [DIRECTORY]`. Prints
 * the resident bytes.
 *
 * @module
 */

import { setTimeout as sleep } from "node:timers/promises";

const [directory] = process.argv.slice(2);
/** For the services of the store to come to rest. */
const REST_MS = 300;

async function residentBytes(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await sleep(REST_MS / 3);
  }
  return process.memoryUsage.rss();
}

if (directory === undefined) {
  console.log(await residentBytes());
} else {
  const { MessageStore } = await import("../../lib/mod.ts");
  const store = await MessageStore.open(directory);
  console.log(await residentBytes());
  await store.close();
}
