import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { ConsumeQueue } from "../../lib/consume_queue/consume_queue.ts";
import { encodeUnit, UNIT_BYTES } from "../../lib/consume_queue/queue_unit.ts";
import { StoreError } from "../../lib/errors.ts";
import type { GetResult } from "../../lib/read/message_reader.ts";
import { type Segment, segmentName } from "../../lib/segment/segment.ts";
import { lose } from "../support/queue_rig.ts";
import { ReadRig } from "../support/read_rig.ts";

/** What a result says, in short. */
function told({ status, nextBeginOffset, messages }: GetResult) {
  return [status, nextBeginOffset, messages.map(({ queueOffset }) => queueOffset)];
}

function offsetsOf({ messages }: GetResult): number[] {
  return messages.map(({ queueOffset }) => queueOffset);
}

/** Writes into a file of the log, past the store. */
function overwrite(rig: ReadRig, offset: number, bytes: Uint8Array): void {
  const start = rig.log.segments.startOf(offset);
  const content = rig.file(start);
  content.set(bytes, offset - start);
  writeFileSync(join(rig.directory, segmentName(start)), content);
}

t.test("MessageReader.get() answers by the place of the offset", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(10);
  for (const [offset, status, next, count] of [
    [-1, "OFFSET_TOO_SMALL", 0, 0],
    [Number.MIN_SAFE_INTEGER, "OFFSET_TOO_SMALL", 0, 0],
    [0, "FOUND", 10, 10],
    [9, "FOUND", 10, 1],
    [10, "OFFSET_OVERFLOW_ONE", 10, 0],
    [11, "OFFSET_OVERFLOW_BADLY", 10, 0],
    [1000, "OFFSET_OVERFLOW_BADLY", 10, 0],
  ] as const) {
    const result = await rig.get({ offset });
    t.match(result, { status, nextBeginOffset: next, minOffset: 0, maxOffset: 10 }, `at ${offset}`);
    t.equal(result.messages.length, count);
    t.equal(
      result.bytes,
      result.messages.reduce((sum, { size }) => sum + size, 0),
    );
  }
});

t.test("MessageReader.get() of a queue that never was makes none", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(3);
  for (const [topic, queueId] of [
    ["none", 0],
    ["T", 1],
  ] as const) {
    t.match(await rig.get({ topic, queueId, offset: 7 }), {
      status: "NO_MATCHED_LOGIC_QUEUE",
      nextBeginOffset: 0,
      minOffset: 0,
      maxOffset: 0,
      messages: [],
    });
    t.equal(rig.queues.find(topic, queueId), undefined);
  }
});

t.test("MessageReader.get() of an empty queue begins at 0", async (t) => {
  const rig = new ReadRig(t);
  t.equal(rig.queueT.max, 0);
  for (const offset of [-5, 0, 5]) {
    t.strictSame(told(await rig.get({ offset })), ["NO_MESSAGE_IN_QUEUE", 0, []]);
  }
});

t.test("MessageReader.get() below the least message leads to it", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(10);
  const { messages } = await rig.get({ offset: 4 });
  await rig.queueT.correctMin(messages[0]?.physicalOffset ?? 0);
  for (const offset of [-1, 0, 3]) {
    t.match(await rig.get({ offset }), {
      status: "OFFSET_TOO_SMALL",
      nextBeginOffset: 4,
      minOffset: 4,
      maxOffset: 10,
    });
  }
  t.strictSame(told(await rig.get({ offset: 4 })), ["FOUND", 10, [4, 5, 6, 7, 8, 9]]);
  await rig.queueT.correctMin(1e9);
  t.strictSame(told(await rig.get({ offset: 9 })), ["OFFSET_TOO_SMALL", 10, []]);
  t.strictSame(told(await rig.get({ offset: 10 })), ["OFFSET_OVERFLOW_ONE", 10, []]);
});

t.test("MessageReader.get() returns what was put, and messages own their bytes", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(3, { tags: "TagA", keys: ["k"], queueId: 0 });
  const first = await rig.get({ offset: 0 });
  const before = first.messages.map(({ bytes }) => bytes.toString("hex"));
  await rig.get({ offset: 1 });
  t.strictSame(
    first.messages.map(({ bytes }) => bytes.toString("hex")),
    before,
  );
  t.match(first.messages[2], { topic: "T", queueOffset: 2, tags: "TagA" });
  t.equal(first.messages[2]?.body.toString(), "2");
});

// Limits.

t.test("MessageReader.get() returns at most 32 recent messages, or 8 older ones", async (t) => {
  for (const [memoryBytes, most] of [
    [2 ** 40, 32],
    [0, 8],
  ] as const) {
    const rig = new ReadRig(t, {}, memoryBytes);
    await rig.messages(100);
    for (const [maxMessages, count] of [
      [1, 1],
      [7, 7],
      [100, most],
      [undefined, most],
    ] as const) {
      const limit = maxMessages === undefined ? {} : { maxMessages };
      const result = await rig.get({ offset: 0, ...limit });
      t.equal(result.messages.length, count, `${maxMessages} wanted`);
      t.equal(result.nextBeginOffset, count);
    }
  }
});

t.test("MessageReader.get() returns at most 256 KiB of recent messages, or 64 KiB", async (t) => {
  for (const [memoryBytes, most] of [
    [2 ** 40, 256 * 1024],
    [0, 64 * 1024],
  ] as const) {
    for (const [over, count] of [
      [0, 4],
      [1, 3],
    ] as const) {
      const rig = new ReadRig(t, { mappedFileSizeCommitLog: 4 * 1024 * 1024 }, memoryBytes);
      const body = Buffer.alloc(most / 4 - 92);
      for (let i = 0; i < 3; i++) await rig.message({ body });
      await rig.message({ body: Buffer.alloc(body.length + over) });
      await rig.messages(1);
      const result = await rig.get({ offset: 0 });
      t.equal(result.messages.length, count, `${most + over} bytes with ${memoryBytes} of memory`);
      t.equal(result.nextBeginOffset, count);
      t.equal(result.bytes, (most / 4) * count + (count === 4 ? over : 0));
    }
  }
});

t.test("MessageReader.get() returns a large first message alone", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeCommitLog: 4 * 1024 * 1024 });
  await rig.message({ body: Buffer.alloc(1024 * 1024, 1) });
  await rig.messages(5);
  t.strictSame(told(await rig.get({ offset: 0 })), ["FOUND", 1, [0]]);
  t.strictSame(told(await rig.get({ offset: 0, maxTotalBytes: 1 })), ["FOUND", 1, [0]]);
  t.strictSame(told(await rig.get({ offset: 1 })), ["FOUND", 6, [1, 2, 3, 4, 5]]);
});

t.test("MessageReader.get() heeds maxTotalBytes, 100 at least", async (t) => {
  const rig = new ReadRig(t);
  // Each record has 93 bytes.
  await rig.messages(10);
  for (const [maxTotalBytes, count] of [
    [0, 1],
    [100, 1],
    [185, 1],
    [186, 2],
    [278, 2],
    [279, 3],
    [2 ** 40, 10],
  ] as const) {
    const result = await rig.get({ offset: 0, maxTotalBytes });
    t.equal(result.messages.length, count, `${maxTotalBytes} bytes`);
  }
});

t.test("MessageReader.get() counts the distance from the end message by message", async (t) => {
  // The last ten records of 93 bytes lie within 40 % of the memory.
  const rig = new ReadRig(t, {}, (10 * 93 * 100) / 40);
  await rig.messages(60);
  t.strictSame(told(await rig.get({ offset: 0 })).slice(0, 2), ["FOUND", 8]);
  t.strictSame(told(await rig.get({ offset: 50 })).slice(0, 2), ["FOUND", 60], "ten recent ones");
  t.strictSame(
    told(await rig.get({ offset: 44 })).slice(0, 2),
    ["FOUND", 60],
    "6 older, 10 recent",
  );
  t.strictSame(told(await rig.get({ offset: 40 })).slice(0, 2), ["FOUND", 48], "8 older ones");
  t.equal((await rig.get({ offset: 0 })).suggestPullingFromSlave, true);
  t.equal((await rig.get({ offset: 50 })).suggestPullingFromSlave, false);
});

t.test("MessageReader.get() does not cross a queue file", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeConsumeQueue: 200 });
  await rig.messages(25);
  for (const commit of [false, true]) {
    if (commit) await rig.queueT.commit();
    t.strictSame(told(await rig.get({ offset: 7 })), ["FOUND", 10, [7, 8, 9]]);
    t.strictSame(told(await rig.get({ offset: 20 })), ["FOUND", 25, [20, 21, 22, 23, 24]]);
  }
});

t.test("MessageReader.get() reads on while units are being written", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(5);
  await rig.queueT.commit();
  await rig.messages(5);
  t.strictSame(told(await rig.get({ offset: 0 })).slice(0, 2), ["FOUND", 10]);
});

// Filters.

t.test("MessageReader.get() with rare matches moves on by 800 units", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeCommitLog: 1024 * 1024 });
  await rig.messages(1000, { tags: "TagA" });
  await rig.messages(1, { tags: "TagB" });
  const request = { filter: "TagB", maxMessages: 32 };
  t.strictSame(told(await rig.get({ offset: 0, ...request })), ["NO_MATCHED_MESSAGE", 800, []]);
  t.strictSame(told(await rig.get({ offset: 800, ...request })), ["FOUND", 1001, [1000]]);
  t.strictSame(told(await rig.get({ offset: 201, ...request })), ["FOUND", 1001, [1000]]);
  t.strictSame(told(await rig.get({ offset: 200, ...request })), ["NO_MATCHED_MESSAGE", 1000, []]);
  t.strictSame(
    told(await rig.get({ offset: 0, filter: "TagB", maxMessages: 900 })),
    ["NO_MATCHED_MESSAGE", 900, []],
    "20 bytes of queue for each message wanted",
  );
});

t.test("MessageReader.get() with a filter ends at the end of a queue file", async (t) => {
  for (const [travelCqFileNumWhenGetMessage, next] of [
    [1, 100],
    [2, 200],
    [20, 250],
  ] as const) {
    const rig = new ReadRig(t, {
      mappedFileSizeConsumeQueue: 2000,
      travelCqFileNumWhenGetMessage,
    });
    await rig.messages(250, { tags: "TagA" });
    const result = await rig.get({ offset: 0, filter: "TagB" });
    t.strictSame(told(result), ["NO_MATCHED_MESSAGE", next, []]);
  }
});

t.test("MessageReader.get() stops travelling at the first file with a hit", async (t) => {
  const rig = new ReadRig(t, {
    mappedFileSizeConsumeQueue: 200,
    travelCqFileNumWhenGetMessage: 5,
  });
  await rig.messages(15, { tags: "TagA" });
  await rig.messages(1, { tags: "TagB" });
  await rig.messages(14, { tags: "TagA" });
  await rig.messages(1, { tags: "TagB" });
  t.strictSame(told(await rig.get({ offset: 0, filter: "TagB" })), ["FOUND", 20, [15]]);
});

t.test("MessageReader.get() tells two tags of one hash apart", async (t) => {
  const rig = new ReadRig(t);
  for (const tags of ["Aa", "BB", "BB"]) await rig.messages(1, { tags });
  t.strictSame(told(await rig.get({ offset: 0, filter: "Aa" })), ["FOUND", 3, [0]]);
  t.strictSame(told(await rig.get({ offset: 1, filter: "Aa" })), ["NO_MATCHED_MESSAGE", 3, []]);
  t.strictSame(told(await rig.get({ offset: 0, filter: "BB" })), ["FOUND", 3, [1, 2]]);
});

t.test("MessageReader.get() takes RocketMQ's subscription expressions", async (t) => {
  const rig = new ReadRig(t);
  for (const tags of ["A", "B", undefined, "C"]) {
    await rig.messages(1, tags === undefined ? {} : { tags });
  }
  for (const [filter, found] of [
    ["A", [0]],
    ["A || C", [0, 3]],
    ["  A||  ||B ", [0, 1]],
    ["*", [0, 1, 2, 3]],
    ["", [0, 1, 2, 3]],
    [" || ", [0, 1, 2, 3]],
    ["a", []],
    ["A || *", [0]],
  ] as const) {
    t.strictSame(offsetsOf(await rig.get({ offset: 0, filter })), found, `"${filter}"`);
  }
});

t.test("MessageReader.get() with a filter has the limits of the hits alone", async (t) => {
  const rig = new ReadRig(t);
  for (let i = 0; i < 100; i++) await rig.message({ tags: i % 2 === 0 ? "A" : "B" });
  await rig.dispatched();
  const result = await rig.get({ offset: 0, filter: "A", maxMessages: 10 });
  t.equal(result.messages.length, 10);
  t.equal(result.nextBeginOffset, 19, "a full batch looks no further, at no unit");
});

// What is gone, and what is damaged.

/** Ten messages, three in each file of the log, some files of which then go. */
async function withHole(t: Test, gone: readonly number[]): Promise<ReadRig> {
  const rig = new ReadRig(t, { mappedFileSizeCommitLog: 1024 });
  for (let i = 0; i < 10; i++) await rig.message({ body: Buffer.alloc(200) });
  await rig.dispatched();
  const dropped = rig.log.segments.dropFrom(0);
  for (const segment of dropped) if (!gone.includes(segment.start)) rig.log.segments.add(segment);
  return rig;
}

t.test("MessageReader.get() over a missing file says so, and moves past it", async (t) => {
  const rig = await withHole(t, [1024]);
  t.strictSame(told(await rig.get({ offset: 0 })), ["FOUND", 10, [0, 1, 2, 6, 7, 8, 9]]);
  t.strictSame(
    told(await rig.get({ offset: 3, maxMessages: 1 })),
    ["FOUND", 7, [6]],
    "the skipped ones are no messages",
  );
  const all = await withHole(t, [1024, 2048, 3072]);
  t.strictSame(told(await all.get({ offset: 3 })), ["MESSAGE_WAS_REMOVING", 10, []]);
  t.strictSame(told(await all.get({ offset: 2 })), ["FOUND", 10, [2]]);
});

t.test("MessageReader.get() does not read a missing file", async (t) => {
  const rig = await withHole(t, [0, 1024, 2048]);
  const { segments } = rig.log;
  const readEach = segments.readEach.bind(segments);
  let reads = 0;
  segments.readEach = (...args) => {
    reads++;
    return readEach(...args);
  };
  t.strictSame(told(await rig.get({ offset: 0 })), ["FOUND", 10, [9]]);
  t.equal(reads, 1, "none of a missing one");
});

/** Bytes of each read of records, from now on. */
function bytesReadIn({ log: { segments } }: ReadRig): readonly number[] {
  const readEach = segments.readEach.bind(segments);
  const read: number[] = [];
  segments.readEach = (start, ranges, buffer) => {
    read.push(buffer.length);
    return readEach(start, ranges, buffer);
  };
  return read;
}

t.test("MessageReader.get() reads no more records than may be returned", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(20);
  const read = bytesReadIn(rig);
  const { messages, bytes } = await rig.get({ offset: 3, maxMessages: 5 });
  t.equal(messages.length, 5);
  t.strictSame(read, [bytes]);
  t.equal(messages[0]?.bytes.buffer, messages[4]?.bytes.buffer);
});

t.test("MessageReader.get() far behind the end reads what may be transferred", async (t) => {
  // Nothing counts as recent: 8 messages at once.
  const rig = new ReadRig(t, {}, 0);
  await rig.messages(20);
  const read = bytesReadIn(rig);
  const { messages, bytes } = await rig.get({ offset: 3 });
  t.equal(messages.length, 8);
  t.strictSame(read, [bytes]);
});

t.test("MessageReader.get() keeps the later of two reasons to return nothing", async (t) => {
  for (const [tags, size, gone, status] of [
    [["A", "B"], 600, 0, "NO_MATCHED_MESSAGE"],
    [["B", "A"], 600, 1024, "MESSAGE_WAS_REMOVING"],
    // In a file that is gone nobody looks for a match any more.
    [["A", "B"], 100, 0, "MESSAGE_WAS_REMOVING"],
  ] as const) {
    const rig = new ReadRig(t, { mappedFileSizeCommitLog: 1024 });
    for (const tag of tags) await rig.messages(1, { tags: tag, body: Buffer.alloc(size) });
    for (const segment of rig.log.segments.dropFrom(0)) {
      if (segment.start !== gone) rig.log.segments.add(segment);
    }
    const result = await rig.get({ offset: 0, filter: "A" });
    t.strictSame(told(result), [status, 2, []]);
  }
});

t.test("MessageReader.get() passes over fillers", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(2);
  const queue = rig.queueT;
  lose(queue, 5);
  await rig.messages(2);
  t.strictSame(told(await rig.get({ offset: 2 })), ["FOUND", 7, [5, 6]]);
  const first = await rig.get({ offset: 0 });
  t.equal(first.status, "FOUND");
  const rest = await rig.get({ offset: first.nextBeginOffset });
  t.strictSame([...offsetsOf(first), ...offsetsOf(rest)], [0, 1, 5, 6]);
  lose(queue, 9);
  t.strictSame(told(await rig.get({ offset: 7 })), ["MESSAGE_WAS_REMOVING", 9, []]);
});

t.test("MessageReader.get() leads past a missing queue file", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeConsumeQueue: 200 });
  await rig.messages(25);
  const queue = rig.queueT;
  await queue.commit();
  const gone = join(queue.directory, segmentName(200));
  await rig.files.close(gone);
  rmSync(gone);
  (queue.segments as Segment[]).splice(1, 1);
  for (const offset of [10, 13, 19]) {
    t.strictSame(told(await rig.get({ offset })), ["OFFSET_FOUND_NULL", 20, []], `at ${offset}`);
  }
  t.strictSame(told(await rig.get({ offset: 5 })), ["FOUND", 10, [5, 6, 7, 8, 9]]);
  t.strictSame(told(await rig.get({ offset: 20 })), ["FOUND", 25, [20, 21, 22, 23, 24]]);
});

t.test("MessageReader.get() returns what precedes a damaged record, then names it", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(5);
  const { messages } = await rig.get({ offset: 2 });
  const at = messages[0]?.physicalOffset ?? -1;
  overwrite(rig, at + 88, Buffer.from("X"));
  t.strictSame(told(await rig.get({ offset: 0 })), ["FOUND", 2, [0, 1]]);
  await t.rejects(rig.get({ offset: 2 }), {
    code: "STORE_RECORD_DAMAGED",
    offset: at,
    position: at,
    path: join(rig.directory, segmentName(0)),
    message: new RegExp(`^Cannot read the record at ${at}: damaged at position ${at} of .*BODYCRC`),
  });
  t.strictSame(
    told(await rig.get({ offset: 3 })),
    ["FOUND", 5, [3, 4]],
    "those behind it are good",
  );
  await t.rejects(rig.reader.lookup(at), { code: "STORE_RECORD_DAMAGED", position: at });
});

t.test("MessageReader.get() takes no damaged unit for a message that is gone", async (t) => {
  const cases: Record<string, (bytes: Buffer, offset: number, size: number) => void> = {
    "all zero": (bytes) => bytes.fill(0),
    "a negative offset": (bytes) => bytes.writeInt32BE(-1, 0),
    "an offset beyond 2^53": (bytes) => bytes.writeInt32BE(0x7fffffff, 0),
    "an offset behind the end": (bytes) => bytes.writeInt32BE(1, 0),
    "a size of 0": (bytes) => bytes.writeInt32BE(0, 8),
    "a negative size": (bytes) => bytes.writeInt32BE(-5, 8),
    "a size beyond the end": (bytes) => bytes.writeInt32BE(2 ** 30, 8),
    "another message's place": (bytes, offset, size) =>
      encodeUnit(bytes, 0, offset + size, size, 0),
    "a place in the middle of a record": (bytes, offset, size) =>
      encodeUnit(bytes, 0, offset + 1, size, 0),
    "too small a size": (bytes, offset, size) => encodeUnit(bytes, 0, offset, size - 1, 0),
    "too large a size": (bytes, offset, size) => encodeUnit(bytes, 0, offset, size + 1, 0),
  };
  for (const [what, damage] of Object.entries(cases)) {
    const rig = new ReadRig(t, { mappedFileSizeConsumeQueue: 200 });
    await rig.messages(6);
    await rig.queueT.commit();
    const { messages } = await rig.get({ offset: 2 });
    const file = join(rig.queueT.directory, segmentName(0));
    const units = Buffer.alloc(200);
    for (let i = 0; i < 6; i++) {
      const { physicalOffset, size } = (await rig.get({ offset: i })).messages[0] ?? {};
      encodeUnit(units, i * UNIT_BYTES, physicalOffset ?? 0, size ?? 0, 0);
    }
    const unit = units.subarray(2 * UNIT_BYTES, 3 * UNIT_BYTES);
    damage(unit, messages[0]?.physicalOffset ?? 0, messages[0]?.size ?? 0);
    writeFileSync(file, units);
    t.strictSame(told(await rig.get({ offset: 0 })), ["FOUND", 2, [0, 1]], what);
    await t.rejects(rig.get({ offset: 2 }), { code: /^STORE_(QUEUE|RECORD)_DAMAGED$/ }, what);
    t.strictSame(told(await rig.get({ offset: 3 })), ["FOUND", 6, [3, 4, 5]], what);
  }
});

t.test("MessageReader.get() returns no message of another queue", async (t) => {
  for (const other of [{ topic: "U" }, { queueId: 1 }]) {
    const rig = new ReadRig(t);
    await rig.messages(1);
    await rig.messages(1, other);
    const { physicalOffset, size } = rig.requests[1] ?? {};
    // Message 1 of queue T/0 leads to message 0 of the other.
    rig.queueT.append(1, physicalOffset ?? 0, size ?? 0, 0);
    await t.rejects(rig.get({ offset: 1 }), {
      code: "STORE_QUEUE_DAMAGED",
      offset: physicalOffset,
      path: rig.queueT.directory,
    });
  }
});

t.test("MessageReader.get() finds a message in its light queues", async (t) => {
  const rig = new ReadRig(t);
  const properties = {
    INNER_MULTI_DISPATCH: "%LMQ%a,%LMQ%b",
    INNER_MULTI_QUEUE_OFFSET: "0,0",
  };
  await rig.messages(1, { properties });
  for (const topic of ["T", "%LMQ%a", "%LMQ%b"]) {
    const result = await rig.get({ topic, offset: 0 });
    t.strictSame(told(result), ["FOUND", 1, [0]], topic);
    t.equal(result.messages[0]?.topic, "T");
  }
});

t.test("MessageReader.get() passes on a failed read, after what precedes it", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(10);
  await rig.queueT.commit();
  const at = (await rig.get({ offset: 4 })).messages[0]?.physicalOffset ?? 0;
  // No read that touches the fifth record succeeds.
  const { segments } = rig.log;
  const readEach = segments.readEach.bind(segments);
  segments.readEach = (start, ranges, bytes) => {
    for (let i = 0; i < ranges.length; i += 2) {
      const offset = start + ranges[i]!;
      if (offset > at || offset + ranges[i + 1]! <= at) continue;
      return Promise.reject(new StoreError("STORE_IO", "Cannot read"));
    }
    return readEach(start, ranges, bytes);
  };
  t.strictSame(told(await rig.get({ offset: 0 })), ["FOUND", 4, [0, 1, 2, 3]]);
  await t.rejects(rig.get({ offset: 4 }), { code: "STORE_IO" });
  t.strictSame(told(await rig.get({ offset: 5 })), ["FOUND", 10, [5, 6, 7, 8, 9]]);
});

// Lookup.

t.test("MessageReader.lookup() finds a message by its place, whatever its size", async (t) => {
  const rig = new ReadRig(t);
  for (const size of [0, 1, 3000, 4003, 4004, 4005, 5000, 30_000]) {
    await rig.message({ body: Buffer.alloc(size, 7), tags: "a".repeat(100) });
  }
  await rig.dispatched();
  for (const { physicalOffset, size, queueOffset } of rig.requests) {
    const found = await rig.reader.lookup(physicalOffset);
    t.match(found, { physicalOffset, size, queueOffset }, `${size} bytes at ${physicalOffset}`);
  }
});

t.test("MessageReader.lookup() tells nothing there from damage", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeCommitLog: 1024 });
  for (let i = 0; i < 4; i++) await rig.message({ body: Buffer.alloc(200) });
  const end = rig.log.pipeline.wrote;
  t.equal(await rig.reader.lookup(0), undefined, "not readable yet");
  await rig.dispatched();
  t.equal((await rig.reader.lookup(0))?.queueOffset, 0);
  t.equal(await rig.reader.lookup(end), undefined, "nothing yet");
  t.equal(await rig.reader.lookup(10_000_000), undefined);
  t.equal(await rig.reader.lookup(3 * 292), undefined, "the blank is no message");
  await t.rejects(rig.reader.lookup(1), { code: "STORE_RECORD_DAMAGED", offset: 1 });
  await t.rejects(rig.reader.lookup(end - 5), { code: "STORE_RECORD_DAMAGED" });
  rig.log.segments.dropFrom(1024);
  t.equal(await rig.reader.lookup(1024), undefined, "its file is gone");
});

t.test("MessageReader goes on reading after all writing has ended", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(3);
  rig.log.pipeline.fail(new StoreError("STORE_IO", "Cannot sync"));
  t.strictSame(told(await rig.get({ offset: 0 })), ["FOUND", 3, [0, 1, 2]]);
  t.equal((await rig.reader.lookup(0))?.queueOffset, 0);
});

t.test("MessageReader.get() says in which file, and where, a damaged unit lies", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(4);
  const queue = rig.queueT;
  await queue.commit();
  const file = join(queue.directory, segmentName(0));
  const units = readFileSync(file);
  units.fill(0xff, 2 * UNIT_BYTES, 3 * UNIT_BYTES);
  writeFileSync(file, units);
  await t.rejects(rig.get({ offset: 2 }), {
    code: "STORE_QUEUE_DAMAGED",
    path: file,
    position: 2 * UNIT_BYTES,
  });
});

t.test("MessageReader.get() leads past many missing queue files at once", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeConsumeQueue: 200 });
  await rig.messages(45);
  const queue = rig.queueT;
  await queue.commit();
  for (const start of [200, 400, 600]) {
    const gone = join(queue.directory, segmentName(start));
    await rig.files.close(gone);
    rmSync(gone);
  }
  (queue.segments as Segment[]).splice(1, 3);
  t.strictSame(told(await rig.get({ offset: 13 })), ["OFFSET_FOUND_NULL", 40, []]);
});

t.test("MessageReader.lookup() reads a record of any size in a few steps", async (t) => {
  const rig = new ReadRig(t);
  for (const length of [0, 3900, 4100, 20_000]) {
    await rig.message({ body: Buffer.alloc(length, "x"), bornHost: "[::1]:1" });
    await rig.dispatched();
    const offset = rig.requests.at(-1)?.physicalOffset ?? -1;
    t.equal((await rig.reader.lookup(offset))?.body.length, length);
  }
});

t.test("MessageReader.get() reads what was put last from memory", async (t) => {
  const rig = new ReadRig(t, {}, 2 ** 40, true);
  let reads = 0;
  const { segments } = rig.log;
  segments.readEach = async () => {
    reads++;
    return false;
  };
  await rig.messages(40);
  const { messages } = await rig.get({ offset: 0 });
  t.strictSame(
    messages.map(({ body }) => body.toString()),
    Array.from({ length: 32 }, (_, i) => `${i}`),
  );
  t.equal(reads, 0);
  const bytes = Buffer.from(messages[0]?.bytes as Buffer);
  await rig.messages(100, { body: Buffer.alloc(1000) });
  t.same(messages[0]?.bytes, bytes, "nobody changes what was read");

  // A unit that leads into the middle of a message.
  const queue = rig.queues.findOrCreate("U", 0) as ConsumeQueue;
  queue.append(0, 10, 200, 0, 0);
  await t.rejects(rig.get({ topic: "U", offset: 0 }), { code: "STORE_RECORD_DAMAGED" });
  t.equal(reads, 0);
});
