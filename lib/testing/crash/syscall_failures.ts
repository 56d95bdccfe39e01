/**
 * Fails each system call of a store once, in each way that fits it, and looks what becomes of the
 * store's promises.
 *
 * Whatever fails, the store has to go on as if nothing had happened, or to tell: an error of what
 * was asked, or a warning. It must not lose what it acknowledged, let somebody wait for ever, or
 * answer what is not so.
 *
 * @module
 */

import { basename, dirname } from "node:path";
import { storePaths } from "../../io/store_paths.ts";
import type { Call, CallName } from "../call.ts";
import type { SimulatedDisk } from "../simulated_disk.ts";
import type { Fault } from "../simulated_file_system.ts";
import { type CutName, eventOf, imageOf } from "./crash_case.ts";
import { Examiner } from "./examiner.ts";
import { describe, type LedgerView } from "./ledger.ts";
import { oneOf, randomFor } from "./seeds.ts";
import { ROOT, SimulatedStage } from "./simulated_stage.ts";
import { MODES, type ModeName, type Workload } from "./workload.ts";

/** How a call ends, by name: an error's code, a count, or never. */
export type Way = string;

/** What became of the store. */
export type Verdict =
  /** Nothing was to be noticed. */
  | "unaffected"
  /** Somebody was told, by an error or a warning, and nothing else happened. */
  | "told"
  /** What depends on a call that never ends waits for it. */
  | "waits"
  | "lost"
  | "hung"
  | "wrong";

const READ_ERRORS = ["EIO", "EINTR"];
const CHANGE_ERRORS = ["EIO", "ENOSPC", "EROFS"];
const WRITES = ["EIO", "ENOSPC", "EROFS", "EINTR", "EAGAIN", "short 1", "short half"];

/** The ways in which each call can fail. */
const WAYS: Readonly<Partial<Record<CallName, readonly Way[]>>> = {
  open: ["EIO", "EMFILE", "EINTR", "ENOSPC", "EROFS", "hang"],
  mkdir: [...CHANGE_ERRORS, "hang"],
  rmdir: CHANGE_ERRORS,
  readdir: ["EIO", "EMFILE", "hang"],
  stat: ["EIO", "hang"],
  fstat: ["EIO", "hang"],
  statfs: ["EIO", "hang"],
  rename: [...CHANGE_ERRORS, "hang"],
  unlink: [...CHANGE_ERRORS, "hang"],
  syncDirectory: ["EIO", "EINTR", "hang"],
  lock: ["EIO", "EMFILE", "hang"],
  "lock.write": ["EIO", "ENOSPC", "EROFS", "hang"],
  "lock.close": ["EIO", "hang"],
  pwritev: [...WRITES, "hang"],
  pwritevNow: WRITES,
  commitAndForce: [...WRITES, "hang"],
  pread: [...READ_ERRORS, "short 1", "short half", "hang"],
  preadIfCached: ["EIO", "short 1", "short half"],
  nextData: ["EIO", "hang"],
  fdatasync: ["EIO", "ENOSPC", "EINTR", "hang"],
  ftruncate: [...CHANGE_ERRORS, "EINTR", "hang"],
  allocate: [...CHANGE_ERRORS, "EOPNOTSUPP"],
  punch: [...CHANGE_ERRORS, "EOPNOTSUPP"],
  advise: ["EIO"],
  close: ["EIO", "hang"],
};

/** Most calls in which a name is taken back. */
const UNDO_CALLS = 2;
/** A crash comes so many calls after one that has failed, at most, and another at the end. */
const SOON_CALLS = 12;

/** A call of a play that is to fail. */
export interface Target {
  readonly number: number;
  readonly name: CallName;
  readonly path: string;
  readonly length: number;
}

export interface Trial {
  readonly seed: number;
  readonly workload: string;
  readonly mode: string;
  readonly target: Target;
  readonly way: Way;
  readonly verdict: Verdict;
  /** What was told, who waits, or what is wrong. */
  readonly details: readonly string[];
}

/** The line that {@linkcode parseTrial} takes. */
export function formatTrial({ seed, workload, mode, target, way }: Trial): string {
  return `seed=${seed} workload=${workload} mode=${mode} fail=${target.number} way=${way.replace(" ", ":")}`;
}

/** The calls of a play in which nothing fails. */
export async function targetsOf(
  seed: number,
  workload: Workload,
  mode: ModeName,
): Promise<Target[]> {
  const targets: Target[] = [];
  const stage = stageOf(seed, workload, mode, (number, { name, path, length = 0 }) => {
    targets.push({ number, name, path, length });
    return undefined;
  });
  await stage.play(workload);
  await afterwards(stage);
  stage.leave();
  if (stage.violations.length > 0) throw new Error(stage.violations.join("; "));
  return targets;
}

export function waysOf({ name }: Target): readonly Way[] {
  return WAYS[name] ?? [];
}

/** Plays the workload with that call failing. */
export async function tryFailure(
  seed: number,
  workload: Workload,
  mode: ModeName,
  target: Target,
  way: Way,
): Promise<Trial> {
  // The process may die soon after, too: before or while somebody is told.
  const soon = target.number + 1 + randomFor(seed, target.number, way)(SOON_CALLS);
  let early: Moment | undefined;
  const stage: SimulatedStage = stageOf(seed, workload, mode, (number, call) => {
    if (number >= soon && !early && isNoted(stage, number, target, way)) early = momentOf(stage);
    return number === target.number ? faultOf(way, call) : undefined;
  });
  return judged({ seed, workload, mode, target, way }, stage, async () => {
    await stage.play(workload);
    await afterwards(stage);
    return early ? [early, momentOf(stage)] : [momentOf(stage)];
  });
}

/**
 * Whether a failed sync of the log has been noted beside it, or a name whose sync failed was taken back.
 * A process that is killed before that believes the page cache once it is started again: nobody was told
 * anything yet.
 *
 * @param number Of the call that comes next.
 */
function isNoted(
  stage: SimulatedStage,
  number: number,
  { number: failed, name, path }: Target,
  way: Way,
): boolean {
  if (name === "syncDirectory") return number > failed + UNDO_CALLS || way === "hang";
  if (name !== "fdatasync" || !path.includes("/commitlog/") || way === "hang") return true;
  const { storePathCommitLog } = stage.resolved;
  const { syncFailed } = storePaths(ROOT, storePathCommitLog);
  return stage.disk.list(dirname(syncFailed)).some((entry) => entry.name === basename(syncFailed));
}

/** A disk, and what had been promised by then. */
interface Moment {
  readonly disk: SimulatedDisk;
  readonly view: LedgerView;
}

function momentOf(stage: SimulatedStage): Moment {
  return { disk: stage.disk.fork(), view: stage.ledger.view(stage.watermarks) };
}

/** Sees a play through, and looks at what a crash at some moments of it would leave. */
async function judged(
  what: Pick<Trial, "seed" | "mode" | "target" | "way"> & { readonly workload: Workload },
  stage: SimulatedStage,
  play: () => Promise<readonly Moment[]>,
): Promise<Trial> {
  const { seed, workload, mode, target, way } = what;
  const lost: string[] = [];
  const note = (error: unknown): void => {
    lost.push(`unhandled rejection: ${describe(error)}`);
  };
  process.on("unhandledRejection", note);
  try {
    const moments = await play();
    stage.leave();
    const violations = [...stage.violations];
    const name = `${seed} ${workload.name} ${mode} ${target.number} ${way}`;
    const { ledger, options, hadHoles } = stage;
    const examiner = new Examiner({ ledger, options, workload, hadHoles, play: name });
    for (const { disk, view } of moments) {
      for (const cut of ["none", "torn", "kill"] satisfies CutName[]) {
        const image = imageOf(disk, cut, randomFor(name, cut));
        const examined = await examiner.examine(image, eventOf(cut));
        const wrong = examiner.judge(examined, view, eventOf(cut));
        violations.push(...wrong.map((text) => `after ${cut}: ${text}`));
      }
    }
    await new Promise((resolve) => setImmediate(resolve));
    violations.push(...lost);
    return { ...what, workload: workload.name, ...verdictOf(stage, target, way, violations) };
  } finally {
    process.off("unhandledRejection", note);
  }
}

/** Time in which a store notices that there is space again, in ms. */
const SPACE_IS_NOTICED_MS = 5000;

/**
 * Plays the workload on a disk that is full from that call on, until the workload is over. Then there
 * is space again: a store that has not failed takes puts without being opened again.
 */
export async function tryFullDisk(
  seed: number,
  workload: Workload,
  mode: ModeName,
  target: Target,
): Promise<Trial> {
  let isOver = false;
  const stage: SimulatedStage = stageOf(seed, workload, mode, (number) => {
    if (number === target.number && !isOver) stage.disk.spaceBytes = 0;
    return undefined;
  });
  return judged({ seed, workload, mode, target, way: "full disk" }, stage, async () => {
    await stage.play(workload);
    await stage.perform(() => stage.readBack(4));
    isOver = true;
    stage.disk.spaceBytes = Number.POSITIVE_INFINITY;
    await stage.perform(async () => {
      // Recovery needs some space, too.
      if (!stage.store) await stage.open();
      await stage.pass(SPACE_IS_NOTICED_MS);
      const outcome = await stage.put({ topic: "probe" });
      if (outcome !== "done" && stage.store?.state === "open") {
        stage.violations.push("there is space again, the store is open, and a put is refused");
      }
      await stage.readBack(2);
    });
    return [momentOf(stage)];
  });
}

/** What was acknowledged is read, and something more is put. */
async function afterwards(stage: SimulatedStage): Promise<void> {
  await stage.perform(async () => {
    await stage.readBack(4);
    await stage.put({ topic: "probe" });
    await stage.readBack(1);
  });
}

function stageOf(
  seed: number,
  workload: Workload,
  mode: ModeName,
  onCall: (number: number, call: Call) => Fault | undefined,
): SimulatedStage {
  const random = randomFor(seed, workload.name, mode);
  const options = { ...workload.options(random), ...MODES[mode] };
  return new SimulatedStage({ options, random, onCall, expectsErrors: true });
}

function faultOf(way: Way, { length = 0 }: Call): Fault {
  if (way === "hang") return { kind: "hang" };
  if (way === "short 1") return { kind: "short", bytes: Math.min(1, length) };
  if (way === "short half") return { kind: "short", bytes: Math.ceil(length / 2) };
  return { kind: "error", code: way };
}

function verdictOf(
  stage: SimulatedStage,
  target: Target,
  way: Way,
  violations: readonly string[],
): Pick<Trial, "verdict" | "details"> {
  if (violations.length > 0) {
    const verdict = violations.some((text) => /lost/.test(text)) ? "lost" : "wrong";
    return { verdict, details: violations };
  }
  const told = stage.incidents.map(({ what, outcome, error }) =>
    outcome === "hung" ? `${what} waits` : `${what}: ${describe(error)}`,
  );
  const hung = stage.incidents.filter(({ outcome }) => outcome === "hung");
  if (hung.length > 0) {
    const isDue = way === "hang" && hung.every(({ what }) => mayWait(stage, target, what));
    return { verdict: isDue ? "waits" : "hung", details: told };
  }
  if (told.length > 0) return { verdict: "told", details: told };
  if (stage.warnings.length > 0) return { verdict: "told", details: stage.warnings };
  return { verdict: "unaffected", details: [] };
}

/** What may wait for ever for a call that never ends, since it depends on it. */
function mayWait({ options }: SimulatedStage, { name, path }: Target, what: string): boolean {
  // A read waits for nothing but its own calls.
  if (what === "lookup" || what === "get") return name === "pread" || name === "open";
  // One that waits for its force has a deadline, and so has one that waits for a file.
  if (what === "put" && options.flushDiskType === "SYNC_FLUSH") return false;
  if (what.endsWith("put")) return path.includes("/commitlog/");
  return true;
}

/** A full table: how often which call failed in which way, and what became of it. */
export class FailureTable {
  readonly trials: Trial[] = [];
  readonly #rows = new Map<string, Map<Verdict, number>>();

  add(trial: Trial): void {
    const key = `${trial.target.name} ${trial.way}`;
    let row = this.#rows.get(key);
    if (!row) {
      row = new Map();
      this.#rows.set(key, row);
    }
    row.set(trial.verdict, (row.get(trial.verdict) ?? 0) + 1);
    this.trials.push(trial);
  }

  count(verdict: Verdict): number {
    return this.trials.filter((trial) => trial.verdict === verdict).length;
  }

  /** Lines of text. */
  format(): string[] {
    const verdicts = ["unaffected", "told", "waits", "lost", "hung", "wrong"] as const;
    const line = (name: string, cells: readonly (string | number)[]): string =>
      name.padEnd(26) + cells.map((cell) => String(cell).padStart(11)).join("");
    return [
      line("call and way", verdicts),
      ...[...this.#rows]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, row]) =>
          line(
            key,
            verdicts.map((verdict) => row.get(verdict) ?? "."),
          ),
        ),
      line(
        "sum",
        verdicts.map((verdict) => this.count(verdict)),
      ),
    ];
  }
}

/** Some of the trials that there are: each call in one way, if not all are wanted. */
export function someWays(target: Target, seed: number, all: boolean): readonly Way[] {
  const ways = waysOf(target);
  if (all || ways.length === 0) return ways;
  return [oneOf(randomFor(seed, target.number), ways)];
}
