/**
 * What the verbs take: whole numbers, and JSON as text or in a file.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import type { StoreOptions } from "../lib/mod.ts";
import { UsageError } from "./terminal.ts";

/** A JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Reads a whole number of `least` to 2^53 - 1 in an option's value; a larger one is not rounded. */
export function wholeNumber(option: string, least = 0): (text: string) => number {
  return (text) => {
    const value = /^[0-9]+$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new UsageError(
      `Cannot use ${option} ${text}: expected a whole number of ${least} to ${Number.MAX_SAFE_INTEGER}`,
    );
  };
}

/** Reads a time in an option's value: a date as ISO 8601 has it, or ms since the epoch. @returns ms */
export function timeOf(option: string): (text: string) => number {
  return (text) => {
    const value = /^[0-9]+$/.test(text)
      ? Number(text)
      : /^\d{4}-\d\d-\d\d/.test(text)
        ? Date.parse(text)
        : Number.NaN;
    if (Number.isSafeInteger(value)) return value;
    throw new UsageError(
      `Cannot use ${option} ${text}: expected a date such as 2024-09-19T10:00:00Z, or ms since the epoch`,
    );
  };
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param source The JSON text itself, or the name of a file that holds it. */
export async function readObject(source: string, option: string): Promise<Fields> {
  const isText = source.trimStart().startsWith("{");
  const where = isText ? option : source;
  let text = source;
  if (!isText) {
    try {
      text = await readFile(source, "utf8");
    } catch (cause) {
      throw new Error(`Cannot read ${where}`, { cause });
    }
  }
  try {
    const value = parseExactly(text);
    if (isFields(value)) return value;
  } catch (cause) {
    throw new Error(`Cannot read ${where} as JSON`, { cause });
  }
  throw new Error(`Cannot use ${where}: expected a JSON object`);
}

/** Marks a number that no double holds, on its way through the parser. */
const EXACT = "\u0000exact:";

/** Parses JSON; a whole number beyond 2^53 becomes a `bigint` instead of another number. */
function parseExactly(text: string): unknown {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (token) =>
    token.startsWith('"') || Number.isSafeInteger(Number(token))
      ? token
      : JSON.stringify(EXACT + token),
  );
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(EXACT)
      ? BigInt(value.slice(EXACT.length))
      : value,
  );
}

/** The store's options in a script, or in an object that is itself a script's `config`. */
export async function readConfig(source: string | undefined): Promise<StoreOptions> {
  if (source === undefined) return {};
  const object = await readObject(source, "--config");
  return configOf("config" in object || "steps" in object ? object : { config: object });
}

export function configOf(script: Fields): StoreOptions {
  const { config = {} } = script;
  if (!isFields(config)) throw new Error('Cannot use "config": expected a JSON object');
  // No option is as large as that; its range says so.
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [
      key,
      typeof value === "bigint" ? Number(value) : value,
    ]),
  );
}
