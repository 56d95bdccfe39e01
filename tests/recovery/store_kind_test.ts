import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import t from "tap";
import { MessageStore } from "../../lib/mod.ts";
import { rejection } from "../support/rejections.ts";
import { message, openStore, SMALL, storePath } from "../support/stores.ts";

const REFUSED = {
  "consumequeue/CURRENT": /RocksDB/,
  "consumequeue_rocksdb/CURRENT": /RocksDB/,
  "config/metadata/CURRENT": /configuration in RocksDB/,
  "config/rdb/x": /configuration in RocksDB/,
  "compaction/compactionLog/T/0/x": /COMPACTION/,
  "config/tieredStoreMetadata.json": /tiered/,
  "dledger-n0/x": /DLedger/,
  brokerIdentity: /controller/,
};

for (const [path, reason] of Object.entries(REFUSED)) {
  t.test(`checkStoreKind() refuses a store with ${path}, and changes nothing`, async (t) => {
    const dir = storePath(t);
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), "x");
    const before = readdirSync(dir, { recursive: true }).sort();
    t.match(await rejection(MessageStore.open(dir, SMALL)), {
      code: "STORE_KIND_UNSUPPORTED",
      message: reason,
    });
    t.same(readdirSync(dir, { recursive: true }).sort(), before);
  });
}

t.test(
  "checkStoreKind() refuses a log behind DLedger's headers, and several log paths",
  async (t) => {
    const dir = storePath(t);
    mkdirSync(join(dir, "commitlog"), { recursive: true });
    const log = Buffer.alloc(65536);
    log.writeUInt32BE(0xdaa320a7, 52);
    writeFileSync(join(dir, "commitlog", "0".repeat(20)), log);
    t.match(await rejection(MessageStore.open(dir, SMALL)), { code: "STORE_KIND_UNSUPPORTED" });
    t.match(await rejection(MessageStore.open(dir, { ...SMALL, storePathCommitLog: "/a,/b" })), {
      code: "STORE_KIND_UNSUPPORTED",
    });
  },
);

t.test("what every newer RocketMQ leaves is accepted, and pop state is warned of", async (t) => {
  const dir = storePath(t);
  for (const path of [
    "rocksdbstore/CURRENT",
    "compaction/position-checkpoint",
    "kvStore/x",
    "index/20240101000000000",
  ]) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), "");
  }
  const { store, warnings } = await openStore(t, dir);
  await store.put(message("a"));
  t.match(warnings, [/kvStore/]);
});
