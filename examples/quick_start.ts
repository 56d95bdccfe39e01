// Stores a message so that neither a killed process nor a power cut loses it, and reads it back.
//
//     node --import=tsx examples/quick_start.ts [DIRECTORY]

import { MessageStore } from "../lib/mod.ts";

const directory = process.argv[2] ?? "./data";

const store = await MessageStore.open(directory, { flushDiskType: "SYNC_FLUSH" });
const { queueOffset } = await store.put({
  topic: "orders",
  body: Buffer.from("hello"),
  tags: "new",
});
// It is behind an fdatasync now: neither a killed process nor a power cut loses it.
for await (const message of store.consume({ topic: "orders", from: queueOffset })) {
  console.log(`${message.queueOffset} ${message.tags} ${message.body}`);
  break;
}
await store.close();
