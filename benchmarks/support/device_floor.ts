/**
 * What the device and the page cache give to anybody: the same bytes, without a store around them.
 *
 * @module
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type FileHandle, NodeFileSystem } from "../../lib/mod.ts";
import { type LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import { Latencies, type Percentiles, randomBytes } from "./numbers.ts";

const MIB = 1024 * 1024;
/** RocketMQ's period of the flush service: a floor of ASYNC_FLUSH syncs as often as the store. */
const ASYNC_SYNC_INTERVAL_MS = 500;
/** Writes in one turn of the event loop, and their bytes. */
const WRITES_PER_TURN = 64;
const BYTES_PER_TURN = MIB;
/** Calls before those that count. */
const WARM_UP_CALLS = 50;

/**
 * `sparse`: `pwrite` and `fdatasync`, one call after the other in one hop to a thread, into a file
 * that has no blocks behind its end. `written`: the same into blocks that had zeros written before,
 * round and round. `unsynced`: `pwrite` on the main thread into a sparse file, beside a sync every
 * 500 ms.
 */
export type FloorKind = "sparse" | "written" | "unsynced";

export interface FloorInput {
  /** The files stay there for the next floor. */
  readonly directory: string;
  readonly kind: FloorKind;
  /** Of one call. */
  readonly bytes: number;
  readonly seconds: number;
  readonly seed: number;
  /** Length of the sparse file: that of a file of the commit log. */
  readonly sparseBytes: number;
  readonly writtenBytes: number;
}

export interface FloorMeasured {
  readonly calls: number;
  readonly seconds: number;
  readonly callsPerSecond: number;
  readonly latencyMs: Percentiles;
  readonly loopDelayMs: LoopDelay;
}

export async function measureFloor(input: FloorInput): Promise<FloorMeasured> {
  const monitor = await LoopDelayMonitor.make();
  const written = input.kind === "written";
  const handle = await openFile(
    join(input.directory, written ? "floor-written" : "floor-sparse"),
    written ? input.writtenBytes : 0,
  );
  try {
    const floor = new Floor(handle, input, monitor);
    return await (input.kind === "unsynced" ? floor.writeNow() : floor.writeAndSync());
  } finally {
    await handle.close();
  }
}

/** @param zeros So many bytes of zeros are written if the file is new. */
async function openFile(path: string, zeros: number): Promise<FileHandle> {
  const isNew = !existsSync(path);
  const handle = await new NodeFileSystem().open(path, isNew ? "create" : "write");
  const bytes = Buffer.alloc(MIB);
  for (let at = 0; isNew && at < zeros; at += MIB) await handle.pwritev([bytes], at);
  await handle.fdatasync();
  return handle;
}

class Floor {
  readonly #handle: FileHandle;
  readonly #input: FloorInput;
  readonly #monitor: LoopDelayMonitor;
  readonly #buffers: readonly Buffer[];
  readonly #size: number;
  readonly #latencies = new Latencies();
  #position = 0;
  /** Time that is not the device's: in ms. */
  #pausedMs = 0;

  constructor(handle: FileHandle, input: FloorInput, monitor: LoopDelayMonitor) {
    this.#handle = handle;
    this.#input = input;
    this.#monitor = monitor;
    this.#buffers = buffersOf(input);
    this.#size = input.kind === "written" ? input.writtenBytes : input.sparseBytes;
  }

  async writeAndSync(): Promise<FloorMeasured> {
    const { bytes } = this.#input;
    await this.#rewind();
    const call = async (): Promise<void> => {
      if (this.#position + bytes > this.#size) await this.#rewind();
      whole(await this.#handle.commitAndForce(this.#buffers, this.#position), bytes);
      this.#position += bytes;
    };
    for (let i = 0; i < WARM_UP_CALLS; i++) await call();
    return this.#measure(async () => {
      await call();
      return 1;
    });
  }

  async writeNow(): Promise<FloorMeasured> {
    const { bytes } = this.#input;
    const writes = Math.min(WRITES_PER_TURN, Math.ceil(BYTES_PER_TURN / bytes));
    let syncing: Promise<void> | undefined;
    let syncedAt = performance.now();
    await this.#rewind();
    const measured = await this.#measure(async () => {
      if (this.#position + bytes * writes > this.#size) {
        await syncing;
        await this.#rewind();
      }
      for (let i = 0; i < writes; i++) {
        whole(this.#handle.pwritevNow(this.#buffers, this.#position), bytes);
        this.#position += bytes;
      }
      const now = performance.now();
      if (!syncing && now - syncedAt >= ASYNC_SYNC_INTERVAL_MS) {
        syncedAt = now;
        syncing = this.#handle.fdatasync().finally(() => {
          syncing = undefined;
        });
      }
      await new Promise((turn) => setImmediate(turn));
      return writes;
    });
    await syncing;
    // What was written must not be written to the device while others are measured.
    await this.#rewind();
    return measured;
  }

  /** Steps until the time is over; each says how many calls it made. */
  async #measure(step: () => Promise<number>): Promise<FloorMeasured> {
    this.#pausedMs = 0;
    this.#monitor.start();
    const startedAt = performance.now();
    const end = startedAt + this.#input.seconds * 1000;
    let calls = 0;
    for (let now = startedAt; now < end; ) {
      const pausedBefore = this.#pausedMs;
      const made = await step();
      calls += made;
      const after = performance.now();
      this.#latencies.add((after - now - (this.#pausedMs - pausedBefore)) / made);
      now = after;
    }
    const seconds = (performance.now() - startedAt - this.#pausedMs) / 1000;
    return {
      calls,
      seconds,
      callsPerSecond: calls / seconds,
      latencyMs: this.#latencies.percentiles(),
      loopDelayMs: this.#monitor.stop(),
    };
  }

  async #rewind(): Promise<void> {
    const startedAt = performance.now();
    if (this.#input.kind !== "written") {
      await this.#handle.ftruncate(0);
      await this.#handle.ftruncate(this.#size);
      await this.#handle.fdatasync();
    }
    this.#position = 0;
    this.#pausedMs += performance.now() - startedAt;
  }
}

/** Many buffers, as a store's chunks are. */
function buffersOf({ bytes, seed }: FloorInput): Buffer[] {
  const chunk = randomBytes(64 * 1024, seed);
  const buffers: Buffer[] = [];
  for (let left = bytes; left > 0; left -= chunk.length) {
    buffers.push(chunk.subarray(0, Math.min(left, chunk.length)));
  }
  return buffers;
}

function whole(count: number, bytes: number): void {
  if (count !== bytes) throw new Error(`The floor's write took ${count} of ${bytes} bytes`);
}
