// forcelog recover and forcelog repair: what an open would do to a store, or does.

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { MessageStore } from "../../lib/mod.ts";
import { fingerprint, forcelog, jsonLines } from "../support/command.ts";
import { openGolden } from "../support/golden.ts";
import { logFile, overwrite } from "../support/stores.ts";
import { testFolder } from "../support/test_folder.ts";

const SIZES = { mappedFileSizeCommitLog: 65536, mappedFileSizeConsumeQueue: 2000 };
const CONFIG = ["--config", JSON.stringify(SIZES)];

interface Plan {
  readonly forcelog: Record<string, unknown> & {
    readonly holes: readonly Record<string, unknown>[];
    readonly cut: Record<string, unknown> | null;
    readonly recordsBehind?: number;
  };
  readonly rocketmq: readonly (Record<string, unknown> & {
    readonly version: string;
    readonly end: number;
  })[];
}

async function explain(dir: string, ...args: string[]): Promise<Plan> {
  const { code, out, err } = await forcelog(
    "recover",
    "--dir",
    dir,
    "--explain",
    "--json",
    ...args,
  );
  if (code !== 0) throw new Error(err);
  return JSON.parse(out) as Plan;
}

/** A store of three log files, cleanly closed: 12 messages of 12 KB in queue T/0. */
async function threeFiles(
  t: Test,
): Promise<{ dir: string; places: { offset: number; size: number }[] }> {
  const dir = join(testFolder(t), "store");
  const script = { config: SIZES, steps: [{ repeat: 12, body: { size: 12_000 }, tags: "t" }] };
  const args = ["--dir", dir, "--script", JSON.stringify(script)];
  const { code, out, err } = await forcelog("run", ...args);
  if (code !== 0) throw new Error(err);
  const places = jsonLines(out)
    .filter(({ op }) => op === "put")
    .map(({ wroteOffset, wroteBytes }) => ({
      offset: wroteOffset as number,
      size: wroteBytes as number,
    }));
  return { dir, places };
}

function damage(dir: string, { offset }: { offset: number }): void {
  overwrite(
    logFile(dir, offset - (offset % 65536)),
    (offset % 65536) + 6000,
    Buffer.from("damage"),
  );
}

t.test("recover --explain tells the plan and changes nothing", async (t) => {
  const { dir, seen, recipe } = openGolden(t, "flip-mid-log");
  const before = fingerprint(dir);
  const at = seen.commitLog.maxOffset;
  const plan = await explain(dir, "--config", JSON.stringify(recipe.config));
  const place = { offset: at, position: at, path: logFile(dir) };
  t.match(plan.forcelog, {
    cleanStop: false,
    scanStart: { offset: 0 },
    scannedRecords: 29,
    end: 18370,
    cut: null,
    holes: [{ ...place, covered: true, size: 611 }],
    gaps: [],
    vanished: null,
    misplaced: [],
    rebuiltQueues: [],
    removedFiles: [logFile(dir, 65536)],
    recordsBehind: 0,
  });
  t.notOk("evidence" in plan.forcelog.holes[0]!, "nothing was kept");
  t.same(
    plan.rocketmq.map(({ version }) => version),
    ["5.5", "5.3", "4.9"],
  );
  for (const theirs of plan.rocketmq) {
    t.match(theirs, {
      refusal: null,
      end: at,
      stop: { ...place, reason: /BODYCRC/ },
      recordsLost: 20,
      bytesLost: 18370 - at,
      deletedFiles: [logFile(dir, 65536)],
    });
  }
  const { code, out } = await forcelog("recover", "--dir", dir, "--explain");
  t.equal(code, 0);
  t.match(
    out,
    `would cover 611 bytes of damage at ${at}, position ${at} of ${logFile(dir)}: BODYCRC`,
  );
  t.match(out, /^RocketMQ 5\.5 +would read 9 records from 0 on /m);
  t.match(out, `would cut the log at ${at}, position ${at} of ${logFile(dir)}: BODYCRC`);
  t.match(out, /would lose 20 whole records, 12871 bytes/);
  t.match(out, "would drop the messages 5 to 14 of queue Torn/0\n");
  t.equal(fingerprint(dir), before, "nothing was changed");
  const cut = await explain(dir, "--config", '{"damagedLogPolicy": "cut"}');
  t.match(cut.forcelog, { cut: place, holes: [], end: at, recordsBehind: 20 });
  t.equal(fingerprint(dir), before, "nothing was changed");
});

t.test(
  "recover --explain tells of lost queues, of missing files and of files that Java refuses",
  async (t) => {
    const { dir } = await threeFiles(t);
    rmSync(join(dir, "consumequeue"), { recursive: true });
    rmSync(logFile(dir, 65536));
    const before = fingerprint(dir);
    const plan = await explain(dir, ...CONFIG);
    t.match(plan.forcelog, { rebuiltQueues: ["T/0"], gaps: [{ offset: 65536, size: 65536 }] });
    // Theirs knows no gap: it appends the units one behind the other.
    t.match(plan.rocketmq[0], { queues: [{ topic: "T", queueId: 0, max: 7, misplaced: 2 }] });
    const { out } = await forcelog("recover", "--dir", dir, "--explain", ...CONFIG);
    t.match(out, "would give 2 messages of queue T/0 wrong offsets");
    t.match(out, "files of the log are missing: 65536 bytes");
    t.equal(fingerprint(dir), before, "nothing was changed");
    writeFileSync(logFile(dir, 196608), "short");
    const withShort = fingerprint(dir);
    const short = await explain(dir, ...CONFIG);
    t.match(short.rocketmq[0], { refusal: `${logFile(dir, 196608)} has 5 bytes, 65536 are due` });
    t.equal(fingerprint(dir), withShort, "nothing was changed");
  },
);

t.test("recover carries it out, and says what it did and where the bytes are", async (t) => {
  const { dir, places } = await threeFiles(t);
  damage(dir, places[11]!);
  damage(dir, places[10]!);
  writeFileSync(join(dir, "abort"), "1");
  rmSync(join(dir, "checkpoint"));
  const { code, out, err } = await forcelog("recover", "--dir", dir, ...CONFIG);
  t.equal(code, 0, err);
  const { offset } = places[10]!;
  t.match(
    out,
    `cut the log at ${offset}, position ${offset - 131072} of ${logFile(dir, 131072)}: BODYCRC`,
  );
  const [evidence] = readdirSync(join(dir, "forcelog")).filter((name) => name.startsWith("cut-"));
  t.match(out, `kept in ${join(dir, "forcelog", evidence!)}`);
  t.notOk(existsSync(join(dir, "abort")), "it was closed");
  const again = await forcelog("recover", "--dir", dir, "--json", ...CONFIG);
  t.equal(again.code, 0);
  t.match(JSON.parse(again.out), {
    forcelog: { cleanStop: true, cut: null, holes: [], end: offset },
  });
});

t.test("repair mends damage in files that a recovery does not read", async (t) => {
  const { dir, places } = await threeFiles(t);
  damage(dir, places[2]!);
  const damaged = readFileSync(logFile(dir)).subarray(places[2]!.offset, places[3]!.offset);
  const recovered = await forcelog("recover", "--dir", dir, "--json", ...CONFIG);
  t.match(JSON.parse(recovered.out), { forcelog: { holes: [] } }, "not found");
  const { code, out, err } = await forcelog("repair", "--dir", dir, ...CONFIG);
  t.equal(code, 0, err);
  const { offset, size } = places[2]!;
  t.match(out, `covered ${size} bytes`);
  t.match(out, ` of damage at ${offset}, position ${offset} of ${logFile(dir)}: BODYCRC`);
  const [name] = readdirSync(join(dir, "forcelog")).filter((file) => file.startsWith("hole-"));
  t.match(out, `kept in ${join(dir, "forcelog", name!)}`);
  t.ok(readFileSync(join(dir, "forcelog", name!)).equals(damaged), "byte for byte");
  const { rocketmq } = await explain(dir, ...CONFIG);
  for (const { version, end } of rocketmq) t.equal(end, places[11]!.offset + size, version);
  const second = await forcelog("repair", "--dir", dir, "--json", ...CONFIG);
  t.equal(second.code, 0);
  t.match(JSON.parse(second.out), { forcelog: { holes: [], cut: null } });
  const cat = await forcelog("cat", dir, "--topic", "T", "--json");
  t.same(
    jsonLines(cat.out).map(({ queueOffset }) => queueOffset),
    [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11],
  );
});

t.test("repair says what it cannot mend, with exit code 1", async (t) => {
  const { dir } = await threeFiles(t);
  rmSync(logFile(dir, 65536));
  const gap = await forcelog("repair", "--dir", dir, ...CONFIG);
  t.equal(gap.code, 1);
  t.match(gap.out, "files of the log are missing: 65536 bytes");
  t.match(gap.err, "Cannot bring back files of the log: 1 gap");
  const json = await forcelog("repair", "--dir", dir, "--json", ...CONFIG);
  t.equal(json.code, 1);
  t.match(JSON.parse(json.out), { forcelog: { gaps: [{ offset: 65536, size: 65536 }] } });
});

t.test("recover and repair refuse what they cannot open", async (t) => {
  const { dir } = await threeFiles(t);
  for (const verb of ["recover", "repair"]) {
    const usage = await forcelog(verb);
    t.equal(usage.code, 2);
    const missing = await forcelog(verb, "--dir", join(dir, "nothing"));
    t.equal(missing.code, 1);
    t.match(missing.err, /Cannot open .*nothing/);
    const strange = await forcelog(verb, "--dir", join(dir, "commitlog"));
    t.equal(strange.code, 1);
    t.match(strange.err, /Cannot find a store/);
    const sizes = await forcelog(
      verb,
      "--dir",
      dir,
      "--config",
      '{"mappedFileSizeCommitLog": 4096}',
    );
    t.equal(sizes.code, 1);
    t.match(sizes.err, "65536 bytes, 4096 are due");
    const help = await forcelog("help", verb);
    t.equal(help.code, 0);
    t.match(help.out, "--dir <directory>");
  }
});

t.test(
  "recover and repair leave a store alone that somebody has open; explaining does no harm",
  async (t) => {
    const { dir } = await threeFiles(t);
    const store = await MessageStore.open(dir, SIZES, { onWarning: () => undefined }).catch(
      (error: { code?: string }) => error.code,
    );
    if (typeof store !== "object" || !("put" in store)) {
      t.comment(`no lock of any kind here: ${store}`);
      return;
    }
    const before = fingerprint(dir);
    for (const verb of ["recover", "repair"]) {
      const { code, out, err } = await forcelog(verb, "--dir", dir, ...CONFIG);
      t.equal(code, 1);
      t.equal(out, "");
      t.match(err, `process ${process.pid}`, "it says who");
    }
    await explain(dir, ...CONFIG);
    t.equal(fingerprint(dir), before, "nothing was changed");
    await store.close();
  },
);
