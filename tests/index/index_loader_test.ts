import { copyFileSync, mkdirSync, truncateSync, unlinkSync, writeFileSync } from "node:fs";
import t, { type Test } from "tap";
import { entryPosition } from "../../lib/index/index_format.ts";
import { IndexRig, longsWith, requestAt, T0 } from "../support/index_rig.ts";
import { rejection } from "../support/rejections.ts";
import { overwrite } from "../support/stores.ts";

const SHAPE = { slots: 10, entries: 8 };

/** An index of `count` messages, durable. */
async function durable(t: Test, count: number, shape = SHAPE): Promise<IndexRig> {
  const rig = new IndexRig(t, shape);
  rig.fill(count);
  await rig.index.force();
  return rig;
}

async function foundAll(t: Test, rig: IndexRig, count: number, text = ""): Promise<void> {
  const offsets = Array.from({ length: count }, (_, i) => (count - 1 - i) * 100);
  t.same(await rig.found("all"), offsets, text);
}

t.test("loadIndex() of nothing is empty", async (t) => {
  const rig = new IndexRig(t);
  t.same(await rig.load(), { files: [], from: 0, done: undefined, lost: false });
  const mark = rig.index.mark(4711);
  t.match(await rig.load({ mark }), { files: [], from: 4711, lost: false });
  mkdirSync(rig.directory);
  for (const name of ["abc", "20240919100102003.tmp", "5"]) writeFileSync(rig.path(name), "x");
  mkdirSync(rig.path("20240919100102003"));
  t.match(await rig.load({ mark }), { files: [], from: 4711, lost: false });
  t.equal(rig.names.length, 4, "what is none of its files is left");
});

t.test("loadIndex() after a clean stop goes on where the checkpoint says", async (t) => {
  for (const count of [1, 3, 7, 20]) {
    const rig = await durable(t, count);
    const { names } = rig;
    const mark = rig.index.mark(count * 100 + 50);
    const bytes = names.map((name) => rig.bytes(name));
    t.match(await rig.load({ mark }), { from: count * 100 + 50, done: undefined, lost: false });
    await foundAll(t, rig, count);
    await rig.index.force();
    t.ok(
      bytes.every((old, i) => old.equals(rig.bytes(names[i]))),
      "nothing is written",
    );
    rig.fill(3, count);
    await foundAll(t, rig, count + 3);
    await rig.index.force();
    await rig.load({ mark: rig.index.mark(0) });
    await foundAll(t, rig, count + 3, "again");
  }
});

t.test("loadIndex() after a crash drops what the checkpoint does not vouch for", async (t) => {
  for (const later of [0, 1, 2, 9]) {
    const rig = await durable(t, 5);
    const mark = rig.index.mark(500);
    rig.fill(later, 5);
    // Entries and full files go to the disk at any time, slots and headers with a force.
    await (later === 2 ? rig.index.commit() : rig.index.force());
    t.match(await rig.load({ mark, cleanStop: false }), { from: 500, lost: false });
    await foundAll(t, rig, 5);
    t.strictSame(rig.index.mark(500), mark, "the same");
    rig.fill(later, 5);
    await foundAll(t, rig, 5 + later);
    await rig.index.force();
    const other = await durable(t, 5 + later);
    t.same(
      rig.names.map((name) => rig.bytes(name).toString("hex")),
      other.names.map((name) => other.bytes(name).toString("hex")),
      "the bytes of an index without a crash",
    );
  }
  t.pass();
});

t.test("loadIndex() believes neither slots nor header of a file after a crash", async (t) => {
  const rig = await durable(t, 3, { slots: 10, entries: 100 });
  const mark = rig.index.mark(300);
  const [name] = rig.names;
  overwrite(rig.path(name), 32, Buffer.from([0, 0, 0, 9, 0, 0, 0, 90]));
  overwrite(rig.path(name), 40, Buffer.alloc(40, 0x01));
  await rig.load({ mark, cleanStop: false });
  await foundAll(t, rig, 3);
  await rig.index.force();
  await rig.load({ mark });
  await foundAll(t, rig, 3, "mended on disk");
});

t.test("loadIndex() keeps the part of a file whose entries are sound", async (t) => {
  const rig = await durable(t, 10, { slots: 10, entries: 100 });
  const mark = rig.index.mark(1000);
  const [name] = rig.names;
  // Entries 1 to 20, two for each message; the twelfth leads elsewhere.
  const position = entryPosition({ slots: 10, entries: 100 }, 12) + 16;
  overwrite(rig.path(name), position, Buffer.from([0, 0, 0, 99]));
  const { from, done } = await rig.load({ mark, cleanStop: false });
  t.equal(from, 500, "the message of the last good entry");
  t.equal(done?.size, 1, "one of its keys is there");
  for (let i = 5; i < 10; i++) {
    rig.index.add(requestAt(i * 100, { keys: `k${i} all` }), i === 5 ? done : undefined);
  }
  await foundAll(t, rig, 10);
  t.match(rig.index.files, [{ count: 21 }]);
});

t.test("loadIndex() drops what leads behind the end of the log", async (t) => {
  for (const cleanStop of [true, false]) {
    for (const end of [1400, 750, 300, 0]) {
      const rig = await durable(t, 14);
      const mark = rig.index.mark(1400);
      const loaded = await rig.load({ mark, cleanStop, logEnd: end });
      const kept = Math.ceil(end / 100);
      await foundAll(t, rig, kept, `log ends at ${end}`);
      t.equal(loaded.from, end === 1400 ? 1400 : Math.max(kept - 1, 0) * 100);
      rig.index.add(requestAt(kept * 100, { keys: "new" }));
      t.same(await rig.found("new"), [kept * 100]);
    }
  }
});

t.test("loadIndex() makes an index anew of which a file is damaged or missing", async (t) => {
  const damage: Record<string, [kept: number, (rig: IndexRig) => void]> = {
    "the first is missing": [0, (rig) => unlinkSync(rig.path(rig.names[0]))],
    "the last is missing": [0, (rig) => unlinkSync(rig.path(rig.names.at(-1)))],
    "the second is short": [1, (rig) => truncateSync(rig.path(rig.names[1]), 100)],
    "the first is long": [0, (rig) => truncateSync(rig.path(rig.names[0]), 5000)],
    "the second has no header": [
      1,
      (rig) => overwrite(rig.path(rig.names[1]), 0, Buffer.alloc(40)),
    ],
    "the third is the first": [
      2,
      (rig) => copyFileSync(rig.path(rig.names[0]), rig.path(rig.names[2])),
    ],
    "the second has a header of nonsense": [
      1,
      (rig) => overwrite(rig.path(rig.names[1]), 0, Buffer.alloc(40, 0xee)),
    ],
  };
  for (const [name, [kept, harm]] of Object.entries(damage)) {
    const rig = await durable(t, 14);
    const mark = rig.index.mark(1400);
    t.equal(rig.names.length, 4);
    harm(rig);
    const { lost, from, done } = await rig.load({ mark });
    t.ok(lost, name);
    t.equal(rig.names.length, kept, name);
    t.match(rig.warnings.join(), /made anew from the log/);
    for (let i = from / 100; i < 14; i++) {
      const request = requestAt(i * 100, { keys: `k${i} all` });
      rig.index.add(request, i * 100 === from ? done : undefined);
    }
    await foundAll(t, rig, 14, name);
    for (let i = 0; i < 14; i++) t.same(await rig.found(`k${i}`), [i * 100]);
  }
});

t.test(
  "loadIndex() without a checkpoint believes all after a clean stop, old ones after a crash",
  async (t) => {
    const rig = await durable(t, 12);
    const clean = await rig.load();
    t.match(clean, { from: 1100, lost: false });
    t.equal(clean.done?.size, 2);
    const [first, second] = rig.index.files;
    const longs = longsWith(second?.endTimestamp ?? 0);
    const { from, done } = await rig.load({ cleanStop: false, longs });
    t.equal(rig.names.length, 2);
    t.equal(from, second?.endPhysicalOffset);
    t.ok(done && done.size > 0);
    t.equal(rig.warnings.length, 0, "that is no damage");
    t.match(await rig.load({ cleanStop: false, longs: longsWith(T0) }), { files: [], from: 0 });
    t.not(first, undefined);
  },
);

t.test("loadIndex() removes files that had expired, and all if asked to", async (t) => {
  const rig = await durable(t, 14);
  const mark = rig.index.mark(1400);
  t.match(await rig.load({ mark: { ...mark, files: 2 } }), { lost: false });
  t.equal(rig.names.length, 2);
  t.match(await rig.load({ mark, anew: true }), { files: [], from: 0, lost: true });
  t.equal(rig.names.length, 0);
});

t.test("loadIndex() keeps an empty last file of RocketMQ's", async (t) => {
  const rig = await durable(t, 7);
  const [last] = rig.index.files.slice(-1);
  t.equal(last?.count, 8, "full");
  const header = Buffer.alloc(8 * 20 + 80);
  header.writeBigInt64BE(BigInt(last?.endTimestamp ?? 0), 0);
  header.writeBigInt64BE(BigInt(last?.endTimestamp ?? 0), 8);
  header.writeBigInt64BE(600n, 16);
  header.writeBigInt64BE(600n, 24);
  header.writeInt32BE(1, 36);
  writeFileSync(rig.path("20991231235959999"), header);
  const loaded = await rig.load();
  t.match(loaded, { from: 600, lost: false });
  t.equal(loaded.done?.size, 2);
  rig.fill(1, 7);
  await rig.index.force();
  t.equal(rig.names.length, 3);
  await foundAll(t, rig, 8);
});

t.test("loadIndex() ends with any content of its files, and so does a search", async (t) => {
  let state = 12345;
  const random = (end: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state % end;
  };
  for (let round = 0; round < 150; round++) {
    const rig = await durable(t, 10);
    const mark = rig.index.mark(1000);
    for (const name of rig.names) {
      if (random(2) === 0) continue;
      const size = 1 + random(60);
      const bytes = Buffer.from(Array.from({ length: size }, () => [0, 1, 255, 7][random(4)] ?? 0));
      overwrite(rig.path(name), random(240 - size), bytes);
    }
    const options = { cleanStop: random(2) === 0, longs: longsWith(T0 + random(20_000)) };
    await rig.load(random(2) === 0 ? { ...options, mark } : options);
    for (const key of ["all", "k3", "none"]) {
      const found = await rig.found(key);
      t.ok(found.length <= 40, `${found.length} found`);
    }
    rig.fill(3, 10);
    t.same((await rig.found("all")).slice(0, 3), [1200, 1100, 1000]);
    await rig.index.force();
  }
});

t.test("loadIndex() passes on what a device refuses", async (t) => {
  for (const call of ["readdir", "stat", "open", "pread"] as const) {
    const rig = await durable(t, 3);
    const mark = rig.index.mark(300);
    await rig.files.close(rig.path(rig.names[0]));
    rig.fs.failNext(call, "EIO", { times: 1 });
    const error = await rejection(rig.load({ mark, cleanStop: false }));
    t.match(error, { code: "STORE_IO", cause: { code: "EIO" } }, call);
    await rig.load({ mark, cleanStop: false });
    await foundAll(t, rig, 3);
  }
});
