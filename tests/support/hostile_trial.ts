/**
 * One damaged store, looked at and written to: everything either works or fails with an error that says
 * where, in so many system calls, bytes and turns of the event loop.
 *
 * @module
 */

import {
  explainRecovery,
  type Message,
  MessageStore,
  PutError,
  type PutResult,
  type QueryRequest,
  type QueueBounds,
  type StoredMessage,
  StoreError,
  type StoreOptions,
} from "../../lib/mod.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { type Random, randomOf } from "../../lib/testing/random.ts";
import { type Base, baseOf, basesByCost } from "./hostile_bases.ts";
import { ImageFileSystem, type ImageFileSystemOptions } from "./image_file_system.ts";
import type { StoreImage } from "./store_image.ts";
import { type Mutation, mutate, mutateAtRandom } from "./store_mutator.ts";

/** Everything that a trial follows from. */
export interface TrialPlan {
  /** One of `baseNames()`. */
  readonly base: string;
  /** Of what is asked and in which way. */
  readonly seed: number;
  readonly mutations: readonly Mutation[];
}

/** What came of it: codes of errors, or `ok`. */
export interface TrialResult {
  readonly reading: string;
  readonly writing: string;
  /** By what: errors of single reads and puts. */
  readonly errors: ReadonlyMap<string, number>;
}

/** What no damaged store may do to us. */
export class HostileFailure extends Error {
  override readonly name = "HostileFailure";
}

/** System calls of a whole trial, and what short reads add: a few thousand are usual. */
const CALLS_MAX = 60_000;
const READS_IN_PIECES_MAX = 4;
/** Bytes read in one open and walk, as a multiple of the store's, and beyond. */
const READ_FACTOR_MAX = 32;
const READ_BYTES_FREE = 4 * 1024 * 1024;
/** Turns in which nothing happens before time is moved on, and how often it is. */
const IDLE_TURNS = 20;
const IDLE_ROUNDS = 15;
/** A buffer that is no larger is no sign of a length that was believed. */
const BUFFER_FREE = 2 * 1024 * 1024;

/** A plan that follows from seed and round. */
export async function planOf(
  seed: number,
  round: number,
  names: readonly string[] = basesByCost(),
): Promise<TrialPlan> {
  const random = randomOf(Math.imul(seed, 0x9e3779b1) + round);
  const base = await baseOf(names[random(names.length)] as string);
  const image = base.image.fork();
  const mutations = mutateAtRandom(image, base.survey, random);
  return { base: base.name, seed: random(2 ** 31), mutations };
}

/** What opens a store: replaced by the tests of this harness. */
export type Opener = typeof MessageStore.open;

/**
 * Carries out a trial.
 *
 * @throws {HostileFailure} for whatever is neither success nor a proper error.
 */
export async function runTrial(
  plan: TrialPlan,
  open: Opener = MessageStore.open,
): Promise<TrialResult> {
  const base = await baseOf(plan.base);
  const image = base.image.fork();
  for (const mutation of plan.mutations) mutate(image, mutation);
  return new Trial(base, image, plan, open).run();
}

/** Mutations that change more than bytes. */
const MOVES = new Set(["move", "clone", "exchange", "link"]);
const IN_THE_WAY = new Set(["move", "clone", "directory", "other", "deny", "file", "link"]);

class Trial {
  readonly #image: StoreImage;
  readonly #random: Random;
  readonly #open: Opener;
  readonly #options: StoreOptions;
  readonly #seam: ImageFileSystemOptions;
  readonly #clock = new FakeClock(1_800_000_000_000);
  readonly #errors = new Map<string, number>();

  /** Something that is no file lies where one may be due. */
  readonly #isInTheWay: boolean;
  /** Files lie where others were. */
  readonly #areFilesMoved: boolean;
  readonly #isLinked: boolean;

  constructor(base: Base, image: StoreImage, plan: TrialPlan, open: Opener) {
    const random = randomOf(plan.seed);
    this.#image = image;
    this.#random = random;
    this.#open = open;
    const did = (kinds: ReadonlySet<string>): boolean =>
      plan.mutations.some((mutation) => kinds.has(mutation.do));
    this.#isInTheWay = did(IN_THE_WAY);
    this.#areFilesMoved = did(MOVES);
    this.#isLinked = did(new Set(["link"]));
    const modes: readonly StoreOptions[] = [
      { flushDiskType: "SYNC_FLUSH", transientStorePoolEnable: false },
      { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: false },
      { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
    ];
    this.#options = {
      ...base.options,
      ...modes[random(modes.length)],
      enableMultiDispatch: base.options.enableMultiDispatch ?? random(3) === 0,
      unsafeAcceptLostCommitLog: random(3) === 0,
      checkCRCOnRecover: random(4) > 0,
      damagedLogPolicy: random(3) === 0 ? "cut" : "keep",
      recoverWholeLog: random(6) === 0,
    };
    this.#seam = {
      cached: random(4) > 0,
      ...(random(8) === 0 ? { shortBytes: 300 + random(3000) } : {}),
    };
  }

  async run(): Promise<TrialResult> {
    const buffers = new BufferWatch();
    try {
      const before = this.#image.fork();
      const seen = await this.#look(before, buffers);
      const writing = await this.#write(this.#image, seen, buffers);
      return {
        reading: typeof seen === "string" ? seen : "ok",
        writing,
        errors: this.#errors,
      };
    } finally {
      buffers.end();
    }
  }

  #visit(image: StoreImage): Visit {
    let size = 0;
    for (const { size: bytes } of image.files()) {
      // A larger one is no file of a store.
      if (bytes < 2 ** 31) size += bytes;
    }
    const bytesReadMax = READ_FACTOR_MAX * size + READ_BYTES_FREE;
    const { shortBytes = Number.POSITIVE_INFINITY } = this.#seam;
    const callsMax = CALLS_MAX + Math.ceil((READS_IN_PIECES_MAX * size) / shortBytes);
    const fs = new ImageFileSystem(image, "/store", { ...this.#seam, bytesReadMax, callsMax });
    return new Visit(fs, this.#clock, this.#errors);
  }

  /** Opens for reading and asks everything. */
  async #look(image: StoreImage, buffers: BufferWatch): Promise<string | Seen> {
    const visit = this.#visit(image);
    const { fs } = visit;
    buffers.begin(largestOf(image));
    const store = await visit.open(this.#open, this.#options, true);
    let seen: string | Seen = store instanceof StoreError ? store.code : seenIn(store);
    if (!(store instanceof StoreError)) {
      await new Walk(visit, store, this.#random).everything();
      seen = seenIn(store);
      await visit.settle("close()", store.close());
    }
    if (this.#random(3) === 0) await this.#explain(visit, seen);
    visit.end();
    buffers.check();
    if (fs.changes > 0) throw new HostileFailure("A store that is only read was changed");
    return seen;
  }

  /** What opening would do is told, and comes out as what was seen. */
  async #explain(visit: Visit, seen: string | Seen): Promise<void> {
    const { fs } = visit;
    const environment = { fileSystem: fs, clock: this.#clock, onWarning: () => undefined };
    const explained = await visit.attempt(
      "explainRecovery()",
      explainRecovery(fs.root, this.#options, environment),
    );
    if (explained instanceof StoreError || typeof seen === "string") return;
    if (explained.ours.end !== seen.end) {
      throw new HostileFailure(`It is told to end at ${explained.ours.end}, not at ${seen.end}`);
    }
    for (const { end, stop, scanStart, recordsLost, bytesLost } of explained.rocketmq) {
      checkText(`${end} ${stop?.reason ?? ""} ${scanStart.why} ${recordsLost} ${bytesLost}`);
    }
  }

  async #write(image: StoreImage, seen: string | Seen, buffers: BufferWatch): Promise<string> {
    const visit = this.#visit(image);
    const { fs } = visit;
    buffers.begin(largestOf(image));
    const store = await visit.open(this.#open, this.#options, false);
    if (store instanceof StoreError) {
      visit.end();
      buffers.check();
      return store.code;
    }
    if (typeof seen !== "string") compare(seen, seenIn(store));
    if (this.#random(8) === 0) await new Walk(visit, store, this.#random).everything();
    const puts = await this.#put(visit, store);
    const atEnd = seenIn(store);
    const isKilled = this.#random(4) === 0;
    const killed = isKilled ? image.fork() : undefined;
    const closed = await visit.attempt("close()", store.close());
    visit.end();
    buffers.check();
    if (killed) {
      // What is in the write buffer of the pool is lost with the process.
      const kept = store.options.transientStorePoolEnable ? [] : puts;
      await this.#reopen(killed, kept, undefined, buffers);
    }
    if (closed instanceof StoreError) return `close ${closed.code}`;
    if (store.failure) return `failed ${store.failure.code}`;
    checkNames(image, store, fs.root);
    await this.#reopen(image, puts, atEnd, buffers);
    return store.recovery.cut ? "cut" : "ok";
  }

  async #put(visit: Visit, store: MessageStore): Promise<Put[]> {
    const done: Put[] = [];
    const queues = store.queues();
    const queue = queues[this.#random(Math.max(1, queues.length))];
    const messages: Message[] = [
      ...(queue
        ? [{ topic: queue.topic, queueId: queue.queueId, body: Buffer.from("old queue") }]
        : []),
      { topic: "New", queueId: 3, body: Buffer.from("new queue") },
      { topic: "New", queueId: 3, body: Buffer.alloc(this.#random(900), 0x7a), tags: "TagA" },
    ];
    for (const message of messages) {
      const { topic, queueId = 0 } = message;
      const next = store.maxOffset(topic, queueId);
      const result = await visit.attempt("put()", store.put(message));
      if (result instanceof StoreError) continue;
      if (result.queueOffset !== next && !store.options.transientStorePoolEnable) {
        throw new HostileFailure(`A put to a queue that ends at ${next} got ${result.queueOffset}`);
      }
      done.push({ message, result });
    }
    const batch = {
      topic: "Batch",
      messages: [{ body: Buffer.from("one") }, { body: Buffer.from("two") }],
    };
    await visit.attempt("putBatch()", store.putBatch(batch));
    await visit.attempt("flush()", store.flush());
    if (this.#random(2)) await visit.attempt("checkpoint()", store.checkpoint());
    if (!store.failure) await readBack(visit, store, done);
    return done;
  }

  /** A store that was closed, or whose process was killed after its recovery, opens again. */
  async #reopen(
    image: StoreImage,
    puts: readonly Put[],
    before: Seen | undefined,
    buffers: BufferWatch,
  ): Promise<void> {
    const visit = this.#visit(image);
    buffers.begin(largestOf(image));
    const store = await visit.open(this.#open, this.#options, this.#random(2) === 0);
    if (store instanceof StoreError) {
      // The killed process could only have met at its close what keeps this one from writing; and a link
      // that led nowhere may lead to a file since.
      const isDue = this.#isLinked || (!before && this.#isInTheWay);
      if (isDue && store.code === "STORE_IO") return;
      throw new HostileFailure("A store that was opened does not open again", { cause: store });
    }
    if (before) {
      const { cleanStop, cut, holes, left } = store.recovery;
      if (!cleanStop) throw new HostileFailure("A store that was closed says that it was not");
      // Older damage may be met only now.
      if (cut && this.#options.damagedLogPolicy === "keep") {
        throw new HostileFailure(`A store that was closed is cut: ${JSON.stringify(cut)}`);
      }
      if (!cut && holes.length + left.length === 0) {
        compare(this.#endsIn(before), this.#endsIn(seenIn(store)));
      }
    }
    if (this.#options.damagedLogPolicy === "keep") await readBack(visit, store, puts);
    const closed = await visit.attempt("close()", store.close());
    if (closed instanceof StoreError) {
      throw new HostileFailure("A store that was opened again does not close", { cause: closed });
    }
    visit.end();
    buffers.check();
  }

  /**
   * Where log and queues end. In a damaged store the rest may differ: lost messages at the front of a
   * queue, which of two records has a place that both claim, and all of a queue with another one's files.
   */
  #endsIn(seen: Seen): Seen {
    if (this.#areFilesMoved) return { ...seen, queues: [] };
    const ends = seen.queues
      .filter(({ minOffset, maxOffset }) => minOffset < maxOffset)
      .map((queue) => ({ ...queue, minOffset: -1, maxPhysicalOffset: -1 }));
    return { ...seen, queues: ends };
  }
}

/** A message that was acknowledged. */
interface Put {
  readonly message: Message;
  readonly result: PutResult;
}

async function readBack(visit: Visit, store: MessageStore, puts: readonly Put[]): Promise<void> {
  for (const { message, result } of puts) {
    const { topic, queueId = 0, body } = message;
    const { queueOffset: offset, physicalOffset } = result;
    const request = { topic, queueId, offset, maxMessages: 1 };
    const got = await visit.settle("get()", store.get(request));
    const found = await visit.settle("lookup()", store.lookup(physicalOffset));
    const { tags: key } = message;
    if (key !== undefined) {
      const query = store.query({ topic, key, indexType: "T" });
      // Where the index cannot be kept at all, a query says so.
      const found = await visit.attempt("query()", query);
      const isFound = (one: StoredMessage) => one.physicalOffset === physicalOffset;
      if (found && !(found instanceof StoreError) && !found.messages.some(isFound)) {
        throw new HostileFailure(`Message ${offset} of ${topic} is not found by its tag ${key}`);
      }
    }
    const [first] = got.messages;
    if (got.status !== "FOUND" || !first?.body.equals(body) || !found?.body.equals(body)) {
      throw new HostileFailure(
        `Message ${offset} of ${JSON.stringify(topic)}/${queueId} was acknowledged and is not there: ${got.status}`,
      );
    }
  }
}

/** What a store says of itself. */
interface Seen {
  readonly end: number;
  readonly fileSizes: readonly number[];
  readonly queues: readonly QueueBounds[];
}

function seenIn(store: MessageStore): Seen {
  const { mappedFileSizeCommitLog, mappedFileSizeConsumeQueue } = store.options;
  return {
    end: store.watermarks.wrote,
    fileSizes: [mappedFileSizeCommitLog, mappedFileSizeConsumeQueue],
    queues: store.queues(),
  };
}

/** A reader sees what a writer makes of the store, and an open what the close before it left. */
function compare(a: Seen, b: Seen): void {
  if (String(a.fileSizes) !== String(b.fileSizes)) return;
  const lines = ({ end, queues }: Seen): string[] => [
    `end ${end}`,
    // One that is empty may have gone with its last file.
    ...queues
      .filter(({ minOffset, maxOffset }) => minOffset < maxOffset)
      .map((queue) => JSON.stringify(queue)),
  ];
  const [ofA, ofB] = [lines(a), lines(b)];
  const onlyA = ofA.filter((line) => !ofB.includes(line));
  const onlyB = ofB.filter((line) => !ofA.includes(line));
  if (onlyA.length + onlyB.length === 0) return;
  throw new HostileFailure(`Two opens see two stores: ${onlyA.join()} became ${onlyB.join()}`);
}

function largestOf(image: StoreImage): number {
  let largest = 0;
  for (const { size } of image.files()) largest = Math.max(largest, size);
  return largest;
}

/** In a store that was closed each folder of segments holds RocketMQ's names and whole files. */
function checkNames(image: StoreImage, store: MessageStore, root: string): void {
  const check = (folder: string, size: number): void => {
    for (const [name, node] of image.directory(folder)?.entries ?? []) {
      if (node.kind === "directory" || node.kind === "link") continue;
      const isWhole = node.kind === "file" && node.size === size;
      if (!/^\d{20}$/.test(name) || !isWhole) {
        throw new HostileFailure(`${root}/${folder}/${name} is no whole segment`);
      }
    }
  };
  const { options } = store;
  check("commitlog", options.mappedFileSizeCommitLog);
  for (const { topic, queueId } of store.queues()) {
    const queue = `${topic}/${queueId}`;
    check(`consumequeue/${queue}`, options.mappedFileSizeConsumeQueue);
    check(`consumequeue_ext/${queue}`, options.mappedFileSizeConsumeQueueExt);
    check(`batchconsumequeue/${queue}`, options.mapperFileSizeBatchConsumeQueue);
  }
}

/** One opened store: what it may throw, and for how long it may think. */
class Visit {
  readonly fs: ImageFileSystem;
  readonly #clock: FakeClock;
  readonly #errors: Map<string, number>;
  #exhausted: string | undefined;

  constructor(fs: ImageFileSystem, clock: FakeClock, errors: Map<string, number>) {
    this.fs = fs;
    this.#clock = clock;
    this.#errors = errors;
    fs.exhausted = (why) => {
      this.#exhausted = why;
    };
  }

  async open(
    open: Opener,
    options: StoreOptions,
    readOnly: boolean,
  ): Promise<MessageStore | StoreError> {
    const opened = await this.attempt(
      readOnly ? "open() for reading" : "open()",
      open(this.fs.root, options, {
        fileSystem: this.fs,
        clock: this.#clock,
        readOnly,
        onWarning: (warning) => checkText(warning),
      }),
    );
    if (opened instanceof StoreError && this.fs.openHandles > 0) {
      throw new HostileFailure(`A failed open left ${this.fs.openHandles} files open`, {
        cause: opened,
      });
    }
    return opened;
  }

  /** Waits for an outcome, which may be a proper error. */
  async attempt<T>(what: string, promise: Promise<T>): Promise<T | StoreError> {
    try {
      return await this.settle(what, promise);
    } catch (error) {
      return this.accept(what, error);
    }
  }

  /** @throws {HostileFailure} if the error is not one that a store may throw. */
  accept(what: string, error: unknown): StoreError {
    if (error instanceof HostileFailure) throw error;
    const fault = faultOf(error);
    if (fault !== undefined) {
      throw new HostileFailure(`${what} threw ${fault}`, { cause: error });
    }
    const { code } = error as StoreError;
    const name = `${what} ${error instanceof PutError ? error.status : code}`;
    this.#errors.set(name, (this.#errors.get(name) ?? 0) + 1);
    return error as StoreError;
  }

  /** Waits for an outcome, for so long as something goes on. */
  async settle<T>(what: string, promise: Promise<T>): Promise<T> {
    let settled = false;
    const mark = (): void => {
      settled = true;
    };
    promise.then(mark, mark);
    for (let i = 0; i < 4 && !settled; i++) await undefined;
    let calls = this.fs.calls;
    let idle = 0;
    let rounds = 0;
    while (!settled) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#exhausted) throw new HostileFailure(`${what} took ${this.#exhausted}`);
      idle = calls === this.fs.calls ? idle + 1 : 0;
      calls = this.fs.calls;
      if (settled || idle < IDLE_TURNS) continue;
      if (rounds++ === IDLE_ROUNDS) throw new HostileFailure(`${what} never ends`);
      idle = 0;
      await this.#clock.advance(2000);
    }
    return promise;
  }

  /** Whether the visit has gone on for long enough. */
  get isLong(): boolean {
    return this.fs.calls > CALLS_MAX / 20;
  }

  /** Behind the last use. */
  end(): void {
    const { violations, openHandles } = this.fs;
    if (violations[0]) throw new HostileFailure(violations[0].message);
    if (openHandles > 0) throw new HostileFailure(`A closed store left ${openHandles} files open`);
  }
}

/** Why the error is none that a store may throw. */
function faultOf(error: unknown): string | undefined {
  if (!(error instanceof StoreError)) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
  const { code, path, position, offset, message } = error;
  checkText(message);
  if (error instanceof PutError) return undefined;
  if (path === undefined) return `${code} without a path: ${message}`;
  if (code === "STORE_RECORD_DAMAGED" && (position === undefined || offset === undefined)) {
    return `${code} without a place: ${message}`;
  }
  return undefined;
}

function checkText(text: string): void {
  if (/undefined|NaN|\[object/.test(text)) throw new HostileFailure(`It says "${text}"`);
}

/** Notes the largest buffer that is asked for. */
class BufferWatch {
  readonly #alloc = Buffer.alloc;
  readonly #allocUnsafe = Buffer.allocUnsafe;
  readonly #allocUnsafeSlow = Buffer.allocUnsafeSlow;
  #largest = 0;
  #most = 0;

  constructor() {
    const noted = (size: number): number => {
      if (size > this.#largest) this.#largest = size;
      // It must not come to that.
      if (size > 2 ** 28) throw new RangeError(`a buffer of ${size} bytes`);
      return size;
    };
    Buffer.alloc = ((size: number, ...rest: [string]) =>
      this.#alloc(noted(size), ...rest)) as typeof Buffer.alloc;
    Buffer.allocUnsafe = (size) => this.#allocUnsafe(noted(size));
    Buffer.allocUnsafeSlow = (size) => this.#allocUnsafeSlow(noted(size));
  }

  /** @param most Of bytes that a buffer may have. */
  begin(most: number): void {
    this.#largest = 0;
    this.#most = Math.max(BUFFER_FREE, most);
  }

  check(): void {
    if (this.#largest <= this.#most) return;
    throw new HostileFailure(`A buffer of ${this.#largest} bytes was made`);
  }

  end(): void {
    Buffer.alloc = this.#alloc;
    Buffer.allocUnsafe = this.#allocUnsafe;
    Buffer.allocUnsafeSlow = this.#allocUnsafeSlow;
  }
}

/** Steps of one walk through a queue or the log. */
const STEPS_MAX = 300;
const QUEUES_MAX = 8;

const WILD_OFFSETS = [
  0,
  1,
  19,
  4095,
  65535,
  65536,
  2 ** 31,
  2 ** 40,
  2 ** 52,
  Number.MAX_SAFE_INTEGER,
];

/** Asks an opened store everything that can be asked. */
class Walk {
  readonly #visit: Visit;
  readonly #store: MessageStore;
  readonly #random: Random;
  /** Offsets to look up, and those of messages that were read. */
  readonly #found = new Set<number>();
  readonly #seen = new Set<number>();
  #message: StoredMessage | undefined;

  constructor(visit: Visit, store: MessageStore, random: Random) {
    this.#visit = visit;
    this.#store = store;
    this.#random = random;
  }

  async everything(): Promise<void> {
    const store = this.#store;
    store.stats();
    for (const long of Object.values(store.checkpointLongs)) {
      if (!Number.isSafeInteger(long)) throw new HostileFailure(`The checkpoint has ${long}`);
    }
    const queues = store.queues();
    const first = this.#random(Math.max(1, queues.length - QUEUES_MAX + 1));
    for (const queue of queues.slice(first, first + QUEUES_MAX)) {
      if (this.#visit.isLong) return;
      await this.#queue(queue);
    }
    await this.#queue({
      topic: "nothing",
      queueId: 5,
      queueType: "SimpleCQ",
      minOffset: 0,
      maxOffset: 0,
      maxPhysicalOffset: -1,
    });
    await this.#records(undefined);
    await this.#records(this.#anyOffset());
    await this.#lookups();
  }

  async #queue({ topic, queueId, minOffset, maxOffset }: QueueBounds): Promise<void> {
    if (minOffset > maxOffset) throw new HostileFailure(`Queue from ${minOffset} to ${maxOffset}`);
    const maxMessages = 1 + this.#random(40);
    await this.#gets({ topic, queueId, offset: minOffset, maxMessages }, maxOffset);
    const filter = this.#random(2) ? "TagA || x" : "TagB";
    await this.#gets({ topic, queueId, offset: minOffset, filter }, maxOffset);
    const wild = [-1, minOffset - 1, maxOffset, maxOffset + 1, this.#anyOffset()];
    for (let i = 0; i < 2; i++) {
      const offset = wild[this.#random(wild.length)] as number;
      if (!Number.isSafeInteger(offset)) continue;
      await this.#visit.attempt("get()", this.#store.get({ topic, queueId, offset }));
    }
    await this.#units(topic, queueId, minOffset, maxOffset);
    if (this.#random(3) === 0) await this.#consume(topic, queueId);
  }

  async #gets(
    request: Parameters<MessageStore["get"]>[0] & { readonly offset: number },
    end: number,
  ): Promise<void> {
    let { offset } = request;
    for (let step = 0; step < STEPS_MAX && offset < end; step++) {
      const got = await this.#visit.attempt("get()", this.#store.get({ ...request, offset }));
      if (got instanceof StoreError) {
        offset++;
        continue;
      }
      if (got.nextBeginOffset <= offset || got.nextBeginOffset > end) {
        throw new HostileFailure(
          `get() at ${offset} of ${end} goes on at ${got.nextBeginOffset}: ${got.status}`,
        );
      }
      for (const message of got.messages) this.#read(message);
      offset = got.nextBeginOffset;
    }
  }

  async #units(topic: string, queueId: number, min: number, max: number): Promise<void> {
    let from = min;
    for (let step = 0; step < 20 && from < max; step++) {
      const units = await this.#visit.attempt(
        "units()",
        this.#store.units({ topic, queueId, from, count: 1 + this.#random(300) }),
      );
      if (units instanceof StoreError) {
        from++;
        continue;
      }
      if (units.length === 0) throw new HostileFailure(`No units at ${from} before ${max}`);
      for (const { physicalOffset } of units.slice(0, 3)) this.#found.add(physicalOffset);
      const { queueOffset, messages } = units.at(-1) as (typeof units)[0];
      if (queueOffset + messages <= from || queueOffset + messages > max) {
        throw new HostileFailure(`units() at ${from} of ${max} ends at ${queueOffset + messages}`);
      }
      from = queueOffset + messages;
    }
    const from2 = this.#anyOffset();
    await this.#visit.attempt("units()", this.#store.units({ topic, queueId, from: from2 }));
  }

  async #consume(topic: string, queueId: number): Promise<void> {
    const aborted = new AbortController();
    const wanted = Math.min(3, this.#store.maxOffset(topic, queueId));
    if (wanted === 0) return;
    const messages = this.#store.consume({ topic, queueId, signal: aborted.signal });
    const some = async (): Promise<void> => {
      for (let i = 0; i < wanted; i++) {
        const { value, done } = await messages.next();
        if (done || !value) return;
        this.#read(value);
      }
    };
    // Behind the last message it waits for another one, as it should.
    const waits = new Promise<void>((resolve) => {
      let turns = 0;
      const turn = (): void => {
        if (turns++ < 20) setImmediate(turn);
        else resolve();
      };
      turn();
    });
    const done = some();
    const ended = Promise.race([done, waits]);
    await this.#visit.attempt("consume()", ended);
    aborted.abort(new StoreError("STORE_CLOSED", "enough", { path: "/" }));
    await this.#visit.attempt("consume()", done);
    await this.#visit.attempt("consume()", messages.return());
  }

  async #records(from: number | undefined): Promise<void> {
    const range = from === undefined ? {} : { from };
    const entries = this.#store.records(range);
    let last = -1;
    for (let step = 0; step < STEPS_MAX; step++) {
      const next = await this.#visit.attempt("records()", entries.next());
      if (next instanceof StoreError || next.done) break;
      const entry = next.value;
      if (entry.offset <= last) throw new HostileFailure(`records() goes back to ${entry.offset}`);
      last = entry.offset;
      if (entry.kind === "record") this.#read(entry.message);
      if (entry.kind === "bad") {
        checkText(entry.reason);
        this.#found.add(entry.offset);
      }
    }
    await this.#visit.settle("records()", entries.return());
  }

  async #lookups(): Promise<void> {
    const found = [...this.#found];
    const offsets = [
      ...found.slice(0, 5),
      ...found.slice(-5),
      this.#anyOffset(),
      this.#anyOffset(),
      this.#anyOffset(),
      this.#store.watermarks.wrote,
    ];
    for (const offset of offsets) {
      if (offset < 0) continue;
      const message = await this.#visit.attempt("lookup()", this.#store.lookup(offset));
      if (message && !(message instanceof StoreError)) this.#read(message);
    }
    const id = this.#message?.messageId;
    if (id !== undefined) await this.#visit.attempt("lookup()", this.#store.lookup(id));
    if (this.#message) await this.#queries(this.#message);
    const hex = this.#anyOffset().toString(16).padStart(16, "0");
    await this.#visit.attempt("lookup()", this.#store.lookup(`0A00000700002A9F${hex}`));
  }

  async #queries({ topic, keys, tags, physicalOffset }: StoredMessage): Promise<void> {
    const requests: QueryRequest[] = [{ topic, key: "none" }];
    const [key] = keys;
    if (key) requests.push({ topic, key });
    if (tags) requests.push({ topic, key: tags, indexType: "T", maxNum: 3 });
    for (const request of requests) {
      for (let cursor: string | undefined, step = 0; step < 20; step++) {
        const page = { ...request, ...(cursor === undefined ? {} : { cursor }) };
        const found = await this.#visit.attempt("query()", this.#store.query(page));
        if (found instanceof StoreError || found === undefined) break;
        for (const message of found.messages) {
          if (message.physicalOffset === physicalOffset || message.topic === topic) continue;
          throw new HostileFailure(`query() of ${topic} answers with ${message.topic}`);
        }
        ({ cursor } = found);
        if (cursor === undefined) break;
      }
    }
  }

  /** Every field of a message that is there. */
  #read(message: StoredMessage): void {
    const { physicalOffset } = message;
    if (this.#seen.has(physicalOffset)) return;
    this.#seen.add(physicalOffset);
    this.#found.add(physicalOffset);
    this.#message = message;
    const { topic, queueId, queueOffset, size, version, flag, sysFlag, bodyCrc, bornHost } =
      message;
    const { exactBornTimestamp, storeTimestamp, storeHost, reconsumeTimes, body } = message;
    const { exactPreparedTransactionOffset, properties, tags, keys, uniqKey, messageId } = message;
    const numbers = [queueId, queueOffset, size, version, flag, sysFlag, bodyCrc, storeTimestamp];
    if (![...numbers, reconsumeTimes].every(Number.isSafeInteger)) {
      throw new HostileFailure(`The message at ${message.physicalOffset} has ${numbers}`);
    }
    if (body.length > size || topic.length > size) throw new HostileFailure("It has too much");
    checkText(`${bornHost} ${storeHost} ${messageId} ${exactBornTimestamp}`);
    void [exactPreparedTransactionOffset, properties, tags, keys, uniqKey, message.waitStoreMsgOK];
  }

  #anyOffset(): number {
    const end = Math.max(1, this.#store.watermarks.wrote);
    const list = [...WILD_OFFSETS, this.#random(Math.min(end, 2 ** 31)), this.#random(2 ** 30)];
    return list[this.#random(list.length)] as number;
  }
}
