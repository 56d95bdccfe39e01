import t from "tap";
import {
  decodeUnit,
  encodeUnit,
  FILLER_SIZE,
  fillerUnits,
  isFiller,
  isUnit,
  UNIT_BYTES,
  unitOffset,
  unitSize,
  unitTagsHash,
} from "../../lib/consume_queue/queue_unit.ts";

t.test("encodeUnit() writes RocketMQ's 20 bytes, big-endian", async (t) => {
  for (const [physicalOffset, size, tagsCode, hex] of [
    [0, 1, 0, "0000000000000000 00000001 0000000000000000"],
    [4096, 182, 2598919, "0000000000001000 000000b6 000000000027a807"],
    [2 ** 32 + 5, 0x7ffffffe, -1, "0000000100000005 7ffffffe ffffffffffffffff"],
    [2 ** 53 - 1, 100, -(2 ** 31), "001fffffffffffff 00000064 ffffffff80000000"],
    [2 ** 31, 100, 1_700_000_000_123, "0000000080000000 00000064 0000018bcfe5687b"],
  ] as const) {
    const bytes = Buffer.alloc(UNIT_BYTES + 10, 0xee);
    encodeUnit(bytes, 5, physicalOffset, size, tagsCode);
    t.equal(bytes.subarray(5, 25).toString("hex"), hex.replaceAll(" ", ""));
    t.ok(
      bytes.subarray(0, 5).every((byte) => byte === 0xee),
      "and nothing around them",
    );
    t.ok(bytes.subarray(25).every((byte) => byte === 0xee));
    t.strictSame(decodeUnit(bytes, 5), { physicalOffset, size, tagsCode: BigInt(tagsCode) });
    t.equal(unitOffset(bytes, 5), physicalOffset);
    t.equal(unitSize(bytes, 5), size);
    t.equal(unitTagsHash(bytes, 5), Number(BigInt.asIntN(32, BigInt(tagsCode))));
    t.ok(isUnit(bytes, 5));
    t.notOk(isFiller(bytes, 5));
  }
});

t.test("fillerUnits() are RocketMQ's: offset 0, size 2^31 - 1, tags code 0", async (t) => {
  const hex = "0000000000000000 7fffffff 0000000000000000".replaceAll(" ", "");
  t.equal(fillerUnits(3).toString("hex"), hex.repeat(3));
  t.equal(fillerUnits(0).length, 0);
  t.ok(isFiller(fillerUnits(1), 0));
  t.ok(isUnit(fillerUnits(1), 0), "it fills the front, it does not end the queue");
});

t.test("isFiller() is no message of that size elsewhere in the log", async (t) => {
  const bytes = Buffer.alloc(UNIT_BYTES);
  encodeUnit(bytes, 0, 1, FILLER_SIZE, 0);
  t.notOk(isFiller(bytes, 0));
});

t.test("isUnit() is false where the queue ends", async (t) => {
  for (const hex of [
    "0000000000000000 00000000 0000000000000000",
    "0000000000001000 00000000 0000000000000000",
    "0000000000001000 ffffffff 0000000000000000",
    "8000000000000000 00000001 0000000000000000",
    "ffffffffffffffff 00000001 0000000000000000",
  ]) {
    t.notOk(isUnit(Buffer.from(hex.replaceAll(" ", ""), "hex"), 0), hex);
  }
});

t.test("unitOffset() refuses an offset that no double holds", async (t) => {
  for (const hex of ["0020000000000000", "7fffffffffffffff", "8000000000000000"]) {
    const bytes = Buffer.from(`${hex}000000640000000000000000`, "hex");
    t.throws(() => unitOffset(bytes, 0), RangeError, hex);
    t.throws(() => decodeUnit(bytes, 0), RangeError);
  }
});
