/**
 * How long does it take to open a store with a full log file, beside the Java store?
 *
 * After a clean stop; after a crash (the process was killed) with a durable watermark 1 MiB before
 * the end of the log; after a crash without one, so that all of the log is read; and with all of
 * the log read on demand (`recoverWholeLog`). Each open has a process of its own; the log is in the
 * page cache and on the device. Between two opens everything but the log is put back as the crash
 * left it. The Java store opens a log that it wrote itself, as large and with records as large.
 *
 * Not measured: a log that is not cached, several files, damage.
 *
 * @module
 */

import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Bench, MIB, type Part, SEED } from "./support/bench.ts";
import { chartSvg } from "./support/chart.ts";
import { type Spread, spreadOf, spreadOfMeasured } from "./support/numbers.ts";
import {
  bytesText,
  figure,
  medianText,
  type Report,
  spreadText,
  times,
  whole,
} from "./support/report.ts";
import type { Filled, Opened } from "./support/store_jobs.ts";
import { target } from "./support/targets.ts";

type OwnRow = "clean" | "near" | "crash" | "whole";
type Row = OwnRow | "Java, clean" | "Java, crash";

type Round = { readonly seconds: number } & Partial<Opened>;

const ROWS: Readonly<Record<Row, string>> = {
  clean: "clean stop",
  near: "crash, near watermark",
  crash: "crash, full scan",
  whole: "clean stop, recoverWholeLog",
  "Java, clean": "clean stop",
  "Java, crash": "crash",
};
const BODY_BYTES = 1024;
const NEAR_BYTES = MIB;
const NEAR_SECONDS = 0.2;

export const recovery: Part = {
  question: "How long does it take to open a store, beside the Java store?",

  async measure(bench: Bench): Promise<Report> {
    const rows = rowsOf(bench);
    const stores = new Map<Row, PreparedStore>();
    for (const row of rows) stores.set(row, await PreparedStore.make(bench, row));
    const runs = await bench.inRounds<Row, Round>(
      rows,
      (row) => `open: ${isJava(row) ? "Java, " : ""}${ROWS[row]}`,
      (row) => (stores.get(row) as PreparedStore).open(),
    );
    for (const store of stores.values()) await bench.remove(store.directory);
    const seconds = (row: Row): Spread | undefined => {
      const rounds = runs.get(row);
      return rounds && spreadOf(rounds.map((round) => round.seconds));
    };
    const own = (row: Row, value: (round: Round) => number | undefined): Spread | undefined =>
      spreadOfMeasured((runs.get(row) ?? []).map(value));
    return {
      tables: [
        {
          title: `Opening a store with a log of ${bytesText(bench.settings.logBytes)}`,
          header: [
            "store",
            "after",
            "open s",
            "of Java",
            "records read",
            "peak memory MiB",
            "loop p99 ms",
            "loop max ms",
          ],
          rows: rows.map((row) => [
            isJava(row) ? "Java" : "forcelog",
            ROWS[row],
            spreadText(seconds(row)),
            isJava(row) ? "-" : spreadText(ofJava(runs, row), times),
            medianText(
              own(row, ({ scannedRecords }) => scannedRecords),
              whole,
            ),
            medianText(own(row, ({ peakBytes }) => peakBytes && peakBytes / MIB)),
            medianText(own(row, ({ loopDelayMs }) => loopDelayMs?.p99)),
            medianText(own(row, ({ loopDelayMs }) => loopDelayMs?.max)),
          ]),
        },
      ],
      targets: [
        target({
          name: "open after a crash, full scan, beside Java",
          found: ofJava(runs, "crash"),
          bound: "<=",
          limit: 1,
          text: times,
        }),
        target({
          name: "open after a crash, near watermark",
          found: seconds("near"),
          bound: "<",
          limit: NEAR_SECONDS,
          text: (value) => `${figure(value)} s`,
        }),
      ],
      charts: [
        {
          name: "recovery",
          svg: chartSvg({
            title: `Opening a store with a log of ${bytesText(bench.settings.logBytes)}`,
            subtitle: bench.about,
            panels: [
              {
                title: "seconds",
                log: false,
                categories: rows.map((row) => `${isJava(row) ? "Java, " : ""}${ROWS[row]}`),
                series: [
                  { name: "open", kind: "bar", values: rows.map((row) => seconds(row)?.median) },
                ],
              },
            ],
          }),
        },
      ],
      results: Object.fromEntries(runs),
    };
  },
};

function isJava(row: Row): row is "Java, clean" | "Java, crash" {
  return row.startsWith("Java");
}

function rowsOf({ settings, java }: Bench): Row[] {
  const judged: readonly Row[] = ["near", "crash", "Java, crash"];
  return (Object.keys(ROWS) as Row[])
    .filter((row) => settings.size !== "targets" || judged.includes(row))
    .filter((row) => java !== undefined || !isJava(row));
}

/** Our seconds to Java's, of rounds that were measured one beside the other. */
function ofJava(runs: ReadonlyMap<Row, readonly Round[]>, row: OwnRow): Spread | undefined {
  const others = runs.get(row === "clean" ? "Java, clean" : "Java, crash") ?? [];
  const ratios = (runs.get(row) ?? []).flatMap(({ seconds }, i) => {
    const other = others[i];
    return other ? [seconds / other.seconds] : [];
  });
  return ratios.length > 0 ? spreadOf(ratios) : undefined;
}

/** A store that is opened again and again from the same state. */
class PreparedStore {
  readonly directory: string;
  readonly #bench: Bench;
  readonly #row: Row;
  /** Everything but the log, as it was found. */
  #copy: string | undefined;
  #filled: Filled | undefined;

  private constructor(bench: Bench, row: Row) {
    this.#bench = bench;
    this.#row = row;
    this.directory = bench.folder("open");
  }

  static async make(bench: Bench, row: Row): Promise<PreparedStore> {
    const store = new PreparedStore(bench, row);
    bench.say(`filling: ${row}`);
    await (isJava(row) ? store.#fillJava(row) : store.#fill(row));
    return store;
  }

  open(): Promise<Round> {
    return isJava(this.#row) ? this.#openJava(this.#row) : this.#open(this.#row);
  }

  async #fill(row: OwnRow): Promise<void> {
    const { settings, fileBytes } = this.#bench;
    const crash = row === "crash" || row === "near";
    this.#filled = await this.#bench.run("fill", {
      directory: this.directory,
      bodyBytes: BODY_BYTES,
      seed: SEED,
      logBytes: settings.logBytes,
      fileBytes,
      ...(row === "near" && {
        checkpointBytesBefore: Math.min(NEAR_BYTES, settings.logBytes / 2),
      }),
      end: crash ? "kill" : "close",
    });
    if (crash) this.#keep();
  }

  async #open(row: OwnRow): Promise<Round> {
    const { fileBytes } = this.#bench;
    const crash = row === "crash" || row === "near";
    if (crash) this.#putBack();
    const opened = await this.#bench.run("open", {
      directory: this.directory,
      options: { mappedFileSizeCommitLog: fileBytes, recoverWholeLog: row === "whole" },
      // What a close would write is put back before the next open.
      end: crash && !this.#bench.isSmoke ? "kill" : "close",
    });
    const { records } = this.#filled as Filled;
    const { messages, scannedRecords, cleanStop } = opened;
    if (messages !== records || cleanStop === crash) {
      throw new Error(`${records} messages were put, ${messages} are there after "${ROWS[row]}"`);
    }
    const all = row === "crash" || row === "whole";
    if (all ? scannedRecords < records : row === "near" && scannedRecords === records) {
      throw new Error(`"${ROWS[row]}" read ${scannedRecords} of ${records} records`);
    }
    return { ...opened, seconds: opened.openMs / 1000 };
  }

  async #fillJava(row: Row): Promise<void> {
    const { java, settings, fileBytes } = this.#bench;
    if (!java) throw new Error("There is no Java store");
    await java.fill(this.directory, BODY_BYTES, settings.logBytes, fileBytes);
    if (row === "Java, clean") await java.recover(this.directory, fileBytes, "close");
    else this.#keep();
  }

  async #openJava(row: Row): Promise<Round> {
    const { java, fileBytes } = this.#bench;
    if (!java) throw new Error("There is no Java store");
    const crash = row === "Java, crash";
    if (crash) this.#putBack();
    const end = crash ? "kill" : "close";
    const { loadSeconds, abort } = await java.recover(this.directory, fileBytes, end);
    if (abort !== crash) throw new Error(`The Java store was not left as "${ROWS[row]}" says`);
    return { seconds: loadSeconds };
  }

  #keep(): void {
    this.#copy = this.#bench.folder("kept");
    for (const name of this.#apartFromLog()) {
      copy(join(this.directory, name), join(this.#copy, name));
    }
  }

  #putBack(): void {
    const kept = this.#copy as string;
    for (const name of this.#apartFromLog()) {
      rmSync(join(this.directory, name), { recursive: true });
    }
    for (const name of readdirSync(kept)) copy(join(kept, name), join(this.directory, name));
  }

  #apartFromLog(): string[] {
    return readdirSync(this.directory).filter((name) => name !== "commitlog");
  }
}

/** Holes stay holes, where there is a `cp` that can do that: a crash leaves most of a queue's file as one. */
function copy(from: string, to: string): void {
  if (process.platform === "linux") execFileSync("cp", ["-a", "--sparse=always", from, to]);
  else cpSync(from, to, { recursive: true });
}
