import { crc32 } from "node:zlib";
import t from "tap";
import { CRC_MASK, maskedCrc32 } from "../../lib/message/crc32.ts";
import { randomOf } from "../../lib/testing/mod.ts";
import { seedOf } from "../support/random.ts";

t.test("maskedCrc32() is CRC-32 without its top bit", async (t) => {
  t.equal(crc32(Buffer.from("order paid")), 0xcbfde631);
  t.equal(maskedCrc32(Buffer.from("order paid")), 0x4bfde631);
  t.equal(maskedCrc32(Buffer.from("Hello RocketMQ")), 1774740973);
  t.equal(maskedCrc32(Buffer.alloc(0)), 0);
});

t.test("maskedCrc32() goes on from the full CRC of what came before", async (t) => {
  const whole = maskedCrc32(Buffer.from("order paid"));
  t.equal(maskedCrc32(Buffer.from(" paid"), 0, 5, crc32(Buffer.from("order"))), whole);
  t.equal(maskedCrc32(Buffer.from("order paid"), 5, 10, crc32(Buffer.from("order"))), whole);
});

t.test("maskedCrc32() is zlib's for every length and place", async (t) => {
  const random = randomOf(seedOf(t));
  const bytes = Buffer.from(Array.from({ length: 5000 }, () => random(256)));
  for (let length = 0; length < 1200; length++) {
    const start = random(100);
    const part = bytes.subarray(start, start + length + (length % 7 === 0 ? 3000 : 0));
    const expected = crc32(part) & CRC_MASK;
    if (maskedCrc32(bytes, start, start + part.length) !== expected)
      t.fail(`${length} at ${start}`);
  }
});
