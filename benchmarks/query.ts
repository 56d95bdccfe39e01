/**
 * What does a query by key take, and what does the index cost the puts?
 *
 * ASYNC_FLUSH, 64 callers, 256 bytes of body, a unique key each; index files of the default size. The
 * same load with and without the index, one beside the other in each round. Then random keys are asked
 * for, one after the other, in files that were read before.
 *
 * Not measured: keys that many messages have, several files, cold files, the Java store.
 *
 * @module
 */

import { type Bench, type Part, SEED } from "./support/bench.ts";
import { type Spread, spreadOf, spreadOfMeasured } from "./support/numbers.ts";
import type { QueryMeasured } from "./support/query_job.ts";
import { figure, medianText, percent, type Report, spreadText } from "./support/report.ts";
import { target } from "./support/targets.ts";

const ROWS = ["with the index", "without it"] as const;
type Row = (typeof ROWS)[number];

const BODY_BYTES = 256;
/** Messages for each record of the longest log of another part. */
const KEYS_SHARE = 0.1;
const QUERIES = 20_000;
const QUERY_MS = 1;
const OF_PLAIN = 0.9;

export const query: Part = {
  question: "What does a query by key take, and what does the index cost the puts?",

  async measure(bench: Bench): Promise<Report> {
    const keys = Math.floor(bench.settings.records * KEYS_SHARE);
    const runs = await bench.inRounds<Row, QueryMeasured>(
      ROWS,
      (row) => `query: ${keys} keys ${row}`,
      (row) =>
        bench.inFolder("query", (directory) =>
          bench.run("query", {
            directory,
            indexed: row === "with the index",
            bodyBytes: BODY_BYTES,
            keys,
            queries: bench.isSmoke ? 100 : QUERIES,
            seed: SEED,
          }),
        ),
    );
    const of = (row: Row): readonly QueryMeasured[] => runs.get(row) ?? [];
    const own = (row: Row, value: (one: QueryMeasured) => number | undefined) =>
      spreadOfMeasured(of(row).map(value));
    const plain = of("without it");
    const share: Spread = spreadOf(
      of("with the index").map(
        ({ messagesPerSecond }, i) =>
          messagesPerSecond / (plain[i]?.messagesPerSecond ?? Number.NaN),
      ),
    );
    const p99 = own("with the index", ({ queryMs }) => queryMs?.p99);
    return {
      tables: [
        {
          title: `${keys} messages with a key, ${BODY_BYTES} B`,
          header: ["store", "messages/s", "of without", "loop p99 ms", "query p50 ms", "p99 ms"],
          rows: ROWS.map((row) => [
            row,
            spreadText(own(row, ({ messagesPerSecond }) => messagesPerSecond)),
            row === "with the index" ? spreadText(share, percent) : "-",
            medianText(own(row, ({ loopDelayMs }) => loopDelayMs.p99)),
            medianText(own(row, ({ queryMs }) => queryMs?.p50)),
            medianText(own(row, ({ queryMs }) => queryMs?.p99)),
          ]),
          notes: [],
        },
      ],
      targets: [
        target({
          name: "puts with the index, beside puts without it",
          found: share,
          bound: ">=",
          limit: OF_PLAIN,
          text: percent,
        }),
        target({
          name: "query by key, p99 in ms",
          found: p99,
          bound: "<",
          limit: QUERY_MS,
          text: figure,
        }),
      ],
      charts: [],
      results: Object.fromEntries(runs),
    };
  },
};
