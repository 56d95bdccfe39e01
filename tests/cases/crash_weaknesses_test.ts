// RocketMQ's known weaknesses on crash, recovery and full disks that no run of its store shows easily
// (12.x), and reported faults of the same kind (F..): what is right here.

import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { MessageStore } from "../../lib/mod.ts";
import { FakeClock, randomOf, SimulatedDisk, SimulatedFileSystem } from "../../lib/testing/mod.ts";
import { until } from "../support/random.ts";
import { rejection } from "../support/rejections.ts";
import {
  bodies,
  checkStore,
  eachBinding,
  killedCopy,
  logFile,
  message,
  openStore,
  overwrite,
  putMany,
  SMALL,
  storePath,
} from "../support/stores.ts";

const SYNC = { flushDiskType: "SYNC_FLUSH" } as const;
const POOL = { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true } as const;
const numbers = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => String(i + from));

eachBinding(
  t,
  "12.8 a sync that takes too long leaves one message, not two",
  async (t, binding) => {
    const clock = new FakeClock();
    const { store, fileSystem } = await openStore(t, storePath(t), SYNC, { binding, clock });
    await putMany(store, 1);
    const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
    const put = rejection(store.put(message("1")));
    await held.waiting;
    await clock.advance(5000);
    t.match(await put, { status: "FLUSH_DISK_TIMEOUT", outcome: "unknown", offset: Number });
    held.release();
    await store.flush();
    t.same(await bodies(store), ["0", "1"]);
  },
);

t.test("12.10 a full disk refuses puts, keeps reads, and serves again with space", async (t) => {
  for (const mode of [SYNC, {}, POOL]) {
    const disk = new SimulatedDisk({ spaceBytes: 1024 * 1024 });
    const fileSystem = new SimulatedFileSystem(disk, { seed: 1 });
    const options = { ...SMALL, ...mode };
    const environment = { fileSystem, onWarning: () => undefined };
    const store = await MessageStore.open("/store", options, environment);
    const taken: string[] = [];
    const refused: unknown[] = [];
    for (let i = 0; refused.length < 5; i++) {
      const body = `${i}`.padEnd(5000, ".");
      await store.put(message(body)).then(
        () => taken.push(String(i)),
        (error: unknown) => refused.push(error),
      );
      if (i > 1000) throw new Error("It is never full");
    }
    t.match(refused.at(-1), { outcome: "not stored" });
    t.equal(store.state, "open");
    const before = await bodies(store);
    t.ok(before.length > 100, `${before.length} can be read`);
    disk.spaceBytes = 64 * 1024 * 1024;
    await until(() => store.watermarks.committed === store.watermarks.wrote);
    await store.put(message("again"));
    await store.flush();
    const found = await bodies(store);
    t.equal(found.at(-1), "again");
    t.same(
      found.filter((body) => taken.includes(body)),
      taken,
      "what was taken is there, in order",
    );
    await store.close();
  }
});

eachBinding(t, "12.11, F47 names are synced before anybody counts on them", async (t, binding) => {
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir, SYNC, { binding });
  await putMany(store, 200, { size: 1000 });
  await store.checkpoint();
  const { calls } = fileSystem;
  const firstAfter = (from: number, matches: (call: (typeof calls)[number]) => boolean) =>
    calls.findIndex((call, i) => i > from && matches(call));
  const renamed = calls.filter(({ name, to }) => name === "rename" && /commitlog/.test(to ?? ""));
  t.ok(renamed.length >= 3);
  for (const { to, number } of renamed) {
    const synced = firstAfter(
      number - 1,
      ({ name, path }) => name === "syncDirectory" && path === join(dir, "commitlog"),
    );
    const sized = calls.findLastIndex(
      ({ name, path }, i) => i < number - 1 && name === "fdatasync" && /\.tmp$/.test(path),
    );
    const written = firstAfter(
      number - 1,
      ({ name, path }) => /^pwritev|^commitAndForce/.test(name) && path === to,
    );
    t.ok(sized >= 0 && sized < number && synced > 0, `${to}: whole and synced under its name`);
    if (written > 0) t.ok(synced < written, `${to}: before its first record`);
  }
  const abort = calls.findIndex(({ name, to }) => name === "rename" && /abort$/.test(to ?? ""));
  const firstRename = calls.findIndex(
    ({ name, to }) => name === "rename" && /commitlog/.test(to ?? ""),
  );
  t.ok(abort >= 0 && abort < firstRename);
  t.match(calls[abort + 2], { name: "syncDirectory", path: dir });
  const checkpoint = calls.findLastIndex(
    ({ name, to }) => name === "rename" && /checkpoint$/.test(to ?? ""),
  );
  t.ok(firstAfter(checkpoint, ({ name, path }) => name === "syncDirectory" && path === dir) > 0);
});

eachBinding(
  t,
  "12.19 a queue that can't be written loses and skips nothing",
  async (t, binding) => {
    const { store, fileSystem } = await openStore(t, storePath(t), {}, { binding });
    fileSystem.failNext(["mkdir", "open", "pwritev"], "EIO", { path: /consumequeue/, times: 4 });
    await putMany(store, 50);
    for (let i = 0; i < 3; i++) await rejection(store.checkpoint());
    await putMany(store, 50);
    t.equal((await bodies(store)).length, 100, "they are read from memory");
    fileSystem.clear();
    await store.checkpoint();
    await store.close();
    t.equal(store.state, "closed");
  },
);

eachBinding(
  t,
  "12.20 every file of a queue is synced before the checkpoint",
  async (t, binding) => {
    const { store, fileSystem } = await openStore(t, storePath(t), {}, { binding });
    await putMany(store, 350);
    const before = fileSystem.calls.length;
    await store.checkpoint();
    const calls = fileSystem.calls.slice(before);
    const checkpoint = calls.findIndex(
      ({ name, to }) => name === "rename" && /checkpoint$/.test(to ?? ""),
    );
    const synced = new Set(
      calls
        .slice(0, checkpoint)
        .filter(({ name, path }) => name === "fdatasync" && /consumequeue|\.tmp$/.test(path))
        .map(({ path }) => path),
    );
    t.ok(synced.size >= 4, `${synced.size} files of 100 units`);
    t.equal(store.checkpointLongs.logicsPhysicalOffset > 0, true);
  },
);

eachBinding(t, "12.21 close() settles every put, those that come late too", async (t, binding) => {
  for (const mode of [SYNC, {}, POOL]) {
    const dir = storePath(t, `store${JSON.stringify(mode).replace(/\W/g, "")}`);
    const { store } = await openStore(t, dir, mode, { binding });
    const puts = [];
    for (let i = 0; i < 200; i++) puts.push(store.put(message(`${i}`.padEnd(2000, "."))));
    const closing = store.close();
    for (let i = 0; i < 10; i++) puts.push(store.put(message("late")));
    const outcomes = await Promise.allSettled(puts);
    await closing;
    const late = outcomes.slice(200);
    for (const outcome of late) t.match(outcome, { reason: { outcome: "not stored" } });
    const { store: again } = await openStore(t, dir, mode, { binding });
    t.ok(again.recovery.cleanStop);
    const found = await bodies(again);
    for (const [i, { status }] of outcomes.slice(0, 200).entries()) {
      if (status === "fulfilled" && !found.includes(String(i))) t.fail(`${i} is gone`);
    }
    await again.close();
  }
});

eachBinding(
  t,
  "12.24 a file that can't be removed is told, and does no harm",
  async (t, binding) => {
    const dir = storePath(t);
    const { store, fileSystem } = await openStore(t, dir, {}, { binding });
    await putMany(store, 40, { size: 1000 });
    await until(() => existsSync(logFile(dir, 65536)));
    fileSystem.failNext("unlink", "EIO", { path: /commitlog/ });
    t.match(await rejection(store.close()), { code: "STORE_IO", cause: { code: "EIO" } });
    t.ok(existsSync(join(dir, "abort")), "this was no clean stop");
    const { store: again } = await openStore(t, dir, {}, { binding });
    t.same((await bodies(again)).length, 40);
    t.notOk(existsSync(logFile(dir, 65536)), "recovery removes it");
    await checkStore(t, again, dir);
  },
);

eachBinding(
  t,
  "12.27, 12.31, F62 times never go back, whatever the clock and refused puts do",
  async (t, binding) => {
    const clock = new FakeClock();
    const dir = storePath(t);
    const { store } = await openStore(t, dir, SYNC, { binding, clock });
    const times: number[] = [];
    const put = async () => times.push((await store.put(message("x"))).storeTimestamp);
    await put();
    const start = clock.now();
    clock.setWall(start - 3_600_000);
    await put();
    await rejection(store.put(message("y".repeat(100_000))));
    await put();
    clock.setWall(start + 7_200_000);
    await put();
    await clock.advance(100);
    await put();
    t.same(times, [...times].sort(), times.join());
    t.equal(times[1], times[0]);
    t.ok((times[3] as number) >= start + 7_200_000);
    await store.checkpoint();
    t.equal(store.checkpointLongs.physicMsgTimestamp, times.at(-1));
    clock.setWall(start);
    const { store: again } = await openStore(t, killedCopy(t, dir), SYNC, { binding, clock });
    const { storeTimestamp } = await again.put(message("z"));
    t.ok(storeTimestamp >= (times.at(-1) as number), "nor over a crash");
  },
);

eachBinding(t, "12.28 each cause of a refusal ends by itself", async (t, binding) => {
  const { store, fileSystem } = await openStore(t, storePath(t), {}, { binding });
  await putMany(store, 1);
  const full = { path: /commitlog/, times: Number.POSITIVE_INFINITY };
  fileSystem.failNext(["pwritev", "pwritevNow"], "ENOSPC", full);
  await rejection(store.put(message("1")));
  t.match(await rejection(store.put(message("no"))), { cause: { cause: { code: "ENOSPC" } } });
  fileSystem.clear();
  await until(() => store.watermarks.committed === store.watermarks.wrote);
  await store.put(message("2"));
  fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
  await rejection(store.flush());
  t.equal(store.state, "failed");
  for (let i = 0; i < 3; i++) {
    t.match(await rejection(store.put(message("no"))), { cause: { cause: { code: "EIO" } } });
  }
  t.same(await bodies(store), ["0", "1", "2"]);
  await store.close();
  t.match(await rejection(store.put(message("no"))), /closed/);
});

eachBinding(t, "12.34 damage hides nothing that lies behind it", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  await putMany(store, 30);
  const { messages } = await store.get({ topic: "T", offset: 4, maxMessages: 1 });
  await putMany(store, 30, { topic: "Other" });
  const copy = killedCopy(t, dir);
  overwrite(logFile(copy), (messages[0]?.physicalOffset as number) + 4, Buffer.alloc(4));
  const { store: again, warnings } = await openStore(t, copy, {}, { binding });
  t.equal((await bodies(again)).length, 29);
  t.same(await bodies(again, "Other"), numbers(30));
  t.equal(warnings.length, 1, "and it is said");
});

eachBinding(t, "12.35 without its abort file a crash is still found out", async (t, binding) => {
  for (const mode of [SYNC, {}]) {
    const dir = storePath(t, `store${JSON.stringify(mode).replace(/\W/g, "")}`);
    const { store } = await openStore(t, dir, mode, { binding });
    await putMany(store, 10, { size: 3000 });
    await store.checkpoint();
    await putMany(store, 40, { size: 3000 });
    const copy = killedCopy(t, dir);
    rmSync(join(copy, "abort"));
    const { store: again } = await openStore(t, copy, mode, { binding });
    t.equal((await bodies(again)).length, 50);
    t.equal((await again.put(message("next"))).queueOffset, 50);
    await checkStore(t, again, copy);
  }
});

eachBinding(
  t,
  "F45 no message counts as durable after a failed sync, until the next open",
  async (t, binding) => {
    const dir = storePath(t);
    const { store, fileSystem } = await openStore(t, dir, SYNC, { binding });
    await putMany(store, 1);
    fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
    t.match(await rejection(store.put(message("A"))), { outcome: "unknown" });
    t.match(await rejection(store.put(message("B"))), { outcome: "not stored" });
    t.equal(store.watermarks.flushed < store.watermarks.wrote, true);
    t.same(await bodies(store), ["0"]);
    await store.close();
    t.ok(existsSync(join(dir, "abort")));
    const { store: again } = await openStore(t, dir, SYNC, { binding });
    await again.put(message("C"));
    t.same((await bodies(again)).at(-1), "C");
  },
);

eachBinding(
  t,
  "F61 with the first files and all queues gone the rest keeps its offsets",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    await putMany(store, 300, { size: 1000 });
    await store.close();
    for (const start of [0, 65536, 131072]) rmSync(logFile(dir, start));
    rmSync(join(dir, "consumequeue"), { recursive: true });
    const { store: again } = await openStore(t, dir, {}, { binding });
    const min = again.minOffset("T");
    t.ok(min > 100 && min < 250, `${min}`);
    t.equal(again.maxOffset("T"), 300);
    t.same(await bodies(again), numbers(300 - min, min));
    t.equal((await again.put(message("next"))).queueOffset, 300);
  },
);

eachBinding(t, "W7 a message that is missing moves nobody behind it", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  await putMany(store, 30, { size: 200 });
  const { messages } = await store.get({ topic: "T", offset: 10, maxMessages: 1 });
  const copy = killedCopy(t, dir);
  overwrite(logFile(copy), (messages[0]?.physicalOffset as number) + 4, Buffer.alloc(4));
  // From the damaged log, and once more from the mended one.
  for (const round of [1, 2]) {
    rmSync(join(copy, "consumequeue"), { recursive: true, force: true });
    rmSync(join(copy, "checkpoint"), { force: true });
    const { store: again } = await openStore(t, copy, {}, { binding });
    t.same(
      await bodies(again),
      numbers(30).filter((text) => text !== "10"),
      `round ${round}`,
    );
    const behind = await again.get({ topic: "T", offset: 11, maxMessages: 1 });
    t.equal(behind.messages[0]?.body.toString().replace(/\.+/, ""), "11");
    t.equal(again.maxOffset("T"), 30);
    await checkStore(t, again, copy, ["T/0/10"]);
    await again.close();
  }
});

t.test("W13 a crash in the middle of opening after a clean stop is a crash", async (t) => {
  const options = { ...SMALL, ...SYNC };
  const disk = new SimulatedDisk();
  const open = (on: SimulatedDisk, fileSystem = new SimulatedFileSystem(on)) =>
    MessageStore.open("/store", options, { fileSystem, onWarning: () => undefined });
  const store = await open(disk);
  await putMany(store, 30);
  await store.close();
  const found: SimulatedDisk[] = [];
  const opening = disk.fork();
  const fileSystem = new SimulatedFileSystem(opening, {
    onCall: ({ name, path, mode }) => {
      const changes = /^(?:pwrite|rename|unlink|ftruncate)/.test(name) || mode === "create";
      if (changes && !/abort|lock|holder/.test(path)) {
        found.push(opening.cutPower(randomOf(1), { data: "none", names: "none" }));
      }
      return undefined;
    },
  });
  await (await open(opening, fileSystem)).close();
  t.ok(found.length > 0);
  const again = await open(found[0] as SimulatedDisk);
  t.equal(again.recovery.cleanStop, false, "abort was there before the first change");
  t.same(await bodies(again), numbers(30));
  await again.close();
});

t.test("W19 a store whose disk was full closes as a clean one", async (t) => {
  const disk = new SimulatedDisk({ spaceBytes: 512 * 1024 });
  const environment = { fileSystem: new SimulatedFileSystem(disk), onWarning: () => undefined };
  const store = await MessageStore.open("/store", SMALL, environment);
  let refused = false;
  for (let i = 0; !refused; i++) {
    refused = await store.put(message(`${i}`.padEnd(5000, "."))).then(
      () => false,
      () => true,
    );
  }
  disk.spaceBytes = 64 * 1024 * 1024;
  await store.close();
  t.notOk(disk.list("/store").some(({ name }) => name === "abort"));
});
