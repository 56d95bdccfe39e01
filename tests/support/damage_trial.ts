/**
 * One store, damaged, opened and looked at from all sides.
 *
 * @module
 */

import type { Test } from "tap";
import type { MessageStore, StoreOptions } from "../../lib/mod.ts";
import type { SimulatedDisk } from "../../lib/testing/mod.ts";
import {
  type Base,
  changeLog,
  evidenceOn,
  openOn,
  problemsOf,
  reportProblems,
  segmentsOf,
  touchedBy,
} from "./damaged_store.ts";

/** Texts of tags of various length, some messages without. */
const TAGS = [undefined, "a", "longer-tag"];

/** Messages of three queues in turn, small enough that 400 bytes are several of them. */
export async function someMessages(store: MessageStore, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const tags = TAGS[i % 3];
    await store.put({
      topic: i % 3 === 0 ? "U" : "T",
      queueId: i % 2,
      body: Buffer.alloc(1 + ((i * 37) % 150), 65 + (i % 26)),
      keys: `k${i}`,
      ...(tags === undefined ? {} : { tags }),
    });
  }
}

/** How the store is opened again: after a kill, or after a clean stop as a whole. */
export const STOPS = [
  ["killed", {}],
  ["closed", { recoverWholeLog: true }],
] as const;

export interface Range {
  readonly from: number;
  readonly to: number;
}

export interface TrialOptions {
  readonly stop: "killed" | "closed";
  readonly options?: StoreOptions;
  /** Look at what a second recovery, and one after a clean stop, make of it. */
  readonly again?: boolean;
}

export function garble(byte: number): number {
  return byte ^ 0x5a;
}

/** Damages ranges of the log, opens it, and holds it against what is due. */
export async function trial(
  base: Base,
  ranges: readonly Range[],
  { stop, options = {}, again = false }: TrialOptions,
): Promise<string[]> {
  const all = { ...base.options, ...options };
  const disk = base[stop].fork();
  for (const { from, to } of ranges) changeLog(disk, all, from, to, garble);
  const damaged = disk.fork();
  const lost = new Set<number>();
  const holes: { offset: number; end: number }[] = [];
  for (const { from, to } of ranges) {
    const touched = touchedBy(base, from, to);
    for (const offset of touched.lost) lost.add(offset);
    if (touched.offset === Number.POSITIVE_INFINITY) continue;
    const before = holes.at(-1);
    if (before && before.end >= touched.offset) before.end = Math.max(before.end, touched.end);
    else holes.push({ offset: touched.offset, end: touched.end });
  }
  const { store } = await openOn(disk, all, base.now + 5000);
  const problems = [
    ...(await problemsOf(store, base, { lost })),
    ...reportProblems(store.recovery, disk, damaged, all, holes),
  ];
  if (store.watermarks.wrote !== base.end) problems.push(`it ends at ${store.watermarks.wrote}`);
  if (again) {
    problems.push(...(await openAgain(disk.fork(), base, all, lost)));
    problems.push(...(await goOn(store)));
  }
  await store.close();
  return problems;
}

/** Puts to every queue: each goes on where it ended. */
export async function goOn(store: MessageStore): Promise<string[]> {
  const problems: string[] = [];
  for (const { topic, queueId, maxOffset } of store.queues()) {
    if (topic.startsWith("%LMQ%")) continue;
    const wrote = store.watermarks.wrote;
    const put = await store.put({ topic, queueId, body: Buffer.from("more") });
    if (put.queueOffset !== maxOffset) {
      problems.push(`${topic}/${queueId} goes on at ${put.queueOffset}, not ${maxOffset}`);
    }
    await store.flush();
    if (put.physicalOffset < wrote) problems.push(`a put at ${put.physicalOffset}`);
    const { messages } = await store.get({ topic, queueId, offset: maxOffset });
    if (messages[0]?.body.toString() !== "more") problems.push("what was put can't be read");
  }
  return problems;
}

/** A kill right after the recovery, and a clean stop: nothing is found any more, nothing changes. */
export async function openAgain(
  killed: SimulatedDisk,
  base: Base,
  options: StoreOptions,
  lost: ReadonlySet<number>,
  gaps = false,
): Promise<string[]> {
  const problems: string[] = [];
  const evidence = evidenceOn(killed).size;
  const first = await openOn(killed, options, base.now + 9000);
  problems.push(...(await problemsOf(first.store, base, { lost, gaps })));
  const { holes, cut, rebuiltQueues, vanished } = first.store.recovery;
  if (holes.length > 0 || cut || vanished || rebuiltQueues.length > 0) {
    problems.push(`a second recovery: ${JSON.stringify(first.store.recovery)}`);
  }
  await first.store.close();
  const before = segmentsOf(killed);
  for (const more of [{}, { recoverWholeLog: true }]) {
    const next = await openOn(killed, { ...options, recoverWholeLog: false, ...more }, base.now);
    problems.push(...(await problemsOf(next.store, base, { lost, gaps })));
    if (next.store.recovery.holes.length > 0) problems.push("holes after a clean stop");
    await next.store.close();
    if (segmentsOf(killed) !== before)
      problems.push(`opening it changed it ${JSON.stringify(more)}`);
  }
  if (evidenceOn(killed).size !== evidence) problems.push("there is more evidence");
  return problems;
}

/** Fails once for all that went wrong, with the first few. */
export function judge(t: Test, name: string, wrong: readonly string[]): void {
  t.same(wrong.slice(0, 5), [], `${name}: ${wrong.length} problems`);
}
