import t from "tap";
import type { Message } from "../../lib/message/message.ts";
import { prepareBatch, prepareRecord } from "../../lib/message/outgoing_record.ts";
import { decodeRecord } from "../../lib/message/record.ts";
import { DEFAULTS, encode, encodeMessage, ORDER_PAID, WITH_CRC } from "./samples.ts";

const BARE: Message = { topic: "T", body: Buffer.alloc(0) };
const short = (text: string) => text.replaceAll("\x01", "=").replaceAll("\x02", ";");
const long = (text: string) => text.replaceAll("=", "\x01").replaceAll(";", "\x02");

t.test("prepareRecord() fills in what the message does not say", async (t) => {
  const record = prepareRecord(BARE, DEFAULTS);
  t.match(record, {
    topic: "T",
    version: 1,
    queueId: 0,
    flag: 0,
    sysFlag: 0,
    bornTimestamp: DEFAULTS.now,
    bornHost: DEFAULTS.bornHost,
    storeHost: DEFAULTS.storeHost,
    reconsumeTimes: 0,
    preparedTransactionOffset: 0,
    bodyCrc: 0,
    propertiesText: "",
    propertiesSize: 0,
    size: 92,
    wait: true,
    tagsCode: 0,
    delayLevel: 0,
  });
  t.equal(record.tags, undefined);
  t.equal(record.keys, undefined);
  t.equal(record.uniqKey, undefined);
});

t.test("prepareRecord() notes what a reader of the record will find", async (t) => {
  const record = prepareRecord(ORDER_PAID, DEFAULTS);
  t.equal(record.tags, "refund");
  t.equal(record.tagsCode, -934813832);
  t.equal(record.keys, "order-1001");
  t.equal(record.uniqKey, "C0A8010A1F4018B4AAC25ED7C9000000");
  t.equal(record.size, 213);
});

t.test("prepareRecord() drops empty names and values, as a broker does", async (t) => {
  const message = { ...BARE, tags: "", keys: [], properties: { a: "1", b: "", "": "x" } };
  const record = prepareRecord(message, DEFAULTS);
  t.equal(short(record.propertiesText), "a=1;");
  t.equal(record.tags, undefined);
  t.equal(record.keys, undefined);
});

t.test("prepareRecord() lets a property override the field", async (t) => {
  const properties = { TAGS: "p", WAIT: "false" };
  const record = prepareRecord({ ...BARE, tags: "f", waitStoreMsgOK: true, properties }, DEFAULTS);
  t.equal(record.tags, "p");
  t.equal(record.wait, false);
  t.equal(short(record.propertiesText), "TAGS=p;WAIT=false;");
});

t.test("prepareRecord() writes WAIT only if the message says so, and waits by it", async (t) => {
  const prepared = (message: Partial<Message>) => {
    const record = prepareRecord({ ...BARE, ...message }, DEFAULTS);
    return [record.wait, short(record.propertiesText)];
  };
  t.strictSame(prepared({}), [true, ""]);
  t.strictSame(prepared({ waitStoreMsgOK: true }), [true, "WAIT=true;"]);
  t.strictSame(prepared({ waitStoreMsgOK: false }), [false, "WAIT=false;"]);
  t.strictSame(prepared({ properties: { WAIT: "True" } }), [true, "WAIT=True;"]);
  t.strictSame(prepared({ properties: { WAIT: "1" } }), [false, "WAIT=1;"]);
  t.strictSame(prepared({ propertiesString: long("WAIT=false") }), [false, "WAIT=false"]);
  t.strictSame(prepared({ propertiesString: "", waitStoreMsgOK: false }), [false, ""]);
});

t.test("prepareRecord() takes propertiesString as it is, in place of all others", async (t) => {
  const raw = long("x;KEYS=k;TAGS=t;=;TAGS=u");
  const record = prepareRecord({ ...ORDER_PAID, propertiesString: raw }, DEFAULTS);
  t.equal(record.propertiesText, raw);
  t.equal(record.tags, "u");
  t.equal(record.keys, "k");
  t.equal(record.uniqKey, undefined);
});

t.test("prepareRecord() puts a separator before the CRC where one is missing", async (t) => {
  const text = (given: string) => {
    const message = { ...BARE, propertiesString: long(given) };
    return short(decodeRecord(encodeMessage(message, WITH_CRC)).propertiesText);
  };
  t.match(text("a=1"), /^a=1;__CRC32#=[0-9]{10};$/);
  t.match(text("a=1;"), /^a=1;__CRC32#=[0-9]{10};$/);
  t.match(text(""), /^__CRC32#=[0-9]{10};$/);
  const batch = { topic: "T", messages: [{ body: BARE.body, propertiesString: long("a=1") }] };
  const [record] = prepareBatch(batch, WITH_CRC);
  t.match(short(decodeRecord(encode(record!)).propertiesText), /^a=1;__CRC32#=[0-9]{10};$/);
});

t.test("prepareRecord() reads properties with and without a separator at the end", async (t) => {
  for (const end of ["", ";"]) {
    const message = { ...BARE, propertiesString: long(`DELAY=3;TAGS=x${end}`) };
    const { properties } = decodeRecord(encodeMessage(message, WITH_CRC));
    t.equal(properties!.get("DELAY"), "3");
    t.equal(properties!.get("TAGS"), "x");
    t.equal(properties!.size, 3, "and the CRC");
  }
});

t.test("prepareRecord() removes a CRC that the caller hands in", async (t) => {
  const stale = "__CRC32#=0123456789;";
  for (const defaults of [DEFAULTS, WITH_CRC]) {
    const raw = prepareRecord({ ...BARE, propertiesString: long(`a=1;${stale}b=2`) }, defaults);
    t.match(short(raw.propertiesText), /^a=1;b=2;?$/);
    const properties = { a: "1", "__CRC32#": "0123456789" };
    t.equal(short(prepareRecord({ ...BARE, properties }, defaults).propertiesText), "a=1;");
    const batch = { topic: "T", messages: [{ body: BARE.body, properties }] };
    t.equal(short(prepareBatch(batch, defaults)[0]!.propertiesText), "a=1;");
  }
});

t.test("prepareRecord() picks V2 by bytes of the topic, if it may", async (t) => {
  const version = (topic: string, autoVersion = true) =>
    prepareRecord({ ...BARE, topic }, { ...DEFAULTS, autoVersion }).version;
  t.equal(version("t".repeat(127)), 1);
  t.equal(version("t".repeat(128)), 2);
  t.equal(version("订".repeat(42)), 1, "126 bytes");
  t.equal(version("订".repeat(43)), 2, "129 bytes");
  t.equal(version("t".repeat(128), false), 1);
});

t.test("prepareRecord() hashes and notes text as Java will read it", async (t) => {
  const record = prepareRecord(
    { topic: "a\ud83d", body: BARE.body, tags: "\ude00", keys: "订单", uniqKey: "u" },
    DEFAULTS,
  );
  t.equal(record.topic, "a?");
  t.equal(record.tags, "?");
  t.equal(record.tagsCode, 0x3f);
  const read = decodeRecord(encode(record));
  t.equal(read.topic, "a?");
  t.equal(read.tags, "?");
  t.strictSame(read.keys, ["订单"]);
});

t.test("prepareRecord() knows the level of a message in the schedule topic", async (t) => {
  const properties = { DELAY: "3" };
  t.equal(prepareRecord({ ...BARE, properties }, DEFAULTS).delayLevel, 0);
  const topic = "SCHEDULE_TOPIC_XXXX";
  t.equal(prepareRecord({ ...BARE, topic, properties }, DEFAULTS).delayLevel, 3);
  t.equal(prepareRecord({ ...BARE, topic, properties: { DELAY: "x" } }, DEFAULTS).delayLevel, 0);
});

t.test("prepareRecord() throws at a field of the wrong type or range", async (t) => {
  const wrong: [keyof Message, unknown, string][] = [
    ["topic", 5, "TypeError"],
    ["topic", undefined, "TypeError"],
    ["body", "text", "TypeError"],
    ["body", undefined, "TypeError"],
    ["body", null, "TypeError"],
    ["body", [1, 2], "TypeError"],
    ["queueId", -1, "RangeError"],
    ["queueId", 1.5, "RangeError"],
    ["queueId", 2 ** 31, "RangeError"],
    ["queueId", Number.NaN, "RangeError"],
    ["queueId", "1", "TypeError"],
    ["queueId", 1n, "TypeError"],
    ["flag", 2 ** 31, "RangeError"],
    ["flag", -(2 ** 31) - 1, "RangeError"],
    ["sysFlag", 2 ** 32, "RangeError"],
    ["bornTimestamp", 2 ** 53, "RangeError"],
    ["bornTimestamp", new Date(), "TypeError"],
    ["bornHost", "here", "RangeError"],
    ["storeHost", 5, "TypeError"],
    ["reconsumeTimes", -1, "RangeError"],
    ["preparedTransactionOffset", 2 ** 53, "RangeError"],
    ["tags", 5, "TypeError"],
    ["uniqKey", {}, "TypeError"],
    ["properties", { a: 1 }, "TypeError"],
    ["propertiesString", 5, "TypeError"],
    ["waitStoreMsgOK", "false", "TypeError"],
  ];
  for (const [field, value, name] of wrong) {
    const message = { ...BARE, [field]: value };
    t.throws(() => prepareRecord(message, DEFAULTS), { name }, `${field}: ${String(value)}`);
  }
  t.throws(() => prepareRecord({ ...BARE, queueId: -1 }, DEFAULTS), {
    message: 'Cannot make a record: "queueId" is -1, expected an integer of 0 to 2147483647',
  });
  t.throws(() => prepareRecord({ ...BARE, body: null as unknown as Buffer }, DEFAULTS), {
    message: 'Cannot make a record: "body" is null, expected a Uint8Array',
  });
});

t.test("prepareBatch() gives each member its own record, with the request's head", async (t) => {
  const records = prepareBatch(
    {
      topic: "T",
      queueId: 7,
      sysFlag: 1,
      bornTimestamp: 5,
      bornHost: "[::1]:1",
      reconsumeTimes: 2,
      properties: { CLUSTER: "c", UNIQ_KEY: "batch", WAIT: "false" },
      messages: [
        { body: Buffer.from("a"), uniqKey: "1", keys: ["k", "l"], flag: 9 },
        { body: Buffer.from("b"), uniqKey: "2", properties: { e: "" } },
        { body: Buffer.from("c"), propertiesString: long("UNIQ_KEY=3") },
      ],
    },
    DEFAULTS,
  );
  t.strictSame(
    records.map((r) => [r.queueId, r.sysFlag, r.bornTimestamp, r.reconsumeTimes, r.flag, r.wait]),
    [
      [7, 0x11, 5, 2, 9, false],
      [7, 0x11, 5, 2, 0, false],
      [7, 0x11, 5, 2, 0, false],
    ],
  );
  t.strictSame(
    records.map((r) => short(r.propertiesText)),
    ["KEYS=k l;UNIQ_KEY=1;", "e=;UNIQ_KEY=2;", "UNIQ_KEY=3"],
    "the request's properties are in none",
  );
  t.strictSame(
    records.map((r) => r.uniqKey),
    ["1", "2", "3"],
  );
});

t.test("prepareBatch() waits as the request says", async (t) => {
  const messages = [{ body: BARE.body, properties: { WAIT: "false" } }];
  const wait = (request: object) =>
    prepareBatch({ topic: "T", messages, ...request }, DEFAULTS)[0]!.wait;
  t.equal(wait({}), true);
  t.equal(wait({ waitStoreMsgOK: false }), false);
  t.equal(wait({ properties: { WAIT: "false" } }), false);
});

t.test("prepareBatch() throws at members of the wrong type", async (t) => {
  const prepare = (messages: unknown) => () =>
    prepareBatch({ topic: "T", messages: messages as [] }, DEFAULTS);
  t.throws(prepare(undefined), { name: "TypeError" });
  t.throws(prepare("ab"), { name: "TypeError" });
  t.throws(prepare([{ body: "text" }]), { name: "TypeError" });
  t.throws(prepare([{ body: BARE.body, flag: 0.5 }]), { name: "RangeError" });
});
