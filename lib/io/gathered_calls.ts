/**
 * Calls of files and directories. They go to the addon's threads, so the application keeps none of them
 * waiting; and those that only look, if they are made in one stretch of JavaScript, or in one turn while
 * others are under way, go together: for a store of 10,000 queues the way to a thread and back takes
 * longer than to open a file, to look at it and to close it again.
 *
 * @module
 */

import { setImmediate } from "node:timers";
import { isMainThread } from "node:worker_threads";
import type { FileStat } from "./file_system.ts";
import type { NativeBinding } from "./native_binding.ts";
import * as calls from "./node_calls.ts";
import { errorName, systemError } from "./system_error.ts";

/** So many make a hop of their own: below, it costs more than it gains to have two threads at them. */
const CALLS_PER_HOP_MIN = 16;
/** The addon has so many threads for calls that are no writes. */
const HOPS_MAX = 2;

/** By the letters of {@linkcode NativeBinding.callEach}, as Node names them in errors. */
const SYSCALLS = {
  o: "open",
  s: "stat",
  f: "fstat",
  r: "scandir",
  h: "lseek",
  t: "ftruncate",
  m: "rename",
  u: "unlink",
  k: "mkdir",
  x: "rmdir",
  d: "fsync",
  c: "close",
} as const;
type Letter = keyof typeof SYSCALLS;
/** Those that go together. */
const LOOKS = "osfrhc";

interface Asked {
  readonly call: string;
  readonly answer: (answer: unknown) => void;
}

/** Without the addon each call goes its own way, to libuv's threads. Errors are those of Node. */
export class GatheredCalls {
  readonly #native: Pick<NativeBinding, "callEach">;
  readonly #ownsFiles: boolean;
  #asked: Asked[] = [];
  /** Under way. */
  #hops = 0;

  /**
   * @param ownsFiles What is opened stays open until it is closed. Where it is not, in a worker, Node closes
   *   what it has opened itself when the thread ends, a store's lock among it.
   */
  constructor(native: Pick<NativeBinding, "callEach">, ownsFiles = isMainThread) {
    this.#native = native;
    this.#ownsFiles = ownsFiles;
  }

  /** @param flags `O_RDWR` and its like, from `fs.constants`. @returns The descriptor. */
  open(path: string, flags: number): Promise<number> {
    if (!this.#ownsFiles) return calls.open(path, flags);
    return this.#make("o", flags, [path], () => calls.open(path, flags));
  }

  stat(path: string): Promise<FileStat> {
    return this.#make("s", 0, [path], () => calls.stat(path));
  }

  fstat(fd: number): Promise<FileStat> {
    return this.#make("f", fd, [], () => calls.fstat(fd));
  }

  /** Names in their order. @param more `"stats"`: with the files' stats, where the addon makes the call. */
  readdir(path: string, more?: "stats"): Promise<calls.ListedEntry[]> {
    const alone = async () =>
      (await calls.readdir(path)).sort((a, b) => (a.name < b.name ? -1 : 1));
    return this.#make("r", more ? 1 : 0, [path], alone);
  }

  /**
   * Where data may lie from a position on, or the size of the file.
   *
   * @param alone Tells it if the addon does not, or where the file system knows no holes.
   */
  nextData(fd: number, position: number, alone: () => Promise<number>): Promise<number> {
    if (!Number.isSafeInteger(position) || position < 0) return alone();
    return this.#make("h", fd, [`${position}`], alone);
  }

  async ftruncate(fd: number, size: number): Promise<void> {
    const alone = () => calls.ftruncate(fd, size);
    if (!Number.isSafeInteger(size) || size < 0) return alone();
    await this.#make("t", fd, [`${size}`], alone);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#make("m", 0, [from, to], () => calls.rename(from, to));
  }

  async unlink(path: string): Promise<void> {
    await this.#make("u", 0, [path], () => calls.unlink(path));
  }

  async mkdir(path: string): Promise<void> {
    await this.#make("k", 0, [path], () => calls.mkdir(path));
  }

  async rmdir(path: string): Promise<void> {
    await this.#make("x", 0, [path], () => calls.rmdir(path));
  }

  async syncDirectory(path: string): Promise<void> {
    await this.#make("d", 0, [path], () => calls.syncDirectory(path));
  }

  async close(fd: number): Promise<void> {
    if (!this.#ownsFiles) return calls.close(fd);
    await this.#make("c", fd, [], () => calls.close(fd));
  }

  /** @param alone Makes the call if the addon does not. */
  #make<T>(
    letter: Letter,
    number: number,
    texts: readonly string[],
    alone: () => Promise<T>,
  ): Promise<T> {
    // For the system a path ends there: Node refuses it.
    if (texts.some((text) => text.includes("\0"))) return alone();
    return new Promise<T>((resolve, reject) => {
      const asked: Asked = {
        call: `${letter}${number} ${texts.join("\0")}\0`,
        answer: (answer) => {
          if (answer === undefined || answer === null) resolve(alone());
          else if (typeof answer !== "number" || answer >= 0) resolve(answer as T);
          else reject(failure(letter, texts, answer));
        },
      };
      if (!LOOKS.includes(letter)) {
        // It may take its time, and nobody is to wait for it who only looks.
        void this.#hop([asked]);
        return;
      }
      this.#asked.push(asked);
      if (this.#asked.length > 1) return;
      // While others are under way at the end of the turn: with their answers it would go on and on.
      if (this.#hops > 0) setImmediate(this.#send);
      else process.nextTick(this.#send);
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
    let answers: readonly unknown[] = [];
    this.#hops++;
    try {
      answers = JSON.parse(await this.#native.callEach(asked.map(({ call }) => call).join("")));
    } catch {
      // No thread for it: each is made alone.
    }
    this.#hops--;
    for (const [i, { answer }] of asked.entries()) answer(answers[i]);
  }
}

/** Node's error. */
function failure(letter: Letter, texts: readonly string[], errno: number): Error {
  const [path, dest] = letter === "t" || letter === "h" ? [] : texts;
  const error = systemError(errorName(errno), SYSCALLS[letter], path, undefined, dest);
  return Object.assign(error, { errno });
}
