/**
 * Writes JSON: 64-bit numbers exactly, and large texts piece by piece.
 *
 * @module
 */

import type { Terminal } from "./terminal.ts";

export type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | ReadonlyMap<string, Json>
  | JsonObject;

/** A field that is `undefined` is left out. */
export interface JsonObject {
  readonly [name: string]: Json | undefined;
}

/** A 64-bit number as JSON is to show it: a `number` if that is exact. */
export function exactJson(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/**
 * @param depth Objects and arrays are broken over lines down to this depth; -1 for one line.
 * @param level Depth of `value` itself.
 */
export function jsonText(value: Json, depth = -1, level = 0): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") {
    if (Number.isFinite(value)) return String(value);
    throw new TypeError(`Cannot write ${value} as JSON`);
  }
  const isArray = Array.isArray(value);
  const colon = depth >= 0 ? ": " : ":";
  const texts = isArray
    ? value.map((item: Json) => jsonText(item, depth, level + 1))
    : entriesOf(value as ReadonlyMap<string, Json> | JsonObject).map(
        ([name, item]) => JSON.stringify(name) + colon + jsonText(item, depth, level + 1),
      );
  const [open, close] = isArray ? "[]" : "{}";
  if (texts.length === 0) return `${open}${close}`;
  const inner = lineBreak(level < depth, level + 1);
  return open + inner + texts.join(`,${inner}`) + lineBreak(level < depth, level) + close;
}

function entriesOf(value: ReadonlyMap<string, Json> | JsonObject): [string, Json][] {
  if (value instanceof Map) return [...value];
  return Object.entries(value).filter((entry): entry is [string, Json] => entry[1] !== undefined);
}

function lineBreak(on: boolean, level: number): string {
  return on ? `\n${" ".repeat(level)}` : "";
}

/** Bytes gathered before they are written. */
const PIECE_LENGTH = 64 * 1024;

/** One JSON text that is written while it is made. */
export class JsonStream {
  readonly #terminal: Terminal;
  readonly #depth: number;
  readonly #open: { readonly close: string; first: boolean }[] = [];
  #text = "";

  /** @param depth As in {@linkcode jsonText}. */
  constructor(terminal: Terminal, depth = -1) {
    this.#terminal = terminal;
    this.#depth = depth;
  }

  /** Begins an object, or an array; in an object under `name`. */
  begin(bracket: "{" | "[", name?: string): void {
    this.#next(name);
    this.#text += bracket;
    this.#open.push({ close: bracket === "{" ? "}" : "]", first: true });
  }

  /** Writes a whole value; in an object under `name`. */
  async add(value: Json, name?: string): Promise<void> {
    this.#next(name);
    this.#text += jsonText(value, this.#depth, this.#open.length);
    if (this.#text.length >= PIECE_LENGTH) await this.#flush();
  }

  /** Ends what was begun last; the last end also ends the line. */
  async end(): Promise<void> {
    const ended = this.#open.pop();
    if (!ended) throw new Error("nothing was begun");
    const level = this.#open.length;
    if (!ended.first) this.#text += lineBreak(level < this.#depth, level);
    this.#text += ended.close;
    if (level > 0) return;
    this.#text += "\n";
    await this.#flush();
  }

  #next(name: string | undefined): void {
    const parent = this.#open.at(-1);
    if (parent) {
      if (!parent.first) this.#text += ",";
      parent.first = false;
      const level = this.#open.length - 1;
      this.#text += lineBreak(level < this.#depth, level + 1);
    }
    if (name !== undefined) this.#text += JSON.stringify(name) + (this.#depth >= 0 ? ": " : ":");
  }

  async #flush(): Promise<void> {
    const text = this.#text;
    this.#text = "";
    await this.#terminal.write(text);
  }
}
