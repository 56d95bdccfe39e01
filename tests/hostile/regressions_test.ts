// Damage that once did harm, one case each; every case runs in several modes, with reads and puts around it.

import t from "tap";
import { MessageStore, type StoreOptions } from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { baseOf } from "../support/hostile_bases.ts";
import { failureText, HostileRun } from "../support/hostile_run.ts";
import { ImageFileSystem } from "../support/image_file_system.ts";
import { putStatus, rejection } from "../support/rejections.ts";
import { type Forged, forge, type Mutation, mutate } from "../support/store_mutator.ts";

const SEEDS = 6;

const PLAIN: Forged = {
  topic: Buffer.from("T"),
  properties: Buffer.alloc(0),
  queueId: 0,
  queueOffset: 0n,
  storeTimestamp: 1_700_000_000_000n,
  sysFlag: 0,
};

/** A whole record behind the last one of the base. */
async function withRecord(base: string, fields: Partial<Forged>): Promise<Mutation[]> {
  const { survey } = await baseOf(base);
  const end = survey.ends.at(-1);
  if (!end) throw new Error("there is no log");
  const offset = Number(end.path.slice(-20)) + end.at;
  const bytes = forge({ ...PLAIN, ...fields }, offset, Buffer.from("forged"));
  return [{ do: "bytes", path: end.path, at: end.at, hex: bytes.toString("hex") }];
}

function unit(path: string, index: number, hex: string): Mutation {
  return { do: "bytes", path, at: 20 * index, hex };
}

const text = (...properties: string[]): Buffer =>
  Buffer.from(properties.map((property) => `${property.replace("=", "\x01")}\x02`).join(""));

const UNIT_BEYOND = "7fffffffffffffff000000640000000000000000";
const DEEP = "consumequeue/D/0/00000000000000000000";
const FIRST = "commitlog/00000000000000000000";
const QUEUE = "consumequeue/T/0/00000000000000000000";
const LAST_OF_SYNC = "commitlog/00000000000000012288";
const LAST_OF_CRC = "commitlog/00000000000000008192";
const LAST_OF_GOLDEN = "commitlog/00000000000000131072";
const GOLDEN_QUEUE = "consumequeue/TopicTest/0/00000000000000000000";

const CASES: Readonly<
  Record<string, readonly [base: string, mutations: () => Promise<Mutation[]>]>
> = {
  ...Object.fromEntries(
    ["", ".", "..", "../../x", "a/b", "../../../../../../tmp/x", "\0", "t".repeat(256)].map(
      (topic) => [
        `a record of topic ${JSON.stringify(topic).slice(0, 30)}`,
        ["sync", () => withRecord("sync", { topic: Buffer.from(topic) })] as const,
      ],
    ),
  ),
  "a record whose topic is no UTF-8": [
    "sync",
    () => withRecord("sync", { topic: Buffer.alloc(120, 0xff) }),
  ],
  ...Object.fromEntries(
    [-1, -(2 ** 31), 1_000_000_000, 2 ** 31 - 1].map((queueId) => [
      `a record of queue ${queueId}`,
      ["sync", () => withRecord("sync", { queueId })] as const,
    ]),
  ),
  ...Object.fromEntries(
    [-1n, 2n ** 40n, 2n ** 48n, 2n ** 48n + 1n, 2n ** 53n - 1n, 2n ** 63n - 1n].map(
      (queueOffset) => [
        `a record at queue offset ${queueOffset}`,
        ["sync", () => withRecord("sync", { queueOffset })] as const,
      ],
    ),
  ),
  "a record that names folders as light queues": [
    "light",
    () =>
      withRecord("light", {
        properties: text(
          "INNER_MULTI_DISPATCH=..,.,,%LMQ%c,a/b,\0",
          "INNER_MULTI_QUEUE_OFFSET=0,1,2,3,4,5",
        ),
      }),
  ],
  "a record of nothing but separators": [
    "sync",
    () => withRecord("sync", { properties: Buffer.alloc(700, 2) }),
  ],
  "a unit beyond 2^53 in the middle of a queue": [
    "deep",
    async () => [unit(DEEP, 100, UNIT_BEYOND)],
  ],
  "a unit beyond 2^53 at the front of a queue": ["deep", async () => [unit(DEEP, 0, UNIT_BEYOND)]],
  "a unit beyond 2^53 in a store that was killed": [
    "killed-deep",
    async () => [unit(DEEP, 119, UNIT_BEYOND)],
  ],
  "a file under a name that another one has in fewer digits": [
    "sync",
    async () => [{ do: "clone", path: FIRST, to: "commitlog/000000000000000000000" }],
  ],
  "a queue under a name that another one has in fewer digits": [
    "sync",
    async () => [{ do: "clone", path: "consumequeue/T/0", to: "consumequeue/T/00" }],
  ],
  "a gap of petabytes in the log": [
    "sync",
    async () => [{ do: "clone", path: FIRST, to: "commitlog/00004503599627366400" }],
  ],
  "a gap of petabytes in a queue": [
    "sync",
    async () => [{ do: "clone", path: QUEUE, to: "consumequeue/T/0/00004503599627370000" }],
  ],
  "two names of one file": [
    "sync",
    async () => [
      { do: "remove", path: QUEUE },
      { do: "link", path: QUEUE, target: "/store/consumequeue/T/1/00000000000000000000" },
    ],
  ],
  "a pipe as the checkpoint": ["sync", async () => [{ do: "other", path: "checkpoint" }]],
  "a pipe as the abort file": ["sync", async () => [{ do: "other", path: "abort" }]],
  "a folder as the checkpoint": ["sync", async () => [{ do: "directory", path: "checkpoint" }]],
  "a log file that may not be read": ["sync", async () => [{ do: "deny", path: FIRST }]],
  "a unit behind the end of the log, those behind it not": [
    "sync",
    async () => [{ do: "bytes", path: QUEUE, at: 4, hex: "00ffffff" }],
  ],
  "a unit behind the end of a log that was cut": [
    "crc",
    async () => [
      { do: "bytes", path: "consumequeue/Other/0/00000000000000000000", at: 2, hex: "00000001" },
      { do: "bytes", path: LAST_OF_CRC, at: 1290, hex: "cbd43194cbd43194" },
    ],
  ],
  "units that were moved by a part of one": [
    "golden:v498-mixed",
    async () => [
      { do: "copy", path: GOLDEN_QUEUE, at: 32, length: 65536, to: GOLDEN_QUEUE, toAt: 144 },
    ],
  ],
  "a log that lost its last file": [
    "golden:v498-mixed",
    async () => [{ do: "remove", path: LAST_OF_GOLDEN }],
  ],
  "a record in the place of another one, where the log is cut": [
    "golden:expired-front",
    async () => [
      { do: "copy", path: LAST_OF_GOLDEN, at: 32392, length: 107, to: LAST_OF_GOLDEN, toAt: 25808 },
      { do: "bytes", path: LAST_OF_GOLDEN, at: 25836, hex: "00000000000264d0" },
    ],
  ],
  "a blank record of a wrong size before the last records, met after a clean stop": [
    "light",
    async () => [
      { do: "file", path: "abort", hex: "31", size: 1 },
      { do: "bytes", path: FIRST, at: 2263, hex: "6eac5e4dcbd43194" },
    ],
  ],
  "a queue whose only message is damaged, in a log with a hole": [
    "golden:delay",
    async () => [{ do: "bytes", path: FIRST, at: 0, hex: "cbd43194cbd43194" }],
  ],
  "a blank record of a wrong size in the place of the last record, and a damaged topic before it": [
    "sync",
    async () => [
      { do: "bytes", path: LAST_OF_SYNC, at: 3182, hex: "04cc91fecbd43194" },
      { do: "bytes", path: FIRST, at: 2409, hex: "cbd43194" },
    ],
  ],
  "a queue that lost its first file, and a log that ends before what its second one knows": [
    "golden:pre-blank",
    async () => [
      { do: "remove", path: "consumequeue/Pre/1/00000000000000000000" },
      { do: "bytes", path: LAST_OF_GOLDEN, at: 84, hex: "00000014" },
    ],
  ],
  "filler units behind the messages of a queue": [
    "golden:v1-basic",
    async () => [
      { do: "bytes", path: GOLDEN_QUEUE, at: 60, hex: "00000000000000007fffffff0000000000000000" },
    ],
  ],
  "a file of the largest size": [
    "one",
    async () => [{ do: "resize", path: QUEUE, size: Number.MAX_SAFE_INTEGER }],
  ],
};

for (const [what, [base, make]] of Object.entries(CASES)) {
  t.test(`a store with ${what} does no harm`, async (t) => {
    const run = new HostileRun();
    const mutations = await make();
    for (let seed = 1; seed <= SEEDS; seed++) await run.trial({ base, seed, mutations });
    for (const { plan, error } of run.failures) t.fail(failureText(error), { plan });
    t.equal(run.failures.length, 0, `${[...run.outcomes.keys()]}`);
  });
}

/** Opens the base with its damage. */
async function opened(
  t: import("tap").Test,
  base: string,
  mutations: readonly Mutation[],
  options: StoreOptions = {},
): Promise<MessageStore> {
  const found = await baseOf(base);
  const image = found.image.fork();
  for (const mutation of mutations) mutate(image, mutation);
  const fileSystem = new ImageFileSystem(image);
  const store = await MessageStore.open(
    fileSystem.root,
    { ...found.options, ...options },
    { fileSystem, clock: new FakeClock(), onWarning: () => undefined },
  );
  t.teardown(() => store.close());
  return store;
}

t.test(
  "a damaged unit is told with its file and position, and those around it are read",
  async (t) => {
    const store = await opened(t, "deep", [unit(DEEP, 100, UNIT_BEYOND)]);
    const place = { code: "STORE_QUEUE_DAMAGED", path: `/store/${DEEP}`, position: 2000 };
    t.match(await rejection(store.get({ topic: "D", offset: 100 })), place);
    t.match(await rejection(store.units({ topic: "D", from: 100 })), place);
    t.equal((await store.units({ topic: "D", from: 90 })).length, 10, "those before it");
    const after = await store.get({ topic: "D", offset: 101, maxMessages: 1 });
    t.match(after, { status: "FOUND", nextBeginOffset: 102 });
  },
);

t.test("a queue that a damaged record moved to the end of all offsets takes no more", async (t) => {
  const mutations = await withRecord("sync", { topic: Buffer.from("Far"), queueOffset: 2n ** 48n });
  const store = await opened(t, "sync", mutations, { recoverWholeLog: true });
  const far = store.queues().find(({ topic }) => topic === "Far");
  if (far) {
    t.equal(
      await putStatus(store.put({ topic: "Far", body: Buffer.from("x") })),
      "MESSAGE_ILLEGAL",
    );
  }
  t.equal((await store.put({ topic: "Near", body: Buffer.from("x") })).queueOffset, 0);
});
