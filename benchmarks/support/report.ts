/**
 * Figures as text: columns that line up.
 *
 * @module
 */

import type { Spread } from "./numbers.ts";

/** Rows of cells with a header; columns of figures are aligned to the right. */
export function tableText(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, i) =>
    Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)),
  );
  const right = header.map((_, i) => rows.every((row) => /^([\d<]|-$|$)/.test(row[i] ?? "")));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => (right[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(header), rule, ...rows.map(line)].join("\n");
}

/** A figure with three digits that count, thousands apart. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (value >= 100) return Math.round(value).toLocaleString("en-US");
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(value >= 0.1 || value === 0 ? 2 : 3);
}

/** `median [min-max]`; the median alone where there was one round. */
export function spreadText(spread: Spread, text: (value: number) => string = figure): string {
  const { median, min, max } = spread;
  return min === max ? text(median) : `${text(median)} [${text(min)}-${text(max)}]`;
}

export function percent(ratio: number): string {
  return `${Math.round(ratio * 100)}%`;
}

/** Bytes as people say them. */
export function bytesText(bytes: number): string {
  if (bytes >= 1024 * 1024) return `${Number((bytes / 1024 / 1024).toFixed(1))} MiB`;
  return bytes >= 1024 ? `${Number((bytes / 1024).toFixed(1))} KiB` : `${bytes} B`;
}
