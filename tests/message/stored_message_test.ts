import t from "tap";
import { decodeRecord, encodeBlank, StoredMessage } from "../../lib/message/record.ts";
import { encodeMessage, ORDER_PAID, ORDER_PAID_BYTES, PHYSICAL_OFFSET } from "./samples.ts";

t.test("StoredMessage shows every field of a record", async (t) => {
  const message = decodeRecord(ORDER_PAID_BYTES);
  t.equal(message.topic, "TopicTest");
  t.equal(message.queueId, 3);
  t.equal(message.queueOffset, 42);
  t.equal(message.physicalOffset, PHYSICAL_OFFSET);
  t.equal(message.size, 213);
  t.equal(message.version, 1);
  t.equal(message.flag, 0);
  t.equal(message.sysFlag, 0);
  t.equal(message.bodyCrc, 0x4bfde631);
  t.equal(message.bornTimestamp, 1726740000000);
  t.equal(message.exactBornTimestamp, 1726740000000n);
  t.equal(message.bornHost, "192.168.1.10:54321");
  t.equal(message.storeTimestamp, 1726740000123);
  t.equal(message.storeHost, "10.0.0.7:10911");
  t.equal(message.reconsumeTimes, 0);
  t.equal(message.preparedTransactionOffset, 0);
  t.equal(message.exactPreparedTransactionOffset, 0n);
  t.equal(message.body.toString(), "order paid");
  t.equal(message.tags, "refund");
  t.strictSame(message.keys, ["order-1001"]);
  t.equal(message.uniqKey, "C0A8010A1F4018B4AAC25ED7C9000000");
  t.equal(message.waitStoreMsgOK, true);
  t.equal(message.messageId, "0A00000700002A9F0000000040000000");
  t.strictSame([...message.properties!.keys()], ["UNIQ_KEY", "CLUSTER", "TAGS", "KEYS", "WAIT"]);
  t.equal(message.property("CLUSTER"), "DefaultCluster");
  t.equal(message.property("none"), undefined);
});

t.test("StoredMessage has an IPv6 message id if the store has an IPv6 address", async (t) => {
  const bytes = encodeMessage({ ...ORDER_PAID, storeHost: "[2001:db8::7]:10911" });
  const message = decodeRecord(bytes);
  t.equal(message.messageId, "20010DB800000000000000000000000700002A9F0000000040000000");
  t.equal(message.storeHost, "[2001:db8:0:0:0:0:0:7]:10911");
  t.equal(message.bornHost, "192.168.1.10:54321");
});

t.test("StoredMessage has an empty buffer for an empty body", async (t) => {
  const message = decodeRecord(encodeMessage({ topic: "T", body: Buffer.alloc(0) }));
  t.strictSame(message.body, Buffer.alloc(0));
  t.equal(message.bodyCrc, 0);
});

t.test("StoredMessage without properties has no map, no keys, and waits", async (t) => {
  const message = decodeRecord(encodeMessage({ topic: "T", body: Buffer.alloc(1) }));
  t.equal(message.properties, undefined);
  t.equal(message.propertiesText, "");
  t.equal(message.tags, undefined);
  t.strictSame(message.keys, []);
  t.equal(message.waitStoreMsgOK, true);
});

t.test("StoredMessage.keys drops empty keys, and WAIT is true in any case", async (t) => {
  const message = decodeRecord(
    encodeMessage({
      topic: "T",
      body: Buffer.alloc(1),
      keys: " a  b ",
      properties: { WAIT: "TRUE" },
    }),
  );
  t.strictSame(message.keys, ["a", "b"]);
  t.equal(message.waitStoreMsgOK, true);
  const other = encodeMessage({ topic: "T", body: Buffer.alloc(1), properties: { WAIT: "yes" } });
  t.equal(decodeRecord(other).waitStoreMsgOK, false);
});

t.test("StoredMessage does not round what a producer wrote beyond 2^53", async (t) => {
  const bytes = Buffer.from(ORDER_PAID_BYTES);
  bytes.writeBigInt64BE(2n ** 53n + 1n, 40);
  bytes.writeBigInt64BE(-(2n ** 63n), 76);
  const message = decodeRecord(bytes);
  t.throws(() => message.bornTimestamp, {
    name: "RangeError",
    message: "Cannot read BORNTIMESTAMP as a number: 9007199254740993 is beyond 2^53 - 1",
  });
  t.equal(message.exactBornTimestamp, 2n ** 53n + 1n);
  t.throws(() => message.preparedTransactionOffset, { name: "RangeError" });
  t.equal(message.exactPreparedTransactionOffset, -(2n ** 63n));
});

t.test("decodeRecord() keeps a view of the one record", async (t) => {
  const bytes = Buffer.concat([Buffer.alloc(5), ORDER_PAID_BYTES, Buffer.alloc(5)]);
  const message = decodeRecord(bytes, 5);
  t.ok(message instanceof StoredMessage);
  t.strictSame(message.bytes, ORDER_PAID_BYTES);
  t.equal(message.bytes.buffer, bytes.buffer);
  const alone = decodeRecord(ORDER_PAID_BYTES);
  const names = Object.entries(Object.getOwnPropertyDescriptors(StoredMessage.prototype))
    .filter(([, { get }]) => get)
    .map(([name]) => name as keyof StoredMessage);
  t.ok(names.length > 20);
  for (const name of names) t.strictSame(message[name], alone[name], name);
  bytes[5 + 88] = 0x4f;
  t.equal(message.body.toString(), "Order paid", "a view, not a copy");
});

t.test("decodeRecord() throws STORE_RECORD_DAMAGED where there is no whole record", async (t) => {
  const code = "STORE_RECORD_DAMAGED";
  const blank = Buffer.alloc(8);
  encodeBlank(blank, 0, 8);
  t.throws(() => decodeRecord(blank), {
    code,
    message: "Cannot decode record: it is the blank at the end of a file",
  });
  t.throws(() => decodeRecord(ORDER_PAID_BYTES.subarray(0, 212)), {
    code,
    message: "Cannot decode record: 212 of at least 213 bytes are there",
  });
  t.throws(() => decodeRecord(Buffer.alloc(100)), {
    code,
    message: "Cannot decode record: zeros where a record should be",
  });
});
