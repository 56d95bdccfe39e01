// Damage in the middle of a log, of ours and of RocketMQ's. We open it, and RocketMQ's own store after
// us: it sees every message outside the damage, where it was, and goes on behind it. And what our
// explanation says of RocketMQ's recovery is what that does.

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: whoever carries out a script fills in the number of the repeat

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { explainRecovery, type StoreOptions } from "../../lib/mod.ts";
import type { GoldenRecord } from "../support/golden.ts";
import { JAVA_VERSIONS, type JavaVersion, type Line, type Oracle } from "../support/oracle.ts";
import { copyOf, dump, eachVersion, javaDump, oracleFor, run } from "./forcelog.ts";
import { script } from "./scripts.ts";
import { type Dump, difference, isRecord, type View, viewOf } from "./views.ts";

const FILE_BYTES = 65_536;

/** Several files of the log, queues of several files. */
const STEPS = [
  { topic: "Orders", queues: 3, repeat: 150, body: { size: 700, seed: 3, grow: 5 }, tags: "t${i}" },
  { topic: "Single", repeat: 60, body: "message ${i}" },
  { topic: "Orders", queues: 3, repeat: 60, from: 150, body: { size: 900, seed: 5 } },
  { topic: "Pay", sysFlag: 4, body: "prepared" },
  { topic: "Pay", sysFlag: 8, body: "committed", repeat: 2 },
  { op: "putBatch", topic: "Orders", messages: [{ body: "a" }, { body: "b" }, { body: "c" }] },
  { topic: "Single", repeat: 20, from: 60, body: "message ${i}" },
  { op: "flush" },
  { op: "waitDispatched" },
];
const MORE = [
  { topic: "Orders", queues: 3, repeat: 9, body: "more ${i}" },
  { topic: "Single", repeat: 3, body: "more ${i}" },
  { topic: "New", body: { size: 30_000 }, repeat: 3 },
  { op: "flush" },
  { op: "waitDispatched" },
];
const CONFIG: StoreOptions = script([], {}).config;

interface Range {
  readonly from: number;
  readonly to: number;
}

/** What is damaged, as parts of the log. */
const DAMAGES: Readonly<Record<string, (base: View) => Range[]>> = {
  "a flipped bit": (base) => [at(base, 0.45, 200, 1)],
  "a page of zeros": (base) => {
    const { from } = at(base, 0.3, 0, 1);
    const page = from - (from % 4096) + 4096;
    return [{ from: page, to: page + 4096 }];
  },
  "the end of a file": () => [{ from: FILE_BYTES - 700, to: FILE_BYTES }],
  "the border of two files": () => [{ from: 2 * FILE_BYTES - 300, to: 2 * FILE_BYTES + 2000 }],
  "a whole file": () => [{ from: FILE_BYTES, to: 2 * FILE_BYTES }],
  "several places": (base) => [
    { from: 0, to: 100 },
    at(base, 0.2, 90, 3),
    at(base, 0.6, 4, 4),
    at(base, 0.85, 30, 700),
  ],
};

/** Bytes inside the record that lies so far in the log. */
function at(base: View, part: number, position: number, length: number): Range {
  const record = base.records[Math.floor(base.records.length * part)]!;
  const from = record.offset + position;
  return { from, to: from + length };
}

/** Garbles a part of the log, or makes it zero. */
function damage(dir: string, { from, to }: Range, name: string): void {
  for (let offset = from; offset < to; ) {
    const start = offset - (offset % FILE_BYTES);
    const path = join(dir, "commitlog", String(start).padStart(20, "0"));
    const bytes = readFileSync(path);
    const end = Math.min(to, start + FILE_BYTES);
    for (; offset < end; offset++) {
      const i = offset - start;
      bytes[i] =
        name === "a flipped bit" ? bytes[i]! ^ 4 : /zeros|file$/.test(name) ? 0 : bytes[i]! ^ 0x5a;
    }
    writeFileSync(path, bytes);
  }
}

/** Records that damage has touched. */
function touched(base: View, ranges: readonly Range[]): Set<number> {
  const lost = new Set<number>();
  for (const record of base.records) {
    const end = record.offset + (isRecord(record) ? record.size : 8);
    if (ranges.some(({ from, to }) => record.offset < to && from < end)) lost.add(record.offset);
  }
  return lost;
}

interface Queue {
  readonly min: number;
  readonly max: number;
  readonly units: readonly (readonly [number, number, string])[];
}

/** Everything that is not as it was, outside the damage. */
function missed(base: View, now: View, lost: ReadonlySet<number>): string[] {
  const wrong: string[] = [];
  const records = new Map(now.records.map((record) => [record.offset, record]));
  for (const record of base.records) {
    if (lost.has(record.offset) || !isRecord(record)) continue;
    const found = records.get(record.offset) as GoldenRecord | undefined;
    if (found?.sha256 !== record.sha256) wrong.push(`the record at ${record.offset}`);
  }
  for (const [name, queue] of Object.entries(base.queues) as [string, Queue][]) {
    const found = now.queues[name] as Queue | undefined;
    queue.units.forEach(([offset], i) => {
      const place = queue.min + i;
      const unit = found?.units[place - found.min];
      if (!lost.has(offset) && unit?.[0] !== offset) wrong.push(`unit ${place} of ${name}`);
    });
  }
  return wrong;
}

/** Queue offsets whose message is there. */
function placesOf(view: View, lost: ReadonlySet<number>): Map<string, number[]> {
  const places = new Map<string, number[]>();
  for (const [name, queue] of Object.entries(view.queues) as [string, Queue][]) {
    const kept = queue.units.flatMap(([offset], i) => (lost.has(offset) ? [] : [queue.min + i]));
    places.set(name, kept);
  }
  return places;
}

/** From every place of a queue on, a broker that serves the store gets all that is there. */
async function pullProblems(
  oracle: Oracle,
  version: JavaVersion,
  dir: string,
  base: View,
  lost: ReadonlySet<number>,
): Promise<string[]> {
  const copy = copyOf(dir);
  const asked: { name: string; offset: number }[] = [];
  const reads: unknown[] = [];
  for (const [name, queue] of Object.entries(base.queues) as [string, Queue][]) {
    const [topic, id] = name.split("/");
    for (let offset = queue.min; offset < queue.max; offset += 3) {
      asked.push({ name, offset });
      const request = { read: "getMessage", topic, queueId: Number(id), offset, maxMsgNums: 32 };
      reads.push(request);
    }
  }
  const { config } = script([], {});
  const answers = await oracle.run(version, "read", copy, { config, reads });
  rmSync(copy, { recursive: true, force: true });
  const places = placesOf(base, lost);
  const wrong: string[] = [];
  for (const [i, { name, offset }] of asked.entries()) {
    const answer = answers[i] as { nextBeginOffset: number; messages?: number[][] } | undefined;
    const got = new Set((answer?.messages ?? []).map(([place]) => place));
    const next = answer?.nextBeginOffset ?? 0;
    const due = (places.get(name) ?? []).filter((place) => place >= offset && place < next);
    if (next <= offset) wrong.push(`${name} from ${offset}: it does not move on`);
    const passed = due.filter((place) => !got.has(place));
    if (passed.length > 0) wrong.push(`${name} from ${offset}: ${passed.join()} passed over`);
  }
  return wrong;
}

/** What a release makes of a directory, and what we say that it would. */
async function compareExplained(
  t: Test,
  oracle: Oracle,
  dir: string,
  name: string,
  versions: readonly JavaVersion[],
): Promise<void> {
  const { rocketmq } = await explainRecovery(dir, CONFIG, { onWarning: () => undefined });
  for (const version of versions) {
    const theirs = await javaDump(oracle, version, dir, CONFIG as never);
    const told = rocketmq.find((one) => version.startsWith(one.version))!;
    t.equal(told.end, viewOf(theirs).maxOffset, `${name}: end of the log of ${version}`);
    const texts = (queues: typeof theirs.queues | typeof told.queues): string[] =>
      queues
        .filter(({ max }) => max > 0)
        .map(({ topic, queueId, max }) => `${topic}/${queueId} ${max}`)
        .sort();
    t.same(texts(told.queues), texts(theirs.queues), `${name}: queues of ${version}`);
  }
}

const oracle = oracleFor(t);

/** A store, as its writer leaves it. */
async function written(
  oracle: Oracle,
  dir: string,
  who: "we" | JavaVersion,
  end: "shutdown" | "halt",
): Promise<{ base: View; lines: Line[] }> {
  const wanted = script(STEPS, {}, end);
  const lines = who === "we" ? await run(dir, wanted) : await oracle.run(who, "write", dir, wanted);
  const base = viewOf(await dump(dir, CONFIG as never));
  return { base, lines };
}

async function play(
  t: Test,
  oracle: Oracle,
  who: "we" | JavaVersion,
  end: "shutdown" | "halt",
  name: string,
  ourEnd: "shutdown" | "halt",
  next: JavaVersion,
): Promise<void> {
  const dir = join(t.testdir({ store: {} }), "store");
  const { base } = await written(oracle, dir, who, end);
  const ranges = DAMAGES[name]!(base);
  for (const range of ranges) damage(dir, range, name);
  const lost = touched(base, ranges);
  await compareExplained(t, oracle, dir, "damaged", [next]);

  // We open it, put, and stop or die.
  const config = { recoverWholeLog: true };
  const putOn = [{ topic: "Single", body: "ours" }, { op: "flush" }, { op: "waitDispatched" }];
  await run(dir, script(putOn, config, ourEnd));
  const ours = viewOf(await dump(dir, CONFIG as never));
  t.same(missed(base, ours, lost), [], "we see what is outside the damage");
  const evidence = readdirSync(join(dir, "forcelog")).filter((file) => file.startsWith("hole-"));
  t.ok(evidence.length > 0, "what was damaged is kept");
  t.equal(existsSync(join(dir, "abort")), ourEnd === "halt");

  // It sees the same.
  const theirs = viewOf(await javaDump(oracle, next, dir, CONFIG as never));
  t.equal(difference(theirs, ours), undefined, `${next} sees the same log, and the same queues`);
  t.same(missed(base, theirs, lost), [], `${next} sees what is outside the damage`);
  t.same(await pullProblems(oracle, next, dir, base, lost), [], `${next} passes nothing over`);
  await compareExplained(t, oracle, dir, "mended", [next]);

  // It puts on, and we after it.
  const nextEnd = ourEnd === "halt" ? "shutdown" : "halt";
  const lines = await oracle.run(next, "write", dir, script(MORE, {}, nextEnd));
  t.equal(lines.find(({ op }) => op === "put")?.wroteOffset, ours.maxOffset, "it goes on there");
  await run(dir, script(putOn, {}, "shutdown"));
  const last: Dump = await dump(dir, CONFIG as never);
  t.same(missed(base, viewOf(last), lost), [], "we still see all");
  t.same(
    missed(viewOf(await javaDump(oracle, next, dir, CONFIG as never)), viewOf(last), new Set()),
    [],
  );
}

if (oracle) {
  t.jobs = 3;
  const names = Object.keys(DAMAGES);
  for (const [i, name] of names.entries()) {
    eachVersion(t, `RocketMQ opens what we mended: ${name}`, async (t, version) => {
      const turn = i + JAVA_VERSIONS.indexOf(version);
      const who = turn % 2 === 0 ? "we" : version;
      const end = turn % 4 < 2 ? "halt" : "shutdown";
      const ourEnd = turn % 3 === 0 ? "halt" : "shutdown";
      await t.test(`written by ${who}, ${end}; we end by ${ourEnd}`, (t) =>
        play(t, oracle, who, end, name, ourEnd, version),
      );
    });
  }

  eachVersion(t, "we cut where RocketMQ cuts", async (t, version) => {
    const versions = [version, JAVA_VERSIONS.at(-1) as JavaVersion];
    for (const [name, position, end] of [
      ["in a body", 200, "shutdown"],
      ["its magic", 4, "halt"],
      // Not the front of it: 4.9 would make room for as much as it says.
      ["its size", 2, "halt"],
    ] as const) {
      await t.test(`${name}, ${end}`, async (t) => {
        const dir = join(t.testdir({ store: {} }), "store");
        const { base } = await written(oracle, dir, version, end);
        // In the last file: each reads that one.
        const lastFile = base.maxOffset - (base.maxOffset % FILE_BYTES);
        const record = base.records.find(({ offset }) => offset > lastFile + 8000)!;
        const from = record.offset + position;
        damage(dir, { from, to: from + 2 }, "garbled");
        const cut = { ...CONFIG, damagedLogPolicy: "cut" };
        const ours = viewOf(await dump(dir, cut as never));
        t.equal(ours.maxOffset, record.offset);
        const theirs = viewOf(await javaDump(oracle, version, dir, CONFIG as never));
        t.equal(difference(theirs, ours), undefined, `${version} sees the same`);
        await compareExplained(t, oracle, dir, "cut", versions);
      });
    }
  });
}
