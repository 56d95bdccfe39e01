/**
 * What opening a store would do, without doing it; and what RocketMQ's own recovery would.
 *
 * @module
 */

import { resolve } from "node:path";
import { findNextRecord, scanLog } from "./commit_log/log_scanner.ts";
import { asStoreError } from "./errors.ts";
import { createDirectory } from "./io/create_directory.ts";
import { isHoleRecordAt } from "./message/hole_record.ts";
import type { RecordCheckOptions } from "./message/record.ts";
import { TopicTable } from "./metadata/topic_table.ts";
import { resolveOptions, type StoreOptions } from "./options.ts";
import { checkQueueTypes } from "./recovery/queue_types.ts";
import { checkLogIsThere, type RecoveryReport, recover } from "./recovery/recovery.ts";
import { type RocketmqRecovery, simulateRocketmq } from "./recovery/rocketmq_recovery.ts";
import { listStoreFiles, type StoreFiles } from "./recovery/store_files.ts";
import { checkStoreKind } from "./recovery/store_kind.ts";
import type { SegmentQueue } from "./segment/segment_queue.ts";
import { type OpenContext, openContext, type StoreEnvironment } from "./store_environment.ts";
import type { PhysicalOffset } from "./units.ts";

/** What opening a store would do. */
export interface RecoveryExplanation {
  /** What forcelog would find and do. No evidence was kept: it names none. */
  readonly ours: RecoveryReport;
  /** Whole records behind `ours.end`: older ones that were cut before, not part of this log. */
  readonly recordsBehind: number;
  /** What RocketMQ would do, the newest release first. */
  readonly rocketmq: readonly RocketmqExplanation[];
}

export interface RocketmqExplanation extends RocketmqRecovery {
  /** Messages behind `end` that forcelog keeps. */
  readonly recordsLost: number;
  /** Bytes of the log behind `end` that forcelog keeps. */
  readonly bytesLost: number;
}

/**
 * Tells what opening the store would do, with the same options. Nothing is changed, no lock is
 * taken, and a broker may be using the store: then it is what a crash at this moment would lead to.
 *
 * @throws What `MessageStore.open` throws, the lock apart.
 */
export async function explainRecovery(
  directory: string,
  options: StoreOptions = {},
  environment: StoreEnvironment = {},
): Promise<RecoveryExplanation> {
  const given = { ...environment, readOnly: true };
  const context = openContext(resolve(directory), resolveOptions(options), given);
  // As it lies there: recovery changes its own view.
  const base = openContext(resolve(directory), resolveOptions(options), given);
  try {
    return await explain(context, base);
  } catch (error) {
    throw asStoreError(error, `Cannot explain the recovery of ${context.paths.root}`);
  } finally {
    await context.files.closeAll();
    await base.files.closeAll();
  }
}

async function explain(context: OpenContext, base: OpenContext): Promise<RecoveryExplanation> {
  const { fileSystem, onWarning } = context.environment;
  for (const warning of await checkStoreKind(fileSystem, context.paths, true)) onWarning(warning);
  const { report, store } = await oursOf(context);
  const found = await filesOf(base);
  const check: RecordCheckOptions = {
    checkCrc: true,
    forceVerifyPropCRC: context.options.forceVerifyPropCRC,
  };
  const rocketmq: RocketmqExplanation[] = [];
  for (const version of ["5.5", "5.3", "4.9"] as const) {
    const theirs = await simulateRocketmq(found, base, version);
    const { end } = theirs;
    rocketmq.push({
      ...theirs,
      recordsLost: await countRecords(store.segments, end, report.end, check),
      bytesLost: Math.max(report.end - end, 0),
    });
  }
  const behind = await countRecords(found.segments, report.end, Number.POSITIVE_INFINITY, check);
  return { ours: withoutEvidence(report), recordsBehind: behind, rocketmq };
}

async function filesOf({ environment, options, paths, files }: OpenContext): Promise<StoreFiles> {
  const topics = new TopicTable({
    ...environment,
    config: paths.config,
    own: paths.own,
    now: () => environment.clock.now(),
    warn: environment.onWarning,
    checkWritable: () => undefined,
  });
  await topics.load();
  const store = await listStoreFiles({
    fileSystem: environment.fileSystem,
    files,
    paths,
    options,
    adoptFileSizes: true,
    warn: environment.onWarning,
    queueTypeFor: (topic) => topics.queueTypeOf(topic),
  });
  checkLogIsThere(store, options);
  checkQueueTypes(store.queues, topics, "to be completed");
  return store;
}

async function oursOf(
  context: OpenContext,
): Promise<{ readonly report: RecoveryReport; readonly store: StoreFiles }> {
  const { environment, options, paths, files, delayLevels } = context;
  const store = await filesOf(context);
  for (const path of [paths.own, paths.logOwn]) await createDirectory(environment.fileSystem, path);
  const { report } = await recover(store, {
    fileSystem: environment.fileSystem,
    files,
    paths,
    clock: environment.clock,
    options: {
      ...options,
      mappedFileSizeCommitLog: store.segments.fileSize,
      mappedFileSizeConsumeQueue: store.queues.context.fileSize,
    },
    delayLevels,
    // It changes nothing that can be seen.
    syncFailed: false,
  });
  return { report, store };
}

/** Messages whose whole records begin between two offsets, over whatever lies in between. */
async function countRecords(
  segments: SegmentQueue,
  from: PhysicalOffset,
  to: PhysicalOffset,
  check: RecordCheckOptions,
): Promise<number> {
  let count = 0;
  for (let offset = from; offset < to; ) {
    let isBad = false;
    offset = await scanLog(segments, offset, check, (step) => {
      if (step.offset >= to) return "stop";
      if (step.kind === "record" && !isHoleRecordAt(step.bytes, step.at)) count++;
      isBad = step.kind === "bad";
      return undefined;
    });
    if (!isBad) break;
    offset = await findNextRecord(segments, offset, check);
  }
  return count;
}

/** What a look at the store has kept nowhere is not named. */
function withoutEvidence(report: RecoveryReport): RecoveryReport {
  return {
    ...report,
    cut: report.cut && { ...report.cut, evidence: [] },
    holes: report.holes.map((hole) => ({ ...hole, evidence: [] })),
  };
}
