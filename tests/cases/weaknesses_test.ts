// Known weaknesses of RocketMQ's store: what it does was seen on its released versions; here is
// what this store does instead. The table stands in docs/compatibility.md.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import t from "tap";
import type { StoreOptions } from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { putStatus, rejection } from "../support/rejections.ts";
import {
  bodies,
  checkStore,
  eachBinding,
  killedCopy,
  logFile,
  MODES,
  message,
  openStore,
  overwrite,
  putMany,
  storePath,
  unitsOnDisk,
} from "../support/stores.ts";

const SYNC: StoreOptions = { flushDiskType: "SYNC_FLUSH" };
const POOL = MODES.pool as StoreOptions;
/** RocketMQ's way with damage in the middle of the log. */
const CUT: StoreOptions = { damagedLogPolicy: "cut" };

/** Waits for what goes on in threads. */
async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 2000 && !condition(); i++) await new Promise((r) => setTimeout(r, 1));
}

eachBinding(
  t,
  "12.1 a force that fails acknowledges nothing, then or later",
  async (t, binding) => {
    const dir = storePath(t);
    const { store, fileSystem, warnings } = await openStore(t, dir, SYNC, { binding });
    await putMany(store, 3);
    const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
    fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
    const first = store.put(message("first"));
    await held.waiting;
    const waiting = ["a", "b", "c"].map((text) => store.put(message(text)));
    const forces = fileSystem.count("fdatasync");
    held.release();
    const cause = { code: "STORE_IO", cause: { code: "EIO" } };
    for (const put of [first, ...waiting]) {
      t.match(await rejection(put), { status: "UNKNOWN_ERROR", outcome: "unknown", cause });
    }
    t.match(await rejection(store.put(message("later"))), {
      status: "SERVICE_NOT_AVAILABLE",
      cause,
    });
    t.match(await rejection(store.flush()), cause);
    t.equal(store.failure?.code, "STORE_IO");
    t.equal(fileSystem.count("fdatasync"), forces, "it was not tried again");
    t.equal(warnings.length, 1);
    t.same(await bodies(store), ["0", "1", "2"], "reads go on");
    t.equal(
      store.watermarks.flushed,
      store.watermarks.dispatched,
      "12.2 nothing moved without a sync",
    );
    await store.close();
    t.ok(existsSync(join(dir, "abort")));
    const again = await openStore(t, dir, SYNC, { binding });
    t.same((await bodies(again.store)).slice(0, 3), ["0", "1", "2"]);
    t.equal((await again.store.put(message("new"))).status, "PUT_OK");
  },
);

eachBinding(t, "12.4 pool: a commit that fails ends the acknowledgements", async (t, binding) => {
  const clock = new FakeClock();
  const { store, fileSystem } = await openStore(t, storePath(t), POOL, { binding, clock });
  await putMany(store, 2);
  await store.flush();
  fileSystem.failNext(["pwritev", "pwritevNow"], "EIO");
  await store.put(message("in the buffer"));
  await clock.advance(200);
  await until(() => store.state === "failed");
  t.equal(await putStatus(store.put(message("later"))), "SERVICE_NOT_AVAILABLE");
  t.match(await rejection(store.durable(store.watermarks.wrote)), { code: "STORE_IO" });
  t.same(await bodies(store), ["0", "1"]);
});

eachBinding(t, "12.5, 12.18 a queue write that fails loses no unit", async (t, binding) => {
  const dir = storePath(t);
  const { store, fileSystem, warnings } = await openStore(t, dir, {}, { binding });
  await putMany(store, 2);
  await store.checkpoint();
  await putMany(store, 3);
  fileSystem.shorten("pwritev", [7, 1], { path: /consumequeue/ });
  fileSystem.failNext("pwritev", "ENOSPC", { path: /consumequeue/, skip: 2 });
  t.match(await rejection(store.checkpoint()), { code: "STORE_IO", cause: { code: "ENOSPC" } });
  t.equal(warnings.length, 1);
  t.equal((await bodies(store)).length, 5, "they are readable all the same");
  await store.checkpoint();
  t.equal(unitsOnDisk(dir).length, 5);
  const killed = await openStore(t, killedCopy(t, dir), {}, { binding });
  t.equal((await bodies(killed.store)).length, 5);
});

eachBinding(t, "12.6 what fits no file is refused, and wastes none", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, { mappedFileSizeCommitLog: 4096 }, { binding });
  const ofRecord = (size: number) => message("x".repeat(size - 92));
  t.equal(await putStatus(store.put(message("x".repeat(8000)))), "MESSAGE_ILLEGAL");
  t.equal(await putStatus(store.put(ofRecord(4089))), "MESSAGE_ILLEGAL");
  const half = { body: Buffer.alloc(2000) };
  t.equal(
    await putStatus(store.putBatch({ topic: "T", messages: [half, half] })),
    "MESSAGE_ILLEGAL",
  );
  t.same(readdirSync(join(dir, "commitlog")), []);
  const { queueOffset, physicalOffset } = await store.put(ofRecord(4088));
  t.same([queueOffset, physicalOffset], [0, 0]);
});

eachBinding(t, "12.7 nothing stays busy after an error inside a put", async (t, binding) => {
  const clock = new FakeClock();
  const { store } = await openStore(t, storePath(t), {}, { binding, clock });
  await store.put(message("a"));
  t.match(await rejection(store.put(message("b", { sysFlag: "x" as never }))), {
    name: "TypeError",
  });
  await clock.advance(5000);
  t.equal((await store.put(message("c"))).queueOffset, 1);
});

eachBinding(
  t,
  "12.9 pool: what a kill would lose is shown, and close() loses nothing",
  async (t, binding) => {
    const dir = storePath(t);
    const clock = new FakeClock();
    const { store } = await openStore(t, dir, POOL, { binding, clock });
    await putMany(store, 5);
    t.ok(store.stats().pendingBytes > 0);
    t.ok(store.watermarks.committed < store.watermarks.wrote);
    const killed = await openStore(t, killedCopy(t, dir), {}, { binding });
    t.same(await bodies(killed.store), []);
    await store.close();
    const closed = await openStore(t, dir, {}, { binding });
    t.equal((await bodies(closed.store)).length, 5);
  },
);

eachBinding(
  t,
  "12.12, 12.13 a checkpoint is believed only where it is true",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, { mappedFileSizeCommitLog: 1024 }, { binding });
    await putMany(store, 12, { size: 400 });
    const future = Buffer.alloc(4096);
    future.writeBigInt64BE(4102444800000n, 0);
    future.writeBigInt64BE(4102444800000n, 8);
    const ours = readFileSync(join(dir, "checkpoint"));
    const damagedSlot = Buffer.from(ours);
    damagedSlot[2048 + 60]! ^= 1;
    const everything = Buffer.alloc(4096, 255);
    const variants: Record<string, Buffer | undefined> = {
      "both times in the future": future,
      "our slot damaged": damagedSlot,
      "all ones": everything,
      "too short": Buffer.alloc(10),
      missing: undefined,
    };
    for (const [name, checkpoint] of Object.entries(variants)) {
      for (const queuesLost of [true, false]) {
        const copy = killedCopy(t, dir);
        rmSync(join(copy, "checkpoint"));
        if (checkpoint) writeFileSync(join(copy, "checkpoint"), checkpoint);
        if (queuesLost) rmSync(join(copy, "consumequeue"), { recursive: true });
        const reopened = await openStore(t, copy, { mappedFileSizeCommitLog: 1024 }, { binding });
        t.equal(
          (await bodies(reopened.store)).length,
          12,
          `${name}, queues ${queuesLost ? "lost" : "there"}`,
        );
        t.equal((await reopened.store.put(message("next"))).queueOffset, 12);
      }
    }
  },
);

eachBinding(t, "12.14 a flipped bit in a header is noticed", async (t, binding) => {
  for (const [field, at, options] of [
    ["FLAG", 16, { enabledAppendPropCRC: true }],
    ["PHYSICALOFFSET", 35, {}],
  ] as [string, number, StoreOptions][]) {
    const dir = storePath(t, field);
    const { store } = await openStore(t, dir, options, { binding });
    const results = [];
    for (const text of ["a", "b", "c"]) results.push(await store.put(message(text)));
    const damaged = killedCopy(t, dir);
    const { physicalOffset, size } = results[1]!;
    const position = physicalOffset + at;
    const [bits] = readFileSync(logFile(damaged)).subarray(position);
    overwrite(logFile(damaged), position, Buffer.from([bits! ^ 1]));
    const cut = await openStore(t, killedCopy(t, damaged), { ...options, ...CUT }, { binding });
    t.same(await bodies(cut.store), ["a"], field);
    t.equal(cut.store.recovery.cut?.offset, physicalOffset);
    const kept = await openStore(t, damaged, options, { binding });
    t.same(await bodies(kept.store), ["a", "c"], field);
    t.match(kept.store.recovery.holes, [{ offset: physicalOffset, size, covered: true }]);
  }
});

eachBinding(t, "12.14, W6 what was cut never comes back", async (t, binding) => {
  const dir = storePath(t);
  const first = await openStore(t, dir, {}, { binding });
  const results = [];
  for (let i = 0; i < 9; i++) results.push(await first.store.put(message(`old${i}`)));
  const copy = killedCopy(t, dir);
  overwrite(logFile(copy), results[4]!.physicalOffset + 88, Buffer.from("X"));
  const second = await openStore(t, copy, CUT, { binding });
  t.equal(second.store.maxOffset("T"), 4);
  await second.store.put(message("new0"));
  for (const options of [CUT, {}]) {
    const third = await openStore(t, killedCopy(t, copy), options, { binding });
    t.same(await bodies(third.store), ["old0", "old1", "old2", "old3", "new0"]);
    t.equal(third.store.watermarks.wrote, results[5]!.physicalOffset);
  }
});

for (const stop of ["killed", "closed"]) {
  eachBinding(
    t,
    `W1 a flipped bit in the middle of the log costs that message alone (${stop})`,
    async (t, binding) => {
      const dir = storePath(t);
      const first = await openStore(t, dir, {}, { binding });
      await putMany(first.store, 30, { size: 100 });
      const at = first.store.watermarks.wrote - 20 * 192;
      if (stop === "closed") await first.store.close();
      const copy = killedCopy(t, dir);
      overwrite(logFile(copy), at + 120, Buffer.from([1]));
      const { store } = await openStore(t, copy, {}, { binding });
      t.same(
        await bodies(store),
        Array.from({ length: 30 }, (_, i) => `${i}`).filter((text) => text !== "10"),
      );
      t.equal(store.recovery.cleanStop, stop === "closed");
      t.match(store.recovery, { cut: undefined, holes: [{ offset: at, size: 192 }] });
      await putMany(store, 3);
      await checkStore(t, store, copy, ["T/0/10"]);
      const again = await openStore(t, killedCopy(t, copy), {}, { binding });
      t.same(again.store.recovery.holes, [], "it is whole since");
      t.equal(again.store.maxOffset("T"), 33);
    },
  );
}

eachBinding(t, "12.15 pool: with the budget used up nothing is unreadable", async (t, binding) => {
  for (const fastFailIfNoBufferInStorePool of [false, true]) {
    const dir = storePath(t, `fast-${fastFailIfNoBufferInStorePool}`);
    const clock = new FakeClock();
    const { store } = await openStore(
      t,
      dir,
      { ...POOL, transientStorePoolSize: 1, fastFailIfNoBufferInStorePool },
      { binding, clock },
    );
    await store.put(message("first"));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 100 }, (_, i) => store.put(message(`${i}`.padEnd(1000, ".")))),
    );
    const refused = outcomes.filter(({ status }) => status === "rejected");
    t.equal(refused.length > 0, fastFailIfNoBufferInStorePool);
    for (const outcome of refused) {
      t.match(outcome, { reason: { status: "CREATE_MAPPED_FILE_FAILED", outcome: "not stored" } });
    }
    await store.flush();
    t.equal((await bodies(store)).length, 101 - refused.length);
    await checkStore(t, store, dir);
  }
});

eachBinding(t, "12.16 SYNC_FLUSH with the pool waits for no interval", async (t, binding) => {
  const clock = new FakeClock();
  const { store } = await openStore(t, storePath(t), { ...POOL, ...SYNC }, { binding, clock });
  for (let i = 0; i < 20; i++) await store.put(message(`${i}`));
  t.equal(store.watermarks.flushed, store.watermarks.wrote);
  t.equal((await bodies(store)).length, 20, "the clock stood still");
});

eachBinding(t, "12.17 behind a blank record the file is zero", async (t, binding) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const dir = storePath(t, mode);
    const { store } = await openStore(t, dir, options, { binding });
    await putMany(store, 150, { size: 3000 });
    await store.flush();
    for (let start = 0; start + 65536 <= store.watermarks.wrote; start += 65536) {
      const log = readFileSync(logFile(dir, start));
      const blank = log.lastIndexOf(Buffer.from("cbd43194", "hex"));
      t.equal(log.readInt32BE(blank - 4), 65536 - (blank - 4));
      t.notOk(
        log.subarray(blank + 4).some((byte) => byte !== 0),
        `${mode} ${start}`,
      );
    }
  }
});

eachBinding(t, "12.22 lock and abort come before anything is changed", async (t, binding) => {
  const dir = storePath(t);
  const first = await openStore(t, dir, {}, { binding });
  await putMany(first.store, 20);
  const copy = killedCopy(t, dir);
  rmSync(join(copy, "abort"));
  overwrite(logFile(copy), first.store.watermarks.wrote - 3, Buffer.from("XXX"));
  const { fileSystem } = await openStore(t, copy, {}, { binding });
  const changes = fileSystem.calls.filter(
    ({ name, path, mode }) =>
      (/commitlog|consumequeue|checkpoint/.test(path) &&
        /pwrite|unlink|rename|ftruncate/.test(name)) ||
      (mode === "create" && !/holder/.test(path)),
  );
  const abort = fileSystem.calls.findIndex(
    ({ name, to }) => name === "rename" && to?.endsWith("/abort"),
  );
  const lock = fileSystem.calls.findIndex(({ name }) => name === "lock");
  t.ok(lock >= 0 && lock < abort);
  t.match(changes[0]?.path, /abort/);
  t.ok(changes[1]!.number > abort, "abort was on disk");
  t.equal(fileSystem.calls[abort + 2]?.name, "syncDirectory");
});

eachBinding(
  t,
  "12.23 a file that can't be made refuses puts at once, and only for now",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    await putMany(store, 20, { size: 1000 });
    mkdirSync(join(logFile(dir, 65536), "in the way"), { recursive: true });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 60 }, () => store.put(message("x".repeat(1000)))),
    );
    const refused = outcomes.filter((outcome) => outcome.status === "rejected");
    t.ok(refused.length > 0);
    for (const { reason } of refused) {
      t.match(reason, {
        status: "CREATE_MAPPED_FILE_FAILED",
        outcome: "not stored",
        cause: { code: "EEXIST" },
      });
    }
    t.equal(store.state, "open");
    rmSync(logFile(dir, 65536), { recursive: true });
    await putMany(store, 60, { size: 1000 });
    t.equal((await bodies(store)).length, 140 - refused.length);
    await checkStore(t, store, dir);
  },
);

eachBinding(
  t,
  "12.25 a file that does not belong is named, a short last one is made whole",
  async (t, binding) => {
    const dir = storePath(t);
    const first = await openStore(t, dir, {}, { binding });
    await putMany(first.store, 100, { size: 1000 });
    await first.store.close();
    const refuses = async (path: string, content: Buffer) => {
      const before = existsSync(path) ? readFileSync(path) : undefined;
      writeFileSync(path, content);
      const listing = readdirSync(dir, { recursive: true }).sort();
      t.match(await rejection(openStore(t, dir, {}, { binding })), {
        code: "STORE_UNEXPECTED_FILE",
        path,
      });
      t.same(
        readdirSync(dir, { recursive: true })
          .sort()
          .filter((name) => !/holder/.test(String(name))),
        listing.filter((name) => !/holder/.test(String(name))),
        "nothing was changed",
      );
      if (before) writeFileSync(path, before);
      else rmSync(path);
    };
    await refuses(join(dir, "commitlog/foo"), Buffer.from("x"));
    await refuses(logFile(dir, 0), Buffer.alloc(1000));
    await refuses(logFile(dir, 65536), Buffer.alloc(70000));
    await refuses(join(dir, "consumequeue/T/0/foo.tmp"), Buffer.from("x"));
    await refuses(join(dir, "consumequeue/T/0/00000000000000000000"), Buffer.alloc(4000));
    t.match(await rejection(openStore(t, dir, { mappedFileSizeCommitLog: 4096 }, { binding })), {
      code: "STORE_UNEXPECTED_FILE",
      message: /65536 bytes/,
    });
    truncateSync(logFile(dir, 65536), 45_000);
    writeFileSync(join(dir, "abort"), "");
    const { store } = await openStore(t, dir, {}, { binding });
    t.equal((await bodies(store)).length, 100);
    await checkStore(t, store, dir);
  },
);

eachBinding(t, "12.30 a batch that is too large has a status", async (t, binding) => {
  const { store } = await openStore(
    t,
    storePath(t),
    { maxMessageSize: 1000, brokerChecks: false, enabledAppendPropCRC: true },
    { binding },
  );
  const messages = [{ body: Buffer.alloc(600) }, { body: Buffer.alloc(600) }];
  t.equal(await putStatus(store.putBatch({ topic: "T", messages })), "MESSAGE_ILLEGAL");
  const { physicalOffset } = await store.putBatch({
    topic: "T",
    messages: [{ body: Buffer.from("a"), propertiesString: "k\u0001v" }],
  });
  t.equal(
    (await store.lookup(physicalOffset))?.properties?.get("k"),
    "v",
    "the CRC is a property of its own",
  );
});

eachBinding(
  t,
  "12.33, W3 a topic of 60 wide characters hides nobody behind it",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, { brokerChecks: false }, { binding });
    const topic = "漢".repeat(60);
    await store.put(message("before", { topic: "A" }));
    await store.put(message("wide", { topic }));
    await store.put(message("after", { topic: "A" }));
    t.same(await bodies(store, "A"), ["before", "after"]);
    const killed = await openStore(t, killedCopy(t, dir), {}, { binding });
    t.same(await bodies(killed.store, topic), ["wide"]);
    t.same(await bodies(killed.store, "A"), ["before", "after"]);
  },
);

eachBinding(t, "W8 an all-zero queue file at the end is no message", async (t, binding) => {
  const dir = storePath(t);
  const options = { mappedFileSizeConsumeQueue: 200 };
  const first = await openStore(t, dir, options, { binding });
  await putMany(first.store, 10);
  await first.store.checkpoint();
  for (const clean of [false, true]) {
    const copy = killedCopy(t, dir);
    if (clean) rmSync(join(copy, "abort"));
    writeFileSync(join(copy, "consumequeue/T/0/00000000000000000200"), Buffer.alloc(200));
    const { store } = await openStore(t, copy, options, { binding });
    t.equal(store.maxOffset("T"), 10);
    t.equal((await store.put(message("eleventh"))).queueOffset, 10);
    await store.close();
    t.equal(unitsOnDisk(copy).length, 11);
  }
});

eachBinding(t, "W15 asking about queues makes none", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  for (let i = 0; i < 100; i++) {
    t.equal(
      (await store.get({ topic: `unknown${i}`, offset: 0 })).status,
      "NO_MATCHED_LOGIC_QUEUE",
    );
    store.maxOffset(`unknown${i}`);
    store.minOffset(`unknown${i}`);
  }
  t.same(store.queues(), []);
  t.same(readdirSync(join(dir, "consumequeue")), []);
});

eachBinding(
  t,
  "queues that are lost come back whole, from however many files",
  async (t, binding) => {
    const dir = storePath(t);
    const options = { mappedFileSizeCommitLog: 1024 };
    const first = await openStore(t, dir, options, { binding });
    await putMany(first.store, 28, { size: 380 });
    await putMany(first.store, 1, { topic: "Kept" });
    await first.store.close();
    t.ok(readdirSync(join(dir, "commitlog")).length >= 14);
    for (const [killed, checkpointGone] of [
      [false, false],
      [true, false],
      [false, true],
      [true, true],
    ]) {
      const copy = killedCopy(t, dir);
      rmSync(join(copy, "consumequeue/T"), { recursive: true });
      if (killed) writeFileSync(join(copy, "abort"), "1");
      // Without our watermarks a queue lost beside others shows only in the part that is scanned.
      if (checkpointGone) {
        rmSync(join(copy, "checkpoint"));
        rmSync(join(copy, "consumequeue"), { recursive: true });
      }
      const { store } = await openStore(t, copy, options, { binding });
      t.equal((await bodies(store)).length, 28);
      t.equal(store.minOffset("T"), 0);
      t.equal((await bodies(store, "Kept")).length, 1);
    }
  },
);

eachBinding(t, "a file that somebody else removed is never written to", async (t, binding) => {
  for (const [mode, options] of Object.entries({
    SYNC_FLUSH: MODES.SYNC_FLUSH!,
    ASYNC_FLUSH: MODES.ASYNC_FLUSH!,
  })) {
    const dir = storePath(t, mode);
    const { store, fileSystem } = await openStore(t, dir, options, { binding });
    await putMany(store, 50, { size: 1000 });
    await until(() => existsSync(logFile(dir, 65536)));
    rmSync(logFile(dir, 65536));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 30 }, () => store.put(message("x".repeat(1000)))),
    );
    const rejected = outcomes.find((outcome) => outcome.status === "rejected");
    t.match(rejected, {
      reason: { cause: { code: "STORE_FILES_VANISHED", path: logFile(dir, 65536) } },
    });
    t.equal(store.state, "failed");
    const stored = outcomes.filter(({ status }) => status === "fulfilled").length;
    t.equal((await bodies(store)).length, 50 + stored);
    t.notOk(
      fileSystem.calls.some(
        ({ name, path, position }) =>
          /pwrite/.test(name) && path === logFile(dir, 65536) && position !== undefined,
      ),
    );
    await store.close();
    const again = await openStore(t, dir, options, { binding });
    t.ok((await bodies(again.store)).length >= 50 + stored);
  }
});
