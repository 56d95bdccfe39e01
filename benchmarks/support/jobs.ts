/**
 * What is measured in a process of its own, so that no subject works in the heap, the compiled code
 * or the threads of another.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { CostInput } from "./cost_job.ts";
import type { FloorInput } from "./device_floor.ts";
import type { PutInput } from "./put_job.ts";
import type { QueryInput } from "./query_job.ts";
import type { ColdInput, ReadInput } from "./read_job.ts";
import type { FillInput, IdleInput, OpenInput } from "./store_jobs.ts";

/** Jobs by name. Their input and output go through JSON. */
export const JOBS = {
  put: async (input: PutInput) => (await import("./put_job.ts")).measurePuts(input),
  floor: async (input: FloorInput) => (await import("./device_floor.ts")).measureFloor(input),
  read: async (input: ReadInput) => (await import("./read_job.ts")).measureReads(input),
  readCold: async (input: ColdInput) => (await import("./read_job.ts")).measureColdRead(input),
  fill: async (input: FillInput) => (await import("./store_jobs.ts")).fill(input),
  open: async (input: OpenInput) => (await import("./store_jobs.ts")).measureOpen(input),
  idle: async (input: IdleInput) => (await import("./store_jobs.ts")).measureIdle(input),
  query: async (input: QueryInput) => (await import("./query_job.ts")).measureQueries(input),
  cost: async (input: CostInput) => (await import("./cost_job.ts")).measureCost(input),
} as const;

export type JobName = keyof typeof JOBS;
type Input<N extends JobName> = Parameters<(typeof JOBS)[N]>[0];
type Output<N extends JobName> = Awaited<ReturnType<(typeof JOBS)[N]>>;

/**
 * Runs a job in a process of its own.
 *
 * @throws {Error} with what the process wrote to its standard error, if it failed.
 */
export function runJob<N extends JobName>(name: N, input: Input<N>): Promise<Output<N>> {
  const program = fileURLToPath(
    new URL(`./job_process${extname(import.meta.url)}`, import.meta.url),
  );
  const args = [...process.execArgv, "--expose-gc", program, name, JSON.stringify(input)];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.once("error", reject);
    child.once("close", (code, signal) => {
      const line = stdout.trimEnd().split("\n").at(-1) ?? "";
      // A job that is to leave a store as a crash does kills itself once it has told its result.
      if (line.startsWith("{") && (code === 0 || signal === "SIGKILL")) {
        resolve(JSON.parse(line) as Output<N>);
      } else {
        reject(new Error(`The job ${name} ended with ${signal ?? code}: ${stderr.trim()}`));
      }
    });
  });
}
