import t from "tap";
import { dispatchRequestOf } from "../../lib/message/dispatch_request.ts";
import {
  coverHole,
  HOLE_TOPIC,
  type HoleCrc,
  isHoleRecord,
  isHoleRecordAt,
} from "../../lib/message/hole_record.ts";
import { parseHost } from "../../lib/message/host.ts";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import { checkRecord, decodeRecord, encodeRecord } from "../../lib/message/record.ts";
import { takesQueueOffset } from "../../lib/message/sys_flag.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";

/** The smallest record: no store writes one without a topic. */
const SMALLEST = 92;
const CRC_BYTES = 20;
const FROM = 1_000_000;
const TIME = 1_700_000_000_000;
const FAR = 2 ** 31;

/** The bytes that cover a range, and where each record begins. */
function cover(
  size: number,
  crc: HoleCrc,
  fileEnd = FAR,
): { bytes: Buffer; starts: number[] } | undefined {
  const pieces = coverHole(FROM, FROM + size, fileEnd, TIME, crc);
  if (!pieces) return undefined;
  const bytes: Buffer[] = [];
  const starts: number[] = [];
  let next = FROM;
  for (const piece of pieces) {
    if (piece.offset !== next) throw new Error(`a piece at ${piece.offset}, not ${next}`);
    starts.push(piece.offset - FROM);
    bytes.push(piece.bytes);
    next += piece.bytes.length;
  }
  return { bytes: Buffer.concat(bytes), starts };
}

/** What is wrong with a covered range. */
function faults(size: number, crc: HoleCrc): string[] {
  const found: string[] = [];
  const covered = cover(size, crc);
  if (!covered) return ["it is not covered"];
  if (covered.bytes.length !== size) found.push(`${covered.bytes.length} bytes`);
  let at = 0;
  while (at < covered.bytes.length) {
    const forceVerifyPropCRC = crc === "always";
    const check = checkRecord(covered.bytes, at, covered.bytes.length, FROM + at, {
      checkCrc: true,
      forceVerifyPropCRC,
    });
    if (check.kind !== "record") return [...found, `${check.kind} at ${at}`];
    const message = decodeRecord(covered.bytes.subarray(at, at + check.size));
    if (!isHoleRecord(message) || !isHoleRecordAt(covered.bytes, at)) found.push("it is no hole");
    if (takesQueueOffset(message.sysFlag)) found.push("it enters a queue");
    if (message.storeTimestamp !== TIME) found.push(`its time is ${message.storeTimestamp}`);
    if (message.size > 1024 * 1024) found.push(`it has ${message.size} bytes`);
    if (message.topic === "" || !HOLE_TOPIC.startsWith(message.topic)) found.push(message.topic);
    if (!message.body.equals(Buffer.alloc(message.body.length))) found.push("its body is not zero");
    at += check.size;
  }
  return found;
}

t.test("coverHole() covers every range from the smallest record on", async (t) => {
  for (const crc of ["never", "if it fits", "always"] as const) {
    const least = crc === "always" ? SMALLEST + CRC_BYTES : SMALLEST;
    for (let size = 1; size < least; size++) {
      if (cover(size, crc) !== undefined) t.fail(`${size} bytes, CRC ${crc}`);
    }
    for (let size = least; size <= 700; size++) {
      const wrong = faults(size, crc);
      if (wrong.length > 0) t.same(wrong, [], `${size} bytes, CRC ${crc}`);
    }
    t.pass(`from ${least} bytes on, CRC ${crc}`);
  }
});

t.test("coverHole() gives its records a CRC of their own wherever it fits", async (t) => {
  const hasCrc = (size: number, crc: HoleCrc): boolean | undefined => {
    const covered = cover(size, crc);
    return covered && decodeRecord(covered.bytes).properties?.has("__CRC32#");
  };
  for (let size = SMALLEST; size < SMALLEST + CRC_BYTES; size++)
    t.notOk(hasCrc(size, "if it fits"));
  for (const size of [SMALLEST + CRC_BYTES, 124, 125, 300]) {
    t.ok(hasCrc(size, "if it fits"), `${size}`);
    t.ok(hasCrc(size, "always"), `${size}`);
    t.notOk(hasCrc(size, "never"), `${size}`);
  }
});

t.test("coverHole() divides a large range, and leaves no rest that is too small", async (t) => {
  const mebibyte = 1024 * 1024;
  for (const crc of ["never", "if it fits", "always"] as const) {
    for (const rest of [-1, 0, 1, 50, 91, 92, 103, 104, 105, 123, 124, 125, 200]) {
      for (const count of [1, 3]) {
        const size = count * mebibyte + rest;
        t.same(faults(size, crc), [], `${count} MiB and ${rest}, CRC ${crc}`);
      }
    }
  }
});

t.test("coverHole() closes a file with a blank", async (t) => {
  for (const size of [8, 9, 12, 91, 92, 1000, 3 * 1024 * 1024 + 5]) {
    const { bytes } = cover(size, "never", FROM + size) as { bytes: Buffer };
    t.equal(bytes.length, size);
    const check = checkRecord(bytes, 0, bytes.length, FROM, { checkCrc: true });
    t.same(check, { kind: "blank", size });
    t.notOk(
      bytes.subarray(8).some((byte) => byte !== 0),
      "zero behind it",
    );
  }
  for (let size = 1; size < 8; size++) {
    const { bytes } = cover(size, "never", FROM + size) as { bytes: Buffer };
    t.same(bytes, Buffer.alloc(size), "too little for a blank: nothing is ever read there");
  }
});

t.test("isHoleRecord() believes no message of a user", async (t) => {
  const host = parseHost("127.0.0.1:1");
  const defaults = {
    bornHost: host,
    storeHost: host,
    now: TIME,
    appendPropertyCrc: false,
    autoVersion: true,
  };
  const hole = { topic: HOLE_TOPIC, body: Buffer.alloc(10), flag: 0x464c4831, sysFlag: 12 };
  for (const [other, is] of [
    [{}, true],
    [{ flag: 0 }, false],
    [{ sysFlag: 0 }, false],
    [{ sysFlag: 8 }, false],
    [{ topic: "FORCELOG_HOLES" }, false],
    [{ topic: "T" }, false],
  ] as const) {
    const record = prepareRecord({ ...hole, ...other }, defaults);
    const bytes = Buffer.alloc(record.size);
    encodeRecord(bytes, 0, record, 0, FROM, TIME);
    t.equal(isHoleRecord(decodeRecord(bytes)), is, JSON.stringify(other));
  }
});

t.test("a covering record dispatches nothing", async (t) => {
  const { bytes } = cover(200, "never") as { bytes: Buffer };
  const request = dispatchRequestOf(bytes, 0, DelayLevels.parse("1s"));
  t.match(request, {
    topic: HOLE_TOPIC,
    keys: undefined,
    uniqKey: undefined,
    tags: undefined,
    multiDispatch: undefined,
    size: 200,
    physicalOffset: FROM,
  });
});
