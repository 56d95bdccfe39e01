/**
 * The judge: RocketMQ's own message store, released jars of it, driven by a small Java program that
 * speaks in scripts and JSON lines. It is no part of this repository; where it is not at hand, tests
 * that need it are skipped.
 *
 * `FORCELOG_ORACLE` names its start script; without it `../shared/oracle/run` beside the repository
 * is tried.
 *
 * @module
 */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

/** Of RocketMQ; the newest last. */
export const JAVA_VERSIONS = ["4.9.8", "5.3.3", "5.5.1"] as const;
export type JavaVersion = (typeof JAVA_VERSIONS)[number];

/** A script, or what a store is opened with: `config`, `steps`, `reads`, `end`, ... */
export type Script = Readonly<Record<string, unknown>> & {
  readonly config: Readonly<Record<string, unknown>>;
};

/** One line of output. */
export type Line = Readonly<Record<string, unknown>>;

/** Java processes at the same time, in one test file. */
const AT_ONCE = 2;
/** None of them may need longer, in ms. */
const PATIENCE_MS = 120_000;
/** Building it for one version, the first time, in ms. */
const BUILD_MS = 300_000;

/** It lives a few seconds: the better compiler would cost more than it brings. */
const SHORT_LIVED = "-XX:TieredStopAtLevel=1";

/** Options of ours that Java does not know. */
const OURS = ["damagedLogPolicy", "recoverWholeLog", "brokerChecks", "bornHost", "storeHost"];
/** Options that came after 4.9. */
const SINCE_5 = ["enabledAppendPropCRC", "forceVerifyPropCRC", "readUnCommitted"];

export class Oracle {
  readonly #path: string;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  private constructor(path: string) {
    this.#path = path;
  }

  /**
   * Finds it and sees to it that it is built for all versions.
   *
   * @returns Why not, if it can't be used.
   */
  static find(): Oracle | string {
    const root = resolve(import.meta.dirname, "../..");
    const path = resolve(root, process.env.FORCELOG_ORACLE ?? "../shared/oracle/run");
    if (!existsSync(path)) return `there is no ${path}; set FORCELOG_ORACLE`;
    if (spawnSync("java", ["-version"]).error) return "there is no java";
    for (const version of JAVA_VERSIONS) {
      const built = spawnSync(path, ["build"], {
        env: { ...process.env, ROCKETMQ_VERSION: version },
        encoding: "utf8",
        timeout: BUILD_MS,
      });
      if (built.status === 0) continue;
      return `it can't be built for RocketMQ ${version}: ${(built.stderr ?? "").trim().split("\n").at(-1)}`;
    }
    return new Oracle(path);
  }

  /** Carries out a script: `write` its steps, or `read` its reads. @returns The lines. */
  run(version: JavaVersion, command: "write" | "read", dir: string, script: Script) {
    return this.#run(version, [command, "--dir", dir], "--script", scriptFor(version, script));
  }

  /** Everything that Java sees in the directory. It changes the directory: give it a copy. */
  async dump(version: JavaVersion, dir: string, script: Script): Promise<unknown> {
    const command = ["dump", "--no-shutdown", "--dir", dir];
    const lines = await this.#run(version, command, "--config", scriptFor(version, script));
    return lines.at(-1);
  }

  /** Starts `write` and lets it run beside the test. */
  start(version: JavaVersion, dir: string, script: Script): JavaProcess {
    return new JavaProcess(this.#path, version, ["write", "--dir", dir], "--script", script);
  }

  async #run(
    version: JavaVersion,
    command: readonly string[],
    option: string,
    script: Script,
  ): Promise<Line[]> {
    while (this.#running >= AT_ONCE) {
      await new Promise<void>((free) => this.#waiting.push(free));
    }
    this.#running++;
    try {
      const process = new JavaProcess(this.#path, version, command, option, script);
      const timer = setTimeout(() => process.kill(), PATIENCE_MS);
      const { code, stderr } = await process.ended;
      clearTimeout(timer);
      if (code !== 0) {
        throw new JavaFailed(`RocketMQ ${version}: ${command[0]} ended with ${code}`, stderr);
      }
      return process.lines;
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }
}

/** It ended with an exit code that is not 0. */
export class JavaFailed extends Error {
  override readonly name = "JavaFailed";
  readonly stderr: string;

  constructor(message: string, stderr: string) {
    super(`${message}: ${stderr.trim().slice(-2000)}`);
    this.stderr = stderr;
  }
}

/** A running Java store. */
export class JavaProcess {
  readonly lines: Line[] = [];
  readonly ended: Promise<{ readonly code: number | null; readonly stderr: string }>;
  readonly #process: ChildProcess;
  #wake: () => void = () => undefined;
  #gone = false;

  constructor(
    path: string,
    version: JavaVersion,
    command: readonly string[],
    option: string,
    script: Script,
  ) {
    // A script may be longer than an argument may be.
    const folder = mkdtempSync(join(tmpdir(), "oracle-"));
    const file = join(folder, "script.json");
    writeFileSync(file, JSON.stringify(script));
    this.#process = spawn(path, [...command, option, file], {
      env: { ORACLE_JAVA_OPTS: SHORT_LIVED, ...process.env, ROCKETMQ_VERSION: version },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let stderr = "";
    const { stdout, stderr: errors } = this.#process as { stdout: Readable; stderr: Readable };
    errors.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    createInterface({ input: stdout }).on("line", (line) => {
      this.lines.push(JSON.parse(line) as Line);
      this.#wake();
    });
    this.ended = new Promise((done) => {
      this.#process.once("close", (code) => {
        rmSync(folder, { recursive: true, force: true });
        this.#gone = true;
        this.#wake();
        done({ code, stderr });
      });
    });
  }

  /** Of the Java process itself: the start script became it. */
  get pid(): number {
    return this.#process.pid as number;
  }

  /** Waits until the process has printed such a line. @throws if it ends before. */
  async until(condition: (line: Line) => boolean): Promise<Line> {
    for (;;) {
      const found = this.lines.find(condition);
      if (found) return found;
      if (this.#gone) throw new JavaFailed("Java ended early", (await this.ended).stderr);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }
}

/** Without what that version does not know. */
function scriptFor(version: JavaVersion, script: Script): Script {
  const unknown = version.startsWith("4.") ? [...OURS, ...SINCE_5] : OURS;
  const config = Object.entries(script.config).filter(([key]) => !unknown.includes(key));
  return { ...script, config: Object.fromEntries(config) };
}
