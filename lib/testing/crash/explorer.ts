/**
 * Cuts the power at every call of a store, and looks whether its promises were kept.
 *
 * A workload plays once; before each of its calls the simulated disk is set aside. Each of these
 * disks is then cut in several ways, opened, and held against what had been promised by then. Some
 * are cut again while they are being opened.
 *
 * @module
 */

import type { FileSystem } from "../../io/file_system.ts";
import type { StoreOptions } from "../../options.ts";
import type { SimulatedDisk } from "../simulated_disk.ts";
import {
  type CrashCase,
  type CrashPoint,
  CUTS,
  type CutName,
  eventOf,
  formatCase,
  imageOf,
} from "./crash_case.ts";
import { type Examined, Examiner } from "./examiner.ts";
import { type CrashEvent, describe, type LedgerView } from "./ledger.ts";
import { oneOf, randomFor } from "./seeds.ts";
import { SimulatedStage, type StageDirections } from "./simulated_stage.ts";
import { MODES, type ModeName, type Workload } from "./workload.ts";

/** Of so many disks one is used further after it was looked at. */
const USED_EVERY = 3;
/** Of so many disks one is cut again while it is being opened, at so many of its calls. */
const SECOND_EVERY = 6;
const SECOND_POINTS = 6;

export interface ExplorerOptions {
  /** What the store of a play gets in place of the simulated file system. */
  readonly wrap?: (fileSystem: FileSystem) => FileSystem;
  /** Fails calls of the plays, but not of the openings after a crash. */
  readonly onCall?: StageDirections["onCall"];
  /** Beside those of workload and mode. */
  readonly options?: StoreOptions;
  /** Told of each failure as it is found. */
  readonly onFailure?: (failure: Failure) => void;
  /** Ends the exploration, whatever is left. */
  readonly cutsMax?: number;
  readonly failuresMax?: number;
}

/** A promise that was not kept. */
export interface Failure {
  /** Where; `undefined` if it happened without any crash. */
  readonly case: CrashCase | undefined;
  /** The call before which the power was cut, in words. */
  readonly at: string;
  readonly violations: readonly string[];
  /** The line that finds it again. */
  readonly line: string;
}

/** How often what was done. */
export interface Tally {
  readonly workload: string;
  readonly mode: string;
  readonly cut: CutName;
  cuts: number;
  /** Of these, in a recovery. */
  second: number;
}

/** The disk before a call, and what had been promised by then. */
interface Moment {
  readonly call: number;
  readonly at: string;
  readonly disk: SimulatedDisk;
  readonly view: LedgerView;
}

export class Explorer {
  readonly failures: Failure[] = [];
  readonly tallies = new Map<string, Tally>();
  readonly totals = { plays: 0, calls: 0, cuts: 0, disks: 0, messages: 0, acknowledged: 0 };
  readonly #options: ExplorerOptions;

  constructor(options: ExplorerOptions = {}) {
    this.#options = options;
  }

  /** Nothing more is to be looked at. */
  get over(): boolean {
    const { cutsMax = Number.POSITIVE_INFINITY, failuresMax = 20 } = this.#options;
    return this.totals.cuts >= cutsMax || this.failures.length >= failuresMax;
  }

  /** Plays a workload once, and cuts the power at its calls. */
  async explore(seed: number, workload: Workload, mode: ModeName): Promise<void> {
    const { callsPerCut = 1 } = workload;
    await withoutLostErrors(this, { seed, workload: workload.name, mode }, async () => {
      const play = await this.#play(seed, workload, mode, (call) => {
        return callsPerCut === 1 || randomFor(seed, "moment", call)(callsPerCut) === 0;
      });
      for (const moment of play.moments) {
        for (const cut of CUTS) {
          if (this.over) return;
          await this.#crash(play, moment, cut);
        }
      }
    });
  }

  /** Plays a workload without any crash but its own. */
  async rehearse(seed: number, workload: Workload, mode: ModeName): Promise<void> {
    await withoutLostErrors(this, { seed, workload: workload.name, mode }, async () => {
      await this.#play(seed, workload, mode, () => false);
    });
  }

  /** Does again what led to a failure. @returns What was violated. */
  async replay(which: CrashCase, workload: Workload): Promise<readonly string[]> {
    const { seed, call, cut, second } = which;
    const mode = which.mode as ModeName;
    let violations: readonly string[] = [];
    await withoutLostErrors(this, { seed, workload: workload.name, mode }, async () => {
      const play = await this.#play(seed, workload, mode, (number) => number === call);
      const moment = play.moments[0];
      if (!moment) throw new RangeError(`Cannot cut at call ${call}: there are ${play.calls}`);
      const image = imageOf(moment.disk, cut, randomFor(play.name, call, cut));
      const first = await play.examiner.look(image, eventOf(cut), {
        keepOpening: second !== undefined,
        goOn: second === undefined,
      });
      violations = second
        ? await this.#crashAgain(play, moment, cut, first, second)
        : play.examiner.judge(first, moment.view, eventOf(cut));
      if (violations.length > 0) this.#fail(which, moment.at, violations);
    });
    return violations;
  }

  async #play(
    seed: number,
    workload: Workload,
    mode: ModeName,
    isWanted: (call: number) => boolean,
  ): Promise<Play> {
    const name = `${seed} ${workload.name} ${mode}`;
    const random = randomFor(name);
    const options = { ...workload.options(random), ...MODES[mode], ...this.#options.options };
    const { wrap, onCall } = this.#options;
    const moments: Moment[] = [];
    const stage: SimulatedStage = new SimulatedStage({
      options,
      random,
      ...(wrap ? { wrap } : {}),
      expectsErrors: onCall !== undefined,
      onCall: (number, call) => {
        if (isWanted(number)) keep(number, `${call.name} ${call.path}`);
        return onCall?.(number, call);
      },
    });
    const keep = (call: number, at: string): void => {
      const view = stage.ledger.view(stage.watermarks);
      moments.push({ call, at, disk: stage.disk.fork(), view });
    };
    await stage.play(workload);
    const end = stage.calls + 1;
    if (isWanted(end)) keep(end, "the end of the workload");
    if (stage.violations.length > 0) {
      this.#fail(
        undefined,
        "no crash",
        stage.violations,
        `seed=${seed} workload=${workload.name} mode=${mode}`,
      );
    }
    stage.leave();
    const { totals } = this;
    totals.plays++;
    totals.calls += stage.calls;
    totals.messages += stage.ledger.entries.length;
    totals.acknowledged += stage.ledger.counts.acknowledged;
    const examiner = new Examiner({
      ledger: stage.ledger,
      options,
      workload,
      hadHoles: stage.hadHoles,
      play: name,
    });
    return { name, seed, workload: workload.name, mode, moments, examiner, calls: stage.calls };
  }

  async #crash(play: Play, moment: Moment, cut: CutName): Promise<void> {
    const { name, seed, workload, mode, examiner } = play;
    const { call, at, view } = moment;
    const image = imageOf(moment.disk, cut, randomFor(name, call, cut));
    const event = eventOf(cut);
    const before = examiner.count;
    const random = randomFor(name, call, cut, "further");
    const goOn = random(USED_EVERY) === 0;
    const examined = await examiner.examine(image, event, { goOn });
    const isNew = examiner.count > before;
    this.#count(play, cut, false);
    if (isNew) this.totals.disks++;
    const violations = examiner.judge(examined, view, event);
    const which = { seed, workload, mode, call, cut };
    if (violations.length > 0) this.#fail(which, at, violations);
    if (!isNew || random(SECOND_EVERY) > 0) return;
    const first = await examiner.look(image, event, { keepOpening: true, goOn: false });
    for (let i = 0; i < SECOND_POINTS && first.opening.length > 0 && !this.over; i++) {
      const second = { call: 1 + random(first.opening.length), cut: oneOf(random, CUTS) };
      const again = await this.#crashAgain(play, moment, cut, first, second);
      this.#count(play, second.cut, true);
      if (again.length > 0) this.#fail({ ...which, second }, at, again);
    }
  }

  /** A crash in the recovery from a crash. */
  async #crashAgain(
    { name, examiner }: Play,
    { call, view }: Moment,
    cut: CutName,
    first: Examined,
    second: CrashPoint,
  ): Promise<string[]> {
    const disk = first.opening[second.call - 1];
    if (!disk) throw new RangeError(`Cannot cut at call ${second.call} of the recovery`);
    const random = randomFor(name, call, cut, second.call, second.cut);
    const image = imageOf(disk, second.cut, random);
    const events: readonly CrashEvent[] = [eventOf(cut), eventOf(second.cut)];
    const examined = await examiner.examine(image, eventOf(second.cut), {
      hadHoles: first.hadHoles,
      goOn: randomFor(name, call, cut, second.call, second.cut, "further")(USED_EVERY) === 0,
    });
    const worst = events.includes("cut") ? "cut" : "kill";
    const violations = examiner.judge(examined, view, worst);
    // What a cut has left, is durable. After a kill it is in the page cache, and a cut takes it.
    if (events[0] === "cut" || worst === "kill") {
      for (const [number, place] of first.found) {
        if (examined.found.has(number)) continue;
        violations.push(
          `message ${number} at ${place.offset} was there, and the second crash took it`,
        );
      }
    }
    return violations;
  }

  #count({ workload, mode }: Play, cut: CutName, isSecond: boolean): void {
    this.totals.cuts++;
    const key = `${workload} ${mode} ${cut}`;
    let tally = this.tallies.get(key);
    if (!tally) {
      tally = { workload, mode, cut, cuts: 0, second: 0 };
      this.tallies.set(key, tally);
    }
    tally.cuts++;
    if (isSecond) tally.second++;
  }

  #fail(
    which: CrashCase | undefined,
    at: string,
    violations: readonly string[],
    line = which ? formatCase(which) : "",
  ): void {
    const failure = { case: which, at, violations: [...violations], line };
    this.failures.push(failure);
    this.#options.onFailure?.(failure);
  }

  /** An error that nobody took. */
  lost(play: { seed: number; workload: string; mode: string }, error: unknown): void {
    const { seed, workload, mode } = play;
    const line = `seed=${seed} workload=${workload} mode=${mode}`;
    this.#fail(undefined, "at some time", [`unhandled rejection: ${describe(error)}`], line);
  }
}

/** Digest of all calls of a play: equal for equal seeds. */
export async function playTrace(seed: number, workload: Workload, mode: ModeName): Promise<string> {
  const random = randomFor(`${seed} ${workload.name} ${mode}`);
  const options = { ...workload.options(random), ...MODES[mode] };
  const stage = new SimulatedStage({ options, random });
  await stage.play(workload);
  stage.leave();
  return stage.trace;
}

/** A workload that has played. */
interface Play {
  readonly name: string;
  readonly seed: number;
  readonly workload: string;
  readonly mode: string;
  readonly calls: number;
  readonly moments: readonly Moment[];
  readonly examiner: Examiner;
}

/** Promises that reject and that nobody waits for are failures, too. */
async function withoutLostErrors(
  explorer: Explorer,
  play: { seed: number; workload: string; mode: string },
  action: () => Promise<void>,
): Promise<void> {
  const note = (error: unknown): void => explorer.lost(play, error);
  process.on("unhandledRejection", note);
  try {
    await action();
    // They are told of only in a later turn.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off("unhandledRejection", note);
  }
}
