import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { type DispatchRequest, dispatchRequestOf } from "../../lib/message/dispatch_request.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import { type Golden, type GoldenRecord, openGolden, readLog } from "../support/golden.ts";
import { IndexRig, requestAt, T0 } from "../support/index_rig.ts";
import { rejection } from "../support/rejections.ts";

/** The records of a golden store, as dispatch sees them. */
function requestsOf({ dir, expected, recipe }: Golden): DispatchRequest[] {
  const log = readLog(dir);
  const size = recipe.config.mappedFileSizeCommitLog;
  return expected.commitLog.records
    .filter((entry): entry is GoldenRecord => "topic" in entry)
    .map(({ offset }) => {
      const file = log.get(offset - (offset % size)) as Buffer;
      return dispatchRequestOf(file, offset % size, DelayLevels.parse());
    });
}

function shapeOf({ recipe }: Golden): { slots: number; entries: number } {
  const { maxHashSlotNum, maxIndexNum } = recipe.config;
  return { slots: Number(maxHashSlotNum), entries: Number(maxIndexNum) };
}

for (const [name, withTags] of [
  ["v551-mixed", true],
  ["index-rolled", false],
  ["v498-mixed", false],
  ["transaction", false],
  ["unicode", false],
] as const) {
  t.test(`KeyIndex.add() makes RocketMQ's files, byte for byte: ${name}`, async (t) => {
    const golden = openGolden(t, name);
    const rig = new IndexRig(t, shapeOf(golden));
    for (const request of requestsOf(golden)) {
      rig.index.add(withTags ? request : { ...request, tags: undefined });
    }
    await rig.index.force();
    const folder = join(golden.dir, "index");
    const theirs = readdirSync(folder).sort();
    t.ok(theirs.length > (name === "index-rolled" ? 4 : 0));
    t.equal(rig.names.length, theirs.length);
    theirs.forEach((file, i) => {
      t.ok(rig.bytes(rig.names[i]).equals(readFileSync(join(folder, file))), `file ${i}`);
    });
  });
}

t.test(
  "KeyIndex.add() skips rolled-back records, empty words and records without keys",
  async (t) => {
    const rig = new IndexRig(t);
    rig.index.add(requestAt(0));
    rig.index.add(requestAt(100, { keys: "a", sysFlag: 12 }));
    rig.index.add(requestAt(200, { keys: "   ", tags: "" }));
    t.same(rig.index.files, []);
    rig.index.add(requestAt(300, { keys: "  b  c ", sysFlag: 4 }));
    rig.index.add(requestAt(400, { uniqKey: "u u", tags: "x y", sysFlag: 8 }));
    t.equal(rig.index.files[0]?.count, 5);
    for (const [key, offsets] of [
      ["b", [300]],
      ["c", [300]],
      ["u u", [400]],
      ["T#x y", [400]],
      ["", []],
    ] as const) {
      t.same(await rig.found(key), offsets, key);
    }
  },
);

t.test("KeyIndex counts a slot once, whatever lies in it", async (t) => {
  const one = new IndexRig(t, { slots: 1, entries: 100 });
  one.fill(2);
  t.match(one.index.files, [{ usedSlots: 1, count: 5 }]);
});

t.test(
  "KeyIndex.search() finds what is in memory, in a file, and in both, newest first",
  async (t) => {
    const rig = new IndexRig(t, { slots: 10, entries: 8 });
    const all: number[] = [];
    for (let round = 0; round < 6; round++) {
      rig.fill(5, round * 5);
      for (let i = 0; i < 5; i++) all.unshift((round * 5 + i) * 100);
      t.same(await rig.found("all"), all, "in memory");
      await rig.index.commit();
      t.same(await rig.found("all"), all, "written");
      if (round % 2 === 0) await rig.index.force();
      t.same(await rig.found("all"), all);
      for (const offset of all) t.same(await rig.found(`k${offset / 100}`), [offset]);
    }
    t.equal(rig.names.length, 9, "files of 7 entries");
    t.equal(rig.index.unwrittenBytes, 0);
    t.same(await rig.found("all", { begin: T0 + 2000, end: T0 + 5999 }), [500, 400, 300, 200]);
  },
);

t.test("KeyIndex.search() gives a message once, and goes on where another ended", async (t) => {
  const rig = new IndexRig(t, { slots: 3, entries: 50 });
  for (let i = 0; i < 40; i++) {
    rig.index.add(requestAt(i * 100, { keys: "a a Aa BB", uniqKey: "a" }));
  }
  await rig.index.force();
  const all = await rig.found("a");
  t.same(
    all,
    [...all].sort((a, b) => b - a),
  );
  t.equal(all.length, 40);
  const places = [];
  const search = { topic: "T", key: "a", begin: 0, end: 2 ** 50, before: 2 ** 50, at: undefined };
  for await (const hit of rig.index.search(search)) places.push(hit);
  for (const [i, at] of places.entries()) {
    t.same(await rig.found("a", { before: at.offset, at }), all.slice(i + 1));
    const gone = { file: "00000000000000001", number: at.number };
    t.same(await rig.found("a", { before: at.offset, at: gone }), all.slice(i + 1));
    const wrong = { ...at, number: 2 ** 40 };
    t.same(await rig.found("a", { before: at.offset, at: wrong }), all.slice(i + 1));
  }
});

t.test("KeyIndex writes with few calls, and makes files in one piece", async (t) => {
  const rig = new IndexRig(t, { slots: 50_000, entries: 200_000 });
  rig.fill(30_000);
  t.equal(rig.fs.count("open") + rig.fs.count("pwritev"), 0, "a key takes no call");
  t.equal(rig.index.unwrittenBytes, 60_000 * 20);
  await rig.index.commit();
  t.ok(rig.fs.count("pwritev") < 5, `${rig.fs.count("pwritev")} writes`);
  await rig.index.force();
  t.ok(rig.fs.count("pwritev") < 12, `${rig.fs.count("pwritev")} writes`);
  t.same(readdirSync(rig.context.staging), []);
});

t.test("KeyIndex keeps what a failed write did not take, and writes it again", async (t) => {
  for (const call of ["open", "ftruncate", "pwritev", "fdatasync", "rename"] as const) {
    const rig = new IndexRig(t);
    rig.fill(3);
    rig.fs.failNext(call, "ENOSPC");
    t.match(await rejection(rig.index.force()), { code: "STORE_IO", cause: { code: "ENOSPC" } });
    rig.fill(3, 3);
    t.same(await rig.found("all"), [500, 400, 300, 200, 100, 0], call);
    await rig.index.force();
    t.same(await rig.found("all"), [500, 400, 300, 200, 100, 0], call);
    await rig.load();
    t.same(await rig.found("all"), [500, 400, 300, 200, 100, 0], call);
  }
});

t.test("KeyIndex.force() notices a file that somebody removed", async (t) => {
  const rig = new IndexRig(t);
  rig.fill(1);
  await rig.index.force();
  await rig.fs.unlink(rig.path(rig.names[0]));
  rig.fill(1, 1);
  t.match(await rejection(rig.index.force()), { code: "STORE_FILES_VANISHED" });
});

t.test(
  "KeyIndex.deleteExpired() removes whole files, after the checkpoint, never the last",
  async (t) => {
    const rig = new IndexRig(t, { slots: 10, entries: 5 });
    rig.fill(8);
    await rig.index.force();
    const [first, second, ...rest] = rig.names;
    t.equal(rest.length, 2);
    const counts: number[] = [];
    const publish = async () => {
      counts.push(rig.index.mark(0).files);
      t.ok(rig.names.length > rig.index.files.length, "nothing is removed yet");
    };
    t.same(await rig.index.deleteExpired(100, publish), [], "its last message is not behind it");
    t.same(await rig.index.deleteExpired(399, publish), [first, second]);
    t.same(counts, [2], "only if there is anything to remove");
    t.same(rig.names, rest);
    t.same(await rig.found("all"), [700, 600, 500, 400]);
    t.same(await rig.index.deleteExpired(2 ** 50, publish), [rest[0]]);
    t.same(await rig.index.deleteExpired(2 ** 50, publish), []);
  },
);

t.test("KeyIndex.search() ends at a file that is deleted meanwhile", async (t) => {
  const rig = new IndexRig(t, { slots: 10, entries: 5 });
  rig.fill(8);
  await rig.index.force();
  await rig.load();
  const search = { topic: "T", key: "all", begin: 0, end: 2 ** 50, before: 2 ** 50, at: undefined };
  const found: number[] = [];
  for await (const { offset } of rig.index.search(search)) {
    found.push(offset);
    if (offset === 500) await rig.index.deleteExpired(399, async () => undefined);
  }
  t.same(found, [700, 600, 500, 400]);
});
