// What the verbs rest on: MessageStore.records(), units() and queues().

import { rmSync } from "node:fs";
import t, { type Test } from "tap";
import { type LogEntry, MessageStore, type PutResult } from "../../lib/mod.ts";
import { type GoldenRecord, openGolden } from "../support/golden.ts";
import {
  eachBinding,
  logFile,
  message,
  openStore,
  overwrite,
  storePath,
} from "../support/stores.ts";

async function opened(t: Test, dir: string): Promise<MessageStore> {
  const store = await MessageStore.open(dir, {}, { readOnly: true });
  t.teardown(() => store.close());
  return store;
}

async function entries(
  store: MessageStore,
  range: { readonly from?: number; readonly to?: number } = {},
): Promise<LogEntry[]> {
  const found: LogEntry[] = [];
  for await (const entry of store.records(range)) found.push(entry);
  return found;
}

t.test("records() yields every record and blank in physical order", async (t) => {
  const { dir, expected } = openGolden(t, "roll-boundaries");
  const found = await entries(await opened(t, dir));
  t.strictSame(
    found.map((entry) =>
      entry.kind === "record"
        ? [entry.offset, entry.size, entry.message.messageId, entry.tagsCode]
        : [entry.kind, entry.offset, (entry as { size: number }).size],
    ),
    expected.commitLog.records.map((entry) =>
      "blank" in entry
        ? ["blank", entry.offset, entry.blank]
        : [
            entry.offset,
            entry.size,
            (entry as GoldenRecord).msgId,
            (entry as GoldenRecord).dispatchTagsCode,
          ],
    ),
  );
});

t.test("records() begins at a record or a file, and ends before an offset", async (t) => {
  const { dir, expected } = openGolden(t, "expired-front");
  const store = await opened(t, dir);
  const offsets = expected.commitLog.records.map(({ offset }) => offset);
  const found = async (from?: number, to?: number) =>
    (
      await entries(store, {
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
      })
    ).map(({ offset }) => offset);
  t.strictSame(await found(), offsets);
  t.strictSame(await found(0), offsets, "what is gone is passed over");
  t.strictSame(await found(offsets[3], offsets[6]), offsets.slice(3, 6));
  t.strictSame(await found(expected.commitLog.maxOffset), []);
  t.strictSame(await found(2 ** 50), []);
  t.strictSame(await found(offsets[3], 2 ** 50), offsets.slice(3));
  const [entry] = await entries(store, { from: (offsets[3] as number) + 1 });
  t.match(entry, { kind: "bad", next: offsets[4] }, "the middle of a record is none");
  for (const range of [{ from: -1 }, { from: 0.5 }, { to: -1 }]) {
    t.throws(() => store.records(range), RangeError);
  }
});

eachBinding(t, "damage and missing files are entries; the walk goes on", async (t, binding) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {}, { binding });
  const puts: PutResult[] = [];
  for (let i = 0; i < 12; i++) puts.push(await store.put(message("x".repeat(12_000))));
  await store.close();
  const [first, second, third] = puts as [PutResult, PutResult, PutResult];
  overwrite(logFile(dir), second.physicalOffset + 500, Buffer.from("damage"));
  rmSync(logFile(dir, 65536));
  const { store: reader } = await openStore(t, dir, {}, { binding, readOnly: true });
  const found = await entries(reader);
  t.match(found[0], { kind: "record", offset: first.physicalOffset });
  t.match(found[1], {
    kind: "bad",
    offset: second.physicalOffset,
    declaredSize: second.size,
    next: third.physicalOffset,
    reason: /^BODYCRC/,
    path: logFile(dir),
    position: second.physicalOffset,
  });
  t.match(found[2], { kind: "record", offset: third.physicalOffset });
  const gap = found.findIndex(({ kind }) => kind === "gap");
  t.match(found[gap - 1], { kind: "blank" });
  t.match(found[gap], { kind: "gap", offset: 65536, size: 65536 });
  t.match(found[gap + 1], { kind: "record", offset: 131072 });
});

eachBinding(t, "each record of a log of many batches comes once", async (t, binding) => {
  const options = { mappedFileSizeCommitLog: 8 * 1024 * 1024, maxMessageSize: 1024 * 1024 };
  const { store } = await openStore(t, storePath(t), options, { binding });
  const body = Buffer.alloc(1024 * 1024, 1);
  const puts = await Promise.all(Array.from({ length: 20 }, () => store.put({ topic: "T", body })));
  const found = await entries(store);
  t.strictSame(
    found.filter(({ kind }) => kind === "record").map(({ offset }) => offset),
    puts.map(({ physicalOffset }) => physicalOffset),
  );
  t.equal(found.filter(({ kind }) => kind === "blank").length, 2);
});

t.test("units() reads where the messages of a queue lie", async (t) => {
  const { dir, expected } = openGolden(t, "queue-rolled");
  const store = await opened(t, dir);
  const queue = expected.queues.find(({ max }) => max > 12);
  const { topic, queueId, max, units } = queue as (typeof expected.queues)[number];
  const read = async (from: number, count?: number) =>
    (await store.units({ topic, queueId, from, ...(count ? { count } : {}) })).map(
      ({ physicalOffset, size, tagsCode }) => [physicalOffset, size, String(tagsCode)],
    );
  t.strictSame(await read(0), units.slice(0, 10), "to the end of its file");
  t.strictSame(await read(10), units.slice(10, 20));
  t.strictSame(await read(3, 2), units.slice(3, 5));
  t.strictSame(await read(max), []);
  t.strictSame(await read(2 ** 50), []);
  t.strictSame(await store.units({ topic: "nosuch", from: 0 }), []);
  await t.rejects(store.units({ topic, from: -1 }), RangeError);
  await t.rejects(store.units({ topic, from: 0, count: 0 }), RangeError);
});

t.test("queues() tells the bounds of each", async (t) => {
  const { dir, expected } = openGolden(t, "expired-front");
  t.strictSame(
    (await opened(t, dir)).queues(),
    expected.queues.map(({ topic, queueId, min, max, maxPhysicOffset }) => ({
      topic,
      queueId,
      queueType: "SimpleCQ",
      minOffset: min,
      maxOffset: max,
      maxPhysicalOffset: maxPhysicOffset,
    })),
  );
});

t.test("a closed store answers neither", async (t) => {
  const { dir } = openGolden(t, "v1-basic");
  const store = await MessageStore.open(dir, {}, { readOnly: true });
  await store.close();
  t.throws(() => store.records(), { code: "STORE_CLOSED" });
  await t.rejects(store.units({ topic: "TopicTest", from: 0 }), { code: "STORE_CLOSED" });
});
