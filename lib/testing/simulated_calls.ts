/**
 * Calls on their way through a simulated kernel: counted, announced, failed or held if so wanted,
 * and carried out after a while that follows from the seed.
 *
 * @module
 */

import { crc32 } from "node:zlib";
import { systemError } from "../io/system_error.ts";
import { type Call, type NewCall, syscallOf } from "./call.ts";
import { type Random, randomOf } from "./random.ts";
import type { SimulatedDisk, UnderWay } from "./simulated_disk.ts";
import type { SimulatedTree } from "./simulated_tree.ts";

/** What becomes of a call in place of what it should do. */
export type Fault =
  /** It fails, with this error. Nothing was done; a sync has done what Linux does then. */
  | { readonly kind: "error"; readonly code: string }
  /** A write or read moves only so many bytes; 1 at least. */
  | { readonly kind: "short"; readonly bytes: number }
  /** It never comes back, and never happens. A synchronous call goes on as if nothing was. */
  | { readonly kind: "hang" };

/** Asked before each call what is to become of it. */
export type OnCall = (call: Call) => Fault | undefined;

/** How many bytes a call may move that was given so many. */
export function limitOf(fault: Fault | undefined, length: number): number {
  return fault?.kind === "short" ? Math.min(length, Math.max(1, fault.bytes)) : length;
}

/** Turns of the event loop that a call takes at most. */
const TURNS_MAX = 3;

/** What an asynchronous call does once it takes effect. */
export interface Deed<T> {
  readonly carryOut: (tree: SimulatedTree) => T;
  /**
   * Whether it changes what can be read: then it may happen, or not, when the machine stops
   * meanwhile. A sync does not, and what it was to make durable may survive as it is.
   * @default true
   */
  readonly changes?: boolean;
  readonly carryOutPart?: UnderWay["carryOutPart"];
  /** What an error leaves behind. Default: nothing. */
  readonly fail?: (tree: SimulatedTree, random: Random) => void;
}

export class SimulatedCalls {
  readonly disk: SimulatedDisk;
  readonly #onCall: OnCall | undefined;
  readonly #turnsOf: Random;
  readonly #chance: Random;
  /** What takes effect in this turn of the event loop, in the next, and so on, round and round. */
  readonly #due: (() => void)[][] = Array.from({ length: TURNS_MAX + 1 }, () => []);
  #turn = 0;
  #waiting = 0;
  #isTurnAwaited = false;
  #count = 0;
  /** Names, modes and paths come again and again. */
  readonly #hashes = new Map<string, number>();
  #trace = 0;
  #traceAside = 0;

  constructor(disk: SimulatedDisk, seed: number, onCall: OnCall | undefined) {
    this.disk = disk;
    this.#onCall = onCall;
    this.#turnsOf = randomOf(seed);
    this.#chance = randomOf(seed ^ 0x5bd1e995);
  }

  /** Calls so far. */
  get count(): number {
    return this.#count;
  }

  /** Digest of all that was noted: every call, and how it ended. */
  get trace(): string {
    const [left, right] = [this.#trace, this.#traceAside];
    return [left, right].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
  }

  /** Chance for what a call does, apart from how long it takes. */
  get chance(): Random {
    return this.#chance;
  }

  /**
   * Counts a call, and asks what is to become of it.
   *
   * @param content Checksum of what it writes.
   */
  announce(call: NewCall, content = 0): Fault | undefined {
    this.#count += 1;
    const { name, path, position = -1, length = -1, to = "", mode = "" } = call;
    this.#note(this.#hashOf(name));
    this.#note(this.#hashOf(path));
    this.#note(this.#hashOf(to));
    this.#note(this.#hashOf(mode));
    this.#note(position);
    this.#note(length);
    this.#note(content);
    return this.#onCall?.({ number: this.#count, ...call });
  }

  /** Announces a call and carries it out. */
  async run<T>(call: NewCall, deed: Deed<T>): Promise<T> {
    return this.perform(call, this.announce(call), deed);
  }

  /** Carries out a call that was announced, after some turns of the event loop. */
  perform<T>(call: NewCall, fault: Fault | undefined, deed: Deed<T>): Promise<T> {
    const number = this.#count;
    if (fault?.kind === "hang") return new Promise(() => {});
    const { underWay, tree } = this.disk;
    if (fault?.kind === "error") {
      return this.#later(() => {
        deed.fail?.(tree, this.#chance);
        throw this.failed(call, number, fault.code);
      });
    }
    const { carryOut, carryOutPart, changes = true } = deed;
    const pending: UnderWay = { carryOut, ...(carryOutPart && { carryOutPart }) };
    if (changes) underWay.add(pending);
    return this.#later(() => {
      underWay.delete(pending);
      return this.outcome(number, () => carryOut(tree));
    });
  }

  /** What a call does at once; its outcome goes into the trace. */
  outcome<T>(number: number, call: () => T): T {
    try {
      const result = call();
      this.#note(number);
      this.#note(typeof result === "number" ? result : 0);
      return result;
    } catch (error) {
      this.#note(number);
      this.#note(crc32(error instanceof Error && "code" in error ? String(error.code) : "?"));
      throw error;
    }
  }

  /** The error of a call that fails because it was told to. */
  failed(call: NewCall, number: number, code: string): Error {
    this.#note(number);
    this.#note(crc32(code));
    return systemError(code, syscallOf(call.name), call.path);
  }

  #later<T>(call: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = () => {
        try {
          resolve(call());
        } catch (error) {
          reject(error);
        }
      };
      const turns = this.#turnsOf(TURNS_MAX + 1);
      if (turns === 0) {
        queueMicrotask(run);
        return;
      }
      this.#due[(this.#turn + turns) % this.#due.length]!.push(run);
      this.#waiting += 1;
      this.#awaitTurn();
    });
  }

  #awaitTurn(): void {
    if (this.#isTurnAwaited || this.#waiting === 0) return;
    this.#isTurnAwaited = true;
    setImmediate(this.#onTurn);
  }

  readonly #onTurn = (): void => {
    this.#isTurnAwaited = false;
    this.#turn += 1;
    const slot = this.#turn % this.#due.length;
    const due = this.#due[slot]!;
    this.#due[slot] = [];
    this.#waiting -= due.length;
    for (const run of due) run();
    this.#awaitTurn();
  };

  #hashOf(text: string): number {
    let hash = this.#hashes.get(text);
    if (hash === undefined) {
      hash = crc32(text);
      this.#hashes.set(text, hash);
    }
    return hash;
  }

  #note(value: number): void {
    this.#trace = Math.imul(this.#trace ^ value ^ (value / 2 ** 32), 0x01000193);
    this.#trace ^= this.#trace >>> 15;
    this.#traceAside = Math.imul(this.#traceAside + value, 0x85ebca6b) + this.#trace;
    this.#traceAside ^= this.#traceAside >>> 13;
  }
}
