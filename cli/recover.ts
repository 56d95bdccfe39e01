/**
 * `forcelog recover` and `forcelog repair`: what an open does to a store that was not closed, or is
 * damaged; before it is done, or doing it.
 *
 * @module
 */

import { resolve } from "node:path";
import {
  explainRecovery,
  MessageStore,
  type RecoveryReport,
  type RocketmqExplanation,
  type StoreOptions,
} from "../lib/mod.ts";
import { readConfig } from "./arguments.ts";
import { type JsonObject, jsonText } from "./json.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { plural, recoveryJson, recoveryTexts } from "./recovery_text.ts";
import { checkStore } from "./store_directory.ts";
import { bytesText, printable, type Terminal } from "./terminal.ts";

/** Width of the column that says whose recovery it is. */
const HEAD_CHARS = 16;

interface RecoverOptions {
  readonly dir: string;
  readonly explain?: true;
  readonly config?: string;
  readonly json?: true;
}

const CHANGES = `
This changes the store: nobody else may have it open. Bytes that are cut or covered are kept in its
folder forcelog/. Exit code 1 if something could not be mended.`;

export const recover: Verb = (command, terminal) => {
  command
    .requiredOption("--dir <directory>", "the store's directory")
    .option("--explain", "only say what would be done, and what RocketMQ's own recovery would do")
    .option("--config <json>", "options of the store: JSON text or a file")
    .option("--json", "print one JSON object")
    .addHelpText(
      "after",
      `
Opens a store, which recovers it, and closes it again.
${CHANGES}

With --explain:${READS_ONLY}

Examples:
  forcelog recover --dir /data/store --explain
  forcelog recover --dir /data/store --explain --config '{"damagedLogPolicy": "cut"}'
  forcelog recover --dir /data/store`,
    )
    .action(async (options: RecoverOptions) => {
      const config = await readConfig(options.config);
      await checkStore(options.dir, config);
      if (options.explain) await explain(options, config, terminal);
      else await carryOut(options, config, terminal);
    });
};

export const repair: Verb = (command, terminal) => {
  command
    .requiredOption("--dir <directory>", "the store's directory")
    .option("--config <json>", "options of the store: JSON text or a file")
    .option("--json", "print one JSON object")
    .addHelpText(
      "after",
      `
Reads the whole log, not only what a recovery has to: damage anywhere is covered with records that
say "nothing here", so that RocketMQ does not cut the log there, and all queues are made anew.
${CHANGES}

Examples:
  forcelog recover --dir /data/store --explain --config '{"recoverWholeLog": true}'
  forcelog repair --dir /data/store`,
    )
    .action(async (options: RecoverOptions) => {
      const config = { ...(await readConfig(options.config)), recoverWholeLog: true };
      await checkStore(options.dir, config);
      await carryOut(options, config, terminal);
    });
};

async function explain(
  { dir, json }: RecoverOptions,
  config: StoreOptions,
  terminal: Terminal,
): Promise<void> {
  const { ours, recordsBehind, rocketmq } = await explainRecovery(dir, config, {
    onWarning: (warning) => terminal.note(`warning: ${printable(warning)}`),
  });
  if (json) {
    const forcelog = { ...recoveryJson(ours, false), recordsBehind };
    await terminal.line(jsonText({ forcelog, rocketmq: rocketmq.map(rocketmqJson) }));
    return;
  }
  const { watermarks } = ours.checkpoint;
  await terminal.line(`${"store".padEnd(HEAD_CHARS)}${printable(resolve(dir))}`);
  await terminal.line(
    `${"last stop".padEnd(HEAD_CHARS)}${ours.cleanStop ? "clean" : "not clean: there is a file abort"}; ${
      watermarks
        ? `durable: the log up to ${watermarks.logEnd}, queues of what is below ${watermarks.queuesEnd}`
        : "the checkpoint holds no watermarks of forcelog, or a Java store was here since"
    }`,
  );
  const behind =
    recordsBehind > 0 ? [`behind its end lie ${plural(recordsBehind, "older record")}`] : [];
  const texts = [...recoveryTexts(ours, false), `the log would end at ${ours.end}`, ...behind];
  await list("forcelog", texts, terminal);
  for (const plan of rocketmq)
    await list(`RocketMQ ${plan.version}`, rocketmqTexts(plan), terminal);
}

async function carryOut(
  { dir, json }: RecoverOptions,
  config: StoreOptions,
  terminal: Terminal,
): Promise<void> {
  const warnings: string[] = [];
  const store = await MessageStore.open(dir, config, {
    onWarning: (warning) => warnings.push(warning),
  });
  const report = store.recovery;
  await store.close();
  if (json) await terminal.line(jsonText({ forcelog: recoveryJson(report, true) }));
  else
    await list(
      "forcelog",
      [...recoveryTexts(report, true), `the log ends at ${report.end}`],
      terminal,
    );
  for (const text of leftOver(report)) terminal.fail(new Error(text));
  // Those about damage say again what stands above.
  for (const warning of warnings) {
    if (/lock/.test(warning)) terminal.note(`warning: ${printable(warning)}`);
  }
}

/** What no recovery can mend. */
function leftOver({ holes, left, gaps, vanished, misplaced }: RecoveryReport): string[] {
  const uncovered = holes.filter(({ covered }) => !covered).length + left.length;
  return [
    ...(uncovered > 0 ? [`Cannot mend ${plural(uncovered, "damaged place")}`] : []),
    ...(gaps.length > 0
      ? [`Cannot bring back files of the log: ${plural(gaps.length, "gap")}`]
      : []),
    ...(vanished ? [`Cannot bring back ${bytesText(vanished.size)} at the end of the log`] : []),
    ...(misplaced.length > 0
      ? [`Cannot place ${plural(misplaced.length, "record")} in a queue`]
      : []),
  ];
}

function rocketmqJson(plan: RocketmqExplanation): JsonObject {
  const { scanStart, refusal, stop, queues, ...rest } = plan;
  return {
    ...rest,
    refusal: refusal ?? null,
    scanStart: { ...scanStart },
    stop: stop ? { ...stop } : null,
    queues: queues.map((queue) => ({ ...queue, begunAt: queue.begunAt ?? null })),
  };
}

function rocketmqTexts(plan: RocketmqExplanation): string[] {
  const { refusal, scanStart, scannedRecords, end, stop, recordsLost, bytesLost, queues } = plan;
  if (refusal !== undefined) return [`would not open it: ${refusal}`];
  const shorter = queues.filter(({ before, max }) => max < before);
  return [
    `would read ${plural(scannedRecords, "record")} from ${scanStart.offset} on (${scanStart.why})`,
    ...(stop && (recordsLost > 0 || !stop.reason.startsWith("zeros"))
      ? [`would cut the log at ${end}, position ${stop.position} of ${stop.path}: ${stop.reason}`]
      : []),
    ...(recordsLost > 0
      ? [`would lose ${plural(recordsLost, "whole record")}, ${bytesText(bytesLost)}`]
      : []),
    ...plan.deletedFiles.map((path) => `would delete ${path}`),
    ...shorter.map(
      ({ topic, queueId, before, max }) =>
        `would drop the messages ${max} to ${before - 1} of queue ${topic}/${queueId}`,
    ),
    ...queues
      .filter(({ begunAt }) => begunAt !== undefined && begunAt > 0)
      .map(
        ({ topic, queueId, begunAt }) =>
          `would bring queue ${topic}/${queueId} back from message ${begunAt} on only`,
      ),
    ...queues
      .filter(({ misplaced }) => misplaced > 0)
      .map(
        ({ topic, queueId, misplaced }) =>
          `would give ${plural(misplaced, "message")} of queue ${topic}/${queueId} wrong offsets`,
      ),
    `the log would end at ${end}`,
  ];
}

async function list(head: string, texts: readonly string[], terminal: Terminal): Promise<void> {
  for (const [i, text] of texts.entries()) {
    await terminal.line(`${(i === 0 ? head : "").padEnd(HEAD_CHARS)}${printable(text)}`);
  }
}
