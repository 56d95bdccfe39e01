import t from "tap";
import {
  decodeHeader,
  encodeEntry,
  encodeHeader,
  entryPosition,
  fileSizeOf,
  headerBehind,
  type IndexHeader,
  indexName,
  isIndexName,
  secondsSince,
  slotPosition,
} from "../../lib/index/index_format.ts";

const DEFAULT = { slots: 5_000_000, entries: 20_000_000 };
const HEADER: IndexHeader = {
  beginTimestamp: 0x19209b96d7b,
  endTimestamp: 0x19209b98a20,
  beginPhysicalOffset: 0x40000000,
  endPhysicalOffset: 0x40000114,
  usedSlots: 2,
  count: 4,
};

function headerBytes(header: IndexHeader): Buffer {
  const bytes = Buffer.alloc(40);
  encodeHeader(new DataView(bytes.buffer, bytes.byteOffset, 40), header);
  return bytes;
}

t.test("sizes and places are RocketMQ's", async (t) => {
  t.equal(fileSizeOf(DEFAULT), 420_000_040);
  t.equal(slotPosition(2777302), 11109248);
  t.equal(entryPosition(DEFAULT, 1), 20000060);
});

t.test("encodeHeader() and encodeEntry() write RocketMQ's bytes", async (t) => {
  t.equal(
    headerBytes(HEADER).toString("hex").toUpperCase(),
    "0000019209B96D7B0000019209B98A20000000004000000000000000400001140000000200000004",
  );
  const bytes = Buffer.alloc(20);
  encodeEntry(new DataView(bytes.buffer, bytes.byteOffset), 0, 0x3e373301, 0x40000114, 7, 2);
  t.equal(bytes.toString("hex").toUpperCase(), "3E37330100000000400001140000000700000002");
  encodeEntry(new DataView(bytes.buffer, bytes.byteOffset), 0, 1, 2 ** 53 - 1, 2 ** 31 - 1, 0);
  t.equal(bytes.toString("hex"), "00000001001fffffffffffff7fffffff00000000");
});

t.test(
  "decodeHeader() gives back what was encoded, and takes zeros for an empty file",
  async (t) => {
    t.strictSame(decodeHeader(headerBytes(HEADER), DEFAULT), HEADER);
    t.match(decodeHeader(Buffer.alloc(40), DEFAULT), { count: 1, endTimestamp: 0 });
  },
);

t.test("decodeHeader() refuses what no file of the shape has", async (t) => {
  const bad: Partial<IndexHeader>[] = [
    { count: 20_000_001 },
    { usedSlots: -1 },
    { usedSlots: 5_000_001 },
    { beginPhysicalOffset: -1 },
    { endPhysicalOffset: 0 },
    { endTimestamp: -5 },
  ];
  for (const fields of bad) {
    const bytes = headerBytes({ ...HEADER, ...fields });
    t.equal(decodeHeader(bytes, DEFAULT), undefined, JSON.stringify(fields));
  }
  const bytes = headerBytes(HEADER);
  bytes.writeBigInt64BE(2n ** 53n, 24);
  t.equal(decodeHeader(bytes, DEFAULT), undefined, "beyond 2^53");
});

t.test("headerBehind() presets a follow-up file with the end of the one before", async (t) => {
  t.strictSame(headerBehind(HEADER), {
    beginTimestamp: HEADER.endTimestamp,
    endTimestamp: HEADER.endTimestamp,
    beginPhysicalOffset: HEADER.endPhysicalOffset,
    endPhysicalOffset: HEADER.endPhysicalOffset,
    usedSlots: 0,
    count: 1,
  });
  t.match(headerBehind(undefined), { beginTimestamp: 0, beginPhysicalOffset: 0, count: 1 });
});

t.test("secondsSince() cuts to whole seconds, and to int32", async (t) => {
  t.equal(secondsSince(1000, 8333), 7);
  t.equal(secondsSince(1000, 1999), 0);
  t.equal(secondsSince(1000, 0), 0, "the clock went back");
  t.equal(secondsSince(0, 5000), 0, "no begin yet");
  t.equal(secondsSince(1, 2 ** 53 - 1), 2 ** 31 - 1);
});

t.test("indexName() is the local time, and always behind the one before", async (t) => {
  const name = indexName(new Date(2024, 8, 19, 10, 1, 2, 3).getTime(), undefined);
  t.equal(name, "20240919100102003");
  t.equal(indexName(0, name), "20240919100102004", "the clock went back");
  for (const time of [-1, 0, Number.MAX_SAFE_INTEGER, 8.64e15]) {
    let last = indexName(time, undefined);
    for (let i = 0; i < 3; i++) {
      const next = indexName(time, last);
      t.ok(isIndexName(next) && next > last, `${next} behind ${last}`);
      last = next;
    }
  }
  for (const other of ["", "x", "2024", "20240919100102003.tmp", "99990919100102003"]) {
    t.notOk(isIndexName(other), other);
  }
});
