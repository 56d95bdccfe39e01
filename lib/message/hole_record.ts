/**
 * Records that lie where others were damaged, so that the log is a chain of whole records again: for
 * RocketMQ too, which cuts the log at the first bad one.
 *
 *     | whole | damaged ......... | whole |
 *     | whole | FORCELOG_HOLE     | whole |      in the middle of a file
 *     | whole | blank             |              up to the end of a file
 *
 * They are rolled-back transaction messages: these enter no queue and no index, in RocketMQ's store
 * as in ours.
 *
 * @module
 */

import type { PhysicalOffset } from "../units.ts";
import { parseHost } from "./host.ts";
import { readInt32 } from "./int64.ts";
import { type OutgoingRecord, prepareRecord, type RecordDefaults } from "./outgoing_record.ts";
import { encodeBlank, encodeRecord } from "./record_encode.ts";
import { BLANK_SIZE, FLAG_AT, readSysFlag } from "./record_layout.ts";
import type { StoredMessage } from "./stored_message.ts";
import { TRANSACTION_ROLLBACK_TYPE } from "./sys_flag.ts";

/** Their topic, or as much of its beginning as there is room for. */
export const HOLE_TOPIC = "FORCELOG_HOLE";
/** FLAG of each: "FLH1". */
const HOLE_FLAG = 0x464c4831;
/** Most bytes of one: far below any limit of a message's size. */
const HOLE_RECORD_BYTES_MAX = 1024 * 1024;

const NOWHERE = parseHost("0.0.0.0:0");

/** A piece of a hole, as it is to be written. */
export interface HolePiece {
  readonly offset: PhysicalOffset;
  readonly bytes: Buffer;
}

/** Whether covering records carry a CRC of their own: `"always"` is for who verifies nothing less. */
export type HoleCrc = "never" | "if it fits" | "always";

/**
 * What to write over the bytes from `from` to `to` of one file.
 *
 * @param fileEnd End of the file that holds them.
 * @param storeTimestamp Of the records, in ms: times in the log must not go back.
 * @returns Pieces that cover the range without a gap, made as they are asked for; or `undefined` if
 *   the range is too small for any record.
 */
export function coverHole(
  from: PhysicalOffset,
  to: PhysicalOffset,
  fileEnd: PhysicalOffset,
  storeTimestamp: number,
  crc: HoleCrc,
): Iterable<HolePiece> | undefined {
  if (to === fileEnd) return blankPieces(from, to);
  const withCrc = crc !== "never";
  const bare = bareSize(withCrc);
  if (to - from >= bare) return recordPieces(from, to, bare, storeTimestamp, withCrc);
  // One record, with less around it.
  const record =
    smallRecord(to - from, withCrc) ??
    (crc === "if it fits" ? smallRecord(to - from, false) : undefined);
  return record && [pieceOf(record, from, storeTimestamp)];
}

/** Whether the message is such a record: it stands for bytes that were damaged. */
export function isHoleRecord({ topic, flag, sysFlag }: StoredMessage): boolean {
  return (
    flag === HOLE_FLAG && sysFlag === TRANSACTION_ROLLBACK_TYPE && HOLE_TOPIC.startsWith(topic)
  );
}

/** The same of a checked record in memory. */
export function isHoleRecordAt(bytes: Buffer, start: number): boolean {
  return (
    readInt32(bytes, start + FLAG_AT) === HOLE_FLAG &&
    readSysFlag(bytes, start) === TRANSACTION_ROLLBACK_TYPE
  );
}

function* blankPieces(from: PhysicalOffset, to: PhysicalOffset): Generator<HolePiece> {
  for (let offset = from; offset < to; offset += HOLE_RECORD_BYTES_MAX) {
    const bytes = Buffer.alloc(Math.min(HOLE_RECORD_BYTES_MAX, to - offset));
    if (offset === from && to - from >= BLANK_SIZE) encodeBlank(bytes, 0, to - from);
    yield { offset, bytes };
  }
}

function* recordPieces(
  from: PhysicalOffset,
  to: PhysicalOffset,
  bare: number,
  storeTimestamp: number,
  withCrc: boolean,
): Generator<HolePiece> {
  for (let offset = from; offset < to; ) {
    let size = Math.min(HOLE_RECORD_BYTES_MAX, to - offset);
    // The last one must not be too small.
    const rest = to - offset - size;
    if (rest > 0 && rest < bare) size -= bare;
    yield pieceOf(holeRecord(HOLE_TOPIC, size - bare, withCrc), offset, storeTimestamp);
    offset += size;
  }
}

function smallRecord(size: number, withCrc: boolean): OutgoingRecord | undefined {
  for (let length = HOLE_TOPIC.length; length > 0; length--) {
    const topic = HOLE_TOPIC.slice(0, length);
    const rest = size - holeRecord(topic, 0, withCrc).size;
    if (rest >= 0) return holeRecord(topic, rest, withCrc);
  }
  return undefined;
}

function bareSize(withCrc: boolean): number {
  return holeRecord(HOLE_TOPIC, 0, withCrc).size;
}

function holeRecord(topic: string, bodyBytes: number, withCrc: boolean): OutgoingRecord {
  const defaults: RecordDefaults = {
    bornHost: NOWHERE,
    storeHost: NOWHERE,
    now: 0,
    appendPropertyCrc: withCrc,
    autoVersion: false,
  };
  const sysFlag = TRANSACTION_ROLLBACK_TYPE;
  return prepareRecord(
    { topic, body: Buffer.alloc(bodyBytes), flag: HOLE_FLAG, sysFlag },
    defaults,
  );
}

function pieceOf(
  record: OutgoingRecord,
  offset: PhysicalOffset,
  storeTimestamp: number,
): HolePiece {
  const bytes = Buffer.alloc(record.size);
  encodeRecord(bytes, 0, { ...record, bornTimestamp: storeTimestamp }, 0, offset, storeTimestamp);
  return { offset, bytes };
}
