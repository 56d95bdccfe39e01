import fc from "fast-check";
import t from "tap";
import {
  readBigInt64,
  readInt16,
  readInt32,
  readInt64,
  readInt64Rounded,
  writeInt32,
  writeInt64,
} from "../../lib/message/int64.ts";

t.test("writeInt64() and readInt64() are big-endian and exact", async (t) => {
  const bytes = Buffer.alloc(10, 0xee);
  const values = [0, 1, -1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 1726740000123, -(2 ** 32)];
  for (const value of [...values, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]) {
    writeInt64(bytes, 1, value);
    t.equal(bytes.readBigInt64BE(1), BigInt(value), String(value));
    t.equal(readInt64(bytes, 1, "it"), value);
  }
  t.equal(bytes[0], 0xee);
  t.equal(bytes[9], 0xee);
});

t.test("readInt64() refuses what is beyond 2^53 - 1 and names the exact value", async (t) => {
  const bytes = Buffer.alloc(8);
  for (const value of [2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n)]) {
    bytes.writeBigInt64BE(value);
    t.throws(
      () => readInt64(bytes, 0, "QUEUEOFFSET"),
      new RangeError(`Cannot read QUEUEOFFSET as a number: ${value} is beyond 2^53 - 1`),
    );
    t.equal(readBigInt64(bytes, 0), value);
    t.notOk(Number.isSafeInteger(readInt64Rounded(bytes, 0)));
  }
});

t.test("readInt64(), readInt32() and readInt16() agree with Buffer on any bytes", async () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 8, maxLength: 8 }), (array) => {
      const bytes = Buffer.from(array);
      const exact = bytes.readBigInt64BE(0);
      const rounded = readInt64Rounded(bytes, 0);
      const safe = exact >= -(2n ** 53n) + 1n && exact <= 2n ** 53n - 1n;
      return (
        readBigInt64(bytes, 0) === exact &&
        (safe ? BigInt(rounded) === exact : !Number.isSafeInteger(rounded)) &&
        readInt32(bytes, 1) === bytes.readInt32BE(1) &&
        readInt16(bytes, 2) === bytes.readInt16BE(2)
      );
    }),
  );
});

t.test("writeInt32() takes signed and unsigned", async (t) => {
  const bytes = Buffer.alloc(4);
  for (const value of [0, -1, 2 ** 31 - 1, -(2 ** 31), 2 ** 32 - 1]) {
    writeInt32(bytes, 0, value);
    t.equal(readInt32(bytes, 0), value | 0);
  }
});
