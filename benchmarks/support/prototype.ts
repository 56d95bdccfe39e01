/**
 * Group commit and nothing else: what a log in JavaScript can reach on this machine.
 *
 * A put encodes its record, with a CRC, into one of two buffers. While one of them is written and
 * synced, in one hop to a thread, the next puts gather in the other. The file had zeros written
 * before. Those who waited are told in one sweep. No topics, queues, rules, roll, limits,
 * deadlines, failures or recovery: that is what a store costs above this.
 *
 * @module
 */

import { join } from "node:path";
import { crc32 } from "node:zlib";
import { type FileHandle, NodeFileSystem } from "../../lib/mod.ts";
import type { PutCounters, PutSubject } from "./subject.ts";

/** The records go round in it. */
const FILE_BYTES = 64 * 1024 * 1024;
const BUFFER_BYTES = 4 * 1024 * 1024;
/** Size, CRC, number of the record. */
const HEAD_BYTES = 16;

interface Batch {
  readonly buffer: Buffer;
  bytes: number;
  waiting: ((count: number) => void)[];
}

export class Prototype implements PutSubject<number> {
  readonly #file: FileHandle;
  #gathering: Batch = { buffer: Buffer.alloc(BUFFER_BYTES), bytes: 0, waiting: [] };
  #spare: Batch = { buffer: Buffer.alloc(BUFFER_BYTES), bytes: 0, waiting: [] };
  #forcing: Promise<void> | undefined;
  #position = 0;
  #puts = 0;
  #forces = 0;
  #bytes = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async open(directory: string): Promise<Prototype> {
    const file = await new NodeFileSystem().open(join(directory, "prototype"), "create");
    const zeros = Buffer.alloc(BUFFER_BYTES);
    for (let at = 0; at < FILE_BYTES; at += zeros.length) await file.pwritev([zeros], at);
    await file.fdatasync();
    return new Prototype(file);
  }

  put(_queueId: number, body: Buffer): Promise<number> {
    const batch = this.#gathering;
    const { buffer, bytes, waiting } = batch;
    const size = HEAD_BYTES + body.length;
    if (bytes + size > BUFFER_BYTES) return Promise.reject(new RangeError("The buffer is full"));
    body.copy(buffer, bytes + HEAD_BYTES);
    buffer.writeInt32BE(size, bytes);
    buffer.writeUInt32BE(crc32(body), bytes + 4);
    buffer.writeDoubleBE(this.#puts++, bytes + 8);
    batch.bytes += size;
    this.#forcing ??= Promise.resolve().then(() => this.#force());
    return new Promise((resolve) => waiting.push(resolve));
  }

  async #force(): Promise<void> {
    while (this.#gathering.bytes > 0) {
      const batch = this.#gathering;
      const { buffer, bytes, waiting } = batch;
      this.#gathering = this.#spare;
      if (this.#position + bytes > FILE_BYTES) this.#position = 0;
      const took = await this.#file.commitAndForce([buffer.subarray(0, bytes)], this.#position);
      if (took !== bytes) throw new Error(`The write took ${took} of ${bytes} bytes`);
      this.#position += bytes;
      this.#bytes += bytes;
      this.#forces++;
      batch.bytes = 0;
      batch.waiting = [];
      this.#spare = batch;
      for (const resolve of waiting) resolve(this.#bytes);
      // Those who were told put again before the next one begins.
      await new Promise<void>((next) => process.nextTick(next));
    }
    this.#forcing = undefined;
  }

  offsetOf(end: number): number {
    return end;
  }

  counters(): PutCounters {
    return { forces: this.#forces, commits: this.#forces, bytes: this.#bytes };
  }

  async close(): Promise<void> {
    await this.#forcing;
    await this.#file.close();
  }

  /** Looks at the last record. */
  async check(messages: number, last: { readonly body: Buffer }): Promise<void> {
    const file = await new NodeFileSystem().open(this.#file.path, "read");
    const record = Buffer.alloc(HEAD_BYTES + last.body.length);
    await file.pread(record, this.#position - record.length);
    await file.close();
    const crc = crc32(record.subarray(HEAD_BYTES));
    if (record.readUInt32BE(4) !== crc || record.readDoubleBE(8) !== messages - 1) {
      throw new Error(`${messages} puts were kept, and the last of them is not there`);
    }
  }
}
