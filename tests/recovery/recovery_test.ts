import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import type { PutResult } from "../../lib/mod.ts";
import { rejection } from "../support/rejections.ts";
import {
  bodies,
  eachBinding,
  killedCopy,
  logFile,
  message,
  openStore,
  overwrite,
  putMany,
  storePath,
  unitsOnDisk,
} from "../support/stores.ts";

const FILES_1K = { mappedFileSizeCommitLog: 1024 };

eachBinding(
  t,
  "recover() after a kill starts at the durable queues, not at the beginning",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    await putMany(store, 100, { size: 500 });
    await store.checkpoint();
    const end = store.watermarks.wrote;
    await putMany(store, 7, { size: 500 });
    const { store: killed } = await openStore(t, killedCopy(t, dir), {}, { binding });
    t.match(killed.recovery, { cleanStop: false, scanStart: { offset: end }, scannedRecords: 7 });
    t.equal((await bodies(killed)).length, 107);
  },
);

eachBinding(
  t,
  "recover() takes RocketMQ's start where a Java store was here since",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, FILES_1K, { binding });
    const puts: PutResult[] = [];
    for (let i = 0; i < 20; i++) puts.push(await store.put(message(`${i}`.padEnd(400, "."))));
    await store.checkpoint();
    const copy = killedCopy(t, dir);
    const longs = readFileSync(join(copy, "checkpoint"));
    const startOf = async (change: (longs: Buffer) => void): Promise<number> => {
      const again = killedCopy(t, copy);
      const bytes = Buffer.from(longs);
      change(bytes);
      writeFileSync(join(again, "checkpoint"), bytes);
      const { store: opened } = await openStore(t, again, FILES_1K, { binding });
      t.equal((await bodies(opened)).length, 20);
      return opened.recovery.scanStart.offset;
    };
    const eighth = puts[8]!;
    const eighthFile = eighth.physicalOffset - (eighth.physicalOffset % 1024);
    t.equal(await startOf((b) => b.writeBigInt64BE(BigInt(eighth.physicalOffset), 40)), eighthFile);
    t.equal(await startOf((b) => b.fill(0, 0, 48)), 0, "it says nothing: the whole log");
    const lastFile = Math.floor((store.watermarks.wrote - 1) / 1024) * 1024;
    t.equal(
      await startOf((b) => {
        b.fill(0, 40, 48);
        for (const at of [0, 8]) b.writeBigInt64BE(BigInt(puts[19]!.storeTimestamp + 3000), at);
      }),
      lastFile,
      "times, with a margin of 3 s",
    );
    t.equal(
      await startOf((b) => {
        b.fill(0, 40, 48);
        for (const at of [0, 8]) b.writeBigInt64BE(BigInt(puts[0]!.storeTimestamp), at);
      }),
      0,
    );
  },
);

eachBinding(
  t,
  "recover() leaves damage before its start, reports it when it meets it, and keeps what follows",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    const puts: PutResult[] = [];
    for (let i = 0; i < 30; i++) puts.push(await store.put(message(`${i}`.padEnd(3000, "."))));
    await store.checkpoint();
    const copy = killedCopy(t, dir);
    overwrite(logFile(copy), puts[5]!.physicalOffset + 500, Buffer.from("damage"));
    const first = await openStore(t, copy, {}, { binding });
    t.equal(first.store.recovery.cut, undefined);
    t.equal(first.store.maxOffset("T"), 30);
    // A lost queue is rebuilt from the whole log: its units come back but for the damaged one.
    const again = killedCopy(t, copy);
    rmSync(join(again, "consumequeue"), { recursive: true });
    const { store: rebuilt, warnings } = await openStore(t, again, {}, { binding });
    t.match(rebuilt.recovery, {
      cut: undefined,
      rebuiltQueues: ["T/0"],
      left: [{ offset: puts[5]!.physicalOffset, path: logFile(again) }],
    });
    t.match(warnings.join("\n"), /was left.*were rebuilt/s);
    t.equal(rebuilt.maxOffset("T"), 30, "no message moves to another offset");
    const found = await bodies(rebuilt);
    t.same(
      found,
      Array.from({ length: 30 }, (_, i) => `${i}`).filter((text) => text !== "5"),
    );
  },
);

eachBinding(
  t,
  "recover() rebuilds a queue with fillers where none may be, where the log begins with its messages",
  async (t, binding) => {
    const files = { mappedFileSizeConsumeQueue: 200 };
    const dir = storePath(t);
    const { store } = await openStore(t, dir, files, { binding });
    await putMany(store, 35);
    await putMany(store, 12, { topic: "Deleted" });
    await store.deleteTopics(["Deleted"]);
    await putMany(store, 3, { topic: "Deleted" });
    const first = store.minOffset("Deleted");
    t.ok(first >= 12);
    await store.close();
    const path = (start: number) => join("consumequeue/T/0", `${start}`.padStart(20, "0"));
    const filler = Buffer.from("00000000000000007fffffff0000000000000000", "hex");
    const damages: Record<string, (copy: string) => void> = {
      nothing: () => undefined,
      "no first file, and a filler": (copy) => {
        rmSync(join(copy, path(0)));
        overwrite(join(copy, path(400)), 100, filler);
      },
      "fillers in front, and one behind": (copy) => {
        overwrite(join(copy, path(0)), 0, Buffer.concat([filler, filler]));
        overwrite(join(copy, path(0)), 160, filler);
      },
    };
    for (const [what, damage] of Object.entries(damages)) {
      for (const isCrash of [true, false]) {
        const copy = killedCopy(t, dir);
        damage(copy);
        if (isCrash) {
          writeFileSync(join(copy, "abort"), "1");
          rmSync(join(copy, "checkpoint"));
        }
        const again = await openStore(
          t,
          copy,
          { ...files, recoverWholeLog: !isCrash },
          { binding },
        );
        const { scanStart, rebuiltQueues, misplaced } = again.store.recovery;
        t.equal(scanStart.offset, 0, what);
        t.strictSame(rebuiltQueues, what === "nothing" ? [] : ["T/0"], what);
        t.strictSame(misplaced, []);
        t.same(
          await bodies(again.store),
          Array.from({ length: 35 }, (_, i) => `${i}`),
          what,
        );
        t.equal(again.store.minOffset("Deleted"), first, "what was deleted stays away");
        t.same(await bodies(again.store, "Deleted"), ["0", "1", "2"]);
      }
    }
  },
);

eachBinding(
  t,
  "recover() rebuilds a queue whose last unit leads to another message",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    await putMany(store, 10);
    await putMany(store, 5, { topic: "U" });
    await store.close();
    const path = join(dir, "consumequeue/T/0/00000000000000000000");
    const units = readFileSync(path);
    units.copy(units, 9 * 20, 3 * 20, 4 * 20);
    writeFileSync(path, units);
    const again = await openStore(t, dir, {}, { binding });
    t.same(again.store.recovery.rebuiltQueues, ["T/0"]);
    t.same(
      await bodies(again.store),
      Array.from({ length: 10 }, (_, i) => `${i}`),
    );
    t.equal((await bodies(again.store, "U")).length, 5);
    t.equal(unitsOnDisk(dir).length, 10);
  },
);

eachBinding(t, "recover() a second time changes nothing", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  await putMany(store, 100, { size: 1000 });
  const copy = killedCopy(t, dir);
  const log = readFileSync(logFile(copy, 65536));
  log.fill(0xee, store.watermarks.wrote - 65536 - 500, store.watermarks.wrote - 65536 + 3000);
  writeFileSync(logFile(copy, 65536), log);
  const first = await openStore(t, copy, {}, { binding });
  t.equal(first.store.recovery.cut?.droppedBytes, 1092 + 3000);
  const state = (path: string) =>
    ["commitlog", "consumequeue"].map((folder) =>
      readdirSync(join(path, folder), { recursive: true })
        .map(String)
        .sort()
        .filter((name) => /\d{20}$/.test(name))
        .map((name) => [name, readFileSync(join(path, folder, name)).toString("base64")]),
    );
  const after = killedCopy(t, copy);
  const expected = state(after);
  const second = await openStore(t, after, {}, { binding });
  t.equal(second.store.recovery.cut, undefined);
  t.same(state(after), expected);
});

t.test("recover() writes units while it reads on, and misses none", async (t) => {
  const dir = storePath(t);
  const large = { mappedFileSizeCommitLog: 16 * 1024 * 1024, mappedFileSizeConsumeQueue: 200_000 };
  const { store } = await openStore(t, dir, large);
  const messages = Array.from({ length: 20_000 }, (_, i) => message(`${i}`));
  await Promise.all(messages.map((one) => store.put(one)));
  const copy = killedCopy(t, dir);
  rmSync(join(copy, "consumequeue"), { recursive: true });
  rmSync(join(copy, "checkpoint"));
  const { store: killed } = await openStore(t, copy, large);
  t.match(killed.recovery, { scannedRecords: 20_000, rebuiltQueues: [], misplaced: [] });
  await store.checkpoint();
  const units = unitsOnDisk(copy);
  t.equal(units.length, 20_000);
  t.ok(units.join() === unitsOnDisk(dir).join(), "the same units as those of the puts");
});

t.test("recover() refuses queues without a log, unless told to accept the loss", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, 5);
  await store.close();
  rmSync(join(dir, "commitlog"), { recursive: true });
  t.match(await rejection(openStore(t, dir)), { code: "STORE_LOG_MISSING" });
  t.notOk(readdirSync(dir).includes("abort"), "nothing was changed");
  const { store: accepted } = await openStore(t, dir, { unsafeAcceptLostCommitLog: true });
  t.equal(accepted.maxOffset("T"), 0);
  t.equal((await accepted.put(message("new"))).queueOffset, 0);
});

eachBinding(
  t,
  "recover() makes durable the names that a killed process left",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    await putMany(store, 5);
    const { fileSystem } = await openStore(t, killedCopy(t, dir), {}, { binding });
    t.equal(fileSystem.count("syncDirectory", { path: /commitlog$/ }), 1);
  },
);
