import t from "tap";
import { decodeBatchBody } from "../../lib/message/batch.ts";
import { parseHost } from "../../lib/message/host.ts";
import {
  innerBatchOf,
  innerMessagesOf,
  isInnerBatch,
  wantsInnerBatch,
  withInnerBase,
} from "../../lib/message/inner_batch.ts";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import { decodeRecord, encodeRecord } from "../../lib/message/record.ts";

const DEFAULTS = {
  bornHost: parseHost("192.168.1.10:54321"),
  storeHost: parseHost("10.0.0.7:10911"),
  now: 1_726_740_000_000,
  appendPropertyCrc: false,
  autoVersion: true,
};
const BATCH = {
  topic: "B",
  queueId: 3,
  properties: { UNIQ_KEY: "U" },
  messages: [
    { body: Buffer.from("m1"), tags: "TagA", flag: 7 },
    { body: Buffer.from("m2"), keys: "k" },
  ],
};

t.test("wantsInnerBatch() goes by the batch's own unique key", async (t) => {
  t.ok(wantsInnerBatch(BATCH));
  t.notOk(wantsInnerBatch({ ...BATCH, properties: {} }));
  t.notOk(wantsInnerBatch({ ...BATCH, properties: { UNIQ_KEY: "" } }));
  t.notOk(wantsInnerBatch({ topic: "B", messages: [{ body: Buffer.alloc(1), uniqKey: "U" }] }));
});

t.test("innerBatchOf() makes one message of the batch", async (t) => {
  const message = innerBatchOf({ ...BATCH, sysFlag: 2 });
  t.match(message, { topic: "B", queueId: 3, sysFlag: 0xc2 });
  t.same(message.properties, { UNIQ_KEY: "U", INNER_NUM: "2" });
  t.same(
    decodeBatchBody(message.body).map(({ body }) => Buffer.from(body).toString()),
    ["m1", "m2"],
  );
});

t.test("innerMessagesOf() unpacks what innerBatchOf() and withInnerBase() have made", async (t) => {
  const record = withInnerBase(prepareRecord(innerBatchOf(BATCH), DEFAULTS), 100);
  t.equal(record.messages, 2);
  const bytes = Buffer.alloc(record.size);
  encodeRecord(bytes, 0, record, 100, 5000, 1_726_740_000_123);
  const message = decodeRecord(bytes);
  t.equal(message.property("INNER_BASE"), "100");
  t.ok(isInnerBatch(message.sysFlag));
  t.match(innerMessagesOf(message), [
    { queueOffset: 100, body: Buffer.from("m1"), flag: 7 },
    { queueOffset: 101, body: Buffer.from("m2"), flag: 0 },
  ]);
  t.same([...(innerMessagesOf(message)?.[0]?.properties ?? [])], [["TAGS", "TagA"]]);
});

t.test("innerMessagesOf() tells what it cannot unpack", async (t) => {
  const stored = (sysFlag: number, body: Buffer) => {
    const record = prepareRecord({ topic: "B", body, sysFlag }, DEFAULTS);
    const bytes = Buffer.alloc(record.size);
    encodeRecord(bytes, 0, record, 0, 0, 1);
    return decodeRecord(bytes);
  };
  t.equal(innerMessagesOf(stored(0, Buffer.from("x"))), undefined);
  t.throws(() => innerMessagesOf(stored(0xc0, Buffer.from("x"))), { name: "RangeError" });
  t.throws(() => innerMessagesOf(stored(0xc1, Buffer.from("x"))), { message: /compressed/ });
});

t.test("a record says how many messages it is", async (t) => {
  const messages = (sysFlag: number, properties: Record<string, string>) =>
    prepareRecord({ topic: "B", body: Buffer.alloc(0), sysFlag, properties }, DEFAULTS).messages;
  t.equal(messages(0, { INNER_NUM: "5" }), 1);
  t.equal(messages(0x80, {}), 1);
  t.equal(messages(0x80, { INNER_NUM: "5" }), 5);
  t.equal(messages(0x80, { INNER_NUM: "32767" }), 32_767);
  for (const wrong of ["0", "-1", "32768", "x", "1.5"]) {
    t.equal(messages(0x80, { INNER_NUM: wrong }), 0, wrong);
  }
});
