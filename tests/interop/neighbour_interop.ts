// A broker is started on the directory of an open store: its lock keeps it out, but it looks for
// the lock only after it has loaded, and what it does till then must not cost a message. And the
// other way round.

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { type Message, MessageStore, type PutResult, type StoreOptions } from "../../lib/mod.ts";
import { JAVA_VERSIONS, JavaFailed } from "../support/oracle.ts";
import { rejection } from "../support/rejections.ts";
import { dump, eachVersion, javaDump, oracleFor, SIZES } from "./forcelog.ts";
import { script } from "./scripts.ts";
import { difference, faultsOf, viewOf } from "./views.ts";

const FILE_BYTES = SIZES.mappedFileSizeCommitLog;
const SYNC: StoreOptions = { ...SIZES, flushDiskType: "SYNC_FLUSH" };

const oracle = oracleFor(t);

function message(i: number, size = 2000): Message {
  return { topic: `topic-${i % 3}`, queueId: i % 2, body: Buffer.alloc(size, i), tags: `t${i}` };
}

/**
 * SHA-256 of every file's path and bytes, but for the checkpoint: an open broker writes it every
 * second.
 */
function fingerprint(dir: string): Readonly<Record<string, string>> {
  const files = readdirSync(dir, { recursive: true }).map(String).sort();
  return Object.fromEntries(
    files
      .filter((path) => path !== "checkpoint" && statSync(join(dir, path)).isFile())
      .map((path) => [
        path,
        createHash("sha256")
          .update(readFileSync(join(dir, path)))
          .digest("hex"),
      ]),
  );
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 20_000 && !condition(); i++) await new Promise((r) => setTimeout(r, 1));
}

if (oracle) {
  t.jobs = 4;
  eachVersion(t, "a broker that comes to our open store is kept out", async (t, version) => {
    const dir = join(t.testdir({ store: {} }), "store");
    const warnings: string[] = [];
    const onWarning = (warning: string) => warnings.push(warning);
    const store = await MessageStore.open(dir, SYNC, { onWarning });
    const acknowledged: PutResult[] = [];
    const putOn = async (): Promise<void> => {
      acknowledged.push(await store.put(message(acknowledged.length)));
    };
    // Past the middle of the third file: the next one is made ahead.
    while (store.watermarks.wrote < 2.6 * FILE_BYTES) await putOn();
    const ahead = join(dir, "commitlog", String(3 * FILE_BYTES).padStart(20, "0"));
    await until(() => existsSync(ahead));
    t.ok(existsSync(ahead), "the next file is there");

    const broker = oracle.run(version, "write", dir, script([{ topic: "X", body: "never" }], {}));
    const refused = await rejection(broker);
    t.type(refused, JavaFailed);
    t.match((refused as JavaFailed).stderr, /Lock failed,\s?MQ already started/);
    t.notOk(existsSync(ahead), "it has removed the file that was made ahead");

    // What is in our hands goes on until the file that is gone is due; then nothing is lost in it.
    const refusedPut = await (async () => {
      for (;;) await putOn();
    })().catch((error: unknown) => error);
    t.match(refusedPut, { code: "STORE_PUT_FAILED", outcome: "unknown" });
    t.equal(store.state, "failed");
    t.equal(store.failure?.code, "STORE_FILES_VANISHED");
    t.match(store.failure?.message, ahead);
    t.ok(store.watermarks.flushed <= 3 * FILE_BYTES, "nothing was confirmed behind the last file");
    t.match(await rejection(store.put(message(0))), { status: "SERVICE_NOT_AVAILABLE" });
    for (const { physicalOffset, messageId } of acknowledged) {
      t.equal((await store.lookup(physicalOffset))?.messageId, messageId, "reads go on");
    }
    await store.close();
    t.ok(existsSync(join(dir, "abort")));

    const view = viewOf(await dump(dir, SIZES));
    const there = new Set(view.records.map(({ offset }) => offset));
    t.same(
      acknowledged.filter(({ physicalOffset }) => !there.has(physicalOffset)),
      [],
    );
    for (const judge of JAVA_VERSIONS) {
      const theirs = await javaDump(oracle, judge, dir, SIZES);
      t.same(faultsOf(theirs), []);
      t.equal(difference(viewOf(theirs), view), undefined, `${judge} sees the same`);
    }
    const again = await MessageStore.open(dir, SYNC, { onWarning });
    t.equal(again.watermarks.wrote, view.maxOffset);
    await again.put(message(1));
    await again.close();
  });

  eachVersion(t, "a broker that comes before our queues are on disk", async (t, version) => {
    const dir = join(t.testdir({ store: {} }), "store");
    const options: StoreOptions = { ...SIZES, flushConsumeQueueThoroughInterval: 60_000 };
    const store = await MessageStore.open(dir, options, { onWarning: () => undefined });
    const acknowledged: PutResult[] = [];
    for (let i = 0; i < 20; i++) acknowledged.push(await store.put(message(i, 100)));
    t.notOk(existsSync(join(dir, "consumequeue", "topic-0")));

    const broker = oracle.run(version, "write", dir, script([{ topic: "X", body: "never" }], {}));
    t.type(await rejection(broker), JavaFailed);
    for (let i = 20; i < 40; i++) acknowledged.push(await store.put(message(i, 100)));
    await store.close();
    t.equal(existsSync(join(dir, "abort")), false, "it was closed well");

    const ours = await dump(dir, SIZES);
    t.same(faultsOf(ours), []);
    t.equal(viewOf(ours).records.length, acknowledged.length);
    const theirs = await javaDump(oracle, version, dir, SIZES);
    t.equal(difference(viewOf(theirs), viewOf(ours)), undefined);
  });

  eachVersion(t, "we are kept out of a broker's open store", async (t, version) => {
    const dir = join(t.testdir({ store: {} }), "store");
    const steps = [
      { topic: "T", body: "before", repeat: 3 },
      { op: "waitDispatched" },
      { op: "sleep", ms: 6000 },
      { topic: "T", body: "after" },
    ];
    const broker = oracle.start(version, dir, script(steps, {}));
    await broker.until(({ op }) => op === "waitDispatched");
    const before = fingerprint(dir);
    const names = readdirSync(dir).sort();
    const refused = await rejection(MessageStore.open(dir, SIZES));
    t.match(refused, { code: "STORE_LOCKED", message: `process ${broker.pid}` });
    t.same(fingerprint(dir), before, "no file was changed");
    t.same(readdirSync(dir).sort(), names, "and none made");
    t.ok((await dump(dir, SIZES)).loaded, "it may be looked at");
    t.same(fingerprint(dir), before, "that changes nothing either");
    const { code, stderr } = await broker.ended;
    t.equal(code, 0, stderr);
    const store = await MessageStore.open(dir, SIZES, { onWarning: () => undefined });
    t.equal(store.maxOffset("T"), 4);
    await store.close();
  });
}
