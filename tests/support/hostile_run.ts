/**
 * Many trials, one after the other, with what came of them in numbers.
 *
 * @module
 */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  HostileFailure,
  type Opener,
  planOf,
  runTrial,
  type TrialPlan,
  type TrialResult,
} from "./hostile_trial.ts";

/** A trial that failed, with as few mutations as show it. */
export interface FailedTrial {
  readonly plan: TrialPlan;
  readonly error: unknown;
  /** How often the same happened. */
  count: number;
}

/** Heap that a run may keep, in bytes: caches of topics and hosts, and the bases. */
const HEAP_GROWTH_MAX = 48 * 1024 * 1024;
const STACK_FRAMES = 12;
/** Trials before the heap is looked at for the first time. */
const WARM_UP = 500;

export class HostileRun {
  trials = 0;
  /** By outcome, and by call and code. */
  readonly outcomes = new Map<string, number>();
  readonly errors = new Map<string, number>();
  readonly #failures = new Map<string, FailedTrial>();
  readonly #open: Opener | undefined;
  #heapAtFirst: number | undefined;

  constructor(open?: Opener) {
    this.#open = open;
  }

  get failures(): readonly FailedTrial[] {
    return [...this.#failures.values()];
  }

  /** The trial that follows from seed and round, of these bases or of all. */
  async round(seed: number, round: number, bases?: readonly string[]): Promise<void> {
    await this.trial(await planOf(seed, round, bases));
  }

  async trial(plan: TrialPlan): Promise<void> {
    this.trials++;
    let result = await this.#try(plan, 0);
    // Again, for the stack.
    if (result instanceof Failure) result = await this.#try(plan, STACK_FRAMES);
    if (result instanceof Failure) {
      await this.#note(plan, result);
    } else {
      add(this.outcomes, `read ${result.reading}, write ${result.writing}`, 1);
      for (const [name, count] of result.errors) add(this.errors, name, count);
    }
    if (this.trials === WARM_UP) this.#heapAtFirst = heapBytes();
  }

  /** Bytes by which the heap has grown since it was warm; `undefined` before that. */
  get heapGrowth(): number | undefined {
    return this.#heapAtFirst === undefined ? undefined : heapBytes() - this.#heapAtFirst;
  }

  /** @throws {HostileFailure} if the heap grows and grows. */
  checkHeap(): void {
    const growth = this.heapGrowth ?? 0;
    if (growth > HEAP_GROWTH_MAX) throw new HostileFailure(`The heap has grown by ${growth} bytes`);
  }

  /** @param frames Of the stacks of errors: most are expected, and a stack takes time. */
  async #try(plan: TrialPlan, frames: number): Promise<TrialResult | Failure> {
    const before = Error.stackTraceLimit;
    Error.stackTraceLimit = frames;
    try {
      return await runTrial(plan, this.#open);
    } catch (error) {
      return new Failure(error);
    } finally {
      Error.stackTraceLimit = before;
    }
  }

  async #note(plan: TrialPlan, { error, kind }: Failure): Promise<void> {
    const known = this.#failures.get(kind);
    if (known) known.count++;
    else this.#failures.set(kind, { plan: await this.#least(plan, kind), error, count: 1 });
  }

  /** The plan without the mutations that it does not need to fail in this way. */
  async #least(plan: TrialPlan, kind: string): Promise<TrialPlan> {
    let least = plan;
    for (let i = plan.mutations.length - 1; i >= 0; i--) {
      const fewer = { ...least, mutations: least.mutations.filter((_, j) => j !== i) };
      const result = await this.#try(fewer, STACK_FRAMES);
      if (result instanceof Failure && result.kind === kind) least = fewer;
    }
    return least;
  }
}

class Failure {
  readonly error: unknown;
  /** The same for failures that differ in numbers and names only. */
  readonly kind: string;

  constructor(error: unknown) {
    this.error = error;
    this.kind = failureText(error)
      .replace(/"[^"]*"/g, '"…"')
      .replace(/-?\d+/g, "n")
      .replace(/\/store\/\S*/g, "/store/…")
      .slice(0, 120);
  }
}

/** An error and what caused it. */
export function failureText(error: unknown): string {
  const texts: string[] = [];
  for (let e: unknown = error; e !== undefined && texts.length < 4; ) {
    const isOurs = e instanceof HostileFailure;
    texts.push(e instanceof Error ? ((isOurs ? undefined : e.stack) ?? e.message) : String(e));
    e = e instanceof Error ? e.cause : undefined;
  }
  return texts.join("\n  caused by ");
}

function add(counts: Map<string, number>, name: string, count: number): void {
  counts.set(name, (counts.get(name) ?? 0) + count);
}

let collectGarbage: (() => void) | undefined;

function heapBytes(): number {
  if (!collectGarbage) {
    setFlagsFromString("--expose-gc");
    collectGarbage = runInNewContext("gc") as () => void;
  }
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
