/**
 * Reads records of a queue together: neighbours with one read, others of the same file with one call.
 *
 * @module
 */

import type { CommitLog } from "../commit_log/commit_log.ts";
import { type Soon, soon } from "../io/soon.ts";
import type { PhysicalOffset } from "../units.ts";

/** Bytes read at once; as many as one `get` returns by default. */
const WINDOW_BYTES = 256 * 1024;
/** Records read at once: twice as many as one `get` returns by default. */
export const WINDOW_RECORDS = 64;
/** Bytes between two records that it is cheaper to read along. */
const GAP_BYTES_MAX = 4096;

/** Records that are read together. */
interface Plan {
  /** Of each where it lies in the log, its size, and where it lies in the bytes that are read. */
  readonly offsets: number[];
  readonly sizes: number[];
  readonly ats: number[];
  /** Positions in their file, and lengths. */
  readonly ranges: number[];
  readonly bytes: number;
  /** Sum of the sizes. */
  readonly records: number;
}

export class RecordWindow {
  /** What was loaded last: nobody changes it afterwards. At least half of it are records. */
  bytes: Buffer = Buffer.alloc(0);
  /** It comes from memory: it is what was appended. */
  isRecent = false;
  readonly #log: CommitLog;
  readonly #limit: PhysicalOffset;
  #plan: Plan | undefined;
  #next = 0;

  /** @param limit Nothing at or behind it is readable. */
  constructor(log: CommitLog, limit: PhysicalOffset) {
    this.#log = log;
    this.#limit = limit;
  }

  /**
   * Finds a record that was loaded; records are asked for in the order in which they were named.
   *
   * @returns Where it begins in {@linkcode RecordWindow.bytes}, or -1 if it was not loaded.
   */
  take(offset: PhysicalOffset, size: number): number {
    const plan = this.#plan;
    while (plan && this.#next < plan.offsets.length) {
      const index = this.#next++;
      if (plan.offsets[index] === offset && plan.sizes[index] === size) {
        return plan.ats[index] as number;
      }
    }
    return -1;
  }

  /**
   * Reads a record, to be taken next.
   *
   * @param places Offset and size of the record, and of those that will be asked for after it, in
   *   order: as many as fit are read along.
   * @returns Whether the record is in the log.
   * @throws {StoreError} `STORE_IO` naming file and position.
   */
  async load(places: readonly number[]): Promise<boolean> {
    this.#plan = undefined;
    const [offset, size] = places as [number, number];
    if (!this.#isReadable(offset, size, offset) || !this.#log.segments.find(offset)) return false;
    const plan = this.#planOf(places);
    if (plan.offsets.length === 1) return this.#read(plan);
    // A place behind the record that can't be read must not take the record with it.
    try {
      const read = this.#read(plan);
      if (read instanceof Promise ? await read : read) return true;
    } catch {}
    return this.#read(this.#planOf([offset, size]));
  }

  #read(plan: Plan): Soon<boolean> {
    const start = this.#log.segments.startOf(plan.offsets[0] as number);
    const read = this.#log.readEach(start, new Float64Array(plan.ranges), plan.bytes);
    return soon(read, (bytes) => bytes !== undefined && this.#keep(plan, bytes));
  }

  #keep(plan: Plan, read: { readonly bytes: Buffer; readonly recent: boolean }): true {
    this.bytes = plan.records * 2 >= plan.bytes ? read.bytes : recordsOf(plan, read.bytes);
    this.isRecent = read.recent;
    this.#plan = plan;
    this.#next = 0;
    return true;
  }

  #planOf(places: readonly number[]): Plan {
    const [first, size] = places as [number, number];
    const start = this.#log.segments.startOf(first);
    const offsets = [first];
    const sizes = [size];
    const ats = [0];
    const ranges = [first - start, size];
    let bytes = size;
    let records = size;
    let end = first + size;
    for (let i = 2; i < places.length && offsets.length < WINDOW_RECORDS; i += 2) {
      const offset = places[i] as number;
      const size = places[i + 1] as number;
      const gap = offset - end;
      const isNear = gap >= 0 && gap <= GAP_BYTES_MAX;
      const more = isNear ? gap + size : size;
      if (bytes + more > WINDOW_BYTES || !this.#isReadable(offset, size, first)) break;
      if (isNear) (ranges[ranges.length - 1] as number) += more;
      else ranges.push(offset - start, size);
      offsets.push(offset);
      sizes.push(size);
      bytes += more;
      ats.push(bytes - size);
      records += size;
      end = offset + size;
    }
    return { offsets, sizes, ats, ranges, bytes, records };
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
function recordsOf({ ats, sizes, records }: Plan, bytes: Buffer): Buffer {
  const dense = Buffer.allocUnsafeSlow(records);
  let end = 0;
  for (let i = 0; i < ats.length; i++) {
    const at = ats[i] as number;
    ats[i] = end;
    end += bytes.copy(dense, end, at, at + (sizes[i] as number));
  }
  return dense;
}
