import fc from "fast-check";
import t from "tap";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import { checkRecord, encodeBlank, type RecordCheck } from "../../lib/message/record.ts";
import {
  DEFAULTS,
  encode,
  encodeMessage,
  ORDER_PAID,
  ORDER_PAID_BYTES,
  PHYSICAL_OFFSET,
  WITH_CRC,
} from "./samples.ts";

const WITH_OWN_CRC = encodeMessage(ORDER_PAID, WITH_CRC);
const V2 = encodeMessage({ ...ORDER_PAID, topic: "t".repeat(200) });
const V6 = encodeMessage({ ...ORDER_PAID, bornHost: "[::1]:1", storeHost: "[::2]:2" });
const EMPTY = encodeMessage({ topic: "T", body: Buffer.alloc(0) });
const SAMPLES = { plain: ORDER_PAID_BYTES, "own CRC": WITH_OWN_CRC, V2, V6, empty: EMPTY };

function check(bytes: Buffer, options: { forceVerifyPropCRC?: boolean } = {}): RecordCheck {
  return checkRecord(bytes, 0, bytes.length, PHYSICAL_OFFSET, { checkCrc: true, ...options });
}

/** A copy with some bytes replaced. */
function changed(bytes: Buffer, at: number, hex: string): Buffer {
  const copy = Buffer.from(bytes);
  copy.write(hex, at, "hex");
  return copy;
}

t.test("checkRecord() says record for a whole record, wherever it lies", async (t) => {
  for (const [name, bytes] of Object.entries(SAMPLES)) {
    t.strictSame(check(bytes), { kind: "record", size: bytes.length }, name);
    const within = Buffer.concat([Buffer.alloc(7, 0xff), bytes, Buffer.alloc(9, 0xff)]);
    t.strictSame(
      checkRecord(within, 7, within.length, PHYSICAL_OFFSET, { checkCrc: true }),
      { kind: "record", size: bytes.length },
      `${name} among other bytes`,
    );
  }
});

t.test("checkRecord() says blank, and ignores what the blank declares", async (t) => {
  const bytes = Buffer.alloc(8);
  encodeBlank(bytes, 0, 100);
  t.strictSame(check(bytes), { kind: "blank", size: 100 });
  bytes.writeInt32BE(-5);
  t.strictSame(check(bytes), { kind: "blank", size: -5 });
});

t.test("checkRecord() of a record cut at any length says short, until it is whole", async (t) => {
  for (const [name, bytes] of Object.entries(SAMPLES)) {
    for (let length = 0; length < bytes.length; length++) {
      const cut = bytes.subarray(0, length);
      const result = check(cut);
      if (result.kind !== "short" || result.needed <= length || result.needed > bytes.length) {
        t.fail(`${name} cut at ${length}`, { result });
      }
    }
    // Who reads as much as is needed comes to the end in a few steps.
    let steps = 0;
    let result = check(bytes.subarray(0, 0));
    for (; result.kind === "short"; steps++) result = check(bytes.subarray(0, result.needed));
    t.strictSame(result, { kind: "record", size: bytes.length });
    t.ok(steps <= 4, `${name}: ${steps} steps`);
  }
});

t.test("checkRecord() never reads beyond the end that it was given", async (t) => {
  for (const [name, bytes] of Object.entries(SAMPLES)) {
    for (let length = 0; length < bytes.length; length++) {
      const result = checkRecord(bytes, 0, length, PHYSICAL_OFFSET, { checkCrc: true });
      t.strictSame(result, check(Buffer.from(bytes.subarray(0, length))), `${name} to ${length}`);
    }
  }
});

t.test("checkRecord() sees any flipped bit before the record's own CRC", async (t) => {
  for (let at = 0; at < WITH_OWN_CRC.length - 20; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const copy = Buffer.from(WITH_OWN_CRC);
      copy[at]! ^= 1 << bit;
      const result = check(copy);
      if (result.kind === "record") t.fail(`bit ${bit} of byte ${at}`, { result });
    }
  }
  t.pass("all bits");
});

t.test("checkRecord() sees any flipped bit of the body", async (t) => {
  for (let at = 88; at < 98; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const copy = Buffer.from(ORDER_PAID_BYTES);
      copy[at]! ^= 1 << bit;
      t.match(check(copy), { kind: "bad", reason: /^BODYCRC is 4bfde631, the body's is / });
    }
  }
});

t.test("checkRecord() names what is wrong", async (t) => {
  const cases: [string, number, string, string][] = [
    ["zeros", 0, "0000000000000000", "zeros where a record should be"],
    ["no magic", 4, "daa320a8", "MAGICCODE is daa320a8"],
    ["size 0", 0, "00000000", "TOTALSIZE is 0, the smallest record has 91 bytes"],
    ["negative size", 0, "ffffffff", "TOTALSIZE is -1, the smallest record has 91 bytes"],
    ["size 90", 0, "0000005a", "TOTALSIZE is 90, the smallest record has 91 bytes"],
    ["size 2^30", 0, "40000000", "BODYLENGTH is 10, which does not fit TOTALSIZE 1073741824"],
    ["size one more", 0, "000000d6", ""],
    ["size one less", 0, "000000d4", "PROPERTIESLENGTH is 103, which does not fit TOTALSIZE 212"],
    ["negative body", 84, "ffffffff", "BODYLENGTH is -1, which does not fit TOTALSIZE 213"],
    ["body too long", 84, "00000100", "BODYLENGTH is 256, which does not fit TOTALSIZE 213"],
    ["body 2^31 - 1", 84, "7fffffff", "BODYLENGTH is 2147483647, which does not fit TOTALSIZE 213"],
    ["negative topic", 98, "ff", "TOPICLENGTH is -1, which does not fit TOTALSIZE 213"],
    ["topic too long", 98, "7f", "TOPICLENGTH is 127, which does not fit TOTALSIZE 213"],
    ["properties", 108, "0066", "PROPERTIESLENGTH is 102, which does not fit TOTALSIZE 213"],
    ["negative", 108, "8067", "PROPERTIESLENGTH is -32665, which does not fit TOTALSIZE 213"],
    [
      "another place",
      28,
      "0000000040000001",
      "PHYSICALOFFSET is 1073741825, but it lies at 1073741824",
    ],
    ["V6 bits", 36, "00000030", ""],
  ];
  for (const [name, at, hex, reason] of cases) {
    const bytes = changed(ORDER_PAID_BYTES, at, hex);
    const result = check(bytes);
    if (name === "size one more") {
      t.strictSame(result, { kind: "short", needed: 214 }, name);
      continue;
    }
    t.equal(result.kind, "bad", name);
    if (result.kind !== "bad") continue;
    t.equal(result.declaredSize, bytes.readInt32BE(0), name);
    if (reason !== "") t.equal(result.reason, reason, name);
  }
});

t.test("checkRecord() refuses a record one byte longer than its fields", async (t) => {
  const bytes = Buffer.concat([changed(ORDER_PAID_BYTES, 0, "000000d6"), Buffer.alloc(1)]);
  t.match(check(bytes), {
    kind: "bad",
    reason: "PROPERTIESLENGTH is 103, which does not fit TOTALSIZE 214",
  });
});

t.test("checkRecord() refuses 64-bit fields beyond 2^53, naming them exactly", async (t) => {
  const beyond = "0020000000000001";
  const cases: [string, number, string, bigint][] = [
    ["QUEUEOFFSET", 20, beyond, 2n ** 53n + 1n],
    ["STORETIMESTAMP", 56, beyond, 2n ** 53n + 1n],
    ["QUEUEOFFSET", 20, "ffffffffffffffff", -1n],
    ["QUEUEOFFSET", 20, "7fffffffffffffff", 2n ** 63n - 1n],
    ["STORETIMESTAMP", 56, "8000000000000000", -(2n ** 63n)],
  ];
  for (const [name, at, hex, value] of cases) {
    t.strictSame(check(changed(ORDER_PAID_BYTES, at, hex)), {
      kind: "bad",
      declaredSize: 213,
      reason: `${name} is ${value}, not within 0 and 2^53 - 1`,
    });
  }
  const options = { checkCrc: true };
  const elsewhere = changed(ORDER_PAID_BYTES, 28, beyond);
  t.match(checkRecord(elsewhere, 0, 213, undefined, options), {
    kind: "bad",
    reason: "PHYSICALOFFSET is 9007199254740993, not within 0 and 2^53 - 1",
  });
  t.match(checkRecord(elsewhere, 0, 213, 2 ** 53, options), {
    kind: "bad",
    reason: "PHYSICALOFFSET is 9007199254740993, not within 0 and 2^53 - 1",
  });
  const most = "001fffffffffffff";
  t.match(check(changed(ORDER_PAID_BYTES, 56, most)), { kind: "record" });
});

t.test("checkRecord() refuses a place that no queue file has", async (t) => {
  // Head, topic and properties have no checksum: a flipped bit is seen here or nowhere.
  t.match(check(changed(ORDER_PAID_BYTES, 20, "0001000000000000")), { kind: "record" }, "2^48");
  t.match(check(changed(ORDER_PAID_BYTES, 20, "0001000000000001")), {
    kind: "bad",
    reason: "QUEUEOFFSET is 281474976710657, the most that a queue holds is 281474976710656",
  });
  t.match(check(changed(ORDER_PAID_BYTES, 12, "7fffffff")), { kind: "record" });
  t.match(check(changed(ORDER_PAID_BYTES, 12, "fffffffb")), {
    kind: "bad",
    reason: "QUEUEID is -5",
  });
});

t.test("checkRecord() refuses a topic that is no name of a directory", async (t) => {
  const withTopic = (topic: Uint8Array): Buffer => {
    const record = { ...prepareRecord(ORDER_PAID, DEFAULTS), version: 2 as const };
    const { propertiesSize, body } = record;
    const size = 88 + body.length + 2 + topic.length + 2 + propertiesSize;
    return encode({ ...record, topicBytes: topic, size });
  };
  for (const [topic, reason] of [
    ["", "the topic is empty"],
    [".", 'the topic is ".", which is no name of a directory'],
    ["..", 'the topic is "..", which is no name of a directory'],
    ["../../etc/x", 'the topic contains "/"'],
    ["a/b", 'the topic contains "/"'],
    ["a\0b", "the topic contains NUL"],
    ["ü/", 'the topic contains "/"'],
    ["t".repeat(256), "the topic has 256 bytes, the most are 255"],
  ] as const) {
    t.match(check(withTopic(Buffer.from(topic))), { kind: "bad", reason }, topic);
  }
  for (const topic of ["...", ".x", "t".repeat(255), "ü".repeat(127), " "]) {
    t.match(check(withTopic(Buffer.from(topic))), { kind: "record" }, topic);
  }
  // Each byte that is no UTF-8 becomes three.
  t.match(check(withTopic(Buffer.alloc(85, 0xff))), { kind: "record" });
  t.match(check(withTopic(Buffer.alloc(86, 0xff))), {
    kind: "bad",
    reason: "the topic has 258 bytes, the most are 255",
  });
});

t.test("checkRecord() takes what a producer wrote into its own fields", async (t) => {
  t.match(check(changed(ORDER_PAID_BYTES, 40, "7fffffffffffffff")), { kind: "record" }, "born");
  t.match(check(changed(ORDER_PAID_BYTES, 76, "ffffffffffffffff")), { kind: "record" }, "prepared");
});

t.test("checkRecord() holds an empty body to CRC 0", async (t) => {
  t.match(check(changed(EMPTY, 8, "00000001")), {
    kind: "bad",
    reason: "BODYCRC is 00000001, the body's is 00000000",
  });
});

t.test("checkRecord() computes no CRC unless asked to", async (t) => {
  const bytes = changed(WITH_OWN_CRC, 88, "00");
  t.match(checkRecord(bytes, 0, bytes.length, undefined, { checkCrc: false }), { kind: "record" });
  t.match(check(bytes), { kind: "bad" });
});

t.test("checkRecord() with forceVerifyPropCRC takes only records with own CRC", async (t) => {
  t.match(check(ORDER_PAID_BYTES, { forceVerifyPropCRC: true }), {
    kind: "bad",
    reason: "the record has no CRC of its own",
  });
  t.match(check(EMPTY, { forceVerifyPropCRC: true }), { kind: "bad" });
  t.match(check(WITH_OWN_CRC, { forceVerifyPropCRC: true }), { kind: "record" });
});

t.test("checkRecord() leaves a CRC alone that is not the last property", async (t) => {
  // As in a record made from the properties of another one by a store that adds none.
  const bytes = encodeMessage({
    ...ORDER_PAID,
    propertiesString: "__CRC32X\x010123456789\x02a\x01b",
  });
  bytes.write("#", bytes.indexOf("X\x01"), "latin1");
  t.strictSame(check(bytes), { kind: "record", size: bytes.length });
  t.match(check(bytes, { forceVerifyPropCRC: true }), { kind: "bad" });
});

t.test("checkRecord() does not throw, and says record to no noise", async (t) => {
  const samples = Object.values(SAMPLES);
  fc.assert(
    fc.property(
      fc.constantFrom(...samples),
      fc.array(fc.tuple(fc.nat(400), fc.uint8Array({ minLength: 1, maxLength: 12 })), {
        maxLength: 6,
      }),
      fc.nat(400),
      fc.nat(40),
      (sample, patches, end, start) => {
        const bytes = Buffer.from(sample);
        for (const [at, patch] of patches) {
          const from = at % bytes.length;
          bytes.set(patch.subarray(0, bytes.length - from), from);
        }
        const stop = Math.min(end, bytes.length);
        const result = checkRecord(bytes, start, stop, undefined, { checkCrc: true });
        return result.kind !== "record" || start + result.size <= stop;
      },
    ),
    { numRuns: 3000 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (noise) => {
      return check(Buffer.from(noise)).kind !== "record";
    }),
  );
  t.pass();
});

t.test("checkRecord() sees any change before the record's own CRC", async (t) => {
  const covered = WITH_OWN_CRC.length - 20;
  fc.assert(
    fc.property(
      fc.nat(covered - 1),
      fc.uint8Array({ minLength: 1, maxLength: 30 }),
      (at, patch) => {
        const bytes = Buffer.from(WITH_OWN_CRC);
        bytes.set(patch.subarray(0, covered - at), at);
        return bytes.equals(WITH_OWN_CRC) || check(bytes).kind !== "record";
      },
    ),
    { numRuns: 3000 },
  );
  t.pass();
});
