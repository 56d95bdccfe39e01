/**
 * A file system between the store and the real one: it notes every call, and fails, holds or
 * shortens those that a test names.
 *
 *     const fs = new InterceptedFileSystem(new NodeFileSystem());
 *     fs.failNext("fdatasync", "EIO");
 *     const held = fs.hold("rename", { path: /commitlog/ });
 *     ...
 *     await held.waiting;   // the store stands in front of its rename
 *     held.release();
 *     t.strictSame(fs.names(), ["open", "ftruncate", "fdatasync", "rename"]);
 *
 * @module
 */

import type {
  Advice,
  DirectoryEntry,
  FileHandle,
  FileLock,
  FileStat,
  FileSystem,
  FileSystemSpace,
  OpenMode,
} from "../io/file_system.ts";
import { partOf, preadEachIfCached, totalBytes } from "../io/fully.ts";
import { systemError } from "../io/system_error.ts";
import { type Call, type CallName, type NewCall, syscallOf } from "./call.ts";

/**
 * Stands in every call's way. It may throw, wait, or call `proceed` and change the answer.
 * `pwritevNow` and `preadIfCached` want their number at once: no promise there.
 */
export type Hook = (call: Call, proceed: () => unknown) => unknown;

/** Which calls a rule is about: of these names, and on a path that matches. */
export interface Where {
  readonly path?: RegExp;
}

/** Calls that are being held back. */
export interface Hold {
  /** Resolves when the first call is being held. */
  readonly waiting: Promise<void>;
  /** How many calls are being held now. */
  readonly held: number;
  /** Lets them go on, and holds no more. */
  release(): void;
}

/**
 * Wraps any file system. With no rule set each call goes straight through.
 *
 * `commitAndForce` is noted under its name and then carried out as the two calls that it stands
 * for, `pwritev` and `fdatasync`, each noted and open to rules as well.
 */
export class InterceptedFileSystem implements FileSystem {
  readonly #base: FileSystem;
  readonly #interceptor: Interceptor;
  readonly #handles = new Set<InterceptedFileHandle>();

  constructor(base: FileSystem, hook?: Hook) {
    this.#base = base;
    this.#interceptor = new Interceptor(hook);
  }

  /** Every call so far, in order of their beginning. */
  get calls(): readonly Call[] {
    return this.#interceptor.calls;
  }

  /** Names of the calls so far, or of those alone that match. */
  names({ path }: Where = {}): CallName[] {
    return this.calls.filter((call) => path?.test(call.path) ?? true).map((call) => call.name);
  }

  /** How often a call of this name was made. */
  count(name: CallName, where: Where = {}): number {
    return this.names(where).filter((other) => other === name).length;
  }

  /**
   * Fails `times` calls before they reach the file, after letting `skip` of them pass.
   *
   * @param code Name of the error: `"EIO"`.
   * @param options.times `Infinity` is for ever. Default 1.
   * @param options.skip Default 0.
   */
  failNext(
    names: CallName | readonly CallName[],
    code: string,
    options: Where & { readonly times?: number; readonly skip?: number } = {},
  ): void {
    const { times = 1, skip = 0 } = options;
    this.#interceptor.failures.push({ matches: matcher(names, options), code, times, skip });
  }

  /** Holds back every such call from now on, until it is released. Not for synchronous calls. */
  hold(names: CallName | readonly CallName[], where: Where = {}): Hold {
    const hold = new HoldRule(matcher(names, where), () => this.#interceptor.holds.delete(hold));
    this.#interceptor.holds.add(hold);
    return hold;
  }

  /**
   * Lets the next writes or reads move at most so many bytes, one count for each call: `1`, `7`,
   * `"half"`. With 0 a call answers 0 and moves nothing.
   */
  shorten(
    names: CallName | readonly CallName[],
    counts: readonly (number | "half")[],
    where: Where = {},
  ): void {
    this.#interceptor.shortages.push({ matches: matcher(names, where), counts: [...counts] });
  }

  /** Forgets all rules, and lets go what was held. */
  clear(): void {
    this.#interceptor.failures.length = 0;
    this.#interceptor.shortages.length = 0;
    for (const hold of this.#interceptor.holds) hold.release();
  }

  open(path: string, mode: OpenMode): Promise<FileHandle> {
    return this.#pass({ name: "open", path, mode }, async () => {
      const base = await this.#base.open(path, mode);
      const forget = () => this.#handles.delete(handle);
      const handle = new InterceptedFileHandle(base, this.#interceptor, forget);
      this.#handles.add(handle);
      return handle;
    });
  }

  mkdir(path: string): Promise<void> {
    return this.#pass({ name: "mkdir", path }, () => this.#base.mkdir(path));
  }

  rmdir(path: string): Promise<void> {
    return this.#pass({ name: "rmdir", path }, () => this.#base.rmdir(path));
  }

  readdir(path: string, more?: "stats"): Promise<DirectoryEntry[]> {
    return this.#pass({ name: "readdir", path }, () => this.#base.readdir(path, more));
  }

  stat(path: string): Promise<FileStat> {
    return this.#pass({ name: "stat", path }, () => this.#base.stat(path));
  }

  statfs(path: string): Promise<FileSystemSpace> {
    return this.#pass({ name: "statfs", path }, () => this.#base.statfs(path));
  }

  rename(from: string, to: string): Promise<void> {
    return this.#pass({ name: "rename", path: from, to }, async () => {
      await this.#base.rename(from, to);
      for (const handle of this.#handles) handle.renamed(from, to);
    });
  }

  unlink(path: string): Promise<void> {
    return this.#pass({ name: "unlink", path }, () => this.#base.unlink(path));
  }

  syncDirectory(path: string): Promise<void> {
    return this.#pass({ name: "syncDirectory", path }, () => this.#base.syncDirectory(path));
  }

  lock(path: string): Promise<FileLock> {
    return this.#pass({ name: "lock", path }, async () => {
      const lock = await this.#base.lock(path);
      return {
        excludes: lock.excludes,
        write: (content) =>
          this.#pass({ name: "lock.write", path, length: content.length }, () =>
            lock.write(content),
          ),
        close: () => this.#pass({ name: "lock.close", path }, () => lock.close()),
      };
    });
  }

  #pass<T>(call: NewCall, proceed: () => Promise<T>): Promise<T> {
    return this.#interceptor.pass(call, proceed);
  }
}

/** The list of calls and the rules, shared by a file system and its handles. */
class Interceptor {
  readonly calls: Call[] = [];
  readonly failures: { matches: Matcher; code: string; times: number; skip: number }[] = [];
  readonly shortages: { matches: Matcher; counts: (number | "half")[] }[] = [];
  readonly holds = new Set<HoldRule>();
  readonly #hook: Hook | undefined;

  constructor(hook: Hook | undefined) {
    this.#hook = hook;
  }

  /** An asynchronous call: noted, held, failed, then handed to the hook or carried out. */
  async pass<T>(call: NewCall, proceed: () => Promise<T>): Promise<T> {
    const noted = this.#note(call);
    for (const hold of this.holds) if (hold.matches(noted)) await hold.wait();
    this.#failIfRuled(noted);
    return (this.#hook === undefined ? proceed() : this.#hook(noted, proceed)) as Promise<T>;
  }

  /** A synchronous call: noted, failed, then handed to the hook or carried out. */
  passNow(call: NewCall, proceed: () => number): number {
    const noted = this.#note(call);
    this.#failIfRuled(noted);
    return (this.#hook === undefined ? proceed() : this.#hook(noted, proceed)) as number;
  }

  /** How many bytes this call may move. Uses up one count of a rule that matches. */
  limit(call: NewCall, length: number): number {
    const rule = this.shortages.find(({ matches, counts }) => counts.length > 0 && matches(call));
    const count = rule?.counts.shift() ?? length;
    return Math.min(length, count === "half" ? Math.ceil(length / 2) : count);
  }

  #note(call: NewCall): Call {
    const noted = { number: this.calls.length + 1, ...call };
    this.calls.push(noted);
    return noted;
  }

  #failIfRuled(call: Call): void {
    for (const rule of this.failures) {
      if (rule.times === 0 || !rule.matches(call)) continue;
      if (rule.skip > 0) {
        rule.skip -= 1;
        continue;
      }
      rule.times -= 1;
      throw systemError(rule.code, syscallOf(call.name), call.path);
    }
  }
}

class HoldRule implements Hold {
  readonly matches: Matcher;
  readonly waiting: Promise<void>;
  held = 0;
  readonly #released: Promise<void>;
  readonly #forget: () => void;
  #arrive = () => {};
  #open = () => {};

  constructor(matches: Matcher, forget: () => void) {
    this.matches = matches;
    this.#forget = forget;
    this.waiting = new Promise((resolve) => {
      this.#arrive = resolve;
    });
    this.#released = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  async wait(): Promise<void> {
    this.held += 1;
    this.#arrive();
    await this.#released;
    this.held -= 1;
  }

  release(): void {
    this.#forget();
    this.#open();
  }
}

class InterceptedFileHandle implements FileHandle {
  readonly #base: FileHandle;
  readonly #interceptor: Interceptor;
  readonly #forget: () => void;
  #presentPath: string;

  constructor(base: FileHandle, interceptor: Interceptor, forget: () => void) {
    this.#base = base;
    this.#interceptor = interceptor;
    this.#forget = forget;
    this.#presentPath = base.path;
  }

  get path(): string {
    return this.#base.path;
  }

  /** Follows the rename of the file, or of a directory above it. */
  renamed(from: string, to: string): void {
    if (this.#presentPath === from) this.#presentPath = to;
    else if (this.#presentPath.startsWith(`${from}/`)) {
      this.#presentPath = to + this.#presentPath.slice(from.length);
    }
  }

  pwritev(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.#write("pwritev", buffers, position, (part) => this.#base.pwritev(part, position));
  }

  pwritevNow(buffers: readonly Uint8Array[], position: number): number {
    const length = totalBytes(buffers);
    const call = this.#call("pwritevNow", position, length);
    return this.#interceptor.passNow(call, () => {
      const count = this.#interceptor.limit(call, length);
      const part = count === length ? buffers : partOf(buffers, 0, count);
      return count === 0 ? 0 : this.#base.pwritevNow(part, position);
    });
  }

  pread(buffer: Uint8Array, position: number): Promise<number> {
    const call = this.#call("pread", position, buffer.length);
    return this.#interceptor.pass(call, async () => {
      const count = this.#interceptor.limit(call, buffer.length);
      return count === 0 ? 0 : this.#base.pread(buffer.subarray(0, count), position);
    });
  }

  preadIfCached(buffer: Uint8Array, position: number): number {
    const call = this.#call("preadIfCached", position, buffer.length);
    return this.#interceptor.passNow(call, () => {
      const count = this.#interceptor.limit(call, buffer.length);
      return count === 0 ? 0 : this.#base.preadIfCached(buffer.subarray(0, count), position);
    });
  }

  preadEachIfCached(buffer: Uint8Array, ranges: Float64Array): number {
    return preadEachIfCached(this, buffer, ranges);
  }

  nextData(position: number): Promise<number> {
    return this.#interceptor.pass(this.#call("nextData", position), () =>
      this.#base.nextData(position),
    );
  }

  fdatasync(): Promise<void> {
    return this.#interceptor.pass(this.#call("fdatasync"), () => this.#base.fdatasync());
  }

  commitAndForce(buffers: readonly Uint8Array[], position: number): Promise<number> {
    return this.#write("commitAndForce", buffers, position, async (part) => {
      const count = part.length === 0 ? 0 : await this.pwritev(part, position);
      if (count === totalBytes(buffers)) await this.fdatasync();
      return count;
    });
  }

  ftruncate(size: number): Promise<void> {
    return this.#interceptor.pass(this.#call("ftruncate", size), () => this.#base.ftruncate(size));
  }

  allocate(position: number, length: number): Promise<void> {
    return this.#interceptor.pass(this.#call("allocate", position, length), () =>
      this.#base.allocate(position, length),
    );
  }

  punch(position: number, length: number): Promise<void> {
    return this.#interceptor.pass(this.#call("punch", position, length), () =>
      this.#base.punch(position, length),
    );
  }

  advise(position: number, length: number, advice: Advice): Promise<void> {
    return this.#interceptor.pass(this.#call("advise", position, length), () =>
      this.#base.advise(position, length, advice),
    );
  }

  stat(): Promise<FileStat> {
    return this.#interceptor.pass(this.#call("fstat"), () => this.#base.stat());
  }

  close(): Promise<void> {
    return this.#interceptor.pass(this.#call("close"), async () => {
      await this.#base.close();
      this.#forget();
    });
  }

  #call(name: CallName, position?: number, length?: number): NewCall {
    return {
      name,
      path: this.#presentPath,
      ...(position === undefined ? {} : { position }),
      ...(length === undefined ? {} : { length }),
    };
  }

  #write(
    name: "pwritev" | "commitAndForce",
    buffers: readonly Uint8Array[],
    position: number,
    carryOut: (part: readonly Uint8Array[]) => Promise<number>,
  ): Promise<number> {
    const length = totalBytes(buffers);
    const call = this.#call(name, position, length);
    return this.#interceptor.pass(call, async () => {
      const count = this.#interceptor.limit(call, length);
      return carryOut(count === length ? buffers : partOf(buffers, 0, count));
    });
  }
}

type Matcher = (call: NewCall) => boolean;

function matcher(names: CallName | readonly CallName[], { path }: Where): Matcher {
  const wanted = new Set<CallName>(typeof names === "string" ? [names] : names);
  return (call) => wanted.has(call.name) && (path?.test(call.path) ?? true);
}
