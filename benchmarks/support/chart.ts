/**
 * The figures of one body size as a picture: throughput beside its floors, and latency.
 *
 * @module
 */

import * as echarts from "echarts";
import { bytesText } from "./report.ts";

export interface ChartRow {
  readonly mode: string;
  readonly callers: number;
  readonly messagesPerSecond: number;
  readonly floorPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Chart {
  readonly bodyBytes: number;
  readonly subtitle: string;
  readonly rows: readonly ChartRow[];
}

const COLORS: Readonly<Record<string, string>> = {
  SYNC_FLUSH: "#1f5fa8",
  ASYNC_FLUSH: "#d1741f",
  pool: "#2f8f5b",
};
const FLOOR_COLOR = "#8a8a8a";
const WIDTH = 1000;
const HEIGHT = 900;

/** SVG: above messages per second by callers, each mode's floor as a mark; below p50 and p99. */
export function chartSvg({ bodyBytes, subtitle, rows }: Chart): string {
  const chart = echarts.init(null, null, {
    renderer: "svg",
    ssr: true,
    width: WIDTH,
    height: HEIGHT,
  });
  const modes = [...new Set(rows.map(({ mode }) => mode))];
  const callers = [...new Set(rows.map((row) => row.callers))].sort((a, b) => a - b);
  const values = (mode: string, value: (row: ChartRow) => number): (number | null)[] =>
    callers.map((count) => {
      const row = rows.find((one) => one.mode === mode && one.callers === count);
      const found = row === undefined ? Number.NaN : value(row);
      return Number.isFinite(found) && found > 0 ? found : null;
    });
  const names = callers.map((count) => `${count} ${count === 1 ? "caller" : "callers"}`);
  const nameTextStyle = { align: "left" } as const;
  const style = (mode: string) => ({ color: COLORS[mode] ?? "#555555" });
  chart.setOption({
    animation: false,
    backgroundColor: "#ffffff",
    title: {
      text: `Flush modes, bodies of ${bytesText(bodyBytes)}`,
      subtext: subtitle,
      left: 20,
      top: 10,
    },
    legend: { top: 90, itemGap: 40, data: [...modes, "floor"] },
    grid: [
      { left: 90, right: 30, top: 150, height: 300 },
      { left: 90, right: 30, top: 550, height: 300 },
    ],
    xAxis: [
      { type: "category", data: names, gridIndex: 0 },
      { type: "category", data: names, gridIndex: 1 },
    ],
    yAxis: [
      { type: "log", name: "messages per second", gridIndex: 0, nameTextStyle },
      { type: "log", name: "latency in ms: p50 full, p99 dashed", gridIndex: 1, nameTextStyle },
    ],
    series: [
      ...modes.map((mode) => ({
        name: mode,
        type: "bar" as const,
        data: values(mode, (row) => row.messagesPerSecond),
        itemStyle: style(mode),
      })),
      ...modes.map((mode, i) => ({
        name: "floor",
        type: "custom" as const,
        data: values(mode, (row) => row.floorPerSecond),
        itemStyle: { color: FLOOR_COLOR },
        renderItem: floorMark(i, modes.length),
      })),
      ...modes.flatMap((mode) => [
        {
          name: mode,
          type: "line" as const,
          xAxisIndex: 1,
          yAxisIndex: 1,
          data: values(mode, (row) => row.p50Ms),
          itemStyle: style(mode),
          lineStyle: style(mode),
        },
        {
          name: `${mode} p99`,
          type: "line" as const,
          xAxisIndex: 1,
          yAxisIndex: 1,
          data: values(mode, (row) => row.p99Ms),
          itemStyle: style(mode),
          lineStyle: { ...style(mode), type: "dashed" as const },
        },
      ]),
    ],
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

/** A short line over the bar of the mode, at its floor. */
function floorMark(index: number, count: number): echarts.CustomSeriesRenderItem {
  return (_params, api) => {
    const value = api.value(1);
    if (typeof value !== "number" || !(value > 0)) return null;
    const [x, y] = api.coord([api.value(0), value]) as [number, number];
    const size = api.size?.([1, 0]);
    const width = Array.isArray(size) ? (size[0] ?? 0) : (size ?? 0);
    // Bars take four fifths of a category, side by side.
    const bar = (width * 0.8) / count;
    const left = x - width * 0.4 + bar * index;
    return {
      type: "line",
      shape: { x1: left, y1: y, x2: left + bar, y2: y },
      style: { stroke: FLOOR_COLOR, lineWidth: 3 },
    };
  };
}
