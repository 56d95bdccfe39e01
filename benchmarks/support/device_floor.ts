/**
 * What the device and the page cache give to anybody: the same bytes, without a store around them.
 *
 * @module
 */

import { join } from "node:path";
import { type FileHandle, NodeFileSystem } from "../../lib/mod.ts";
import type { LoopDelay, LoopDelayMonitor } from "./loop_delay.ts";
import { randomBytes } from "./numbers.ts";

/** RocketMQ's period of the flush service: a floor of ASYNC_FLUSH syncs as often as the store. */
const ASYNC_SYNC_INTERVAL_MS = 500;
/** Writes in one turn of the event loop, and their bytes. */
const WRITES_PER_TURN = 64;
const BYTES_PER_TURN = 1024 * 1024;

/** A file to write to: `sparse` has no blocks behind the end, `zeroed` had zeros written there. */
export type FloorFile = "sparse" | "zeroed";

export interface Floor {
  readonly calls: number;
  readonly seconds: number;
  readonly callsPerSecond: number;
  readonly loopDelayMs: LoopDelay;
}

export class DeviceFloor {
  readonly #handles: Readonly<Record<FloorFile, FileHandle>>;
  readonly #sizes: Readonly<Record<FloorFile, number>>;
  readonly #positions: Record<FloorFile, number> = { sparse: 0, zeroed: 0 };
  readonly #bytes: Buffer;

  private constructor(
    handles: Readonly<Record<FloorFile, FileHandle>>,
    sizes: Readonly<Record<FloorFile, number>>,
    seed: number,
  ) {
    this.#handles = handles;
    this.#sizes = sizes;
    this.#bytes = randomBytes(64 * 1024, seed);
  }

  /**
   * Makes the two files.
   *
   * @param sparseBytes Length of the sparse file: that of a commit log file.
   * @param zeroedBytes Bytes of zeros that are written first; the writes go round in them.
   */
  static async make(
    directory: string,
    { sparseBytes, zeroedBytes, seed }: { sparseBytes: number; zeroedBytes: number; seed: number },
  ): Promise<DeviceFloor> {
    const fileSystem = new NodeFileSystem();
    const sparse = await fileSystem.open(join(directory, "sparse"), "create");
    await sparse.ftruncate(sparseBytes);
    await sparse.fdatasync();
    const zeroed = await fileSystem.open(join(directory, "zeroed"), "create");
    const zeros = Buffer.alloc(1024 * 1024);
    for (let position = 0; position < zeroedBytes; position += zeros.length) {
      await zeroed.pwritev([zeros], position);
    }
    await zeroed.fdatasync();
    return new DeviceFloor({ sparse, zeroed }, { sparse: sparseBytes, zeroed: zeroedBytes }, seed);
  }

  /** `pwrite` and `fdatasync` of so many bytes, in one hop to a thread, one call after the other. */
  async writeAndSync(
    file: FloorFile,
    bytes: number,
    seconds: number,
    monitor: LoopDelayMonitor,
  ): Promise<Floor> {
    const buffers = this.#buffersOf(bytes);
    await this.#rewind(file, bytes);
    await this.#writeAndSync(file, buffers, bytes);
    monitor.start();
    const startedAt = performance.now();
    const end = startedAt + seconds * 1000;
    let pausedMs = 0;
    let calls = 0;
    for (let now = startedAt; now < end; now = performance.now()) {
      if (this.#positions[file] + bytes > this.#sizes[file]) {
        await this.#rewind(file, bytes);
        pausedMs += performance.now() - now;
      }
      await this.#writeAndSync(file, buffers, bytes);
      calls++;
    }
    return floorOf(calls, performance.now() - startedAt - pausedMs, monitor.stop());
  }

  /**
   * `pwrite` of so many bytes on the main thread, into a sparse file, one after the other; beside
   * it a sync in a thread as often as the store's own.
   */
  async writeNow(bytes: number, seconds: number, monitor: LoopDelayMonitor): Promise<Floor> {
    const handle = this.#handles.sparse;
    const buffers = this.#buffersOf(bytes);
    const writes = Math.min(WRITES_PER_TURN, Math.ceil(BYTES_PER_TURN / bytes));
    await this.#truncateSparse();
    let syncing: Promise<void> | undefined;
    monitor.start();
    const startedAt = performance.now();
    const end = startedAt + seconds * 1000;
    let syncedAt = startedAt;
    let pausedMs = 0;
    let calls = 0;
    let now = startedAt;
    while (now < end) {
      if (this.#positions.sparse + bytes * writes > this.#sizes.sparse) {
        await syncing;
        await this.#truncateSparse();
        pausedMs += performance.now() - now;
      }
      for (let i = 0; i < writes; i++) {
        whole(handle.pwritevNow(buffers, this.#positions.sparse), bytes);
        this.#positions.sparse += bytes;
        calls++;
      }
      now = performance.now();
      if (!syncing && now - syncedAt >= ASYNC_SYNC_INTERVAL_MS) {
        syncedAt = now;
        syncing = handle.fdatasync().finally(() => {
          syncing = undefined;
        });
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    const tookMs = performance.now() - startedAt - pausedMs;
    const loopDelayMs = monitor.stop();
    await syncing;
    // What was written must not be written to the device while others are measured.
    await this.#truncateSparse();
    return floorOf(calls, tookMs, loopDelayMs);
  }

  async close(): Promise<void> {
    await this.#handles.sparse.close();
    await this.#handles.zeroed.close();
  }

  /** Many buffers, as a store's chunks are. */
  #buffersOf(bytes: number): Buffer[] {
    const buffers: Buffer[] = [];
    for (let left = bytes; left > 0; left -= this.#bytes.length) {
      buffers.push(this.#bytes.subarray(0, Math.min(left, this.#bytes.length)));
    }
    return buffers;
  }

  async #writeAndSync(file: FloorFile, buffers: readonly Buffer[], bytes: number): Promise<void> {
    whole(await this.#handles[file].commitAndForce(buffers, this.#positions[file]), bytes);
    this.#positions[file] += bytes;
  }

  async #rewind(file: FloorFile, bytes: number): Promise<void> {
    if (this.#positions[file] + bytes <= this.#sizes[file]) return;
    if (file === "sparse") await this.#truncateSparse();
    else this.#positions.zeroed = 0;
  }

  async #truncateSparse(): Promise<void> {
    await this.#handles.sparse.ftruncate(0);
    await this.#handles.sparse.ftruncate(this.#sizes.sparse);
    await this.#handles.sparse.fdatasync();
    this.#positions.sparse = 0;
  }
}

function whole(count: number, bytes: number): void {
  if (count !== bytes) throw new Error(`The floor's write took ${count} of ${bytes} bytes`);
}

function floorOf(calls: number, ms: number, loopDelayMs: LoopDelay): Floor {
  return { calls, seconds: ms / 1000, callsPerSecond: (calls * 1000) / ms, loopDelayMs };
}
