/**
 * What a part found, as data, tables and text.
 *
 * @module
 */

import type { Spread } from "./numbers.ts";
import type { Target } from "./targets.ts";

export interface Table {
  readonly title: string;
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly notes?: readonly string[];
}

export interface Chart {
  /** Of its file, without the ending. */
  readonly name: string;
  readonly svg: string;
}

export interface Report {
  readonly tables: readonly Table[];
  readonly targets: readonly Target[];
  readonly charts: readonly Chart[];
  /** Everything that was measured, round by round. */
  readonly results: unknown;
}

/** The table as text, under its title. */
export function tableText({ title, header, rows, notes = [] }: Table): string {
  return [title, "", columnsText(header, rows), ...notes].join("\n");
}

/** The table for a document. */
export function tableMarkdown({ title, header, rows, notes = [] }: Table): string {
  const right = rightColumns(header, rows);
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    `**${title}**`,
    "",
    line(header),
    `|${right.map((isRight) => (isRight ? "---:" : "---")).join("|")}|`,
    ...rows.map(line),
    ...(notes.length > 0 ? ["", ...notes] : []),
  ].join("\n");
}

/** Rows of cells with a header; columns of figures are aligned to the right. */
function columnsText(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, i) =>
    Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)),
  );
  const right = rightColumns(header, rows);
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => (right[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(header), rule, ...rows.map(line)].join("\n");
}

function rightColumns(
  header: readonly string[],
  rows: readonly (readonly string[])[],
): readonly boolean[] {
  return header.map((_, i) => rows.every((row) => /^([\d<]|-$|$)/.test(row[i] ?? "")));
}

/** A figure with three digits that count, thousands apart. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "-";
  if (value >= 100) return Math.round(value).toLocaleString("en-US");
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(value >= 0.1 || value === 0 ? 2 : 3);
}

/** A count, thousands apart. */
export function whole(value: number): string {
  return Number.isFinite(value) ? Math.round(value).toLocaleString("en-US") : "-";
}

/** `median [min-max]`; the median alone where there was one round; `-` for nothing. */
export function spreadText(
  spread: Spread | undefined,
  text: (value: number) => string = figure,
): string {
  if (!spread) return "-";
  const { median, min, max } = spread;
  return min === max ? text(median) : `${text(median)} [${text(min)}-${text(max)}]`;
}

/** The median alone. */
export function medianText(
  spread: Spread | undefined,
  text: (value: number) => string = figure,
): string {
  return spread ? text(spread.median) : "-";
}

export function percent(ratio: number): string {
  return `${Math.round(ratio * 100)}%`;
}

/** So many times as much. */
export function times(ratio: number): string {
  return `${figure(ratio)}×`;
}

/** Bytes as people say them. */
export function bytesText(bytes: number): string {
  if (bytes >= 1024 ** 3) return `${Number((bytes / 1024 ** 3).toFixed(1))} GiB`;
  if (bytes >= 1024 ** 2) return `${Number((bytes / 1024 ** 2).toFixed(1))} MiB`;
  return bytes >= 1024 ? `${Number((bytes / 1024).toFixed(1))} KiB` : `${bytes} B`;
}
