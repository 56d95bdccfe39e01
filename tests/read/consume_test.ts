import t from "tap";
import { Arrivals } from "../../lib/dispatch/arrivals.ts";
import type { StoredMessage } from "../../lib/message/record.ts";
import { type ConsumeRequest, type ConsumeSource, consume } from "../../lib/read/consume.ts";
import { turns } from "../support/random.ts";
import { ReadRig } from "../support/read_rig.ts";
import { message, openStore, putMany, storePath } from "../support/stores.ts";

/** A source on a rig; counts what is asked of it. */
function sourceOf(rig: ReadRig) {
  const arrivals = new Arrivals();
  const asked = { get: 0, wait: 0 };
  let closed = false;
  const source: ConsumeSource = {
    get: async (request) => {
      asked.get++;
      return rig.reader.get(request);
    },
    bounds: (topic, queueId) => {
      const queue = rig.queues.find(topic, queueId);
      return { min: queue?.min ?? 0, max: queue?.max ?? 0 };
    },
    arrival: (topic, queueId, signal) => {
      asked.wait++;
      return arrivals.wait(topic, queueId, signal);
    },
    closed: () => closed,
  };
  return {
    source,
    asked,
    arrivals,
    close: () => {
      closed = true;
      arrivals.wakeAll();
    },
    put: async (count: number, more = {}) => {
      await rig.messages(count, more);
      arrivals.wake("T", 0);
    },
  };
}

async function take(
  messages: AsyncGenerator<StoredMessage, void, void>,
  count: number,
): Promise<number[]> {
  const found: number[] = [];
  while (found.length < count) {
    const { value, done } = await messages.next();
    if (done) break;
    found.push(value.queueOffset);
  }
  return found;
}

const range = (from: number, end: number) => Array.from({ length: end - from }, (_, i) => from + i);

t.test("consume() yields what is there, in order, however many calls that takes", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeConsumeQueue: 200 });
  await rig.messages(75);
  const { source } = sourceOf(rig);
  for (const [from, first] of [
    [undefined, 0],
    ["earliest", 0],
    [0, 0],
    [33, 33],
    [-5, 0],
  ] as const) {
    const request: ConsumeRequest = { topic: "T", ...(from === undefined ? {} : { from }) };
    const messages = consume(request, source);
    t.strictSame(await take(messages, 75 - first), range(first, 75), `from ${from}`);
    await messages.return();
  }
});

t.test("consume() waits for more, and is woken", async (t) => {
  const rig = new ReadRig(t);
  const { source, asked, put } = sourceOf(rig);
  const messages = consume({ topic: "T" }, source);
  const first = take(messages, 3);
  await turns(5);
  t.equal(asked.wait, 1, "waits for a queue that is not there yet");
  await put(2);
  await turns(5);
  await put(1);
  t.strictSame(await first, [0, 1, 2]);
  const next = messages.next();
  await turns(20);
  t.ok(asked.get < 8, `no busy loop: ${asked.get} calls`);
  const calls = asked.get;
  await turns(20);
  t.equal(asked.get, calls);
  await put(1);
  t.equal((await next).value?.queueOffset, 3);
});

t.test('consume() from "latest" yields only what comes', async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(5);
  const { source, put } = sourceOf(rig);
  const messages = consume({ topic: "T", from: "latest" }, source);
  const found = take(messages, 2);
  await turns(5);
  await put(2);
  t.strictSame(await found, [5, 6]);
});

t.test("consume() follows the store from an offset beyond the end", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(3);
  const { source, put, asked } = sourceOf(rig);
  const messages = consume({ topic: "T", from: 1000 }, source);
  const found = take(messages, 1);
  await turns(10);
  t.ok(asked.get <= 3 && asked.wait === 1, "corrected once, then it waits");
  await put(1);
  t.strictSame(await found, [3]);
});

t.test("consume() with a filter goes on without a match, and waits at the end", async (t) => {
  const rig = new ReadRig(t, { mappedFileSizeConsumeQueue: 200 });
  await rig.messages(55, { tags: "TagA" });
  const { source, put, asked } = sourceOf(rig);
  const messages = consume({ topic: "T", filter: "TagB" }, source);
  const found = take(messages, 1);
  await turns(30);
  t.equal(asked.wait, 1);
  t.ok(asked.get <= 8, `${asked.get} calls`);
  await put(1, { tags: "TagA" });
  await turns(10);
  await put(1, { tags: "TagB" });
  t.strictSame(await found, [56]);
});

t.test("consume() ends when its store closes, waiting or not", async (t) => {
  const rig = new ReadRig(t);
  const { source, close } = sourceOf(rig);
  await rig.messages(2);
  const messages = consume({ topic: "T" }, source);
  t.strictSame(await take(messages, 2), [0, 1]);
  const end = messages.next();
  await turns(5);
  close();
  t.strictSame(await end, { value: undefined, done: true });
});

t.test(
  "consume() throws the reason of its signal, before, between and while waiting",
  async (t) => {
    const rig = new ReadRig(t);
    await rig.messages(2);
    const { source } = sourceOf(rig);
    const reason = new Error("enough");
    await t.rejects(
      consume({ topic: "T", signal: AbortSignal.abort(reason) }, source).next(),
      reason,
    );

    const between = new AbortController();
    const first = consume({ topic: "T", signal: between.signal }, source);
    await first.next();
    between.abort(reason);
    await t.rejects(first.next(), reason);
    t.strictSame(await first.next(), { value: undefined, done: true });

    const waiting = new AbortController();
    const second = consume({ topic: "T", from: "latest", signal: waiting.signal }, source);
    const next = second.next();
    await turns(5);
    waiting.abort(reason);
    await t.rejects(next, reason);
  },
);

t.test("consume() throws what the store throws", async (t) => {
  const rig = new ReadRig(t);
  await rig.messages(2);
  const { source } = sourceOf(rig);
  const failing = { ...source, get: () => Promise.reject(new Error("EIO")) };
  await t.rejects(consume({ topic: "T" }, failing).next(), /EIO/);
});

t.test("MessageStore.consume() sees each message once while producers put", async (t) => {
  const { store } = await openStore(t, storePath(t));
  const seen: number[] = [];
  const consumer = (async () => {
    for await (const { queueOffset } of store.consume({ topic: "T" })) {
      seen.push(queueOffset);
      if (seen.length === 600) break;
    }
  })();
  await Promise.all([putMany(store, 200), putMany(store, 200), putMany(store, 200)]);
  await consumer;
  t.strictSame(seen, range(0, 600));
});

t.test("MessageStore.close() ends those who consume", async (t) => {
  const { store } = await openStore(t, storePath(t));
  await store.put(message("a"));
  const ends = ["T", "U"].map(async (topic) => {
    let count = 0;
    for await (const _ of store.consume({ topic })) count++;
    return count;
  });
  await turns(20);
  await store.close();
  t.strictSame(await Promise.all(ends), [1, 0]);
});
