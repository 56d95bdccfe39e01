import fc from "fast-check";
import t from "tap";
import { parseHost } from "../../lib/message/host.ts";
import { prepareBatch, prepareRecord } from "../../lib/message/outgoing_record.ts";
import { checkRecord, encodeBlank, StoredMessage } from "../../lib/message/record.ts";
import { QUEUE_OFFSET_MAX } from "../../lib/message/record_layout.ts";
import { topicOf } from "../../lib/message/topic.ts";
import {
  DEFAULTS,
  encode,
  encodeMessage,
  ORDER_PAID,
  ORDER_PAID_BYTES,
  PHYSICAL_OFFSET,
  STORE_TIMESTAMP,
  WITH_CRC,
} from "./samples.ts";

const V6_HOSTS = { bornHost: "[2001:db8::1]:54321", storeHost: "[2001:db8::7]:10911" };
const hex = (bytes: Buffer, start: number, end: number) => bytes.toString("hex", start, end);

t.test("encodeRecord() writes a V1 record byte for byte", async (t) => {
  t.equal(encodeMessage(ORDER_PAID).toString("hex"), ORDER_PAID_BYTES.toString("hex"));
});

t.test("encodeRecord() adds the record's own CRC as its last 20 bytes", async (t) => {
  const bytes = encodeMessage(ORDER_PAID, WITH_CRC);
  t.equal(bytes.length, 233);
  t.equal(hex(bytes, 0, 4), "000000e9");
  t.equal(hex(bytes, 108, 110), "007b", "PROPERTIESLENGTH");
  t.equal(hex(bytes, 213, 233), "5f5f435243333223013737323034373039383102");
  const shorter = Buffer.from(bytes.subarray(0, 213));
  ORDER_PAID_BYTES.copy(shorter, 0, 0, 4);
  ORDER_PAID_BYTES.copy(shorter, 108, 108, 110);
  t.strictSame(shorter, ORDER_PAID_BYTES, "all else is the same");
});

t.test("encodeRecord() makes room for IPv6 hosts and sets their bits", async (t) => {
  const bytes = encodeMessage({ ...ORDER_PAID, ...V6_HOSTS });
  t.equal(bytes.length, 237);
  t.equal(hex(bytes, 0, 4), "000000ed");
  t.equal(hex(bytes, 36, 40), "00000030", "SYSFLAG");
  t.equal(hex(bytes, 48, 68), "20010db80000000000000000000000010000d431");
  t.equal(hex(bytes, 68, 76), "0000019209b96d7b", "STORETIMESTAMP");
  t.equal(hex(bytes, 76, 96), "20010db800000000000000000000000700002a9f");
  t.equal(hex(bytes, 96, 100), "00000000", "RECONSUMETIMES");
  t.equal(hex(bytes, 108, 112), "0000000a", "BODYLENGTH");
});

t.test("encodeRecord() writes V2 for a topic of more than 127 bytes", async (t) => {
  const topic = `%RETRY%${"g".repeat(128)}`;
  const bytes = encodeMessage({ ...ORDER_PAID, topic });
  t.equal(bytes.length, 340);
  t.equal(hex(bytes, 0, 8), "00000154daa320ab");
  t.equal(hex(bytes, 98, 100), "0087", "TOPICLENGTH");
  t.equal(bytes.toString("utf8", 100, 235), topic);
});

t.test("encodeRecord() writes the members of a batch as records of their own", async (t) => {
  const records = prepareBatch(
    {
      topic: "TopicTest",
      queueId: 3,
      messages: [
        { body: Buffer.from("m1"), tags: "TagA" },
        { body: Buffer.from("m2"), tags: "TagB" },
      ],
    },
    DEFAULTS,
  );
  const bytes = encode(records[0]!, 100);
  t.equal(
    bytes.toString("hex").toUpperCase(),
    `00000070 DAA320A7 4054072F 00000003 00000000 0000000000000064 0000000040000000 00000000
     0000019209B96D00 C0A8010A0000D431 0000019209B96D7B 0A00000700002A9F 00000000 0000000000000000
     00000002 6D31 09 546F70696354657374 000A 54414753015461674102`.replace(/\s/g, ""),
  );
  const second = encode(records[1]!, 101, PHYSICAL_OFFSET + 0x70);
  t.equal(hex(second, 20, 36), "00000000000000650000000040000070");
});

t.test("encodeBlank() writes 8 bytes and no more", async (t) => {
  const target = Buffer.alloc(20, 0xee);
  t.equal(encodeBlank(target, 3, 100), 8);
  t.equal(target.toString("hex"), `eeeeee00000064cbd43194${"ee".repeat(9)}`);
});

t.test("encodeRecord() keeps every bit of flag, sysFlag and times", async (t) => {
  for (const extreme of [-(2 ** 31), -1, 2 ** 31 - 1]) {
    const message = new StoredMessage(
      encodeMessage({ ...ORDER_PAID, flag: extreme, sysFlag: extreme, bornTimestamp: -1 }),
    );
    t.equal(message.flag, extreme);
    t.equal(message.sysFlag, extreme & ~0x30, "IPv6 bits as the hosts are");
    t.equal(message.bornTimestamp, -1);
  }
});

const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
const word = text.filter((w) => !w.includes("\x01") && !w.includes("\x02"));
const topic = word.filter((w) => topicOf(w).fault === undefined);
const host = fc.oneof(
  fc.tuple(fc.ipV4(), fc.nat(65535)).map(([ip, port]) => `${ip}:${port}`),
  fc.tuple(fc.ipV6(), fc.nat(65535)).map(([ip, port]) => `[${ip}]:${port}`),
);
const message = fc.record(
  {
    topic: fc.oneof(topic, fc.constantFrom("t".repeat(127), "t".repeat(128), "订".repeat(43))),
    queueId: fc.nat(2 ** 31 - 1),
    body: fc.uint8Array({ maxLength: 300 }),
    tags: word,
    keys: fc.array(
      word.filter((w) => !w.includes(" ")),
      { minLength: 1, maxLength: 3 },
    ),
    uniqKey: word,
    properties: fc.dictionary(
      word.map((w) => `x${w}`),
      word,
      { maxKeys: 5 },
    ),
    waitStoreMsgOK: fc.boolean(),
    flag: fc.integer(),
    sysFlag: fc.integer(),
    bornTimestamp: fc.maxSafeInteger(),
    bornHost: host,
    storeHost: host,
    reconsumeTimes: fc.nat(2 ** 31 - 1),
    preparedTransactionOffset: fc.maxSafeNat(),
  },
  { requiredKeys: ["topic", "body"] },
);

t.test("StoredMessage reads back what encodeRecord() writes", async (t) => {
  fc.assert(
    fc.property(
      message,
      fc.boolean(),
      fc.nat({ max: QUEUE_OFFSET_MAX }),
      (given, crc, queueOffset) => {
        const record = prepareRecord(given, crc ? WITH_CRC : DEFAULTS);
        const bytes = encode(record, queueOffset);
        const check = checkRecord(bytes, 0, bytes.length, PHYSICAL_OFFSET, {
          checkCrc: true,
          forceVerifyPropCRC: crc,
        });
        t.strictSame(check, { kind: "record", size: bytes.length });
        const read = new StoredMessage(bytes);
        const properties = new Map(read.properties);
        properties.delete("__CRC32#");
        const wanted = new Map(Object.entries(given.properties ?? {}));
        if (given.tags !== undefined) wanted.set("TAGS", given.tags);
        if (given.keys !== undefined) wanted.set("KEYS", given.keys.join(" "));
        if (given.uniqKey !== undefined) wanted.set("UNIQ_KEY", given.uniqKey);
        if (given.waitStoreMsgOK !== undefined) wanted.set("WAIT", String(given.waitStoreMsgOK));
        t.strictSame(
          {
            topic: read.topic,
            queueId: read.queueId,
            queueOffset: read.queueOffset,
            physicalOffset: read.physicalOffset,
            body: Buffer.from(read.body),
            tags: read.tags,
            keys: read.keys,
            uniqKey: read.uniqKey,
            wait: read.waitStoreMsgOK,
            properties: Object.fromEntries([...properties].sort()),
            flag: read.flag,
            bornTimestamp: read.bornTimestamp,
            bornHost: read.bornHost,
            storeTimestamp: read.storeTimestamp,
            storeHost: read.storeHost,
            reconsumeTimes: read.reconsumeTimes,
            preparedTransactionOffset: read.preparedTransactionOffset,
          },
          {
            topic: given.topic,
            queueId: given.queueId ?? 0,
            queueOffset,
            physicalOffset: PHYSICAL_OFFSET,
            body: Buffer.from(given.body),
            tags: given.tags,
            keys: given.keys ?? [],
            uniqKey: given.uniqKey,
            wait: given.waitStoreMsgOK ?? true,
            properties: Object.fromEntries([...wanted].sort()),
            flag: given.flag ?? 0,
            bornTimestamp: given.bornTimestamp ?? DEFAULTS.now,
            bornHost:
              given.bornHost === undefined
                ? DEFAULTS.bornHost.text
                : parseHost(given.bornHost).text,
            storeTimestamp: STORE_TIMESTAMP,
            storeHost:
              given.storeHost === undefined
                ? DEFAULTS.storeHost.text
                : parseHost(given.storeHost).text,
            reconsumeTimes: given.reconsumeTimes ?? 0,
            preparedTransactionOffset: given.preparedTransactionOffset ?? 0,
          },
        );
      },
    ),
  );
});
