/**
 * One crash, by name: the line that is printed for it finds it again.
 *
 *     seed=7 workload=rolls mode=pool call=118 cut=torn second=23/none
 *
 * @module
 */

import type { Random } from "../random.ts";
import type { SimulatedDisk, Survival } from "../simulated_disk.ts";
import type { CrashEvent } from "./ledger.ts";

/** What becomes of what was not synced, by the name of the cut. */
const SURVIVALS = {
  /** Nothing of it is there. */
  none: { data: "none", names: "none" },
  /** All of it, as if the power had gone later. */
  all: { data: "all", names: "all" },
  /** Any sectors; the names that were changed first. */
  torn: { data: "random", names: "prefix" },
  /** Any sectors, any names. */
  harsh: { data: "random", names: "subset" },
  /** Names without what they stand for. */
  names: { data: "none", names: "all" },
  /** The other way round. */
  data: { data: "all", names: "none" },
} as const satisfies Readonly<Record<string, Survival>>;

export type CutName = keyof typeof SURVIVALS | "kill";

export const CUTS: readonly CutName[] = [
  ...(Object.keys(SURVIVALS) as (keyof typeof SURVIVALS)[]),
  "kill",
];

export function eventOf(cut: CutName): CrashEvent {
  return cut === "kill" ? "kill" : "cut";
}

/** What the next process finds after that cut. */
export function imageOf(disk: SimulatedDisk, cut: CutName, random: Random): SimulatedDisk {
  return cut === "kill" ? disk.kill(random) : disk.cutPower(random, SURVIVALS[cut]);
}

/** A place in a play: before its call of that number. */
export interface CrashPoint {
  readonly call: number;
  readonly cut: CutName;
}

export interface CrashCase extends CrashPoint {
  readonly seed: number;
  readonly workload: string;
  readonly mode: string;
  /** Another crash, in the recovery from the first. */
  readonly second?: CrashPoint | undefined;
}

export function formatCase({ seed, workload, mode, call, cut, second }: CrashCase): string {
  const again = second ? ` second=${second.call}/${second.cut}` : "";
  return `seed=${seed} workload=${workload} mode=${mode} call=${call} cut=${cut}${again}`;
}

/**
 * The fields of a line, `name=value name=value`.
 *
 * @returns What reads one by its name; throws a `TypeError` if there is none.
 */
export function fieldsOf(line: string): (name: string) => string {
  const fields = new Map(
    line
      .trim()
      .split(/\s+/)
      .map((field) => {
        const at = field.indexOf("=");
        return [field.slice(0, at), field.slice(at + 1)] as const;
      }),
  );
  return (name) => {
    const value = fields.get(name);
    if (value === undefined) throw new TypeError(`Cannot read "${line}": no ${name}=`);
    return value;
  };
}

/** @throws {TypeError} if the line is none that {@linkcode formatCase} makes. */
export function parseCase(line: string): CrashCase {
  const field = fieldsOf(line);
  const number = (value: string): number => {
    if (!/^\d+$/.test(value)) throw new TypeError(`Cannot read "${line}": "${value}" is no number`);
    return Number(value);
  };
  const cut = (value: string): CutName => {
    const found = CUTS.find((name) => name === value);
    if (!found) throw new TypeError(`Cannot read "${line}": no cut is called "${value}"`);
    return found;
  };
  const [secondCall = "", secondCut = ""] = /\bsecond=/.test(line)
    ? field("second").split("/")
    : [];
  return {
    seed: number(field("seed")),
    workload: field("workload"),
    mode: field("mode"),
    call: number(field("call")),
    cut: cut(field("cut")),
    second: secondCall === "" ? undefined : { call: number(secondCall), cut: cut(secondCut) },
  };
}
