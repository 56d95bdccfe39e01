/**
 * A flush pipeline on a few real files, and a witness that knows what was written and synced.
 *
 * @module
 */

import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Test } from "tap";
import type { StoreError } from "../../lib/errors.ts";
import type { FileSystem } from "../../lib/io/file_system.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { resolveOptions, type StoreOptions } from "../../lib/options.ts";
import { FlushPipeline } from "../../lib/segment/flush_pipeline.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { type Segment, segmentOf } from "../../lib/segment/segment.ts";
import { SegmentQueue } from "../../lib/segment/segment_queue.ts";
import { WriteBuffer } from "../../lib/segment/write_buffer.ts";
import { type Call, FakeClock, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { testFolder } from "./test_folder.ts";

const BLANK_BYTES = 8;

export interface RigSettings {
  /** @default 65536 */
  readonly fileSize?: number;
  /** Files that exist. @default 6 */
  readonly files?: number;
  /** @default 64 MiB */
  readonly budgetBytes?: number;
  /** The first write to a file makes sure that its name still leads to it. @default false */
  readonly verified?: boolean;
  /** What the calls go to. @default the machine's */
  readonly base?: FileSystem;
  /** Awaited in every asynchronous write and sync. */
  readonly delay?: () => Promise<void> | undefined;
}

/** What a put of the rig ended in. */
export interface RigPut {
  /** Its first byte, and the first one behind it. */
  readonly offset: number;
  readonly end: number;
}

export class PipelineRig {
  readonly t: Test;
  readonly clock = new FakeClock();
  readonly fs: InterceptedFileSystem;
  readonly files: OpenFiles;
  readonly queue: SegmentQueue;
  readonly buffer: WriteBuffer;
  readonly pipeline: FlushPipeline;
  /** `committed 10`, `flushed 10`, `put 0` in the order in which they came. */
  readonly events: string[] = [];
  readonly failures: StoreError[] = [];
  readonly slowForces: number[] = [];
  readonly noSpace: string[] = [];
  /** Syncs under way, and the most that ever were at once. */
  forcing = 0;
  forcingMax = 0;
  readonly #spare: Segment[];
  /** By path: what is to be in the file, and up to where it was written and synced. */
  readonly #expected = new Map<string, Buffer>();
  readonly #written = new Map<string, number>();
  readonly #synced = new Map<string, number>();
  /** Ends of the appends, by path, as offsets of the log and positions in the file. */
  readonly #ends: { path: string; position: number; offset: number }[] = [];
  #last = { wrote: 0, committed: 0, flushed: 0 };
  #byte = 1;

  static async make(
    t: Test,
    options: StoreOptions = {},
    settings: RigSettings = {},
  ): Promise<PipelineRig> {
    const { fileSize = 65_536, files = 6, base = new NodeFileSystem() } = settings;
    const directory = mkdtempSync(join(testFolder(t), "log-"));
    const segments: Segment[] = [];
    for (let i = 0; i < files; i++) {
      const segment = segmentOf(directory, i * fileSize, fileSize);
      const file = await base.open(segment.path, "create");
      await file.ftruncate(fileSize);
      if (settings.verified) segment.unverifiedIdentity = (await file.stat()).identity;
      await file.close();
      segments.push(segment);
    }
    return new PipelineRig(t, directory, segments, options, settings, base);
  }

  private constructor(
    t: Test,
    directory: string,
    segments: Segment[],
    options: StoreOptions,
    { fileSize = 65_536, budgetBytes = 64 * 1024 * 1024, delay }: RigSettings,
    base: FileSystem,
  ) {
    this.t = t;
    this.fs = new InterceptedFileSystem(base, (call, proceed) => this.#watch(call, proceed, delay));
    this.files = new OpenFiles(this.fs);
    this.#spare = segments.slice(1);
    this.queue = new SegmentQueue(directory, fileSize, this.files, segments.slice(0, 1));
    for (const { path } of segments) this.#expected.set(path, Buffer.alloc(fileSize));
    this.buffer = new WriteBuffer(budgetBytes);
    this.pipeline = new FlushPipeline(
      {
        fileSystem: this.fs,
        files: this.files,
        buffer: this.buffer,
        clock: this.clock,
        options: { ...resolveOptions(options), mappedFileSizeCommitLog: fileSize },
        segmentsBetween: (from, to) =>
          this.queue.segments.filter(({ start, size }) => start < to && start + size > from),
        noteFailedSync: async () => {
          this.events.push("sync failed");
        },
        listener: {
          committed: (offset) => this.#told("committed", offset),
          flushed: (offset) => this.#told("flushed", offset),
          failed: (error) => this.failures.push(error),
          noSpace: (error) => this.noSpace.push(error?.message ?? "space"),
          slowForce: (ms) => this.slowForces.push(ms),
        },
      },
      0,
    );
    t.teardown(async () => {
      this.fs.clear();
      await this.files.closeAll();
    });
  }

  /** Opens the first file, so that the next commit can be made on the main thread. */
  async warm(): Promise<void> {
    const first = this.queue.first as Segment;
    await this.files.use(first.path, async () => undefined);
  }

  /** Appends so many bytes, as a commit log does, rolling if need be. */
  append(length: number): RigPut {
    let { last } = this.queue;
    let { wrote } = this.pipeline;
    const room = (last as Segment).start + (last as Segment).size - wrote;
    if (length + BLANK_BYTES > room) {
      if (room > 0) this.#fill(last as Segment, BLANK_BYTES, true);
      last = this.#spare.shift();
      if (!last) throw new Error("The rig has no more files");
      this.queue.add(last);
      this.pipeline.rolled(last.start);
      wrote = last.start;
    }
    this.#fill(last as Segment, length, false);
    this.pipeline.appended(wrote + length);
    this.check();
    return { offset: wrote, end: wrote + length };
  }

  /** Appends, and promises as a store does. */
  put(length: number, wait = true): Promise<RigPut> {
    const { pipeline } = this;
    const placed = this.append(length);
    const promised = pipeline.promised(wait);
    const kept = pipeline.keep(promised, placed.end, placed, {
      expired: ({ offset }) => new Error(`timeout ${offset}`),
      failed: ({ offset }, cause) => new Error(`failed ${offset}`, { cause }),
    });
    return kept.then((value) => {
      const least =
        promised === "force" ? pipeline.flushed : promised === "commit" ? pipeline.committed : 0;
      if (promised !== "append" && placed.end > least) {
        this.t.fail(`put ${placed.offset} to ${placed.end} resolved at ${least}`);
      }
      this.events.push(`put ${placed.offset}`);
      this.check();
      return value;
    });
  }

  /** Positions are in order and never go back. */
  check(): void {
    const { wrote, committed, flushed } = this.pipeline;
    if (!(flushed <= committed && committed <= wrote)) {
      this.t.fail(`positions are in order: ${flushed} ≤ ${committed} ≤ ${wrote}`);
    }
    const last = this.#last;
    if (flushed < last.flushed || committed < last.committed || wrote < last.wrote) {
      this.t.fail("positions never go back");
    }
    this.#last = { wrote, committed, flushed };
  }

  /** The files have every byte that was committed at its place. */
  checkFiles(): void {
    const { committed } = this.pipeline;
    for (const { path, start, size } of this.queue.segments) {
      const length = Math.min(Math.max(committed - start, 0), size);
      const expected = (this.#expected.get(path) as Buffer).subarray(0, length);
      const found = readFileSync(path);
      this.t.ok(found.subarray(0, length).equals(expected), `${path} up to ${length}`);
      this.t.equal(found.length, size);
    }
  }

  /** Syncs of the log so far. */
  get syncs(): number {
    return this.fs.count("fdatasync");
  }

  #fill(segment: Segment, length: number, seals: boolean): void {
    const position = this.pipeline.wrote - segment.start;
    const { target, at } = this.buffer.room(segment, position, length);
    const value = this.#byte++ & 0xff;
    target.fill(value, at, at + length);
    this.#expected.get(segment.path)?.fill(value, position, position + length);
    this.buffer.append(length, seals);
    const end = position + length;
    const offset = seals ? segment.start + segment.size : segment.start + end;
    this.#ends.push({ path: segment.path, position: end, offset });
  }

  #told(what: "committed" | "flushed", offset: number): void {
    this.events.push(`${what} ${offset}`);
    this.check();
    const done = what === "committed" ? this.#written : this.#synced;
    for (const { path, position, offset: end } of this.#ends) {
      if (end <= offset && (done.get(path) ?? 0) < position) {
        this.t.fail(`${what} ${offset}, but ${path} only up to ${done.get(path)} of ${position}`);
        return;
      }
    }
  }

  #watch(call: Call, proceed: () => unknown, delay: RigSettings["delay"]): unknown {
    const { name, path, position = 0 } = call;
    const wrote = (count: number): number => {
      this.#written.set(path, Math.max(this.#written.get(path) ?? 0, position + count));
      return count;
    };
    if (name === "pwritevNow") return wrote(proceed() as number);
    if (name === "pwritev") {
      return (async () => {
        await delay?.();
        return wrote((await proceed()) as number);
      })();
    }
    if (name !== "fdatasync") return proceed();
    const covered = this.#written.get(path) ?? 0;
    return (async () => {
      this.forcing++;
      this.forcingMax = Math.max(this.forcingMax, this.forcing);
      try {
        await delay?.();
        await proceed();
        this.#synced.set(path, covered);
      } finally {
        this.forcing--;
      }
    })();
  }
}
