/**
 * What power cuts leave of a simulated disk, over many of them.
 *
 * @module
 */

import { randomOf, type SimulatedDisk, type Survival } from "../../lib/testing/mod.ts";

/** What a disk writes whole or not at all, in bytes. */
export const SECTOR_BYTES = 512;

/** Everything that `look` has found after so many cuts, each once, sorted. */
export function outcomes(
  disk: SimulatedDisk,
  survival: Survival | undefined,
  look: (found: SimulatedDisk) => string,
  cuts = 400,
): string[] {
  const found = new Set<string>();
  for (let seed = 0; seed < cuts; seed++) {
    found.add(look(disk.cutPower(randomOf(seed * 7919), survival)));
  }
  return [...found].sort();
}

/** What is done with names survives; data as chance has it. */
export const ANY_DATA: Survival = { data: "random", names: "all" };
/** What was written survives; names as chance has it. */
export const ANY_NAMES: Survival = { data: "all", names: "subset" };

/** A letter for each sector: what it is filled with, `.` for zeros, `?` for a mixture. */
export function sectors(content: Uint8Array): string {
  let text = "";
  for (let at = 0; at < content.length; at += SECTOR_BYTES) {
    const sector = content.subarray(at, at + SECTOR_BYTES);
    const [first = 0] = sector;
    if (!sector.every((byte) => byte === first)) text += "?";
    else text += first === 0 ? "." : String.fromCharCode(first);
  }
  return text;
}

/** Bytes that {@linkcode sectors} calls `text`. */
export function filled(text: string): Buffer {
  return Buffer.concat(
    [...text].map((letter) => Buffer.alloc(SECTOR_BYTES, letter === "." ? 0 : letter)),
  );
}

/** The file at a path as letters, or why there is none. */
export function seen(disk: SimulatedDisk, path: string): string {
  const slash = path.lastIndexOf("/");
  const names = disk.list(path.slice(0, slash) || "/").map(({ name }) => name);
  return names.includes(path.slice(slash + 1)) ? sectors(disk.read(path)) || "empty" : "absent";
}
