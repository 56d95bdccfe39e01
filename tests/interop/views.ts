/**
 * What two stores must agree on when they look at the same directory.
 *
 * @module
 */

import type { GoldenEntry, GoldenRecord } from "../support/golden.ts";

/** What a dump says, of RocketMQ's and of ours. */
export interface Dump {
  readonly loaded: boolean;
  readonly error?: string;
  readonly checkpointBefore: readonly number[] | null;
  readonly filesBefore: Readonly<Record<string, number>>;
  readonly commitLog: {
    readonly minOffset: number;
    readonly maxOffset: number;
    readonly records: readonly GoldenEntry[];
  };
  readonly queues: readonly {
    readonly topic: string;
    readonly queueId: number;
    readonly min: number;
    readonly max: number;
    readonly units: readonly (readonly [offset: number, size: number, tagsCode: string])[];
    readonly unreadableOrMisplaced: number;
  }[];
}

/**
 * The log record by record (with a hash over all bytes of each), and the queues unit by unit. Keys
 * are not looked at: whoever wrote no index answers no query.
 */
export interface View {
  readonly minOffset: number;
  readonly maxOffset: number;
  readonly records: readonly GoldenEntry[];
  readonly queues: Readonly<Record<string, unknown>>;
}

export function viewOf(dump: Dump): View {
  if (!dump.loaded) throw new Error(`the store was refused: ${dump.error ?? "no reason is given"}`);
  const queues: Record<string, unknown> = {};
  for (const { topic, queueId, min, max, units } of dump.queues) {
    // An object in memory that was never written to.
    if (min === 0 && max === 0) continue;
    queues[`${topic}/${queueId}`] = { min, max, units };
  }
  const { minOffset, maxOffset, records } = dump.commitLog;
  return { minOffset, maxOffset, records, queues };
}

/** The first difference, as text; `undefined` if there is none. */
export function difference(wanted: unknown, found: unknown, at = ""): string | undefined {
  if (
    typeof wanted !== "object" ||
    wanted === null ||
    typeof found !== "object" ||
    found === null
  ) {
    return Object.is(wanted, found)
      ? undefined
      : `${at}: ${JSON.stringify(wanted)} is due, ${JSON.stringify(found)} was found`;
  }
  const [a, b] = [wanted, found] as Record<string, unknown>[];
  for (const key of new Set([...Object.keys(wanted), ...Object.keys(found)])) {
    const here = difference(a?.[key], b?.[key], `${at}/${key}`);
    if (here !== undefined) return here;
  }
  return undefined;
}

/** Whether it is a good record. */
export function isRecord(entry: GoldenEntry): entry is GoldenRecord {
  return "sha256" in entry;
}

/** Records that are damaged, and units that lead to no message: there must be none. */
export function faultsOf(dump: Dump): string[] {
  const bad = dump.commitLog.records.filter((entry) => "bad" in entry || "gap" in entry);
  return [
    ...bad.map((entry) => JSON.stringify(entry)),
    ...dump.queues
      .filter(({ unreadableOrMisplaced }) => unreadableOrMisplaced > 0)
      .map(({ topic, queueId, unreadableOrMisplaced: n }) => `${topic}/${queueId}: ${n}`),
  ];
}
