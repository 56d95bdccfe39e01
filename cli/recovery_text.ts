/**
 * What a recovery found and did, or would do, for people and for programs.
 *
 * @module
 */

import type { RecoveryReport } from "../lib/mod.ts";
import type { JsonObject } from "./json.ts";
import { bytesText, printable } from "./terminal.ts";

/** @param done It was carried out: there is evidence. */
export function recoveryJson(report: RecoveryReport, done: boolean): JsonObject {
  const { cut, holes, left, gaps, vanished } = report;
  return {
    cleanStop: report.cleanStop,
    scanStart: { ...report.scanStart },
    scannedRecords: report.scannedRecords,
    end: report.end,
    cut: cut ? { ...cut, evidence: done ? cut.evidence : undefined } : null,
    holes: holes.map((hole) => ({ ...hole, evidence: done ? hole.evidence : undefined })),
    left: left.map((place) => ({ ...place })),
    gaps: gaps.map((gap) => ({ ...gap })),
    vanished: vanished ? { ...vanished } : null,
    misplaced: report.misplaced,
    rebuiltQueues: report.rebuiltQueues,
    removedFiles: report.removedFiles,
  };
}

/** @param done It was carried out. */
export function recoveryTexts(report: RecoveryReport, done: boolean): string[] {
  const { cleanStop, scanStart, scannedRecords, cut, holes, left, gaps, vanished } = report;
  const does = (plain: string, past: string): string => (done ? past : `would ${plain}`);
  const kept = (evidence: readonly string[]): string =>
    done ? `; kept in ${evidence.map(printable).join(", ")}` : "; the bytes would be kept";
  return [
    `${does("read", "read")} ${plural(scannedRecords, "record")} from ${scanStart.offset} on (${scanStart.why})`,
    ...holes.map(({ offset, position, path, reason, size, covered, evidence }) => {
      const verb = covered ? does("cover", "covered") : does("leave", "left");
      const rest = covered
        ? kept(evidence)
        : "; it is too small for a record to cover it: RocketMQ would cut the log there";
      return `${verb} ${bytesText(size)} of damage at ${offset}, position ${position} of ${path}: ${reason}${rest}`;
    }),
    ...(cut
      ? [
          `${does("cut", "cut")} the log at ${cut.offset}, position ${cut.position} of ${cut.path}: ${cut.reason}; ${bytesText(cut.droppedBytes)}${kept(cut.evidence)}`,
        ]
      : []),
    ...left.map(
      ({ path, position, reason }) =>
        `${does("leave", "left")} position ${position} of ${path}: ${reason}`,
    ),
    ...gaps.map(
      ({ offset, size }) => `files of the log are missing: ${bytesText(size)} at ${offset}`,
    ),
    ...(vanished
      ? [`${bytesText(vanished.size)} at ${vanished.offset} were durable once, and are gone`]
      : []),
    ...report.misplaced.map((offset) => `no queue leads to the record at ${offset}`),
    ...report.removedFiles.map((path) => `${does("remove", "removed")} the empty file ${path}`),
    ...(report.rebuiltQueues.length > 0
      ? [
          `${does("rebuild", "rebuilt")} queues from the log: ${report.rebuiltQueues.map(printable).join(", ")}`,
        ]
      : []),
    ...(!cleanStop && !cut ? [does("cut nothing", "cut nothing")] : []),
  ];
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
