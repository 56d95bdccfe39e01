// Extensions of consume queues that one side has written are used by the other: RocketMQ's own store and
// ours, after a clean stop and after a process that ended without one.

import { join } from "node:path";
import t, { type Test } from "tap";
import { MessageStore, type StoreOptions } from "../../lib/mod.ts";
import type { JavaVersion, Line, Oracle, Script } from "../support/oracle.ts";
import { copyOf, dump, javaDump, oracleFor, run, SIZES, takeTurns } from "./forcelog.ts";
import { difference, faultsOf, viewOf } from "./views.ts";

const oracle = oracleFor(t);
const VERSIONS = ["5.3.3", "5.5.1"] as const satisfies readonly JavaVersion[];

/** Files of few units. */
const CONFIG = { ...SIZES, enableConsumeQueueExt: true, mappedFileSizeConsumeQueueExt: 210 };
const QUEUES = [0, 1];

function scriptOf(end: string, from = 0): Script {
  const put = { op: "put", topic: "Ext", queues: QUEUES.length, from, body: "body" };
  return {
    config: CONFIG,
    steps: [
      { ...put, repeat: 30, tags: "TagA" },
      { ...put, repeat: 20, tags: "TagB" },
      { ...put, repeat: 20 },
      { op: "waitDispatched" },
    ],
    end,
  } as Script;
}

/** Offsets of the messages with a tag, as RocketMQ's own store finds them. */
async function javaFinds(java: Oracle, version: JavaVersion, dir: string): Promise<unknown> {
  const reads = QUEUES.map((queueId) => ({
    ...{ read: "getMessage", topic: "Ext", queueId, offset: 0, maxMsgNums: 32, tags: "TagB" },
  }));
  const lines: Line[] = await java.run(version, "read", copyOf(dir), { config: CONFIG, reads });
  return lines
    .filter((line) => "nextBeginOffset" in line)
    .map(({ status, nextBeginOffset, messages }) => ({ status, nextBeginOffset, messages }));
}

async function weFind(dir: string): Promise<unknown> {
  await using store = await MessageStore.open(dir, CONFIG as StoreOptions, { readOnly: true });
  const found: unknown[] = [];
  for (const queueId of QUEUES) {
    const request = { topic: "Ext", queueId, offset: 0, maxMessages: 32, filter: "TagB" };
    const { status, nextBeginOffset, messages } = await store.get(request);
    const places = messages.map((message) => [
      message.queueOffset,
      message.physicalOffset,
      message.size,
    ]);
    found.push({ status, nextBeginOffset, messages: places });
  }
  return found;
}

/** Every unit leads to one of the extension, which tells what the record tells. */
async function unitFaults(dir: string): Promise<string[]> {
  await using store = await MessageStore.open(dir, CONFIG as StoreOptions, { readOnly: true });
  const wrong: string[] = [];
  for (const { topic, queueId, minOffset, maxOffset } of store.queues()) {
    for (let from = minOffset; from < maxOffset; ) {
      for (const { physicalOffset, extension } of await store.units({ topic, queueId, from })) {
        const time = (await store.lookup(physicalOffset))?.storeTimestamp;
        if (Number(extension?.storeTimestamp) !== time) wrong.push(`${topic}/${queueId} ${from}`);
        from++;
      }
    }
  }
  return wrong;
}

async function agree(t: Test, java: Oracle, version: JavaVersion, dir: string): Promise<void> {
  const ours = await dump(dir, CONFIG);
  const theirs = await javaDump(java, version, dir, CONFIG);
  t.same([...faultsOf(ours), ...faultsOf(theirs)], []);
  t.equal(difference(viewOf(theirs), viewOf(ours)), undefined);
  t.same(await unitFaults(dir), []);
  t.same(await weFind(dir), await javaFinds(java, version, dir));
}

if (oracle) {
  t.jobs = 2;
  t.testdir();
  for (const version of VERSIONS) {
    for (const end of ["shutdown", "halt"]) {
      t.test(`${version} uses the extensions that we wrote: ${end}`, async (t) => {
        const dir = join(t.testdir({ store: {} }), "store");
        await run(dir, scriptOf(end));
        await agree(t, oracle, version, dir);
      });

      t.test(`we use the extensions that ${version} wrote: ${end}`, async (t) => {
        const dir = join(t.testdir({ store: {} }), "store");
        await oracle.run(version, "write", dir, scriptOf(end));
        await agree(t, oracle, version, dir);
      });
    }

    t.test(`${version} and we go on with each other's extensions`, async (t) => {
      const dir = join(t.testdir({ store: {} }), "store");
      await takeTurns(oracle, version, dir, scriptOf);
      await agree(t, oracle, version, dir);
    });
  }
}
