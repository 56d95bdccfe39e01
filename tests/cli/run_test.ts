// forcelog run: steps, reads, what it prints, and what it refuses by name.

import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { filler } from "../../cli/script_messages.ts";
import { forcelog, jsonLines } from "../support/command.ts";
import { type GoldenRecord, openGolden } from "../support/golden.ts";
import { logFile } from "../support/stores.ts";

const SIZES = { mappedFileSizeCommitLog: 65536, mappedFileSizeConsumeQueue: 2000 };

type Line = Record<string, unknown>;

async function run(dir: string, script: Line, ...args: string[]) {
  const text = JSON.stringify({ config: SIZES, ...script });
  const { code, out, err } = await forcelog("run", "--dir", dir, "--script", text, ...args);
  return { code, err, lines: jsonLines(out) };
}

async function records(dir: string): Promise<GoldenRecord[]> {
  const { out } = await forcelog("dump", "--dir", dir);
  return JSON.parse(out).commitLog.records;
}

t.test("a put prints its result in the oracle's words, the end its own line", async (t) => {
  const dir = join(t.testdir({}), "store");
  const { code, lines, err } = await run(dir, {
    steps: [
      { body: "hello \u0024{i}", repeat: 2, tags: "a", keys: "k\u0024{i}", id: "first" },
      { op: "putBatch", topic: "B", messages: [{ body: "x" }, { body: "y", repeat: 2 }] },
    ],
  });
  t.equal(code, 0, err);
  t.strictSame(
    lines.map(({ storeTimestamp, ...line }) => line),
    [
      {
        op: "put",
        id: "first",
        status: "PUT_OK",
        append: "PUT_OK",
        msgId: "0A00000700002A9F0000000000000000",
        wroteOffset: 0,
        wroteBytes: 114,
        queueOffset: 0,
        msgNum: 1,
      },
      {
        op: "put",
        id: "first",
        status: "PUT_OK",
        append: "PUT_OK",
        msgId: "0A00000700002A9F0000000000000072",
        wroteOffset: 114,
        wroteBytes: 114,
        queueOffset: 1,
        msgNum: 1,
      },
      {
        op: "putBatch",
        status: "PUT_OK",
        append: "PUT_OK",
        msgId: [228, 321, 414]
          .map((at) => `0A00000700002A9F${at.toString(16).toUpperCase().padStart(16, "0")}`)
          .join(","),
        wroteOffset: 228,
        wroteBytes: 279,
        queueOffset: 0,
        msgNum: 3,
      },
      {
        op: "end",
        end: "shutdown",
        maxPhyOffset: 507,
        flushedWhere: lines[3]?.flushedWhere,
        behind: 0,
      },
    ],
  );
  t.ok(lines.slice(0, 3).every(({ storeTimestamp }) => typeof storeTimestamp === "number"));
  t.notOk(existsSync(join(dir, "abort")));
  const [first, second] = await records(dir);
  t.match(first, {
    topic: "T",
    queueId: 0,
    bornTimestamp: 1726740000000,
    bornHost: "192.168.1.10:54321",
    storeHost: "10.0.0.7:10911",
    properties: { KEYS: "k0", TAGS: "a" },
    body: Buffer.from("hello 0").toString("base64"),
  });
  t.match(second, { bornTimestamp: 1726740000001, properties: { KEYS: "k1" } });
});

t.test("the steps of golden stores make the same records", async (t) => {
  const place = (record: GoldenRecord) => {
    const { storeTimestamp, sha256, ...rest } = record;
    return rest;
  };
  for (const name of ["v1-basic", "v2-topics", "roll-boundaries", "ipv6-hosts", "unicode", "lmq"]) {
    const { recipe, expected, results } = openGolden(t, name);
    const dir = join(t.testdirName, name);
    const { config, steps } = recipe;
    const { code, lines, err } = await run(dir, { config, steps });
    t.equal(code, 0, err);
    t.strictSame((await records(dir)).map(place), expected.commitLog.records.map(place as never));
    const puts = (all: readonly unknown[]) =>
      (all as Line[])
        .filter(({ op }) => op === "put" || op === "putBatch")
        .map(({ storeTimestamp, ...line }) => line);
    t.strictSame(puts(lines), puts(results), name);
  }
});

t.test("bodies: base64, size with seed and grow, record, leave", async (t) => {
  const dir = join(t.testdir({}), "store");
  const { code, err, lines } = await run(dir, {
    steps: [
      { body: { base64: "AAEC" } },
      { body: { size: 300, seed: 7, grow: 10 }, repeat: 2, from: 3 },
      { body: { record: 500, seed: 1 }, tags: "é", repeat: 2 },
      { body: { leave: 8 }, topic: "t".repeat(128), bornHost: "[::1]:5", queues: 2, from: 1 },
      { body: "the next file" },
      { body: { leave: 100 }, propertiesString: "a\u0001b", async: true },
    ],
  });
  t.equal(code, 0, err);
  const sizes = lines.map(({ wroteBytes }) => wroteBytes);
  t.strictSame(sizes.slice(3, 5), [500, 500]);
  const [base64, first, second, , , left, , last] = (await records(dir)).filter(
    (record) => !("blank" in record),
  );
  t.equal(base64?.body, "AAEC");
  t.match(first, { bodyLength: 330, bornTimestamp: 1726740000003 });
  t.equal(second?.bodyLength, 340);
  t.equal((left?.offset ?? 0) + (left?.size ?? 0), 65536 - 8);
  t.match(left, { queueId: 1, magic: "daa320ab", bornHost: "[0:0:0:0:0:0:0:1]:5" });
  t.equal((last?.offset ?? 0) + (last?.size ?? 0), 2 * 65536 - 100);
  t.strictSame([...filler(5, 300)].slice(254), [
    ...Array.from({ length: 46 }, (_, i) => {
      const at = 254 + i;
      return (5 + 31 * at + 17 * (at >> 8)) & 255;
    }),
  ]);
});

t.test("steps that are no puts", async (t) => {
  const dir = join(t.testdir({}), "store");
  const { code, lines, err } = await run(dir, {
    steps: [
      { body: "a" },
      { op: "sleep", ms: 1 },
      { op: "flush" },
      { op: "waitDispatched" },
      { op: "checkpoint" },
      { op: "deleteFile", file: "nosuch" },
      { op: "restart", remove: ["consumequeue"] },
      { body: "b" },
    ],
    reads: [{ read: "queue" }],
  });
  t.equal(code, 0, err);
  t.strictSame(lines.slice(1, 5), [
    { op: "flush", flushed: 93 },
    { op: "waitDispatched", done: true, maxPhyOffset: 93 },
    { op: "checkpoint" },
    { op: "deleteFile", done: false },
  ]);
  t.match(lines[5], { op: "put", wroteOffset: 93, queueOffset: 1 });
  t.match(lines[6], { read: { read: "queue" }, min: 0, max: 2, total: 2 });
});

t.test("reads, with steps between them", async (t) => {
  const dir = join(t.testdir({}), "store");
  const { code, lines, err } = await run(dir, {
    steps: [{ body: "\u0024{i}", repeat: 5, tags: "t\u0024{i}" }],
    reads: [
      { read: "getMessage", offset: 1, maxMsgNums: 2 },
      { read: "getMessage", tags: "t4 || t0" },
      { read: "getMessage", offset: 9 },
      { body: "more", topic: "U", queueId: 3 },
      { read: "queue", topic: "U", queueId: 3 },
      { read: "unit", offset: 2 },
      { read: "unit", offset: 77 },
      { read: "lookMessageByOffset", offset: 0 },
      { read: "lookMessageByOffset", offset: 999 },
      { read: "store" },
      { read: "arrivals" },
      { read: "lookMessageByOffset", offset: 5 },
    ],
  });
  t.equal(code, 0, err);
  const puts = lines.slice(0, 5);
  const places = puts.map(({ queueOffset, wroteOffset, wroteBytes }) => [
    queueOffset,
    wroteOffset,
    wroteBytes,
  ]);
  const reads = lines.slice(5);
  t.strictSame(reads[0], {
    read: { read: "getMessage", offset: 1, maxMsgNums: 2 },
    status: "FOUND",
    nextBeginOffset: 3,
    minOffset: 0,
    maxOffset: 5,
    bufferTotalSize: 202,
    suggestPullingFromSlave: false,
    messages: places.slice(1, 3),
  });
  t.match(reads[1], { status: "FOUND", messages: [places[0], places[4]] });
  t.match(reads[2], { status: "OFFSET_OVERFLOW_BADLY", nextBeginOffset: 5, messages: [] });
  t.match(reads[3], { op: "put", queueOffset: 0 });
  const { storeTimestamp } = reads[3] as { storeTimestamp: number };
  t.match(reads[4], { min: 0, max: 1, earliestTime: storeTimestamp, total: 1 });
  t.match(reads[5], { phyOffset: puts[2]?.wroteOffset, storeTimestamp: puts[2]?.storeTimestamp });
  t.match(reads[6], { phyOffset: 0, storeTimestamp: -1 });
  t.match(reads[7], { message: { offset: 0, topic: "T", body: "MA==" } });
  t.strictSame(reads[8]?.message, null);
  t.match(reads[9], {
    minPhyOffset: 0,
    maxPhyOffset: 601,
    confirmOffset: 601,
    earliestMessageTime: puts[0]?.storeTimestamp,
    runningFlags: 0,
  });
  t.strictSame((reads[10] as { arrivals: unknown[] }).arrivals.at(-1), {
    topic: "U",
    queueId: 3,
    logicOffset: 1,
    tagsCode: 0,
  });
  t.match(reads[11]?.thrown, "damaged at position 5");
});

t.test("a script reads by key", async (t) => {
  const dir = join(t.testdir({}), "store");
  const { code, lines, err } = await run(dir, {
    steps: [{ keys: "a b" }, { keys: "b", topic: "U" }, { keys: "b", uniqKey: "u", body: "later" }],
    reads: [
      { read: "queryMessage", key: "b" },
      { read: "queryMessage", key: "u", maxNum: 1 },
      { read: "queryMessage", key: "b", end: 1 },
      { read: "queryMessage", key: "none" },
    ],
  });
  t.equal(code, 0, err);
  const [first, , last, ...reads] = lines;
  const [all, unique, early, none] = reads;
  t.match(all, {
    read: { read: "queryMessage", key: "b" },
    offsets: [first?.wroteOffset, last?.wroteOffset],
    lastUpdateTimestamp: last?.storeTimestamp,
    lastUpdatePhyOffset: last?.wroteOffset,
  });
  t.match(unique, { offsets: [last?.wroteOffset] });
  t.match(early, { offsets: [] });
  t.match(none, { offsets: [] });
});

t.test("a put that is refused prints its status", async (t) => {
  const dir = join(t.testdir({}), "store");
  const large = { size: 70_000 };
  const { code, lines, err } = await run(dir, {
    steps: [
      { body: large, expect: "MESSAGE_ILLEGAL", id: 1 },
      { body: large, expect: "any", async: true, repeat: 2 },
      { body: { record: 5 }, expect: "throw" },
      { queueId: -1, expect: "any" },
      { body: "ok" },
    ],
  });
  t.equal(code, 0, err);
  t.strictSame(lines[0], { op: "put", id: 1, status: "MESSAGE_ILLEGAL", append: null });
  t.strictSame(lines[2], { op: "put", status: "MESSAGE_ILLEGAL", append: null });
  t.match(lines[3], { op: "put", thrown: String });
  t.match(lines[4], { op: "put", thrown: /queueId/ });
  t.match(lines[5], { status: "PUT_OK", queueOffset: 0 });
});

t.test("an expectation that is not met ends the run with exit code 1", async (t) => {
  for (const [step, message] of [
    [{ body: "a", expect: "MESSAGE_ILLEGAL" }, "expected MESSAGE_ILLEGAL, got PUT_OK"],
    [{ body: "a", expect: "throw" }, "expected throw, got PUT_OK"],
    [{ body: { size: 70_000 } }, "expected PUT_OK, got MESSAGE_ILLEGAL (Cannot put: "],
    [{ queueId: -1 }, '"queueId" is -1'],
  ] as const) {
    const dir = join(t.testdir({}), "store");
    const { code, lines, err } = await run(dir, { steps: [step, { body: "never" }] });
    t.equal(code, 1);
    t.ok(err.includes(message), err);
    t.ok(lines.length <= 1, "nothing was done after it");
    t.notOk(existsSync(join(dir, "abort")), "the store was closed");
  }
});

t.test("async puts are answered in order", async (t) => {
  const dir = join(t.testdir({}), "store");
  const { code, lines, err } = await run(dir, {
    config: { ...SIZES, flushDiskType: "SYNC_FLUSH" },
    steps: [{ body: { size: 1000 }, repeat: 200, async: true, queues: 3 }],
  });
  t.equal(code, 0, err);
  const offsets = lines.slice(0, 200).map(({ wroteOffset }) => wroteOffset as number);
  t.strictSame(
    offsets,
    [...offsets].sort((a, b) => a - b),
  );
  t.match(lines[200], { op: "end", behind: 0 });
  t.equal(readdirSync(join(dir, "commitlog")).length, 4);
});

t.test("--quiet prints only the end", async (t) => {
  const dir = join(t.testdir({}), "store");
  const script = { steps: [{ body: "a" }, { op: "flush" }, { queueId: -1, expect: "throw" }] };
  const { code, lines } = await run(dir, script, "--quiet");
  t.equal(code, 0);
  t.strictSame(
    lines.map(({ op, thrown }) => [op, thrown !== undefined]),
    [
      ["put", true],
      ["end", false],
    ],
  );
});

t.test("what is not served is refused by name, before anything is done", async (t) => {
  const dir = join(t.testdir({}), "store");
  for (const [script, message] of [
    [{ steps: [{}, { tran: "half" }] }, '"tran" is not served yet (step 2)'],
    [{ steps: [{ delayLevel: 3 }] }, '"delayLevel" is not served yet (step 1)'],
    [{ steps: [{ op: "commit", half: "h" }] }, '"op" "commit" is not served yet'],
    [{ steps: [{ op: "op", halves: [] }] }, '"op" "op" is not served yet'],
    [{ steps: [{ op: "putBatch", innerBatch: true }] }, 'without "uniqKey"'],
    [{ steps: [{ op: "putBatch", messages: [{ delayLevel: 1 }] }] }, '"delayLevel" is not served'],
    [{ topics: { X: 1 } }, 'Cannot use topic "X" of the script'],
    [{ reads: [{ op: "commit" }] }, '"op" "commit" is not served yet (read 1)'],
    [{ steps: [{ op: "nosuch" }] }, 'Cannot use "op" "nosuch" in step 1'],
    [{ reads: [{ read: "nosuch" }] }, 'Cannot use "read" "nosuch" in read 1'],
    [{ steps: [1] }, 'Cannot use "steps" of the script'],
    [{ end: "sleep" }, 'Cannot end the script with "sleep"'],
    [{ config: { nosuch: 1 } }, 'Cannot use option "nosuch"'],
    [{ config: { storeType: "defaultRocksDB" } }, '"storeType"'],
  ] as const) {
    const { code, lines, err } = await run(dir, script);
    t.equal(code, 1, message);
    t.ok(err.includes(message), err);
    t.strictSame(lines, []);
    t.notOk(existsSync(dir), "nothing was made");
  }
});

t.test("fields of a wrong type, and paths that lead out of the store, are refused", async (t) => {
  const root = t.testdir({ outside: "x" });
  const dir = join(root, "store");
  for (const [step, message] of [
    [{ queueId: "1" }, 'Cannot use "queueId": "1"'],
    [{ flag: 1.5 }, 'Cannot use "flag": 1.5'],
    [{ properties: [] }, 'Cannot use "properties"'],
    [{ properties: { a: {} } }, 'Cannot use "properties.a"'],
    [{ body: 1 }, 'Cannot use "body"'],
    [{ async: "yes" }, 'Cannot use "async"'],
    [{ op: "deleteFile", file: "../outside" }, 'Cannot remove "../outside"'],
    [{ op: "restart", remove: ["/etc"] }, 'Cannot remove "/etc"'],
    [{ op: "restart", remove: ["."] }, 'Cannot remove "."'],
  ] as const) {
    const { code, err } = await run(dir, { steps: [step] });
    t.equal(code, 1, message);
    t.ok(err.includes(message), err);
  }
  t.ok(existsSync(join(root, "outside")));
});

t.test("F73: a number beyond 2^53 in a script is refused, not rounded", async (t) => {
  const dir = join(t.testdir({}), "store");
  for (const [text, message] of [
    ['{"steps": [{"bornTimestamp": 9007199254740993}]}', '"bornTimestamp": 9007199254740993'],
    ['{"steps": [{"flag": 123456789012345678}]}', '"flag": 123456789012345678'],
  ] as const) {
    const { code, err } = await forcelog("run", "--dir", dir, "--script", text);
    t.equal(code, 1);
    t.ok(err.includes(message), err);
  }
  const text =
    '{"steps": [{"properties": {"a": 9007199254740993, "b": "90071992547409931"}}], "reads": [{"read": "unit", "offset": 9007199254740993}]}';
  const { code, out } = await forcelog("run", "--dir", dir, "--script", text);
  t.equal(code, 0);
  t.match(out, '{"read":{"read":"unit","offset":9007199254740993},"thrown":"');
  t.match((await records(dir))[0]?.properties, { a: "9007199254740993", b: "90071992547409931" });
});

t.test("a script may be a file", async (t) => {
  const dir = t.testdir({ "script.json": '{"steps": [{"body": "a"}]}' });
  const script = join(dir, "script.json");
  const { code, out } = await forcelog("run", "--dir", join(dir, "s"), "--script", script);
  t.equal(code, 0);
  t.equal(jsonLines(out).length, 2);
});

t.test("a store that cannot be opened is left alone", async (t) => {
  const { dir, recipe } = openGolden(t, "v1-basic");
  writeFileSync(join(dir, "commitlog", "stray"), "");
  const { code, err } = await run(dir, { config: recipe.config, steps: [{ body: "a" }] });
  t.equal(code, 1);
  t.match(err, join(dir, "commitlog", "stray"));
  t.ok(existsSync(logFile(dir)));
});
