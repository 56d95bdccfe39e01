// Damaged stores: opening, reading and writing one works or fails with a proper error. More of them, and
// for as long as one likes: `npm run fuzz`.

import t from "tap";
import { MessageStore, StoreError } from "../../lib/mod.ts";
import { baseNames, baseOf } from "../support/hostile_bases.ts";
import { failureText, HostileRun } from "../support/hostile_run.ts";
import { type Opener, planOf } from "../support/hostile_trial.ts";
import { ImageFileSystem } from "../support/image_file_system.ts";
import { sliceSeedOf } from "../support/random.ts";

/** How long the random part takes at most, and how many stores are enough. */
const RANDOM_MS = 20_000;
const ROUNDS = 400;

t.test("every base store opens undamaged, whatever is asked of it", async (t) => {
  const run = new HostileRun();
  for (const base of baseNames()) {
    await run.trial({ base, seed: 1, mutations: [] });
  }
  for (const { plan, error } of run.failures) t.fail(`${plan.base}: ${failureText(error)}`);
  t.equal(run.failures.length, 0);
  const refused = [...run.outcomes.keys()].filter(
    (name) => !/^read ok, write (ok|cut)$/.test(name),
  );
  t.strictSame(refused, []);
});

t.test("a damaged store works or says what is wrong, and where", async (t) => {
  const seed = sliceSeedOf(t);
  const run = new HostileRun();
  const startedAt = performance.now();
  for (let round = 0; round < ROUNDS; round++) {
    if (performance.now() - startedAt > RANDOM_MS) break;
    await run.round(seed, round);
  }
  for (const { plan, error } of run.failures) {
    t.fail(failureText(error), { replay: `npm run fuzz -- --replay '${JSON.stringify(plan)}'` });
  }
  t.comment(`${run.trials} stores`);
  run.checkHeap();
  t.equal(run.failures.length, 0);
});

t.test("a trial follows from its plan alone", async (t) => {
  const plans = await Promise.all([planOf(7, 3), planOf(7, 3), planOf(7, 4)]);
  t.strictSame(plans[0], plans[1]);
  t.notSame(plans[0], plans[2]);
  const outcomes = await Promise.all(
    plans.slice(0, 2).map(async (plan) => {
      const run = new HostileRun();
      await run.trial(plan);
      return [[...run.outcomes], [...run.errors], run.failures.map(({ error }) => `${error}`)];
    }),
  );
  t.strictSame(outcomes[0], outcomes[1]);
});

/** Stores with a fault that the harness has to find. */
const CANARIES: Readonly<Record<string, readonly [open: Opener, finding: RegExp]>> = {
  "throws a TypeError": [
    async () => (undefined as unknown as { readonly x: never }).x,
    /TypeError: Cannot read properties of undefined/,
  ],
  "throws an error that does not say where": [
    async () => {
      throw new StoreError("STORE_IO", "Cannot do it");
    },
    /STORE_IO without a path/,
  ],
  "says what makes no sense": [
    async () => {
      throw new StoreError("STORE_IO", "Cannot read 5 bytes at NaN", { path: "/store" });
    },
    /It says .*NaN/,
  ],
  "reads behind the end of a file": [
    watching(async (fs) => {
      const file = await fs.open(`${fs.root}/checkpoint`, "read");
      await file.pread(Buffer.alloc(4), 10_000);
      await file.close();
    }),
    /reads 4 bytes of .*checkpoint at 10000/,
  ],
  "reads before the start of a file": [
    watching(async (fs) => {
      const file = await fs.open(`${fs.root}/checkpoint`, "read");
      await file.pread(Buffer.alloc(4), -4).catch(() => undefined);
      await file.close();
    }),
    /reads .*checkpoint at -4/,
  ],
  "believes a length": [
    watching(async () => {
      Buffer.alloc(2 ** 25);
    }),
    /A buffer of 33554432 bytes/,
  ],
  "asks for ever": [
    watching(async (fs) => {
      for (;;) await fs.stat(fs.root);
    }),
    /took \d+ system calls/,
  ],
  "reads the same for ever": [
    watching(async (fs) => {
      const file = await fs.open(`${fs.root}/commitlog/${"0".repeat(20)}`, "read");
      for (;;) await file.pread(Buffer.alloc(65536), 0);
    }),
    /took reads of \d+ bytes/,
  ],
  "waits for ever": [watching(() => new Promise(() => undefined)), /never ends/],
  "leaves a file open": [
    watching(async (fs) => {
      await fs.open(`${fs.root}/checkpoint`, "read");
    }),
    /left 1 files open/,
  ],
  "makes a file of another name": [
    watching(async (fs) => {
      await (await fs.open(`${fs.root}/commitlog/x`, "create")).close();
    }),
    /makes \/store\/commitlog\/x/,
  ],
  "leaves the store's directory": [
    watching(async (fs) => {
      await fs.mkdir(`${fs.root}/../elsewhere`);
    }),
    /changes .*outside of the store/,
  ],
  "loses what it acknowledged": [
    async (...args) => {
      const store = await MessageStore.open(...args);
      return new Proxy(store, {
        get: (target, name) => {
          if (name === "lookup") return async () => undefined;
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    },
    /was acknowledged and is not there/,
  ],
};

/** Opens the store as it should be, after something that should not. */
function watching(misdeed: (fs: ImageFileSystem) => Promise<unknown>): Opener {
  return async (directory, options, environment) => {
    const { fileSystem } = environment ?? {};
    if (fileSystem instanceof ImageFileSystem) await misdeed(fileSystem);
    return MessageStore.open(directory, options, environment);
  };
}

for (const [what, [open, finding]] of Object.entries(CANARIES)) {
  t.test(`a store that ${what} is found`, async (t) => {
    const run = new HostileRun(open);
    await run.trial({ base: "sync", seed: 1, mutations: [] });
    t.equal(run.failures.length, 1);
    t.match(failureText(run.failures[0]?.error), finding);
  });
}

t.test("of many mutations those are told that a failure needs", async (t) => {
  const { survey } = await baseOf("sync");
  const [path, other] = survey.logFiles as [string, string];
  const open: Opener = async (...args) => {
    const fs = args[2]?.fileSystem as ImageFileSystem;
    if ((await fs.stat(`${fs.root}/${path}`)).size < 4096) throw new TypeError("the canary");
    return MessageStore.open(...args);
  };
  const run = new HostileRun(open);
  const short = { do: "resize", path, size: 1000 } as const;
  const flip = { do: "bytes", path: other, at: 100, hex: "ff" } as const;
  const gone = { do: "remove", path: survey.queueFiles[0] as string } as const;
  await run.trial({ base: "sync", seed: 1, mutations: [flip, short, gone] });
  t.match(run.failures, [{ plan: { mutations: [short] }, count: 1 }]);
  t.equal(run.failures[0]?.plan.mutations.length, 1);
  await run.trial({ base: "sync", seed: 2, mutations: [short] });
  t.match(run.failures, [{ count: 2 }], "the same again");
});
