import t from "tap";
import {
  addressOf,
  copyTagsCode,
  decodeExtensionUnit,
  encodeExtensionUnit,
  extensionUnitSize,
} from "../../lib/consume_queue/extension_unit.ts";
import {
  addressedOffset,
  decodeUnit,
  encodeUnit,
  isAddress,
  setUnitTagsCode,
  UNIT_BYTES,
} from "../../lib/consume_queue/queue_unit.ts";

/** Hash of `refund`, 1726740000123, no bitmap; bytes of `ConsumeQueueExt.CqExtUnit.write`. */
const PLAIN = Buffer.from("0014ffffffffc847df780000019209b96d7b0000", "hex");
/** The same with bits 14, 39 and 59 of 112. */
const FILTERED = Buffer.from(
  "0022ffffffffc847df780000019209b96d7b000e0040000080000008000000000000",
  "hex",
);

t.test("encodeExtensionUnit() writes RocketMQ's bytes", async (t) => {
  const bytes = Buffer.alloc(20, 0xaa);
  encodeExtensionUnit(bytes, 0, -934_813_832, 1_726_740_000_123);
  t.same(bytes, PLAIN);
});

t.test("decodeExtensionUnit() reads RocketMQ's bytes", async (t) => {
  t.same(decodeExtensionUnit(PLAIN, 0), {
    tagsCode: -934_813_832n,
    storeTimestamp: 1_726_740_000_123n,
    bitmap: Buffer.alloc(0),
  });
  const both = Buffer.concat([PLAIN, FILTERED]);
  t.equal(extensionUnitSize(both, 20), 34);
  t.same(decodeExtensionUnit(both, 20)?.bitmap, FILTERED.subarray(20));
});

t.test("decodeExtensionUnit() takes nothing else for a unit", async (t) => {
  const changed = (change: (bytes: Buffer) => void): Buffer => {
    const bytes = Buffer.from(FILTERED);
    change(bytes);
    return bytes;
  };
  const cases: Record<string, Buffer> = {
    nothing: Buffer.alloc(0),
    zeros: Buffer.alloc(40),
    "the end of a file": changed((bytes) => bytes.writeInt16BE(-1, 0)),
    "cut off in its head": FILTERED.subarray(0, 19),
    "cut off in its bitmap": FILTERED.subarray(0, 33),
    "too large": changed((bytes) => bytes.writeInt16BE(0x7fff, 0)),
    "without room for its bitmap": changed((bytes) => bytes.writeInt16BE(20, 0)),
    "with a bitmap of less than nothing": changed((bytes) => bytes.writeInt16BE(-1, 18)),
  };
  for (const [what, bytes] of Object.entries(cases)) {
    t.equal(decodeExtensionUnit(bytes, 0), undefined, what);
  }
});

t.test("an address stands in a queue unit, and is no hash and no time", async (t) => {
  const unit = Buffer.alloc(UNIT_BYTES);
  for (const [offset, hex] of [
    [0, "8000000000000000"],
    [40, "8000000000000028"],
    [2 ** 32 + 1, "8000000100000001"],
    [Number.MAX_SAFE_INTEGER, "801fffffffffffff"],
  ] as const) {
    encodeUnit(unit, 0, 100, 50, 7);
    t.equal(addressedOffset(unit, 0), undefined);
    setUnitTagsCode(unit, 0, addressOf(offset));
    t.equal(unit.toString("hex", 12), hex);
    t.equal(addressedOffset(unit, 0), offset);
    t.equal(decodeUnit(unit, 0).tagsCode, addressOf(offset));
  }
  for (const tagsCode of [-(2 ** 31), 2 ** 31 - 1, 0, -1, 1_726_740_000_123]) {
    encodeUnit(unit, 0, 100, 50, tagsCode);
    t.equal(addressedOffset(unit, 0), undefined, `${tagsCode}`);
    t.notOk(isAddress(unit.readInt32BE(12)));
  }
});

t.test("addressedOffset() leads nowhere beyond 2^53", async (t) => {
  const unit = Buffer.alloc(UNIT_BYTES);
  // The highest address (`ConsumeQueueExt.MAX_ADDR`), and the first that is beyond.
  for (const tagsCode of [-2_147_483_649n, addressOf(2 ** 53 - 1) + 1n]) {
    setUnitTagsCode(unit, 0, tagsCode);
    t.equal(addressedOffset(unit, 0), undefined);
  }
});

t.test("copyTagsCode() puts the tags code in place of the address", async (t) => {
  const units = Buffer.alloc(2 * UNIT_BYTES);
  encodeUnit(units, UNIT_BYTES, 100, 50, 0);
  setUnitTagsCode(units, UNIT_BYTES, addressOf(0));
  copyTagsCode(FILTERED, 0, units, UNIT_BYTES);
  t.same(decodeUnit(units, UNIT_BYTES), {
    physicalOffset: 100,
    size: 50,
    tagsCode: -934_813_832n,
  });
});
