import fc from "fast-check";
import t from "tap";
import {
  decodeUtf8,
  encodeUtf8,
  isAscii,
  javaStringHash,
  toJavaWellFormed,
  utf8Length,
} from "../../lib/message/java_string.ts";

t.test("javaStringHash() is Java's String.hashCode", async (t) => {
  // Computed on a JVM.
  const hashes: [string, number][] = [
    ["", 0],
    ["*", 42],
    ["TagA", 2598919],
    ["TagB", 2598920],
    ["refund", -934813832],
    ["订单", 1129459],
    ["中文", 646394],
    ["😀", 1772899],
    ["polygenelubricants", -2147483648],
    ["TopicTest#KEY1", -1656969516],
    ["__CRC32#", -1527310512],
  ];
  for (const [text, hash] of hashes) t.equal(javaStringHash(text), hash, text);
});

t.test("javaStringHash() gives Aa and BB the same hash", async (t) => {
  t.equal(javaStringHash("Aa"), javaStringHash("BB"));
});

t.test("encodeUtf8() writes what Java writes, ? for an unpaired surrogate", async (t) => {
  const texts: [string, string][] = [
    ["", ""],
    ["a", "61"],
    ["é", "c3a9"],
    ["订", "e8aea2"],
    ["😀", "f09f9880"],
    ["\0", "00"],
    ["\ud83d", "3f"],
    ["\ude00\ud83d", "3f3f"],
    ["a\ud83d订\ude00😀", "613fe8aea23ff09f9880"],
  ];
  for (const [text, hex] of texts) {
    t.equal(Buffer.from(encodeUtf8(text)).toString("hex"), hex, JSON.stringify(text));
    t.equal(utf8Length(text), hex.length / 2, `length of ${JSON.stringify(text)}`);
  }
});

t.test("decodeUtf8() reads malformed bytes as Java does", async (t) => {
  // Computed on a JVM.
  const cases: [string, string][] = [
    ["eda0bd", "\ufffd"],
    ["edbf", "\ufffd"],
    ["edbfc1dfef41", "\ufffd\ufffd\ufffd\ufffdA"],
    ["c080eda0bb", "\ufffd\ufffd\ufffd"],
    ["8f80edbbf1c0", "\ufffd\ufffd\ufffd\ufffd\ufffd"],
    ["9fc280edbf", "\ufffd\u0080\ufffd"],
    ["efbfbd41", "\ufffdA"],
    ["efbbbf41", "\ufeffA"],
    ["f09f98", "\ufffd"],
  ];
  for (const [hex, text] of cases) t.equal(decodeUtf8(Buffer.from(hex, "hex")), text, hex);
});

t.test("decodeUtf8() reads a part of a Buffer or of a Uint8Array", async (t) => {
  const bytes = Buffer.from("xx订单yy");
  t.equal(decodeUtf8(bytes, 2, 8), "订单");
  t.equal(decodeUtf8(new Uint8Array(bytes).subarray(1), 1, 7), "订单");
});

t.test("utf8Length(), encodeUtf8() and decodeUtf8() agree on any text", async () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.nat(0xffff).map((unit) => String.fromCharCode(unit)) }),
      (text) => {
        const bytes = encodeUtf8(text);
        return (
          bytes.length === utf8Length(text) &&
          decodeUtf8(bytes) === toJavaWellFormed(text) &&
          isAscii(text) === /^[\0-\x7f]*$/.test(text)
        );
      },
    ),
  );
});
