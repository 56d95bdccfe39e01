/**
 * `forcelog run`: carries out a script of puts and reads on a store.
 *
 * @module
 */

import { rm, unlink } from "node:fs/promises";
import { relative, resolve, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Arrival, MessageStore, PutError, type PutResult } from "../lib/mod.ts";
import { configOf, type Fields, readObject } from "./arguments.ts";
import { type JsonObject, jsonText } from "./json.ts";
import type { Verb } from "./main.ts";
import { batchTopicsIn, flagIn, numberIn, parseScript, type Script, textIn } from "./script.ts";
import { batchOf, dependsOnPlace, messageOf, type PutPlace } from "./script_messages.ts";
import { maxPhysicalOffset, read } from "./script_reads.ts";
import { describe, type Terminal } from "./terminal.ts";

/** Arrivals kept for a read of them. */
const ARRIVALS_MAX = 100_000;
const WAIT_DISPATCHED_MS = 10_000;

interface RunOptions {
  readonly dir: string;
  readonly script: string;
  readonly quiet?: true;
}

export const run: Verb = (command, terminal) => {
  command
    .requiredOption("--dir <directory>", "the store's directory; it is made if there is none")
    .requiredOption("--script <json>", "the script: JSON text or a file")
    .option("--quiet", "print no line for puts and other steps that went well")
    .option("--json", "as it is: run prints nothing but JSON")
    .addHelpText(
      "after",
      `
This verb writes. A script is {"config": {...}, "steps": [...], "reads": [...], "end": "shutdown"}.

  config  options of the store, by RocketMQ's names; sizes in bytes, times in ms
  steps   {"op": ...}: put (if there is no "op"), putBatch, sleep, flush, waitDispatched, clean,
          checkpoint, deleteFile, restart
  reads   {"read": ...}: getMessage, queryMessage, lookMessageByOffset, offsetByTime, queue, unit, store,
          arrivals;
          steps may stand between
  end     "shutdown" closes the store, "halt" ends the process on the spot as kill -9 does

Each step and each read prints one line of JSON. A put whose status is not the one that it expects
("expect", if not given PUT_OK) ends the run with exit code 1.

Examples:
  forcelog run --dir /tmp/store --script '{"steps": [{"topic": "T", "body": "hello"}]}'
  forcelog run --dir /tmp/store --script script.json --quiet`,
    )
    .action((options: RunOptions) => runScript(options, terminal));
};

async function runScript(options: RunOptions, terminal: Terminal): Promise<void> {
  const script = parseScript(await readObject(options.script, "--script"));
  const runner = await Runner.open(options, script, terminal);
  try {
    await runner.steps();
    await runner.reads();
    await runner.end();
  } catch (error) {
    // What went wrong first is what there is to say.
    await runner.close().catch(() => undefined);
    throw error;
  }
  await runner.close();
}

class Runner {
  readonly #options: RunOptions;
  readonly #script: Script;
  readonly #terminal: Terminal;
  #store: MessageStore;
  #arrivals: Arrival[] = [];

  private constructor(
    options: RunOptions,
    script: Script,
    terminal: Terminal,
    store: MessageStore,
  ) {
    this.#options = options;
    this.#script = script;
    this.#terminal = terminal;
    this.#store = store;
  }

  static async open(options: RunOptions, script: Script, terminal: Terminal): Promise<Runner> {
    const arrivals: Arrival[] = [];
    const store = await openStore(options.dir, script, terminal, arrivals);
    const runner = new Runner(options, script, terminal, store);
    runner.#arrivals = arrivals;
    return runner;
  }

  async steps(): Promise<void> {
    for (const [i, step] of this.#script.steps.entries()) await this.#step(step, `step ${i + 1}`);
  }

  async reads(): Promise<void> {
    const { reads } = this.#script;
    if (reads.length > 0) await this.#waitDispatched(WAIT_DISPATCHED_MS);
    for (const [i, fields] of reads.entries()) {
      if ("read" in fields) {
        await this.#print({ read: fields as JsonObject, ...(await this.#read(fields)) });
      } else {
        await this.#step(fields, `read ${i + 1}`);
        await this.#waitDispatched(WAIT_DISPATCHED_MS);
      }
    }
  }

  async end(): Promise<void> {
    const { end } = this.#script;
    const { flushed, dispatched } = this.#store.watermarks;
    const maxPhyOffset = maxPhysicalOffset(this.#store);
    const behind = maxPhyOffset - dispatched;
    await this.#print({ op: "end", end, maxPhyOffset, flushedWhere: flushed, behind });
    if (end !== "halt") return;
    await this.#terminal.flushed();
    process.exit(0);
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #print(line: JsonObject): Promise<void> {
    await this.#terminal.line(jsonText(line));
  }

  async #read(fields: Fields): Promise<JsonObject> {
    try {
      return await read(this.#store, fields, this.#arrivals);
    } catch (error) {
      return { thrown: describe(error) };
    }
  }

  async #step(step: Fields, where: string): Promise<void> {
    const { op = "put" } = step;
    if (op === "put" || op === "putBatch") {
      await this.#put(step, where);
      return;
    }
    const result = await this.#other(step);
    if (result && !this.#options.quiet) await this.#print({ op: op as string, ...result });
  }

  /** @returns What to print beside the step's name, if anything. */
  async #other(step: Fields): Promise<JsonObject | undefined> {
    switch (step.op) {
      case "sleep":
        await sleep(numberIn(step, "ms", 100));
        return undefined;
      case "flush":
        await this.#store.flush();
        return { flushed: this.#store.watermarks.flushed };
      case "waitDispatched": {
        const done = await this.#waitDispatched(numberIn(step, "ms", WAIT_DISPATCHED_MS));
        return { done, maxPhyOffset: maxPhysicalOffset(this.#store) };
      }
      case "clean":
        await this.#store.clean();
        return { minPhyOffset: this.#store.minPhysicalOffset };
      case "checkpoint":
        await this.#store.checkpoint();
        return {};
      case "deleteFile":
        return { done: await deleteFile(this.#inside(textIn(step, "file") ?? "")) };
      default:
        await this.#restart(step);
        return undefined;
    }
  }

  async #restart({ remove = [] }: Fields): Promise<void> {
    if (!Array.isArray(remove)) throw new Error('Cannot use "remove": expected a list of paths');
    const paths = remove.map((path) => this.#inside(String(path)));
    await this.#store.close();
    for (const path of paths) await rm(path, { recursive: true });
    this.#arrivals = [];
    this.#store = await openStore(this.#options.dir, this.#script, this.#terminal, this.#arrivals);
  }

  /** A path in the store's directory; one that leads out of it is refused. */
  #inside(path: string): string {
    const root = resolve(this.#options.dir);
    const inside = resolve(root, path);
    const way = relative(root, inside);
    if (way !== "" && way !== ".." && !way.startsWith(`..${sep}`)) return inside;
    throw new Error(`Cannot remove "${path}": it does not lie in ${root}`);
  }

  async #waitDispatched(ms: number): Promise<boolean> {
    const deadline = performance.now() + ms;
    for (;;) {
      if (this.#store.watermarks.dispatched >= maxPhysicalOffset(this.#store)) return true;
      if (performance.now() >= deadline) return false;
      await sleep(1);
    }
  }

  async #put(step: Fields, where: string): Promise<void> {
    const expect = textIn(step, "expect") ?? "PUT_OK";
    let unmet: string | undefined;
    try {
      for await (const { line, error } of this.#puts(step)) {
        if (!this.#options.quiet) await this.#print(line);
        if (expect === "any" || line.status === expect) continue;
        unmet ??= `${line.status}${error ? ` (${describe(error)})` : ""}`;
      }
    } catch (error) {
      if (expect !== "throw" && expect !== "any") throw error;
      await this.#print({ op: opOf(step), thrown: describe(error) });
    }
    if (unmet !== undefined) {
      throw new Error(
        `Cannot go on after ${where} of the script: expected ${expect}, got ${unmet}`,
      );
    }
  }

  /** Puts all repeats of a step and yields the outcomes in order. */
  async *#puts(step: Fields): AsyncGenerator<Outcome, void, void> {
    const repeat = numberIn(step, "repeat", 1);
    const from = numberIn(step, "from", 0);
    const pauseMs = numberIn(step, "pauseMs", 0);
    const isAsync = flagIn(step, "async");
    const waits = dependsOnPlace(step);
    const pending: Promise<Outcome>[] = [];
    for (let i = from; i < from + repeat; i++) {
      const outcome = outcomeOf(step, this.#putOne(step, i));
      if (isAsync) {
        // One that fails before its turn is nobody's surprise.
        outcome.catch(() => undefined);
        pending.push(outcome);
      }
      if (!isAsync || waits) {
        const settled = await outcome;
        if (!isAsync) yield settled;
      }
      if (pauseMs > 0) await sleep(pauseMs);
    }
    for (const outcome of pending) yield await outcome;
  }

  #putOne(step: Fields, i: number): Promise<PutResult> {
    if (step.op === "putBatch") return this.#store.putBatch(batchOf(step, i));
    return this.#store.put(messageOf(step, i, this.#place()));
  }

  #place(): PutPlace {
    const { options, watermarks } = this.#store;
    return {
      logEnd: watermarks.wrote,
      fileSize: options.mappedFileSizeCommitLog,
      appendPropertyCrc: options.enabledAppendPropCRC,
      autoVersion: options.autoMessageVersionOnTopicLen,
    };
  }
}

/** What became of a put that RocketMQ has a status for. */
interface Outcome {
  readonly line: JsonObject;
  readonly error: PutError | undefined;
}

async function outcomeOf(step: Fields, put: Promise<PutResult>): Promise<Outcome> {
  const head = { op: opOf(step), ...("id" in step ? { id: step.id as string } : {}) };
  try {
    const result = await put;
    return {
      line: {
        ...head,
        status: result.status,
        append: result.status,
        msgId: result.messageId,
        wroteOffset: result.physicalOffset,
        wroteBytes: result.size,
        queueOffset: result.queueOffset,
        msgNum: result.messageCount,
        storeTimestamp: result.storeTimestamp,
      },
      error: undefined,
    };
  } catch (error) {
    if (!(error instanceof PutError)) throw error;
    return { line: { ...head, status: error.status, append: null }, error };
  }
}

function opOf({ op = "put" }: Fields): string {
  return op as string;
}

async function openStore(
  directory: string,
  script: Script,
  terminal: Terminal,
  arrivals: Arrival[],
): Promise<MessageStore> {
  // A store alone takes anything: its broker's checks are asked for by name.
  const options = { brokerChecks: false, ...configOf(script.fields) };
  const store = await MessageStore.open(directory, options, {
    onWarning: (warning) => terminal.note(`warning: ${warning}`),
    onArrival: (arrival) => {
      if (arrivals.length < ARRIVALS_MAX) arrivals.push(arrival);
    },
  });
  for (const topic of batchTopicsIn(script)) {
    await store.topics.update(topic, { attributes: { "queue.type": "BatchCQ" } });
  }
  return store;
}

async function deleteFile(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (cause) {
    if ((cause as { code?: string }).code === "ENOENT") return false;
    throw new Error(`Cannot delete ${path}`, { cause });
  }
}
