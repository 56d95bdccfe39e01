/**
 * How much does a force suffer when others keep the thread pool busy?
 *
 * SYNC_FLUSH with one caller (a put is one force) and with 64, alone and beside eight jobs of the
 * same process (`crypto.pbkdf2`) that are always under way or waiting for one of libuv's threads.
 * With the machine's processors taken by these jobs, part of what a force loses is processor time: the
 * prototype beside it, a write and a sync on the same threads and nothing else, tells how much.
 *
 * @module
 */

import { type Bench, type Part, SEED } from "./support/bench.ts";
import { chartSvg } from "./support/chart.ts";
import { type Spread, spreadOf, spreadOfMeasured } from "./support/numbers.ts";
import type { PutMeasured } from "./support/put_job.ts";
import { medianText, type Report, spreadText, times } from "./support/report.ts";
import { target } from "./support/targets.ts";

interface Row {
  readonly subject: "forcelog" | "prototype";
  readonly callers: number;
  readonly jobs: number;
}

const JOBS = 8;
const BODY_BYTES = 1024;
const LIMIT = 2;

export const interference: Part = {
  question: "How much does a force suffer when others keep the thread pool busy?",

  async measure(bench: Bench): Promise<Report> {
    const { seconds, size } = bench.settings;
    const callers = size === "full" ? [1, 64] : [1];
    const subjects = bench.settings.without.has("prototype")
      ? (["forcelog"] as const)
      : (["forcelog", "prototype"] as const);
    const rows = callers.flatMap((count) =>
      subjects.flatMap((subject): Row[] => [
        { subject, callers: count, jobs: 0 },
        { subject, callers: count, jobs: JOBS },
      ]),
    );
    const runs = await bench.inRounds<Row, PutMeasured>(
      rows,
      (row) => `interference: ${row.subject}, callers ${row.callers}, jobs ${row.jobs}`,
      (row) =>
        bench.inFolder("busy", (directory) =>
          bench.run("put", {
            directory,
            subject: row.subject,
            mode: "SYNC_FLUSH",
            callers: row.callers,
            batch: 1,
            bodyBytes: BODY_BYTES,
            seconds,
            warmUpSeconds: Math.min(seconds / 4, 0.75),
            seed: SEED,
            poolJobs: row.jobs,
          }),
        ),
    );
    const own = (row: Row, value: (round: PutMeasured) => number | undefined) =>
      spreadOfMeasured((runs.get(row) ?? []).map(value));
    const slower = (row: Row): Spread | undefined => {
      const { subject, callers } = row;
      const alone = rows.find(
        (one) => one.subject === subject && one.callers === callers && one.jobs === 0,
      );
      const rounds = (alone && runs.get(alone)) ?? [];
      return spreadOf(
        (runs.get(row) ?? []).map(
          ({ latencyMs }, i) => latencyMs.p99 / (rounds[i]?.latencyMs.p99 ?? Number.NaN),
        ),
      );
    };
    const busy = rows.find((row) => row.callers === 1 && row.jobs > 0) as Row;
    return {
      tables: [
        {
          title: `SYNC_FLUSH beside ${JOBS} jobs of pbkdf2`,
          header: [
            "subject",
            "callers",
            "jobs",
            "messages/s",
            "p50 ms",
            "p99 ms",
            "p99 is",
            "p99.9 ms",
            "jobs/s",
            "loop p99 ms",
          ],
          rows: rows.map((row) => [
            row.subject,
            `${row.callers}`,
            `${row.jobs}`,
            spreadText(own(row, ({ messagesPerSecond }) => messagesPerSecond)),
            medianText(own(row, ({ latencyMs }) => latencyMs.p50)),
            spreadText(own(row, ({ latencyMs }) => latencyMs.p99)),
            row.jobs === 0 ? "-" : spreadText(slower(row), times),
            medianText(own(row, ({ latencyMs }) => latencyMs.p999)),
            medianText(own(row, ({ poolJobsPerSecond }) => poolJobsPerSecond)),
            medianText(own(row, ({ loopDelayMs }) => loopDelayMs.p99)),
          ]),
        },
      ],
      targets: [
        target({
          name: `force latency p99 beside ${JOBS} busy jobs of the thread pool, to that without`,
          found: slower(busy),
          bound: "<",
          limit: LIMIT,
          text: times,
        }),
      ],
      charts: [
        {
          name: "interference",
          svg: chartSvg({
            title: `Latency of a put in SYNC_FLUSH beside ${JOBS} jobs of the thread pool`,
            subtitle: bench.about,
            panels: [
              {
                title: "p99 in ms",
                log: false,
                categories: callers.map(
                  (count) => `${count} ${count === 1 ? "caller" : "callers"}`,
                ),
                series: [0, JOBS].map((jobs) => ({
                  name: jobs === 0 ? "alone" : `beside ${jobs} jobs`,
                  kind: "bar",
                  values: callers.map((count) => {
                    const row = rows.find(
                      (one) =>
                        one.subject === "forcelog" && one.callers === count && one.jobs === jobs,
                    );
                    return row && own(row, ({ latencyMs }) => latencyMs.p99)?.median;
                  }),
                })),
              },
            ],
          }),
        },
      ],
      results: rows.map((row) => ({ ...row, rounds: runs.get(row) })),
    };
  },
};
