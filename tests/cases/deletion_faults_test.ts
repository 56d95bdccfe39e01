// Reported faults (F..) and RocketMQ's weaknesses (W..) of deleting topics: what is right here.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { turns } from "../support/random.ts";
import {
  bodies,
  checkStore,
  eachBinding,
  killedCopy,
  MODES,
  message,
  openStore,
  putMany,
  storePath,
} from "../support/stores.ts";

t.test("F14 a deleted topic does not come back after a restart", async (t) => {
  for (const [name, mode] of Object.entries(MODES)) {
    for (const flushed of [false, true]) {
      const dir = storePath(t, `${name}-${flushed}`);
      const { store } = await openStore(t, dir, mode);
      await putMany(store, 3, { topic: "A" });
      await putMany(store, 3, { topic: "B" });
      if (flushed) await store.checkpoint();
      await store.deleteTopics(["A"]);
      const killed = killedCopy(t, dir);
      await store.close();
      for (const place of [dir, killed]) {
        const { store: again } = await openStore(t, place, mode);
        t.strictSame(
          again.queues().map(({ topic }) => topic),
          ["B"],
        );
        t.strictSame(readdirSync(join(place, "consumequeue")), ["B"]);
        t.strictSame(await bodies(again, "B"), ["0", "1", "2"]);
        await again.close();
      }
    }
  }
});

eachBinding(t, "F53 a topic is deleted while it is put to", async (t, binding) => {
  for (const [name, mode] of Object.entries(MODES)) {
    const dir = storePath(t, name);
    const { store } = await openStore(t, dir, mode, { binding });
    let over = false;
    let put = 0;
    const caller = async (queueId: number): Promise<void> => {
      for (; !over; put++) {
        const topic = put % 5 === 0 ? "B" : "A";
        await store.put(message(`${put}`, { topic, queueId }));
      }
    };
    const reader = async (): Promise<void> => {
      for (let offset = 0; !over; ) {
        offset = (await store.get({ topic: "A", offset })).nextBeginOffset;
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const working = [caller(0), caller(0), caller(1), reader()];
    for (let i = 0; i < 12; i++) {
      await store.deleteTopics(["A"]);
      await new Promise((resolve) => setImmediate(resolve));
    }
    over = true;
    await Promise.all(working);
    const { queueOffset } = await store.put(message("last", { topic: "A" }));
    const max = store.maxOffset("A");
    if (!mode.transientStorePoolEnable) t.equal(queueOffset, max - 1);
    await store.flush();
    const { messages } = await store.get({ topic: "A", offset: queueOffset });
    t.equal(messages[0]?.body.toString(), "last");
    await checkStore(t, store, dir);
    const killed = killedCopy(t, dir);
    const bounds = store.queues();
    await store.close();
    for (const place of [dir, killed]) {
      const { store: again } = await openStore(t, place, mode);
      t.strictSame(again.queues(), bounds);
      await checkStore(t, again, place);
      await again.close();
    }
  }
});

t.test("F66 nothing of the statistics of deleted topics stays", async (t) => {
  const { store } = await openStore(t, storePath(t));
  for (let i = 0; i < 1000; i++) {
    const topic = `T${i}`;
    await store.put(message("", { topic }));
    await store.get({ topic, offset: 0, group: "g" });
    if (i % 10 === 0) store.statItems();
    await store.deleteTopics([topic]);
  }
  t.strictSame(store.stats().topics, []);
  t.strictSame(
    store.statItems().filter(({ key }) => key !== ""),
    [],
  );
  const [puts] = store.statItems("BROKER_PUT_NUMS");
  t.equal(puts?.value, 1000);
  t.equal(puts?.times, 1000);
  t.strictSame(store.queues(), []);
  await store.close();
});

t.test(
  "W12 a topic that was deleted gives no offset twice, and its old records to nobody",
  async (t) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir);
    await putMany(store, 5, { topic: "A" });
    store.offsets.commit({ group: "g", topic: "A", offset: 5 });
    await store.deleteTopics(["A"]);
    t.equal(store.offsets.get({ group: "g", topic: "A" }), undefined);
    // A consumer that has not heard of it commits once more.
    store.offsets.commit({ group: "g", topic: "A", offset: 5 });
    await putMany(store, 2, { topic: "A" });
    const killed = killedCopy(t, dir);
    await store.close();
    for (const place of [dir, killed]) {
      const { store: again, warnings } = await openStore(t, place);
      const { nextBeginOffset } = await again.get({ topic: "A", offset: 5 });
      const { messages } = await again.get({ topic: "A", offset: nextBeginOffset });
      t.strictSame(
        messages.map(({ body }) => body.toString()),
        ["0", "1"],
      );
      t.strictSame(warnings, []);
      await again.close();
    }
  },
);

t.test(
  "a topic that is made anew gives each of its offsets once, whatever is under way",
  async (t) => {
    const { store, fileSystem } = await openStore(t, storePath(t), { flushDiskType: "SYNC_FLUSH" });
    await putMany(store, 1, { topic: "A" });
    await store.checkpoint();
    await store.deleteTopics(["A"]);
    const held = fileSystem.hold(["fdatasync", "commitAndForce"], { path: /commitlog/ });
    const first = store.put(message("one", { topic: "A" }));
    await held.waiting;
    const second = store.put(message("two", { topic: "A" }));
    await turns(5);
    held.release();
    const { queueOffset } = await first;
    const third = store.put(message("three", { topic: "A" }));
    t.strictSame(
      [(await second).queueOffset, (await third).queueOffset],
      [queueOffset + 1, queueOffset + 2],
    );
    const { messages } = await store.get({ topic: "A", offset: queueOffset });
    t.strictSame(
      messages.map(({ body }) => body.toString()),
      ["one", "two", "three"],
    );
  },
);

t.test(
  "a topic comes back with queues of the other type, and goes on behind its offsets",
  async (t) => {
    const attributes = { "queue.type": "BatchCQ" };
    for (const [before, after] of [
      ["SimpleCQ", "BatchCQ"],
      ["BatchCQ", "SimpleCQ"],
    ] as const) {
      const dir = storePath(t, `${before}-${after}`);
      const options = { enableConsumeQueueExt: true };
      const { store, fileSystem } = await openStore(t, dir, options);
      const set = (type: string): unknown =>
        type === "BatchCQ" ? store.topics.update("A", { attributes }) : undefined;
      await set(before);
      await putMany(store, 3, { topic: "A" });
      await store.checkpoint();
      // What is left of its files must not keep the store from opening.
      fileSystem.failNext("unlink", "EIO", { path: /consumequeue/ });
      await t.rejects(store.deleteTopics(["A"]), { code: "STORE_IO" });
      await set(after);
      const { queueOffset } = await store.put(message("new", { topic: "A" }));
      t.ok(queueOffset >= 3 && Number.isInteger(queueOffset), `${queueOffset}`);
      await store.checkpoint();
      const killed = killedCopy(t, dir);
      await store.close();
      for (const place of [dir, killed]) {
        const { store: again } = await openStore(t, place, options);
        const { messages } = await again.get({ topic: "A", offset: queueOffset });
        t.strictSame(
          messages.map(({ body }) => body.toString()),
          ["new"],
          `${before}, ${after}`,
        );
        t.equal((await again.put(message("next", { topic: "A" }))).queueOffset, queueOffset + 1);
        await again.close();
      }
    }
  },
);
