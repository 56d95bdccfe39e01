/**
 * lmdb at its best at appending: numbers as keys, its own batching of asynchronous writes.
 *
 * Durable in one of two ways. Without `overlappingSync` a put resolves after the sync of its
 * transaction. With it (lmdb's default) the sync goes on beside the next transaction, and a put
 * that is to be durable waits for `flushed` as well.
 *
 * @module
 */

import { join } from "node:path";
import type { PutSubject } from "../subject.ts";
import { load } from "./packages.ts";

interface Database {
  put(key: number, value: Buffer): Promise<boolean>;
  get(key: number): Buffer | undefined;
  getStats(): { entryCount: number };
  readonly flushed: PromiseLike<unknown>;
  close(): Promise<void>;
}

type Open = (options: Readonly<Record<string, unknown>>) => Database;

export class LmdbPeer implements PutSubject<number> {
  readonly #open: () => Database;
  readonly #db: Database;
  readonly #waitsForFlushed: boolean;
  #next = 0;

  private constructor(open: () => Database, waitsForFlushed: boolean) {
    this.#open = open;
    this.#db = open();
    this.#waitsForFlushed = waitsForFlushed;
  }

  static open(
    directory: string,
    { durable, overlapping }: { readonly durable: boolean; readonly overlapping: boolean },
  ): LmdbPeer {
    const { open } = load<{ open: Open }>("lmdb");
    const options = {
      path: join(directory, "data.mdb"),
      keyEncoding: "uint32",
      encoding: "binary",
      compression: false,
      cache: false,
      ...(durable ? { overlappingSync: overlapping } : { noSync: true }),
    };
    return new LmdbPeer(() => open(options), durable && overlapping);
  }

  async put(_queueId: number, body: Buffer): Promise<number> {
    const key = this.#next++;
    await this.#db.put(key, body);
    if (this.#waitsForFlushed) await this.#db.flushed;
    return key;
  }

  offsetOf(key: number): number {
    return key;
  }

  close(): Promise<void> {
    return this.#db.close();
  }

  async check(messages: number, last: { readonly offset: number; readonly body: Buffer }) {
    const db = this.#open();
    const { entryCount } = db.getStats();
    const body = db.get(last.offset);
    await db.close();
    if (entryCount !== messages || !body?.equals(last.body)) {
      throw new Error(`${messages} puts to lmdb were kept, ${entryCount} are there`);
    }
  }
}
