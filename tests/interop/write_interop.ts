// What one side writes, the other side reads: RocketMQ's own store and ours, in all modes, after a
// clean stop and after a process that ended without one.

import { join } from "node:path";
import t from "tap";
import type { GoldenEntry } from "../support/golden.ts";
import { JAVA_VERSIONS, type Line } from "../support/oracle.ts";
import { dump, javaDump, MODES, oracleFor, run, SIZES } from "./forcelog.ts";
import { scriptForJava, scriptForUs, sharedSteps } from "./scripts.ts";
import { difference, faultsOf, isRecord, viewOf } from "./views.ts";

const oracle = oracleFor(t);
const ENDS = ["shutdown", "halt"] as const;
/** Every record ends in a CRC over all of it, and one without it counts as damaged. */
const PROPERTY_CRC = { enabledAppendPropCRC: true, forceVerifyPropCRC: true };
const KINDS: typeof MODES = {
  ...MODES,
  "ASYNC_FLUSH with property CRC": { ...MODES.ASYNC_FLUSH, ...PROPERTY_CRC },
};

/** What a put answered, without the time. */
function answers(lines: readonly Line[]): Line[] {
  return lines
    .filter(({ op }) => op === "put" || op === "putBatch")
    .map(({ storeTimestamp: _, ...line }) => line);
}

if (oracle) {
  t.jobs = 3;
  t.testdir();
  for (const [mode, options] of Object.entries(KINDS)) {
    for (const end of ENDS) {
      for (const version of JAVA_VERSIONS) {
        t.test(`${version} reads what we wrote: ${mode}, ${end}`, async (t) => {
          const dir = join(t.testdir({ store: {} }), "store");
          const script = scriptForUs(version, options, end);
          const lines = await run(dir, script);
          const ours = await dump(dir, script.config);
          t.same(faultsOf(ours), []);
          const theirs = await javaDump(oracle, version, dir, script.config);
          t.same(faultsOf(theirs), []);
          t.equal(difference(viewOf(theirs), viewOf(ours)), undefined);
          const records = ours.commitLog.records.filter(isRecord);
          const put = answers(lines).reduce((sum, { msgNum }) => sum + (msgNum as number), 0);
          if (mode === "pool" && end === "halt") {
            t.ok(records.length <= put, `${records.length} of ${put} messages are there`);
          } else {
            t.equal(records.length, put, "every message is there");
          }
        });

        // 4.9 has no such CRC, and keeps one that it is given like any other property.
        if (version === "4.9.8" && options.enabledAppendPropCRC) continue;
        t.test(`we read what ${version} wrote: ${mode}, ${end}`, async (t) => {
          const dir = join(t.testdir({ store: {} }), "store");
          const script = scriptForJava(version, options, end);
          const lines = await oracle.run(version, "write", dir, script);
          const ours = await dump(dir, script.config);
          t.same(faultsOf(ours), []);
          const theirs = await javaDump(oracle, version, dir, script.config);
          t.equal(difference(viewOf(theirs), viewOf(ours)), undefined);
          t.same(await dump(dir, script.config), ours, "looking has changed nothing");
          const records = ours.commitLog.records.filter(isRecord);
          t.ok(records.length > 600 && lines.length > 600, `${records.length} records`);
        });
      }
    }
  }

  for (const [version, options] of [
    ["5.3.3", {}],
    ["5.5.1", {}],
    ["5.5.1", PROPERTY_CRC],
  ] as const) {
    const kind = options === PROPERTY_CRC ? " with property CRC" : "";
    t.test(
      `${version} and we answer the same puts alike and make the same log${kind}`,
      async (t) => {
        const dir = t.testdir({ ours: {}, theirs: {} });
        const config = { ...SIZES, ...options };
        const script = { config, steps: sharedSteps(version, config), end: "shutdown" };
        const [ours, theirs] = [join(dir, "ours"), join(dir, "theirs")];
        const [ourLines, theirLines] = await Promise.all([
          run(ours, script),
          oracle.run(version, "write", theirs, script),
        ]);
        t.equal(difference(answers(theirLines), answers(ourLines)), undefined);
        const views = await Promise.all([dump(theirs, config), dump(ours, config)]);
        const comparable = views.map((one) => {
          const { records, ...rest } = viewOf(one);
          return { ...rest, records: records.map(withoutTime) };
        });
        t.equal(difference(comparable[0], comparable[1]), undefined);
      },
    );
  }
}

/** The time of a put is no two times the same, nor is what is made from all bytes of a record. */
function withoutTime(entry: GoldenEntry): unknown {
  if (!isRecord(entry)) return entry;
  const { storeTimestamp: _, sha256: __, properties, ...rest } = entry;
  const { "__CRC32#": crc, ...others } = properties ?? {};
  return { ...rest, properties: others, hasCrc: crc !== undefined };
}
