/**
 * Our side: the `forcelog` command, in this process where it only looks, in one of its own where it
 * writes and may die.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Writable } from "node:stream";
import type { Test } from "tap";
import { main } from "../../cli/main.ts";
import { Terminal } from "../../cli/terminal.ts";
import {
  JAVA_VERSIONS,
  type JavaVersion,
  type Line,
  Oracle,
  type Script,
} from "../support/oracle.ts";
import type { Dump } from "./views.ts";

const COMMAND = join(import.meta.dirname, "forcelog_process.ts");

/**
 * Small files, so that they roll; small index files for Java's sake; and patience with a machine
 * that is busy with many Java processes.
 */
export const SIZES = {
  mappedFileSizeCommitLog: 65_536,
  mappedFileSizeConsumeQueue: 2000,
  maxMessageSize: 40_000,
  maxHashSlotNum: 100,
  maxIndexNum: 400,
  syncFlushTimeout: 60_000,
} as const;

export const MODES: Readonly<Record<string, Script["config"]>> = {
  SYNC_FLUSH: { flushDiskType: "SYNC_FLUSH" },
  ASYNC_FLUSH: { flushDiskType: "ASYNC_FLUSH" },
  pool: {
    flushDiskType: "ASYNC_FLUSH",
    transientStorePoolEnable: true,
    commitIntervalCommitLog: 20,
    commitCommitLogThoroughInterval: 20,
  },
};

/** The oracle, or `undefined` after the whole test file was marked as skipped. */
export function oracleFor(t: Test): Oracle | undefined {
  const oracle = Oracle.find();
  if (oracle instanceof Oracle) return oracle;
  t.plan(0, `skipped, RocketMQ's own store is not at hand: ${oracle}`);
  return undefined;
}

/** A subtest for each version, at the same time. */
export function eachVersion(
  t: Test,
  name: string,
  body: (t: Test, version: JavaVersion) => Promise<void>,
): Promise<unknown> {
  return Promise.all(
    JAVA_VERSIONS.map((version) =>
      t.test(`${name} (RocketMQ ${version})`, (t) => body(t, version)),
    ),
  );
}

/** A copy of a store's directory, for somebody who changes what he looks at. */
export function copyOf(dir: string): string {
  const copy = mkdtempSync(join(dirname(dir), "copy-"));
  cpSync(dir, copy, { recursive: true });
  return copy;
}

/** `forcelog dump`: it changes nothing. */
export async function dump(dir: string, config: Script["config"]): Promise<Dump> {
  const { out } = await command(["dump", "--dir", dir, "--config", JSON.stringify(config)]);
  return JSON.parse(out) as Dump;
}

/** Java and we write to a store, one after the other, twice; the first two stops are none. */
export async function takeTurns(
  oracle: Oracle,
  version: JavaVersion,
  dir: string,
  scriptOf: (end: string, from?: number) => Script,
): Promise<void> {
  await oracle.run(version, "write", dir, scriptOf("halt"));
  await run(dir, scriptOf("halt", 100));
  await oracle.run(version, "write", dir, scriptOf("shutdown", 200));
  await run(dir, scriptOf("shutdown", 300));
}

/** Looks at a copy with Java, and removes it. */
export async function javaDump(
  oracle: Oracle,
  version: JavaVersion,
  dir: string,
  config: Script["config"],
  topics: Record<string, unknown> = {},
): Promise<Dump> {
  const copy = copyOf(dir);
  try {
    return (await oracle.dump(version, copy, { config, topics })) as Dump;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

async function command(args: readonly string[]): Promise<{ out: string; errors: string }> {
  const out: Buffer[] = [];
  const errors: Buffer[] = [];
  const into = (chunks: Buffer[]) =>
    new Writable({
      write: (chunk: Buffer, _, done) => {
        chunks.push(chunk);
        done();
      },
    });
  const code = await main(args, new Terminal(into(out), into(errors)));
  const text = { out: Buffer.concat(out).toString(), errors: Buffer.concat(errors).toString() };
  if (code !== 0) throw new Error(`forcelog ${args[0]} ended with ${code}: ${text.errors}`);
  return text;
}

/** `forcelog run` in a process of its own. @returns The lines; the last one is that of the end. */
export function run(dir: string, script: Script): Promise<Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "forcelog-"));
  const file = join(folder, "script.json");
  writeFileSync(file, JSON.stringify(script));
  return new Promise((resolve, reject) => {
    const args = ["--import=tsx", COMMAND, "run", "--dir", dir, "--script", file];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    const out: Buffer[] = [];
    let errors = "";
    child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
    });
    child.once("close", (code) => {
      rmSync(folder, { recursive: true, force: true });
      if (code !== 0) {
        reject(new Error(`forcelog run ended with ${code}: ${errors}`));
        return;
      }
      const lines = Buffer.concat(out).toString().trimEnd().split("\n");
      resolve(lines.map((line) => JSON.parse(line) as Line));
    });
  });
}
