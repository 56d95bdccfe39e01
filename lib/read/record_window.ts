/**
 * Reads records of a queue together: neighbours with one read, others of the same file with one call.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import { type Soon, soon } from "../io/soon.ts";
import type { RecordPlaces } from "../message/record_places.ts";
import type { PhysicalOffset } from "../units.ts";

/** Bytes read at once; as many as one `get` returns by default. */
const WINDOW_BYTES = 256 * 1024;
/** Records read at once: twice as many as one `get` returns by default. */
export const WINDOW_RECORDS = 64;
/** Bytes between two records that it is cheaper to read along. */
const GAP_BYTES_MAX = 4096;

/** Records that are read together: the first ones of some places. */
interface Plan {
  readonly places: RecordPlaces;
  readonly count: number;
  /** Positions in their file, and lengths: part of {@linkcode RecordPlaces.ranges}. */
  readonly ranges: Float64Array;
  readonly bytes: number;
  /** Sum of the sizes. */
  readonly records: number;
}

/** How many of the first records are what they should be, beyond doubt. */
export type Voucher = (
  bytes: Buffer,
  places: RecordPlaces,
  count: number,
  isRecent: boolean,
) => number;

const NOTHING = Buffer.alloc(0);

export class RecordWindow {
  /** What was loaded last: nobody changes it afterwards. At least half of it are records. */
  bytes: Buffer = NOTHING;
  /** It comes from memory: it is what was appended. */
  isRecent = false;
  readonly #log: CommitLog;
  readonly #limit: PhysicalOffset;
  readonly #vouch: Voucher;
  #plan: Plan | undefined;
  #next = 0;
  #vouched = 0;

  /** @param limit Nothing at or behind it is readable. */
  constructor(log: CommitLog, limit: PhysicalOffset, vouch: Voucher) {
    this.#log = log;
    this.#limit = limit;
    this.#vouch = vouch;
  }

  /** Whether somebody has vouched for the record that was taken last. */
  get isVouched(): boolean {
    return this.#next <= this.#vouched;
  }

  /**
   * Finds a record that was loaded; records are asked for in the order in which they were named.
   *
   * @returns Where it begins in {@linkcode RecordWindow.bytes}, or -1 if it was not loaded.
   */
  take(offset: PhysicalOffset, size: number): number {
    const plan = this.#plan;
    while (plan && this.#next < plan.count) {
      const index = this.#next++;
      const { places } = plan;
      if (places.offset(index) === offset && places.size(index) === size) return places.at(index);
    }
    return -1;
  }

  /** Takes the next records for which somebody has vouched. @returns How many. */
  takeVouched(): number {
    if (!this.#plan) return 0;
    const count = Math.max(0, this.#vouched - this.#next);
    this.#next += count;
    return count;
  }

  /**
   * Reads a record, to be taken next.
   *
   * @param places Of the record, and of those that will be asked for after it, in order: as many as fit
   *   are read along.
   * @returns Whether the record is in the log.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  load(places: RecordPlaces): Soon<boolean> {
    this.#plan = undefined;
    const offset = places.offset(0);
    if (!this.#isReadable(offset, places.size(0), offset) || !this.#log.segments.find(offset))
      return false;
    const plan = this.#planOf(places, Math.min(places.count, WINDOW_RECORDS));
    if (plan.count === 1) return this.#read(plan);
    // A place behind the record that can't be read must not take the record with it.
    const alone = (): Soon<boolean> => this.#read(this.#planOf(places, 1));
    let read: Soon<boolean> = false;
    try {
      read = this.#read(plan);
    } catch {}
    if (read instanceof Promise) return read.then((isRead) => isRead || alone(), alone);
    return read || alone();
  }

  #read(plan: Plan): Soon<boolean> {
    const start = this.#log.segments.startOf(plan.places.offset(0));
    const read = this.#log.readEach(start, plan.ranges, plan.bytes);
    return soon(read, (bytes) => bytes !== undefined && this.#keep(plan, bytes));
  }

  #keep(plan: Plan, read: { readonly bytes: Buffer; readonly recent: boolean }): true {
    this.bytes = plan.records * 2 >= plan.bytes ? read.bytes : recordsOf(plan, read.bytes);
    this.isRecent = read.recent;
    this.#plan = plan;
    this.#next = 0;
    this.#vouched = this.#vouch(this.bytes, plan.places, plan.count, read.recent);
    return true;
  }

  #planOf(places: RecordPlaces, most: number): Plan {
    const first = places.offset(0);
    const start = this.#log.segments.startOf(first);
    const { ranges } = places;
    let count = 0;
    let end = Number.NaN;
    let length = 0;
    let bytes = 0;
    let records = 0;
    for (; count < most; count++) {
      const offset = places.offset(count);
      const size = places.size(count);
      const gap = offset - end;
      const isNear = gap >= 0 && gap <= GAP_BYTES_MAX;
      const more = isNear ? gap + size : size;
      if (count > 0 && (bytes + more > WINDOW_BYTES || !this.#isReadable(offset, size, first)))
        break;
      if (isNear) {
        ranges[length - 1]! += more;
      } else {
        ranges[length++] = offset - start;
        ranges[length++] = size;
      }
      bytes += more;
      places.setAt(count, bytes - size);
      records += size;
      end = offset + size;
    }
    return { places, count, ranges: ranges.subarray(0, length), bytes, records };
  }

  /** Whether a place lies in the file that holds `inFile`, and below the limit. */
  #isReadable(offset: PhysicalOffset, size: number, inFile: PhysicalOffset): boolean {
    const { segments } = this.#log;
    const start = segments.startOf(inFile);
    const end = Math.min(start + segments.fileSize, this.#limit);
    return offset >= 0 && size > 0 && offset >= start && offset + size <= end;
  }
}

/** Leaves out what lies between the records. */
function recordsOf({ places, count, records }: Plan, bytes: Buffer): Buffer {
  const dense = Buffer.allocUnsafeSlow(records);
  let end = 0;
  for (let i = 0; i < count; i++) {
    const at = places.at(i);
    places.setAt(i, end);
    end += bytes.copy(dense, end, at, at + places.size(i));
  }
  return dense;
}
