import fc from "fast-check";
import t from "tap";
import { decodeBatchBody, encodeBatchBody } from "../../lib/message/batch.ts";

const ITEM_1 =
  "00000022 00000000 00000000 00000000 00000002 6d31 000a 54414753015461674102".replaceAll(" ", "");
const ITEM_2 =
  "00000022 00000000 00000000 00000000 00000002 6d32 000a 54414753015461674202".replaceAll(" ", "");

t.test("encodeBatchBody() makes of two messages what a client makes", async (t) => {
  const items = [
    { body: Buffer.from("m1"), tags: "TagA" },
    { body: Buffer.from("m2"), tags: "TagB" },
  ];
  t.equal(encodeBatchBody(items).toString("hex"), ITEM_1 + ITEM_2);
  t.equal(encodeBatchBody([]).length, 0);
});

t.test("decodeBatchBody() reads body, flag and properties of each item", async (t) => {
  const bytes = Buffer.from(ITEM_1 + ITEM_2, "hex");
  bytes.writeInt32BE(-7, 12);
  t.strictSame(decodeBatchBody(bytes), [
    { body: Buffer.from("m1"), flag: -7, propertiesString: "TAGS\x01TagA\x02" },
    { body: Buffer.from("m2"), flag: 0, propertiesString: "TAGS\x01TagB\x02" },
  ]);
  t.strictSame(decodeBatchBody(Buffer.alloc(0)), []);
});

t.test("decodeBatchBody() names the broken item and its place", async (t) => {
  const good = Buffer.from(ITEM_1 + ITEM_2, "hex");
  const broken = (change: (bytes: Buffer) => Buffer | number, message: string) => {
    const bytes = Buffer.from(good);
    const result = change(bytes);
    const given = typeof result === "number" ? bytes : result;
    t.throws(() => decodeBatchBody(given), {
      name: "RangeError",
      message: `Cannot decode item 1 of a batch at byte 34 of ${given.length}: ${message}`,
    });
  };
  broken((b) => b.subarray(0, 55), "21 bytes are left, the smallest item has 22");
  broken((b) => b.subarray(0, 67), "TOTALSIZE is 34, with 33 bytes left");
  broken((b) => b.writeInt32BE(21, 34), "TOTALSIZE is 21, with 34 bytes left");
  broken((b) => b.writeInt32BE(-1, 34), "TOTALSIZE is -1, with 34 bytes left");
  broken((b) => b.writeInt32BE(-1, 50), "BODYLENGTH is -1, which does not fit TOTALSIZE 34");
  broken((b) => b.writeInt32BE(13, 50), "BODYLENGTH is 13, which does not fit TOTALSIZE 34");
  broken((b) => b.writeInt16BE(9, 56), "PROPERTIESLENGTH is 9, which does not fit TOTALSIZE 34");
  broken((b) => b.writeInt16BE(-1, 56), "PROPERTIESLENGTH is -1, which does not fit TOTALSIZE 34");
});

t.test("encodeBatchBody() refuses what its fields cannot hold", async (t) => {
  const body = Buffer.alloc(1);
  const most = { body, propertiesString: "x".repeat(32767) };
  t.equal(encodeBatchBody([most]).length, 23 + 32767);
  t.throws(() => encodeBatchBody([{ body }, { body, propertiesString: "x".repeat(32768) }]), {
    name: "RangeError",
    message: /item 1 of a batch: its properties have 32768 bytes/,
  });
  t.throws(() => encodeBatchBody([{ body: "text" as unknown as Uint8Array }]), {
    name: "TypeError",
  });
  t.throws(() => encodeBatchBody([{ body, flag: 2 ** 31 }]), { name: "RangeError" });
});

t.test("decodeBatchBody() reads back what encodeBatchBody() writes", async () => {
  const item = fc.record({
    body: fc.uint8Array({ maxLength: 50 }).map((array) => Buffer.from(array)),
    flag: fc.integer(),
    propertiesString: fc.string({ unit: "grapheme", maxLength: 30 }),
  });
  fc.assert(
    fc.property(fc.array(item, { maxLength: 8 }), (items) => {
      const read = decodeBatchBody(encodeBatchBody(items));
      return (
        read.length === items.length &&
        read.every(
          (got, i) =>
            Buffer.compare(got.body, items[i]!.body) === 0 &&
            got.flag === items[i]!.flag &&
            got.propertiesString === items[i]!.propertiesString,
        )
      );
    }),
  );
});

t.test("decodeBatchBody() throws nothing but RangeError, whatever the bytes", async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(40), (noise, at) => {
      const bytes = Buffer.from(ITEM_1 + ITEM_2, "hex");
      bytes.set(noise.subarray(0, bytes.length - at), at);
      try {
        decodeBatchBody(bytes);
      } catch (error) {
        return error instanceof RangeError;
      }
      return true;
    }),
  );
});
