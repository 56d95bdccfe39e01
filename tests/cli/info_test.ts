// forcelog info: what a store is and what its recovery would do.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { MessageStore } from "../../lib/mod.ts";
import { fingerprint, forcelog } from "../support/command.ts";
import { type GoldenRecord, openGolden } from "../support/golden.ts";
import { logFile, overwrite } from "../support/stores.ts";

interface Info {
  readonly commitLog: Record<string, number>;
  readonly consumeQueues: Record<string, number>;
  readonly index: Record<string, number>;
  readonly abort: string | null;
  readonly checkpoint: Record<string, unknown> | null;
  readonly lock: { readonly state: string; readonly holder?: string };
  readonly recovery: {
    readonly cleanStop: boolean;
    readonly end: number;
    readonly cut: Record<string, unknown> | null;
    readonly holes: readonly Record<string, unknown>[];
    readonly gaps: readonly unknown[];
    readonly rebuiltQueues: readonly string[];
    readonly removedFiles: readonly string[];
  };
  readonly writtenBy: readonly string[];
}

async function info(dir: string, ...args: string[]): Promise<Info> {
  const { code, out, err } = await forcelog("info", dir, "--json", ...args);
  if (code !== 0) throw new Error(err);
  return JSON.parse(out) as Info;
}

t.test("info --json of golden stores", async (t) => {
  for (const name of [
    "checkpoint-absent",
    "clean-but-torn",
    "crash-pool",
    "expired-front",
    "log-empty-last",
    "queue-rolled",
    "v498-crash",
    "v551-mixed",
  ]) {
    const { dir, recipe, expected } = openGolden(t, name);
    const before = fingerprint(dir);
    const config = { ...recipe.config, damagedLogPolicy: "cut" };
    const found = await info(dir, "--config", JSON.stringify(config));
    t.equal(fingerprint(dir), before, `${name}: nothing was changed`);
    const { commitLog, filesBefore, queues } = expected;
    const sizes = Object.entries(filesBefore);
    const below = (folder: string) => sizes.filter(([path]) => path.startsWith(`${folder}/`));
    t.match(
      found,
      {
        commitLog: {
          minOffset: commitLog.minOffset,
          maxOffset: commitLog.maxOffset,
          fileSize: recipe.config.mappedFileSizeCommitLog,
          files: below("commitlog").length,
          bytes: below("commitlog").reduce((sum, [, size]) => sum + size, 0),
        },
        consumeQueues: {
          queues: queues.filter(({ max }) => max > 0).length,
          messages: queues.reduce((sum, { min, max }) => sum + max - min, 0),
          files: below("consumequeue").length,
        },
        index: { files: below("index").length },
        lock: { state: /free|unknown/ },
        recovery: { cleanStop: !expected.abortBefore, end: commitLog.maxOffset },
      },
      name,
    );
    t.equal(found.abort !== null, expected.abortBefore, name);
    const longs = found.checkpoint && Object.values(found.checkpoint).slice(0, 6);
    t.strictSame(longs, expected.checkpointBefore, name);
  }
});

t.test("what recovery would do is said", async (t) => {
  const { dir, expected } = openGolden(t, "torn-garbage-after");
  const end = expected.commitLog.maxOffset;
  const { cut, removedFiles } = (await info(dir)).recovery;
  t.match(cut, { offset: end, position: end, path: logFile(dir), droppedBytes: Number });
  t.notOk(cut && "evidence" in cut, "nothing was put aside");
  t.strictSame(removedFiles, [logFile(dir, 65536)]);
  const { out } = await forcelog("info", dir);
  t.match(out, /^recovery +would read 30 records from 0 on /m);
  t.match(out, `would cut the log at ${end}, position ${end} of ${logFile(dir)}`);
  t.match(out, `would remove the empty file ${logFile(dir, 65536)}`);
  const absent = openGolden(t, "queues-absent");
  t.equal((await info(absent.dir)).recovery.cut, null);
});

t.test("damage in the middle of the log: kept out of the way, or cut at", async (t) => {
  for (const [name, messages] of [
    ["flip-mid-log", 30],
    ["clean-but-torn", 20],
  ] as const) {
    const { dir, expected } = openGolden(t, name);
    const before = fingerprint(dir);
    const at = expected.commitLog.maxOffset;
    const place = { offset: at, position: at, path: logFile(dir) };
    const keep = await info(dir);
    t.match(keep.recovery, { cut: null, holes: [{ ...place, covered: true, size: Number }] }, name);
    t.notOk("evidence" in (keep.recovery.holes[0] ?? {}), "nothing was put aside");
    t.equal(keep.consumeQueues.messages, messages);
    const { size } = keep.recovery.holes[0] as { size: number };
    t.match((await forcelog("info", dir)).out, `would cover ${size} bytes of damage at ${at}, `);
    const cut = await info(dir, "--config", '{"damagedLogPolicy": "cut"}');
    t.match(cut.recovery, { cut: place, holes: [] }, name);
    t.equal(cut.commitLog.maxOffset, at);
    t.equal(
      cut.consumeQueues.messages,
      expected.queues.reduce((sum, { min, max }) => sum + max - min, 0),
    );
    t.equal(fingerprint(dir), before, "nothing was changed");
  }
});

t.test("hints at who wrote it", async (t) => {
  const hints = async (name: string) => {
    const { dir, recipe } = openGolden(t, name);
    return (await info(dir, "--config", JSON.stringify(recipe.config))).writtenBy;
  };
  t.match((await hints("v551-mixed"))[0], /^5\.5\.1 or later/);
  t.strictSame(
    (await hints("v498-crash")).map((hint) => hint.split(":")[0]),
    ["4.9.1 to 5.1.4", "4.9 or earlier"],
  );
  t.ok((await hints("v2-topics")).some((hint) => hint.startsWith("5.1.0 or later: records")));
  t.ok((await hints("v1-basic")).some((hint) => hint.startsWith("5.2.0 or later, or 4.9.0")));
});

t.test("a store of ours, open and closed", async (t) => {
  const dir = join(t.testdir({}), "store");
  const store = await MessageStore.open(
    dir,
    { mappedFileSizeCommitLog: 65536, unsafeOpenWithoutLock: true },
    { onWarning: () => undefined },
  );
  await store.put({ topic: "T", body: Buffer.from("x") });
  const open = await info(dir);
  t.equal(open.abort, String(process.pid));
  if (process.platform === "linux" && open.lock.state === "held") {
    t.match(open.lock.holder, `process ${process.pid}`);
    t.match((await forcelog("info", dir)).out, /^lock +held by process /m);
  }
  await store.close();
  const closed = await info(dir);
  t.equal(closed.abort, null);
  t.not(closed.lock.state, "held");
  t.match(closed.checkpoint, { forcelog: { logEnd: 93, queuesEnd: 93, queueCount: 1 } });
  t.match(closed.writtenBy, ["forcelog wrote the checkpoint last"]);
});

t.test("F73: what lies beyond 2^53 is shown exactly", async (t) => {
  const { dir, expected } = openGolden(t, "v1-basic");
  const [first] = expected.commitLog.records as readonly GoldenRecord[];
  const long = (value: bigint) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64BE(value);
    return bytes;
  };
  const { topic, queueId } = first as GoldenRecord;
  const queueFile = join(dir, "consumequeue", topic, String(queueId), "0".repeat(20));
  overwrite(queueFile, 12, long(2n ** 60n + 1n));
  overwrite(join(dir, "checkpoint"), 24, long(2n ** 53n + 1n));
  const dump = JSON.parse((await forcelog("dump", "--dir", dir)).out) as typeof expected;
  const queue = dump.queues.find((found) => found.queueId === queueId);
  t.equal(queue?.units[0]?.[2], "1152921504606846977");
  t.match((await forcelog("info", dir)).out, "masterFlushedOffset 9007199254740993\n");
  t.match((await forcelog("info", dir, "--json")).out, '"masterFlushedOffset":9007199254740993');
  // A record that says it lies, or counts, beyond: no record, and why.
  for (const [at, name] of [
    [20, "QUEUEOFFSET"],
    [28, "PHYSICALOFFSET"],
  ] as const) {
    const other = openGolden(t, "v1-basic");
    overwrite(logFile(other.dir), at, long(2n ** 53n + 1n));
    writeFileSync(join(other.dir, "abort"), "");
    const { out } = await forcelog("info", other.dir);
    t.match(out, `position 0 of ${logFile(other.dir)}: ${name} is 9007199254740993`);
    const cat = await forcelog("cat", other.dir, "--offset", "0");
    t.equal(cat.code, 1);
    t.match(cat.err, `${name} is 9007199254740993`);
  }
});
