/**
 * Checks what a caller wants to set.
 *
 * @module
 */

/** For each name what it may be: a number of that range, one of some texts, or a boolean. */
export type Fields<T> = {
  readonly [K in keyof Required<T>]: readonly [number, number] | readonly string[] | "boolean";
};

/**
 * The settings that are given, without those that are `undefined`.
 *
 * @throws {TypeError} for a name that there is not, or a value of the wrong type.
 * @throws {RangeError} for a value out of its range.
 */
export function settingsOf<T extends object>(settings: T, fields: Fields<T>, what: string): T {
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    const cannot = `Cannot set ${name} of ${what}`;
    if (!Object.hasOwn(fields, name)) throw new TypeError(`${cannot}: there is no such setting`);
    const allowed = fields[name as keyof T];
    if (allowed === "boolean") {
      if (typeof value !== "boolean") throw new TypeError(`${cannot}: expected a boolean`);
    } else if (typeof allowed[0] === "string") {
      if ((allowed as readonly unknown[]).includes(value)) continue;
      throw new RangeError(`${cannot} to "${value}": expected one of ${allowed.join(", ")}`);
    } else {
      const [least, greatest] = allowed as readonly [number, number];
      if (typeof value !== "number") throw new TypeError(`${cannot}: expected a number`);
      if (Number.isInteger(value) && value >= least && value <= greatest) continue;
      throw new RangeError(
        `${cannot} to ${value}: expected a whole number from ${least} to ${greatest}`,
      );
    }
  }
  return Object.fromEntries(given) as T;
}
