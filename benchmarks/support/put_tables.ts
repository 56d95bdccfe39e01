/**
 * Puts as tables and pictures.
 *
 * @module
 */

import { chartSvg, type Panel, type Series } from "./chart.ts";
import type { Mode } from "./modes.ts";
import type { Percentiles } from "./numbers.ts";
import { figureOf, type PutFigures, type PutRowResult, type PutSubjectName } from "./put_result.ts";
import {
  bytesText,
  type Chart,
  figure,
  medianText,
  percent,
  spreadText,
  type Table,
  times,
} from "./report.ts";

const MIB = 1024 * 1024;

export function storeTable(results: readonly PutRowResult[]): Table {
  return {
    title: "Puts, closed loop",
    header: [
      "mode",
      "callers",
      "batch",
      "body",
      "messages/s",
      "MiB/s",
      "of written blocks",
      "of a sparse file",
      "p50 ms",
      "p99 ms",
      "p99.9 ms",
      "messages/force",
      "CPU µs",
      "loop p99 ms",
      "loop max ms",
    ],
    rows: results.map((result) => {
      const { mode, callers, batch, bodyBytes, messagesPerSecond, ratio } = result;
      const own = (value: (measured: PutFigures) => number | undefined) =>
        figureOf(result, "forcelog", value);
      return [
        mode,
        `${callers}`,
        `${batch}`,
        bytesText(bodyBytes),
        spreadText(messagesPerSecond.forcelog),
        medianText(messagesPerSecond.forcelog, (rate) => figure((rate * bodyBytes) / MIB)),
        spreadText(ratio["floor, written"], percent),
        spreadText(ratio["floor, sparse"] ?? ratio["floor, unsynced"], percent),
        medianText(own(({ latencyMs }) => latencyMs?.p50)),
        medianText(own(({ latencyMs }) => latencyMs?.p99)),
        medianText(own(({ latencyMs }) => latencyMs?.p999)),
        mode === "SYNC_FLUSH" ? medianText(own((one) => one.put?.messagesPerForce)) : "-",
        medianText(own((one) => one.put?.cpuMicros)),
        medianText(own(({ loopDelayMs }) => loopDelayMs?.p99)),
        medianText(own(({ loopDelayMs }) => loopDelayMs?.max)),
      ];
    }),
    notes: [
      "",
      "Of a sparse file: in the asynchronous modes beside writes to one with a sync every 500 ms.",
    ],
  };
}

export function besideTable(results: readonly PutRowResult[]): Table {
  return {
    title: "Beside it, in the same rounds",
    header: [
      "mode",
      "callers",
      "batch",
      "body",
      "subject",
      "messages/s",
      "forcelog is",
      "p50 ms",
      "p99 ms",
      "loop p99 ms",
    ],
    rows: results.flatMap((result) =>
      (Object.keys(result.ratio) as PutSubjectName[])
        .filter((subject) => subject !== "forcelog")
        .map((subject) => [
          result.mode,
          `${result.callers}`,
          `${result.batch}`,
          bytesText(result.bodyBytes),
          subject,
          spreadText(result.messagesPerSecond[subject]),
          spreadText(result.ratio[subject], times),
          medianText(figureOf(result, subject, ({ latencyMs }) => latencyMs?.p50)),
          medianText(figureOf(result, subject, ({ latencyMs }) => latencyMs?.p99)),
          medianText(figureOf(result, subject, ({ loopDelayMs }) => loopDelayMs?.p99)),
        ]),
    ),
    notes: ["", "Latencies of a floor are those of one call."],
  };
}

export function openTable(results: readonly PutRowResult[]): Table {
  return {
    title: "Puts at a fixed rate: latency from the moment at which a put was due",
    header: [
      "mode",
      "batch",
      "body",
      "messages/s",
      "p50 ms",
      "p99 ms",
      "p99.9 ms",
      "max ms",
      "loop p99 ms",
    ],
    rows: results.map((result) => {
      const own = (value: (measured: PutFigures) => number | undefined) =>
        figureOf(result, "forcelog", value);
      return [
        result.mode,
        `${result.batch}`,
        bytesText(result.bodyBytes),
        figure(result.ratePerSecond ?? 0),
        medianText(own(({ latencyMs }) => latencyMs?.p50)),
        medianText(own(({ latencyMs }) => latencyMs?.p99)),
        spreadText(own(({ latencyMs }) => latencyMs?.p999)),
        spreadText(own(({ latencyMs }) => latencyMs?.max)),
        medianText(own(({ loopDelayMs }) => loopDelayMs?.p99)),
      ];
    }),
  };
}

/** One picture for each number of messages of a put. */
export function putCharts(results: readonly PutRowResult[], about: string): Chart[] {
  const batches = [...new Set(results.map(({ batch }) => batch))];
  return batches.map((batch) => {
    const rows = results.filter((row) => row.batch === batch);
    const modes = [...new Set(rows.map(({ mode }) => mode))];
    const kind = batch === 1 ? "single puts" : `puts of ${batch} messages`;
    return {
      name: `put-${batch}`,
      svg: chartSvg({
        title: `Messages per second, ${kind}`,
        subtitle: about,
        panels: [
          ...modes.map((mode) =>
            ratePanel(
              mode,
              rows.filter((row) => row.mode === mode),
            ),
          ),
          latencyPanel(rows),
        ],
      }),
    };
  });
}

function ratePanel(mode: Mode, rows: readonly PutRowResult[]): Panel {
  const subjects = [
    ...new Set(rows.flatMap(({ ratio }) => Object.keys(ratio) as PutSubjectName[])),
  ];
  return {
    title: `${mode}: messages per second`,
    log: true,
    categories: rows.map(({ callers }) => `${callers} ${callers === 1 ? "caller" : "callers"}`),
    series: subjects.map((name) => ({
      name,
      kind: "bar",
      values: rows.map(({ messagesPerSecond }) => messagesPerSecond[name]?.median),
    })),
  };
}

function latencyPanel(rows: readonly PutRowResult[]): Panel {
  const modes = [...new Set(rows.map(({ mode }) => mode))];
  const callers = [...new Set(rows.map((row) => row.callers))].sort((a, b) => a - b);
  const values = (mode: Mode, value: (latencies: Percentiles) => number) =>
    callers.map((count) => {
      const row = rows.find((one) => one.mode === mode && one.callers === count);
      return (
        row && figureOf(row, "forcelog", ({ latencyMs }) => latencyMs && value(latencyMs))?.median
      );
    });
  return {
    title: "latency of forcelog in ms: p50 full, p99 dashed",
    log: true,
    categories: callers.map((count) => `${count} ${count === 1 ? "caller" : "callers"}`),
    series: modes.flatMap((mode): Series[] => [
      { name: mode, kind: "line", values: values(mode, ({ p50 }) => p50) },
      { name: mode, kind: "dashed line", values: values(mode, ({ p99 }) => p99) },
    ]),
  };
}
