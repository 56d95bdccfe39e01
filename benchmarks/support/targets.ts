/**
 * What the project wants to reach, and whether a run did: medians, and ratios within the run only.
 *
 * @module
 */

import type { Spread } from "./numbers.ts";
import { spreadText, type Table } from "./report.ts";

export interface Target {
  readonly name: string;
  readonly wanted: string;
  readonly found: string;
  /** `undefined`: it was not measured. */
  readonly reached: boolean | undefined;
}

export interface Wanted {
  readonly name: string;
  /** `undefined`: it was not measured. */
  readonly found: Spread | undefined;
  readonly bound: ">=" | "<" | "<=";
  readonly limit: number;
  readonly text: (value: number) => string;
}

export function target({ name, found, bound, limit, text }: Wanted): Target {
  return {
    name,
    wanted: `${bound} ${text(limit)}`,
    found: found ? spreadText(found, text) : "not measured",
    reached: found && holds(found.median, bound, limit),
  };
}

function holds(value: number, bound: Wanted["bound"], limit: number): boolean {
  if (bound === ">=") return value >= limit;
  return bound === "<" ? value < limit : value <= limit;
}

export function targetsTable(targets: readonly Target[]): Table {
  const missed = targets.filter(({ reached }) => reached === false).length;
  const open = targets.filter(({ reached }) => reached === undefined).length;
  return {
    title: "Targets",
    header: ["target", "found", "wanted", "reached"],
    rows: targets.map(({ name, found, wanted, reached }) => [
      name,
      found,
      wanted,
      reached === undefined ? "-" : reached ? "yes" : "no",
    ]),
    notes: [
      "",
      `${targets.length - missed - open} reached, ${missed} missed, ${open} not measured`,
    ],
  };
}
