/**
 * Every record that RocketMQ wrote into a golden store is read as RocketMQ reads it, and written
 * again to the same bytes.
 */

import { createHash } from "node:crypto";
import t, { type Test } from "tap";
import { dispatchRequestFor, dispatchRequestOf } from "../../lib/message/dispatch_request.ts";
import { parseHost } from "../../lib/message/host.ts";
import type { Message } from "../../lib/message/message.ts";
import { prepareRecord, type RecordDefaults } from "../../lib/message/outgoing_record.ts";
import { encodeProperties, parseProperties } from "../../lib/message/properties.ts";
import {
  checkRecord,
  decodeRecord,
  encodeRecord,
  MAGIC_V2,
  StoredMessage,
} from "../../lib/message/record.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import {
  type GoldenEntry,
  type GoldenRecord,
  goldenNames,
  openGolden,
  readLog,
} from "../support/golden.ts";

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
    const files = readLog(dir);
    const { records, maxOffset } = expected.commitLog;
    let count = 0;
    for (const entry of records) {
      const start = entry.offset % fileSize;
      const file = files.get(entry.offset - start)!;
      const check = checkRecord(file, start, fileSize, entry.offset, { checkCrc: true });
      t.match(check, expectedCheck(entry), `at ${entry.offset}`);
      if (check.kind !== "record") continue;
      const bytes = file.subarray(start, start + check.size);
      const message = new StoredMessage(bytes);
      t.strictSame(view(message), entry);
      t.strictSame(rewritten(message), bytes, `the same bytes again at ${entry.offset}`);
      sameDispatch(t, message);
      count++;
    }
    const end = maxOffset % fileSize;
    const file = files.get(maxOffset - end);
    if (file !== undefined) {
      const check = checkRecord(file, end, file.length, maxOffset, { checkCrc: true });
      t.not(check.kind, "record", `nothing at the end ${maxOffset}`);
    }
    t.comment(`${count} records`);
  });
}

t.test("encodeProperties() keeps the order in which RocketMQ wrote properties", async (t) => {
  // Single messages of 5.x, whose properties were in a map of 128 buckets.
  for (const name of ["v1-basic", "unicode", "v2-topics", "index-rolled", "delay", "compressed"]) {
    const { dir, recipe, expected } = openGolden(t, name);
    const fileSize = recipe.config.mappedFileSizeCommitLog;
    const files = readLog(dir);
    for (const entry of expected.commitLog.records) {
      if (!("topic" in entry)) continue;
      const start = entry.offset % fileSize;
      const text = decodeRecord(files.get(entry.offset - start)!, start).propertiesText;
      // One was put as raw text, without the last separator.
      if (!text.endsWith("\x02")) continue;
      t.equal(encodeProperties(parseProperties(text)), text, `${name} at ${entry.offset}`);
    }
  }
});

function expectedCheck(entry: GoldenEntry): object {
  if ("blank" in entry) return { kind: "blank", size: entry.blank };
  if ("bad" in entry) return { kind: "bad", declaredSize: entry.size };
  return { kind: "record", size: entry.size };
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
