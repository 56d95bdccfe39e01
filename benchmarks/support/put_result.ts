/**
 * What is measured of puts: a row, who is measured at it, and what came of it.
 *
 * @module
 */

import type { LoopDelay } from "./loop_delay.ts";
import type { Mode } from "./modes.ts";
import { type Percentiles, type Spread, spreadOfMeasured } from "./numbers.ts";
import type { PutMeasured } from "./put_job.ts";
import { figure } from "./report.ts";
import type { PeerName } from "./subject.ts";

export type PutSubjectName =
  | "forcelog"
  | "prototype"
  | PeerName
  | "Java, threads"
  | "Java, outstanding"
  | "floor, written"
  | "floor, sparse"
  | "floor, unsynced";

export interface PutRow {
  readonly mode: Mode;
  /** In an open loop none await; their number is that of the closed row that gave the rate. */
  readonly callers: number;
  /** Messages of a put. */
  readonly batch: number;
  readonly bodyBytes: number;
  /** Messages a second, of an open loop. */
  readonly ratePerSecond?: number;
}

/** One subject in one round. */
export interface PutFigures {
  readonly messagesPerSecond: number;
  readonly latencyMs?: Percentiles;
  readonly loopDelayMs?: LoopDelay;
  /** Of a subject that ran in a process of ours. */
  readonly put?: PutMeasured;
}

export type PutRound = Partial<Record<PutSubjectName, PutFigures>>;

export interface PutRowResult extends PutRow {
  readonly messagesPerSecond: Partial<Record<PutSubjectName, Spread>>;
  /** Of the store to the subject, each within one round. */
  readonly ratio: Partial<Record<PutSubjectName, Spread>>;
  readonly rounds: readonly PutRound[];
}

export function resultOf(row: PutRow, rounds: readonly PutRound[]): PutRowResult {
  const messagesPerSecond: Partial<Record<PutSubjectName, Spread>> = {};
  const ratio: Partial<Record<PutSubjectName, Spread>> = {};
  const rate = (round: PutRound, of: PutSubjectName): number =>
    round[of]?.messagesPerSecond || Number.NaN;
  for (const subject of new Set(
    rounds.flatMap((round) => Object.keys(round) as PutSubjectName[]),
  )) {
    const found = spreadOfMeasured(rounds.map((round) => rate(round, subject)));
    const beside = rounds.map((round) => rate(round, "forcelog") / rate(round, subject));
    const ratios = spreadOfMeasured(beside);
    if (!found || !ratios) continue;
    messagesPerSecond[subject] = found;
    ratio[subject] = ratios;
  }
  return { ...row, messagesPerSecond, ratio, rounds };
}

/** A figure of a subject over the rounds, if it has it. */
export function figureOf(
  { rounds }: PutRowResult,
  subject: PutSubjectName,
  value: (measured: PutFigures) => number | undefined,
): Spread | undefined {
  return spreadOfMeasured(rounds.map((round) => round[subject] && value(round[subject])));
}

export function nameOf({
  mode,
  callers,
  batch,
  ratePerSecond,
}: Pick<PutRow, "mode" | "callers" | "batch"> & { readonly ratePerSecond?: number }): string {
  const crowd = `${callers} ${callers === 1 ? "caller" : "callers"}`;
  const load = ratePerSecond === undefined ? crowd : `${figure(ratePerSecond)} messages/s`;
  return `${mode} × ${load}${batch > 1 ? ` × batches of ${batch}` : ""}`;
}
