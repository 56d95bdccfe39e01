// Everything that makes sense of bytes from a disk, given bytes that make none: it answers, or throws the
// error that it says it throws.

import { crc32 } from "node:zlib";
import fc from "fast-check";
import t from "tap";
import { decodeCheckpoint } from "../../lib/checkpoint/store_checkpoint.ts";
import {
  decodeUnit,
  isFiller,
  isUnit,
  isUnitOffset,
  unitOffset,
} from "../../lib/consume_queue/queue_unit.ts";
import { StoreError } from "../../lib/errors.ts";
import { decodeBatchBody, encodeBatchBody } from "../../lib/message/batch.ts";
import { dispatchRequestOf } from "../../lib/message/dispatch_request.ts";
import { parseHost } from "../../lib/message/host.ts";
import { messageIdOf, parseMessageId } from "../../lib/message/message_id.ts";
import { findProperty, parseProperties } from "../../lib/message/properties.ts";
import { checkRecord, decodeRecord, StoredMessage } from "../../lib/message/record.ts";
import { bodyLengthAt, readSysFlag, topicLengthAt } from "../../lib/message/record_layout.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import { topicOf } from "../../lib/message/topic.ts";
import { segmentName, segmentStart } from "../../lib/segment/segment.ts";
import { encodeMessage, ORDER_PAID, PHYSICAL_OFFSET, WITH_CRC } from "../message/samples.ts";
import { sliceSeedOf } from "../support/random.ts";

const RUNS = 3000;
const LEVELS = DelayLevels.parse();

const SAMPLES = [
  encodeMessage(ORDER_PAID),
  encodeMessage(ORDER_PAID, WITH_CRC),
  encodeMessage({ ...ORDER_PAID, topic: `%RETRY%${"t".repeat(200)}` }),
  encodeMessage({ ...ORDER_PAID, bornHost: "[::1]:1", storeHost: "[::2]:2" }),
  encodeMessage({ topic: "T", body: Buffer.alloc(0) }),
];

const int32 = fc.oneof(
  fc.integer(),
  fc.constantFrom(0, 1, -1, 8, 90, 91, 127, 128, 32767, 32768, 2 ** 31 - 1, -(2 ** 31)),
);
const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.constantFrom(0n, -1n, 2n ** 48n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)),
);

/** Bytes to write, and where: at a fixed place, or at a field of the record. */
type Change = readonly [at: (bytes: Buffer) => number, value: Buffer];

const places = fc.oneof(
  fc.nat(400).map((at) => () => at),
  fc.constantFrom<(bytes: Buffer) => number>(
    () => 0,
    () => 4,
    () => 12,
    () => 20,
    () => 28,
    () => 36,
    () => 56,
    (bytes) => bodyLengthAt(readSysFlag(bytes, 0)),
    (bytes) => topicLengthAt(bytes, 0),
    (bytes) => bytes.length - 20,
  ),
);
const change: fc.Arbitrary<Change> = fc.tuple(
  places,
  fc.oneof(
    int32.map((value) => {
      const bytes = Buffer.alloc(4);
      bytes.writeInt32BE(value);
      return bytes;
    }),
    int64.map((value) => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64BE(value);
      return bytes;
    }),
    fc.uint8Array({ minLength: 1, maxLength: 3 }).map((bytes) => Buffer.from(bytes)),
  ),
);

/** A record with some fields replaced and perhaps cut, or just bytes. */
const recordBytes = fc.oneof(
  {
    weight: 9,
    arbitrary: fc
      .tuple(fc.constantFrom(...SAMPLES), fc.array(change, { maxLength: 4 }), fc.nat(400))
      .map(([sample, changes, length]) => {
        const bytes = Buffer.from(sample);
        for (const [at, value] of changes) {
          const start = at(bytes);
          if (start >= 0 && start < bytes.length) value.copy(bytes, start);
        }
        return length % 3 === 0 ? bytes.subarray(0, length) : bytes;
      }),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)) },
);

/** Reads every field; what is beyond 2^53 is asked for exactly. */
function readAll(message: StoredMessage): void {
  const { topic, queueId, queueOffset, physicalOffset, storeTimestamp, body, size } = message;
  const { exactBornTimestamp, exactPreparedTransactionOffset, properties, messageId } = message;
  void [exactBornTimestamp, exactPreparedTransactionOffset, properties, message.keys];
  void [message.tags, message.uniqKey, message.waitStoreMsgOK, message.bornHost, message.storeHost];
  const isSafe = [queueId, queueOffset, physicalOffset, storeTimestamp].every(Number.isSafeInteger);
  if (!isSafe || queueId < 0 || queueOffset < 0 || body.length > size)
    throw new Error("out of range");
  if (topicOf(topic).fault !== undefined) throw new Error(`topic ${JSON.stringify(topic)}`);
  if (!/^(?:[0-9A-F]{32}|[0-9A-F]{56})$/.test(messageId)) throw new Error(messageId);
}

t.test("checkRecord() answers for any bytes, and what it calls a record can be read", async (t) => {
  const seed = sliceSeedOf(t);
  const property = fc.property(
    recordBytes,
    fc.boolean(),
    fc.boolean(),
    (bytes, checkCrc, known) => {
      // Behind the end there is nothing to be read: other bytes there change nothing.
      const framed = Buffer.concat([Buffer.alloc(3, 0xa5), bytes, Buffer.alloc(500, 0x5a)]);
      const offset = known ? PHYSICAL_OFFSET : undefined;
      const check = checkRecord(framed, 3, 3 + bytes.length, offset, { checkCrc });
      const exact = Buffer.from(new Uint8Array(bytes));
      const same = checkRecord(exact, 0, exact.length, offset, { checkCrc });
      t.strictSame(check, same);
      if (check.kind === "short") return check.needed > bytes.length;
      if (check.kind !== "record") return true;
      if (check.size > bytes.length) return false;
      readAll(new StoredMessage(bytes.subarray(0, check.size)));
      const request = dispatchRequestOf(framed, 3, LEVELS);
      for (const name of request.multiDispatch?.queues ?? []) {
        if (topicOf(name).fault !== undefined) return false;
      }
      return request.size === check.size;
    },
  );
  fc.assert(property, { seed, numRuns: RUNS });
});

t.test("decodeRecord() gives a message or says what is wrong", async (t) => {
  const seed = sliceSeedOf(t);
  let messages = 0;
  const property = fc.property(recordBytes, (bytes) => {
    try {
      readAll(decodeRecord(bytes));
      messages++;
      return true;
    } catch (error) {
      return error instanceof StoreError && error.code === "STORE_RECORD_DAMAGED";
    }
  });
  fc.assert(property, { seed, numRuns: RUNS });
  t.ok(messages > 10, `${messages} were messages`);
});

const unitBytes = fc.tuple(int64, int32, int64).map(([offset, size, tagsCode]) => {
  const bytes = Buffer.alloc(20);
  bytes.writeBigInt64BE(offset, 0);
  bytes.writeInt32BE(size, 8);
  bytes.writeBigInt64BE(tagsCode, 12);
  return bytes;
});

t.test("a queue unit can be read as a number wherever isUnitOffset() says so", async (t) => {
  const property = fc.property(unitBytes, (bytes) => {
    if (isUnit(bytes, 0) && (!isUnitOffset(bytes, 0) || unitOffset(bytes, 0) < 0)) return false;
    if (isFiller(bytes, 0) && !isUnit(bytes, 0)) return false;
    try {
      const { physicalOffset } = decodeUnit(bytes, 0);
      return isUnitOffset(bytes, 0) && BigInt(physicalOffset) === bytes.readBigInt64BE(0);
    } catch (error) {
      return error instanceof RangeError && !isUnitOffset(bytes, 0);
    }
  });
  fc.assert(property, { seed: sliceSeedOf(t), numRuns: RUNS });
});

t.test(
  "decodeCheckpoint() makes safe integers of any page, also of one with a valid slot",
  async (t) => {
    const longs = fc.array(int64, { minLength: 16, maxLength: 16 });
    const property = fc.property(longs, fc.boolean(), (values, isValid) => {
      const bytes = Buffer.alloc(4096);
      values.slice(0, 6).forEach((value, i) => {
        bytes.writeBigInt64BE(value, 8 * i);
      });
      bytes.write("FLC1", 2048, "latin1");
      bytes.copy(bytes, 2056, 0, 48);
      values.slice(6, 10).forEach((value, i) => {
        bytes.writeBigInt64BE(value, 2104 + 8 * i);
      });
      bytes.write("FLI1", 2304, "latin1");
      values.slice(10).forEach((value, i) => {
        bytes.writeBigInt64BE(value, 2312 + 8 * i);
      });
      bytes.writeUInt32BE(crc32(bytes.subarray(2304, 2360)), 2360);
      if (isValid) bytes.writeUInt32BE(crc32(bytes.subarray(2048, 2136)), 2136);
      const { longs, watermarks } = decodeCheckpoint(bytes);
      const { index, ...ours } = watermarks ?? {};
      const { newest = "", ...mark } = index ?? {};
      const numbers = [longs, ours, mark].flatMap((fields) => Object.values(fields));
      if (!/^(\d{17,19})?$/.test(newest)) return false;
      return (watermarks !== undefined) === isValid && numbers.every(Number.isSafeInteger);
    });
    fc.assert(property, { seed: sliceSeedOf(t), numRuns: 500 });
    const bytes = fc.uint8Array({ minLength: 4096, maxLength: 4096 });
    fc.assert(
      fc.property(bytes, (page) => decodeCheckpoint(Buffer.from(page)) !== undefined),
      { numRuns: 50 },
    );
  },
);

/** Texts that are dense with what separates properties. */
const propertyText = fc
  .array(fc.constantFrom("\x01", "\x02", "a", "b", "TAGS", "KEYS", "é", "\ud800"), {
    maxLength: 30,
  })
  .map((parts) => parts.join(""));

t.test("parseProperties() and findProperty() agree on any text with the rule", async (t) => {
  /** Items between separators count if they have a name and a value; of a repeated name the last. */
  const model = (text: string): Map<string, string> => {
    const map = new Map<string, string>();
    for (const item of text.split("\x02")) {
      const at = item.indexOf("\x01");
      if (at > 0 && at < item.length - 1) map.set(item.slice(0, at), item.slice(at + 1));
    }
    return map;
  };
  const property = fc.property(propertyText, (text) => {
    const expected = model(text);
    t.strictSame(new Map(parseProperties(text)), expected);
    for (const name of ["a", "b", "TAGS", "KEYS", "é"]) {
      t.equal(findProperty(text, name), expected.get(name), JSON.stringify(text));
    }
  });
  fc.assert(property, { seed: sliceSeedOf(t), numRuns: 1000 });
});

t.test("parseMessageId() refuses what is no id, and reads its own", async (t) => {
  const hex = fc.oneof(fc.constantFrom(32, 56), fc.nat(60)).chain((length) =>
    fc.string({
      unit: fc.constantFrom(..."0123456789abcdefABCDEF"),
      minLength: length,
      maxLength: length,
    }),
  );
  const property = fc.property(
    fc.oneof(hex, fc.string(), fc.string({ unit: "binary" })),
    (text) => {
      try {
        const { storeHost, physicalOffset } = parseMessageId(text);
        return Number.isSafeInteger(physicalOffset) && physicalOffset >= 0 && storeHost.length > 8;
      } catch (error) {
        return error instanceof RangeError;
      }
    },
  );
  fc.assert(property, { seed: sliceSeedOf(t), numRuns: RUNS });
  const offset = fc.maxSafeNat();
  const own = fc.property(fc.constantFrom("1.2.3.4:5", "[::1]:10911"), offset, (host, at) => {
    return parseMessageId(messageIdOf(parseHost(host), at)).physicalOffset === at;
  });
  fc.assert(own);
});

t.test(
  "decodeBatchBody() refuses what is no row of items, and gives back what it takes",
  async (t) => {
    const sample = encodeBatchBody([
      { body: Buffer.from("one"), tags: "TagA" },
      { body: Buffer.alloc(0) },
      { body: Buffer.from("three"), properties: { a: "b" } },
    ]);
    const bytes = fc
      .tuple(fc.nat(sample.length), int32, fc.nat(sample.length + 10))
      .map(([at, value, length]) => {
        const copy = Buffer.concat([sample, Buffer.alloc(10)]);
        copy.writeInt32BE(value, at);
        return copy.subarray(0, length);
      });
    const property = fc.property(bytes, (body) => {
      try {
        const items = decodeBatchBody(body);
        return items.reduce((size, item) => size + item.body.length, 0) <= body.length;
      } catch (error) {
        return error instanceof RangeError;
      }
    });
    fc.assert(property, { seed: sliceSeedOf(t), numRuns: RUNS });
  },
);

t.test("parsers of text answer or throw a RangeError", async (t) => {
  const texts = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom(..."0123456789abf:.[]% smhd-+") }),
    fc.string({ unit: fc.constantFrom(..."0123456789"), minLength: 18, maxLength: 24 }),
  );
  const property = fc.property(texts, (text) => {
    const start = segmentStart(text);
    if (start !== undefined && !Number.isSafeInteger(start)) return false;
    if (start !== undefined && segmentStart(segmentName(start)) !== start) return false;
    for (const parse of [parseHost, (levels: string) => DelayLevels.parse(levels)]) {
      try {
        parse(text);
      } catch (error) {
        if (!(error instanceof RangeError)) return false;
      }
    }
    return true;
  });
  fc.assert(property, { seed: sliceSeedOf(t), numRuns: RUNS });
});
