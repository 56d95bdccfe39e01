/**
 * What every part of the benchmarks works with: settings, a folder, jobs, others to compare with.
 *
 * @module
 */

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { NodeFileSystem } from "../../lib/mod.ts";
import type { Java } from "./java.ts";
import { JOBS, type JobName, runJob } from "./jobs.ts";
import { randomOf, shuffled } from "./numbers.ts";
import type { Report } from "./report.ts";
import type { Settings } from "./settings.ts";
import type { PeerName } from "./subject.ts";

export const SEED = 20240601;
export const GIB = 1024 ** 3;
export const MIB = 1024 * 1024;

/** One question, and what answers it. */
export interface Part {
  readonly question: string;
  measure(bench: Bench): Promise<Report>;
}

export interface BenchContext {
  readonly settings: Settings;
  /** For whatever a part makes. */
  readonly directory: string;
  /** Where this is, in a few lines. */
  readonly about: string;
  /** Or why there is none. */
  readonly java: Java | string;
  /** Stores that are installed. */
  readonly peers: readonly PeerName[];
}

export class Bench {
  readonly settings: Settings;
  readonly directory: string;
  readonly about: string;
  readonly java: Java | undefined;
  readonly peers: readonly PeerName[];

  constructor({ settings, directory, about, java, peers }: BenchContext) {
    this.settings = settings;
    this.directory = directory;
    this.about = about;
    this.java = typeof java === "string" ? undefined : java;
    this.peers = peers;
  }

  get isSmoke(): boolean {
    return this.settings.size === "smoke";
  }

  /** Size of a file of the commit log: RocketMQ's default; small where nothing is judged. */
  get fileBytes(): number {
    return this.isSmoke ? 16 * MIB : GIB;
  }

  /** A job in a process of its own; at the smallest size in this one, unless it is killed. */
  run<N extends JobName>(
    name: N,
    input: Parameters<(typeof JOBS)[N]>[0],
  ): ReturnType<(typeof JOBS)[N]> {
    const kills = (input as { readonly end?: string }).end === "kill";
    const job = JOBS[name] as (given: typeof input) => ReturnType<(typeof JOBS)[N]>;
    if (this.isSmoke && !kills) return job(input);
    return runJob(name, input) as ReturnType<(typeof JOBS)[N]>;
  }

  /** An empty folder. */
  folder(name: string): string {
    return mkdtempSync(join(this.directory, `${name}-`));
  }

  /** Removes a folder; its blocks are given back now, not while others are measured. */
  async remove(folder: string): Promise<void> {
    rmSync(folder, { recursive: true, force: true });
    await new NodeFileSystem().syncDirectory(this.directory);
  }

  /** Does something in an empty folder, and removes that. */
  async inFolder<T>(name: string, action: (folder: string) => Promise<T>): Promise<T> {
    const folder = this.folder(name);
    try {
      return await action(folder);
    } finally {
      await this.remove(folder);
    }
  }

  /**
   * Measures all rows in each round, in an order that the seed shuffles, so that what the machine
   * does meanwhile falls on all of them.
   *
   * @param measure Gets the rounds of that row before.
   * @returns The rounds of each row.
   */
  async inRounds<Row, Round>(
    rows: readonly Row[],
    nameOf: (row: Row) => string,
    measure: (row: Row, before: readonly Round[]) => Promise<Round>,
  ): Promise<Map<Row, readonly Round[]>> {
    const { rounds } = this.settings;
    const random = randomOf(SEED);
    const measured = new Map<Row, Round[]>(rows.map((row) => [row, []]));
    for (let round = 0; round < rounds; round++) {
      for (const row of shuffled(rows, random)) {
        this.say(`round ${round + 1}/${rounds}  ${nameOf(row)}`);
        const before = measured.get(row) as Round[];
        before.push(await measure(row, before));
      }
    }
    return measured;
  }

  /** What makes a gap in the tables. */
  warn(text: string): void {
    console.error(text);
  }

  /** Progress. */
  say(text: string): void {
    if (!this.isSmoke) console.error(text);
  }
}
