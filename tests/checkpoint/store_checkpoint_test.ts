import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import {
  type CheckpointLongs,
  decodeCheckpoint,
  encodeCheckpoint,
  NO_CHECKPOINT,
  readCheckpoint,
  type Watermarks,
  writeCheckpoint,
} from "../../lib/checkpoint/store_checkpoint.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";

const LONGS: CheckpointLongs = {
  physicMsgTimestamp: 0x19209b96d7b,
  logicsMsgTimestamp: 0x19209b96d7b,
  indexMsgTimestamp: 0,
  masterFlushedOffset: 0,
  confirmPhyOffset: 0x40000000,
  logicsPhysicalOffset: 0x12345678,
};
const WATERMARKS: Watermarks = {
  logEnd: 2 ** 40 + 1,
  queuesEnd: 2 ** 40,
  queueCount: 12,
  unitCount: 2 ** 33,
  index: {
    end: 2 ** 40,
    files: 3,
    newest: "20261129193553041",
    count: 20_000_000,
    endTimestamp: 0x19209b96d7b,
    fullTimestamp: 0x19209b96d7a,
  },
};

function setUp(t: Test) {
  const root = t.testdir({ own: {} });
  const fs = new InterceptedFileSystem(new NodeFileSystem());
  const place = { path: join(root, "checkpoint"), staging: join(root, "own") };
  return { root, fs, place };
}

t.test("encodeCheckpoint() has RocketMQ's longs at their places", async (t) => {
  const bytes = encodeCheckpoint(LONGS, WATERMARKS);
  t.equal(bytes.length, 4096);
  t.equal(
    bytes.subarray(0, 48).toString("hex"),
    "0000019209b96d7b0000019209b96d7b000000000000000000000000000000000000000040000000" +
      "0000000012345678",
  );
  t.ok(bytes.subarray(48, 2048).every((byte) => byte === 0));
  t.equal(bytes.toString("latin1", 2048, 2052), "FLC1");
  t.ok(bytes.subarray(2048 + 128, 2304).every((byte) => byte === 0));
  t.equal(bytes.toString("latin1", 2304, 2308), "FLI1");
  t.ok(bytes.subarray(2304 + 60).every((byte) => byte === 0));
});

t.test("decodeCheckpoint() gives back what was encoded", async (t) => {
  t.strictSame(decodeCheckpoint(encodeCheckpoint(LONGS, WATERMARKS)), {
    longs: LONGS,
    watermarks: WATERMARKS,
  });
});

t.test("decodeCheckpoint() reads RocketMQ's own file, without our slot", async (t) => {
  const bytes = Buffer.alloc(4096);
  bytes.write(
    "0000019209B96D7B0000019209B96D7B000000000000000000000000000000000000000040000000",
    "hex",
  );
  t.strictSame(decodeCheckpoint(bytes), {
    longs: { ...LONGS, logicsPhysicalOffset: 0 },
    watermarks: undefined,
  });
});

t.test("decodeCheckpoint() voids the slot when any long differs from its copy", async (t) => {
  for (let at = 0; at < 48; at++) {
    const bytes = encodeCheckpoint(LONGS, WATERMARKS);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    t.equal(decodeCheckpoint(bytes).watermarks, undefined, `byte ${at}`);
  }
});

t.test("decodeCheckpoint() voids the slot when any of its bits is wrong", async (t) => {
  const good = encodeCheckpoint(LONGS, WATERMARKS);
  // Magic, version, copy, four watermarks and the CRC.
  const length = 8 + 48 + 4 * 8 + 4;
  for (let at = 2048; at < 2048 + length; at++) {
    for (const bit of [1, 0x80]) {
      const bytes = Buffer.from(good);
      bytes[at] = (bytes[at] ?? 0) ^ bit;
      if (decodeCheckpoint(bytes).watermarks) t.fail(`byte ${at} does not count`);
    }
  }
  t.strictSame(decodeCheckpoint(good).watermarks, WATERMARKS);
});

t.test(
  "decodeCheckpoint() voids the index's slot alone when any of its bits is wrong",
  async (t) => {
    const good = encodeCheckpoint(LONGS, WATERMARKS);
    for (let at = 2304; at < 2304 + 60; at++) {
      const bytes = Buffer.from(good);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      t.strictSame(decodeCheckpoint(bytes).watermarks, { ...WATERMARKS, index: undefined });
    }
    const without = encodeCheckpoint(LONGS, { ...WATERMARKS, index: undefined });
    t.ok(without.subarray(2304).every((byte) => byte === 0));
    const empty = { end: 5, files: 0, newest: "", count: 0, endTimestamp: 0, fullTimestamp: 0 };
    const bytes = encodeCheckpoint(LONGS, { ...WATERMARKS, index: empty });
    t.strictSame(decodeCheckpoint(bytes).watermarks?.index, empty);
  },
);

t.test("decodeCheckpoint() takes a long that no double holds for nothing", async (t) => {
  const bytes = Buffer.alloc(4096);
  bytes.writeBigInt64BE(2n ** 53n, 0);
  bytes.writeBigInt64BE(-1n, 8);
  bytes.writeBigInt64BE(2n ** 53n - 1n, 40);
  t.match(decodeCheckpoint(bytes).longs, {
    physicMsgTimestamp: 0,
    logicsMsgTimestamp: -1,
    logicsPhysicalOffset: 2 ** 53 - 1,
  });
});

t.test("readCheckpoint() of a file that is missing, empty or cut says nothing", async (t) => {
  const { fs, place } = setUp(t);
  t.strictSame(await readCheckpoint(fs, place.path), NO_CHECKPOINT);
  for (const length of [0, 1, 47]) {
    writeFileSync(place.path, encodeCheckpoint(LONGS, WATERMARKS));
    truncateSync(place.path, length);
    t.strictSame(await readCheckpoint(fs, place.path), NO_CHECKPOINT, `${length} bytes`);
  }
  for (const length of [48, 2048, 2048 + 91]) {
    writeFileSync(place.path, encodeCheckpoint(LONGS, WATERMARKS));
    truncateSync(place.path, length);
    const { longs, watermarks } = await readCheckpoint(fs, place.path);
    t.strictSame(longs, LONGS, `${length} bytes`);
    t.equal(watermarks, undefined);
  }
});

t.test("readCheckpoint() passes on a failed read", async (t) => {
  const { fs, place } = setUp(t);
  writeFileSync(place.path, encodeCheckpoint(LONGS, WATERMARKS));
  for (const call of ["open", "pread"] as const) {
    fs.failNext(call, "EIO");
    await t.rejects(readCheckpoint(fs, place.path), {
      code: "STORE_IO",
      path: place.path,
      cause: { code: "EIO" },
    });
  }
  t.strictSame((await readCheckpoint(fs, place.path)).watermarks, WATERMARKS);
  t.equal(fs.count("open") - 1, fs.count("close"), "every handle is closed");
});

t.test("writeCheckpoint() replaces the file as a whole", async (t) => {
  const { root, fs, place } = setUp(t);
  await writeCheckpoint(fs, place, LONGS, WATERMARKS);
  t.strictSame(await readCheckpoint(fs, place.path), { longs: LONGS, watermarks: WATERMARKS });
  for (const call of ["open", "pwritev", "fdatasync", "rename"] as const) {
    fs.failNext(call, "ENOSPC");
    const longs = { ...LONGS, confirmPhyOffset: 7 };
    await t.rejects(writeCheckpoint(fs, place, longs, WATERMARKS), {
      code: "STORE_IO",
      path: place.path,
      cause: { code: "ENOSPC" },
    });
    t.strictSame((await readCheckpoint(fs, place.path)).longs, LONGS, `${call}: the old one stays`);
    t.strictSame(readdirSync(place.staging), [], `${call}: and nothing else`);
  }
  const before = fs.calls.length;
  await writeCheckpoint(fs, place, { ...LONGS, confirmPhyOffset: 7 }, WATERMARKS);
  const names = fs.calls.slice(before).map(({ name }) => name);
  t.ok(names.indexOf("fdatasync") < names.indexOf("rename"), "synced before it gets its name");
  t.ok(names.indexOf("rename") < names.indexOf("syncDirectory"));
  t.equal(readFileSync(place.path).length, 4096);
  t.strictSame(readdirSync(root).sort(), ["checkpoint", "own"]);
});

t.test("readCheckpoint() refuses what is no file, without opening it", async (t) => {
  const { fs, place } = setUp(t);
  mkdirSync(place.path);
  await t.rejects(readCheckpoint(fs, place.path), {
    code: "STORE_IO",
    path: place.path,
    message: /it is no file/,
  });
  t.equal(fs.count("open"), 0, "a pipe would keep whoever opens it waiting");
});
