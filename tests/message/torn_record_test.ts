import t from "tap";
import { parseHost } from "../../lib/message/host.ts";
import type { Message } from "../../lib/message/message.ts";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import { checkRecord, encodeRecord } from "../../lib/message/record.ts";
import { isTornRecord } from "../../lib/message/torn_record.ts";

const HOST = parseHost("127.0.0.1:1");

/** A record somewhere in a buffer, as it was put. */
function record(message: Partial<Message>, appendPropertyCrc = false) {
  const prepared = prepareRecord(
    { topic: "Topic", body: Buffer.from("body"), ...message },
    { bornHost: HOST, storeHost: HOST, now: 1, appendPropertyCrc, autoVersion: true },
  );
  const bytes = Buffer.alloc(prepared.size + 7);
  encodeRecord(bytes, 7, prepared, 0, 4096, 1);
  return { bytes, size: prepared.size };
}

/** What a device leaves that did not write the sectors from `position` of the file on. */
function cut(bytes: Buffer, position: number, sector: number): Buffer {
  const torn = Buffer.from(bytes);
  torn.fill(
    0,
    Math.max(7, 7 + sector * 512 - position),
    Math.min(7 + (sector + 1) * 512 - position, bytes.length),
  );
  return torn;
}

t.test("isTornRecord() finds a lost sector with topic or properties, and no other", async (t) => {
  const messages: Partial<Message>[] = [
    {},
    { tags: "TagA" },
    { properties: { a: "x".repeat(600) } },
    { topic: "t".repeat(200), properties: { b: "é".repeat(300) } },
    { body: Buffer.alloc(700, "b"), keys: "k" },
    { body: Buffer.alloc(600) },
  ];
  let found = 0;
  for (const message of messages) {
    const { bytes, size } = record(message);
    for (let position = 0; position < 512; position++) {
      t.equal(isTornRecord(bytes, 7, position), false, `whole at ${position}`);
      for (let sector = 0; sector * 512 < position + size; sector++) {
        const torn = cut(bytes, position, sector);
        const isTaken =
          checkRecord(torn, 7, torn.length, 4096, { checkCrc: true }).kind === "record";
        if (!isTaken || torn.equals(bytes)) continue;
        found++;
        if (!isTornRecord(torn, 7, position)) t.fail(`sector ${sector} at ${position}`);
      }
    }
  }
  t.ok(found > 500, `${found} torn records pass their checksum`);
});

t.test("isTornRecord() leaves a record with a CRC of its own to that", async (t) => {
  const { bytes } = record({ properties: { a: `x${"\0".repeat(600)}y` } }, true);
  t.equal(isTornRecord(bytes, 7, 0), false);
});
