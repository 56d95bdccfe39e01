import { rmSync } from "node:fs";
import t from "tap";
import type { MessageStore, TimeBoundary } from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { openGolden } from "../support/golden.ts";
import { randomOf, seedOf } from "../support/random.ts";
import { eachBinding, logFile, message, openStore, storePath } from "../support/stores.ts";

const START = Date.UTC(2024, 0, 1);

/** Puts one message at each of these times, after the start. */
async function putAt(
  store: MessageStore,
  clock: FakeClock,
  times: readonly number[],
  size = 10,
  queueId = 0,
): Promise<void> {
  for (const time of times) {
    clock.setWall(START + time);
    await store.put(message("".padEnd(size, "."), { queueId }));
  }
}

/** Where a look at every message finds the same. */
function searched(times: readonly number[], time: number, boundary: TimeBoundary, min = 0): number {
  const left = times.filter((one) => (boundary === "lower" ? one < time : one <= time)).length;
  return Math.max(boundary === "lower" ? left : left - 1, min);
}

async function both(store: MessageStore, time: number, queueId = 0): Promise<[number, number]> {
  const request = { topic: "T", queueId, timestamp: START + time };
  return [
    await store.offsetByTime(request),
    await store.offsetByTime({ ...request, boundary: "upper" }),
  ];
}

t.test("offsetByTime() in the cases that RocketMQ's answers are known of", async (t) => {
  const clock = new FakeClock(START);
  const { store } = await openStore(t, storePath(t), {}, { clock });
  await putAt(store, clock, [1, 1, 1, 3, 3]);
  for (const [time, lower, upper] of [
    [2, 3, 2],
    [1, 0, 2],
    [3, 3, 4],
    [0, 0, 0],
    [9, 5, 4],
  ] as const) {
    t.same(await both(store, time), [lower, upper], `at ${time}`);
  }
});

t.test("offsetByTime() of queues without messages, and of wrong requests", async (t) => {
  const clock = new FakeClock(START);
  const { store } = await openStore(t, storePath(t), {}, { clock });
  t.same(await both(store, 5), [0, 0], "there is no such queue");
  t.same(store.queues(), [], "and asking makes none");
  t.equal(await store.earliestMessageTime(), undefined);
  await putAt(store, clock, [4]);
  t.same(await both(store, 5), [1, 0]);
  t.equal(await store.earliestMessageTime(), START + 4);
  t.equal(await store.earliestMessageTime("T"), START + 4);
  t.equal(await store.earliestMessageTime("T", 1), undefined);
  for (const [offset, time] of [
    [-1, undefined],
    [0, START + 4],
    [1, undefined],
  ] as const) {
    t.equal(await store.messageStoreTime("T", 0, offset), time, `${offset}`);
  }
  await t.rejects(store.offsetByTime({ topic: "T", timestamp: 0.5 }), RangeError);
  const boundary = "LOWER" as TimeBoundary;
  await t.rejects(store.offsetByTime({ topic: "T", timestamp: 1, boundary }), TypeError);
  await store.close();
  await t.rejects(store.offsetByTime({ topic: "T", timestamp: 1 }), { code: "STORE_CLOSED" });
});

eachBinding(t, "offsetByTime() agrees with a look at every message", async (t, binding) => {
  const seed = seedOf(t);
  const random = randomOf(seed);
  const dir = storePath(t);
  const clock = new FakeClock(START);
  const { store } = await openStore(t, dir, {}, { binding, clock });
  const times: number[] = [];
  let time = 10;
  for (let i = 0; i < 400; i++) {
    // Groups of equal times, and leaps.
    if (random(4) === 0) time += random(3) === 0 ? random(1000) : 1;
    times.push(time);
  }
  await putAt(store, clock, times, 700);
  const check = async (of: MessageStore, min: number, what: string): Promise<void> => {
    for (let i = 0; i < 150; i++) {
      const asked = random(2) === 0 ? (times[random(times.length)] ?? 0) : random(time + 20);
      const wanted = [searched(times, asked, "lower", min), searched(times, asked, "upper", min)];
      t.same(await both(of, asked), wanted, `${what}, at ${asked}`);
    }
    for (let i = 0; i < 20; i++) {
      const offset = random(times.length);
      const wanted = offset < min ? undefined : START + (times[offset] as number);
      t.equal(await of.messageStoreTime("T", 0, offset), wanted);
    }
  };
  await check(store, 0, "in memory");
  await store.close();
  // The first files of the log are gone, and those of the queue are not.
  rmSync(logFile(dir, 0));
  rmSync(logFile(dir, 65_536));
  const { store: again } = await openStore(t, dir, {}, { binding });
  const min = again.minOffset("T");
  t.ok(min > 100 && min % 100 !== 0, `the queue begins at ${min}, within a file`);
  t.equal(await again.earliestMessageTime("T"), START + (times[min] as number));
  t.equal(await again.earliestMessageTime(), START + (times[min] as number));
  await check(again, min, "without its front");
});

t.test("offsetByTime() passes over lost messages and missing files", async (t) => {
  const dir = storePath(t);
  const clock = new FakeClock(START);
  const { store } = await openStore(t, dir, {}, { clock });
  const times = Array.from({ length: 300 }, (_, i) => i * 10);
  await putAt(store, clock, times, 700);
  await store.close();
  const { store: whole } = await openStore(t, dir);
  const missing: number[] = [];
  for (const offset of times.keys()) {
    const [unit] = await whole.units({ topic: "T", from: offset, count: 1 });
    if (Math.floor((unit?.physicalOffset ?? 0) / 65_536) === 1) missing.push(offset);
  }
  await whole.close();
  rmSync(logFile(dir, 65_536));
  const { store: again } = await openStore(t, dir);
  const [first, last] = [missing[0] as number, missing.at(-1) as number];
  for (const offset of [0, 1, first - 1, last + 1, 298, 299]) {
    t.same(await both(again, offset * 10), [offset, offset], `${offset}`);
  }
  for (const offset of [first, last - 3, last]) {
    t.same(await both(again, offset * 10), [last + 1, first - 1], `${offset} is lost`);
  }
});

t.test("offsetByTime() needs few reads", async (t) => {
  const clock = new FakeClock(START);
  const { store, fileSystem } = await openStore(t, storePath(t), {}, { clock });
  await putAt(
    store,
    clock,
    Array.from({ length: 1000 }, (_, i) => i),
  );
  await store.checkpoint();
  const before = fileSystem.calls.length;
  t.same(await both(store, 617), [617, 617]);
  const reads = fileSystem.calls.length - before;
  t.ok(reads <= 2 * 2 * 2 * 11, `${reads} calls for 1000 messages, twice`);
});

t.test("offsetByTime() in a store that RocketMQ wrote", async (t) => {
  const { dir, recipe, expected } = openGolden(t, "queue-rolled");
  const { store } = await openStore(t, dir, recipe.config, { readOnly: true });
  for (const { topic, queueId, min, max } of expected.queues as readonly {
    readonly topic: string;
    readonly queueId: number;
    readonly min: number;
    readonly max: number;
  }[]) {
    if (max === min) continue;
    const times: number[] = [];
    for (let offset = min; offset < max; offset++) {
      times.push((await store.messageStoreTime(topic, queueId, offset)) ?? Number.NaN);
    }
    for (const timestamp of new Set(times.flatMap((time) => [time - 1, time, time + 1]))) {
      for (const boundary of ["lower", "upper"] as const) {
        t.equal(
          await store.offsetByTime({ topic, queueId, timestamp, boundary }),
          searched(times, timestamp, boundary, 0) + min,
          `${topic}/${queueId} ${boundary} ${timestamp}`,
        );
      }
    }
  }
});
