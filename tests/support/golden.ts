/**
 * Golden stores: directories written by RocketMQ itself, with what it sees in them. What the files
 * of a fixture are is told in `tests/fixtures/README.md`.
 *
 * @module
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Test } from "tap";
import { testFolder } from "./test_folder.ts";

const FOLDER = join(import.meta.dirname, "../fixtures/golden");

/** How the store was made. */
export interface GoldenRecipe {
  readonly name: string;
  /** Of the RocketMQ that wrote it, such as `5.3.3`. */
  readonly version: string;
  readonly about: string;
  /** RocketMQ's config keys; to be opened with these. */
  readonly config: Readonly<Record<string, number | string | boolean>> & {
    readonly mappedFileSizeCommitLog: number;
    readonly mappedFileSizeConsumeQueue: number;
  };
  readonly steps: readonly Readonly<Record<string, unknown>>[];
  /** `halt`: the process was killed. */
  readonly end: "shutdown" | "halt";
  readonly after?: readonly Readonly<Record<string, unknown>>[];
}

/** A good record, as RocketMQ decodes it. */
export interface GoldenRecord {
  readonly offset: number;
  readonly size: number;
  readonly topic: string;
  readonly queueId: number;
  readonly queueOffset: number;
  readonly msgId: string;
  readonly flag: number;
  readonly sysFlag: number;
  readonly bodyCRC: number;
  readonly bornTimestamp: number;
  readonly bornHost: string;
  readonly storeTimestamp: number;
  readonly storeHost: string;
  readonly reconsumeTimes: number;
  readonly preparedTransactionOffset: number;
  readonly properties: Readonly<Record<string, string>> | null;
  readonly bodyLength: number;
  /** Base64; there if it has at most 64 bytes. */
  readonly body?: string;
  /** Hex; there if it has more. */
  readonly bodySha256?: string;
  /** Of the whole record, in hex. */
  readonly sha256: string;
  /** MAGICCODE, unsigned, in hex. */
  readonly magic: string;
  readonly position: number;
  readonly dispatchTagsCode: number;
}

/** A good record, the blank at the end of a file, or what fails the check. */
export type GoldenEntry =
  | GoldenRecord
  | { readonly offset: number; readonly blank: number }
  | { readonly offset: number; readonly size: number; readonly bad: true };

/** What RocketMQ sees in a store. */
export interface GoldenExpected {
  readonly version: string;
  readonly abortBefore: boolean;
  /** The longs at 0, 8, … 40, or `null` without a file. */
  readonly checkpointBefore: readonly number[] | null;
  /** Bytes by path. */
  readonly filesBefore: Readonly<Record<string, number>>;
  readonly loaded: boolean;
  readonly maxOffsetAfterLoad: number;
  readonly filesAfterLoad: Readonly<Record<string, number>>;
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
    readonly maxPhysicOffset: number;
    /** Physical offset, size, tags code in decimal; from `min` on. */
    readonly units: readonly (readonly [number, number, string])[];
    readonly unreadableOrMisplaced: number;
  }[];
  readonly index: {
    /** Physical offsets by `topic#key`. */
    readonly found: Readonly<Record<string, readonly number[]>>;
  };
}

/** One line of `results.jsonl`. */
export interface GoldenResult {
  readonly op: string;
  readonly status?: string;
  readonly msgId?: string;
  readonly wroteOffset?: number;
  readonly wroteBytes?: number;
  readonly queueOffset?: number;
  readonly msgNum?: number;
  readonly storeTimestamp?: number;
}

/** A golden store, unpacked. */
export interface Golden {
  /** The store's root directory: a copy of its own, removed after the test. */
  readonly dir: string;
  readonly recipe: GoldenRecipe;
  /** What a right store sees: RocketMQ's view, corrected where RocketMQ is at fault. */
  readonly expected: GoldenExpected;
  /** RocketMQ's view, right or wrong. */
  readonly seen: GoldenExpected;
  readonly results: readonly GoldenResult[];
}

/** Names of all golden stores, sorted. */
export function goldenNames(): string[] {
  return readdirSync(FOLDER).sort();
}

/**
 * Unpacks a golden store into the test's own folder.
 *
 * @param t The folder is `t.testdirName`; do not call `t.testdir()` afterwards, it begins anew.
 * @param name One of {@linkcode goldenNames}.
 */
export function openGolden(t: Test, name: string): Golden {
  const root = existsSync(t.testdirName) ? t.testdirName : testFolder(t);
  const dir = mkdtempSync(join(root, `${name}-`));
  unpackGolden(name, dir);
  const ours = join(FOLDER, name, "ours.json");
  const seen = readJson(join(FOLDER, name, "expected.json")) as GoldenExpected;
  return {
    dir,
    recipe: goldenRecipe(name),
    expected: {
      ...seen,
      ...(existsSync(ours) ? (readJson(ours) as Partial<GoldenExpected>) : {}),
    },
    seen,
    results: readFileSync(join(FOLDER, name, "results.jsonl"), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as GoldenResult),
  };
}

/** Unpacks a golden store into an empty directory. */
export function unpackGolden(name: string, dir: string): void {
  execFileSync("tar", ["-xzf", join(FOLDER, name, "store.tar.gz"), "-C", dir]);
}

export function goldenRecipe(name: string): GoldenRecipe {
  return readJson(join(FOLDER, name, "recipe.json")) as GoldenRecipe;
}

/** The files of a store's commit log, by the offset of their first byte. */
export function readLog(dir: string): Map<number, Buffer> {
  const folder = join(dir, "commitlog");
  return new Map(
    readdirSync(folder).map((file) => [Number(file), readFileSync(join(folder, file))]),
  );
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, "utf8"));
}
