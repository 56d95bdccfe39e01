// Reads: RocketMQ's own store and ours answer alike about the same directory, whoever wrote it.

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: whoever carries out a script fills in the number of the repeat

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import {
  JAVA_VERSIONS,
  type JavaVersion,
  type Line,
  type Oracle,
  type Script,
} from "../support/oracle.ts";
import { copyOf, dump, oracleFor, run } from "./forcelog.ts";
import { script } from "./scripts.ts";
import { difference, isRecord } from "./views.ts";

type Read = Readonly<Record<string, unknown>>;

const MESSAGES = 500;

/** A queue of several files, one with tags here and there, a small one, one of large messages. */
const STEPS = [
  { topic: "Long", repeat: MESSAGES, body: "${i}", async: true },
  { topic: "Tagged", repeat: 300, body: "${i}", tags: "other", async: true },
  { topic: "Tagged", repeat: 3, body: "${i}", tags: "TagA" },
  { topic: "Tagged", repeat: 40, body: "${i}", tags: "TagB" },
  { topic: "Tagged", repeat: 3, body: "${i}", tags: "TagA" },
  { topic: "Tagged", repeat: 10, body: "${i}" },
  { topic: "Far", repeat: 900, body: "${i}", tags: "other", async: true },
  { topic: "Far", body: "at last", tags: "TagA" },
  { topic: "Small", queueId: 2, repeat: 10, body: "${i}", keys: "k${i}", properties: { a: "ä" } },
  { topic: "Sizes", repeat: 40, body: { size: 1500, seed: 3 } },
  { topic: "Sizes", body: { size: 30_000, seed: 4 } },
  { topic: "Sizes", body: { size: 20_000, seed: 5 }, bornHost: "[::1]:5", storeHost: "[::2]:6" },
  { topic: "Sizes", repeat: 5, body: "small" },
  { topic: "Pay", sysFlag: 4, body: "prepared" },
  { topic: "Pay", sysFlag: 8, body: "committed", preparedTransactionOffset: 12 },
  { topic: "Clash", body: "1", tags: "Aa" },
  { topic: "Clash", body: "2", tags: "BB" },
  { topic: "Clash", body: "3", tags: "AaAa" },
  { topic: "Clash", body: "4", tags: "Aa" },
  { op: "waitDispatched" },
];

function get(topic: string, offset: number, more: Read = {}): Read {
  return { read: "getMessage", topic, offset, ...more };
}

const GETS: readonly Read[] = [
  // The table of statuses: below, at and behind both ends.
  ...[-1_000_000, -1, 0, 1, 8, 9, 10, 11, 1000, 2 ** 40].map((offset) =>
    get("Small", offset, { queueId: 2 }),
  ),
  // How many at once, and over the end of a queue file.
  ...[0, 1, 2, 31, 32, 33, 64, 1000].flatMap((maxMsgNums) =>
    [0, 50, 95, 99, 100, MESSAGES - 3, MESSAGES - 1].map((offset) =>
      get("Long", offset, { maxMsgNums }),
    ),
  ),
  // Tags: none that fits, few, several, all; from several places.
  ...["TagA", "TagB", "TagA || TagB", "TagC", "*", "", "other||TagA"].flatMap((tags) =>
    [0, 200, 290, 300, 302, 345, 349, 355, 356].map((offset) => get("Tagged", offset, { tags })),
  ),
  ...[1, 3, 32, 100].map((maxMsgNums) => get("Tagged", 300, { tags: "TagA || TagB", maxMsgNums })),
  ...[0, 50, 100, 850, 899, 900].flatMap((offset) =>
    [1, 32, 850].map((maxMsgNums) => get("Far", offset, { tags: "TagA", maxMsgNums })),
  ),
  // Bytes: the first message passes whatever its size.
  ...[0, 20, 38, 39, 40, 41, 42, 45].map((offset) => get("Sizes", offset)),
  get("Pay", 0),
  get("Pay", 1),
];

const QUEUES_IN_TIME: readonly [string, number][] = [
  ["Long", 0],
  ["Tagged", 0],
  ["Small", 2],
  ["Sizes", 0],
  ["Pay", 0],
  ["Unknown", 0],
];

const OTHERS: readonly Read[] = [
  { read: "queue", topic: "Long" },
  { read: "queue", topic: "Small", queueId: 2 },
  { read: "queue", topic: "Pay" },
  { read: "unit", topic: "Long", offset: 0 },
  { read: "unit", topic: "Long", offset: 123 },
  { read: "unit", topic: "Long", offset: MESSAGES },
  { read: "unit", topic: "Sizes", offset: 41 },
  { read: "store" },
];

/** Times before, at, between and behind those of a log. */
function timesOf(records: readonly { readonly storeTimestamp?: number }[]): number[] {
  const times = records.flatMap(({ storeTimestamp }) => storeTimestamp ?? []);
  const some = times.filter((_, i) => i % Math.ceil(times.length / 20) === 0);
  const ends = [0, (times[0] ?? 0) - 1, (times.at(-1) ?? 0) + 1, 2 ** 42];
  return [...new Set([...some, ...some.map((time) => time + 1), ...ends])];
}

/** What a search by time has to find, from each of these queues. */
function byTime(queues: readonly [string, number][], times: readonly number[]): Read[] {
  return queues.flatMap(([topic, queueId]) =>
    times.flatMap((time) =>
      ["LOWER", "UPPER"].map((boundary) => ({
        read: "offsetByTime",
        topic,
        queueId,
        time,
        boundary,
      })),
    ),
  );
}

/** Limits of one read, as they are and small ones; and messages that count as old. */
function limitsOf(version: JavaVersion): Readonly<Record<string, Script["config"]>> {
  return {
    usual: {},
    small: {
      maxTransferBytesOnMessageInMemory: 10_000,
      maxTransferCountOnMessageInMemory: 7,
      // 4.9 knows only the usual value.
      ...(isVersion4(version) ? {} : { maxFilterMessageSize: 2000 }),
    },
    old: { accessMessageInMemoryMaxRatio: 0 },
  };
}

function isVersion4(version: JavaVersion): boolean {
  return version.startsWith("4.");
}

const oracle = oracleFor(t);

async function readWith(
  who: "we" | JavaVersion,
  oracle: Oracle,
  dir: string,
  config: Script["config"],
  reads: readonly Read[],
): Promise<readonly Line[]> {
  const copy = copyOf(dir);
  const wanted = { ...script([], config), reads };
  const lines =
    who === "we" ? await run(copy, wanted) : await oracle.run(who, "read", copy, wanted);
  rmSync(copy, { recursive: true, force: true });
  return lines.filter((line) => "read" in line);
}

function write(who: "we" | JavaVersion, oracle: Oracle, dir: string): Promise<readonly Line[]> {
  const wanted = script(STEPS, { flushDiskType: "ASYNC_FLUSH" });
  return who === "we" ? run(dir, wanted) : oracle.run(who, "write", dir, wanted);
}

/** Where the answers differ. */
function differences(
  version: JavaVersion,
  theirs: readonly Line[],
  ours: readonly Line[],
): string[] {
  return theirs.flatMap((line, i) => {
    let wanted = line;
    // 4.9 confirms nothing without a slave, and looks for the first message in too many bytes.
    if (isVersion4(version) && "confirmOffset" in line) {
      const { confirmOffset, earliestMessageTime } = ours[i] as Line;
      wanted = { ...line, confirmOffset, earliestMessageTime };
    }
    // And where the log has a blank it makes up a message without a topic.
    if (isVersion4(version) && (line.message as { topic?: string } | null)?.topic === "") {
      wanted = { ...line, message: null };
    }
    const different = difference(wanted, ours[i]);
    return different === undefined ? [] : [`${JSON.stringify(line.read)}${different}`];
  });
}

if (oracle) {
  t.jobs = 4;
  for (const version of JAVA_VERSIONS) {
    for (const writer of ["we", version] as const) {
      t.test(`${version} and we read what ${writer} wrote`, async (t) => {
        const dir = join(t.testdir({ store: {} }), "store");
        await write(writer, oracle, dir);
        // Every message once by its offset, the ends of the log, and the blanks that close files.
        const { commitLog } = await dump(dir, script([], {}).config);
        const places = commitLog.records
          .filter((entry, i) => !isRecord(entry) || i % 7 === 0 || entry.topic.startsWith("S"))
          .map(({ offset }) => offset);
        const lookups = [...places, commitLog.maxOffset, 2 ** 40].map((offset) => ({
          read: "lookMessageByOffset",
          offset,
        }));
        // 4.9 answers with the nearest message, whichever side it is on.
        const times = isVersion4(version) ? [] : timesOf(commitLog.records.filter(isRecord));
        const searches = byTime(QUEUES_IN_TIME, times);
        for (const [name, limits] of Object.entries(limitsOf(version))) {
          const reads = name === "usual" ? [...GETS, ...OTHERS, ...lookups, ...searches] : GETS;
          const theirs = await readWith(version, oracle, dir, limits, reads);
          const ours = await readWith("we", oracle, dir, limits, reads);
          t.equal(ours.length, reads.length);
          t.same(differences(version, theirs, ours), [], `${reads.length} reads, ${name} limits`);
        }
      });
    }
  }

  t.test("where our answers are meant to differ, they differ as they are meant to", async (t) => {
    const dir = join(t.testdir({ store: {} }), "store");
    await write("we", oracle, dir);
    const reads = [get("Unknown", 0), get("Unknown", 5), get("Clash", 0, { tags: "Aa" })];
    for (const version of JAVA_VERSIONS) {
      const theirs = await readWith(version, oracle, dir, {}, reads);
      const ours = await readWith("we", oracle, dir, {}, reads);
      t.match(theirs, [
        { status: "NO_MESSAGE_IN_QUEUE", nextBeginOffset: 0 },
        { status: "NO_MESSAGE_IN_QUEUE", nextBeginOffset: 0 },
        { status: "FOUND", nextBeginOffset: 4 },
      ]);
      t.match(ours, [
        { status: "NO_MATCHED_LOGIC_QUEUE", nextBeginOffset: 0 },
        { status: "NO_MATCHED_LOGIC_QUEUE", nextBeginOffset: 0 },
        { status: "FOUND", nextBeginOffset: 4 },
      ]);
      const queueOffsets = (line: Line | undefined): unknown[] =>
        ((line?.messages ?? []) as [number][]).map(([queueOffset]) => queueOffset);
      t.same(queueOffsets(theirs[2]), [0, 1, 3], "equal hashes are let through");
      t.same(queueOffsets(ours[2]), [0, 3], "the tag itself decides");
    }
  });

  t.test("a log whose front is gone: queues begin where it begins", async (t) => {
    const dir = join(t.testdir({ store: {} }), "store");
    const steps = [
      { topic: "T", queues: 3, repeat: 900, body: { size: 500, seed: 1 }, async: true },
      { topic: "Gone", body: "from here on", from: 0 },
    ];
    await run(dir, script([{ topic: "Gone", body: "only here" }, ...steps], {}));
    // One log file: less than a queue file's worth of messages.
    rmSync(join(dir, "commitlog", "0".repeat(20)));
    t.equal(readdirSync(join(dir, "consumequeue", "T", "0")).length, 3);
    const reads = [-1, 0, 10, 40, 41, 60, 100, 299, 300, 301]
      .flatMap((offset) => [0, 1, 2].map((queueId) => get("T", offset, { queueId })))
      .concat([0, 1, 2].map((queueId) => ({ read: "queue", topic: "T", queueId })))
      .concat([{ read: "queue", topic: "Gone" }, { read: "store" }]);
    for (const version of JAVA_VERSIONS) {
      const theirs = await readWith(version, oracle, dir, {}, reads);
      const ours = await readWith("we", oracle, dir, {}, reads);
      t.same(differences(version, theirs, ours), [], version);
    }
  });
}
