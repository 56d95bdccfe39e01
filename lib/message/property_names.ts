/**
 * Names of properties that the store itself writes or looks at, and the two separators.
 *
 * All names as in RocketMQ's `MessageConst` (there: `PROPERTY_…`). A message may carry any other
 * property; the store keeps it and does not look at it.
 *
 * @module
 */

/** Between a name and its value: byte 1 (`MessageDecoder.NAME_VALUE_SEPARATOR`). */
export const NAME_VALUE_SEPARATOR = "\x01";

/** After a property: byte 2 (`MessageDecoder.PROPERTY_SEPARATOR`). */
export const PROPERTY_SEPARATOR = "\x02";

/** Between the keys inside `KEYS`: one space (`MessageConst.KEY_SEPARATOR`). */
export const KEY_SEPARATOR = " ";

/** Business keys, separated by a space; each is indexed. */
export const PROPERTY_KEYS = "KEYS";
/** The tag; its hash goes into the consume queue. */
export const PROPERTY_TAGS = "TAGS";
/** `true` or `false`: whether the put waits for flush and replicas. Absent means `true`. */
export const PROPERTY_WAIT_STORE_MSG_OK = "WAIT";
/** Delay level, decimal, from 1. */
export const PROPERTY_DELAY_TIME_LEVEL = "DELAY";
/** Topic that a message belongs to while it is parked in a system topic. */
export const PROPERTY_REAL_TOPIC = "REAL_TOPIC";
/** Queue id that goes with {@linkcode PROPERTY_REAL_TOPIC}. */
export const PROPERTY_REAL_QUEUE_ID = "REAL_QID";
/** The client's unique id; indexed. */
export const PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX = "UNIQ_KEY";
/** `true` on a transaction's half message. */
export const PROPERTY_TRANSACTION_PREPARED = "TRAN_MSG";
/** Number of messages in an inner batch. */
export const PROPERTY_INNER_NUM = "INNER_NUM";
/** First queue offset of an inner batch. */
export const PROPERTY_INNER_BASE = "INNER_BASE";
/** Comma list of further (light) queues that get a unit. */
export const PROPERTY_INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH";
/** Comma list of the offsets in these queues. */
export const PROPERTY_INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET";
/** Timer request: seconds from now. */
export const PROPERTY_TIMER_DELAY_SEC = "TIMER_DELAY_SEC";
/** Timer request: milliseconds from now. */
export const PROPERTY_TIMER_DELAY_MS = "TIMER_DELAY_MS";
/** Timer request: Unix time in milliseconds. */
export const PROPERTY_TIMER_DELIVER_MS = "TIMER_DELIVER_MS";
/** Set by a broker on a timer message that it has parked: the due time in milliseconds. */
export const PROPERTY_TIMER_OUT_MS = "TIMER_OUT_MS";
/** CRC of the whole record; see `record.ts`. */
export const PROPERTY_CRC32 = "__CRC32#";

/** Topic of messages parked for a delay level (`TopicValidator.RMQ_SYS_SCHEDULE_TOPIC`). */
export const SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX";

/** Topic of messages parked in the timer (`TimerMessageStore.TIMER_TOPIC`). */
export const TIMER_TOPIC = "rmq_sys_wheel_timer";

/** Topics that begin so hold messages to be consumed again (`MixAll.RETRY_GROUP_TOPIC_PREFIX`). */
export const RETRY_TOPIC_PREFIX = "%RETRY%";

/** Topics that begin so hold messages given up (`MixAll.DLQ_GROUP_TOPIC_PREFIX`). */
export const DLQ_TOPIC_PREFIX = "%DLQ%";

/** Topics that begin so are the system's own (`TopicValidator.SYSTEM_TOPIC_PREFIX`). */
export const SYSTEM_TOPIC_PREFIX = "rmq_sys_";
