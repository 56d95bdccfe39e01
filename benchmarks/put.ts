/**
 * What does a put cost in each mode, beside the device's own limit, a bare prototype, the Java
 * store and other stores of Node.js?
 *
 * Rows: mode × callers × messages of a put × body, in a closed loop; and for each mode and number
 * of messages an open loop at half of what the closed one reached, with latency from the moment at
 * which a put was due. Each subject has a process and an empty folder of its own, default options
 * but for the mode, and time to warm up. What was acknowledged is looked for afterwards.
 *
 * Beside a row of SYNC_FLUSH, in the same round: the floor, `pwrite` and `fdatasync` of as many
 * bytes as the store wrote per force, into blocks that had zeros written before and into a sparse
 * file; a prototype that does group commit and nothing else. Beside ASYNC_FLUSH and the pool the
 * floor is a `pwrite` on the main thread with a sync every 500 ms. The Java store puts with as many
 * threads as there are callers, and with one thread and as many puts outstanding. With 64 callers
 * lmdb, better-sqlite3 and classic-level stand beside SYNC_FLUSH durable, beside ASYNC_FLUSH
 * without a sync.
 *
 * Not measured: keys and index, recovery of what was written, a store larger than the memory, other
 * processes on the device, ASYNC_FLUSH for longer than a few flush intervals.
 *
 * @module
 */

import { type Bench, GIB, MIB, type Part, SEED } from "./support/bench.ts";
import type { FloorKind } from "./support/device_floor.ts";
import { randomOf, shuffled } from "./support/numbers.ts";
import type { PutMeasured } from "./support/put_job.ts";
import {
  nameOf,
  type PutFigures,
  type PutRound,
  type PutRow,
  type PutRowResult,
  type PutSubjectName,
  resultOf,
} from "./support/put_result.ts";
import { besideTable, openTable, putCharts, storeTable } from "./support/put_tables.ts";
import { putTargets, wantedBeside } from "./support/put_targets.ts";
import { figure, type Report } from "./support/report.ts";

const BODY_BYTES = 1024;
/** Of the file with zeros written before, which the writes of a floor go round in. */
const WRITTEN_BYTES = 128 * MIB;

export const put: Part = {
  question: "What does a put cost, beside the device, a prototype, the Java store and others?",

  async measure(bench: Bench): Promise<Report> {
    const closedRows = closedRowsOf(bench);
    const closed = await measureRows(bench, closedRows);
    const open = await measureRows(bench, openRowsOf(bench, closed));
    const reference = bench.settings.bodies.includes(BODY_BYTES)
      ? BODY_BYTES
      : bench.settings.bodies[0];
    const judged = closed.filter(({ bodyBytes }) => bodyBytes === reference);
    return {
      tables: [storeTable(closed), besideTable(closed), openTable(open)].filter(
        ({ rows }) => rows.length > 0,
      ),
      targets: putTargets(judged),
      charts: putCharts(judged, bench.about),
      results: { closed, open },
    };
  },
};

// Rows and subjects.

function closedRowsOf({ settings }: Bench): PutRow[] {
  const { modes, callers, batches, bodies, size } = settings;
  const rows = bodies.flatMap((bodyBytes) =>
    modes.flatMap((mode) =>
      batches.flatMap((batch) =>
        callers.map((count) => ({ mode, callers: count, batch, bodyBytes })),
      ),
    ),
  );
  if (size === "targets") return rows.filter((row) => wantedBeside(row).length > 0);
  // The smallest size looks at each mode and each kind of put, not at all that they can be.
  if (size === "smoke") {
    return rows.filter(({ mode, batch, callers: count }) =>
      mode === "SYNC_FLUSH" ? batch === 1 : count > 1,
    );
  }
  return rows;
}

/** At half of what the callers reached. */
function openRowsOf({ settings }: Bench, closed: readonly PutRowResult[]): PutRow[] {
  if (settings.size === "targets") return [];
  const callers = Math.max(...settings.callers.filter((count) => count <= 64), 1);
  return closed
    .filter((row) => row.callers === callers && (settings.size === "full" || row.batch === 1))
    .map(({ mode, batch, bodyBytes, messagesPerSecond }) => ({
      mode,
      callers,
      batch,
      bodyBytes,
      ratePerSecond: Math.ceil((messagesPerSecond.forcelog?.median ?? 0) / 2),
    }));
}

function subjectsOf(bench: Bench, row: PutRow): PutSubjectName[] {
  const { settings, java, peers } = bench;
  if (row.ratePerSecond !== undefined) return ["forcelog"];
  const durable = row.mode === "SYNC_FLUSH";
  const subjects: PutSubjectName[] = ["forcelog"];
  if (durable) subjects.push("floor, written", "floor, sparse");
  else subjects.push("floor, unsynced");
  if (durable && row.batch === 1 && !settings.without.has("prototype")) subjects.push("prototype");
  if (java) subjects.push("Java, threads");
  if (java && row.callers > 1) subjects.push("Java, outstanding");
  if (row.callers === 64 && row.batch === 1 && row.mode !== "pool") {
    subjects.push(...peers.filter((peer) => durable || peer !== "lmdb, overlapping"));
  }
  if (settings.size !== "targets") return subjects;
  // The prototype tells what is left to reach where a target is missed.
  const wanted = ["forcelog", "floor, written", "prototype", ...wantedBeside(row)];
  return subjects.filter((subject) => wanted.includes(subject));
}

/** A failure of others leaves a gap, one of ours ends the run. */
function isOurs(subject: PutSubjectName): boolean {
  return subject === "forcelog" || subject.startsWith("floor");
}

// Measuring.

async function measureRows(bench: Bench, rows: readonly PutRow[]): Promise<PutRowResult[]> {
  const random = randomOf(SEED);
  const runs = await bench.inRounds<PutRow, PutRound>(rows, nameOf, async (row, before) => {
    const round: PutRound = {};
    // The floor has to know what the store writes: it is behind it in the first round.
    const subjects = subjectsOf(bench, row);
    const order = before.length === 0 ? subjects : shuffled(subjects, random);
    for (const subject of order) {
      const written = round.forcelog ?? before.at(-1)?.forcelog;
      try {
        const measured = await measureSubject(bench, row, subject, written?.put);
        round[subject] = measured;
        bench.say(`    ${subject}  ${figure(measured.messagesPerSecond)} messages/s`);
      } catch (error) {
        if (isOurs(subject)) throw error;
        bench.warn(`${subject} failed at ${nameOf(row)}: ${(error as Error).message}`);
      }
    }
    return round;
  });
  return [...runs].map(([row, rounds]) => resultOf(row, rounds));
}

/** @param written What the store wrote in this round, or in the one before. */
function measureSubject(
  bench: Bench,
  row: PutRow,
  subject: PutSubjectName,
  written: PutMeasured | undefined,
): Promise<PutFigures> {
  const { mode, callers, batch, bodyBytes } = row;
  const { seconds, size } = bench.settings;
  switch (subject) {
    case "floor, written":
    case "floor, sparse":
    case "floor, unsynced": {
      if (!written) throw new Error("The floor is measured behind the store");
      return measureFloor(bench, subject, written);
    }
    case "Java, threads":
    case "Java, outstanding":
      return bench.inFolder("java", (directory) => {
        if (!bench.java) throw new Error("There is no Java store");
        return bench.java.put({
          directory,
          mode,
          callers,
          how: subject === "Java, threads" ? "threads" : "outstanding",
          batch,
          bodyBytes,
          seconds,
          warmUpSeconds: { smoke: 0.5, targets: 2, full: 3 }[size],
          fileBytes: bench.fileBytes,
        });
      });
    default:
      return bench.inFolder("store", async (directory) => {
        const measured = await bench.run("put", {
          directory,
          subject,
          mode,
          callers,
          batch,
          bodyBytes,
          ...(row.ratePerSecond !== undefined && { ratePerSecond: row.ratePerSecond }),
          seconds,
          warmUpSeconds: { smoke: seconds / 4, targets: 0.75, full: 1 }[size],
          seed: SEED,
        });
        const { messagesPerSecond, latencyMs, loopDelayMs } = measured;
        return { messagesPerSecond, latencyMs, loopDelayMs, put: measured };
      });
  }
}

/** As many bytes a call as the store wrote per force or commit; so many messages they would be. */
async function measureFloor(
  bench: Bench,
  subject: "floor, written" | "floor, sparse" | "floor, unsynced",
  written: PutMeasured,
): Promise<PutFigures> {
  const kind = subject.slice("floor, ".length) as FloorKind;
  const messages =
    (kind === "unsynced" ? written.messagesPerCommit : written.messagesPerForce) ?? 1;
  const { callsPerSecond, latencyMs, loopDelayMs } = await bench.run("floor", {
    directory: bench.directory,
    kind,
    bytes: Math.round((written.recordBytes ?? 0) * messages),
    seconds: bench.settings.seconds / 2,
    seed: SEED,
    sparseBytes: GIB,
    writtenBytes: bench.isSmoke ? 16 * MIB : WRITTEN_BYTES,
  });
  return { messagesPerSecond: callsPerSecond * messages, latencyMs, loopDelayMs };
}
