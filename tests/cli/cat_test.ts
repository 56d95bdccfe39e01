// forcelog cat: messages of a queue, single ones, and what it says of damage.

import { rmSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { fingerprint, forcelog, jsonLines } from "../support/command.ts";
import { type GoldenRecord, openGolden } from "../support/golden.ts";
import { logFile, overwrite } from "../support/stores.ts";

/** Records of a queue, in its order. */
function queueRecords(
  { commitLog }: { readonly commitLog: { readonly records: readonly unknown[] } },
  topic: string,
  queueId: number,
): GoldenRecord[] {
  return (commitLog.records as readonly GoldenRecord[]).filter(
    (record) => record.topic === topic && record.queueId === queueId,
  );
}

const SIZES = { mappedFileSizeCommitLog: 65536, mappedFileSizeConsumeQueue: 2000 };

/** A store of three log files, cleanly closed: 12 messages of 12 KB in queue T/0. */
async function threeFiles(dir: string): Promise<{ offset: number; size: number }[]> {
  const script = {
    config: SIZES,
    steps: [{ repeat: 12, body: { size: 12_000 }, tags: "t", keys: "k" }],
  };
  const { code, out, err } = await forcelog(
    "run",
    "--dir",
    dir,
    "--script",
    JSON.stringify(script),
  );
  if (code !== 0) throw new Error(err);
  return jsonLines(out)
    .filter(({ op }) => op === "put")
    .map(({ wroteOffset, wroteBytes }) => ({
      offset: wroteOffset as number,
      size: wroteBytes as number,
    }));
}

t.test("--topic prints every queue of it, as text", async (t) => {
  const { dir, expected } = openGolden(t, "v1-basic");
  const before = fingerprint(dir);
  const { code, out, err } = await forcelog("cat", dir, "--topic", "TopicTest");
  t.equal(code, 0);
  t.equal(err, "");
  const heads = out.split("\n").filter((line) => line.startsWith("TopicTest/"));
  t.strictSame(
    heads,
    [0, 1, 2, 3].flatMap((queueId) =>
      queueRecords(expected, "TopicTest", queueId).map(
        ({ queueOffset }) => `TopicTest/${queueId} ${queueOffset}`,
      ),
    ),
  );
  const [first] = queueRecords(expected, "TopicTest", 3) as [GoldenRecord];
  const one = await forcelog("cat", dir, "--topic", "TopicTest", "--queue", "3");
  t.match(one.out, `  at ${first.offset}, ${first.size} bytes, id ${first.msgId}\n`);
  t.match(
    one.out,
    `  stored ${new Date(first.storeTimestamp).toISOString()} by ${first.storeHost}`,
  );
  for (const [name, value] of Object.entries(first.properties ?? {})) {
    t.match(one.out, `  ${name} = ${value}\n`);
  }
  t.match(one.out, `  ${Buffer.from(first.body as string, "base64")}\n`);
  t.equal(fingerprint(dir), before, "nothing was changed");
});

t.test("--from and --count choose among the messages of each queue", async (t) => {
  const { dir, expected } = openGolden(t, "v1-basic");
  const cat = async (...args: string[]) => {
    const { code, out } = await forcelog("cat", dir, "--topic", "TopicTest", "--json", ...args);
    t.equal(code, 0);
    return jsonLines(out).map(({ queueId, queueOffset }) => [queueId, queueOffset]);
  };
  t.strictSame(await cat("--queue", "1", "--from", "6"), [
    [1, 6],
    [1, 7],
  ]);
  t.strictSame(await cat("--queue", "1", "--from", "2", "--count", "3"), [
    [1, 2],
    [1, 3],
    [1, 4],
  ]);
  t.strictSame(await cat("--count", "1"), [
    [0, 0],
    [1, 0],
    [2, 0],
    [3, 0],
  ]);
  const { length } = queueRecords(expected, "TopicTest", 0);
  t.strictSame(await cat("--queue", "0", "--from", String(length)), []);
  const { err } = await forcelog(
    "cat",
    dir,
    "--topic",
    "TopicTest",
    "--queue",
    "0",
    "--from",
    "99",
  );
  t.match(err, `Queue TopicTest/0 holds 0 to ${length - 1}, nothing at 99`);
});

t.test("--format json prints whole bodies, raw only them", async (t) => {
  const { dir, expected } = openGolden(t, "compressed");
  const records = expected.commitLog.records as readonly GoldenRecord[];
  const { topic } = records[0] as GoldenRecord;
  const { out } = await forcelog("cat", dir, "--topic", topic, "--format", "json");
  const lines = jsonLines(out);
  t.equal(lines.length, records.length);
  for (const [i, record] of records.entries()) {
    const { bodySha256, sha256, magic, position, dispatchTagsCode, ...shown } = record;
    t.match(lines[i], shown);
  }
  const bodies = lines.map(({ body }) => Buffer.from(body as string, "base64"));
  const raw = await forcelog("cat", dir, "--topic", topic, "--format", "raw");
  t.strictSame(raw.outBytes, Buffer.concat(bodies));
  t.match((await forcelog("cat", dir, "--topic", topic)).out, /\(\d+ compressed bytes\) [0-9a-f]+/);
});

t.test("--offset and --id print a single message", async (t) => {
  const { dir, expected } = openGolden(t, "ipv6-hosts");
  for (const record of expected.commitLog.records as readonly GoldenRecord[]) {
    for (const args of [
      ["--offset", String(record.offset)],
      ["--id", record.msgId],
      ["--id", record.msgId.toLowerCase()],
    ]) {
      const { code, out } = await forcelog("cat", dir, ...args, "--json");
      t.equal(code, 0);
      t.equal(JSON.parse(out).msgId, record.msgId);
    }
  }
  const behind = await forcelog("cat", dir, "--offset", String(expected.commitLog.maxOffset));
  t.equal(behind.code, 1);
  t.equal(behind.out, "");
  t.match(behind.err, `Cannot find a message with offset ${expected.commitLog.maxOffset}`);
});

t.test(
  "F72: a damaged record is told with file and position; the others are printed",
  async (t) => {
    const dir = join(t.testdir({}), "store");
    const records = await threeFiles(dir);
    const { offset } = records[2] as { offset: number };
    overwrite(logFile(dir), offset + 6000, Buffer.from("damage"));
    const before = fingerprint(dir);
    const { code, out, err } = await forcelog("cat", dir, "--topic", "T", "--json");
    t.equal(code, 1);
    t.strictSame(
      jsonLines(out).map(({ queueOffset }) => queueOffset),
      [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    );
    t.match(err, "Cannot read message 2 of queue T/0");
    t.match(err, `damaged at position ${offset} of ${logFile(dir)}`);
    t.equal(err.trimEnd().split("\n").length, 1);
    const one = await forcelog("cat", dir, "--offset", String(offset));
    t.equal(one.code, 1);
    t.equal(one.out, "");
    t.match(one.err, `damaged at position ${offset} of ${logFile(dir)}: BODYCRC`);
    t.equal(fingerprint(dir), before, "nothing was changed");
  },
);

t.test("messages in a file that is gone are told in one line", async (t) => {
  const dir = join(t.testdir({}), "store");
  await threeFiles(dir);
  rmSync(logFile(dir, 65536));
  const { code, out, err } = await forcelog("cat", dir, "--topic", "T", "--json");
  t.equal(code, 1);
  t.strictSame(
    jsonLines(out).map(({ queueOffset }) => queueOffset),
    [0, 1, 2, 3, 4, 10, 11],
  );
  t.match(
    err,
    "Cannot read messages 5 to 9 of queue T/0: the log has nothing where they should be",
  );
  t.equal(err.trimEnd().split("\n").length, 1);
});

t.test("a log that recovery would cut is said to end there", async (t) => {
  const { dir, expected } = openGolden(t, "flip-mid-log");
  const [first] = expected.commitLog.records as readonly GoldenRecord[];
  const { topic, queueId } = first as GoldenRecord;
  const config = ["--config", '{"damagedLogPolicy": "cut"}'];
  const { code, out, err } = await forcelog("cat", dir, "--topic", topic, "--json", ...config);
  t.equal(code, 1);
  t.equal(jsonLines(out)[0]?.queueId, queueId);
  t.equal(jsonLines(out).length, expected.commitLog.records.length);
  const end = expected.commitLog.maxOffset;
  t.match(err, `The log ends at offset ${end}, position ${end} of ${logFile(dir)}: BODYCRC`);
});

t.test("damage that recovery would cover is told, and what follows is printed", async (t) => {
  const { dir, expected } = openGolden(t, "flip-mid-log");
  const [first] = expected.commitLog.records as readonly GoldenRecord[];
  const at = expected.commitLog.maxOffset;
  const { topic } = first as GoldenRecord;
  const before = fingerprint(dir);
  const { code, out, err } = await forcelog("cat", dir, "--topic", topic, "--json");
  t.equal(code, 1);
  t.equal(jsonLines(out).length, 29, "all of 30 but the damaged one");
  t.match(err, `The log is damaged at offset ${at}, position ${at} of ${logFile(dir)}: BODYCRC`);
  t.match(err, /Cannot read message 4 of queue Torn\/1: the log has nothing where it should be/);
  t.equal(err.trimEnd().split("\n").length, 2);
  t.equal((await forcelog("cat", dir, "--offset", String(at))).code, 1);
  t.equal(fingerprint(dir), before, "nothing was changed");
});

t.test("a light queue has the messages of other topics", async (t) => {
  const { dir, recipe, expected } = openGolden(t, "lmq");
  const queue = expected.queues.find(({ topic }) => topic.startsWith("%LMQ%"));
  const { topic, units } = queue as (typeof expected.queues)[number];
  const config = JSON.stringify(recipe.config);
  const { code, out } = await forcelog("cat", dir, "--topic", topic, "--json", "--config", config);
  t.equal(code, 0);
  t.strictSame(
    jsonLines(out).map(({ offset }) => offset),
    units.map(([offset]) => offset),
  );
});

t.test("text of a stranger cannot drive the terminal", async (t) => {
  const dir = join(t.testdir({}), "store");
  const script = {
    config: SIZES,
    steps: [
      { body: "\u001b[31mred", properties: { "a\u001b": "b\u0007" } },
      { body: "two\nlines\tand a tab" },
      { body: { base64: "/w==" } },
      {},
    ],
  };
  await forcelog("run", "--dir", dir, "--script", JSON.stringify(script));
  const { out } = await forcelog("cat", dir, "--topic", "T");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  t.notMatch(out, /[\u0000-\u0009\u000b-\u001f\u007f]/);
  t.match(out, "  a\\u001b = b\\u0007\n");
  t.match(out, `  (8 bytes) ${Buffer.from("\u001b[31mred").toString("hex")}\n`);
  t.match(out, "  two\n  lines\\tand a tab\n");
  t.match(out, "  (1 bytes) ff\n");
  t.match(out, "  (empty body)\n");
});

t.test("--at-time begins at the first message stored then or later on", async (t) => {
  const { dir, expected } = openGolden(t, "expired-front");
  const times = (expected.commitLog.records as GoldenRecord[]).filter(
    ({ topic, queueId }) => topic === "Old" && queueId === 1,
  );
  const third = times[2] as GoldenRecord;
  const first = times.find(({ storeTimestamp }) => storeTimestamp === third.storeTimestamp);
  for (const time of [String(third.storeTimestamp), new Date(third.storeTimestamp).toISOString()]) {
    const args = ["--topic", "Old", "--queue", "1", "--at-time", time, "--count", "1", "--json"];
    const { out } = await forcelog("cat", dir, ...args);
    t.equal(jsonLines(out)[0]?.offset, first?.offset, time);
  }
  const late = await forcelog("cat", dir, "--topic", "Old", "--at-time", "2100-01-01");
  t.match(late, { code: 0, out: "" });
  for (const [args, message] of [
    [["--topic", "Old", "--at-time", "yesterday"], /Cannot use --at-time yesterday/],
    [["--topic", "Old", "--at-time", "1", "--from", "2"], /Cannot use --from with --at-time/],
    [["--offset", "131072", "--at-time", "1"], /Cannot use --at-time without --topic/],
  ] as const) {
    const { code, err } = await forcelog("cat", dir, ...args);
    t.equal(code, 2);
    t.match(err, message);
  }
});
