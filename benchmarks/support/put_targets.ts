/**
 * What puts are to reach.
 *
 * @module
 */

import type { Spread } from "./numbers.ts";
import {
  figureOf,
  nameOf,
  type PutRow,
  type PutRowResult,
  type PutSubjectName,
} from "./put_result.ts";
import { figure, percent, times } from "./report.ts";
import { type Target, target } from "./targets.ts";

/** What the store is to reach beside the best of some subjects. */
interface Goal extends Pick<PutRow, "mode" | "callers" | "batch"> {
  readonly best: readonly PutSubjectName[];
  readonly as: string;
  readonly limit: number;
}

const JAVA: readonly PutSubjectName[] = ["Java, threads", "Java, outstanding"];
const LOOP_P99_MS = 2;

const GOALS: readonly Goal[] = [
  ...sync(1, [
    [["floor, written"], "the written blocks' floor", 0.55],
    [["Java, threads"], "Java", 1.3],
  ]),
  ...sync(16, [
    [["floor, written"], "the written blocks' floor", 0.45],
    [["Java, threads"], "Java's threads", 7],
    [["Java, outstanding"], "Java's outstanding puts", 7],
  ]),
  ...sync(64, [
    [["floor, written"], "the written blocks' floor", 0.4],
    [["Java, threads"], "Java's threads", 5],
    [["Java, outstanding"], "Java's outstanding puts", 4],
    [["lmdb", "lmdb, overlapping"], "lmdb, durable", 1.8],
    [["better-sqlite3"], "better-sqlite3, durable", 1.8],
    [["classic-level"], "classic-level, durable", 1.8],
  ]),
  ...sync(256, [
    [JAVA, "Java at its best", 3],
    [["prototype"], "the prototype", 0.8],
  ]),
  {
    mode: "ASYNC_FLUSH",
    callers: 1,
    batch: 1,
    best: ["Java, threads"],
    as: "Java",
    limit: 0.7,
  },
  ...JAVA.map(
    (subject): Goal => ({
      mode: "ASYNC_FLUSH",
      callers: 64,
      batch: 1,
      best: [subject],
      as: subject === "Java, threads" ? "Java's threads" : "Java's outstanding puts",
      limit: 1,
    }),
  ),
  ...([1, 64] as const).flatMap((callers): Goal[] => [
    { mode: "ASYNC_FLUSH", callers, batch: 32, best: JAVA, as: "Java at its best", limit: 1 },
    { mode: "pool", callers, batch: 32, best: JAVA, as: "Java at its best", limit: 0.6 },
  ]),
];

function sync(
  callers: number,
  goals: readonly (readonly [readonly PutSubjectName[], string, number])[],
): Goal[] {
  return goals.map(([best, as, limit]) => ({
    mode: "SYNC_FLUSH",
    callers,
    batch: 1,
    best,
    as,
    limit,
  }));
}

/** Whom a target compares the store with in that row; none where no target is about it. */
export function wantedBeside(row: PutRow): readonly PutSubjectName[] {
  return GOALS.filter((goal) => isFor(goal, row)).flatMap(({ best }) => best);
}

function isFor(goal: Goal, row: PutRow): boolean {
  return goal.mode === row.mode && goal.callers === row.callers && goal.batch === row.batch;
}

export function putTargets(results: readonly PutRowResult[]): Target[] {
  const goals = GOALS.map((goal) => {
    const result = results.find((row) => isFor(goal, row));
    const isFloor = goal.best.some((subject) => subject.startsWith("floor"));
    return target({
      name: `${nameOf(goal)}, ${isFloor ? "of" : "beside"} ${goal.as}`,
      found: result && besideBest(result, goal.best),
      bound: ">=",
      limit: goal.limit,
      text: isFloor ? percent : times,
    });
  });
  const delays = results
    .filter(({ mode }) => mode === "SYNC_FLUSH")
    .map((result) => ({ result, p99: loopP99(result) }))
    .filter((one): one is { result: PutRowResult; p99: Spread } => one.p99 !== undefined)
    .sort((a, b) => b.p99.median - a.p99.median);
  const [worst] = delays;
  return [
    ...goals,
    target({
      name: `event loop delay p99 in SYNC_FLUSH, at worst${worst ? ` (${nameOf(worst.result)})` : ""}`,
      found: worst?.p99,
      bound: "<",
      limit: LOOP_P99_MS,
      text: (ms) => `${figure(ms)} ms`,
    }),
  ];
}

/** The store's ratio to whichever of the subjects is the fastest. */
function besideBest(result: PutRowResult, subjects: readonly PutSubjectName[]): Spread | undefined {
  const [best] = subjects
    .filter((subject) => result.messagesPerSecond[subject])
    .sort(
      (a, b) =>
        (result.messagesPerSecond[b]?.median ?? 0) - (result.messagesPerSecond[a]?.median ?? 0),
    );
  return best && result.ratio[best];
}

function loopP99(result: PutRowResult): Spread | undefined {
  return figureOf(result, "forcelog", ({ loopDelayMs }) => loopDelayMs?.p99);
}
