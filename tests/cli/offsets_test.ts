// forcelog topics and offsets: what config/ says, as text and as JSON; and setting an offset.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { fingerprint, forcelog } from "../support/command.ts";
import { openStore, putMany, SMALL, storePath } from "../support/stores.ts";

const CONFIG = ["--config", JSON.stringify(SMALL)];

async function made(t: Test): Promise<string> {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  await putMany(store, 10, { queueId: 1 });
  await store.topics.update("T", { readQueueNums: 2, attributes: { "message.type": "FIFO" } });
  await store.topics.ensure("TBW102");
  await store.groups.update("g", { consumeEnable: false });
  store.offsets.commit({ group: "g", topic: "T", queueId: 1, offset: 7 });
  store.offsets.commit({ group: "h", topic: "T", queueId: 1, offset: 10 });
  store.offsets.commit({ group: "h", topic: "U", offset: 3 });
  await store.close();
  return dir;
}

t.test("topics lists topics, and groups", async (t) => {
  const dir = await made(t);
  const before = fingerprint(dir);
  const { code, out, err } = await forcelog("topics", dir);
  t.same([code, err], [0, ""]);
  t.same(
    out
      .trimEnd()
      .split("\n")
      .map((line) => line.trim().split(/ {2,}/)),
    [
      ["TOPIC", "READ QUEUES", "WRITE QUEUES", "PERM", "ORDER", "ATTRIBUTES"],
      ["T", "2", "16", "RW-", "no", "message.type=FIFO"],
      ["TBW102", "8", "8", "RWX", "no"],
    ],
  );
  const json = JSON.parse((await forcelog("topics", dir, "--json")).out);
  t.match(json.topics, [{ topicName: "T", attributes: { "message.type": "FIFO" } }, { perm: 7 }]);
  t.match((await forcelog("topics", dir, "--groups")).out, /\ng +no +16 +1\n/);
  t.match(JSON.parse((await forcelog("topics", dir, "--groups", "--json")).out), {
    groups: [{ groupName: "g", consumeEnable: false }],
  });
  t.equal(fingerprint(dir), before, "nothing was changed");
});

t.test("topics --delete deletes topics", async (t) => {
  const dir = await made(t);
  const { code, out, err } = await forcelog("topics", dir, ...CONFIG, "--delete", "T", "none");
  t.equal(code, 1);
  t.match(err, /Cannot delete topic "none": there is none/);
  t.notMatch(out, /^T /m);
  t.match(out, /^TBW102 /m);
  t.notMatch((await forcelog("ls", dir)).out, /^T /m);
  t.match(JSON.parse((await forcelog("offsets", dir, "--json")).out), {
    offsets: [{ topic: "U" }],
  });
  const own = await forcelog("topics", dir, ...CONFIG, "--delete", "TBW102");
  t.match([own.code, own.err], [1, /one of RocketMQ's own/]);
});

t.test("offsets lists how far groups have come", async (t) => {
  const dir = await made(t);
  const before = fingerprint(dir);
  const rows = async (...args: string[]) =>
    (await forcelog("offsets", dir, ...args)).out
      .trimEnd()
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/ +/).join(" "));
  t.same(await rows(), ["T g 1 7 0 10 3", "T h 1 10 0 10 0", "U h 0 3 0 0 -3"]);
  t.same(await rows("--behind"), ["T g 1 7 0 10 3", "U h 0 3 0 0 -3"]);
  t.same(await rows("--group", "h", "--topic", "T"), ["T h 1 10 0 10 0"]);
  t.same(await rows("--queue", "0"), ["U h 0 3 0 0 -3"]);
  t.same(JSON.parse((await forcelog("offsets", dir, "--group", "g", "--json")).out), {
    offsets: [{ topic: "T", group: "g", queueId: 1, offset: 7, min: 0, max: 10, behind: 3 }],
  });
  t.equal(fingerprint(dir), before, "nothing was changed");
});

t.test("offsets --set commits one", async (t) => {
  const dir = await made(t);
  const set = ["--group", "g", "--topic", "T", "--queue", "1", "--set", "4"];
  const { code, out } = await forcelog("offsets", dir, ...set, "--json", ...CONFIG);
  t.equal(code, 0);
  t.match(JSON.parse(out), { offsets: [{ offset: 4, behind: 6 }] });
  const { offsetTable } = JSON.parse(readFileSync(join(dir, "config/consumerOffset.json"), "utf8"));
  t.same(offsetTable, { "T@g": { 1: 4 }, "T@h": { 1: 10 }, "U@h": { 0: 3 } });
  for (const args of [
    ["--set", "4"],
    ["--group", "g", "--topic", "T", "--set", "-1"],
    ["--group", "g", "--set", "x"],
  ]) {
    t.equal((await forcelog("offsets", dir, ...args)).code, 2, args.join(" "));
  }
});
