/**
 * classic-level at its best at appending: keys in order, no compression, a large write buffer, and
 * one batch at a time, with `sync` where it is to be durable; what is put meanwhile is the next
 * one.
 *
 * @module
 */

import { join } from "node:path";
import type { PutSubject } from "../subject.ts";
import { Groups } from "./group.ts";
import { load } from "./packages.ts";

interface Level {
  open(): Promise<void>;
  batch(
    operations: readonly { type: "put"; key: string; value: Buffer }[],
    options: { sync: boolean },
  ): Promise<void>;
  get(key: string): Promise<Buffer | undefined>;
  keys(options: { reverse: boolean; limit: number }): { all(): Promise<string[]> };
  close(): Promise<void>;
}

type ClassicLevel = new (path: string, options: Readonly<Record<string, unknown>>) => Level;

const OPTIONS = {
  keyEncoding: "utf8",
  valueEncoding: "buffer",
  compression: false,
  writeBufferSize: 64 * 1024 * 1024,
} as const;

export class LevelPeer implements PutSubject<number> {
  readonly #path: string;
  readonly #db: Level;
  readonly #groups: Groups;

  private constructor(path: string, db: Level, sync: boolean) {
    this.#path = path;
    this.#db = db;
    this.#groups = new Groups((entries) =>
      db.batch(
        entries.map(({ key, body }) => ({ type: "put", key: keyOf(key), value: body })),
        { sync },
      ),
    );
  }

  static async open(directory: string, durable: boolean): Promise<LevelPeer> {
    const path = join(directory, "level");
    return new LevelPeer(path, await openLevel(path), durable);
  }

  put(_queueId: number, body: Buffer): Promise<number> {
    return this.#groups.put(body);
  }

  offsetOf(key: number): number {
    return key;
  }

  close(): Promise<void> {
    return this.#db.close();
  }

  async check(messages: number, last: { readonly offset: number; readonly body: Buffer }) {
    const db = await openLevel(this.#path);
    const [lastKey] = await db.keys({ reverse: true, limit: 1 }).all();
    const body = await db.get(keyOf(last.offset));
    await db.close();
    if (lastKey !== keyOf(messages - 1) || !body?.equals(last.body)) {
      throw new Error(`${messages} puts to LevelDB were kept, the last one there is ${lastKey}`);
    }
  }
}

async function openLevel(path: string): Promise<Level> {
  const { ClassicLevel } = load<{ ClassicLevel: ClassicLevel }>("classic-level");
  const db = new ClassicLevel(path, OPTIONS);
  await db.open();
  return db;
}

/** In the order of the numbers. */
function keyOf(key: number): string {
  return String(key).padStart(12, "0");
}
