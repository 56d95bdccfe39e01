/**
 * How fast are messages read, beside the Java store?
 *
 * Eight queues of 1 KiB messages, 32 of them at a time: the tail, put just before (only the reads
 * count); from their start, out of the page cache; the same through the iterator, message by
 * message; and cold, with the pages dropped from the page cache, each time in a new process. The
 * last byte of each body is looked at. The Java store reads its own log in the same way, and copies
 * each message.
 *
 * Cold logs have files of 16 MiB: a Java store reads its last three files when it opens, so these
 * are warm for it. Ours is dropped after it has opened.
 *
 * Not measured: filters, a consumer that waits, reading beside puts, several processes.
 *
 * @module
 */

import { type Bench, MIB, type Part, SEED } from "./support/bench.ts";
import { chartSvg } from "./support/chart.ts";
import { type Spread, spreadOf, spreadOfMeasured } from "./support/numbers.ts";
import { dropPages, type ReadKind, type ReadMeasured } from "./support/read_job.ts";
import { figure, medianText, percent, type Report, spreadText, times } from "./support/report.ts";
import { target } from "./support/targets.ts";

type Row = ReadKind | "cold" | "Java" | "Java, cold";

interface Round extends Partial<ReadMeasured> {
  readonly messagesPerSecond: number;
  readonly cachedShare?: number;
}

const ROWS: Readonly<Record<Row, string>> = {
  tail: "tail, get",
  cached: "page cache, get",
  consume: "page cache, consume",
  cold: "cold, get",
  Java: "page cache",
  "Java, cold": "cold",
};
const BODY_BYTES = 1024;
/** Roughly: what else is in a record. */
const RECORD_BYTES = BODY_BYTES + 104;
/** How often all is read, as often as before to warm up. */
const PASSES = 3;
const OF_JAVA = 0.5;

export const consume: Part = {
  question: "How fast are messages read, beside the Java store?",

  async measure(bench: Bench): Promise<Report> {
    const rows = rowsOf(bench);
    const cold = await ColdStores.make(bench, rows);
    const runs = await bench.inRounds<Row, Round>(
      rows,
      (row) => `consume: ${isJava(row) ? "Java, " : ""}${ROWS[row]}`,
      (row) => measureRow(bench, row, cold),
    );
    await cold.remove(bench);
    const rate = (row: Row): Spread | undefined => {
      const rounds = runs.get(row);
      return rounds && spreadOf(rounds.map(({ messagesPerSecond }) => messagesPerSecond));
    };
    const ofJava = (row: Row, java: Row): Spread | undefined =>
      ratioOf(runs.get(row) ?? [], runs.get(java) ?? []);
    const own = (row: Row, value: (round: Round) => number | undefined): Spread | undefined =>
      spreadOfMeasured((runs.get(row) ?? []).map(value));
    return {
      tables: [
        {
          title: "Reading, 32 messages at a time",
          header: [
            "store",
            "what",
            "messages/s",
            "MiB/s",
            "of Java",
            "p50 ms",
            "p99 ms",
            "still cached",
            "loop p99 ms",
          ],
          rows: rows.map((row) => [
            isJava(row) ? "Java" : "forcelog",
            ROWS[row],
            spreadText(rate(row)),
            medianText(rate(row), (one) => figure((one * RECORD_BYTES) / MIB)),
            isJava(row)
              ? "-"
              : spreadText(ofJava(row, row === "cold" ? "Java, cold" : "Java"), percent),
            medianText(own(row, ({ latencyMs }) => latencyMs?.p50)),
            medianText(own(row, ({ latencyMs }) => latencyMs?.p99)),
            medianText(
              own(row, ({ cachedShare }) => cachedShare),
              percent,
            ),
            medianText(own(row, ({ loopDelayMs }) => loopDelayMs?.p99)),
          ]),
          notes: [
            "",
            "Latencies are those of one get of 32 messages, with consume of one message.",
          ],
        },
      ],
      targets: (["tail", "cached"] as const).map((row) =>
        target({
          name: `reading ${row === "tail" ? "the tail" : "from the page cache"}, beside Java`,
          found: ofJava(row, "Java"),
          bound: ">=",
          limit: OF_JAVA,
          text: times,
        }),
      ),
      charts: [
        {
          name: "consume",
          svg: chartSvg({
            title: "Messages read per second, 32 at a time",
            subtitle: bench.about,
            panels: [
              {
                title: "messages per second",
                log: false,
                categories: rows.map((row) => `${isJava(row) ? "Java, " : ""}${ROWS[row]}`),
                series: [
                  {
                    name: "messages per second",
                    kind: "bar",
                    values: rows.map((row) => rate(row)?.median),
                  },
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

function isJava(row: Row): boolean {
  return row.startsWith("Java");
}

function rowsOf({ settings, java }: Bench): Row[] {
  const all = Object.keys(ROWS) as Row[];
  return all
    .filter((row) => settings.size !== "targets" || ["tail", "cached", "Java"].includes(row))
    .filter((row) => java !== undefined || !isJava(row));
}

/** Logs that are read from the device again and again. */
class ColdStores {
  readonly #folders = new Map<Row, string>();

  static async make(bench: Bench, rows: readonly Row[]): Promise<ColdStores> {
    const stores = new ColdStores();
    const logBytes = logBytesOf(bench);
    if (rows.includes("cold")) {
      const directory = bench.folder("cold");
      stores.#folders.set("cold", directory);
      const fileBytes = coldFileBytes(bench);
      await bench.run("fill", {
        directory,
        bodyBytes: BODY_BYTES,
        seed: SEED,
        logBytes,
        fileBytes,
        end: "close",
      });
    }
    if (rows.includes("Java, cold")) {
      const directory = bench.folder("cold-java");
      stores.#folders.set("Java, cold", directory);
      const fileBytes = coldFileBytes(bench);
      await readJava(bench, directory, { passes: 0, fileBytes, end: "close" });
    }
    return stores;
  }

  of(row: Row): string {
    const folder = this.#folders.get(row);
    if (folder === undefined) throw new Error(`There is no store for ${row}`);
    return folder;
  }

  async remove(bench: Bench): Promise<void> {
    for (const folder of this.#folders.values()) await bench.remove(folder);
  }
}

async function measureRow(bench: Bench, row: Row, cold: ColdStores): Promise<Round> {
  switch (row) {
    case "Java":
      return bench.inFolder("read-java", async (directory) => {
        const rates = await readJava(bench, directory, {
          passes: 2 * PASSES,
          fileBytes: bench.fileBytes,
          end: "kill",
        });
        return { messagesPerSecond: spreadOf(rates.slice(PASSES)).median };
      });
    case "Java, cold": {
      const cachedShare = await dropPages(cold.of(row), logBytesOf(bench));
      const [messagesPerSecond = Number.NaN] = await readJava(bench, cold.of(row), {
        passes: 1,
        fileBytes: coldFileBytes(bench),
        end: "close",
      });
      return { messagesPerSecond, cachedShare };
    }
    case "cold":
      return bench.run("readCold", { directory: cold.of(row), fileBytes: coldFileBytes(bench) });
    default:
      return bench.inFolder("read", (directory) =>
        bench.run("read", {
          kind: row,
          directory,
          bodyBytes: BODY_BYTES,
          seed: SEED,
          messages: Math.floor(logBytesOf(bench) / RECORD_BYTES),
          passes: PASSES,
        }),
      );
  }
}

async function readJava(
  bench: Bench,
  directory: string,
  input: { readonly passes: number; readonly fileBytes: number; readonly end: "close" | "kill" },
): Promise<number[]> {
  if (!bench.java) throw new Error("There is no Java store");
  return bench.java.read(directory, {
    bodyBytes: BODY_BYTES,
    logBytes: logBytesOf(bench),
    ...input,
  });
}

function logBytesOf({ settings }: Bench): number {
  return settings.logBytes / 4;
}

function coldFileBytes(bench: Bench): number {
  return bench.isSmoke ? MIB / 4 : 16 * MIB;
}

/** Of rounds that were measured one beside the other. */
function ratioOf(rounds: readonly Round[], others: readonly Round[]): Spread | undefined {
  const ratios = rounds.flatMap(({ messagesPerSecond }, i) => {
    const other = others[i];
    return other ? [messagesPerSecond / other.messagesPerSecond] : [];
  });
  return ratios.length > 0 ? spreadOf(ratios) : undefined;
}
