import t from "tap";
import type { ConsumeQueue } from "../../lib/consume_queue/consume_queue.ts";
import { ConsumeQueueTable } from "../../lib/consume_queue/consume_queue_table.ts";
import type { MessageQueue } from "../../lib/consume_queue/message_queue.ts";
import { decodeUnit, isFiller, isMarkedLost } from "../../lib/consume_queue/queue_unit.ts";
import type { DispatchRequest } from "../../lib/message/dispatch_request.ts";
import { QUEUE_OFFSET_AT } from "../../lib/message/record_layout.ts";
import { QueueAssembly, type QueueAssemblyContext } from "../../lib/recovery/queue_assembly.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { SimulatedDisk, SimulatedFileSystem } from "../../lib/testing/mod.ts";
import { judge } from "../support/damage_trial.ts";
import { type Base, baseOf, changeLog, openOn, ROOT } from "../support/damaged_store.ts";
import { plainQueue } from "../support/queue_rig.ts";
import { plainRequest } from "../support/requests.ts";

const RECORD_BYTES = 100;
const LOG_FILE_BYTES = 10_000;

function emptyTable(): ConsumeQueueTable {
  const fileSystem = new SimulatedFileSystem(new SimulatedDisk());
  const files = new OpenFiles(fileSystem);
  return new ConsumeQueueTable({
    fileSystem,
    files,
    directory: "/q",
    staging: "/s",
    fileSize: 2000,
  });
}

interface Rig {
  readonly queues: ConsumeQueueTable;
  readonly suspects: Set<MessageQueue>;
  readonly assembly: QueueAssembly;
}

function rig(more: Partial<QueueAssemblyContext> = {}, queues = emptyTable()): Rig {
  const suspects = new Set<MessageQueue>();
  const assembly = new QueueAssembly({
    queues,
    multiDispatch: true,
    logMin: 0,
    logFileSize: LOG_FILE_BYTES,
    units: "none",
    unitsEnd: 0,
    suspects,
    wanted: (queue) => !suspects.has(queue),
    ...more,
  });
  return { queues, suspects, assembly };
}

function request(
  physicalOffset: number,
  queueOffset: number,
  more: Partial<DispatchRequest> = {},
): DispatchRequest {
  return plainRequest({ physicalOffset, size: RECORD_BYTES, queueOffset, ...more });
}

/** Where each unit leads: `-` for a lost message, `=` where it has the unit of the next one. */
async function shown(queue: ConsumeQueue): Promise<string> {
  const texts: string[] = [];
  for (let offset = queue.min; offset < queue.max; offset++) {
    const unit = await queue.units(offset, 1);
    const next = offset + 1 < queue.max ? await queue.units(offset + 1, 1) : undefined;
    if (isFiller(unit, 0)) texts.push("-");
    else if (next && isMarkedLost(unit, 0) && leadsToTheSame(unit, next)) texts.push("=");
    else texts.push(String(decodeUnit(unit, 0).physicalOffset / RECORD_BYTES));
  }
  return `${queue.min}: ${texts.join(" ")}`;
}

function leadsToTheSame(unit: Buffer, other: Buffer): boolean {
  return unit.subarray(0, 12).equals(other.subarray(0, 12));
}

/** Records one behind the other that claim these places; `undefined`: bytes that hold no record. */
async function assembled(
  claims: readonly (number | undefined)[],
  more: Partial<QueueAssemblyContext> & { readonly from?: number } = {},
  queues?: ConsumeQueueTable,
): Promise<{ queue: string; misplaced: number[]; suspect: boolean }> {
  const { from = 0, ...context } = more;
  const { queues: table, suspects, assembly } = rig(context, queues);
  claims.forEach((claim, i) => {
    const offset = (from + i) * RECORD_BYTES;
    if (claim === undefined) assembly.missed(RECORD_BYTES);
    else assembly.add(request(offset, claim));
  });
  assembly.finish();
  const queue = plainQueue(table, "T", 0);
  return {
    queue: await shown(queue),
    misplaced: [...assembly.misplaced].map((offset) => offset / RECORD_BYTES),
    suspect: suspects.has(queue),
  };
}

t.test("QueueAssembly gives each record the place that it says", async (t) => {
  for (const [claims, queue, misplaced] of [
    [[0, 1, 2, 3], "0: 0 1 2 3", []],
    // Lost in the middle, at the front, several times.
    [[0, 1, undefined, 3, 4], "0: 0 1 = 3 4", []],
    [[undefined, 1, 2], "0: = 1 2", []],
    [[undefined, undefined, 2, undefined, 4, 5], "0: = = 2 = 4 5", []],
    [[0, undefined, undefined, undefined, 4], "0: 0 = = = 4", []],
    // The last ones are lost: nobody knows of them.
    [[0, 1, undefined], "0: 0 1", []],
    // One claim is wrong: too high, also by one, first or last; too low.
    [[0, 1, 70, 3, 4], "0: 0 1 = 3 4", [2]],
    [[0, 2, 2, 3], "0: 0 = 2 3", [1]],
    [[1, 1, 2, 3], "0: = 1 2 3", [0]],
    [[512, 1, 2, 3], "0: = 1 2 3", [0]],
    [[0, 1, 2, 7000], "0: 0 1 2", [3]],
    [[0, 1, 0, 3, 4], "0: 0 1 = 3 4", [2]],
    // So high that one behind it comes next.
    [[70, 0, 1, 2], "0: 1 2 3", [0]],
    [[9, 0], "0: 1", [0]],
    // And a message is lost beside it.
    [[0, 1, undefined, 67, 4, 5], "0: 0 1 = = 4 5", [3]],
    [[0, 1, undefined, 3, 68, 5], "0: 0 1 = 3 = 5", [4]],
    [[0, 5, undefined, 3, 4, 5, 6], "0: 0 = = 3 4 5 6", [1]],
  ] as const) {
    const found = await assembled(claims);
    t.same(found, { queue, misplaced, suspect: false }, JSON.stringify(claims));
  }
});

t.test("QueueAssembly lets a queue begin where its first messages have expired", async (t) => {
  for (const [claims, queue, misplaced] of [
    [[345, 346, 347], "345: 500 501 502", []],
    [[345], "345: 500", []],
    [[345, undefined, 347], "345: 500 = 502", []],
    [[345 + 1024, 346, 347], "346: 501 502", [500]],
    [[345, 346 + 1024, 347], "345: 500 = 502", [501]],
  ] as const) {
    const found = await assembled(claims, { logMin: 50_000, from: 500 });
    t.same(found, { queue, misplaced, suspect: false }, JSON.stringify(claims));
  }
});

t.test("QueueAssembly goes on behind units that somebody vouches for, or not", async (t) => {
  const before = () => {
    const queues = emptyTable();
    const queue = plainQueue(queues, "T", 0);
    for (let i = 0; i < 3; i++) queue.append(i, i * RECORD_BYTES, RECORD_BYTES, 0);
    return queues;
  };
  for (const [units, claims, queue, suspect, misplaced] of [
    ["vouched", [3, 4], "0: 0 1 2 3 4", false, []],
    ["vouched", [undefined, 4, 5], "0: 0 1 2 = 4 5", false, []],
    ["vouched", [undefined, 4], "0: 0 1 2 = 4", false, []],
    ["vouched", [3, 1, 5], "0: 0 1 2 3 = 5", false, [4]],
    // What is missing may be in the log before.
    ["unvouched", [3, 4], "0: 0 1 2 3 4", false, []],
    ["unvouched", [4, 5], "0: 0 1 2", true, []],
    ["unvouched", [undefined, 4], "0: 0 1 2", true, []],
    ["unvouched", [3, undefined, 5, 6], "0: 0 1 2 3 = 5 6", false, []],
    // A record that is behind its queue's end was not written to it; one before it is in it.
    ["complete", [3], "0: 0 1 2 3", false, []],
    ["complete", [4], "0: 0 1 2", true, []],
  ] as const) {
    const found = await assembled(claims, { units, from: 3 }, before());
    t.same(found, { queue, misplaced, suspect }, `${units} ${JSON.stringify(claims)}`);
  }
  const confirmed = await assembled([0, 99, 2], { units: "complete" }, before());
  t.same(confirmed, { queue: "0: 0 1 2", misplaced: [], suspect: false }, "before its end");
  const known = await assembled([99, 98, 97, 3], { units: "vouched", unitsEnd: 300 }, before());
  t.same(known, { queue: "0: 0 1 2 3", misplaced: [], suspect: false }, "below unitsEnd");
});

t.test("QueueAssembly points behind the file before where a file begins in between", async (t) => {
  const { queues, assembly } = rig();
  assembly.add(request(9_800, 0));
  assembly.missed(500);
  assembly.add(request(10_300, 3, { tagsCode: 7 }));
  assembly.add(request(10_400, 4));
  assembly.missed(100);
  assembly.add(request(10_600, 6));
  assembly.finish();
  const queue = plainQueue(queues, "T", 0);
  const units = await queue.units(0, 10);
  const places = Array.from({ length: 7 }, (_, i) => {
    const { physicalOffset, size } = decodeUnit(units, i * 20);
    return [physicalOffset, size];
  });
  t.same(places, [
    [9_800, 100],
    [9_999, 9],
    [9_999, 9],
    [10_300, 100],
    [10_400, 100],
    [10_600, 100],
    [10_600, 100],
  ]);
  t.equal(decodeUnit(units, 20).tagsCode, 0x464c4831n);
  t.ok(isFiller(units, 20));
  t.equal(queue.maxPhysicalOffset, 10_700);
});

t.test("QueueAssembly counts light queues with the record, transactions of no queue", async (t) => {
  const { queues, assembly } = rig();
  const light = (offset: number) => ({ multiDispatch: { queues: ["%LMQ%a"], offsets: [offset] } });
  assembly.add(request(0, 0, light(0)));
  assembly.missed(100);
  assembly.add(request(200, 2, light(2)));
  assembly.add(request(300, 0, { sysFlag: 4 }));
  assembly.add(request(400, 3, { sysFlag: 8, ...light(3) }));
  assembly.add(request(500, 0, { sysFlag: 12 }));
  assembly.finish();
  t.equal(await shown(plainQueue(queues, "T", 0)), "0: 0 = 2 4");
  t.equal(await shown(plainQueue(queues, "%LMQ%a", 0)), "0: 0 = 2 4");
});

t.test("QueueAssembly never makes more units than there can have been records", async (t) => {
  const { queues, assembly } = rig();
  assembly.add(request(0, 0));
  // Two that agree on nonsense.
  assembly.add(request(100, 2 ** 40));
  assembly.add(request(200, 2 ** 40 + 1));
  assembly.finish();
  t.equal(await shown(plainQueue(queues, "T", 0)), "0: 0");
  t.same([...assembly.misplaced], [100, 200]);
});

/** Two queues in turn, one of them longer. */
const base = await baseOf({ mappedFileSizeCommitLog: 2048 }, async (store) => {
  for (let i = 0; i < 15; i++) {
    await store.put({ topic: i % 3 === 0 ? "U" : "T", body: Buffer.from(`message ${i}`) });
  }
});

/** Every message but one is where it was. */
async function misses(
  disk: SimulatedDisk,
  base: Base,
  changed: number,
  options = {},
): Promise<string[]> {
  const { store } = await openOn(disk, { ...base.options, ...options }, base.now + 5000);
  const wrong: string[] = [];
  for (const { offset, bytes, places } of base.records) {
    if (offset === changed) continue;
    for (const [queue, place] of places) {
      const [topic = "", id] = queue.split("/");
      const request = { topic, queueId: Number(id), offset: place, maxMessages: 1 };
      const found = await store.get(request).catch((error: Error) => error);
      if (found instanceof Error) wrong.push(found.message);
      else if (!found.messages[0]?.bytes.equals(bytes))
        wrong.push(`${queue} ${place}: ${found.status}`);
    }
  }
  await store.close();
  return wrong;
}

t.test("recover() loses nobody else by a flipped bit in QUEUEOFFSET", async (t) => {
  const ofT = base.records.filter(({ places }) => places[0]?.[0] === "T/0");
  const ofU = base.records.filter(({ places }) => places[0]?.[0] === "U/0");
  const chosen = [ofT[0], ofT[1], ofT[4], ofT.at(-2), ofT.at(-1), ofU[0], ofU.at(-1)];
  const wrong: string[] = [];
  for (const record of chosen) {
    const { offset } = record!;
    for (let bit = 0; bit < 64; bit++) {
      const at = offset + QUEUE_OFFSET_AT + (bit >> 3);
      for (const [stop, options] of [
        ["killed", {}],
        ["closed", { recoverWholeLog: true }],
        ["closed", {}],
        ["without queues", {}],
      ] as const) {
        const disk = (stop === "killed" ? base.killed : base.closed).fork();
        if (stop === "without queues") disk.remove(`${ROOT}/consumequeue`);
        changeLog(disk, base.options, at, at + 1, (byte) => byte ^ (0x80 >> (bit & 7)));
        const found = await misses(disk, base, offset, options);
        wrong.push(...found.map((text) => `${stop}, bit ${bit} at ${offset}: ${text}`));
      }
    }
  }
  judge(t, "a flipped bit", wrong);
});

t.test("QueueAssembly is full of as many units as its queues may have in memory", async (t) => {
  const { assembly } = rig();
  let position = 0;
  const fill = (queueId: number, from: number): number => {
    let offset = from;
    for (; !assembly.isFull; offset++, position += RECORD_BYTES) {
      assembly.add(request(position, offset, { queueId }));
    }
    return offset;
  };
  t.equal(fill(0, 0), 16_384);
  assembly.written();
  assembly.add(request(position, 0, { queueId: 1 }));
  t.equal(fill(0, 16_384), 2 * 16_384 - 1, "it did not know the other one yet");
  assembly.written();
  t.equal(fill(1, 1), 1 + 2 * 16_384);
});
