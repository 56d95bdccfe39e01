/**
 * What can be put to: our store, a bare prototype, other stores of Node.js.
 *
 * @module
 */

import type { Mode } from "./modes.ts";

/** Stores of others that run in this process; each is a folder's worth of `benchmarks/peers`. */
export const PEERS = ["lmdb", "lmdb, overlapping", "better-sqlite3", "classic-level"] as const;
export type PeerName = (typeof PEERS)[number];

export type SubjectName = "forcelog" | "prototype" | PeerName;

/** How much a subject has written and synced so far, where it tells. */
export interface PutCounters {
  readonly forces: number;
  readonly commits: number;
  /** End of what was appended, in bytes. */
  readonly bytes: number;
}

/** Bodies go in; a promise says when they are kept as the mode promises. */
export interface PutSubject<R = unknown> {
  /** The body stays as it is until the promise settles. */
  put(queueId: number, body: Buffer): Promise<R>;
  /** All of them together. Only our store has this. */
  putBatch?(queueId: number, bodies: readonly Buffer[]): Promise<R>;
  /** A number that is larger the later the body was put. */
  offsetOf(result: R): number;
  counters?(): PutCounters;
  close(): Promise<void>;
  /**
   * Opens what was closed again and looks at it.
   *
   * @param messages So many must be there.
   * @param last Offset of the last put, and the first body of it.
   * @throws {Error} if something is missing.
   */
  check(messages: number, last: { readonly offset: number; readonly body: Buffer }): Promise<void>;
}

/** Makes a subject in an empty folder. */
export async function openSubject(
  name: SubjectName,
  directory: string,
  mode: Mode,
): Promise<PutSubject> {
  const durable = mode === "SYNC_FLUSH";
  switch (name) {
    case "forcelog":
      return (await import("./forcelog_subject.ts")).ForcelogSubject.open(directory, mode);
    case "prototype":
      return (await import("./prototype.ts")).Prototype.open(directory);
    case "lmdb":
    case "lmdb, overlapping":
      return (await import("./peers/lmdb.ts")).LmdbPeer.open(directory, {
        durable,
        overlapping: name === "lmdb, overlapping",
      });
    case "better-sqlite3":
      return (await import("./peers/better_sqlite3.ts")).SqlitePeer.open(directory, durable);
    case "classic-level":
      return (await import("./peers/classic_level.ts")).LevelPeer.open(directory, durable);
  }
}
