import { readdirSync } from "node:fs";
import t from "tap";
import type { Appended } from "../../lib/commit_log/commit_log.ts";
import type { OutgoingRecord } from "../../lib/message/outgoing_record.ts";
import { checkRecord, decodeRecord, MAGIC_BLANK } from "../../lib/message/record.ts";
import {
  TRANSACTION_COMMIT_TYPE,
  TRANSACTION_PREPARED_TYPE,
  TRANSACTION_ROLLBACK_TYPE,
} from "../../lib/message/sys_flag.ts";
import { BARE, LogRig, recordOf } from "../support/log_rig.ts";
import { turns, until } from "../support/random.ts";

/** The largest record that fits a file of 1024 bytes. */
const LARGEST = 1024 - 8;

function places(appended: readonly Appended[]): number[] {
  return appended.map(({ physicalOffset }) => physicalOffset);
}

t.test("CommitLog.append() puts records one behind the other", async (t) => {
  const rig = new LogRig(t);
  const first = await rig.put(recordOf(250));
  const second = await rig.put(recordOf(300));
  t.match(first, { physicalOffset: 0, queueOffset: 0, end: 250 });
  t.match(second, { physicalOffset: 250, queueOffset: 1, end: 550 });
  t.equal(rig.log.pipeline.wrote, 550);
  await rig.log.pipeline.flush();
  const file = rig.file(0);
  t.equal(file.length, 1024);
  for (const { physicalOffset, queueOffset, end, storeTimestamp } of [first, second]) {
    t.same(checkRecord(file, physicalOffset, 1024, physicalOffset, { checkCrc: true }), {
      kind: "record",
      size: end - physicalOffset,
    });
    const message = decodeRecord(file.subarray(physicalOffset, end));
    t.match(message, { physicalOffset, queueOffset, storeTimestamp, topic: "T" });
  }
  t.match(rig.requests, [
    { physicalOffset: 0, size: 250, queueOffset: 0 },
    { physicalOffset: 250, size: 300, queueOffset: 1 },
  ]);
});

t.test("CommitLog.append() rolls when a record leaves fewer than 8 bytes", async (t) => {
  for (const [room, size, rolls] of [
    [300, 290, false],
    [300, 291, false],
    [300, 292, false],
    [300, 293, true],
    [300, 294, true],
    [300, 300, true],
    [300, 301, true],
    [100, 92, false],
    [99, 92, true],
    [9, 92, true],
    [8, 92, true],
  ] as const) {
    const rig = new LogRig(t);
    await rig.put(recordOf(1024 - room));
    const { physicalOffset } = await rig.put(recordOf(size));
    const what = `a record of ${size} bytes with ${room} left`;
    t.equal(physicalOffset, rolls ? 1024 : 1024 - room, what);
    await rig.log.pipeline.flush();
    const file = rig.file(0);
    t.equal(file.length, 1024, `${what}: the file keeps its size`);
    if (!rolls) continue;
    const at = 1024 - room;
    t.equal(file.readInt32BE(at), room, `${what}: the blank reaches to the end`);
    t.equal(file.readInt32BE(at + 4), MAGIC_BLANK);
    t.ok(
      file.subarray(at + 8).every((byte) => byte === 0),
      `${what}: and the rest is zero`,
    );
    t.match(rig.requests, [{ physicalOffset: 0 }, { physicalOffset: 1024 }]);
  }
});

t.test("CommitLog.append() with four records of a quarter of the file", async (t) => {
  const rig = new LogRig(t, { mappedFileSizeCommitLog: 1024 });
  const appended = [];
  for (let i = 0; i < 4; i++) appended.push(await rig.put(recordOf(256)));
  t.strictSame(places(appended), [0, 256, 512, 1024]);
  t.equal(rig.log.pipeline.wrote, 1280);
});

t.test("CommitLog.append() moves a batch as a whole", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(600));
  const batch = [recordOf(150), recordOf(150), recordOf(150)];
  const appended = await rig.put(batch);
  t.match(appended, { physicalOffset: 1024, queueOffset: 1, end: 1024 + 450 });
  t.strictSame(
    rig.requests.map(({ physicalOffset, queueOffset }) => [physicalOffset, queueOffset]),
    [
      [0, 0],
      [1024, 1],
      [1174, 2],
      [1324, 3],
    ],
  );
  t.equal(new Set(rig.requests.slice(1).map(({ storeTimestamp }) => storeTimestamp)).size, 1);
  t.equal(rig.queue.nextOffset, 4);
  await rig.log.pipeline.flush();
  const file = rig.file(0);
  t.equal(file.readInt32BE(600), 424);
  t.equal(file.readInt32BE(604), MAGIC_BLANK);
  t.ok(
    file.subarray(608).every((byte) => byte === 0),
    "no record of the batch was begun here",
  );
});

t.test("CommitLog.append() gives a transaction's records their queue offsets", async (t) => {
  const rig = new LogRig(t);
  rig.queue.nextOffset = 5;
  for (const [sysFlag, queueOffset, next] of [
    [TRANSACTION_PREPARED_TYPE, 0, 5],
    [TRANSACTION_ROLLBACK_TYPE, 0, 5],
    [TRANSACTION_COMMIT_TYPE, 5, 6],
    [0, 6, 7],
  ] as const) {
    const { queueOffset: given, physicalOffset } = await rig.put(recordOf(100, { sysFlag }));
    t.equal(given, queueOffset, `sysFlag ${sysFlag}`);
    t.equal(rig.queue.nextOffset, next);
    await rig.log.pipeline.flush();
    const record = decodeRecord(rig.file(0).subarray(physicalOffset, physicalOffset + 100));
    t.equal(record.queueOffset, queueOffset);
  }
});

t.test("CommitLog.append() never lets the store time go back", async (t) => {
  const rig = new LogRig(t);
  const time = async () => (await rig.put(recordOf(BARE))).storeTimestamp;
  const start = rig.clock.now();
  t.equal(await time(), start);
  rig.clock.setWall(start - 60_000);
  t.equal(await time(), start, "the clock went back");
  rig.clock.setWall(start + 10);
  t.equal(await time(), start + 10);

  const later = new LogRig(t, {}, 0, start + 1000);
  t.equal((await later.put(recordOf(BARE))).storeTimestamp, start + 1000, "also after an open");
});

t.test("CommitLog.append() waits for the file, and keeps the order", async (t) => {
  const rig = new LogRig(t);
  const held = rig.fs.hold("rename");
  const first = rig.log.append([recordOf(100)], 100, rig.queue, rig.clock.now());
  t.equal(first, "file", "there is none yet");
  t.equal(rig.queue.nextOffset, 0, "no queue offset is used up");
  t.equal(rig.requests.length, 0);
  const puts = [rig.put(recordOf(900)), rig.put(recordOf(BARE)), rig.put(recordOf(900))];
  await held.waiting;
  t.equal(rig.log.gate.length, 3);
  held.release();
  t.strictSame(places(await Promise.all(puts)), [0, 900, 1024]);
  t.strictSame(
    rig.requests.map(({ queueOffset }) => queueOffset),
    [0, 1, 2],
  );
});

t.test(
  "CommitLog makes no file at its start, and the next one when one is half full",
  async (t) => {
    const rig = new LogRig(t);
    await turns(10);
    t.strictSame(rig.starts, [], "an open makes no file");
    await rig.put(recordOf(511));
    await turns(30);
    t.strictSame(rig.starts, [0], "less than half full");
    await rig.put(recordOf(BARE));
    await until(() => rig.starts.length === 2);
    t.strictSame(rig.starts, [0, 1024]);
    await turns(30);
    t.strictSame(rig.starts, [0, 1024], "one ahead");
    await rig.put(recordOf(900));
    await until(() => rig.starts.length === 3);
    t.strictSame(rig.starts, [0, 1024, 2048]);
  },
);

t.test("CommitLog keeps two files ahead once a put had to wait for one", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(200));
  // From less than half full to the next file at once: it can't be there yet.
  await rig.put(recordOf(900));
  await until(() => rig.starts.length === 4);
  t.strictSame(rig.starts, [0, 1024, 2048, 3072]);
  await rig.log.close();
  t.strictSame(rig.starts, [0, 1024], "what nobody used is removed");
  t.strictSame(readdirSync(rig.staging), []);
});

t.test("CommitLog.append() that still has room does not wait for a slow file", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(100));
  const held = rig.fs.hold("ftruncate");
  await rig.put(recordOf(500));
  await held.waiting;
  for (let i = 0; i < 3; i++) {
    const appended = rig.log.append([recordOf(100)], 100, rig.queue, rig.clock.now());
    t.match(appended, { physicalOffset: 600 + i * 100 }, "at once");
  }
  await rig.log.pipeline.flush();
  t.equal(rig.log.pipeline.flushed, 900);
  const waiting = rig.put(recordOf(200));
  await turns(10);
  t.equal(rig.log.gate.length, 1);
  held.release();
  t.equal((await waiting).physicalOffset, 1024);
});

t.test("CommitLog refuses with the cause when a file can't be made, and recovers", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(400));
  rig.fs.failNext("ftruncate", "ENOSPC");
  const refused = [rig.put(recordOf(700)), rig.put(recordOf(800))];
  for (const put of refused) {
    await t.rejects(put, {
      status: "CREATE_MAPPED_FILE_FAILED",
      outcome: "not stored",
      cause: { code: "ENOSPC" },
    });
  }
  t.equal(rig.queue.nextOffset, 1, "no queue offset is used up by a refusal");
  t.equal(rig.log.pipeline.wrote, 400);
  t.match(await rig.put(recordOf(BARE)), { physicalOffset: 400, queueOffset: 1 });
  await until(() => rig.starts.length === 2);
  t.match(await rig.put(recordOf(700)), { physicalOffset: 1024, queueOffset: 2 });
  t.equal(rig.log.pipeline.failure, undefined);
});

t.test("CommitLog refuses a put that waits 5 s for a file", async (t) => {
  const rig = new LogRig(t, { syncFlushTimeout: 100 });
  const held = rig.fs.hold("ftruncate");
  const put = rig.put(recordOf(100)).catch((error: unknown) => error);
  await held.waiting;
  await rig.clock.advance(4999);
  t.equal(rig.log.gate.length, 1);
  await rig.clock.advance(1);
  t.match(await put, { status: "CREATE_MAPPED_FILE_FAILED", outcome: "not stored" });
  held.release();
  t.match(await rig.put(recordOf(100)), { physicalOffset: 0, queueOffset: 0 });
});

t.test("CommitLog refuses nobody for a file that fails ahead of need", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(100));
  const held = rig.fs.hold("unlink");
  rig.fs.failNext("ftruncate", "ENOSPC");
  t.equal((await rig.put(recordOf(500))).physicalOffset, 100);
  await held.waiting;
  t.equal((await rig.put(recordOf(100))).physicalOffset, 600, "a put that has room");
  const waiting = rig.put(recordOf(900)).catch((error: unknown) => error);
  held.release();
  t.match(await waiting, { status: "CREATE_MAPPED_FILE_FAILED" }, "the put that needs it");
  t.equal((await rig.put(recordOf(900))).physicalOffset, 1024, "and then it is there");
});

t.test("CommitLog.append() waits for room in the write buffer, in order", async (t) => {
  const rig = new LogRig(t, {
    flushDiskType: "ASYNC_FLUSH",
    transientStorePoolEnable: true,
    transientStorePoolSize: 1,
    mappedFileSizeCommitLog: 4096,
  });
  t.equal(rig.log.budgetBytes, 4096);
  await rig.put(recordOf(100));
  await rig.log.pipeline.flush();
  const held = rig.fs.hold(["pwritev", "ftruncate"]);
  const sizes = [2000, 1900, 1000, BARE];
  const puts = sizes.map((size) => rig.put(recordOf(size)));
  await turns(5);
  t.ok(rig.log.pendingBytes <= 4096);
  t.ok(rig.log.gate.length > 0);
  held.release();
  const appended = await Promise.all(puts);
  t.strictSame(
    appended.map(({ queueOffset }) => queueOffset),
    [1, 2, 3, 4],
    "in the order in which they came",
  );
  t.strictSame(
    [...places(appended)].sort((a, b) => a - b),
    places(appended),
  );
});

t.test("CommitLog.append() waits for the queues before it rolls", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(LARGEST));
  const asked: number[] = [];
  rig.mayRoll = (start) => {
    asked.push(start);
    return false;
  };
  t.equal(rig.log.append([recordOf(BARE)], BARE, rig.queue, rig.clock.now()), "queues");
  t.strictSame(asked, [1024]);
  t.equal(rig.log.pipeline.wrote, LARGEST, "nothing has happened");
  rig.mayRoll = () => true;
  t.equal((await rig.put(recordOf(BARE))).physicalOffset, 1024);
});

t.test("CommitLog fails every waiting put when writing ends", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(100));
  await rig.log.pipeline.flush();
  rig.fs.failNext("fdatasync", "EIO", { path: /commitlog/ });
  const held = rig.fs.hold("ftruncate");
  const waiting = rig.put(recordOf(1000)).catch((error: unknown) => error);
  await held.waiting;
  rig.log.pipeline.appended(rig.log.pipeline.wrote);
  const cause = new Error("gone");
  rig.log.pipeline.fail(Object.assign(cause, { code: "STORE_IO" }) as never);
  t.match(await waiting, { status: "SERVICE_NOT_AVAILABLE", outcome: "not stored", cause });
  held.release();
});

t.test("CommitLog.read() gives whole ranges of one file below the limit", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(500));
  await rig.put(recordOf(600));
  await rig.log.pipeline.flush();
  const limit = rig.log.pipeline.flushed;
  t.equal(limit, 1624);
  for (const [offset, size, found] of [
    [0, 500, true],
    [1024, 600, true],
    [1024, 601, false],
    [1024, 0, true],
    [0, 1024, true],
    [0, 1025, false],
    [1000, 100, false],
    [-1, 10, false],
    [10, -1, false],
    [5000, 10, false],
  ] as const) {
    const bytes = await rig.log.read(offset, size, limit);
    t.equal(bytes?.length, found ? size : undefined, `${size} bytes at ${offset}`);
  }
  rig.log.segments.dropFrom(1024);
  t.equal(await rig.log.read(1024, 10, limit), undefined, "its file is gone");
});

t.test("CommitLog.close() refuses who waits and settles the rest", async (t) => {
  const rig = new LogRig(t);
  await rig.put(recordOf(100));
  const held = rig.fs.hold("ftruncate");
  const waiting = rig.put(recordOf(1000)).catch((error: unknown) => error);
  await held.waiting;
  const close = rig.log.close();
  t.match(await waiting, { status: "SERVICE_NOT_AVAILABLE", outcome: "not stored" });
  held.release();
  await close;
  t.equal(rig.log.pipeline.flushed, 100);
  t.strictSame(rig.starts, [0]);
});

t.test("CommitLog keeps offsets in order over thousands of puts at once", async (t) => {
  const rig = new LogRig(t, { mappedFileSizeCommitLog: 16_384 });
  const puts: Promise<Appended>[] = [];
  const sizes: number[] = [];
  for (let i = 0; i < 2000; i++) {
    const size = BARE + ((i * 7919) % 900);
    sizes.push(size);
    puts.push(rig.put(recordOf(size) as OutgoingRecord));
    if (i % 50 === 0) await turns(1);
  }
  const appended = await Promise.all(puts);
  let end = 0;
  appended.forEach(({ physicalOffset, queueOffset, end: next }, i) => {
    if (queueOffset !== i || physicalOffset < end || next !== physicalOffset + sizes[i]!) {
      t.fail(`put ${i} is out of order`);
    }
    if (Math.floor(physicalOffset / 16_384) !== Math.floor((next + 7) / 16_384)) {
      t.fail(`put ${i} spans two files`);
    }
    end = next;
  });
  await rig.log.pipeline.flush();
  t.equal(rig.log.pipeline.flushed, end);
});

t.test(
  "CommitLog.readEach() reads what is in memory there, and all else from its file",
  async (t) => {
    const rig = new LogRig(t);
    for (let i = 0; i < 6; i++) await rig.put(recordOf(300));
    await rig.log.pipeline.flush();
    const first = rig.file(0);
    const recent = await rig.log.readEach(0, Float64Array.of(300, 300, 0, 300), 600);
    t.ok(recent?.recent);
    t.same(recent?.bytes, Buffer.concat([first.subarray(300, 600), first.subarray(0, 300)]));

    // The end of the file was never appended: it is a hole.
    const mixed = await rig.log.readEach(0, Float64Array.of(0, 300, 1000, 24), 324);
    t.equal(mixed?.recent, false);
    t.same(mixed?.bytes, Buffer.concat([first.subarray(0, 300), first.subarray(1000)]));

    t.equal(await rig.log.readEach(4096, Float64Array.of(0, 10), 10), undefined, "no such file");
  },
);
