import t from "tap";
import { parseHost } from "../../lib/message/host.ts";
import { messageIdOf, parseMessageId } from "../../lib/message/message_id.ts";

t.test("messageIdOf() joins host and offset in upper-case hex", async (t) => {
  const v4 = parseHost("10.0.0.7:10911");
  const v6 = parseHost("[2001:db8::7]:10911");
  t.equal(messageIdOf(v4, 1073741824), "0A00000700002A9F0000000040000000");
  t.equal(messageIdOf(v6, 1073741824), "20010DB800000000000000000000000700002A9F0000000040000000");
  t.equal(messageIdOf(v4.bytes, 0), "0A00000700002A9F0000000000000000", "bytes of a record");
  t.equal(messageIdOf(v4, Number.MAX_SAFE_INTEGER), "0A00000700002A9F001FFFFFFFFFFFFF");
});

t.test("parseMessageId() reads both forms in either case", async (t) => {
  const v4 = { storeHost: "10.0.0.7:10911", physicalOffset: 1073741824 };
  t.strictSame(parseMessageId("0A00000700002A9F0000000040000000"), v4);
  t.strictSame(parseMessageId("0a00000700002a9f0000000040000000"), v4);
  t.strictSame(parseMessageId("20010DB800000000000000000000000700002A9F0000000040000000"), {
    storeHost: "[2001:db8:0:0:0:0:0:7]:10911",
    physicalOffset: 1073741824,
  });
});

t.test("parseMessageId() refuses other text", async (t) => {
  const wrong = [
    "",
    "0A00000700002A9F000000004000000",
    "0A00000700002A9F00000000400000000",
    "0G00000700002A9F0000000040000000",
    "0A00000700002A9F0020000000000001",
    "0A00000700002A9FFFFFFFFFFFFFFFFF",
  ];
  for (const text of wrong) t.throws(() => parseMessageId(text), { name: "RangeError" }, text);
  t.throws(() => parseMessageId(undefined as unknown as string), { name: "TypeError" });
});
