import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { fingerprint, forcelog } from "../support/command.ts";
import { openGolden } from "../support/golden.ts";
import {
  bodies,
  killedCopy,
  logFile,
  openStore,
  overwrite,
  putMany,
  SMALL,
  storePath,
} from "../support/stores.ts";

const CONFIG = JSON.stringify(SMALL);

/** A killed store of 30 messages; a byte of the tenth one's body is another. */
async function damaged(t: Test, clean = false): Promise<{ dir: string; offset: number }> {
  const source = storePath(t);
  const { store } = await openStore(t, source);
  await putMany(store, 30, { size: 20 });
  const { messages } = await store.get({ topic: "T", offset: 9, maxMessages: 1 });
  const offset = messages[0]?.physicalOffset as number;
  if (clean) await store.close();
  const dir = killedCopy(t, source);
  const at = offset + 90;
  overwrite(logFile(dir), at, Buffer.from([(readFileSync(logFile(dir))[at] as number) ^ 1]));
  return { dir, offset };
}

t.test("recover --explain tells the plan and RocketMQ's, and changes nothing", async (t) => {
  const { dir, offset } = await damaged(t);
  const before = fingerprint(dir);
  const { code, out } = await forcelog("recover", "--dir", dir, "--explain", "--config", CONFIG);
  t.equal(code, 0);
  t.match(out, /last stop +not clean/);
  t.match(out, new RegExp(`would cover 112 bytes of damage at ${offset}, position ${offset} of`));
  t.match(out, /RocketMQ 5\.5 +would read 9 records from 0 on/);
  t.match(out, new RegExp(`would cut the log at ${offset}`));
  t.match(out, /would lose 20 whole records/);
  t.match(out, /would drop the messages 9 to 29 of queue T\/0|the log would end at/);
  t.equal(fingerprint(dir), before);
});

t.test("recover --explain --json tells the same", async (t) => {
  const { dir, offset } = await damaged(t);
  const cut = JSON.stringify({ ...SMALL, damagedLogPolicy: "cut" });
  for (const [config, expected] of [
    [CONFIG, { cut: null, holes: [{ offset, size: 112, covered: true }] }],
    [cut, { cut: { offset }, holes: [] }],
  ] as const) {
    const args = ["recover", "--dir", dir, "--explain", "--json", "--config", config];
    const { code, out } = await forcelog(...args);
    t.equal(code, 0);
    const plan = JSON.parse(out);
    t.match(plan.forcelog, { cleanStop: false, ...expected });
    t.match(plan.rocketmq[0], { version: "5.5", end: offset, refusal: null });
    t.equal(plan.rocketmq[0].recordsLost, config === cut ? 0 : 20, "of those that we keep");
  }
});

t.test("recover does it, says where the bytes are, and closes the store", async (t) => {
  const { dir, offset } = await damaged(t);
  const { code, out } = await forcelog("recover", "--dir", dir, "--config", CONFIG);
  t.equal(code, 0);
  const kept = readdirSync(join(dir, "forcelog")).filter((name) => name.startsWith("hole-"));
  t.equal(kept.length, 1);
  t.match(out, `covered 112 bytes of damage at ${offset}`);
  t.match(out, kept[0]);
  t.notOk(existsSync(join(dir, "abort")));
  const { store } = await openStore(t, dir);
  t.equal((await bodies(store)).length, 29);
  t.strictSame(store.recovery.holes, []);
});

t.test("repair finds damage that no recovery looks at", async (t) => {
  const source = storePath(t);
  const first = await openStore(t, source);
  await putMany(first.store, 200, { size: 1000 });
  await first.store.close();
  const dir = killedCopy(t, source);
  overwrite(logFile(dir), 2000, Buffer.alloc(10, "X"));
  const plain = await forcelog("recover", "--dir", dir, "--config", CONFIG);
  t.equal(plain.code, 0);
  t.notMatch(plain.out, /damage/);
  const { code, out } = await forcelog("repair", "--dir", dir, "--config", CONFIG, "--json");
  t.equal(code, 0);
  const { holes } = JSON.parse(out).forcelog;
  t.match(holes, [{ position: 1092, covered: true, evidence: [/hole-/] }]);
  const again = await forcelog("repair", "--dir", dir, "--config", CONFIG);
  t.equal(again.code, 0);
  t.notMatch(again.out, /damage/);
  const { store } = await openStore(t, dir);
  t.equal((await bodies(store)).length, 199);
});

t.test("recover and repair say what they cannot mend, and end with 1", async (t) => {
  const { store } = await openStore(t, storePath(t));
  await putMany(store, 200, { size: 1000 });
  const dir = killedCopy(t, storePath(t));
  rmSync(logFile(dir, 65536));
  const { code, err } = await forcelog("repair", "--dir", dir, "--config", CONFIG);
  t.equal(code, 1);
  t.match(err, /Cannot bring back files of the log: 1 gap/);
});

t.test(
  "recover and repair refuse a store in use, a folder that is none, and wrong calls",
  async (t) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir);
    await putMany(store, 3);
    for (const verb of ["recover", "repair"]) {
      const used = await forcelog(verb, "--dir", dir, "--config", CONFIG);
      t.equal(used.code, 1);
      t.match(used.err, /locked by process \d+/);
      t.equal((await forcelog(verb)).code, 2);
      t.match(await forcelog(verb, "--dir", join(dir, "none")), { code: 1, err: /Cannot open/ });
      t.match(await forcelog(verb, "--help"), { code: 0, out: /Examples/ });
    }
    const beside = await forcelog("recover", "--dir", dir, "--explain", "--config", CONFIG);
    t.equal(beside.code, 0, "a reader may stand beside a writer");
  },
);

t.test("recover --explain works for every golden store that opens", async (t) => {
  for (const name of ["v1-basic", "flip-mid-log", "torn-size", "crash-pool", "v498-crash"]) {
    const { dir, recipe } = openGolden(t, name);
    const before = fingerprint(dir);
    const config = JSON.stringify(recipe.config);
    const { code, out } = await forcelog("recover", "--dir", dir, "--explain", "--config", config);
    t.equal(code, 0, name);
    t.match(out, /RocketMQ 4\.9/);
    t.equal(fingerprint(dir), before);
  }
});
