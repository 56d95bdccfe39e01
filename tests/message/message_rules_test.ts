import t from "tap";
import type { Message, MessageBatch } from "../../lib/message/message.ts";
import {
  batchViolation,
  brokerViolation,
  storeViolation,
  type Violation,
} from "../../lib/message/message_rules.ts";
import { prepareBatch, prepareRecord } from "../../lib/message/outgoing_record.ts";
import { DEFAULTS, ORDER_PAID, WITH_CRC } from "./samples.ts";

const BODY = Buffer.from("body");
const BARE: Message = { topic: "T", body: BODY };
const LIMITS = { maxMessageSize: 4 * 1024 * 1024, fileSize: 1024 * 1024 * 1024 };
const illegal = (reason: string): Violation => ({ status: "MESSAGE_ILLEGAL", reason });

t.test("brokerViolation() finds nothing wrong with an ordinary message", async (t) => {
  t.equal(brokerViolation(ORDER_PAID), undefined);
  t.equal(brokerViolation({ topic: "T", body: Buffer.alloc(0) }), undefined, "empty body");
});

t.test("brokerViolation() measures topics in bytes", async (t) => {
  const reason = (topic: string) => brokerViolation({ ...BARE, topic })?.reason;
  t.equal(reason("t".repeat(127)), undefined);
  t.equal(reason("t".repeat(128)), "the topic has 128 bytes, the most are 127");
  t.equal(reason("订".repeat(42)), undefined, "126 bytes");
  t.equal(reason("订".repeat(43)), "the topic has 129 bytes, the most are 127");
  t.equal(reason(`%RETRY%${"g".repeat(248)}`), undefined);
  t.equal(reason(`%RETRY%${"g".repeat(249)}`), "the topic has 256 bytes, the most are 255");
  t.equal(reason(""), "the topic is empty");
});

t.test("brokerViolation() takes no topic that leads to another directory", async (t) => {
  for (const topic of ["a/b", "/", "../x", ".", "..", "a\0b"]) {
    t.match(brokerViolation({ ...BARE, topic }), { status: "MESSAGE_ILLEGAL" }, topic);
  }
  t.equal(brokerViolation({ ...BARE, topic: "..." }), undefined);
  t.equal(brokerViolation({ ...BARE, topic: "%LMQ%a|b.c" }), undefined);
});

t.test("brokerViolation() wants a body", async (t) => {
  const message = { topic: "T" } as Message;
  t.strictSame(brokerViolation(message), illegal("the body is missing"));
  t.strictSame(
    brokerViolation({ topic: "T", body: null as unknown as Buffer }),
    illegal("the body is missing"),
  );
});

t.test("brokerViolation() names the property that holds a separator", async (t) => {
  const cases: [Partial<Message>, string][] = [
    [{ properties: { a: "x\x02y" } }, 'the value of property "a"'],
    [{ properties: { "n\x01m": "v" } }, 'the name of property "n\\u0001m"'],
    [{ properties: { fine: "1", p: "p\x01q" } }, 'the value of property "p"'],
    [{ tags: "a\x02" }, 'the value of property "TAGS"'],
    [{ keys: "\x01" }, 'the value of property "KEYS"'],
    [{ keys: ["a", "b\x02"] }, 'the value of property "KEYS"'],
    [{ uniqKey: "u\x01" }, 'the value of property "UNIQ_KEY"'],
  ];
  for (const [fields, what] of cases) {
    const reason = `${what} contains byte 1 or byte 2, which separate properties`;
    t.strictSame(brokerViolation({ ...BARE, ...fields }), illegal(reason));
    const batch = { topic: "T", messages: [BARE, { ...BARE, ...fields }] };
    t.strictSame(batchViolation(batch), illegal(`message 1 of the batch: ${reason}`));
  }
  t.equal(brokerViolation({ ...BARE, propertiesString: "a\x01x\x02y" }), undefined, "raw text");
});

t.test("brokerViolation() refuses a message that asks for a delay, by name", async (t) => {
  const violation = (properties: Record<string, string>, sysFlag = 0) =>
    brokerViolation({ ...BARE, sysFlag, properties });
  t.strictSame(
    violation({ DELAY: "3" }),
    illegal("property DELAY is 3, but delay levels are not served"),
  );
  t.equal(violation({ DELAY: "0" }), undefined);
  t.equal(violation({ DELAY: "-1" }), undefined);
  t.equal(violation({ DELAY: "" }), undefined);
  t.strictSame(violation({ DELAY: "x" }), illegal('property DELAY is "x", which is no number'));
  for (const name of ["TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"]) {
    t.strictSame(violation({ [name]: "5" }), {
      status: "WHEEL_TIMER_NOT_ENABLE",
      reason: `property ${name} is there, but timers are not served`,
    });
    t.equal(violation({ [name]: "5", TIMER_OUT_MS: "9" }), undefined, "parked by a broker");
  }
  t.match(violation({ DELAY: "1" }, 0x8), { status: "MESSAGE_ILLEGAL" }, "committed");
  t.equal(violation({ DELAY: "1" }, 0x4), undefined, "prepared");
  t.equal(violation({ DELAY: "1" }, 0xc), undefined, "rolled back");
  t.match(
    brokerViolation({ ...BARE, propertiesString: "DELAY\x011" }),
    { status: "MESSAGE_ILLEGAL" },
    "raw text",
  );
});

t.test("brokerViolation() takes no inner batch, and no half of one", async (t) => {
  t.match(brokerViolation({ ...BARE, sysFlag: 0x80 }), { status: "MESSAGE_ILLEGAL" });
  t.match(brokerViolation({ ...BARE, properties: { INNER_NUM: "2" } }), {
    status: "MESSAGE_ILLEGAL",
  });
});

t.test("brokerViolation() takes inner batches for topics of batch queues", async (t) => {
  t.equal(
    brokerViolation({ ...BARE, sysFlag: 0x80, properties: { INNER_NUM: "2" } }, true),
    undefined,
  );
  t.match(brokerViolation({ ...BARE, properties: { INNER_NUM: "2" } }, true), {
    status: "MESSAGE_ILLEGAL",
  });
});

t.test("brokerViolation() throws at a wrong type", async (t) => {
  t.throws(() => brokerViolation({ ...BARE, topic: 5 as unknown as string }), {
    name: "TypeError",
  });
  for (const fields of [
    { sysFlag: "1" },
    { tags: 5 },
    { keys: 5 },
    { keys: {} },
    { uniqKey: [] },
    { properties: { a: 1 } },
    { propertiesString: 5 },
  ]) {
    t.throws(
      () => brokerViolation({ ...BARE, ...(fields as unknown as Message) }),
      { name: "TypeError", message: /^Cannot make a record: / },
      JSON.stringify(fields),
    );
  }
});

t.test("storeViolation() measures properties in bytes, separator and CRC included", async (t) => {
  const status = (text: string, defaults = DEFAULTS) =>
    storeViolation(prepareRecord({ ...BARE, propertiesString: text }, defaults), LIMITS)?.status;
  const raw = (size: number) => `a\x01${"v".repeat(size - 3)}\x02`;
  const open = (size: number) => `a\x01${"v".repeat(size - 2)}`;
  const tooLarge = "PROPERTIES_SIZE_EXCEEDED";
  t.equal(status(raw(32767)), undefined);
  t.equal(status(raw(32768)), tooLarge);
  t.equal(status(raw(65536)), tooLarge);
  t.equal(status("订".repeat(11000)), tooLarge, "33000 bytes");
  t.equal(status("订".repeat(10922)), undefined, "32766 bytes");
  t.equal(status(raw(32747), WITH_CRC), undefined);
  t.equal(status(raw(32748), WITH_CRC), tooLarge);
  t.equal(status(open(32746), WITH_CRC), undefined);
  t.equal(status(open(32747), WITH_CRC), tooLarge);
});

t.test("storeViolation() takes no properties that read as the record's own CRC", async (t) => {
  const message = { ...BARE, properties: { "x__CRC32#": "0123456789" } };
  t.strictSame(
    storeViolation(prepareRecord(message, DEFAULTS), LIMITS),
    illegal("the properties end in what reads as the record's own __CRC32#"),
  );
  t.equal(
    storeViolation(prepareRecord(message, WITH_CRC), LIMITS),
    undefined,
    "the true one follows",
  );
});

t.test("storeViolation() limits the body, and the record by 64 KiB more", async (t) => {
  const limits = { ...LIMITS, maxMessageSize: 1024 };
  const reason = (message: Partial<Message>) =>
    storeViolation(prepareRecord({ ...BARE, ...message }, DEFAULTS), limits)?.reason;
  t.equal(reason({ body: Buffer.alloc(1024) }), undefined);
  t.equal(
    reason({ body: Buffer.alloc(1025) }),
    "the body has 1025 bytes, the most are 1024 (maxMessageSize)",
  );
  // Body, properties and topic at their limits together stay below the record's.
  const most = { body: Buffer.alloc(1024), propertiesString: "v".repeat(32767) };
  t.equal(reason({ ...most, topic: "t".repeat(255) }), undefined);
});

t.test("storeViolation() wants room for a blank behind the record in its file", async (t) => {
  const record = prepareRecord(BARE, DEFAULTS);
  t.equal(storeViolation(record, { ...LIMITS, fileSize: record.size + 8 }), undefined);
  t.strictSame(
    storeViolation(record, { ...LIMITS, fileSize: record.size + 7 }),
    illegal(`the record has ${record.size} bytes, the most that fit a file are ${record.size - 1}`),
  );
});

t.test("storeViolation() holds topics to what a record and a directory can be", async (t) => {
  const violation = (topic: string, autoVersion = true) =>
    storeViolation(prepareRecord({ ...BARE, topic }, { ...DEFAULTS, autoVersion }), LIMITS);
  t.equal(violation("t".repeat(255)), undefined);
  t.match(violation("t".repeat(256)), { status: "MESSAGE_ILLEGAL" });
  t.match(violation(""), { status: "MESSAGE_ILLEGAL" });
  t.match(violation("a/b"), { status: "MESSAGE_ILLEGAL" });
  t.match(violation("a\0"), { status: "MESSAGE_ILLEGAL" });
  t.equal(violation("t".repeat(127), false), undefined);
  t.match(violation("t".repeat(128), false), { status: "MESSAGE_ILLEGAL" }, "not as V1");
});

t.test("batchViolation() finds nothing wrong with an ordinary batch", async (t) => {
  t.equal(batchViolation({ topic: "T", messages: [{ body: BODY }, { body: BODY }] }), undefined);
});

t.test("batchViolation() refuses what a batch may not be", async (t) => {
  const batch: MessageBatch = { topic: "T", messages: [{ body: BODY }] };
  const reason = (fields: Partial<MessageBatch>) => batchViolation({ ...batch, ...fields })?.reason;
  t.equal(reason({ messages: [] }), "the batch is empty");
  for (const sysFlag of [0x4, 0x8, 0xc]) {
    t.equal(reason({ sysFlag }), "a batch may not be part of a transaction");
  }
  t.equal(reason({ topic: "%RETRY%g" }), "the topic begins with %RETRY%, which a batch may not");
  t.equal(reason({ topic: "t".repeat(128) }), "the topic has 128 bytes, the most are 127");
  const delay = "property DELAY is 1, but delay levels are not served";
  t.equal(reason({ properties: { DELAY: "1" } }), delay);
  const late = { body: BODY, properties: { DELAY: "1" } };
  t.equal(reason({ messages: [{ body: BODY }, late] }), `message 1 of the batch: ${delay}`);
  const bodiless = {} as { body: Buffer };
  t.equal(reason({ messages: [bodiless] }), "message 0 of the batch: the body is missing");
  t.match(reason({ properties: { TIMER_DELAY_SEC: "1" } }), /TIMER_DELAY_SEC/);
  t.match(reason({ sysFlag: 0x80 }), /inner batch/);
  t.throws(() => reason({ messages: "ab" as unknown as [] }), { name: "TypeError" });
});

t.test("storeViolation() refuses a whole batch for one member, or for its sum", async (t) => {
  const limits = { ...LIMITS, maxMessageSize: 1000 };
  const violation = (bodies: number[], sizes = limits, propertiesString = "") =>
    storeViolation(
      prepareBatch(
        { topic: "T", messages: bodies.map((n) => ({ body: Buffer.alloc(n), propertiesString })) },
        DEFAULTS,
      ),
      sizes,
    );
  t.equal(violation([478, 478]), undefined, "2 x 22 + 2 x 478 = 1000");
  t.strictSame(
    violation([478, 479]),
    illegal("the batch has 1001 bytes, the most are 1000 (maxMessageSize)"),
  );
  t.strictSame(
    violation([1, 1001]),
    illegal("message 1 of the batch: the body has 1001 bytes, the most are 1000 (maxMessageSize)"),
  );
  t.match(violation([1, 1], LIMITS, "v".repeat(32768)), { status: "PROPERTIES_SIZE_EXCEEDED" });
  t.equal(violation([8, 8], { ...limits, fileSize: 208 }), undefined, "2 x 100 + 8");
  t.strictSame(
    violation([8, 8], { ...limits, fileSize: 207 }),
    illegal("the batch has 200 bytes, the most that fit a file are 199"),
  );
  t.strictSame(violation([]), illegal("the batch is empty"));
});
