// forcelog stats: figures of a store from outside, as text and as JSON, of a closed and of an open one.

import t from "tap";
import { FakeClock } from "../../lib/testing/mod.ts";
import { fingerprint, forcelog } from "../support/command.ts";
import { message, openStore, putMany, storePath } from "../support/stores.ts";

t.test("stats tells what a closed store holds", async (t) => {
  const dir = storePath(t);
  const clock = new FakeClock();
  const { store } = await openStore(t, dir, {}, { clock });
  const first = clock.now();
  await putMany(store, 3, { topic: "A" });
  await clock.advance(1000);
  await store.put(message("", { topic: "A", queueId: 1, keys: ["k"] }));
  await putMany(store, 2, { topic: "B" });
  await putMany(store, 1, { topic: "C" });
  await store.deleteTopics(["C"]);
  store.offsets.commit({ group: "g", topic: "A", offset: 1 });
  store.offsets.commit({ group: "g", topic: "B", offset: 2 });
  store.delayOffsets.set(2, 0);
  const end = store.watermarks.wrote;
  await store.close();
  const before = fingerprint(dir);
  const { code, out, err } = await forcelog("stats", "--dir", dir, "--json");
  t.same([code, err], [0, ""]);
  const json = JSON.parse(out);
  t.match(json, {
    directory: dir,
    earliestTime: first,
    newestTime: first + 1000,
    commitLog: { minOffset: 0, maxOffset: end },
    consumeQueues: { topics: 2, queues: 3, messages: 6, files: 3 },
    index: { files: 1 },
    behind: { log: 0, queues: 0, index: 0 },
    topics: [
      { topic: "A", queues: 2, messages: 4, earliestTime: first, newestTime: first + 1000 },
      { topic: "B", queues: 1, messages: 2, earliestTime: first + 1000 },
    ],
    queues: [
      { topic: "A", queueId: 0, minOffset: 0, maxOffset: 3, messages: 3, newestTime: first },
      { queueId: 1, messages: 1 },
      { topic: "B" },
    ],
    groups: [{ group: "g", queues: 2, behind: 2 }],
    delayLevels: [{ level: 2, offset: 0, maxOffset: 0 }],
    deletedTopics: [{ topic: "C", below: end }],
  });
  for (const { diskRatio } of [json.commitLog, json.consumeQueues]) {
    t.ok(diskRatio > 0 && diskRatio <= 1, `${diskRatio}`);
  }
  const text = await forcelog("stats", "--dir", dir);
  t.same([text.code, text.err], [0, ""]);
  t.match(text.out, new RegExp(`^commit log +0 to ${end}: `, "m"));
  t.match(text.out, /^group +g: 2 messages behind in 2 queues$/m);
  t.match(text.out, /^deleted +C: /m);
  t.match(text.out, /^A +2 +4 +\d{4}-.*Z +\d{4}-.*Z$/m);
  t.match((await forcelog("stats", "--dir", dir, "--queues")).out, /^A +1 +0 +1 +1 +\d{4}-/m);
  t.equal(fingerprint(dir), before, "nothing was changed");
});

t.test("stats may look at a store that is open, and tells what the checkpoint lacks", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, 3);
  const json = JSON.parse((await forcelog("stats", "--dir", dir, "--json")).out);
  const end = store.watermarks.wrote;
  t.match(json, {
    commitLog: { maxOffset: end },
    behind: { log: end, queues: end },
    topics: [{ topic: "T", messages: 3 }],
  });
  await store.close();
});

t.test("stats of an empty store", async (t) => {
  const dir = storePath(t);
  await (await openStore(t, dir)).store.close();
  const { code, out } = await forcelog("stats", "--dir", dir);
  t.equal(code, 0);
  t.match(out, /^messages +stored never to never$/m);
  t.match(await forcelog("stats", "--dir", `${dir}-none`), { code: 1, err: /Cannot open/ });
});
