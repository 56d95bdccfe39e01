/**
 * Reads records of a queue together: neighbours with one read, others of the same file with one call.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import type { RecordPlace } from "../consume_queue/queue_unit.ts";
import type { PhysicalOffset } from "../units.ts";

/** Bytes read at once; as many as one `get` returns by default. */
const WINDOW_BYTES = 256 * 1024;
/** Records read at once: twice as many as one `get` returns by default. */
const WINDOW_RECORDS = 64;
/** Bytes between two records that it is cheaper to read along. */
const GAP_BYTES_MAX = 4096;

/** Records that are read together. */
interface Plan {
  readonly places: RecordPlace[];
  /** Where each lies in the bytes that are read. */
  readonly ats: number[];
  /** Positions in their file, and lengths. */
  readonly ranges: number[];
  readonly bytes: number;
  /** Most of the bytes are those of records: these may be views. */
  readonly shared: boolean;
}

export class RecordWindow {
  /** What was loaded last comes from memory: its bytes are what was appended. */
  isRecent = false;
  readonly #log: CommitLog;
  readonly #limit: PhysicalOffset;
  #plan: Plan | undefined;
  #bytes: Buffer = Buffer.alloc(0);
  #next = 0;

  /** @param limit Nothing at or behind it is readable. */
  constructor(log: CommitLog, limit: PhysicalOffset) {
    this.#log = log;
    this.#limit = limit;
  }

  /**
   * A record that was loaded; records are asked for in the order in which they were named.
   *
   * @returns Its bytes, which nobody changes afterwards. They may share memory with other records: at
   *   most twice as much as these need. `undefined` if it was not loaded.
   */
  take(offset: PhysicalOffset, size: number): Buffer | undefined {
    const plan = this.#plan;
    while (plan && this.#next < plan.places.length) {
      const index = this.#next++;
      const place = plan.places[index] as RecordPlace;
      if (place.offset !== offset || place.size !== size) continue;
      const at = plan.ats[index] as number;
      const bytes = this.#bytes.subarray(at, at + size);
      return plan.shared ? bytes : Buffer.from(bytes);
    }
    return undefined;
  }

  /**
   * Reads a record, to be taken next.
   *
   * @param following Places that will be asked for after it, in order: as many as fit are read along.
   * @returns Whether the record is in the log.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  async load(place: RecordPlace, following: Iterable<RecordPlace>): Promise<boolean> {
    this.#plan = undefined;
    const { segments } = this.#log;
    if (!this.#isReadable(place, place.offset) || !segments.find(place.offset)) return false;
    const plan = this.#planOf(place, following);
    if (plan.places.length === 1) return this.#read(plan);
    // A place behind the record that can't be read must not take the record with it.
    const all = await this.#read(plan).catch(() => false);
    return all || this.#read(this.#planOf(place, []));
  }

  async #read(plan: Plan): Promise<boolean> {
    const start = this.#log.segments.startOf((plan.places[0] as RecordPlace).offset);
    const read = await this.#log.readEach(start, Float64Array.from(plan.ranges), plan.bytes);
    if (!read) return false;
    this.#plan = plan;
    this.#bytes = read.bytes;
    this.isRecent = read.recent;
    this.#next = 0;
    return true;
  }

  #planOf(first: RecordPlace, following: Iterable<RecordPlace>): Plan {
    const start = this.#log.segments.startOf(first.offset);
    const places = [first];
    const ats = [0];
    const ranges = [first.offset - start, first.size];
    let bytes = first.size;
    let records = first.size;
    let end = first.offset + first.size;
    for (const place of following) {
      const { offset, size } = place;
      const gap = offset - end;
      const isNear = gap >= 0 && gap <= GAP_BYTES_MAX;
      const more = isNear ? gap + size : size;
      if (places.length === WINDOW_RECORDS || bytes + more > WINDOW_BYTES) break;
      if (!this.#isReadable(place, first.offset)) break;
      if (isNear) (ranges[ranges.length - 1] as number) += more;
      else ranges.push(offset - start, size);
      places.push(place);
      bytes += more;
      ats.push(bytes - size);
      records += size;
      end = offset + size;
    }
    return { places, ats, ranges, bytes, shared: records * 2 >= bytes };
  }

  /** Whether a place lies in the file that holds `inFile`, and below the limit. */
  #isReadable({ offset, size }: RecordPlace, inFile: PhysicalOffset): boolean {
    const { segments } = this.#log;
    const start = segments.startOf(inFile);
    const end = Math.min(start + segments.fileSize, this.#limit);
    return offset >= 0 && size > 0 && offset >= start && offset + size <= end;
  }
}
