/**
 * The real store: RocketMQ's released jars behind a command line, measured by themselves. It is no
 * part of this repository. `FORCELOG_ORACLE` names its start script; without it
 * `../shared/oracle/run` beside the repository is tried.
 *
 * @module
 */

import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Mode } from "./modes.ts";
import type { Percentiles } from "./numbers.ts";

export const JAVA_VERSION = "5.5.1";
/** Building it, the first time, in ms. */
const BUILD_MS = 300_000;

const MODE_NAMES: Readonly<Record<Mode, string>> = {
  SYNC_FLUSH: "sync",
  ASYNC_FLUSH: "async",
  pool: "pool",
};

export interface JavaPutInput {
  readonly directory: string;
  readonly mode: Mode;
  /** Threads that wait for each put; or one thread with so many puts outstanding. */
  readonly callers: number;
  readonly how: "threads" | "outstanding";
  readonly batch: number;
  readonly bodyBytes: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  readonly fileBytes: number;
}

export interface JavaPutMeasured {
  readonly messages: number;
  readonly messagesPerSecond: number;
  readonly latencyMs: Percentiles;
}

export interface JavaRecovered {
  readonly abort: boolean;
  readonly maxPhyOffset: number;
  readonly loadSeconds: number;
  readonly loadAndStartSeconds: number;
}

/** One line of its output. */
type Line = Readonly<Record<string, unknown>>;

export class Java {
  readonly #path: string;
  /** Of Java itself. */
  readonly runtime: string;

  private constructor(path: string, runtime: string) {
    this.#path = path;
    this.runtime = runtime;
  }

  /** Finds it and sees to it that it is built. @returns Why not, if it can't be used. */
  static find(): Java | string {
    let root = import.meta.dirname;
    while (!existsSync(join(root, "package.json")) && dirname(root) !== root) root = dirname(root);
    const path = resolve(root, process.env.FORCELOG_ORACLE ?? "../shared/oracle/run");
    if (!existsSync(path)) return "there is no start script; set FORCELOG_ORACLE";
    const version = spawnSync("java", ["-version"], { encoding: "utf8" });
    if (version.error) return "there is no java";
    const built = spawnSync(path, ["build"], {
      env: environment(),
      encoding: "utf8",
      timeout: BUILD_MS,
    });
    if (built.status !== 0) {
      const reason = (built.stderr ?? "").trim().split("\n").at(-1);
      return `it can't be built for RocketMQ ${JAVA_VERSION}: ${reason}`;
    }
    const runtime = /version "([^"]*)"/.exec(version.stderr)?.[1] ?? "unknown";
    return new Java(path, runtime);
  }

  /** Puts to a store of its own. Its clean stop says nothing: it is killed once it has told. */
  async put(input: JavaPutInput): Promise<JavaPutMeasured> {
    const { callers, how, batch } = input;
    const [line] = await this.#run(
      [
        "bench",
        ...["--dir", input.directory],
        ...["--mode", MODE_NAMES[input.mode]],
        ...(how === "threads" ? ["--threads", `${callers}`] : ["--inflight", `${callers}`]),
        ...["--size", `${input.bodyBytes}`],
        ...["--seconds", `${input.seconds}`],
        ...["--warmup", `${input.warmUpSeconds}`],
        ...["--file-size", `${input.fileBytes}`],
        // No message has a key: without the index it does no work that our store leaves out.
        "--no-index",
        ...(batch > 1 ? ["--batch", `${batch}`] : []),
      ],
      { killAfterLines: 1 },
    );
    if (!line) throw new Error("The Java store told nothing");
    const ms = (name: string): number => Number(line[name]) / 1000;
    return {
      messages: Number(line.messages),
      messagesPerSecond: Number(line.messagesPerSecond),
      latencyMs: { p50: ms("p50us"), p99: ms("p99us"), p999: ms("p999us"), max: ms("maxus") },
    };
  }

  /**
   * Fills a store unless it is full, and reads it `passes` times.
   *
   * @param input.end `kill`: nobody opens it again.
   * @returns Messages per second of each pass.
   */
  async read(
    directory: string,
    input: {
      readonly bodyBytes: number;
      readonly logBytes: number;
      readonly passes: number;
      readonly fileBytes: number;
      readonly end: "close" | "kill";
    },
  ): Promise<number[]> {
    const lines = await this.#run(
      [
        "bench-read",
        ...["--dir", directory],
        ...["--size", `${input.bodyBytes}`],
        ...["--bytes", `${input.logBytes}`],
        ...["--rounds", `${input.passes}`],
        ...["--file-size", `${input.fileBytes}`],
        "--no-index",
      ],
      input.end === "kill" ? { killAfterLines: input.passes } : {},
    );
    return lines.map((line) => Number(line.messagesPerSecond));
  }

  /** Fills a store and halts. */
  async fill(directory: string, bodyBytes: number, logBytes: number, fileBytes: number) {
    await this.#run([
      "bench-recover",
      "--fill",
      ...["--dir", directory],
      ...["--size", `${bodyBytes}`],
      ...["--bytes", `${logBytes}`],
      ...["--file-size", `${fileBytes}`],
      "--no-index",
    ]);
  }

  /** Opens a store. @param end `kill`: it is then as a crash leaves it. */
  async recover(
    directory: string,
    fileBytes: number,
    end: "close" | "kill",
  ): Promise<JavaRecovered> {
    const [line] = await this.#run([
      "bench-recover",
      ...["--dir", directory],
      ...["--file-size", `${fileBytes}`],
      "--no-index",
      ...(end === "kill" ? ["--halt"] : []),
    ]);
    if (line?.loaded !== true) throw new Error("The Java store could not be loaded");
    return line as unknown as JavaRecovered;
  }

  #run(
    args: readonly string[],
    { killAfterLines = Number.POSITIVE_INFINITY } = {},
  ): Promise<Line[]> {
    return new Promise((done, failed) => {
      const lines: Line[] = [];
      let stderr = "";
      const child = spawn(this.#path, args, {
        env: environment(),
        stdio: ["ignore", "pipe", "pipe"],
      });
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        stderr = (stderr + text).slice(-2000);
      });
      createInterface({ input: child.stdout }).on("line", (line) => {
        lines.push(JSON.parse(line) as Line);
        // The start script became Java.
        if (lines.length >= killAfterLines) child.kill("SIGKILL");
      });
      child.once("error", failed);
      child.once("close", (code) => {
        if (code === 0 || lines.length >= killAfterLines) done(lines);
        else failed(new Error(`RocketMQ: ${args.join(" ")} ended with ${code}: ${stderr.trim()}`));
      });
    });
  }
}

function environment(): NodeJS.ProcessEnv {
  return { ...process.env, ROCKETMQ_VERSION: JAVA_VERSION };
}
