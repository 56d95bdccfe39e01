import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs";
import { cpSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import t from "tap";
import { loadNativeBinding } from "../lib/io/native_binding.ts";
import { MessageStore, type StoreOptions } from "../lib/mod.ts";
import { FakeClock } from "../lib/testing/mod.ts";
import { until } from "./support/random.ts";
import { putStatus, rejection } from "./support/rejections.ts";
import {
  BINDINGS,
  bodies,
  checkStore,
  eachBinding,
  killedCopy,
  logFile,
  MODES,
  message,
  openStore,
  putMany,
  SMALL,
  storePath,
} from "./support/stores.ts";

const SYNC: StoreOptions = { flushDiskType: "SYNC_FLUSH" };

function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

/** SHA-256 over the names and bytes of every file. */
function fingerprint(dir: string): string {
  const hash = createHash("sha256");
  for (const name of readdirSync(dir, { recursive: true }).map(String).sort()) {
    hash.update(name);
    if (statSync(join(dir, name)).isFile()) hash.update(readFileSync(join(dir, name)));
  }
  return hash.digest("hex");
}

for (const [mode, options] of Object.entries(MODES)) {
  eachBinding(
    t,
    `put() in mode ${mode}: 64 callers, then all is there, also after a reopen`,
    async (t, binding) => {
      const dir = storePath(t);
      const { store } = await openStore(t, dir, options, { binding });
      let left = 1000;
      const ids: string[] = [];
      await Promise.all(
        Array.from({ length: 64 }, async (_, caller) => {
          while (left-- > 0) {
            const put = await store.put(
              message(`${caller}`, {
                queueId: caller % 4,
                tags: `t${caller % 3}`,
                keys: ["a", "b"],
              }),
            );
            ids.push(put.messageId);
            if (mode === "pool") continue;
            // What a caller was told is stored, it can read.
            const { messages } = await store.get({
              topic: "T",
              queueId: put.queueId,
              offset: put.queueOffset,
              maxMessages: 1,
            });
            if (messages[0]?.messageId !== put.messageId) t.fail("not readable through its queue");
            if ((await store.lookup(put.physicalOffset))?.queueOffset !== put.queueOffset)
              t.fail("nor by offset");
            if ((await store.lookup(put.messageId))?.physicalOffset !== put.physicalOffset)
              t.fail("nor by id");
          }
        }),
      );
      await store.flush();
      t.equal(new Set(ids).size, 1000);
      await checkStore(t, store, dir);
      await store.close();
      t.notOk(existsSync(join(dir, "abort")));
      const again = await openStore(t, dir, options, { binding });
      const found = await Promise.all(
        [0, 1, 2, 3].map((queueId) => bodies(again.store, "T", queueId)),
      );
      t.equal(found.flat().length, 1000);
      await checkStore(t, again.store, dir);
    },
  );
}

t.test("MessageStore is disposable, and each operation says that it is closed", async (t) => {
  const dir = storePath(t);
  let closed: MessageStore;
  {
    await using store = await MessageStore.open(dir, { ...SMALL, ...BINDINGS[0]?.options });
    await store.put(message("a"));
    closed = store;
  }
  t.equal(closed.state, "closed");
  t.equal(await putStatus(closed.put(message("b"))), "SERVICE_NOT_AVAILABLE");
  t.equal(
    await putStatus(closed.putBatch({ topic: "T", messages: [message("b")] })),
    "SERVICE_NOT_AVAILABLE",
  );
  for (const operation of [
    () => closed.get({ topic: "T", offset: 0 }),
    () => closed.lookup(0),
    () => closed.flush(),
    () => closed.checkpoint(),
    async () => closed.consume({ topic: "T" }).next(),
  ]) {
    t.match(await rejection((async () => operation())()), { code: "STORE_CLOSED" });
  }
  await closed.close();
});

eachBinding(
  t,
  "put() with waitStoreMsgOK false resolves before its force, and is readable after it",
  async (t, binding) => {
    const { store, fileSystem } = await openStore(t, storePath(t), SYNC, { binding });
    await store.put(message("first"));
    const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
    const { queueOffset } = await store.put(message("quick", { waitStoreMsgOK: false }));
    t.equal(queueOffset, 1);
    t.ok(store.watermarks.committed > store.watermarks.flushed, "written, not forced");
    t.equal(store.maxOffset("T"), 1, "not readable yet");
    held.release();
    await store.durable(store.watermarks.wrote);
    t.same(await bodies(store), ["first", "quick"]);
  },
);

eachBinding(t, "readUnCommitted makes messages readable before their force", async (t, binding) => {
  const { store, fileSystem } = await openStore(
    t,
    storePath(t),
    { ...SYNC, readUnCommitted: true },
    { binding },
  );
  await store.put(message("first"));
  const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
  const put = store.put(message("early"));
  await held.waiting;
  t.same(await bodies(store), ["first", "early"]);
  held.release();
  await put;
});

eachBinding(
  t,
  "a put whose force takes too long ends with FLUSH_DISK_TIMEOUT, outcome unknown",
  async (t, binding) => {
    const clock = new FakeClock();
    const { store, fileSystem } = await openStore(t, storePath(t), SYNC, { binding, clock });
    await store.put(message("first"));
    const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
    const slow = store.put(message("slow"));
    await held.waiting;
    const joined = store.put(message("joined"));
    clock.setWall(clock.now() - 3_600_000);
    await clock.advance(4999);
    const settled = await Promise.race([slow.catch(() => "rejected"), Promise.resolve("waiting")]);
    t.equal(settled, "waiting", "a jump of the wall clock changes nothing");
    const rejected = Promise.all([rejection(slow), rejection(joined)]);
    await clock.advance(1);
    for (const error of await rejected) {
      t.match(error, { status: "FLUSH_DISK_TIMEOUT", outcome: "unknown", offset: Number });
    }
    held.release();
    await store.flush();
    t.same(await bodies(store), ["first", "slow", "joined"], "it may appear");
    t.equal((await store.put(message("next"))).queueOffset, 3);
  },
);

eachBinding(t, "a body may change once put() has returned", async (t, binding) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const { store } = await openStore(t, storePath(t, mode), options, { binding });
    const body = Buffer.from("before");
    // The first put waits for the first file.
    const puts = [
      store.put({ topic: "T", body }),
      store.putBatch({ topic: "T", messages: [{ body }] }),
    ];
    body.fill("X");
    await Promise.all(puts);
    await store.flush();
    t.same(await bodies(store), ["before", "before"]);
  }
});

t.test(
  "open() makes no file of the log before there is a message, and the next when one is half full",
  async (t) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir);
    t.same(readdirSync(join(dir, "commitlog")), []);
    await putMany(store, 30, { size: 900 });
    t.same(readdirSync(join(dir, "commitlog")).length, 1);
    await putMany(store, 10, { size: 900 });
    for (let i = 0; i < 500 && !existsSync(logFile(dir, 65536)); i++)
      await new Promise((r) => setTimeout(r, 2));
    t.ok(existsSync(logFile(dir, 65536)), "made ahead");
    await store.close();
    t.notOk(existsSync(logFile(dir, 65536)), "and removed unused");
  },
);

t.test("open() with readOnly changes no byte, beside a live store too", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { clock: new FakeClock() });
  await putMany(store, 140, { size: 1000 });
  for (let i = 0; i < 500 && !existsSync(logFile(dir, 196608)); i++) await turn();
  await turn();
  const before = fingerprint(dir);
  const reader = await openStore(t, dir, { mappedFileSizeCommitLog: 2 ** 20 }, { readOnly: true });
  t.equal((await bodies(reader.store)).length, 140);
  t.equal(reader.store.options.mappedFileSizeCommitLog, 65536, "it takes the sizes that it finds");
  t.equal(await putStatus(reader.store.put(message("x"))), "SERVICE_NOT_AVAILABLE");
  await reader.store.close();
  t.equal(fingerprint(dir), before);
  t.equal((await store.put(message("on"))).queueOffset, 140);
  const copy = killedCopy(t, dir);
  const damaged = join(copy, "..", "damaged");
  cpSync(copy, damaged, { recursive: true });
  const whole = fingerprint(damaged);
  const again = await openStore(t, damaged, {}, { readOnly: true });
  await again.store.close();
  t.equal(fingerprint(damaged), whole);
});

t.test("a store in the role SLAVE refuses puts", async (t) => {
  const { store } = await openStore(t, storePath(t), { brokerRole: "SLAVE" });
  t.equal(await putStatus(store.put(message("x"))), "SERVICE_NOT_AVAILABLE");
});

t.test("messages that ask for what is not served are refused by name", async (t) => {
  const { store } = await openStore(t, storePath(t));
  for (const [properties, status] of [
    [{ DELAY: "3" }, "MESSAGE_ILLEGAL"],
    [{ TIMER_DELAY_MS: "1000" }, "WHEEL_TIMER_NOT_ENABLE"],
    [{ TIMER_DELAY_SEC: "1" }, "WHEEL_TIMER_NOT_ENABLE"],
    [{ TIMER_DELIVER_MS: "1" }, "WHEEL_TIMER_NOT_ENABLE"],
    [{ INNER_NUM: "3" }, "MESSAGE_ILLEGAL"],
  ] as [Record<string, string>, string][]) {
    const error = await rejection(store.put(message("x", { properties })));
    t.match(error, { status, message: Object.keys(properties)[0] });
  }
  t.equal(await putStatus(store.put(message("x", { sysFlag: 0x80 }))), "MESSAGE_ILLEGAL");
  t.equal(store.watermarks.wrote, 0);
});

t.test(
  "open() names an option that does not exist, is out of range, or is not served",
  async (t) => {
    const open = (options: object) => rejection(MessageStore.open(storePath(t), options));
    t.match(await open({ flushDiskTyp: "SYNC_FLUSH" }), {
      name: "TypeError",
      message: /"flushDiskTyp"/,
    });
    t.match(await open({ flushDiskType: "MAYBE" }), {
      name: "RangeError",
      message: /SYNC_FLUSH, ASYNC_FLUSH/,
    });
    t.match(await open({ syncFlushTimeout: "5000" }), { name: "TypeError" });
    t.match(await open({ mappedFileSizeCommitLog: 10 }), {
      name: "RangeError",
      message: /from 1024/,
    });
    t.match(await open({ storeType: "defaultRocksDB" }), {
      name: "RangeError",
      message: /storeType/,
    });
    t.match(await open({ messageDelayLevel: "1x" }), { name: "RangeError" });
    t.notOk(existsSync(storePath(t)), "nothing was made");
  },
);

eachBinding(
  t,
  "light queues get their offsets in the append and their units in the dispatch",
  async (t, binding) => {
    const dir = storePath(t);
    const lmq = {
      enableLmq: true,
      enableMultiDispatch: true,
      enableLmqQuota: true,
      maxLmqConsumeQueueNum: 2,
    };
    const { store } = await openStore(t, dir, lmq, { binding });
    const to = (names: string) => message(names, { properties: { INNER_MULTI_DISPATCH: names } });
    await store.put(to("%LMQ%a,%LMQ%b"));
    await store.put(to("%LMQ%b"));
    const { physicalOffset } = await store.put(to("%LMQ%a,%LMQ%b"));
    t.equal(
      (await store.lookup(physicalOffset))?.properties?.get("INNER_MULTI_QUEUE_OFFSET"),
      "1,2",
    );
    t.equal(await putStatus(store.put(to("%LMQ%c"))), "LMQ_CONSUME_QUEUE_NUM_EXCEEDED");
    t.equal(await putStatus(store.put(to("plain"))), "MESSAGE_ILLEGAL");
    const check = async (open: MessageStore) => {
      t.same(await bodies(open, "%LMQ%a"), ["%LMQ%a,%LMQ%b", "%LMQ%a,%LMQ%b"]);
      t.same(await bodies(open, "%LMQ%b"), ["%LMQ%a,%LMQ%b", "%LMQ%b", "%LMQ%a,%LMQ%b"]);
      t.equal((await bodies(open)).length, 3);
    };
    await check(store);
    const killed = await openStore(t, killedCopy(t, dir), lmq, { binding });
    await check(killed.store);
    await killed.store.put(to("%LMQ%a"));
    t.equal(killed.store.maxOffset("%LMQ%a"), 3);
  },
);

t.test("records of transactions: prepared and rolled back ones are in no queue", async (t) => {
  const { store } = await openStore(t, storePath(t));
  for (const [sysFlag, offset] of [
    [4, 0],
    [0, 0],
    [12, 0],
    [8, 1],
    [0, 2],
  ] as const) {
    t.equal((await store.put(message(`${sysFlag}`, { sysFlag }))).queueOffset, offset);
  }
  t.same(await bodies(store), ["0", "8", "0"]);
});

t.test(
  "store times never go back, and watermarks, stats and arrivals tell what happened",
  async (t) => {
    const clock = new FakeClock();
    const arrivals: unknown[] = [];
    const { store } = await openStore(t, storePath(t), SYNC, {
      clock,
      onArrival: (a) => arrivals.push(a),
    });
    const first = await store.put(message("a", { tags: "TagA" }));
    clock.setWall(clock.now() - 60_000);
    const second = await store.put(message("b"));
    t.ok(second.storeTimestamp >= first.storeTimestamp);
    t.same(arrivals, [
      {
        topic: "T",
        queueId: 0,
        logicOffset: 1,
        tagsCode: 2598919,
        storeTimestamp: first.storeTimestamp,
      },
      {
        topic: "T",
        queueId: 0,
        logicOffset: 2,
        tagsCode: 0,
        storeTimestamp: second.storeTimestamp,
      },
    ]);
    const end = second.physicalOffset + second.size;
    t.same(store.watermarks, { wrote: end, committed: end, flushed: end, dispatched: end });
    t.match(store.stats(), {
      messagesPut: 2,
      putsFailed: 0,
      forces: 2,
      waitingPuts: 0,
      pendingBytes: 0,
    });
    await store.putBatch({ topic: "T", messages: [message("c"), message("d"), message("e")] });
    t.equal(store.stats().messagesPut, 5);
  },
);

t.test(
  "durable() waits for the force and no longer than its signal; reads let the event loop turn",
  async (t) => {
    const clock = new FakeClock();
    const { store } = await openStore(t, storePath(t), {}, { clock });
    await putMany(store, 300);
    const end = store.watermarks.wrote;
    const controller = new AbortController();
    const aborted = rejection(store.durable(end, { signal: controller.signal }));
    controller.abort(new Error("enough"));
    t.match(await aborted, { message: "enough" });
    const durable = store.durable(end);
    await clock.advance(500);
    await durable;
    t.equal(store.watermarks.flushed, end);
    let turned = false;
    setTimeout(() => {
      turned = true;
    }, 0);
    for (let i = 0; i < 100_000 && !turned; i++) {
      await store.get({ topic: "T", offset: i % 300, maxMessages: 1 });
    }
    t.ok(turned, "a loop of reads does not keep timers waiting");
  },
);

t.test("a batch of one is held to the limit of a batch", async (t) => {
  const { store } = await openStore(t, storePath(t), { maxMessageSize: 4096 });
  const body = Buffer.alloc(4090);
  t.equal(await putStatus(store.putBatch({ topic: "T", messages: [{ body }] })), "MESSAGE_ILLEGAL");
  t.equal((await store.put(message("", { body }))).queueOffset, 0);
});

eachBinding(t, "a slow sync alone does not make the store busy", async (t, binding) => {
  const clock = new FakeClock();
  const { store, fileSystem } = await openStore(t, storePath(t), SYNC, { binding, clock });
  await store.put(message("first"));
  const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
  const slow = store.put(message("slow"));
  await held.waiting;
  await clock.advance(3000);
  const joined = store.put(message("joined"));
  held.release();
  t.equal((await slow).queueOffset, 1);
  t.equal((await joined).queueOffset, 2);
});

eachBinding(
  t,
  "open() and get() fail with an error of the store, whatever call fails",
  async (t, binding) => {
    const dir = storePath(t);
    const first = await openStore(t, dir, {}, { binding });
    await putMany(first.store, 100, { size: 1000 });
    const copy = killedCopy(t, dir);
    for (const name of [
      "readdir",
      "stat",
      "mkdir",
      "syncDirectory",
      "open",
      "pread",
      "fdatasync",
      "unlink",
    ] as const) {
      for (let skip = 0; ; skip++) {
        const fileSystem = binding.fileSystem();
        fileSystem.failNext(name, "EIO", { skip });
        const again = killedCopy(t, copy);
        const error = await openStore(t, again, {}, { binding, fileSystem })
          .then(({ store }) => store.close())
          .then(
            () => undefined,
            (error: unknown) => error,
          );
        if (error === undefined) break;
        t.match(error, { name: "StoreError", code: "STORE_IO" }, `${name} ${skip}`);
        const { store } = await openStore(t, again, {}, { binding });
        t.equal(store.maxOffset("T"), 100);
        await store.close();
        if (skip > 60) break;
      }
    }
  },
);

t.test("a commit log in another folder has its half-made files beside it", async (t) => {
  const dir = storePath(t);
  const elsewhere = storePath(t, "elsewhere");
  const options = { storePathCommitLog: join(elsewhere, "log") };
  const { store } = await openStore(t, dir, options);
  await putMany(store, 100, { size: 1000 });
  t.ok(existsSync(join(elsewhere, "log", "0".repeat(20))));
  t.ok(existsSync(join(elsewhere, "forcelog")));
  await store.close();
  const again = await openStore(t, dir, options);
  t.equal((await bodies(again.store)).length, 100);
});

t.test("light queues: what is prepared or rolled back enters none", async (t) => {
  const lmq = { enableLmq: true, enableMultiDispatch: true };
  const dir = storePath(t);
  const { store } = await openStore(t, dir, lmq);
  const properties = { INNER_MULTI_DISPATCH: "%LMQ%a" };
  // Plain, prepared, committed, rolled back, as in `MessageSysFlag`.
  for (const [text, sysFlag] of Object.entries({ plain: 0, prepared: 4, committed: 8, back: 12 })) {
    const { physicalOffset } = await store.put(message(text, { properties, sysFlag }));
    const stored = await store.lookup(physicalOffset);
    const isIn = sysFlag === 0 || sysFlag === 8;
    t.equal(stored?.properties?.has("INNER_MULTI_QUEUE_OFFSET"), isIn, text);
  }
  await store.put(message("last", { properties }));
  t.equal(store.failure, undefined);
  for (const open of [store, (await openStore(t, killedCopy(t, dir), lmq)).store]) {
    t.same(await bodies(open, "%LMQ%a"), ["plain", "committed", "last"]);
    t.same(await bodies(open), ["plain", "committed", "last"]);
  }
});

t.test(
  "light queues: what would not fit with its offsets, or names a queue twice, is refused",
  async (t) => {
    const lmq = { enableLmq: true, enableMultiDispatch: true };
    const sizes = { maxMessageSize: 65_536, mappedFileSizeCommitLog: 2 ** 20 };
    const { store } = await openStore(t, storePath(t), { ...lmq, ...sizes });
    const to = (names: string, more: Record<string, string> = {}) =>
      message("x", { properties: { INNER_MULTI_DISPATCH: names, ...more } });
    for (const bytes of [32_740, 32_760]) {
      t.equal(
        await putStatus(store.put(to("%LMQ%a", { p: "v".repeat(bytes - 40) }))),
        "PROPERTIES_SIZE_EXCEEDED",
      );
    }
    t.equal(await putStatus(store.put(to("%LMQ%a,%LMQ%a"))), "MESSAGE_ILLEGAL");
    const own = { topic: "%LMQ%a", properties: { INNER_MULTI_DISPATCH: "%LMQ%a" } };
    t.equal(await putStatus(store.put(message("x", own))), "MESSAGE_ILLEGAL");
    t.equal(store.watermarks.wrote, 0);
    const small = await openStore(t, storePath(t, "small"), {
      ...lmq,
      mappedFileSizeCommitLog: 1024,
    });
    const close = { properties: { INNER_MULTI_DISPATCH: "%LMQ%a" }, body: Buffer.alloc(880) };
    t.equal(await putStatus(small.store.put(message("", close))), "MESSAGE_ILLEGAL");
  },
);

eachBinding(t, "pool: no put is acknowledged after a commit that failed", async (t, binding) => {
  const { store, fileSystem } = await openStore(t, storePath(t), MODES.pool, { binding });
  await store.put(message("first"));
  await store.flush();
  fileSystem.failNext(["pwritev", "pwritevNow"], "EIO");
  let late = 0;
  const puts = Array.from({ length: 1500 }, () =>
    store.put(message("x".repeat(100))).then(() => {
      if (store.failure) late++;
    }),
  );
  await Promise.allSettled(puts);
  t.equal(store.state, "failed");
  t.equal(late, 0);
});

t.test("a message that onArrival tells of can be read at once", async (t) => {
  const read: Promise<unknown>[] = [];
  const opened: { store?: MessageStore } = {};
  const { store } = await openStore(
    t,
    storePath(t),
    {},
    {
      onArrival: ({ topic, queueId, logicOffset }) => {
        const request = { topic, queueId, offset: logicOffset - 1 };
        if (opened.store) read.push(opened.store.get(request).then(({ status }) => status));
      },
    },
  );
  opened.store = store;
  await putMany(store, 5);
  t.same(await Promise.all(read), Array(5).fill("FOUND"));
});

eachBinding(
  t,
  "MessageStore refuses puts while there is no space, and takes them again",
  async (t, binding) => {
    for (const [mode, options] of Object.entries(MODES)) {
      const dir = storePath(t, mode);
      const { store, fileSystem, warnings } = await openStore(t, dir, options, { binding });
      await putMany(store, 5);
      await store.flush();
      const full = { path: /commitlog/, times: Number.POSITIVE_INFINITY };
      fileSystem.failNext(["pwritev", "pwritevNow", "ftruncate", "open"], "ENOSPC", full);
      const put = store.put(message("5"));
      const isKept = mode === "pool";
      if (isKept) await put;
      else
        t.match(await rejection(put), { outcome: "unknown", cause: { cause: { code: "ENOSPC" } } });
      t.match(
        await rejection(store.flush()),
        { code: "STORE_IO", cause: { code: "ENOSPC" } },
        mode,
      );
      for (const late of [
        store.put(message("late")),
        store.putBatch({ topic: "T", messages: [] }),
      ]) {
        t.match(await rejection(late), { outcome: "not stored", status: "SERVICE_NOT_AVAILABLE" });
      }
      t.equal(store.state, "open");
      t.equal((await bodies(store)).length, 5, "reads go on");
      fileSystem.clear();
      await until(() => store.watermarks.committed === store.watermarks.wrote);
      await putMany(store, 3);
      await store.flush();
      t.same(await bodies(store), ["0", "1", "2", "3", "4", "5", "0", "1", "2"]);
      t.match(warnings.join("\n"), /no space; puts are refused[\s\S]*space again/);
      await checkStore(t, store, dir);
      await store.close();
      t.notOk(existsSync(join(dir, "abort")));
    }
  },
);

t.test(
  "puts, and the files that they need, wait for none of libuv's threads",
  { skip: !loadNativeBinding() && "the addon isn't loaded" },
  async (t) => {
    const pipe = storePath(t, "pipe");
    spawnSync("mkfifo", [pipe]);
    for (const [mode, options] of Object.entries(MODES)) {
      const { store } = await openStore(t, storePath(t, mode), options);
      // Each of these takes a thread until somebody writes.
      const readers = Array.from(
        { length: 8 },
        () => new Promise<number>((opened) => fs.open(pipe, "r", (_, fd) => opened(fd))),
      );
      for (let i = 0; i < 500; i++) {
        await store.put({ topic: `T${i % 9}`, body: Buffer.alloc(4000) });
      }
      const { wrote } = store.watermarks;
      t.ok(wrote > 20 * (SMALL.mappedFileSizeCommitLog as number), `${mode}: files were made`);
      const writer = fs.openSync(pipe, "r+");
      for (const fd of await Promise.all(readers)) fs.closeSync(fd);
      fs.closeSync(writer);
      await store.close();
    }
  },
);

t.test("who asks for what is not there keeps nobody else waiting", async (t) => {
  const { store } = await openStore(t, storePath(t));
  await store.put({ topic: "T", body: Buffer.from("b") });
  for (const [topic, offset] of [
    ["T", 1],
    ["none", 0],
  ] as const) {
    let told = false;
    setTimeout(() => {
      told = true;
    }, 1);
    const startedAt = performance.now();
    while (!told && performance.now() - startedAt < 5000) await store.get({ topic, offset });
    t.ok(told, topic);
  }
});

t.test("a worker that ends leaves no lock behind", async (t) => {
  const dir = storePath(t);
  const script = `
    import { parentPort, workerData } from "node:worker_threads";
    (await import(workerData.tsx)).register();
    const { MessageStore } = await import(workerData.module);
    const store = await MessageStore.open(workerData.dir, workerData.options);
    await store.put({ topic: "T", body: Buffer.from("b") });
    parentPort.postMessage("put");
    setInterval(() => undefined, 1000);`;
  const module = pathToFileURL(join(import.meta.dirname, "../lib/mod.ts")).href;
  const tsx = import.meta.resolve("tsx/esm/api");
  const url = new URL(`data:text/javascript,${encodeURIComponent(script)}`);
  const worker = new Worker(url, { workerData: { tsx, module, dir, options: SMALL } });
  await once(worker, "message");
  await worker.terminate();
  const { store } = await openStore(t, dir);
  t.equal(store.maxOffset("T", 0), 1);
});

t.test("messages are compared by their bytes", async (t) => {
  const { store } = await openStore(t, storePath(t));
  for (const body of ["a", "b"]) await store.put({ topic: "T", body: Buffer.from(body) });
  const read = async (offset: number) =>
    (await store.get({ topic: "T", offset, maxMessages: 1 })).messages[0];
  t.strictSame(await read(0), await read(0));
  t.notSame(await read(0), await read(1));
});
