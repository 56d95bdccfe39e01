/**
 * What does the codec cost for one message, without the store around it?
 *
 * Rows: body size × what is done. `prepare+encode` is all that a put does to bytes: properties to
 * text, CRCs, and the record written into a buffer. `check` is what recovery does, `dispatch` what
 * is read from a record for queues and index, `decode` what a consumer asks of a message (topic,
 * body, tag, keys). Not measured: files, locks, promises.
 *
 * Run: `npx tsx benchmarks/codec.ts [--smoke]`. `--smoke` only shows that it runs.
 *
 * @module
 */

import Benchmark from "benchmark";
import { dispatchRequestOf } from "../lib/message/dispatch_request.ts";
import { parseHost } from "../lib/message/host.ts";
import type { Message } from "../lib/message/message.ts";
import { brokerViolation, storeViolation } from "../lib/message/message_rules.ts";
import { prepareRecord, type RecordDefaults } from "../lib/message/outgoing_record.ts";
import { checkRecord, decodeRecord, encodeRecord } from "../lib/message/record.ts";
import { DelayLevels } from "../lib/message/tags_code.ts";

const smoke = process.argv.includes("--smoke");
const BODY_SIZES = smoke ? [256] : [256, 1024, 4096];
const NOW = 1726740000123;
const LIMITS = { maxMessageSize: 4 * 1024 * 1024, fileSize: 1024 * 1024 * 1024 };

const defaults: RecordDefaults = {
  bornHost: parseHost("192.168.1.10:54321"),
  storeHost: parseHost("10.0.0.7:10911"),
  now: NOW,
  appendPropertyCrc: false,
  autoVersion: true,
};
const withCrc = { ...defaults, appendPropertyCrc: true };
const levels = DelayLevels.parse();
const target = Buffer.alloc(64 * 1024);

/** Sum of one call of each row: the same for every run. */
let checksum = 0;
/** Sum of all calls: nothing may be optimised away. */
let sink = 0;

function put(message: Message, how: RecordDefaults): number {
  const record = prepareRecord(message, how);
  return encodeRecord(target, 0, record, 42, 1073741824, NOW);
}

/** Checks a whole record; one that is not good ends the run. */
function sizeOf(bytes: Buffer, checkCrc: boolean): number {
  const check = checkRecord(bytes, 0, bytes.length, 1073741824, { checkCrc });
  if (check.kind !== "record") throw new Error(check.kind);
  return check.size;
}

const rows: { name: string; run: () => number }[] = [];
for (const size of BODY_SIZES) {
  const body = Buffer.alloc(size, "forcelog ");
  const tagged: Message = { topic: "TopicTest", queueId: 3, body, tags: "refund" };
  const full: Message = {
    ...tagged,
    keys: ["order-1001"],
    uniqKey: "C0A8010A1F4018B4AAC25ED7C9000000",
    properties: { CLUSTER: "DefaultCluster", WAIT: "true" },
  };
  const prepared = prepareRecord(tagged, defaults);
  const [plain, checked] = [defaults, withCrc].map((how) => {
    const record = prepareRecord(full, how);
    const bytes = Buffer.alloc(record.size);
    encodeRecord(bytes, 0, record, 42, 1073741824, NOW);
    return bytes;
  });
  const add = (name: string, run: () => number) => rows.push({ name: `${size} B × ${name}`, run });
  add("prepare+encode, tag", () => put(tagged, defaults));
  add("rules+prepare+encode, tag", () => {
    if (brokerViolation(tagged) !== undefined) throw new Error("refused");
    const record = prepareRecord(tagged, defaults);
    if (storeViolation(record, LIMITS) !== undefined) throw new Error("refused");
    return encodeRecord(target, 0, record, 42, 1073741824, NOW);
  });
  add("prepare+encode, 5 properties", () => put(full, defaults));
  add("prepare+encode, 5 properties, record CRC", () => put(full, withCrc));
  add("encode only, tag", () => encodeRecord(target, 0, prepared, 42, 1073741824, NOW));
  add("check without CRC", () => sizeOf(plain!, false));
  add("check, body CRC", () => sizeOf(plain!, true));
  add("check, both CRCs", () => sizeOf(checked!, true));
  add("dispatch", () => dispatchRequestOf(plain!, 0, levels).tagsCode);
  add("decode", () => {
    const message = decodeRecord(plain!);
    const { topic, tags, keys } = message;
    return topic.length + message.body.length + tags!.length + keys.length + message.queueOffset;
  });
}

const options: Benchmark.Options = smoke ? { maxTime: 0.005, minSamples: 1 } : { maxTime: 1 };
const table: Record<string, Record<string, string>> = {};
for (const { name, run } of rows) {
  checksum += run();
  const bench = new Benchmark(
    name,
    () => {
      sink = (sink + run()) | 0;
    },
    options,
  );
  bench.run();
  if (bench.error !== undefined) throw bench.error;
  table[name] = {
    "µs per call": (1e6 / bench.hz).toFixed(3),
    "± %": bench.stats.rme.toFixed(1),
    "MiB/s of body": ((bench.hz * Number.parseInt(name, 10)) / 1048576).toFixed(0),
  };
}
console.table(table);
console.log(`checksum ${checksum} (of all calls: ${sink})`);
