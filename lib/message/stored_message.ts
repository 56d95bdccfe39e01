/**
 * A record that was read, as a message.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { formatHost } from "./host.ts";
import { readBigInt64, readInt16, readInt32, readInt64 } from "./int64.ts";
import { decodeUtf8 } from "./java_string.ts";
import { messageIdOf } from "./message_id.ts";
import { findProperty, parseProperties } from "./properties.ts";
import {
  KEY_SEPARATOR,
  PROPERTY_KEYS,
  PROPERTY_TAGS,
  PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
  PROPERTY_WAIT_STORE_MSG_OK,
} from "./property_names.ts";
import { checkRecord } from "./record_check.ts";
import {
  BODY_CRC_AT,
  BORN_HOST_AT,
  BORN_TIMESTAMP_AT,
  bodyLengthAt,
  FLAG_AT,
  PROPERTIES_LENGTH_SIZE,
  preparedTransactionOffsetAt,
  type RecordVersion,
  readPhysicalOffset,
  readQueueId,
  readQueueOffset,
  readStoreTimestamp,
  readSysFlag,
  readVersion,
  reconsumeTimesAt,
  storeHostAt,
  storeHostSize,
  storeTimestampAt,
} from "./record_layout.ts";

/**
 * A message of the store. Fields are decoded when they are asked for, from the record's own bytes.
 *
 * {@linkcode bytes} and {@linkcode body} are views, not copies: they are what they are as long as
 * the memory behind them is.
 */
export class StoredMessage {
  /** The whole record. */
  readonly bytes: Buffer;
  #topic: string | undefined;
  #propertiesText: string | undefined;
  #properties: Map<string, string> | undefined;

  /** @param bytes Exactly one record, for which `checkRecord` said so; see {@linkcode decodeRecord}. */
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  get topic(): string {
    this.#topic ??= decodeUtf8(
      this.bytes,
      this.#bodyEnd + this.version,
      this.#propertiesAt - PROPERTIES_LENGTH_SIZE,
    );
    return this.#topic;
  }

  get queueId(): number {
    return readQueueId(this.bytes, 0);
  }

  /** Place in its queue, in messages; 0 if it is prepared or rolled back. */
  get queueOffset(): QueueOffset {
    return readQueueOffset(this.bytes, 0);
  }

  /** Place in the commit log, in bytes. */
  get physicalOffset(): PhysicalOffset {
    return readPhysicalOffset(this.bytes, 0);
  }

  /** Bytes of the whole record (RocketMQ: store size). */
  get size(): number {
    return this.bytes.length;
  }

  get version(): RecordVersion {
    return readVersion(this.bytes, 0);
  }

  get flag(): number {
    return readInt32(this.bytes, FLAG_AT);
  }

  /** Bits of `sys_flag.ts`. */
  get sysFlag(): number {
    return readSysFlag(this.bytes, 0);
  }

  /** Masked CRC-32 of the body, as the record says. */
  get bodyCrc(): number {
    return readInt32(this.bytes, BODY_CRC_AT);
  }

  /**
   * When the producer made it: Unix time in milliseconds, as the producer says.
   *
   * @throws {RangeError} If the producer wrote something beyond ±(2^53 - 1); see
   * {@linkcode exactBornTimestamp}.
   */
  get bornTimestamp(): number {
    return readInt64(this.bytes, BORN_TIMESTAMP_AT, "BORNTIMESTAMP");
  }

  /** {@linkcode bornTimestamp}, whatever it is. */
  get exactBornTimestamp(): bigint {
    return readBigInt64(this.bytes, BORN_TIMESTAMP_AT);
  }

  /** Where the producer is: `1.2.3.4:5` or `[0:0:0:0:0:0:0:1]:5`. */
  get bornHost(): string {
    return formatHost(this.bytes.subarray(BORN_HOST_AT, storeTimestampAt(this.sysFlag)));
  }

  /** When it was stored: Unix time in milliseconds. */
  get storeTimestamp(): number {
    return readStoreTimestamp(this.bytes, 0);
  }

  /** Where the store is that wrote it: `1.2.3.4:5` or `[0:0:0:0:0:0:0:1]:5`. */
  get storeHost(): string {
    return formatHost(this.#storeHostBytes);
  }

  get #storeHostBytes(): Buffer {
    const at = storeHostAt(this.sysFlag);
    return this.bytes.subarray(at, at + storeHostSize(this.sysFlag));
  }

  /** How often it was delivered before it was stored. */
  get reconsumeTimes(): number {
    return readInt32(this.bytes, reconsumeTimesAt(this.sysFlag));
  }

  /**
   * In the final message of a transaction: physical offset of its half message, in bytes. Else 0.
   *
   * @throws {RangeError} If it is beyond ±(2^53 - 1); see
   * {@linkcode exactPreparedTransactionOffset}.
   */
  get preparedTransactionOffset(): PhysicalOffset {
    return readInt64(this.bytes, this.#preparedAt, "PREPAREDTRANSACTIONOFFSET");
  }

  /** {@linkcode preparedTransactionOffset}, whatever it is. */
  get exactPreparedTransactionOffset(): bigint {
    return readBigInt64(this.bytes, this.#preparedAt);
  }

  /** The body as it was sent, compressed if `sysFlag` says so; empty if there is none. A view. */
  get body(): Buffer {
    const lengthAt = this.#bodyLengthAt;
    const bodyAt = lengthAt + 4;
    return this.bytes.subarray(bodyAt, bodyAt + readInt32(this.bytes, lengthAt));
  }

  // Places in the record.

  get #preparedAt(): number {
    return preparedTransactionOffsetAt(this.sysFlag);
  }

  get #bodyLengthAt(): number {
    return bodyLengthAt(this.sysFlag);
  }

  get #bodyEnd(): number {
    const lengthAt = this.#bodyLengthAt;
    return lengthAt + 4 + readInt32(this.bytes, lengthAt);
  }

  get #propertiesAt(): number {
    const at = this.#bodyEnd;
    const topicLength = this.version === 1 ? this.bytes[at]! : readInt16(this.bytes, at);
    return at + this.version + topicLength + PROPERTIES_LENGTH_SIZE;
  }

  /** The properties as they are stored. */
  get propertiesText(): string {
    this.#propertiesText ??= decodeUtf8(this.bytes, this.#propertiesAt);
    return this.#propertiesText;
  }

  /** The properties by name; `undefined` if the record has none at all. */
  get properties(): ReadonlyMap<string, string> | undefined {
    if (this.#propertiesAt === this.bytes.length) return undefined;
    this.#properties ??= parseProperties(this.propertiesText);
    return this.#properties;
  }

  /** One property. */
  property(name: string): string | undefined {
    return this.#properties?.get(name) ?? findProperty(this.propertiesText, name);
  }

  /** The tag. */
  get tags(): string | undefined {
    return this.property(PROPERTY_TAGS);
  }

  /** The keys, one by one. */
  get keys(): string[] {
    return (this.property(PROPERTY_KEYS) ?? "").split(KEY_SEPARATOR).filter((key) => key !== "");
  }

  /** The client's unique id. */
  get uniqKey(): string | undefined {
    return this.property(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
  }

  /** Whether its put waited for flush and replicas: property `WAIT`, true if absent. */
  get waitStoreMsgOK(): boolean {
    const wait = this.property(PROPERTY_WAIT_STORE_MSG_OK);
    return wait === undefined || wait.toLowerCase() === "true";
  }

  /** The store's id of the message: 32 or 56 upper-case hex digits. */
  get messageId(): string {
    return messageIdOf(this.#storeHostBytes, this.physicalOffset);
  }
}

/**
 * Decodes a record after checking its form. CRCs are not computed: that is `checkRecord`'s.
 *
 * @param bytes Where the record lies. The message keeps a view of it.
 * @param start Its first byte.
 * @param end One behind the last byte that may be read; the record may be shorter.
 * @throws {StoreError} `STORE_RECORD_DAMAGED` if there is no whole record at `start`.
 */
export function decodeRecord(bytes: Buffer, start = 0, end = bytes.length): StoredMessage {
  const check = checkRecord(bytes, start, end, undefined, { checkCrc: false });
  switch (check.kind) {
    case "record":
      return new StoredMessage(bytes.subarray(start, start + check.size));
    case "blank":
      throw damaged("it is the blank at the end of a file");
    case "short":
      throw damaged(`${end - start} of at least ${check.needed} bytes are there`);
    case "bad":
      throw damaged(check.reason);
  }
}

function damaged(reason: string): StoreError {
  return new StoreError("STORE_RECORD_DAMAGED", `Cannot decode record: ${reason}`);
}
