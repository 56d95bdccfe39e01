import { crc32 } from "node:zlib";
import t from "tap";
import { maskedCrc32 } from "../../lib/message/crc32.ts";

t.test("maskedCrc32() is CRC-32 without its top bit", async (t) => {
  t.equal(crc32(Buffer.from("order paid")), 0xcbfde631);
  t.equal(maskedCrc32(Buffer.from("order paid")), 0x4bfde631);
  t.equal(maskedCrc32(Buffer.from("Hello RocketMQ")), 1774740973);
  t.equal(maskedCrc32(Buffer.alloc(0)), 0);
});

t.test("maskedCrc32() goes on from the full CRC of what came before", async (t) => {
  const whole = maskedCrc32(Buffer.from("order paid"));
  t.equal(maskedCrc32(Buffer.from(" paid"), crc32(Buffer.from("order"))), whole);
});
