import t from "tap";
import {
  claimedCrc,
  endsLikeCrc,
  PROPERTY_CRC_SIZE,
  writePropertyCrc,
} from "../../lib/message/property_crc.ts";

t.test("writePropertyCrc() writes the digits lowest first, filled to ten", async (t) => {
  t.equal(PROPERTY_CRC_SIZE, 20);
  const bytes = Buffer.alloc(22, 0xee);
  writePropertyCrc(bytes, 1, 1890740277);
  t.equal(bytes.toString("hex"), "ee5f5f435243333223013737323034373039383102ee");
  t.equal(claimedCrc(bytes, 1, 21), 1890740277);
  for (const [crc, digits] of [
    [0, "0000000000"],
    [120, "0210000000"],
    [2147483647, "7463847412"],
  ] as const) {
    writePropertyCrc(bytes, 1, crc);
    t.equal(bytes.toString("latin1", 10, 20), digits);
    t.equal(claimedCrc(bytes, 1, 21), crc);
  }
});

t.test("claimedCrc() is undefined unless the properties end in the whole entry", async (t) => {
  const entry = "__CRC32#\x017720470981\x02";
  const claimed = (text: string) => claimedCrc(Buffer.from(text, "latin1"), 0, text.length);
  t.equal(claimed(entry), 1890740277);
  t.equal(claimed(`a\x01b\x02${entry}`), 1890740277);
  t.equal(claimed(`a\x01b${entry}`), 1890740277, "runs together with the one before");
  t.equal(claimed(`${entry}a\x01b\x02`), undefined, "not the last");
  t.equal(claimed(entry.slice(1)), undefined);
  t.equal(claimed(entry.slice(0, -1)), undefined);
  t.equal(claimed(entry.replace("7", "x")), undefined);
  t.equal(claimed(entry.replace("\x01", "=")), undefined);
  t.equal(claimed(entry.replace("C", "c")), undefined);
  t.equal(claimed(""), undefined);
  t.equal(claimed("__CRC32#\x019999999999\x02"), 9999999999, "beyond any CRC, so never right");
});

t.test("endsLikeCrc() sees text that would be taken for a CRC", async (t) => {
  t.equal(endsLikeCrc("x__CRC32#\x017720470981\x02"), true);
  t.equal(endsLikeCrc("x__CRC32#\x017720470981"), false);
  t.equal(endsLikeCrc("x__CRC32#\x01772047098a\x02"), false);
  t.equal(endsLikeCrc("TAGS\x01TagA\x02"), false);
  t.equal(endsLikeCrc(""), false);
});
