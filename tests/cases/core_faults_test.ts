// Faults that have been reported in public of stores of this kind, each as a test of its whole
// kind: what belongs to opening, putting, reading and recovering.

import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import t, { type Test } from "tap";
import type { StoreError } from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { putStatus, rejection } from "../support/rejections.ts";
import {
  BARE_RECORD_BYTES,
  type Binding,
  bodies,
  checkStore,
  eachBinding,
  forgetRecent,
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

const SYNC = { flushDiskType: "SYNC_FLUSH" } as const;
/** RocketMQ's way with damage in the middle of the log. */
const CUT = { damagedLogPolicy: "cut" } as const;

/** Physical offsets and sizes of the records of queue T/0. */
async function places(store: {
  get: (r: { topic: string; offset: number }) => Promise<{
    messages: readonly { physicalOffset: number; size: number }[];
    nextBeginOffset: number;
  }>;
  maxOffset: (topic: string) => number;
}): Promise<{ offset: number; size: number }[]> {
  const found: { offset: number; size: number }[] = [];
  for (let offset = 0; offset < store.maxOffset("T"); ) {
    const { messages, nextBeginOffset } = await store.get({ topic: "T", offset });
    for (const { physicalOffset, size } of messages) found.push({ offset: physicalOffset, size });
    offset = nextBeginOffset;
  }
  return found;
}

/** A store that was closed, with a record in its middle that has lost its magic. */
async function unreadableRecord(t: Test, binding: Binding): Promise<{ dir: string; at: number }> {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  await putMany(store, 20);
  const at = (await places(store))[15]!.offset;
  await store.close();
  t.notOk(existsSync(join(dir, "abort")));
  overwrite(logFile(dir), at + 4, Buffer.alloc(4));
  return { dir, at };
}

eachBinding(
  t,
  "F01 cut: open() after a clean stop cuts log and queue at an unreadable record",
  async (t, binding) => {
    const { dir, at } = await unreadableRecord(t, binding);
    const { store, warnings } = await openStore(t, dir, CUT, { binding });
    t.equal(store.watermarks.wrote, at);
    t.equal(store.maxOffset("T"), 15);
    t.equal((await store.get({ topic: "T", offset: 15 })).status, "OFFSET_OVERFLOW_ONE");
    t.match(warnings.join(), /cut at/);
    const { queueOffset, physicalOffset } = await store.put(message("new"));
    t.same([queueOffset, physicalOffset], [15, at]);
    t.same((await bodies(store)).at(-1), "new");
    await checkStore(t, store, dir);
  },
);

eachBinding(
  t,
  "F01 open() after a clean stop keeps what follows an unreadable record, at its place",
  async (t, binding) => {
    const { dir, at } = await unreadableRecord(t, binding);
    const damaged = readFileSync(logFile(dir)).subarray(at, at + 94);
    const { store, warnings } = await openStore(t, dir, {}, { binding });
    t.equal(store.watermarks.wrote, 10 * 93 + 10 * 94);
    t.equal(store.maxOffset("T"), 20);
    const over = await store.get({ topic: "T", offset: 15, maxMessages: 1 });
    t.same([over.messages.map(({ queueOffset }) => queueOffset)], [[16]], "it is passed over");
    t.match(await rejection(store.lookup(at)), { code: "STORE_RECORD_DAMAGED", position: at });
    t.match(store.recovery, {
      cut: undefined,
      holes: [{ offset: at, size: 94, covered: true, path: logFile(dir), position: at }],
    });
    const [hole] = store.recovery.holes;
    t.same(readFileSync(hole!.evidence[0]!), damaged, "its bytes are kept");
    t.equal(warnings.length, 1);
    t.match(warnings[0], /is damaged at .* goes on 94 bytes behind/);
    t.equal((await store.put(message("20"))).queueOffset, 20);
    t.same(
      await bodies(store),
      Array.from({ length: 21 }, (_, i) => `${i}`).filter((text) => text !== "15"),
    );
    await checkStore(t, store, dir, ["T/0/15"]);
  },
);

eachBinding(t, "F02 close() dispatches everything before it removes abort", async (t, binding) => {
  const dir = storePath(t);
  const first = await openStore(t, dir, SYNC, { binding });
  await putMany(first.store, 3);
  const held = first.fileSystem.hold("fdatasync", { path: /commitlog/ });
  const late = Array.from({ length: 7 }, (_, i) => first.store.put(message(`${i + 3}`)));
  await held.waiting;
  const closing = first.store.close();
  t.ok(existsSync(join(dir, "abort")), "it waits");
  held.release();
  await closing;
  t.equal((await Promise.all(late)).length, 7);
  t.notOk(existsSync(join(dir, "abort")));
  const { store } = await openStore(t, dir, SYNC, { binding });
  t.same(
    await bodies(store),
    Array.from({ length: 10 }, (_, i) => `${i}`),
  );
});

eachBinding(
  t,
  "F03 the checkpoint's queue time is never later than the newest unit on disk",
  async (t, binding) => {
    const dir = storePath(t);
    const clock = new FakeClock();
    const first = await openStore(
      t,
      dir,
      { flushConsumeQueueThoroughInterval: 2 ** 31 - 1 },
      { binding, clock },
    );
    await putMany(first.store, 5);
    await first.store.checkpoint();
    const time = clock.now();
    await clock.advance(50);
    await putMany(first.store, 5);
    const copy = killedCopy(t, dir);
    const checkpoint = readFileSync(join(copy, "checkpoint"));
    t.equal(Number(checkpoint.readBigInt64BE(8)), time, "units on disk: 5");
    t.equal(unitsOnDisk(copy).length, 5);
    const { store } = await openStore(t, copy, {}, { binding });
    t.equal((await bodies(store)).length, 10);
  },
);

eachBinding(
  t,
  "F04 SYNC_FLUSH: a message is not readable before it is forced",
  async (t, binding) => {
    const dir = storePath(t);
    const { store, fileSystem } = await openStore(t, dir, SYNC, { binding });
    await store.put(message("first", { topic: "Other" }));
    const held = fileSystem.hold("fdatasync", { path: /commitlog/ });
    const put = store.put(message("a"));
    await held.waiting;
    t.equal(store.maxOffset("T"), 0);
    t.same((await store.get({ topic: "T", offset: 0 })).messages, []);
    t.equal(await store.lookup(store.watermarks.flushed), undefined);
    held.release();
    t.equal((await put).queueOffset, 0);
    t.equal((await store.get({ topic: "T", offset: 0 })).status, "FOUND");
  },
);

eachBinding(
  t,
  "F05 open() makes an empty newest file whole, of the log and of a queue",
  async (t, binding) => {
    const dir = storePath(t);
    const first = await openStore(t, dir, {}, { binding });
    await putMany(first.store, 10);
    await first.store.close();
    writeFileSync(logFile(dir, 65536), "");
    writeFileSync(join(dir, "consumequeue/T/0/00000000000000002000"), "");
    const { store } = await openStore(t, dir, {}, { binding });
    t.equal(store.maxOffset("T"), 10);
    await putMany(store, 150, { size: 600 });
    t.equal((await bodies(store)).length, 160);
    await checkStore(t, store, dir);
  },
);

for (const [name, damage] of Object.entries({
  "the second half of the last record is zero": (log: Buffer, at: number, size: number) =>
    log.fill(0, at + size / 2, at + size),
  "the last total size is 2^30": (log: Buffer, at: number) => log.writeInt32BE(2 ** 30, at),
  "garbage follows the last record": (log: Buffer, at: number, size: number) => {
    for (let i = 0; i < 500; i++) log[at + size + i] = (i * 7919 + 13) & 255;
  },
})) {
  eachBinding(
    t,
    `F06 open() after a kill ends the log at the last whole record: ${name}`,
    async (t, binding) => {
      const dir = storePath(t);
      const first = await openStore(t, dir, {}, { binding });
      await putMany(first.store, 80, { size: 1000 });
      const all = await places(first.store);
      const last = all.at(-1)!;
      t.ok(last.offset > 65536, "a blank record lies between two files");
      const copy = killedCopy(t, dir);
      const path = logFile(copy, 65536);
      const log = readFileSync(path);
      damage(log, last.offset - 65536, last.size);
      writeFileSync(path, log);

      const { store, warnings } = await openStore(t, copy, {}, { binding });
      const whole = name.startsWith("garbage") ? 80 : 79;
      t.equal(
        store.watermarks.wrote,
        name.startsWith("garbage") ? last.offset + last.size : last.offset,
      );
      t.equal((await bodies(store)).length, whole);
      t.equal(store.recovery.cut?.path, path);
      t.equal(warnings.length, 1, "one warning: the blank record is no damage");
      const [evidence] = store.recovery.cut!.evidence;
      t.ok(
        readFileSync(evidence!).some((byte) => byte !== 0),
        "what was cut is kept",
      );
      t.notOk(
        readFileSync(path)
          .subarray(store.watermarks.wrote - 65536)
          .some((byte) => byte !== 0),
        "and zero in the log",
      );
      await putMany(store, 3);
      await checkStore(t, store, copy);
    },
  );
}

eachBinding(
  t,
  "F07 a missing middle file is a hole: nobody reads a neighbour",
  async (t, binding) => {
    const dir = storePath(t);
    const first = await openStore(t, dir, {}, { binding });
    await putMany(first.store, 220, { size: 1000 });
    const all = await places(first.store);
    await first.store.close();
    rmSync(logFile(dir, 65536));
    const { store, warnings } = await openStore(t, dir, {}, { binding });
    for (const [i, { offset }] of all.entries()) {
      const found = await store.lookup(offset);
      if (offset >= 65536 && offset < 131072) t.equal(found, undefined);
      else t.equal(found?.body.toString().replace(/\.+/, ""), `${i}`);
    }
    const hole = all.findIndex(({ offset }) => offset >= 65536);
    const over = await store.get({ topic: "T", offset: hole });
    t.equal(over.status, "MESSAGE_WAS_REMOVING");
    t.ok(over.nextBeginOffset > hole);
    t.equal(
      (await bodies(store)).length,
      220 - all.filter(({ offset }) => offset >= 65536 && offset < 131072).length,
    );
    t.same(warnings, [], "a scan of the last file meets no hole");
  },
);

eachBinding(t, "F09 recovery again and again gives no unit twice", async (t, binding) => {
  const dir = storePath(t);
  const first = await openStore(t, dir, {}, { binding });
  await putMany(first.store, 10);
  let copy = killedCopy(t, dir);
  const units: string[][] = [];
  for (let i = 0; i < 3; i++) {
    const { store } = await openStore(t, copy, {}, { binding });
    t.equal(store.maxOffset("T"), 10);
    t.equal(new Set((await places(store)).map(({ offset }) => offset)).size, 10);
    units.push(unitsOnDisk(copy));
    copy = killedCopy(t, copy);
  }
  t.same(units[1], units[0]);
  t.same(units[2], units[0]);
});

eachBinding(t, "F10 a put that is refused takes no queue offset", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  t.equal((await store.put(message("A"))).queueOffset, 0);
  t.equal(
    await putStatus(store.put(message("B", { properties: { p: "x".repeat(40000) } }))),
    "PROPERTIES_SIZE_EXCEEDED",
  );
  t.equal((await store.put(message("C"))).queueOffset, 1);
  t.same(await bodies(store), ["A", "C"]);
});

eachBinding(t, "F11 a unit that straddles the cut is gone", async (t, binding) => {
  const dir = storePath(t);
  const first = await openStore(t, dir, {}, { binding });
  await putMany(first.store, 5);
  await first.store.checkpoint();
  await putMany(first.store, 1, { size: 100 });
  const last = (await places(first.store)).at(-1)!;
  await first.store.close();
  writeFileSync(join(dir, "abort"), "");
  overwrite(logFile(dir), last.offset + last.size - 4, Buffer.from([1, 2, 3, 4]));
  rmSync(join(dir, "checkpoint"));
  const { store } = await openStore(t, dir, {}, { binding });
  t.equal(store.maxOffset("T"), 5);
  t.equal(unitsOnDisk(dir).length, 5);
});

eachBinding(t, "F13 filler units at the front of a queue are no messages", async (t, binding) => {
  const dir = storePath(t);
  const first = await openStore(t, dir, {}, { binding });
  await putMany(first.store, 120, { size: 1000 });
  const all = await places(first.store);
  await first.store.close();
  // The front of the log expires, and the queues are lost.
  rmSync(logFile(dir, 0));
  rmSync(join(dir, "consumequeue"), { recursive: true });
  writeFileSync(join(dir, "abort"), "");
  const kept = all.findIndex(({ offset }) => offset >= 65536);
  const { store } = await openStore(t, dir, {}, { binding });
  t.equal(store.minOffset("T"), kept);
  t.equal(store.maxOffset("T"), 120);
  t.equal((await store.get({ topic: "T", offset: kept - 1 })).status, "OFFSET_TOO_SMALL");
  t.equal((await bodies(store)).length, 120 - kept);
  t.equal(unitsOnDisk(dir)[0], `${"0".repeat(16)}7fffffff${"0".repeat(16)}`);
  const next = await openStore(t, killedCopy(t, dir), {}, { binding });
  t.equal(
    (await next.store.put(message("more"))).queueOffset,
    120,
    "below 2 GiB, and not swallowed",
  );
});

eachBinding(
  t,
  "F15 a damaged record is reported by its place, and stops nobody else",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    await putMany(store, 3);
    const at = (await places(store))[1]!.offset;
    overwrite(logFile(dir), at + 4, Buffer.alloc(4));
    await store.put(message("other", { topic: "Other" }));
    t.same(await bodies(store, "Other"), ["other"]);
    await forgetRecent(store);
    t.match(await rejection(store.get({ topic: "T", offset: 1 })), {
      code: "STORE_RECORD_DAMAGED",
      path: logFile(dir),
      position: at,
    });
    t.equal(
      (await store.get({ topic: "T", offset: 0 })).messages.length,
      1,
      "what is good before it",
    );
    t.equal((await store.get({ topic: "T", offset: 2 })).messages.length, 1, "and behind it");
  },
);

eachBinding(
  t,
  "F16 a record that would leave less than 8 bytes goes to the next file",
  async (t, binding) => {
    const dir = storePath(t);
    const size = 1024;
    const { store } = await openStore(t, dir, { mappedFileSizeCommitLog: size }, { binding });
    const results = [];
    for (let i = 0; i < 4; i++)
      results.push(await store.put(message("x".repeat(256 - BARE_RECORD_BYTES))));
    t.same(
      results.map(({ physicalOffset }) => physicalOffset),
      [0, 256, 512, 1024],
    );
    const log = readFileSync(logFile(dir));
    t.equal(log.readInt32BE(768), 256);
    t.equal(log.readUInt32BE(772), 0xcbd43194);
    t.notOk(
      log.subarray(776).some((byte) => byte !== 0),
      "the rest is zero",
    );
    t.equal(store.watermarks.wrote, 1280);
    t.equal((await bodies(store)).length, 4);
    await checkStore(t, store, dir);
  },
);

eachBinding(
  t,
  "F17 SYNC_FLUSH: a put that rolls resolves once both files are forced",
  async (t, binding) => {
    const dir = storePath(t);
    const { store, fileSystem } = await openStore(t, dir, SYNC, { binding });
    await putMany(store, 60, { size: 1000 });
    const before = fileSystem.calls.length;
    const { physicalOffset, size } = await store.put(message("y".repeat(3000)));
    t.equal(physicalOffset, 65536);
    t.equal(store.watermarks.flushed, physicalOffset + size);
    const forced = fileSystem.calls
      .slice(before)
      .filter(({ name, path }) => name === "fdatasync" && /commitlog/.test(path));
    t.same(
      forced.map(({ path }) => path),
      [logFile(dir, 0), logFile(dir, 65536)],
    );
  },
);

eachBinding(t, "F19 a reader outside the queue is sent to its nearer end", async (t, binding) => {
  const { store } = await openStore(t, storePath(t), {}, { binding });
  await putMany(store, 10);
  const ask = async (offset: number, topic = "T") => {
    const { status, nextBeginOffset } = await store.get({ topic, offset });
    return [status, nextBeginOffset];
  };
  t.same(await ask(10), ["OFFSET_OVERFLOW_ONE", 10]);
  t.same(await ask(11), ["OFFSET_OVERFLOW_BADLY", 10]);
  t.same(await ask(1000), ["OFFSET_OVERFLOW_BADLY", 10]);
  t.same(await ask(-1), ["OFFSET_TOO_SMALL", 0]);
  t.same(await ask(0, "Unknown"), ["NO_MATCHED_LOGIC_QUEUE", 0]);
  t.same(
    store.queues().map(({ topic }) => topic),
    ["T"],
    "asking makes no queue",
  );
});

eachBinding(t, "F20 a filtered read always moves on", async (t, binding) => {
  for (const unitsPerFile of [300_000, 100]) {
    const dir = storePath(t, String(unitsPerFile));
    const { store } = await openStore(
      t,
      dir,
      { mappedFileSizeConsumeQueue: unitsPerFile * 20, mappedFileSizeCommitLog: 2 ** 20 },
      { binding },
    );
    await Promise.all(Array.from({ length: 1000 }, () => store.put(message("a", { tags: "A" }))));
    await store.put(message("b", { tags: "B" }));
    const first = await store.get({ topic: "T", offset: 0, filter: "B", maxMessages: 32 });
    t.same(
      [first.status, first.nextBeginOffset],
      ["NO_MATCHED_MESSAGE", Math.min(800, unitsPerFile)],
    );
    let { nextBeginOffset: offset, messages } = first;
    for (let i = 0; i < 20 && messages.length === 0; i++) {
      const next = await store.get({ topic: "T", offset, filter: "B", maxMessages: 32 });
      t.ok(next.nextBeginOffset > offset);
      ({ nextBeginOffset: offset, messages } = next);
    }
    t.equal(messages[0]?.queueOffset, 1000);
  }
});

eachBinding(
  t,
  "F30, F31, F32, F33 properties and topics are whole or refused before anything is written",
  async (t, binding) => {
    const { store } = await openStore(t, storePath(t), {}, { binding });
    for (const propertiesString of ["a\u0001b", "a\u0001b\u0002"]) {
      const { physicalOffset } = await store.put(message("x", { propertiesString }));
      t.same([...(await store.lookup(physicalOffset))!.properties!], [["a", "b"]]);
    }
    const before = store.watermarks.wrote;
    for (const properties of [{ a: "x\u0002y" }, { "n\u0001m": "v" }, { a: "p\u0001q" }] as Record<
      string,
      string
    >[]) {
      t.equal(await putStatus(store.put(message("x", { properties }))), "MESSAGE_ILLEGAL");
    }
    const ofBytes = (bytes: number) => ({
      propertiesString: `k\u0001${"v".repeat(bytes - 3)}\u0002`,
    });
    for (const bytes of [32768, 65536]) {
      t.equal(await putStatus(store.put(message("x", ofBytes(bytes)))), "PROPERTIES_SIZE_EXCEEDED");
      t.equal(
        await putStatus(
          store.putBatch({
            topic: "T",
            messages: [
              { body: Buffer.from("1") },
              { body: Buffer.from("2"), ...ofBytes(bytes) },
              { body: Buffer.from("3") },
            ],
          }),
        ),
        "PROPERTIES_SIZE_EXCEEDED",
      );
    }
    t.equal(
      await putStatus(store.put(message("x", { properties: { k: "漢".repeat(11000) } }))),
      "PROPERTIES_SIZE_EXCEEDED",
    );
    for (const topic of ["t".repeat(128), "漢".repeat(43), ""]) {
      t.equal(await putStatus(store.put(message("x", { topic }))), "MESSAGE_ILLEGAL");
    }
    t.equal(store.watermarks.wrote, before, "nothing was written");
    t.equal((await store.put(message("x", ofBytes(32767)))).queueOffset, 2);
    for (const topic of ["t".repeat(127), "漢".repeat(42)]) {
      await store.put(message("kept", { topic }));
      t.same(await bodies(store, topic), ["kept"]);
    }
  },
);

eachBinding(
  t,
  "F34 an empty body is an empty buffer, and a missing one is refused",
  async (t, binding) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, {}, { binding });
    for (const body of ["12345", "", "54321"]) await store.put(message(body));
    t.equal(await putStatus(store.put({ topic: "T" } as never)), "MESSAGE_ILLEGAL");
    for (const open of [store, (await openStore(t, killedCopy(t, dir), {}, { binding })).store]) {
      const { messages } = await open.get({ topic: "T", offset: 0 });
      t.same(
        messages.map(({ body }) => body.length),
        [5, 0, 5],
      );
      t.equal(messages[1]!.bodyCrc, 0);
    }
  },
);

eachBinding(t, "F35 tags with one hash are told apart by their text", async (t, binding) => {
  const { store } = await openStore(t, storePath(t), {}, { binding });
  for (const tags of ["Aa", "BB", "BB"]) await store.put(message(tags, { tags }));
  const from0 = await store.get({ topic: "T", offset: 0, filter: "Aa" });
  t.same([from0.messages.map(({ tags }) => tags), from0.nextBeginOffset], [["Aa"], 3]);
  const from1 = await store.get({ topic: "T", offset: 1, filter: "Aa" });
  t.same([from1.status, from1.nextBeginOffset], ["NO_MATCHED_MESSAGE", 3]);
});

eachBinding(t, "F36 each member of a batch has ids of its own", async (t, binding) => {
  const { store } = await openStore(t, storePath(t), {}, { binding });
  const result = await store.putBatch({
    topic: "T",
    messages: ["a", "b", "c"].map((text) => ({ body: Buffer.from(text), uniqKey: `U${text}` })),
  });
  const ids = result.messageId.split(",");
  t.equal(new Set(ids).size, 3);
  const found = await Promise.all(ids.map((id) => store.lookup(id)));
  t.same(
    found.map((one) => one?.uniqKey),
    ["Ua", "Ub", "Uc"],
  );
});

eachBinding(
  t,
  "F37, F38 size limits count bodies, and a batch is refused as a whole",
  async (t, binding) => {
    const { store } = await openStore(t, storePath(t), { maxMessageSize: 1024 }, { binding });
    await store.put(message("x".repeat(1024)));
    t.equal(await putStatus(store.put(message("x".repeat(1025)))), "MESSAGE_ILLEGAL");
    const before = store.watermarks.wrote;
    const body = Buffer.alloc(600);
    for (const batch of [
      { messages: [] },
      { messages: [{ body }], properties: { DELAY: "3" } },
      { messages: [{ body }], sysFlag: 4 },
      { messages: [{ body }, { body }] },
      { messages: [{ body: Buffer.alloc(1) }, { body: undefined as never }] },
    ]) {
      t.equal(await putStatus(store.putBatch({ topic: "T", ...batch })), "MESSAGE_ILLEGAL");
    }
    t.equal(store.watermarks.wrote, before);
    t.equal((await store.put(message("next"))).queueOffset, 1);
  },
);

eachBinding(
  t,
  "F44 short writes are gone on with, and a write of nothing ends",
  async (t, binding) => {
    for (const [mode, options] of Object.entries(MODES)) {
      const dir = storePath(t, mode);
      const { store, fileSystem } = await openStore(t, dir, options, { binding });
      fileSystem.shorten(["pwritev", "pwritevNow"], [1, 7, "half", 3]);
      fileSystem.failNext(["pwritev", "pwritevNow"], "EAGAIN", { skip: 4 });
      await putMany(store, 5, { size: 300 });
      await store.flush();
      await store.checkpoint();
      t.equal((await bodies(store)).length, 5);
      await checkStore(t, store, dir);
    }
    const { store, fileSystem } = await openStore(t, storePath(t, "zero"), {}, { binding });
    await store.put(message("a"));
    fileSystem.shorten(["pwritev", "pwritevNow"], [0, 0, 0, 0, 0, 0]);
    t.equal(await putStatus(store.put(message("b"))), "UNKNOWN_ERROR");
  },
);

eachBinding(t, "F46 a file system that turns read-only is noticed at once", async (t, binding) => {
  for (const [mode, options] of Object.entries(MODES)) {
    const dir = storePath(t, mode);
    const { store, fileSystem } = await openStore(t, dir, options, { binding });
    await putMany(store, 2);
    await store.flush();
    fileSystem.failNext(["pwritev", "pwritevNow", "fdatasync"], "EROFS", {
      times: Number.POSITIVE_INFINITY,
    });
    const third = store.put(message("third"));
    if (mode === "pool") {
      await third;
      t.match(await rejection(store.flush()), { code: "STORE_IO" });
    } else {
      t.match(await rejection(third), { status: "UNKNOWN_ERROR", outcome: "unknown" });
    }
    t.match(await rejection(store.put(message("fourth"))), {
      status: "SERVICE_NOT_AVAILABLE",
      cause: store.failure,
    });
    t.equal(store.state, "failed");
    t.equal((await bodies(store)).length, 2);
    await store.close();
    t.ok(existsSync(join(dir, "abort")));
  }
});

eachBinding(
  t,
  "F48 pool: the last bytes of a full file are committed without waiting",
  async (t, binding) => {
    const clock = new FakeClock();
    const { store } = await openStore(
      t,
      storePath(t),
      { ...MODES.pool, commitCommitLogLeastPages: 1000 },
      { binding, clock },
    );
    await putMany(store, 70, { size: 1000 });
    for (let i = 0; i < 50 && store.watermarks.committed < 65536; i++)
      await new Promise((r) => setTimeout(r, 5));
    t.ok(store.watermarks.committed >= 65536, "the clock stood still");
  },
);

eachBinding(
  t,
  "F49 pool: what is not committed is neither readable nor an error",
  async (t, binding) => {
    const clock = new FakeClock();
    const { store, warnings } = await openStore(
      t,
      storePath(t),
      { ...MODES.pool },
      { binding, clock },
    );
    const results = await Promise.all(["a", "b", "c"].map((text) => store.put(message(text))));
    t.equal(store.maxOffset("T"), 0);
    t.same((await store.get({ topic: "T", offset: 0 })).messages, []);
    t.equal(await store.lookup(results[0]!.physicalOffset), undefined);
    t.equal(await store.lookup(results[0]!.messageId), undefined);
    t.same(warnings, []);
    await store.flush();
    t.same(await bodies(store), ["a", "b", "c"]);
  },
);

eachBinding(t, "F50 an error inside a put is that put's alone", async (t, binding) => {
  const { store } = await openStore(t, storePath(t), {}, { binding });
  const properties = {
    get a(): string {
      throw new Error("getter");
    },
  };
  t.match(await rejection(store.put(message("x", { properties }))), { message: "getter" });
  t.match(await rejection(store.put({ topic: "T", body: "text" as never })), { name: "TypeError" });
  t.match(await rejection(store.put(message("x", { queueId: -1 }))), { name: "RangeError" });
  t.equal((await store.put(message("next"))).queueOffset, 0);
});

eachBinding(t, "F51 pool of one file: nobody is refused for good", async (t, binding) => {
  for (const flushDiskType of ["ASYNC_FLUSH", "SYNC_FLUSH"] as const) {
    const dir = storePath(t, flushDiskType);
    const { store } = await openStore(
      t,
      dir,
      { transientStorePoolEnable: true, transientStorePoolSize: 1, flushDiskType },
      { binding },
    );
    const puts = Array.from({ length: 400 }, (_, i) =>
      store.put(message(`${i}`.padEnd(1000, "."))),
    );
    t.equal((await Promise.all(puts)).length, 400);
    await store.flush();
    t.ok(store.watermarks.wrote > 6 * 65536);
    t.same(
      await bodies(store),
      Array.from({ length: 400 }, (_, i) => `${i}`),
    );
    t.equal(store.stats().pendingBytes, 0);
  }
});

eachBinding(
  t,
  "F52 slow syncs of many queues hold up neither a read nor a put",
  async (t, binding) => {
    const dir = storePath(t);
    const { store, fileSystem } = await openStore(
      t,
      dir,
      { ...SYNC, mappedFileSizeCommitLog: 2 ** 20 },
      { binding },
    );
    await Promise.all(
      Array.from({ length: 500 }, (_, queueId) => store.put(message("m", { queueId }))),
    );
    await store.checkpoint();
    await Promise.all(
      Array.from({ length: 500 }, (_, queueId) => store.put(message("m", { queueId }))),
    );
    const held = fileSystem.hold("fdatasync", { path: /consumequeue/ });
    const checkpoint = store.checkpoint();
    await held.waiting;
    t.ok(held.held < 4, `${held.held} syncs in flight`);
    t.equal((await store.get({ topic: "T", queueId: 7, offset: 0 })).messages.length, 2);
    t.equal((await store.put(message("more"))).queueOffset, 2);
    held.release();
    await checkpoint;
  },
);

eachBinding(t, "F54 delayed writes never reach another file", async (t, binding) => {
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir, SYNC, { binding });
  const puts: Promise<unknown>[] = [];
  for (let round = 0; round < 5; round++) {
    const held = fileSystem.hold(["pwritev", "fdatasync"]);
    for (let i = 0; i < 40; i++)
      puts.push(store.put(message(`${round}-${i}`.padEnd(1000, "."), { queueId: i % 4 })));
    const other = await openStore(t, storePath(t, `other${round}`), {}, { binding });
    await other.store.put(message("foreign"));
    await other.store.close();
    held.release();
    await Promise.all(puts);
  }
  await store.checkpoint();
  await checkStore(t, store, dir);
  t.equal((await bodies(store, "T", 0)).length, 50);
});

eachBinding(
  t,
  "F65 offsets of a queue rise with the log, and answers agree with the records",
  async (t, binding) => {
    for (const [mode, options] of Object.entries(MODES)) {
      const dir = storePath(t, mode);
      const { store } = await openStore(t, dir, options, { binding });
      const results = await Promise.all(
        Array.from({ length: 2000 }, (_, i) =>
          store.put(message("z".repeat((i * 7919) % 700), { queueId: i % 10 })),
        ),
      );
      await store.flush();
      const next = new Map<number, number>();
      let end = 0;
      const wrong: unknown[] = [];
      for (const result of [...results].sort((a, b) => a.physicalOffset - b.physicalOffset)) {
        const { physicalOffset, queueOffset, queueId, size } = result;
        if (physicalOffset < end || queueOffset !== (next.get(queueId) ?? 0)) wrong.push(result);
        end = physicalOffset + size;
        next.set(queueId, queueOffset + 1);
        const found = await store.lookup(physicalOffset);
        if (
          found?.physicalOffset !== physicalOffset ||
          found.queueOffset !== queueOffset ||
          found.queueId !== queueId ||
          found.size !== size
        ) {
          wrong.push(found);
        }
      }
      t.same(wrong, []);
    }
  },
);

eachBinding(
  t,
  "F67 a body that is kept does not keep what was read around it",
  async (t, binding) => {
    const { store } = await openStore(
      t,
      storePath(t),
      { mappedFileSizeCommitLog: 2 ** 22 },
      { binding },
    );
    await Promise.all(
      Array.from({ length: 10_000 }, (_, i) => store.put(message(`${i}`.padEnd(100, ".")))),
    );
    const before = process.memoryUsage().arrayBuffers;
    const kept: Buffer[] = [];
    for (let offset = 0; offset < 10_000; offset++) {
      kept.push((await store.get({ topic: "T", offset, maxMessages: 1 })).messages[0]!.body);
    }
    const distinct = new Set(kept.map(({ buffer }) => buffer));
    const held = [...distinct].reduce((sum, { byteLength }) => sum + byteLength, 0);
    t.ok(held < 8 * 2 ** 20, `${held} bytes are held by 1 MB of bodies`);
    t.ok(before >= 0);
  },
);

eachBinding(t, "F68 open() and close() leave no descriptor behind", async (t, binding) => {
  const dir = storePath(t);
  const count = () => readdirSync("/proc/self/fd").length;
  const round = async () => {
    const { store } = await openStore(t, dir, { flushDiskType: "ASYNC_FLUSH" }, { binding });
    await store.put(message("m"));
    await store.close();
  };
  await round();
  const before = count();
  for (let i = 0; i < 40; i++) await round();
  t.ok(count() <= before, `${count()} descriptors, ${before} before`);
});

eachBinding(
  t,
  "F71 a directory that is open can't be opened again, by any name",
  async (t, binding) => {
    if (binding.options.unsafeOpenWithoutLock) {
      t.comment("no lock of any kind here");
      return;
    }
    const dir = storePath(t);
    const parent = dirname(dir);
    const { store } = await openStore(t, dir, {}, { binding });
    await store.put(message("a"));
    symlinkSync(dir, join(parent, "link"));
    const before = readdirSync(dir).sort();
    for (const path of [dir, join(parent, "link")]) {
      const error = await rejection(openStore(t, path, {}, { binding }));
      t.match(error, { code: "STORE_LOCKED" });
      t.match((error as StoreError).message, String(process.pid), "it names the holder");
    }
    t.same(readdirSync(dir).sort(), before);
    t.equal((await store.put(message("b"))).queueOffset, 1);
    await store.close();
    await openStore(t, join(parent, "link"), {}, { binding });
  },
);

eachBinding(t, "F72 damaged is not the same as not there", async (t, binding) => {
  const dir = storePath(t);
  const first = await openStore(t, dir, {}, { binding });
  await putMany(first.store, 150, { size: 1000 });
  const at = (await places(first.store))[10]!.offset;
  await first.store.close();
  overwrite(logFile(dir), at + 200, Buffer.from([255]));
  const { store } = await openStore(t, dir, {}, { binding });
  const place = { code: "STORE_RECORD_DAMAGED", path: logFile(dir), position: at };
  t.match(await rejection(store.lookup(at)), place);
  t.match(await rejection(store.get({ topic: "T", offset: 10 })), place);
  t.equal(await store.lookup(store.watermarks.wrote + 1000), undefined);
  t.equal((await store.get({ topic: "T", offset: 11 })).status, "FOUND");
  t.equal(store.maxOffset("T"), 150, "recovery cut nothing");
});
