/**
 * The record: one message in the commit log.
 *
 * Files of the commit log are packed with records, without gaps or alignment. All integers are
 * big-endian two's complement. `B` and `S` are 8 bytes for an IPv4 host and 20 for IPv6.
 *
 * | # | field | bytes | at, with IPv4 hosts | |
 * |---|---|---|---|---|
 * | 1 | TOTALSIZE | 4 | 0 | length of the whole record, this field included |
 * | 2 | MAGICCODE | 4 | 4 | `DAA320A7` V1, `DAA320AB` V2 (5.1.0 and later) |
 * | 3 | BODYCRC | 4 | 8 | CRC-32 of BODY AND `7FFFFFFF`; 0 for an empty body |
 * | 4 | QUEUEID | 4 | 12 | |
 * | 5 | FLAG | 4 | 16 | the application's |
 * | 6 | QUEUEOFFSET | 8 | 20 | place in its queue, in units; 0 if prepared or rolled back |
 * | 7 | PHYSICALOFFSET | 8 | 28 | place in the whole log, in bytes |
 * | 8 | SYSFLAG | 4 | 36 | bits of `sys_flag.ts` |
 * | 9 | BORNTIMESTAMP | 8 | 40 | ms, the producer's |
 * | 10 | BORNHOST | B | 48 | address, port as i32 |
 * | 11 | STORETIMESTAMP | 8 | 56 | ms, the store's |
 * | 12 | STOREHOSTADDRESS | S | 64 | |
 * | 13 | RECONSUMETIMES | 4 | 72 | |
 * | 14 | PREPAREDTRANSACTIONOFFSET | 8 | 76 | |
 * | 15 | BODYLENGTH, BODY | 4, n | 84 | as the producer sent it, compressed or not |
 * | 16 | TOPICLENGTH, TOPIC | 1 or 2, n | | V1: i8, so at most 127; V2: i16. UTF-8 |
 * | 17 | PROPERTIESLENGTH, PROPERTIES | 2, n | | i16, so at most 32767; see `properties.ts` |
 *
 * If the property of `property_crc.ts` is there, it is the record's last 20 bytes, and a checksum
 * of all before them. Without it BODYCRC is the only checksum, and head, topic and properties have
 * none.
 *
 * A record is written only if at least 8 bytes stay free behind it in its file. Else a blank closes
 * the file: TOTALSIZE is what remains of the file, MAGICCODE `CBD43194`, and the rest is undefined.
 * So every closed file ends in a blank, and no record spans two files. Behind the last record the
 * file is zero, which is no magic; after a crash there may be anything.
 *
 * @module
 */

export { checkRecord, type RecordCheck, type RecordCheckOptions } from "./record_check.ts";
export { encodeBlank, encodeRecord } from "./record_encode.ts";
export {
  BLANK_SIZE,
  END_FILE_MIN_BLANK_LENGTH,
  isTopic,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  RECORD_SIZE_MIN,
  type RecordVersion,
  readMagic,
  readPhysicalOffset,
  readQueueId,
  readQueueOffset,
  readStoreTimestamp,
  readSysFlag,
  readTotalSize,
} from "./record_layout.ts";
export { decodeRecord, StoredMessage } from "./stored_message.ts";
