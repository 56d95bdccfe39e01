/**
 * What a caller hands to the store: one message, or a batch of them.
 *
 * @module
 */

/**
 * A message to put.
 *
 * Every field but `topic` and `body` is optional. The store reads the message while `put` is
 * called and keeps no reference to it after the record is written into the write buffer; it never
 * changes it.
 */
export interface Message {
  /**
   * 1 to 127 bytes of UTF-8; to 255 if it begins with `%RETRY%`. No `/`, no NUL, not `.` or `..`:
   * the topic is the name of a directory.
   */
  readonly topic: string;
  /**
   * The queue of the topic. An integer from 0 to 2^31 - 1.
   *
   * @default 0
   */
  readonly queueId?: number;
  /** 0 to `maxMessageSize` bytes. It may change once the put has been called: it is copied then. */
  readonly body: Uint8Array;
  /** One tag. Property `TAGS`; a consumer filters by it. */
  readonly tags?: string;
  /** Keys to find the message by. Property `KEYS`, in which they are separated by a space. */
  readonly keys?: string | readonly string[];
  /** The client's unique id. Property `UNIQ_KEY`; the message can be found by it. */
  readonly uniqKey?: string;
  /**
   * Further properties, as name and value. Neither may contain byte 1 or byte 2.
   *
   * A property whose name or value is empty is not stored: RocketMQ drops it on its way in. Names
   * that have a field above override it (`TAGS`, `KEYS`, `UNIQ_KEY`, `WAIT`). `__CRC32#` is
   * ignored: only the store knows it.
   */
  readonly properties?: Readonly<Record<string, string>>;
  /**
   * `false`: this put does not wait for flush and replicas, whatever the store's mode. Property
   * `WAIT`, written only if this field is there.
   *
   * @default true
   */
  readonly waitStoreMsgOK?: boolean;
  /**
   * The application's own 32 bits; the store does not look at them. -2^31 to 2^31 - 1.
   *
   * @default 0
   */
  readonly flag?: number;
  /**
   * Bits of `sys_flag.ts` (compression, transaction type). -2^31 to 2^31 - 1. The bits for IPv6
   * hosts are set by the store.
   *
   * @default 0
   */
  readonly sysFlag?: number;
  /**
   * When the producer made it: Unix time in milliseconds, an integer within ±(2^53 - 1).
   *
   * @default now
   */
  readonly bornTimestamp?: number;
  /**
   * Where the producer is: `1.2.3.4:5` or `[::1]:5`.
   *
   * @default the store's own address
   */
  readonly bornHost?: string;
  /**
   * Where the store is, as it goes into the message id: `1.2.3.4:5` or `[::1]:5`.
   *
   * @default the store's own address
   */
  readonly storeHost?: string;
  /**
   * How often it was delivered before. An integer from 0 to 2^31 - 1.
   *
   * @default 0
   */
  readonly reconsumeTimes?: number;
  /**
   * In the final message of a transaction: physical offset of its half message, in bytes.
   * An integer within ±(2^53 - 1).
   *
   * @default 0
   */
  readonly preparedTransactionOffset?: number;
  /**
   * The properties as they are to be stored (`name 01 value 02 …`), in place of all fields above
   * that become properties. For replicating and testing: separators are not looked for, nothing
   * is added, reordered or dropped except `__CRC32#`.
   */
  readonly propertiesString?: string;
}

/** One member of a {@linkcode MessageBatch}. It becomes a record of its own. */
export interface BatchItem {
  /** As {@linkcode Message.body}. The sum over the batch is limited by `maxMessageSize`. */
  readonly body: Uint8Array;
  /** As {@linkcode Message.tags}. */
  readonly tags?: string;
  /** As {@linkcode Message.keys}. */
  readonly keys?: string | readonly string[];
  /** As {@linkcode Message.uniqKey}. */
  readonly uniqKey?: string;
  /** As {@linkcode Message.properties}, but an empty value is stored: a batch is not re-read. */
  readonly properties?: Readonly<Record<string, string>>;
  /** As {@linkcode Message.propertiesString}. */
  readonly propertiesString?: string;
  /** As {@linkcode Message.flag}. */
  readonly flag?: number;
}

/**
 * Messages for one queue that are stored together: one after the other, in one file, or none.
 *
 * The fields here hold for each member, except `properties`: they are the request's own and are
 * not stored (RocketMQ 5.4.0 and later; up to 5.3.3 it added them to every member).
 *
 * A topic with the attribute `queue.type=BatchCQ` takes a batch whose `properties` have a `UNIQ_KEY` as an
 * **inner batch**: one record with these properties, and the members in its body.
 */
export interface MessageBatch {
  /** As {@linkcode Message.topic}, at most 127 bytes and not a `%RETRY%` topic. */
  readonly topic: string;
  /** As {@linkcode Message.queueId}. */
  readonly queueId?: number;
  /** At least one. */
  readonly messages: readonly BatchItem[];
  /** Properties of the request. Looked at, and stored with an inner batch only. */
  readonly properties?: Readonly<Record<string, string>>;
  /**
   * As {@linkcode Message.waitStoreMsgOK}, for the whole batch. Not written: a client that wants
   * `WAIT` in the records sets it in each member's properties.
   */
  readonly waitStoreMsgOK?: boolean;
  /** As {@linkcode Message.sysFlag}. No transaction bits. */
  readonly sysFlag?: number;
  /** As {@linkcode Message.bornTimestamp}. */
  readonly bornTimestamp?: number;
  /** As {@linkcode Message.bornHost}. */
  readonly bornHost?: string;
  /** As {@linkcode Message.storeHost}. */
  readonly storeHost?: string;
  /** As {@linkcode Message.reconsumeTimes}. */
  readonly reconsumeTimes?: number;
}
