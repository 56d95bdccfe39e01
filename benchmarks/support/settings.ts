/**
 * What a run of the benchmarks measures, and how long.
 *
 * @module
 */

import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { MODES, type Mode } from "./modes.ts";

export const PARTS = ["put", "consume", "recovery", "queues", "interference", "query"] as const;
export type PartName = (typeof PARTS)[number];

/**
 * `smoke` shows that everything runs, and its figures say nothing; `targets` measures only what a
 * target asks for; `full` all rows.
 */
export type Size = "smoke" | "targets" | "full";

/** Who may be left out. */
export const OTHERS = ["java", "peers", "prototype"] as const;
export type Other = (typeof OTHERS)[number];

export interface Settings {
  readonly parts: readonly PartName[];
  readonly size: Size;
  readonly rounds: number;
  /** Of load, for each subject of a row in each round; what warms it up comes before. */
  readonly seconds: number;
  readonly modes: readonly Mode[];
  readonly callers: readonly number[];
  /** Messages of a put. */
  readonly batches: readonly number[];
  /** Bytes of a body. */
  readonly bodies: readonly number[];
  /** Of the log that is recovered and read. */
  readonly logBytes: number;
  readonly records: number;
  readonly queues: readonly number[];
  readonly without: ReadonlySet<Other>;
  /** Install the other stores of Node.js first. */
  readonly install: boolean;
  /** Where stores are made. */
  readonly directory: string;
  readonly out: string;
}

const MIB = 1024 * 1024;

const DEFAULTS = {
  smoke: {
    rounds: "1",
    seconds: "0.03",
    callers: "1,64",
    bodies: "1024",
    batches: "1,32",
    "log-mib": "1",
    records: "4000",
    queues: "1,5",
    without: "java,peers",
  },
  targets: {
    rounds: "3",
    seconds: "1.5",
    callers: "1,16,64,256",
    bodies: "1024",
    batches: "1,32",
    // One file of the log, all but full: Java begins its scan at the start of a file.
    "log-mib": "1008",
    records: "20000000",
    queues: "1,10000",
    without: "",
  },
  full: {
    rounds: "3",
    seconds: "3",
    callers: "1,16,64,256",
    bodies: "1024",
    batches: "1,32",
    "log-mib": "1008",
    records: "20000000",
    queues: "1,100,10000",
    without: "",
  },
} as const satisfies Record<Size, Record<string, string>>;

export const USAGE = `Usage: npm run bench -- [options]
  --parts LIST     (${PARTS.join(",")})
  --targets        only the rows that a target is about, each for a shorter time
  --smoke          the smallest size: shows that everything runs, its figures say nothing
  --rounds N       (${DEFAULTS.full.rounds})
  --seconds N      of load per subject, row and round (${DEFAULTS.full.seconds}; with --targets ${DEFAULTS.targets.seconds})
  --modes LIST     (${MODES.join(",")})
  --callers LIST   (${DEFAULTS.full.callers})
  --batches LIST   messages of a put (${DEFAULTS.full.batches})
  --bodies LIST    bytes (${DEFAULTS.full.bodies})
  --log-mib N      MiB of the log that is recovered (${DEFAULTS.full["log-mib"]}); a quarter of it is read
  --records N      of the longest log, for the cost per record; a tenth are asked for by key (${DEFAULTS.full.records})
  --queues LIST    (${DEFAULTS.full.queues}; with --targets ${DEFAULTS.targets.queues})
  --peers          first installs lmdb, better-sqlite3 and classic-level into benchmarks/peers
  --without LIST   of ${OTHERS.join(",")} (with --smoke java,peers, otherwise none)
  --dir DIR        where the stores are made: choose the device (the system's folder for such files)
  --out DIR        for the results, as JSON and SVG (benchmarks/results)`;

/**
 * @throws {TypeError | RangeError} that says which option is wrong.
 * @returns `undefined` if only the usage was asked for.
 */
export function settingsOf(args: readonly string[]): Settings | undefined {
  const text = { type: "string" } as const;
  const flag = { type: "boolean", default: false } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      parts: { ...text, default: PARTS.join(",") },
      targets: flag,
      smoke: flag,
      rounds: text,
      seconds: text,
      modes: { ...text, default: MODES.join(",") },
      callers: text,
      batches: text,
      bodies: text,
      "log-mib": text,
      records: text,
      queues: text,
      peers: flag,
      without: text,
      dir: { ...text, default: tmpdir() },
      out: { ...text, default: join("benchmarks", "results") },
      help: flag,
    },
  });
  if (values.help) return undefined;
  const size: Size = values.smoke ? "smoke" : values.targets ? "targets" : "full";
  const defaults = DEFAULTS[size];
  const all = (name: Exclude<keyof typeof defaults, "without">): number[] =>
    numbersOf(name, values[name] ?? defaults[name]);
  const one = (name: Exclude<keyof typeof defaults, "without">): number => {
    const [number, ...more] = all(name);
    if (number === undefined || more.length > 0) {
      throw new RangeError(`Cannot use --${name} ${values[name]}: expected one number`);
    }
    return number;
  };
  return {
    parts: namesOf("parts", values.parts, PARTS),
    size,
    rounds: one("rounds"),
    seconds: one("seconds"),
    modes: namesOf("modes", values.modes, MODES),
    callers: all("callers"),
    batches: all("batches"),
    bodies: all("bodies"),
    logBytes: one("log-mib") * MIB,
    records: one("records"),
    queues: all("queues"),
    without: new Set(namesOf("without", values.without ?? defaults.without, OTHERS)),
    install: values.peers,
    directory: resolve(values.dir),
    out: resolve(values.out),
  };
}

function numbersOf(name: string, text: string): number[] {
  const numbers = text.split(",").map(Number);
  if (!numbers.every((number) => Number.isFinite(number) && number > 0)) {
    throw new RangeError(`Cannot use --${name} ${text}: expected numbers above 0`);
  }
  return numbers;
}

function namesOf<T extends string>(name: string, text: string, known: readonly T[]): T[] {
  const names = text.split(",").filter((one) => one !== "");
  const unknown = names.find((one) => !known.some((other) => other === one));
  if (unknown !== undefined) {
    throw new RangeError(`Cannot use --${name} ${text}: expected some of ${known.join(",")}`);
  }
  return known.filter((one) => names.includes(one));
}
