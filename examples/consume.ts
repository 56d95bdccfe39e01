// A producer and a consumer in one process: the consumer waits for what it wants, and stops when
// it is told to.
//
//     node --import=tsx examples/consume.ts [DIRECTORY]

import { setTimeout as sleep } from "node:timers/promises";
import { MessageStore } from "../lib/mod.ts";

const directory = process.argv[2] ?? "./data";
const store = await MessageStore.open(directory);
const stop = new AbortController();

async function consumer(): Promise<number> {
  let found = 0;
  try {
    for await (const message of store.consume({
      topic: "orders",
      from: "latest",
      filter: "paid || shipped",
      signal: stop.signal,
    })) {
      console.log(
        `message ${message.queueOffset}: ${message.tags} ${message.keys} ${message.body}`,
      );
      found++;
    }
  } catch (error) {
    if (error !== stop.signal.reason) throw error;
  }
  return found;
}

const found = consumer();
for (const [i, tags] of ["new", "paid", "shipped", "new", "paid"].entries()) {
  await store.put({ topic: "orders", body: Buffer.from(`order ${i}`), tags, keys: [`o-${i}`] });
  await sleep(20);
}
stop.abort();
console.log(`${await found} of 5 messages matched`);
await store.close();
