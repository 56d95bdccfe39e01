// Queues that know more than the log has: what an open makes of them is what the next ones find.

import t from "tap";
import { MessageStore, type QueueBounds, type StoreOptions } from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { baseOf } from "../support/hostile_bases.ts";
import { ImageFileSystem } from "../support/image_file_system.ts";
import type { StoreImage } from "../support/store_image.ts";
import { type Mutation, mutate } from "../support/store_mutator.ts";

const FIRST = "commitlog/00000000000000000000";
const LAST = "commitlog/00000000000000131072";
const GOLDEN_QUEUE = "consumequeue/TopicTest/0/00000000000000000000";

const CASES: Readonly<Record<string, readonly [base: string, ...mutations: Mutation[]]>> = {
  "a unit behind the end of a log that is cut": [
    "crc",
    { do: "bytes", path: "consumequeue/Other/0/00000000000000000000", at: 2, hex: "00000001" },
    { do: "bytes", path: "commitlog/00000000000000008192", at: 1290, hex: "cbd43194cbd43194" },
  ],
  "units that were moved by a part of one": [
    "golden:v498-mixed",
    { do: "copy", path: GOLDEN_QUEUE, at: 32, length: 65536, to: GOLDEN_QUEUE, toAt: 144 },
  ],
  "a log that lost its last file": ["golden:v498-mixed", { do: "remove", path: LAST }],
  "a log that lost its last file, and its first message": [
    "golden:v498-mixed",
    { do: "bytes", path: FIRST, at: 0, hex: "00100000cbd43194" },
    { do: "remove", path: LAST },
  ],
  "a record in the place of another one": [
    "golden:expired-front",
    { do: "copy", path: LAST, at: 32392, length: 107, to: LAST, toAt: 25808 },
    { do: "bytes", path: LAST, at: 25836, hex: "00000000000264d0" },
  ],
  "a queue whose only message is damaged": [
    "golden:delay",
    { do: "bytes", path: FIRST, at: 0, hex: "cbd43194cbd43194" },
  ],
};

for (const [what, [name, ...mutations]] of Object.entries(CASES)) {
  t.test(`recover() settles a store with ${what} at once`, async (t) => {
    for (const damagedLogPolicy of ["keep", "cut"] as const) {
      for (const checkCRCOnRecover of [true, false]) {
        const { image, options } = await baseOf(name);
        const damaged = image.fork();
        for (const mutation of mutations) mutate(damaged, mutation);
        const opens = new Opens(damaged, { ...options, damagedLogPolicy, checkCRCOnRecover });
        const read = await opens.open(true);
        const first = await opens.open();
        const second = await opens.open();
        const mode = `${damagedLogPolicy}, ${checkCRCOnRecover}`;
        t.strictSame(first.queues, read.queues, mode);
        t.strictSame(second.queues, first.queues, mode);
        t.equal(second.end, first.end, mode);
        t.match(second.store.recovery, { rebuiltQueues: [], holes: [], cut: undefined }, mode);
      }
    }
  });
}

t.test("recover() loses no message of a queue with one damaged unit", async (t) => {
  for (const [index, hex, isSeen] of [
    // It leads behind the end of the log: after a clean stop nobody looks at all units.
    [0, "00000000ffffffff000000640000000000000000", false],
    [3, "00000000ffffffff000000640000000000000000", false],
    // None at all.
    [0, "0000000000000000000000000000000000000000", true],
    [3, "0000000000000000000000000000000000000000", true],
    [3, "8000000000000000000000640000000000000000", true],
  ] as const) {
    for (const isKilled of [false, true]) {
      const { image, options } = await baseOf("crc");
      const damaged = image.fork();
      const opens = new Opens(damaged, options);
      const before = await opens.open(true);
      const path = "consumequeue/Other/0/00000000000000000000";
      mutate(damaged, { do: "bytes", path, at: 20 * index, hex });
      if (isKilled) {
        mutate(damaged, { do: "file", path: "abort", hex: "31", size: 1 });
        // As a Java store leaves it: nothing counts the units.
        mutate(damaged, { do: "fill", path: "checkpoint", at: 2048, length: 2048, byte: 0 });
      }
      const after = await opens.open();
      t.strictSame(after.queues, before.queues, `unit ${index}, killed ${isKilled}`);
      t.equal(after.store.recovery.rebuiltQueues.includes("Other/0"), isKilled || isSeen);
    }
  }
});

t.test("recover() of the whole log believes no record against all those behind it", async (t) => {
  const { image, options } = await baseOf("golden:pre-blank");
  const damaged = image.fork();
  const path = "commitlog/00000000000000065536";
  mutate(damaged, { do: "bytes", path, at: 20, hex: "000000000000005b" });
  const opens = new Opens(damaged, { ...options, recoverWholeLog: true });
  for (const number of [1, 2, 3]) {
    const { queues } = await opens.open();
    t.strictSame(
      queues.map(({ maxOffset }) => maxOffset),
      [51, 50],
      `open ${number}`,
    );
  }
});

t.test("a blank record of a wrong size is damage after a clean stop, too", async (t) => {
  const { image, options } = await baseOf("light");
  const damaged = image.fork();
  mutate(damaged, { do: "bytes", path: FIRST, at: 2263, hex: "6eac5e4dcbd43194" });
  const opens = new Opens(damaged, options);
  const { store, end } = await opens.open();
  t.match(store.recovery, { cleanStop: true, cut: undefined, holes: [{ offset: 2263 }] });
  t.equal(end, 2965, "the records behind it are kept");
  t.equal((await opens.open()).end, end);
});

/** One store, opened and closed again and again. */
class Opens {
  readonly #image: StoreImage;
  readonly #options: StoreOptions;

  constructor(image: StoreImage, options: StoreOptions) {
    this.#image = image;
    this.#options = options;
  }

  async open(
    readOnly = false,
  ): Promise<{ store: MessageStore; queues: QueueBounds[]; end: number }> {
    const fileSystem = new ImageFileSystem(this.#image);
    const environment = { fileSystem, clock: new FakeClock(), readOnly };
    const store = await MessageStore.open(fileSystem.root, this.#options, {
      ...environment,
      onWarning: () => undefined,
    });
    // One that is empty may go with its last file.
    const queues = store.queues().filter(({ minOffset, maxOffset }) => minOffset < maxOffset);
    const end = store.watermarks.wrote;
    await store.close();
    return { store, queues, end };
  }
}
