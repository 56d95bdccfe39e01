/**
 * Every record that RocketMQ wrote into a golden store is read as RocketMQ reads it, and written
 * again to the same bytes.
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { dispatchRequestFor, dispatchRequestOf } from "../../lib/message/dispatch_request.ts";
import { parseHost } from "../../lib/message/host.ts";
import type { Message } from "../../lib/message/message.ts";
import { prepareRecord, type RecordDefaults } from "../../lib/message/outgoing_record.ts";
import { checkRecord, encodeRecord, MAGIC_V2, StoredMessage } from "../../lib/message/record.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import { type GoldenEntry, type GoldenRecord, goldenNames, openGolden } from "../support/golden.ts";

const LEVELS = DelayLevels.parse();

/** Hosts and time that no golden record has: none may come from here. */
const DEFAULTS: RecordDefaults = {
  bornHost: parseHost("9.9.9.9:9"),
  storeHost: parseHost("9.9.9.9:9"),
  now: 9,
  appendPropertyCrc: false,
  autoVersion: true,
};

for (const name of goldenNames()) {
  t.test(`checkRecord() and StoredMessage see in ${name} what RocketMQ sees`, async (t) => {
    const { dir, recipe, expected } = openGolden(t, name);
    const fileSize = recipe.config.mappedFileSizeCommitLog;
    const files = readFiles(join(dir, "commitlog"));
    const { records, maxOffset } = expected.commitLog;
    let count = 0;
    for (const entry of records) {
      const fileStart = entry.offset - (entry.offset % fileSize);
      const file = files.get(fileStart)!;
      const start = entry.offset - fileStart;
      const check = checkRecord(file, start, fileSize, entry.offset, { checkCrc: true });
      const { kind, size } = expectedCheck(entry);
      t.equal(check.kind, kind, `kind at ${entry.offset}`);
      if (check.kind === "bad") t.equal(check.declaredSize, size);
      if (check.kind === "blank") t.equal(check.size, size);
      if (check.kind !== "record" || !("topic" in entry)) continue;
      t.equal(check.size, size);
      const bytes = file.subarray(start, start + check.size);
      const message = new StoredMessage(bytes);
      t.strictSame(view(message), entry);
      t.strictSame(rewritten(message), bytes, `same bytes again at ${entry.offset}`);
      sameDispatch(t, message);
      count++;
    }
    if (maxOffset % fileSize !== 0) {
      const end = maxOffset % fileSize;
      const file = files.get(maxOffset - end)!;
      const check = checkRecord(file, end, file.length, maxOffset, { checkCrc: true });
      t.not(check.kind, "record", `nothing at the end ${maxOffset}`);
    }
    t.comment(`${count} records`);
  });
}

function readFiles(folder: string): Map<number, Buffer> {
  return new Map(
    readdirSync(folder).map((file) => [Number(file), readFileSync(join(folder, file))]),
  );
}

function expectedCheck(entry: GoldenEntry): { kind: string; size: number } {
  if ("blank" in entry) return { kind: "blank", size: entry.blank };
  return { kind: "bad" in entry ? "bad" : "record", size: entry.size };
}

/** The message in the shape of the expectation. */
function view(message: StoredMessage): GoldenRecord {
  const { body, properties, physicalOffset } = message;
  const whole = dispatchRequestOf(message.bytes, 0, LEVELS);
  return {
    offset: physicalOffset,
    size: message.size,
    topic: message.topic,
    queueId: message.queueId,
    queueOffset: message.queueOffset,
    msgId: message.messageId,
    flag: message.flag,
    sysFlag: message.sysFlag,
    bodyCRC: message.bodyCrc,
    bornTimestamp: message.bornTimestamp,
    bornHost: message.bornHost,
    storeTimestamp: message.storeTimestamp,
    storeHost: message.storeHost,
    reconsumeTimes: message.reconsumeTimes,
    preparedTransactionOffset: message.preparedTransactionOffset,
    properties: properties === undefined ? null : sorted(properties),
    bodyLength: body.length,
    ...(body.length <= 64 ? { body: body.toString("base64") } : { bodySha256: sha256(body) }),
    sha256: sha256(message.bytes),
    magic: message.version === 2 ? "daa320ab" : "daa320a7",
    position: physicalOffset,
    dispatchTagsCode: whole.tagsCode,
  };
}

function sorted(map: ReadonlyMap<string, string>): Record<string, string> {
  return Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Decodes to a message as a caller would put it. */
function again(message: StoredMessage): Message {
  return {
    topic: message.topic,
    queueId: message.queueId,
    body: message.body,
    flag: message.flag,
    sysFlag: message.sysFlag,
    bornTimestamp: message.bornTimestamp,
    bornHost: message.bornHost,
    storeHost: message.storeHost,
    reconsumeTimes: message.reconsumeTimes,
    preparedTransactionOffset: message.preparedTransactionOffset,
    propertiesString: message.propertiesText,
  };
}

function prepareAgain(message: StoredMessage) {
  const appendPropertyCrc = message.property("__CRC32#") !== undefined;
  // RocketMQ picks V2 by characters, we by bytes: the same as long as topics are ASCII.
  const autoVersion = message.bytes.readInt32BE(4) === MAGIC_V2;
  return prepareRecord(again(message), { ...DEFAULTS, appendPropertyCrc, autoVersion });
}

function rewritten(message: StoredMessage): Buffer {
  const record = prepareAgain(message);
  const target = Buffer.alloc(record.size + 2, 0xee);
  const { queueOffset, physicalOffset, storeTimestamp } = message;
  encodeRecord(target, 1, record, queueOffset, physicalOffset, storeTimestamp);
  if (target[0] !== 0xee || target.at(-1) !== 0xee) throw new Error("wrote outside its place");
  return target.subarray(1, -1);
}

/** What dispatch is told while a record is appended is what it would read from its bytes. */
function sameDispatch(t: Test, message: StoredMessage): void {
  const { queueOffset, physicalOffset, storeTimestamp } = message;
  const { propertiesText: _, ...noted } = dispatchRequestFor(
    prepareAgain(message),
    queueOffset,
    physicalOffset,
    storeTimestamp,
    LEVELS,
  );
  const { propertiesText: __, ...read } = dispatchRequestOf(message.bytes, 0, LEVELS);
  t.strictSame(noted, read);
}
