/**
 * Jobs of somebody else in the same process that keep libuv's threads busy, as hashing passwords
 * does.
 *
 * @module
 */

import { pbkdf2 } from "node:crypto";

/** One job takes some ten milliseconds. */
const ITERATIONS = 20_000;
const KEY_BYTES = 64;

export interface PoolJobs {
  /** Jobs that have ended so far. */
  readonly ended: number;
  stop(): Promise<void>;
}

/** Keeps `count` jobs under way or waiting for a thread, until it is stopped. */
export function keepPoolBusy(count: number): PoolJobs {
  let stopped = false;
  let ended = 0;
  const one = async (): Promise<void> => {
    while (!stopped) {
      await new Promise<void>((resolve, reject) => {
        pbkdf2("password", "salt", ITERATIONS, KEY_BYTES, "sha512", (error) => {
          if (error) reject(error);
          else resolve();
        });
      });
      ended++;
    }
  };
  const all = Promise.all(Array.from({ length: count }, one));
  return {
    get ended() {
      return ended;
    },
    async stop() {
      stopped = true;
      await all;
    },
  };
}
