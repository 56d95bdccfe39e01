/**
 * Members of a configuration file by their type. As RocketMQ's reader does, numbers and booleans are also
 * taken as text, and a member that is `null` or missing has its default.
 *
 * @module
 */

import { ConfigObject, ConfigSyntaxError, type ConfigValue } from "./config_json.ts";

/** A member that is an object; an empty one if there is none. */
export function objectIn(parent: ConfigObject, name: string): ConfigObject {
  const value = parent.get(name) ?? undefined;
  if (value === undefined) return new ConfigObject();
  if (value instanceof ConfigObject) return value;
  throw wrong(parent, name, "an object");
}

/** A member that is a 64-bit whole number; one that no double holds is a `bigint`. */
export function integerIn(parent: ConfigObject, name: string, otherwise: number): number | bigint {
  const value = parent.get(name) ?? otherwise;
  if (typeof value === "bigint") return value;
  const number = typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value;
  if (Number.isSafeInteger(number)) return number as number;
  throw wrong(parent, name, "a whole number");
}

/** A member that is a whole number up to 2^53. */
export function numberIn(parent: ConfigObject, name: string, otherwise: number): number {
  const value = integerIn(parent, name, otherwise);
  if (typeof value === "number") return value;
  throw wrong(parent, name, "a whole number of at most 2^53");
}

export function booleanIn(parent: ConfigObject, name: string, otherwise: boolean): boolean {
  const value = parent.get(name) ?? otherwise;
  if (typeof value === "boolean") return value;
  if (value === "true" || value === "false") return value === "true";
  if (value === 0 || value === 1) return value === 1;
  throw wrong(parent, name, "a boolean");
}

export function textIn(parent: ConfigObject, name: string, otherwise: string): string {
  const value = parent.get(name) ?? otherwise;
  if (typeof value === "string") return value;
  if (typeof value === "object") throw wrong(parent, name, "a text");
  return String(value);
}

/** The members of an object that is a map of texts. */
export function textsIn(parent: ConfigObject, name: string): Record<string, string> {
  const map = objectIn(parent, name);
  return Object.fromEntries([...map.keys()].map((key) => [key, textIn(map, key, "")]));
}

/** The same as an object of the file, in alphabetical order. */
export function textsToConfig(texts: Readonly<Record<string, string>>): ConfigObject {
  return new ConfigObject(Object.entries(texts).sort(byName));
}

/** Sorts entries by their names. */
export function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function wrong(parent: ConfigObject, name: string, wanted: string): ConfigSyntaxError {
  const value: ConfigValue = parent.get(name) ?? null;
  const found =
    value instanceof ConfigObject
      ? "an object"
      : Array.isArray(value)
        ? "an array"
        : JSON.stringify(typeof value === "bigint" ? String(value) : value);
  return new ConfigSyntaxError(`"${name}" is ${found}, expected ${wanted}`, parent.position);
}
