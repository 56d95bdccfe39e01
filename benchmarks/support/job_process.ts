/**
 * The process of a job: `job_process.ts NAME JSON`. Prints the result as the last line. A job whose
 * input says `end: "kill"` leaves its store as a crash does.
 *
 * @module
 */

import { writeSync } from "node:fs";
import { JOBS, type JobName } from "./jobs.ts";

const [name, text] = process.argv.slice(2);
const job = JOBS[name as JobName] as (input: unknown) => Promise<unknown>;
const input = JSON.parse(text ?? "{}") as { readonly end?: "close" | "kill" };
const result = await job(input);
writeSync(1, `${JSON.stringify(result)}\n`);
if (input.end === "kill") process.kill(process.pid, "SIGKILL");
// What a store of others leaves running is none of ours.
process.exit(0);
