/**
 * What a workload put, and what it was promised at which moment.
 *
 * A promise is that the message survives an event: a killed process, or a cut of the power, which
 * takes more. `docs/durability.md` says which put is promised what:
 *
 * | | survives a kill | survives a cut |
 * |---|---|---|
 * | acknowledged in `SYNC_FLUSH` | yes | yes |
 * | acknowledged in `ASYNC_FLUSH`, or in `SYNC_FLUSH` with `waitStoreMsgOK: false` | yes | below `flushed` |
 * | acknowledged with the pool (in `SYNC_FLUSH` only with `waitStoreMsgOK: false`) | below `committed` | below `flushed` |
 * | acknowledged before a `flush()` that has resolved | yes | yes |
 * | there when a store was opened, or closed | yes | yes |
 *
 * @module
 */

import { PutError } from "../../errors.ts";
import { parseMessageId } from "../../message/message_id.ts";
import type { PutResult } from "../../message/put_result.ts";
import type { StoreWatermarks } from "../../message_store.ts";
import type { StoreOptions } from "../../options.ts";
import type { PhysicalOffset, QueueOffset } from "../../units.ts";
import type { PlannedMessage } from "./planned_message.ts";

/** What happens to a store without being asked: the process dies, or the machine. */
export type CrashEvent = "kill" | "cut";

/** Where a message lies, as far as it was told. */
export interface Place {
  readonly offset: PhysicalOffset;
  readonly queueOffset?: QueueOffset;
  readonly storeTimestamp?: number;
  readonly messageId?: string;
}

/** A message in the ledger. */
export interface Entry {
  readonly planned: PlannedMessage;
  /** Of the processes that had the store open, the one that put it. */
  readonly generation: number;
  /** Told by its put, or found after a crash. It never changes. */
  place: Place | undefined;
}

const SUBMITTED = 1;
/** It survives a kill. */
const KEPT_BY_KILL = 2;
/** It survives a cut, and a kill all the more. */
const KEPT_BY_CUT = 4;
/** It was refused, or lost where that was allowed: it must not appear any more. */
const GONE = 8;
/** Its topic is being deleted: it may be in no queue any more. */
const MAY_BE_DELETED = 16;
/** Its topic was deleted: it must be in no queue. */
const DELETED = 32;

/** The ledger at one moment. */
export interface LedgerView {
  readonly states: Uint8Array;
  readonly generation: number;
  readonly committed: PhysicalOffset;
  readonly flushed: PhysicalOffset;
  /** Files of the log below may have been deleted, and those below `goneBelow` have been, durably. */
  readonly mayBeGoneBelow: PhysicalOffset;
  readonly goneBelow: PhysicalOffset;
}

export class Ledger {
  readonly entries: Entry[] = [];
  #states = new Uint8Array(1024);
  #generation = 0;
  #mayBeGoneBelow: PhysicalOffset = 0;
  #goneBelow: PhysicalOffset = 0;
  /** Counts everything that was told to it. */
  changes = 0;
  /** Topics that are being deleted. */
  readonly #deletions = new Set<{ readonly topics: readonly string[] }>();
  readonly counts = { acknowledged: 0, refused: 0, unknown: 0 };

  get generation(): number {
    return this.#generation;
  }

  /** The same messages, of which nobody knows any more what was promised. */
  forgotten(): Ledger {
    const ledger = new Ledger();
    ledger.entries.push(...this.entries.map((entry) => ({ ...entry })));
    ledger.#states = this.#states.slice().fill(0);
    for (const { number } of this.entries.map(({ planned }) => planned)) {
      ledger.#states[number] = SUBMITTED | (this.mayBeDeleted(number) ? MAY_BE_DELETED : 0);
    }
    ledger.#generation = this.#generation + 1;
    ledger.#mayBeGoneBelow = this.#mayBeGoneBelow;
    return ledger;
  }

  /** A put is about to be made. */
  submitted(messages: readonly PlannedMessage[]): void {
    this.changes++;
    for (const planned of messages) {
      this.entries[planned.number] = {
        planned,
        generation: this.#generation,
        place: undefined,
      };
      if (planned.number >= this.#states.length) {
        const larger = new Uint8Array(this.#states.length * 2);
        larger.set(this.#states);
        this.#states = larger;
      }
      const isDeleting = [...this.#deletions].some(({ topics }) => topics.includes(planned.topic));
      this.#states[planned.number] = SUBMITTED | (isDeleting ? MAY_BE_DELETED : 0);
    }
  }

  /** The put resolved. */
  acknowledged(
    messages: readonly PlannedMessage[],
    result: PutResult,
    options: StoreOptions,
    wait: boolean,
  ): void {
    this.changes++;
    this.counts.acknowledged += messages.length;
    const ids = result.messageId.split(",");
    const promise = promiseOf(options, wait);
    messages.forEach((planned, i) => {
      const messageId = ids[i] as string;
      this.#place(planned.number, {
        offset: parseMessageId(messageId).physicalOffset,
        queueOffset: planned.isQueued ? result.queueOffset + i : 0,
        storeTimestamp: result.storeTimestamp,
        messageId,
      });
      if (promise !== undefined) this.#keep(planned.number, promise);
    });
  }

  /** The put rejected. @returns What is wrong with the error, if anything is. */
  rejected(messages: readonly PlannedMessage[], error: unknown): string | undefined {
    this.changes++;
    if (!(error instanceof PutError)) return `a put rejected with ${describe(error)}`;
    if (error.outcome === "not stored") {
      this.counts.refused += messages.length;
      for (const { number } of messages) this.#states[number] = SUBMITTED | GONE;
    } else {
      this.counts.unknown += messages.length;
      const [first] = messages as readonly [PlannedMessage];
      if (error.offset !== undefined) this.#place(first.number, { offset: error.offset });
    }
    return undefined;
  }

  /** Those that have been acknowledged and not lost since. */
  acknowledgedEntries(): Entry[] {
    return this.entries.filter(
      ({ place, planned }) =>
        place?.messageId !== undefined && ((this.#states[planned.number] as number) & GONE) === 0,
    );
  }

  /** Retention is deleting a file of the log that ends at `end`. */
  deleting(end: PhysicalOffset): void {
    this.changes++;
    this.#mayBeGoneBelow = Math.max(this.#mayBeGoneBelow, end);
  }

  /** It has been deleted, and does not come back. */
  deleted(end: PhysicalOffset): void {
    this.changes++;
    this.#goneBelow = Math.max(this.#goneBelow, end);
  }

  /** Topics are about to be deleted. @returns To be called with the end of it. */
  deletingTopics(topics: readonly string[]): (done: boolean) => void {
    this.changes++;
    const deletion = { topics };
    this.#deletions.add(deletion);
    const theirs = this.entries.filter(({ planned }) => topics.includes(planned.topic));
    const before = theirs.filter(({ place }) => place?.messageId !== undefined);
    for (const { planned } of theirs) this.#mark(planned.number, MAY_BE_DELETED);
    return (done) => {
      this.changes++;
      this.#deletions.delete(deletion);
      if (done) for (const { planned } of before) this.#mark(planned.number, DELETED);
    };
  }

  /** Whether its topic was deleted, or may have been, after the message was put. */
  mayBeDeleted(number: number): boolean {
    return ((this.#states[number] as number) & (MAY_BE_DELETED | DELETED)) !== 0;
  }

  /** Whether a message that is in the log must be in its queues: `undefined` if it may be. */
  isQueued(view: LedgerView, number: number): boolean | undefined {
    const state = view.states[number] ?? 0;
    if ((state & DELETED) !== 0) return false;
    return (state & MAY_BE_DELETED) === 0 ? true : undefined;
  }

  /** What had a place in the log before a `flush()` began survives a cut, once that has resolved. */
  flushed(before: readonly Entry[]): void {
    this.changes++;
    for (const { planned, generation } of before) {
      if (generation === this.#generation) this.#keep(planned.number, "cut");
    }
  }

  /** The process or the machine died: what it had promised is fixed now. */
  crashed(event: CrashEvent, watermarks: StoreWatermarks | undefined): void {
    this.changes++;
    const view = this.view(watermarks);
    for (const { planned } of this.entries) {
      const { number } = planned;
      if (this.isDue(view, number, "cut")) this.#keep(number, "cut");
      else if (event === "cut")
        this.#states[number] = (this.#states[number] as number) & ~KEPT_BY_KILL;
      else if (this.isDue(view, number, "kill")) this.#keep(number, "kill");
    }
    this.#generation++;
    this.#deletions.clear();
  }

  /**
   * The store was opened again: what is in it now, stays.
   *
   * @param logMin Where its log begins.
   * @returns What should be in it and is not, or the other way round.
   */
  reopened(found: ReadonlyMap<number, Place>, logMin: PhysicalOffset): string[] {
    this.changes++;
    const wrong: string[] = [];
    if (logMin > this.#mayBeGoneBelow) {
      wrong.push(`the log begins at ${logMin}, and nobody deleted a file`);
    }
    if (logMin < this.#goneBelow) {
      wrong.push(`the log begins at ${logMin}, and had been deleted up to ${this.#goneBelow}`);
    }
    for (const { planned, place: told } of this.entries) {
      const { number } = planned;
      const place = found.get(number);
      const state = this.#states[number] as number;
      if (place) {
        if ((state & GONE) !== 0)
          wrong.push(`message ${number} was gone and is at ${place.offset}`);
        if (told && told.offset !== place.offset) {
          wrong.push(`message ${number} was at ${told.offset} and is at ${place.offset}`);
        }
        this.#place(number, place);
        this.#keep(number, "cut");
      } else if (
        (state & (KEPT_BY_KILL | KEPT_BY_CUT)) !== 0 &&
        (told?.offset ?? logMin) >= logMin
      ) {
        wrong.push(`message ${number}, which was promised, is lost`);
      } else {
        this.#states[number] = SUBMITTED | GONE;
      }
    }
    return wrong;
  }

  /** @param watermarks Of the open store; none while there is no open store. */
  view(watermarks: StoreWatermarks | undefined): LedgerView {
    return {
      states: this.#states.slice(0, this.entries.length),
      generation: this.#generation,
      committed: watermarks?.committed ?? 0,
      flushed: watermarks?.flushed ?? 0,
      mayBeGoneBelow: this.#mayBeGoneBelow,
      goneBelow: this.#goneBelow,
    };
  }

  /** Whether the message has to be there after the event. */
  isDue(view: LedgerView, number: number, event: CrashEvent): boolean {
    const state = view.states[number] ?? 0;
    const kept = event === "cut" ? KEPT_BY_CUT : KEPT_BY_CUT | KEPT_BY_KILL;
    if ((state & kept) !== 0) return true;
    const entry = this.entries[number];
    if ((state & GONE) !== 0 || (state & SUBMITTED) === 0) return false;
    if (!entry?.place || entry.generation !== view.generation) return false;
    return entry.place.offset < (event === "cut" ? view.flushed : view.committed);
  }

  /** Whether the message may be there at all. */
  mayBeThere(view: LedgerView, number: number): boolean {
    const state = view.states[number] ?? 0;
    return (state & SUBMITTED) !== 0 && (state & GONE) === 0;
  }

  #mark(number: number, bits: number): void {
    this.#states[number] = (this.#states[number] as number) | bits;
  }

  #keep(number: number, event: CrashEvent): void {
    const state = this.#states[number] as number;
    this.#states[number] = state | KEPT_BY_KILL | (event === "cut" ? KEPT_BY_CUT : 0);
  }

  #place(number: number, place: Place): void {
    const entry = this.entries[number] as Entry;
    if (entry.place === undefined || entry.place.messageId === undefined) entry.place = place;
  }
}

/** What an acknowledged put survives in this mode, whatever the watermarks say. */
function promiseOf(options: StoreOptions, wait: boolean): CrashEvent | undefined {
  if (options.flushDiskType === "SYNC_FLUSH" && wait) return "cut";
  return options.transientStorePoolEnable ? undefined : "kill";
}

/** An error in one line, with what caused it. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = (error as { code?: unknown }).code;
  const text = `${error.name}${code === undefined ? "" : ` ${String(code)}`}: ${error.message}`;
  return error.cause === undefined ? text : `${text}; caused by ${describe(error.cause)}`;
}
