/**
 * Rows in columns.
 *
 * @module
 */

import type { Terminal } from "./terminal.ts";

/** @param left So many columns are aligned to the left, all others to the right. */
export async function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  terminal: Terminal,
  left = 1,
): Promise<void> {
  const widths = head.map((name, i) =>
    rows.reduce((width, row) => Math.max(width, (row[i] as string).length), name.length),
  );
  for (const row of [head, ...rows]) {
    const cells = row.map((cell, i) =>
      i < left ? cell.padEnd(widths[i] as number) : cell.padStart(widths[i] as number),
    );
    await terminal.line(cells.join("  "));
  }
}
