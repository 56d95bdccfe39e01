/**
 * The `forcelog` command in this process, and what tells that it changed nothing.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { main } from "../../cli/main.ts";
import { Terminal } from "../../cli/terminal.ts";

export interface CommandResult {
  /** The exit code. */
  readonly code: number;
  readonly out: string;
  /** The same, as bytes. */
  readonly outBytes: Buffer;
  readonly err: string;
}

/** Runs a verb with the given arguments. */
export async function forcelog(...args: string[]): Promise<CommandResult> {
  const out = new Gathered();
  const err = new Gathered();
  const code = await main(args, new Terminal(out, err));
  return { code, out: out.bytes.toString(), outBytes: out.bytes, err: err.bytes.toString() };
}

/** What the lines of an output say. */
export function jsonLines(out: string): Record<string, unknown>[] {
  return out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** A stream that a slow reader drains: it takes a turn for each piece. */
class Gathered extends Writable {
  readonly #chunks: Buffer[] = [];

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    setImmediate(done);
  }
}

/** Every name, kind, content and time of change below a directory. */
export function fingerprint(dir: string): string {
  const hash = createHash("sha256");
  for (const name of ["", ...readdirSync(dir, { recursive: true }).map(String).sort()]) {
    const path = join(dir, name);
    const stat = lstatSync(path);
    hash.update(`${name}\0${stat.mode}\0${stat.size}\0${stat.mtimeMs}\0`);
    if (stat.isFile()) hash.update(readFileSync(path));
  }
  return hash.digest("hex");
}
