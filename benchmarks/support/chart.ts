/**
 * Figures as a picture: panels of bars and lines, one below the other.
 *
 * @module
 */

import * as echarts from "echarts";
import { figure } from "./report.ts";

export interface Series {
  readonly name: string;
  readonly kind: "bar" | "line" | "dashed line";
  /** One for each category; `undefined` where there is none. */
  readonly values: readonly (number | undefined)[];
}

export interface Panel {
  /** What the figures are, with their unit. */
  readonly title: string;
  /** A logarithmic axis; otherwise it begins at 0. */
  readonly log: boolean;
  readonly categories: readonly string[];
  readonly series: readonly Series[];
}

export interface ChartContent {
  readonly title: string;
  /** Where it was measured. */
  readonly subtitle: string;
  readonly panels: readonly Panel[];
}

/** One colour for a name in all pictures. */
const COLORS: Readonly<Record<string, string>> = {
  forcelog: "#1f5fa8",
  SYNC_FLUSH: "#1f5fa8",
  ASYNC_FLUSH: "#d1741f",
  pool: "#2f8f5b",
  "floor, written": "#6f6f6f",
  "floor, sparse": "#a9a9a9",
  "floor, unsynced": "#a9a9a9",
  prototype: "#7fb2e5",
  "Java, threads": "#c23b3b",
  "Java, outstanding": "#e38f8f",
  Java: "#c23b3b",
  lmdb: "#2f8f5b",
  "lmdb, overlapping": "#8ccbaa",
  "better-sqlite3": "#8a5fb5",
  "classic-level": "#c9a227",
};
const OTHER_COLORS = ["#1f5fa8", "#d1741f", "#2f8f5b", "#c23b3b", "#8a5fb5", "#c9a227"];
const WIDTH = 1000;
/** Title, subtitle and the first line of the legend. */
const HEAD = 130;
const LEGEND_LINE = 40;
const NAMES_PER_LINE = 7;
const PANEL = 260;
const GAP = 90;
/** So many bars of a panel bear their figure. */
const LABELS_MAX = 12;

/** The picture as SVG. */
export function chartSvg({ title, subtitle, panels }: ChartContent): string {
  const names = [...new Set(panels.flatMap(({ series }) => series.map(({ name }) => name)))];
  const head = HEAD + LEGEND_LINE * (Math.ceil(names.length / NAMES_PER_LINE) - 1);
  const chart = echarts.init(null, null, {
    renderer: "svg",
    ssr: true,
    width: WIDTH,
    height: head + panels.length * (PANEL + GAP),
  });
  const top = (index: number): number => head + 40 + index * (PANEL + GAP);
  const colorOf = (name: string): string =>
    COLORS[name] ?? OTHER_COLORS[names.indexOf(name) % OTHER_COLORS.length] ?? "#555555";
  chart.setOption({
    animation: false,
    backgroundColor: "#ffffff",
    title: { text: title, subtext: subtitle, left: 20, top: 10 },
    legend: { top: 100, itemGap: 24, data: names },
    grid: panels.map((_, i) => ({ left: 90, right: 30, top: top(i), height: PANEL })),
    xAxis: panels.map(({ categories }, gridIndex) => ({
      type: "category" as const,
      data: [...categories],
      gridIndex,
    })),
    yAxis: panels.map((panel, gridIndex) => ({
      type: panel.log ? ("log" as const) : ("value" as const),
      name: panel.title,
      nameTextStyle: { align: "left" as const, fontWeight: "bold" as const },
      gridIndex,
    })),
    series: panels.flatMap(({ series, categories, log }, index) =>
      series.map(({ name, kind, values }) => {
        const color = colorOf(name);
        const style = { color, ...(kind === "dashed line" && { type: "dashed" as const }) };
        return {
          name,
          type: kind === "bar" ? ("bar" as const) : ("line" as const),
          xAxisIndex: index,
          yAxisIndex: index,
          data: values.map((value) =>
            value === undefined || !Number.isFinite(value) || (log && value <= 0) ? null : value,
          ),
          itemStyle: { color },
          ...(kind === "bar" ? { barMaxWidth: 90 } : {}),
          ...(kind === "bar" ? {} : { lineStyle: style }),
          label: {
            show: kind === "bar" && series.length * categories.length <= LABELS_MAX,
            position: "top" as const,
            formatter: ({ value }: { readonly value?: unknown }) => figure(Number(value)),
          },
        };
      }),
    ),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
