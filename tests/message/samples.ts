/**
 * The worked example of the record format, and what tests make records with.
 *
 * @module
 */

import { parseHost } from "../../lib/message/host.ts";
import type { Message } from "../../lib/message/message.ts";
import {
  type OutgoingRecord,
  prepareRecord,
  type RecordDefaults,
} from "../../lib/message/outgoing_record.ts";
import { encodeRecord } from "../../lib/message/record.ts";

/** The example's place: first record of the file that starts at 1 GiB. */
export const QUEUE_OFFSET = 42;
export const PHYSICAL_OFFSET = 1073741824;
export const BORN_TIMESTAMP = 1726740000000;
export const STORE_TIMESTAMP = 1726740000123;

export const DEFAULTS: RecordDefaults = {
  bornHost: parseHost("192.168.1.10:54321"),
  storeHost: parseHost("10.0.0.7:10911"),
  now: BORN_TIMESTAMP,
  appendPropertyCrc: false,
  autoVersion: true,
};

export const WITH_CRC: RecordDefaults = { ...DEFAULTS, appendPropertyCrc: true };

/** The example as a caller puts it. */
export const ORDER_PAID: Message = {
  topic: "TopicTest",
  queueId: 3,
  body: Buffer.from("order paid"),
  tags: "refund",
  keys: "order-1001",
  uniqKey: "C0A8010A1F4018B4AAC25ED7C9000000",
  waitStoreMsgOK: true,
  properties: { CLUSTER: "DefaultCluster" },
};

/** The example's 213 bytes, as RocketMQ writes them. */
export const ORDER_PAID_BYTES = Buffer.from(
  `00 00 00 d5 da a3 20 a7 4b fd e6 31 00 00 00 03
   00 00 00 00 00 00 00 00 00 00 00 2a 00 00 00 00
   40 00 00 00 00 00 00 00 00 00 01 92 09 b9 6d 00
   c0 a8 01 0a 00 00 d4 31 00 00 01 92 09 b9 6d 7b
   0a 00 00 07 00 00 2a 9f 00 00 00 00 00 00 00 00
   00 00 00 00 00 00 00 0a 6f 72 64 65 72 20 70 61
   69 64 09 54 6f 70 69 63 54 65 73 74 00 67 55 4e
   49 51 5f 4b 45 59 01 43 30 41 38 30 31 30 41 31
   46 34 30 31 38 42 34 41 41 43 32 35 45 44 37 43
   39 30 30 30 30 30 30 02 43 4c 55 53 54 45 52 01
   44 65 66 61 75 6c 74 43 6c 75 73 74 65 72 02 54
   41 47 53 01 72 65 66 75 6e 64 02 4b 45 59 53 01
   6f 72 64 65 72 2d 31 30 30 31 02 57 41 49 54 01
   74 72 75 65 02`.replace(/\s/g, ""),
  "hex",
);

/** Writes a record at the example's place, and shows that it writes nothing beside it. */
export function encode(
  record: OutgoingRecord,
  queueOffset: number = QUEUE_OFFSET,
  physicalOffset: number = PHYSICAL_OFFSET,
): Buffer {
  const target = Buffer.alloc(record.size + 2, 0xee);
  const size = encodeRecord(target, 1, record, queueOffset, physicalOffset, STORE_TIMESTAMP);
  if (size !== record.size) throw new Error(`wrote ${size} of ${record.size} bytes`);
  if (target[0] !== 0xee || target.at(-1) !== 0xee) throw new Error("wrote beside the record");
  return target.subarray(1, -1);
}

/** Prepares and writes. */
export function encodeMessage(message: Message, defaults: RecordDefaults = DEFAULTS): Buffer {
  return encode(prepareRecord(message, defaults));
}
