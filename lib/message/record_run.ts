/**
 * Records that lie one behind the other in memory, of which the addon has said that they are whole: for
 * many at once, in a fifth of the time that {@linkcode checkRecord} takes for each.
 *
 * It knows the usual record only. Whatever it does not vouch for is {@linkcode checkRecord}'s to judge,
 * as all is without the addon; so it changes no verdict.
 *
 * @module
 */

import { loadNativeBinding, type NativeBinding, standIns } from "../io/native_binding.ts";
import type { PhysicalOffset } from "../units.ts";
import type { QueueRequest } from "./dispatch_request.ts";
import type { RecordCheckOptions } from "./record_check.ts";
import { readVersion, topicLengthAt } from "./record_layout.ts";
import { storedTopic } from "./topic.ts";

/** As in native/record_run.h. */
const AT = 0;
const SIZE = 1;
const SYS_FLAG = 2;
const QUEUE_ID = 3;
const QUEUE_OFFSET = 4;
const STORE_TIMESTAMP = 5;
const TAGS_CODE = 6;
const TOPIC = 7;
const COLUMNS = 8;

/** Records of one look. */
const ROWS_MAX = 1024;

export class RecordRun {
  readonly #native: Pick<NativeBinding, "checkRecords">;
  readonly #rows = new Float64Array(ROWS_MAX * COLUMNS);
  #bytes: Buffer | undefined;
  /** Where the current row begins, and where the last one ends. */
  #row = 0;
  #end = 0;
  /** By their numbers, as far as they were asked for. */
  #topics: string[] = [];
  readonly #request: { -readonly [Field in keyof QueueRequest]: QueueRequest[Field] } = {
    topic: "",
    queueId: 0,
    physicalOffset: 0,
    size: 0,
    tagsCode: 0,
    storeTimestamp: 0,
    queueOffset: 0,
    sysFlag: 0,
    multiDispatch: undefined,
    batchSize: 1,
  };

  constructor(native: Pick<NativeBinding, "checkRecords"> = loadNativeBinding() ?? standIns) {
    this.#native = native;
  }

  /**
   * Goes on to the record at `at`; it is fastest from each record to the next.
   *
   * @param bytes What lies there must not have changed since it was first given.
   * @param offset Where in the log `at` is.
   * @returns The record's size in bytes; 0 if {@linkcode checkRecord} is to say what lies there.
   */
  next(bytes: Buffer, at: number, offset: PhysicalOffset, options: RecordCheckOptions): number {
    this.#row += COLUMNS;
    if (this.#row >= this.#end || this.#rows[this.#row + AT] !== at || this.#bytes !== bytes) {
      this.#look(bytes, at, offset, options);
      if (this.#end === 0) return 0;
    }
    return this.#rows[this.#row + SIZE]!;
  }

  #look(
    bytes: Buffer,
    at: number,
    offset: PhysicalOffset,
    { checkCrc, forceVerifyPropCRC = false }: RecordCheckOptions,
  ): void {
    this.#bytes = bytes;
    this.#topics = [];
    this.#row = 0;
    // Whether there is a CRC it does not say.
    const count =
      checkCrc && forceVerifyPropCRC
        ? 0
        : this.#native.checkRecords(bytes, at, offset, checkCrc, this.#rows);
    this.#end = count * COLUMNS;
  }

  /**
   * What queues need to know of the record that {@linkcode next} just said is whole: what
   * `dispatchRequestOf` would read from its bytes.
   *
   * @returns Always the same object, which the next call changes; `undefined` if it is one of those
   *   records of which they need to know more.
   */
  request(offset: PhysicalOffset): QueueRequest | undefined {
    const rows = this.#rows;
    const row = this.#row;
    const number = rows[row + TOPIC]!;
    if (number < 0) return undefined;
    if (this.#topics[number] === undefined) this.#readTopic(number);
    const request = this.#request;
    request.topic = this.#topics[number]!;
    // Not as doubles.
    request.queueId = rows[row + QUEUE_ID]! | 0;
    request.physicalOffset = offset;
    request.size = rows[row + SIZE]! | 0;
    request.tagsCode = rows[row + TAGS_CODE]! | 0;
    request.storeTimestamp = rows[row + STORE_TIMESTAMP]!;
    request.queueOffset = rows[row + QUEUE_OFFSET]!;
    request.sysFlag = rows[row + SYS_FLAG]! | 0;
    return request;
  }

  /** A record with a new number has that topic. */
  #readTopic(number: number): void {
    const bytes = this.#bytes as Buffer;
    const at = this.#rows[this.#row + AT]!;
    const version = readVersion(bytes, at);
    const lengthAt = at + topicLengthAt(bytes, at);
    const start = lengthAt + version;
    const length = version === 1 ? bytes[lengthAt]! : bytes.readInt16BE(lengthAt);
    this.#topics[number] = storedTopic(bytes, start, start + length);
  }
}
