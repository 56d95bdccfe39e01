/**
 * Checks of what a caller hands in: a wrong type or range is the caller's mistake.
 *
 * @module
 */

export const INT32_MIN = -(2 ** 31);
export const INT32_MAX = 2 ** 31 - 1;

/**
 * The value, or its default.
 *
 * @throws {TypeError} If it is no number.
 * @throws {RangeError} If it is no integer of `min` to `max`.
 */
export function integerOf(
  value: number | undefined,
  otherwise: number,
  name: string,
  min: number,
  max: number,
): number {
  if (value === undefined) return otherwise;
  if (typeof value !== "number") throw wrongType(name, "a number", value);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new RangeError(
    `Cannot make a record: "${name}" is ${value}, expected an integer of ${min} to ${max}`,
  );
}

/** An error that says which field is not what it should be. */
export function wrongType(name: string, expected: string, value: unknown): TypeError {
  const got = value === null ? "null" : typeof value;
  return new TypeError(`Cannot make a record: "${name}" is ${got}, expected ${expected}`);
}

/**
 * Reads a decimal integer as Java's `Integer.parseInt` does.
 *
 * @returns An int32, or `undefined` where Java throws.
 */
export function parseInt32(text: string): number | undefined {
  if (!/^[+-]?[0-9]+$/.test(text)) return undefined;
  const value = Number(text);
  return value >= INT32_MIN && value <= INT32_MAX ? value : undefined;
}
