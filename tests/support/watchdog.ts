/**
 * Ends the process when its main thread has stood still for too long, which it could not do itself.
 *
 * @module
 */

import { Worker } from "node:worker_threads";

/** What the main thread is at: so many numbers, the first of them counts its steps. */
const NUMBERS = 3;

/** Looks at the numbers, and kills. JavaScript, since a worker has no loader of its own. */
const CODE = `
const { workerData } = require("node:worker_threads");
const { writeSync } = require("node:fs");
const { shared, limitMs, format } = workerData;
const numbers = new Int32Array(shared);
const tickMs = Math.min(1000, limitMs / 4);
let last = -1;
// Counted, not looked up: a process that was stopped as a whole has stood still for no time.
let idleMs = 0;
setInterval(() => {
  const step = Atomics.load(numbers, 0);
  idleMs = step === last ? idleMs + tickMs : 0;
  last = step;
  if (idleMs > limitMs) {
    const text = format.replace("%1", numbers[1]).replace("%2", numbers[2]);
    writeSync(2, "\\nNothing has happened for " + limitMs + " ms: " + text + "\\n");
    process.kill(process.pid, "SIGKILL");
  }
}, tickMs);
`;

export class Watchdog {
  readonly #numbers = new Int32Array(new SharedArrayBuffer(4 * NUMBERS));
  readonly #worker: Worker;

  /**
   * @param limitMs A step that takes longer is its last.
   * @param format What is said then; `%1` and `%2` are the numbers of the step.
   */
  constructor(limitMs: number, format: string) {
    const workerData = { shared: this.#numbers.buffer, limitMs, format };
    this.#worker = new Worker(CODE, { eval: true, workerData, execArgv: [] });
    this.#worker.unref();
  }

  /** A step begins. */
  step(first: number, second: number): void {
    Atomics.store(this.#numbers, 1, first);
    Atomics.store(this.#numbers, 2, second);
    Atomics.add(this.#numbers, 0, 1);
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
