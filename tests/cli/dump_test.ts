// forcelog dump: what it sees of every golden store is what RocketMQ sees.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { fingerprint, forcelog } from "../support/command.ts";
import {
  type GoldenExpected,
  type GoldenRecord,
  goldenNames,
  openGolden,
} from "../support/golden.ts";
import { logFile, overwrite } from "../support/stores.ts";

interface Dump extends GoldenExpected {
  readonly error?: string;
}

/** What must agree: all but queues without messages, and what is at fault in RocketMQ's view. */
function view({ commitLog, queues, abortBefore, checkpointBefore, filesBefore, loaded }: Dump) {
  return {
    loaded,
    abortBefore,
    checkpointBefore,
    filesBefore,
    minOffset: commitLog.minOffset,
    maxOffset: commitLog.maxOffset,
    records: commitLog.records,
    queues: queues
      .filter(({ min, max }) => min > 0 || max > 0)
      // Of a queue that ends in a phantom unit, (0, 0, 0), RocketMQ says 0.
      .map((queue) => (queue.maxPhysicOffset === 0 ? { ...queue, maxPhysicOffset: 1020 } : queue)),
  };
}

for (const name of goldenNames()) {
  t.test(`golden store ${name}`, async (t) => {
    const { dir, recipe, expected } = openGolden(t, name);
    const before = fingerprint(dir);
    const config = { ...recipe.config, damagedLogPolicy: "cut" };
    const { code, out } = await forcelog("dump", "--dir", dir, "--config", JSON.stringify(config));
    t.equal(code, 0);
    t.equal(out.indexOf("\n"), out.length - 1, "one line");
    const dump = JSON.parse(out) as Dump;
    t.match(dump.version, /^forcelog \d/);
    t.strictSame(view(dump), view(expected));
    t.equal(fingerprint(dir), before, "nothing was changed");
  });
}

t.test("--config takes a script, or nothing; sizes are those that are found", async (t) => {
  const { dir, recipe } = openGolden(t, "roll-boundaries");
  const script = join(t.testdirName, "script.json");
  writeFileSync(script, JSON.stringify({ config: recipe.config, steps: [{ op: "nosuch" }] }));
  const { out } = await forcelog("dump", "--dir", dir, "--config", script);
  // Files of the index that have another shape are made anew, in memory.
  const found = (text: string) => text.replace(/"files":\[.*?\],"found"/, '"found"');
  t.equal(found((await forcelog("dump", "--dir", dir)).out), found(out));
});

t.test("--pretty breaks lines, down to a depth", async (t) => {
  const { dir } = openGolden(t, "v1-basic");
  const { out } = await forcelog("dump", "--dir", dir);
  for (const args of [["--pretty"], ["--pretty", "0"], ["--pretty", "9"]]) {
    const pretty = await forcelog("dump", "--dir", dir, ...args);
    t.strictSame(JSON.parse(pretty.out), JSON.parse(out));
    t.equal(pretty.out.split("\n").length > 2, args[1] !== "0", args.join(" "));
  }
});

t.test("a store that is refused is not loaded, and the dump says why", async (t) => {
  const { dir } = openGolden(t, "v1-basic");
  const stray = join(dir, "commitlog", "stray.tmp");
  writeFileSync(stray, "x");
  const before = fingerprint(dir);
  const { code, out, err } = await forcelog("dump", "--dir", dir);
  t.equal(code, 0);
  const dump = JSON.parse(out) as Dump;
  t.equal(dump.loaded, false);
  t.match(dump.error, stray);
  t.match(err, stray);
  t.equal(fingerprint(dir), before);
});

t.test("an empty directory is an empty store", async (t) => {
  const dir = t.testdir({});
  const { code, out } = await forcelog("dump", "--dir", dir);
  t.equal(code, 0);
  t.match(JSON.parse(out), {
    abortBefore: false,
    checkpointBefore: null,
    filesBefore: {},
    loaded: true,
    commitLog: { minOffset: -1, maxOffset: 0, records: [] },
    queues: [],
    index: { found: {} },
  });
  t.equal((await forcelog("dump", "--dir", dir)).out, out, "nothing was made");
});

t.test("the walk goes over damage that recovery does not look at, by its size", async (t) => {
  // 150 records in three files; after a clean stop only the last file is read.
  const { dir, recipe, expected } = openGolden(t, "queues-absent");
  // Its queues are absent: a store that writes makes them.
  const script = JSON.stringify({ config: recipe.config });
  t.equal((await forcelog("run", "--dir", dir, "--script", script)).code, 0);
  const { records } = expected.commitLog;
  const [first, second] = records as readonly GoldenRecord[];
  const { offset, size } = second as GoldenRecord;
  overwrite(logFile(dir), offset + 100, Buffer.from([0xff]));
  const dump = JSON.parse((await forcelog("dump", "--dir", dir)).out) as Dump;
  t.strictSame(dump.commitLog.records, [first, { offset, size, bad: true }, ...records.slice(2)]);
  const unreadable = dump.queues.map(({ unreadableOrMisplaced }) => unreadableOrMisplaced);
  t.equal(
    unreadable.reduce((sum, count) => sum + count),
    1,
  );
});

t.test("the walk goes from one damaged record to the next, and on behind the blank", async (t) => {
  const { dir, recipe } = openGolden(t, "crash-sync");
  const config = JSON.stringify({ ...recipe.config, damagedLogPolicy: "cut" });
  const before = JSON.parse((await forcelog("dump", "--dir", dir, "--config", config)).out) as Dump;
  const inFirst = before.commitLog.records.filter(
    (entry): entry is GoldenRecord => entry.offset < 65536 && "topic" in entry,
  );
  t.ok(inFirst.length > 20);
  // Each record but the first has another queue id, which no checksum covers, and another body.
  for (const { offset, bodyLength } of inFirst.slice(1)) {
    t.ok(bodyLength > 0);
    overwrite(logFile(dir), offset + 12, Buffer.from("ffffffff", "hex"));
  }
  const { out } = await forcelog("dump", "--dir", dir, "--config", config);
  const { records } = (JSON.parse(out) as Dump).commitLog;
  t.strictSame(
    records.slice(1, inFirst.length),
    inFirst.slice(1).map(({ offset, size }) => ({ offset, size, bad: true })),
  );
  t.strictSame(records.slice(inFirst.length), before.commitLog.records.slice(inFirst.length));
});

t.test("the walk ends at damage whose size cannot be one", async (t) => {
  const { dir, recipe, expected } = openGolden(t, "queues-absent");
  const script = JSON.stringify({ config: recipe.config });
  t.equal((await forcelog("run", "--dir", dir, "--script", script)).code, 0);
  const [first, second] = expected.commitLog.records as readonly GoldenRecord[];
  const { offset } = second as GoldenRecord;
  overwrite(logFile(dir), offset, Buffer.from([0, 0, 0, 89]));
  const dump = JSON.parse((await forcelog("dump", "--dir", dir)).out) as Dump;
  t.strictSame(dump.commitLog.records, [first, { offset, size: 89, bad: true }]);
});

t.test("longs of the checkpoint are shown exactly", async (t) => {
  const dir = t.testdir({ checkpoint: "" });
  const bytes = Buffer.alloc(4096);
  bytes.writeBigInt64BE(2n ** 53n + 1n, 24);
  writeFileSync(join(dir, "checkpoint"), bytes);
  const { out } = await forcelog("dump", "--dir", dir);
  t.match(out, '"checkpointBefore":[0,0,0,9007199254740993,0,0]');
  writeFileSync(join(dir, "checkpoint"), "short");
  t.match((await forcelog("dump", "--dir", dir)).out, '"checkpointBefore":[],');
});
