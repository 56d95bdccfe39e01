/**
 * Calls by path that are made in one stretch of JavaScript, together: for a store of 10,000 queues the
 * way to a thread and back takes longer than to open a file, to look at it and to close it again.
 *
 * @module
 */

import type { DirectoryEntry, FileStat } from "./file_system.ts";
import type { NativeBinding } from "./native_binding.ts";

/** So many make a hop of their own: below, it costs more than it gains to have two threads at them. */
const CALLS_PER_HOP_MIN = 16;
/** One of the four threads that libuv's pool has by default stays free. */
const HOPS_MAX = 3;

/** A name in a directory, and what it is: a link is not followed. */
export interface ListedEntry {
  readonly name: string;
  readonly kind: DirectoryEntry["kind"] | "link";
}

interface Asked {
  readonly call: string;
  readonly answer: (answer: unknown) => void;
}

/** Each answers `undefined` for a call that failed, or that can't be made here: alone it tells why. */
export class GatheredCalls {
  readonly #native: Pick<NativeBinding, "callEach">;
  #asked: Asked[] = [];

  constructor(native: Pick<NativeBinding, "callEach">) {
    this.#native = native;
  }

  /** @param flags `O_RDWR` and its like, from `fs.constants`. @returns The descriptor. */
  open(path: string, flags: number): Promise<number | undefined> {
    return this.#make("o", flags, path);
  }

  stat(path: string): Promise<FileStat | undefined> {
    return this.#make("s", 0, path);
  }

  readdir(path: string): Promise<readonly ListedEntry[] | undefined> {
    return this.#make("r", 0, path);
  }

  /** @returns 0, or `errno` as a negative number: it is not to be made again. */
  close(fd: number): Promise<number | undefined> {
    return this.#make("c", fd, "");
  }

  #make<T>(letter: string, number: number, path: string): Promise<T | undefined> {
    // For the system a path ends there.
    if (path.includes("\0")) return Promise.resolve(undefined);
    return new Promise((answer) => {
      const call = `${letter}${number} ${path}\0`;
      this.#asked.push({ call, answer: answer as Asked["answer"] });
      if (this.#asked.length === 1) process.nextTick(this.#send);
    });
  }

  readonly #send = (): void => {
    const asked = this.#asked;
    this.#asked = [];
    const hops = Math.min(HOPS_MAX, Math.ceil(asked.length / CALLS_PER_HOP_MIN));
    const perHop = Math.ceil(asked.length / hops);
    for (let from = 0; from < asked.length; from += perHop) {
      void this.#hop(asked.slice(from, from + perHop));
    }
  };

  async #hop(asked: readonly Asked[]): Promise<void> {
    let calls = "";
    for (const { call } of asked) calls += call;
    const answers: readonly unknown[] = JSON.parse(await this.#native.callEach(calls));
    for (const [i, { answer }] of asked.entries()) answer(answers[i] ?? undefined);
  }
}
