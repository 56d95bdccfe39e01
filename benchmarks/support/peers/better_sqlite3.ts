/**
 * better-sqlite3 at its best at appending: a write-ahead log, `synchronous=FULL` where it is to be
 * durable, and one transaction for all puts of a turn of the event loop. It commits on the main
 * thread.
 *
 * @module
 */

import { join } from "node:path";
import type { PutSubject } from "../subject.ts";
import { Groups } from "./group.ts";
import { load } from "./packages.ts";

interface Statement {
  run(...values: unknown[]): unknown;
  get(...values: unknown[]): Readonly<Record<string, unknown>> | undefined;
}

interface Database {
  pragma(text: string): unknown;
  exec(text: string): unknown;
  prepare(text: string): Statement;
  transaction<T>(action: (argument: T) => void): (argument: T) => void;
  close(): void;
}

/** Pages that wait in the log for their place in the database: 64 MiB, so that few commits do both. */
const CHECKPOINT_PAGES = 16_384;

export class SqlitePeer implements PutSubject<number> {
  readonly #open: () => Database;
  readonly #db: Database;
  readonly #groups: Groups;

  private constructor(open: () => Database, durable: boolean) {
    this.#open = open;
    this.#db = open();
    this.#db.pragma("journal_mode = WAL");
    this.#db.pragma(`synchronous = ${durable ? "FULL" : "OFF"}`);
    this.#db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    this.#db.exec("CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL)");
    const insert = this.#db.prepare("INSERT INTO log (id, body) VALUES (?, ?)");
    const write = this.#db.transaction(
      (entries: readonly { readonly key: number; readonly body: Buffer }[]) => {
        for (const { key, body } of entries) insert.run(key, body);
      },
    );
    this.#groups = new Groups((entries) => {
      write(entries);
      return undefined;
    });
  }

  static open(directory: string, durable: boolean): SqlitePeer {
    const Database = load<new (path: string) => Database>("better-sqlite3");
    return new SqlitePeer(() => new Database(join(directory, "log.db")), durable);
  }

  put(_queueId: number, body: Buffer): Promise<number> {
    return this.#groups.put(body);
  }

  offsetOf(key: number): number {
    return key;
  }

  async close(): Promise<void> {
    this.#db.close();
  }

  async check(messages: number, last: { readonly offset: number; readonly body: Buffer }) {
    const db = this.#open();
    const { found } = db.prepare("SELECT count(*) AS found FROM log").get() ?? {};
    const row = db.prepare("SELECT body FROM log WHERE id = ?").get(last.offset);
    db.close();
    if (found !== messages || !last.body.equals(row?.body as Buffer)) {
      throw new Error(`${messages} puts to SQLite were kept, ${found} are there`);
    }
  }
}
