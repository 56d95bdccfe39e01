import {
  cpSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { MessageStore } from "../../lib/mod.ts";
import { rejection } from "../support/rejections.ts";
import {
  bodies,
  logFile,
  message,
  openStore,
  putMany,
  SMALL,
  storePath,
} from "../support/stores.ts";

/** A store of some files that was closed. */
async function closedStore(t: Test): Promise<string> {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, 250, { size: 600 });
  await store.close();
  return dir;
}

const segment = (start: number | string, digits = 20): string =>
  String(start).padStart(digits, "0");

t.test("listStoreFiles() refuses names that are not exactly those of segments", async (t) => {
  const dir = await closedStore(t);
  for (const name of [
    // The same offsets as files that are there.
    segment(0, 21),
    segment(65536, 28),
    segment(1),
    segment(2 ** 53 - 65536),
    segment("9223372036854775807"),
    "0",
    "-".padEnd(20, "0"),
    "\u0660".repeat(20),
    "x.tmp",
  ]) {
    const path = join(dir, "commitlog", name);
    cpSync(logFile(dir), path);
    for (const readOnly of [false, true]) {
      const error = await rejection(MessageStore.open(dir, SMALL, { readOnly }));
      t.match(error, { code: "STORE_UNEXPECTED_FILE", path }, `${name}, readOnly ${readOnly}`);
    }
    rmSync(path);
  }
  await openStore(t, dir);
});

t.test("listStoreFiles() refuses a folder where a segment may be due, and no other", async (t) => {
  const dir = await closedStore(t);
  mkdirSync(join(dir, "commitlog", "old"));
  const first = await openStore(t, dir);
  await first.store.close();
  const path = join(dir, "consumequeue", "T", "0", segment(200_000));
  mkdirSync(path);
  t.match(await rejection(MessageStore.open(dir, SMALL)), { code: "STORE_UNEXPECTED_FILE", path });
});

t.test("listStoreFiles() refuses a file that is there under two names", async (t) => {
  const second = segment(65536);
  for (const link of [symlinkSync, linkSync]) {
    const dir = await closedStore(t);
    const path = join(dir, "commitlog", second);
    rmSync(path);
    link(logFile(dir), path);
    t.match(await rejection(MessageStore.open(dir, SMALL)), {
      code: "STORE_UNEXPECTED_FILE",
      path,
      message: /it is the same file as/,
    });
    rmSync(dir, { recursive: true });
  }
});

t.test("listStoreFiles() refuses a link from a segment to a file of another kind", async (t) => {
  const dir = await closedStore(t);
  const path = join(dir, "commitlog", segment(65536));
  rmSync(path);
  symlinkSync("../checkpoint", path);
  t.match(await rejection(MessageStore.open(dir, SMALL)), {
    code: "STORE_UNEXPECTED_FILE",
    path,
    message: /it is the same file as .*checkpoint/,
  });
});

t.test("listStoreFiles() follows a link to a file elsewhere", async (t) => {
  const dir = await closedStore(t);
  renameSync(logFile(dir), join(dir, "moved"));
  symlinkSync("../moved", logFile(dir));
  const { store } = await openStore(t, dir);
  t.equal((await bodies(store)).length, 250);
});

t.test("listStoreFiles() knows every queue id that a put may have", async (t) => {
  const dir = storePath(t);
  const first = await openStore(t, dir);
  const ids = [0, 7, 999_999_999, 1_000_000_000, 2 ** 31 - 1];
  for (const queueId of ids) await first.store.put(message("m", { queueId }));
  await first.store.close();
  const { store } = await openStore(t, dir);
  t.strictSame(
    store.queues().map(({ queueId }) => queueId),
    ids,
  );
  t.strictSame(store.recovery.rebuiltQueues, [], "all of them were found");
});

t.test("listStoreFiles() passes over folders that are none of queues", async (t) => {
  const dir = storePath(t);
  const first = await openStore(t, dir);
  await putMany(first.store, 3, { queueId: 7 });
  await first.store.close();
  const topic = join(dir, "consumequeue", "T");
  for (const name of ["007", "+7", "-1", "0x7", "2147483648", "9999999999", "7 "]) {
    cpSync(join(topic, "7"), join(topic, name), { recursive: true });
  }
  const { store } = await openStore(t, dir);
  t.match(store.queues(), [{ topic: "T", queueId: 7, maxOffset: 3 }]);
  t.equal(store.queues().length, 1);
  await store.put(message("4", { queueId: 7 }));
  await store.close();
  t.equal(readdirSync(topic).length, 8, "they are left alone");
});

t.test("listStoreFiles() adopts no size that a store cannot have", async (t) => {
  const dir = storePath(t);
  mkdirSync(join(dir, "commitlog"), { recursive: true });
  const path = logFile(dir);
  writeFileSync(path, "");
  truncateSync(path, 2 ** 31);
  t.match(await rejection(MessageStore.open(dir, SMALL, { readOnly: true })), {
    code: "STORE_UNEXPECTED_FILE",
    path,
    message: /it has 2147483648 bytes, 65536 are due/,
  });
});

t.test("listStoreFiles() adopts the size that most files have", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, { mappedFileSizeConsumeQueue: 400 });
  for (let i = 0; i < 30; i++) await store.put(message("m", { queueId: i % 3 }));
  await store.close();
  // The first one was cut, as a crash between its making and its filling leaves it.
  truncateSync(join(dir, "consumequeue", "T", "0", segment(0)), 40);
  const { store: reader } = await openStore(t, dir, {}, { readOnly: true });
  t.equal(reader.options.mappedFileSizeConsumeQueue, 400);
  t.strictSame(
    reader.queues().map(({ maxOffset }) => maxOffset),
    [10, 10, 10],
  );
  t.equal((await bodies(reader, "T", 0)).length, 10, "what was cut off is rebuilt");
});
