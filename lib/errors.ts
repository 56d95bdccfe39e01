/**
 * Every error that the world can cause, with its stable code. A caller's own mistake is a
 * `TypeError` or a `RangeError` and stands nowhere here.
 *
 * @module
 */

/** Codes are part of the API; messages are not. The README has a table of what to do about each. */
export type StoreErrorCode =
  /** A system call failed; `cause` is Node's error. */
  | "STORE_IO"
  /** The store is closed, closing, or not open yet. */
  | "STORE_CLOSED"
  /** A put was not stored, or its outcome is unknown: see {@linkcode PutError.status}. */
  | "STORE_PUT_FAILED"
  /** Another process, or another store of this process, has the directory open. */
  | "STORE_LOCKED"
  /** This system offers no lock that keeps a second writer out. */
  | "STORE_LOCK_UNAVAILABLE"
  /** A file of the open store was removed or replaced by somebody else. */
  | "STORE_FILES_VANISHED"
  /** A file of a wrong size or a wrong name lies in a folder of segments. */
  | "STORE_UNEXPECTED_FILE"
  /** The directory holds a kind of store that is not served. */
  | "STORE_KIND_UNSUPPORTED"
  /** The commit log is gone while its queues exist. */
  | "STORE_LOG_MISSING"
  /** The bytes at an offset are not the record that is due there. */
  | "STORE_RECORD_DAMAGED"
  /** A consume queue does not agree with the commit log. */
  | "STORE_QUEUE_DAMAGED"
  /** A file of `config/` and its backup are not what they should be. */
  | "STORE_CONFIG_DAMAGED";

/** Where a {@linkcode StoreError} happened; each field only if it is known. */
export interface StoreErrorFacts {
  /** The file or directory. */
  readonly path?: string;
  /** Bytes from the start of that file. */
  readonly position?: number;
  /** Physical offset in the commit log. */
  readonly offset?: number;
  readonly cause?: unknown;
}

/** The world's refusal: a device, another process, a damaged file. */
export class StoreError extends Error {
  override readonly name: string = "StoreError";
  readonly code: StoreErrorCode;
  readonly path: string | undefined;
  readonly position: number | undefined;
  readonly offset: number | undefined;

  constructor(code: StoreErrorCode, message: string, facts: StoreErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.path = facts.path;
    this.position = facts.position;
    this.offset = facts.offset;
  }
}

/** RocketMQ's `PutMessageStatus`: its 16 values, in order of declaration. */
export const PUT_MESSAGE_STATUSES = [
  "PUT_OK",
  "FLUSH_DISK_TIMEOUT",
  "FLUSH_SLAVE_TIMEOUT",
  "SLAVE_NOT_AVAILABLE",
  "SERVICE_NOT_AVAILABLE",
  "CREATE_MAPPED_FILE_FAILED",
  "MESSAGE_ILLEGAL",
  "PROPERTIES_SIZE_EXCEEDED",
  "OS_PAGE_CACHE_BUSY",
  "UNKNOWN_ERROR",
  "IN_SYNC_REPLICAS_NOT_ENOUGH",
  "PUT_TO_REMOTE_BROKER_FAIL",
  "LMQ_CONSUME_QUEUE_NUM_EXCEEDED",
  "WHEEL_TIMER_FLOW_CONTROL",
  "WHEEL_TIMER_MSG_ILLEGAL",
  "WHEEL_TIMER_NOT_ENABLE",
] as const;

export type PutMessageStatus = (typeof PUT_MESSAGE_STATUSES)[number];

/** A put that did not end in `PUT_OK`. */
export class PutError extends StoreError {
  override readonly name = "PutError";
  /** RocketMQ's status. */
  readonly status: Exclude<PutMessageStatus, "PUT_OK">;
  /**
   * `"not stored"`: the message is not in the log and will not appear. `"unknown"`: it has a place
   * in the log (`offset`) and may be delivered; putting it again may store it twice.
   */
  readonly outcome: "not stored" | "unknown";

  constructor(
    status: Exclude<PutMessageStatus, "PUT_OK">,
    outcome: "not stored" | "unknown",
    message: string,
    facts: StoreErrorFacts = {},
  ) {
    super("STORE_PUT_FAILED", message, facts);
    this.status = status;
    this.outcome = outcome;
  }
}

/**
 * What a call of the file system failed with, as an error of the store that names the path. A caller's
 * own mistake, an error of the store and our own bug stay what they are.
 *
 * @param what What could not be done.
 */
export function asStoreError(error: unknown, what: string): unknown {
  if (error instanceof StoreError || error instanceof TypeError || error instanceof RangeError) {
    return error;
  }
  const { code, path, message } = error as Error & { code?: string; path?: string };
  if (code === undefined) return error;
  const facts = path === undefined ? { cause: error } : { path, cause: error };
  return new StoreError("STORE_IO", `${what}: ${message}`, facts);
}
