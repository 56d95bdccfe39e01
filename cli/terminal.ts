/**
 * Where a verb writes to, and how it says that something went wrong.
 *
 * @module
 */

import { once } from "node:events";
import type { Writable } from "node:stream";

/** A mistake in how the command was called: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export class Terminal {
  readonly #stdout: Writable;
  readonly #stderr: Writable;
  #failed = false;

  constructor(stdout: Writable, stderr: Writable) {
    this.#stdout = stdout;
    this.#stderr = stderr;
  }

  /** Something was said that makes the exit code 1. */
  get failed(): boolean {
    return this.#failed;
  }

  /** Writes to standard output; waits while whoever reads it is slower. */
  async write(text: string | Uint8Array): Promise<void> {
    if (text.length > 0 && !this.#stdout.write(text)) await once(this.#stdout, "drain");
  }

  async line(text: string): Promise<void> {
    await this.write(`${text}\n`);
  }

  /** Resolves once everything that was written was handed on. */
  async flushed(): Promise<void> {
    for (const stream of [this.#stdout, this.#stderr]) {
      await new Promise<void>((resolve) => {
        stream.write("", () => resolve());
      });
    }
  }

  /** Says something on standard error. */
  note(text: string): void {
    this.#stderr.write(`forcelog: ${text}\n`);
  }

  /** Says what went wrong; the verb may go on, and the exit code will be 1. */
  fail(error: unknown): void {
    this.#failed = true;
    this.note(printable(describe(error)));
  }
}

/** An error and what caused it, in one line. */
export function describe(error: unknown): string {
  const texts: string[] = [];
  for (let e: unknown = error; e !== undefined && texts.length < 5; ) {
    texts.push(e instanceof Error ? e.message : String(e));
    e = e instanceof Error ? e.cause : undefined;
  }
  return texts.join(": ");
}

/** Text of a stranger, without what a terminal would act upon. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (character) =>
    JSON.stringify(character).startsWith('"\\')
      ? JSON.stringify(character).slice(1, -1)
      : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A time of the store, ISO 8601 in UTC; 0 is "never". */
export function timeText(ms: number | bigint): string {
  if (Number(ms) === 0) return "never";
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}

/** Bytes, exactly, and from 1 KiB on also in a larger unit. */
export function bytesText(bytes: number): string {
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = "";
  for (const next of units) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  const exact = `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  return unit === "" ? exact : `${exact} (${value.toFixed(1)} ${unit})`;
}
