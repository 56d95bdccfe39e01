/**
 * Ids as RocketMQ's clients make them for property `UNIQ_KEY` (`MessageClientIDSetter`).
 *
 * | part | bytes | |
 * |---|---|---|
 * | address | 4 or 16 | of the client's host |
 * | process id | 2 | its low 16 bits |
 * | loader hash | 4 | any number that stays the same in the process |
 * | time | 4 | ms since the month began, local time |
 * | counter | 2 | low 16 bits of the number of ids made |
 *
 * As 32 or 56 upper-case hex digits. Readers take it as opaque text.
 *
 * @module
 */

import { writeInt32 } from "./int64.ts";

/** What tells this process from others. */
export interface UniqueClientIdSource {
  /** IP address: 4 or 16 bytes. */
  readonly address: Uint8Array;
  /** Process id; 16 bits are used. */
  readonly pid: number;
  /** Any 32-bit number, the same for all ids of the process. */
  readonly loaderHash: number;
}

/** A clock set back by less than this counts as no step, in milliseconds. */
const STEP_BACK_IGNORED_MS = 1_000_000;

/** Makes ids; each differs from the 65535 before it. */
export class UniqueClientIds {
  readonly #prefix: string;
  readonly #tail = new Uint8Array(4 + 2);
  #counter = 0;
  #monthStart = 0;
  #nextMonthStart = 0;

  constructor(source: UniqueClientIdSource) {
    const { address, pid, loaderHash } = source;
    if (address.length !== 4 && address.length !== 16) {
      throw new RangeError(
        `Cannot make unique ids: the address has ${address.length} bytes, expected 4 or 16`,
      );
    }
    const bytes = new Uint8Array(address.length + 2 + 4);
    bytes.set(address);
    bytes[address.length] = pid >>> 8;
    bytes[address.length + 1] = pid;
    writeInt32(bytes, address.length + 2, loaderHash);
    this.#prefix = hex(bytes);
  }

  /**
   * The next id.
   *
   * @param now Unix time in milliseconds.
   */
  next(now: number): string {
    if (now >= this.#nextMonthStart) this.#beginMonth(now);
    let elapsed = now - this.#monthStart;
    if (elapsed < 0 && elapsed > -STEP_BACK_IGNORED_MS) elapsed = 0;
    writeInt32(this.#tail, 0, elapsed);
    this.#tail[4] = this.#counter >>> 8;
    this.#tail[5] = this.#counter;
    this.#counter = (this.#counter + 1) & 0xffff;
    return this.#prefix + hex(this.#tail);
  }

  #beginMonth(now: number): void {
    const date = new Date(now);
    this.#monthStart = new Date(date.getFullYear(), date.getMonth(), 1).getTime();
    this.#nextMonthStart = new Date(date.getFullYear(), date.getMonth() + 1, 1).getTime();
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex").toUpperCase();
}
