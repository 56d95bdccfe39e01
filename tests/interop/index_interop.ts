// Keys that one side has indexed are found by the other: RocketMQ's own store and ours, after a clean
// stop and after a process that ended without one; also where both write to a store in turn.

import { join } from "node:path";
import t from "tap";
import { JAVA_VERSIONS, type Oracle, type Script } from "../support/oracle.ts";
import { dump, javaDump, oracleFor, run, SIZES } from "./forcelog.ts";
import type { Dump } from "./views.ts";

const oracle = oracleFor(t);

/** Index files of a few messages, and records in several log files. */
const CONFIG = { ...SIZES, maxIndexNum: 64, maxHashSlotNum: 20 };

function scriptOf(end: string, from = 0): Script {
  const put = { op: "put", topic: "Keys", queues: 2, from };
  return {
    config: CONFIG,
    steps: [
      {
        ...put,
        repeat: 60,
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the script's own
        keys: "k${i} same  Aa",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the script's own
        uniqKey: "U-${i}",
        tags: "tag",
        body: { size: 3000, seed: 1 },
      },
      { ...put, repeat: 2, keys: "BB 中文 BB", body: "x" },
      { op: "waitDispatched" },
    ],
    end,
  } as Script;
}

interface WithIndex {
  readonly index: { readonly found: Readonly<Record<string, readonly number[]>> };
}

/** Offsets by key: each once, and no more of them than RocketMQ gives. */
function foundIn(view: Dump, most = 64): Record<string, number[]> {
  const { found } = (view as unknown as WithIndex).index;
  return Object.fromEntries(
    Object.entries(found)
      .map(([key, offsets]) => [key, [...new Set(offsets)].sort((a, b) => a - b)] as const)
      .filter(([, offsets]) => offsets.length <= most / 2),
  );
}

/** RocketMQ compares no keys: of equal hashes it finds both. */
function unmixed(found: Record<string, number[]>): Record<string, number[]> {
  const { "Keys#Aa": _, "Keys#BB": __, ...rest } = found;
  return rest;
}

async function both(java: Oracle, version: (typeof JAVA_VERSIONS)[number], dir: string) {
  const ours = await dump(dir, CONFIG);
  const theirs = await javaDump(java, version, dir, CONFIG);
  return { ours: unmixed(foundIn(ours)), theirs: unmixed(foundIn(theirs)) };
}

if (oracle) {
  t.jobs = 2;
  t.testdir();
  for (const version of JAVA_VERSIONS) {
    t.test(`${version} finds the keys that we indexed`, async (t) => {
      const dir = join(t.testdir({ store: {} }), "store");
      await run(dir, scriptOf("shutdown"));
      const { ours, theirs } = await both(oracle, version, dir);
      t.ok(Object.keys(ours).length > 120);
      t.same(theirs, ours);
    });

    t.test(
      `we find the keys that ${version} indexed, and those that it lost in a crash`,
      async (t) => {
        for (const end of ["shutdown", "halt"]) {
          const dir = join(t.testdir({ store: {} }), "store");
          await oracle.run(version, "write", dir, scriptOf(end));
          const { ours, theirs } = await both(oracle, version, dir);
          t.ok(Object.keys(ours).length > 120);
          t.ok(Object.values(ours).every((offsets) => offsets.length > 0));
          if (end === "shutdown") t.same(theirs, ours);
        }
      },
    );

    t.test(`${version} and we go on with each other's index`, async (t) => {
      const dir = join(t.testdir({ store: {} }), "store");
      await run(dir, scriptOf("halt"));
      await run(dir, scriptOf("shutdown", 100));
      await oracle.run(version, "write", dir, scriptOf("shutdown", 200));
      await run(dir, scriptOf("shutdown", 300));
      const { ours, theirs } = await both(oracle, version, dir);
      for (const i of [0, 59, 100, 159, 200, 259, 300, 359]) {
        t.equal(ours[`Keys#k${i}`]?.length, 1, `k${i}`);
      }
      t.same(theirs, ours);
    });
  }
}
