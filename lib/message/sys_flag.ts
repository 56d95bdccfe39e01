/**
 * The bits of SYSFLAG (RocketMQ: `MessageSysFlag`).
 *
 * @module
 */

/** BODY is compressed by the producer; see {@linkcode compressionType}. `COMPRESSED_FLAG`. */
export const COMPRESSED_FLAG = 0x001;
/** The topic's filter type is MULTI_TAG. Changes nothing in the store. `MULTI_TAGS_FLAG`. */
export const MULTI_TAGS_FLAG = 0x002;
/** Transaction type "prepared". `TRANSACTION_PREPARED_TYPE`. */
export const TRANSACTION_PREPARED_TYPE = 0x004;
/** Transaction type "commit". `TRANSACTION_COMMIT_TYPE`. */
export const TRANSACTION_COMMIT_TYPE = 0x008;
/** Transaction type "rollback", and the mask of the type. `TRANSACTION_ROLLBACK_TYPE`. */
export const TRANSACTION_ROLLBACK_TYPE = 0x00c;
/** BORNHOST has 20 bytes. `BORNHOST_V6_FLAG`. */
export const BORN_HOST_V6_FLAG = 0x010;
/** STOREHOSTADDRESS has 20 bytes. `STOREHOSTADDRESS_V6_FLAG`. */
export const STORE_HOST_V6_FLAG = 0x020;
/** BODY is a packed batch that the consumer unpacks. `NEED_UNWRAP_FLAG`. */
export const NEED_UNWRAP_FLAG = 0x040;
/** The record is one inner batch. `INNER_BATCH_FLAG`. */
export const INNER_BATCH_FLAG = 0x080;

const COMPRESSION_TYPE_SHIFT = 8;
const COMPRESSION_TYPE_MASK = 0x7;

/** What a transaction did with the message. */
export type TransactionType = "none" | "prepared" | "commit" | "rollback";

const TRANSACTION_TYPES: readonly TransactionType[] = ["none", "prepared", "commit", "rollback"];

/** The transaction type in bits 2 and 3. */
export function transactionType(sysFlag: number): TransactionType {
  return TRANSACTION_TYPES[(sysFlag >> 2) & 3]!;
}

/**
 * Whether a record of this type takes a queue offset and gets a consume queue unit. Prepared and
 * rollback records store QUEUEOFFSET 0 and leave the queue's counter alone.
 */
export function takesQueueOffset(sysFlag: number): boolean {
  const type = sysFlag & TRANSACTION_ROLLBACK_TYPE;
  return type === 0 || type === TRANSACTION_COMMIT_TYPE;
}

/** How a compressed body is packed; `"unknown"` is an error for who wants to unpack it. */
export type CompressionType = "zlib" | "lz4" | "zstd" | "unknown";

/**
 * The compression in bits 8 to 10, or `undefined` if the body is not compressed. Old clients write
 * 0 for zlib.
 */
export function compressionType(sysFlag: number): CompressionType | undefined {
  if ((sysFlag & COMPRESSED_FLAG) === 0) return undefined;
  switch ((sysFlag >> COMPRESSION_TYPE_SHIFT) & COMPRESSION_TYPE_MASK) {
    case 0:
    case 3:
      return "zlib";
    case 1:
      return "lz4";
    case 2:
      return "zstd";
    default:
      return "unknown";
  }
}
