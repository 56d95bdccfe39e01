/**
 * One file of fixed size in a sequence of files. RocketMQ: `MappedFile`, without the mapping.
 *
 * It has no positions of its own: how much of it is wrote, committed and flushed follows from the
 * three offsets of the whole log (`flush_pipeline.ts`), so that there is one truth.
 *
 * @module
 */

import { sep } from "node:path";
import type { FilePosition, PhysicalOffset } from "../units.ts";

export interface Segment {
  readonly path: string;
  /** Offset of its first byte, in bytes from the start of the whole sequence: its name. */
  readonly start: PhysicalOffset;
  readonly size: number;
  /**
   * The file that this store created under the name, until its first write has made sure that the
   * name still leads there. A Java broker's `load()` takes no lock and deletes pre-created files.
   */
  unverifiedIdentity: string | undefined;
}

/** Digits of a file name (`UtilAll.offset2FileName`). */
const NAME_DIGITS = 20;

/** RocketMQ's name of the segment that starts at `start`: decimal, 20 digits or more. */
export function segmentName(start: PhysicalOffset): string {
  return String(start).padStart(NAME_DIGITS, "0");
}

/** The start that a file name tells, or `undefined` if it is no segment's name. */
export function segmentStart(name: string): PhysicalOffset | undefined {
  if (!/^\d{20,}$/.test(name)) return undefined;
  const start = Number(name);
  return Number.isSafeInteger(start) ? start : undefined;
}

export function segmentOf(directory: string, start: PhysicalOffset, size: number): Segment {
  const path = `${directory}${sep}${segmentName(start)}`;
  return { path, start, size, unverifiedIdentity: undefined };
}

/** An offset of the sequence as a position in this file, between 0 and its size. */
export function positionIn(segment: Segment, offset: PhysicalOffset): FilePosition {
  return Math.min(Math.max(offset - segment.start, 0), segment.size);
}
