/**
 * Stores that are damaged on purpose: everything that was put is known, so that after a recovery
 * each message can be asked for, and each byte of the damage.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { queuesOf } from "../../lib/dispatch/dispatcher.ts";
import { dispatchRequestOf } from "../../lib/message/dispatch_request.ts";
import { isHoleRecord } from "../../lib/message/hole_record.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import {
  MessageStore,
  type RecoveryReport,
  StoredMessage,
  StoreError,
  type StoreOptions,
} from "../../lib/mod.ts";
import { FakeClock, SimulatedDisk, SimulatedFileSystem } from "../../lib/testing/mod.ts";

export const ROOT = "/store";

/** A record, and the places in queues that lead to it. */
export interface KnownRecord {
  readonly offset: number;
  readonly size: number;
  readonly bytes: Buffer;
  readonly storeTimestamp: number;
  /** `topic/queueId`, and the offset there. */
  readonly places: readonly (readonly [queue: string, offset: number])[];
}

/** What a store holds that was killed, or closed. */
export interface Base {
  readonly options: StoreOptions;
  /** All that was acknowledged is in the files; the queues may be behind. */
  readonly killed: SimulatedDisk;
  readonly closed: SimulatedDisk;
  readonly records: readonly KnownRecord[];
  /** Blanks that close files. */
  readonly blanks: readonly number[];
  /** End of the log. */
  readonly end: number;
  /** Wall time when it ended. */
  readonly now: number;
}

/** Sizes that make files roll after a few messages. */
export const TINY: StoreOptions = {
  mappedFileSizeCommitLog: 4096,
  mappedFileSizeConsumeQueue: 400,
  maxHashSlotNum: 100,
  maxIndexNum: 400,
  maxMessageSize: 2048,
};

const DELAY_LEVELS = DelayLevels.parse("1s 5s");

export interface Opened {
  readonly store: MessageStore;
  readonly disk: SimulatedDisk;
  readonly fileSystem: SimulatedFileSystem;
  readonly clock: FakeClock;
  readonly warnings: string[];
}

/** Opens the store on a disk; it is written to there. */
export async function openOn(
  disk: SimulatedDisk,
  options: StoreOptions,
  now: number,
  fileSystem = new SimulatedFileSystem(disk),
  readOnly = false,
): Promise<Opened> {
  const clock = new FakeClock(now);
  const warnings: string[] = [];
  const store = await MessageStore.open(ROOT, options, {
    fileSystem,
    clock,
    readOnly,
    onWarning: (warning) => warnings.push(warning),
  });
  return { store, disk, fileSystem, clock, warnings };
}

/** Makes a store and remembers what is in it. */
export async function baseOf(
  given: StoreOptions,
  play: (store: MessageStore, clock: FakeClock) => Promise<void>,
): Promise<Base> {
  const options = { ...TINY, ...given };
  const opened = await openOn(new SimulatedDisk(), options, Date.UTC(2024, 0, 1));
  const { store, disk, clock } = opened;
  await play(store, clock);
  if (options.transientStorePoolEnable) await store.flush();
  const killed = disk.fork();
  const records: KnownRecord[] = [];
  const blanks: number[] = [];
  for await (const entry of store.records()) {
    if (entry.kind === "blank") blanks.push(entry.offset);
    if (entry.kind === "record") records.push(knownRecord(entry.message));
  }
  const end = store.watermarks.wrote;
  await store.close();
  return { options, killed, closed: disk, records, blanks, end, now: clock.now() };
}

function knownRecord(message: StoredMessage): KnownRecord {
  const { physicalOffset: offset, size, bytes, storeTimestamp } = message;
  const request = dispatchRequestOf(Buffer.from(bytes), 0, DELAY_LEVELS);
  const places = queuesOf(request, true).map(
    ([topic, queueId, place]) => [`${topic}/${queueId}`, place] as const,
  );
  return { offset, size, bytes: Buffer.from(bytes), storeTimestamp, places };
}

/** The file of the log that holds an offset, and the position there. */
export function placeIn(
  options: StoreOptions,
  offset: number,
): { path: string; position: number; fileEnd: number } {
  const size = options.mappedFileSizeCommitLog as number;
  const start = offset - (offset % size);
  const path = `${ROOT}/commitlog/${String(start).padStart(20, "0")}`;
  return { path, position: offset - start, fileEnd: start + size };
}

/** Changes bytes of the log, over the borders of its files; what has no file is passed over. */
export function changeLog(
  disk: SimulatedDisk,
  options: StoreOptions,
  from: number,
  to: number,
  change: (byte: number, at: number) => number,
): void {
  for (let offset = from; offset < to; ) {
    const { path, position, fileEnd } = placeIn(options, offset);
    const end = Math.min(to, fileEnd);
    if (disk.list(`${ROOT}/commitlog`).some(({ name }) => path.endsWith(name))) {
      const content = disk.read(path);
      for (let at = offset; at < end; at++) {
        const i = position + at - offset;
        content[i] = change(content[i] as number, at);
      }
      disk.write(path, content);
    }
    offset = end;
  }
}

/** Bytes of the log as they lie on the disk. */
export function readLog(
  disk: SimulatedDisk,
  options: StoreOptions,
  from: number,
  to: number,
): Buffer {
  const pieces: Buffer[] = [];
  for (let offset = from; offset < to; ) {
    const { path, position, fileEnd } = placeIn(options, offset);
    const end = Math.min(to, fileEnd);
    if (disk.list(`${ROOT}/commitlog`).some(({ name }) => path.endsWith(name))) {
      pieces.push(disk.read(path).subarray(position, position + end - offset));
    }
    offset = end;
  }
  return Buffer.concat(pieces);
}

/** Names and contents of log and queues. */
export function segmentsOf(disk: SimulatedDisk): string {
  const hash = createHash("sha1");
  const walk = (path: string): void => {
    for (const { name, kind } of disk.list(path)) {
      const child = `${path}/${name}`;
      if (kind === "directory") walk(child);
      else hash.update(`${child}\0`).update(disk.read(child));
    }
  };
  walk(`${ROOT}/commitlog`);
  walk(`${ROOT}/consumequeue`);
  return hash.digest("hex");
}

/** Evidence by name. */
export function evidenceOn(disk: SimulatedDisk): Map<string, Buffer> {
  const folder = `${ROOT}/forcelog`;
  return new Map(
    disk
      .list(folder)
      .filter(({ name }) => /^(?:cut|hole)-/.test(name))
      .map(({ name }) => [name, disk.read(`${folder}/${name}`)]),
  );
}

export interface Expectation {
  /** Offsets of the records that are damaged. */
  readonly lost: ReadonlySet<number>;
  /** Offsets of holes that no record can cover. */
  readonly uncovered?: ReadonlySet<number>;
  /** Files of the log are missing. */
  readonly gaps?: boolean;
}

/** Everything that is not as it should be, after a recovery that was to lose only some records. */
export async function problemsOf(
  store: MessageStore,
  base: Base,
  { lost, uncovered = new Set(), gaps = false }: Expectation,
): Promise<string[]> {
  const problems: string[] = [];
  const kept = base.records.filter(({ offset }) => !lost.has(offset));
  const due = new Map(kept.map(({ offset, bytes }) => [offset, bytes]));
  let last = -1;
  for await (const entry of store.records({ to: base.end })) {
    if (entry.kind === "gap" && !gaps) problems.push(`files are missing at ${entry.offset}`);
    if (entry.kind === "bad" && !uncovered.has(entry.offset)) {
      problems.push(`the log is bad at ${entry.offset}`);
    }
    if (entry.kind !== "record" || isHoleRecord(entry.message)) continue;
    if (entry.offset <= last) problems.push(`${entry.offset} comes behind ${last}`);
    last = entry.offset;
    if (!due.get(last)?.equals(entry.message.bytes)) problems.push(`the log has another ${last}`);
    due.delete(last);
  }
  if (due.size > 0) problems.push(`the log has no ${[...due.keys()].join()}`);
  for (const { offset } of neighbours(base.records, (record) => lost.has(record.offset))) {
    const found = await store.lookup(offset).catch((error: Error) => error);
    const isDamaged = found instanceof StoreError && found.code === "STORE_RECORD_DAMAGED";
    const isRight = lost.has(offset) ? !found || isDamaged : found?.constructor === StoredMessage;
    if (!isRight) problems.push(`lookup(${offset}) gives ${String(found)}`);
  }
  problems.push(...(await queueProblems(store, base, kept, lost)));
  return problems;
}

/** Those of which something is true, and two on each side. */
function neighbours<T>(things: readonly T[], isMeant: (thing: T) => boolean): T[] {
  const meant = new Set<number>();
  things.forEach((thing, i) => {
    if (isMeant(thing)) for (let at = i - 2; at <= i + 2; at++) meant.add(at);
  });
  return things.filter((_, i) => meant.has(i));
}

async function queueProblems(
  store: MessageStore,
  base: Base,
  kept: readonly KnownRecord[],
  lost: ReadonlySet<number>,
): Promise<string[]> {
  const problems: string[] = [];
  const queues = new Map<string, Map<number, KnownRecord>>();
  const byOffset = new Map(kept.map(({ offset, bytes }) => [offset, bytes]));
  for (const record of kept) {
    for (const [queue, place] of record.places) {
      const records = queues.get(queue) ?? new Map<number, KnownRecord>();
      queues.set(queue, records.set(place, record));
    }
  }
  for (const { topic, queueId, minOffset, maxOffset } of store.queues()) {
    const due = queues.get(`${topic}/${queueId}`);
    if (!due) {
      problems.push(`there is a queue ${topic}/${queueId}`);
      continue;
    }
    const places = [...due.keys()];
    const [first, last] = [Math.min(...places), Math.max(...places)];
    if (minOffset > first) problems.push(`${topic}/${queueId} begins at ${minOffset}`);
    if (maxOffset !== last + 1) problems.push(`${topic}/${queueId} ends at ${maxOffset}`);
    const found: number[] = [];
    for (let offset = minOffset; offset < maxOffset; ) {
      const request = { topic, queueId, offset };
      const result = await store.get(request).catch((error: Error) => error);
      if (result instanceof Error) {
        problems.push(`get(${topic}/${queueId}, ${offset}): ${result.message}`);
        break;
      }
      for (const message of result.messages) {
        found.push(message.queueOffset);
        const isSame = byOffset.get(message.physicalOffset)?.equals(message.bytes);
        if (!isSame) problems.push(`${topic}/${queueId} has another message ${offset}`);
      }
      if (result.nextBeginOffset <= offset) {
        problems.push(`${topic}/${queueId} stays at ${offset}: ${result.status}`);
        break;
      }
      offset = result.nextBeginOffset;
    }
    if (found.length !== due.size) {
      problems.push(`${topic}/${queueId} has ${found.length} of ${due.size} messages`);
    }
    queues.delete(`${topic}/${queueId}`);
  }
  for (const queue of queues.keys()) problems.push(`queue ${queue} is gone`);
  // One by one around those that are lost.
  for (const queue of new Set(base.records.flatMap(({ places }) => places.map(([name]) => name)))) {
    const [topic, queueId] = splitName(queue);
    const all = base.records.flatMap((record) =>
      record.places.filter(([name]) => name === queue).map(([, place]) => ({ place, record })),
    );
    for (const { place, record } of neighbours(all, (one) => lost.has(one.record.offset))) {
      const request = { topic, queueId, offset: place, maxMessages: 1 };
      const result = await store.get(request).catch((error: Error) => error);
      const found = result instanceof Error ? result : result.messages[0];
      const isIt = found instanceof StoredMessage && found.bytes.equals(record.bytes);
      if (isIt !== lost.has(record.offset)) continue;
      problems.push(`get(${queue}, ${place}) of ${record.offset} gives ${String(found)}`);
    }
  }
  return problems;
}

function splitName(queue: string): [topic: string, queueId: number] {
  const at = queue.lastIndexOf("/");
  return [queue.slice(0, at), Number(queue.slice(at + 1))];
}

/** Records and blanks that damage from `from` to `to` touches, and what of the log they take. */
export function touchedBy(
  base: Base,
  from: number,
  to: number,
): { lost: Set<number>; offset: number; end: number } {
  const fileSize = base.options.mappedFileSizeCommitLog as number;
  const things = [
    ...base.records.map(({ offset, size }) => ({ offset, end: offset + size, isRecord: true })),
    // What follows the two fields of a blank means nothing.
    ...base.blanks.map((offset) => ({
      offset,
      end: Math.min(offset + 8, offset - (offset % fileSize) + fileSize),
      isRecord: false,
    })),
  ].sort((a, b) => a.offset - b.offset);
  const lost = new Set<number>();
  let offset = Number.POSITIVE_INFINITY;
  let end = base.end;
  for (const thing of things) {
    if (thing.end > from && thing.offset < to) {
      offset = Math.min(offset, thing.offset);
      if (thing.isRecord) lost.add(thing.offset);
    } else if (thing.offset >= to && thing.isRecord) {
      end = Math.min(end, thing.offset);
    }
  }
  return { lost, offset, end };
}

/** What must come of damage that whole records follow: all that is told of it is right. */
export function reportProblems(
  report: RecoveryReport,
  disk: SimulatedDisk,
  damaged: SimulatedDisk,
  options: StoreOptions,
  holes: readonly { readonly offset: number; readonly end: number; readonly covered?: boolean }[],
): string[] {
  const problems: string[] = [];
  const found = report.holes.map(({ offset, size, covered }) => [offset, offset + size, covered]);
  const due = holes.map(({ offset, end, covered = true }) => [offset, end, covered]);
  if (JSON.stringify(found) !== JSON.stringify(due)) {
    problems.push(`holes are ${JSON.stringify(found)}, not ${JSON.stringify(due)}`);
  }
  if (report.cut) problems.push(`the log was cut at ${report.cut.offset}`);
  if (report.vanished) problems.push("bytes vanished");
  for (const { offset, size, covered, evidence } of report.holes) {
    if (!covered) continue;
    const bytes = Buffer.concat(evidence.map((path) => disk.read(path)));
    if (!bytes.equals(readLog(damaged, options, offset, offset + size))) {
      problems.push(`the evidence of ${offset} is not what was there`);
    }
  }
  return problems;
}
