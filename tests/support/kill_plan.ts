/**
 * What a child that will be killed puts, as a function of a seed: so that whoever finds a message
 * later knows what it has to be, byte for byte, without having been told.
 *
 * A child has lanes. Each lane makes one put after the other, so many in flight; a put is a step of
 * it, and has one item or, as a batch, several. A message says in its body which of them it is.
 *
 * @module
 */

import type { BatchItem, Message, MessageBatch } from "../../lib/mod.ts";
import { type Random, randomOf } from "./random.ts";

export interface Plan {
  readonly seed: number;
  readonly lanes: number;
  /** Puts of a lane that wait for their answer at the same time. */
  readonly window: number;
  /** Steps of a lane; then it rests. */
  readonly steps: number;
  readonly topics: number;
  readonly queuesPerTopic: number;
  readonly bodyBytesMax: number;
  /** Of 100 steps so many are batches, carry `WAIT=false`, or have a transaction's first half. */
  readonly batches: number;
  readonly loose: number;
  readonly prepared: number;
  /** After how many steps, on average, a lane makes a short pause; 0 for never. */
  readonly pauseEvery: number;
}

/** Which message it is. */
export interface Identity {
  /** Number of the process that put it to this store. */
  readonly generation: number;
  readonly lane: number;
  readonly step: number;
  readonly item: number;
}

export interface Step {
  readonly topic: string;
  readonly queueId: number;
  readonly kind: "single" | "batch" | "prepared";
  readonly wait: boolean;
  readonly items: readonly (BatchItem & { readonly body: Buffer })[];
  /** Pause before the next step, in ms. */
  readonly pauseMs: number;
}

/** The type bits of a half message as old producers sent it: it enters no queue. */
const TRANSACTION_PREPARED = 0x4;
/** One record in so many has a body that spans pages. */
const LARGE_EVERY = 12;

export function stepOf(plan: Plan, { generation, lane, step }: Omit<Identity, "item">): Step {
  const random = randomOf(
    Math.imul(plan.seed, 31) ^ Math.imul(generation, 7919) ^ Math.imul(lane, 104729) ^ step,
  );
  const percent = random(100);
  const kind =
    percent < plan.batches
      ? "batch"
      : percent < plan.batches + plan.prepared
        ? "prepared"
        : "single";
  const count = kind === "batch" ? 1 + random(8) : 1;
  const items = Array.from({ length: count }, (_, item) => ({
    body: bodyOf({ generation, lane, step, item }, sizeOf(random, plan.bodyBytesMax, count)),
    tags: `tag${random(5)}`,
  }));
  return {
    topic: `topic-${random(plan.topics)}`,
    queueId: random(plan.queuesPerTopic),
    kind,
    wait: random(100) >= plan.loose,
    items,
    pauseMs: plan.pauseEvery > 0 && random(plan.pauseEvery) === 0 ? 1 + random(4) : 0,
  };
}

/** What a child hands to `put`, or to `putBatch`. */
export function messageOf(step: Step): Message | MessageBatch {
  const { topic, queueId, kind, wait, items } = step;
  const waiting = wait ? {} : { waitStoreMsgOK: false };
  if (kind === "batch") return { topic, queueId, messages: items, ...waiting };
  const sysFlag = kind === "prepared" ? { sysFlag: TRANSACTION_PREPARED } : {};
  return { topic, queueId, ...items[0]!, ...sysFlag, ...waiting };
}

/** Reads which message a body belongs to. */
export function identityOf(body: Buffer): Identity | undefined {
  const text = body.toString("latin1", 0, Math.min(body.length, 64));
  const found = /^(\d+)\.(\d+)\.(\d+)\.(\d+);/.exec(text);
  if (!found) return undefined;
  const [generation, lane, step, item] = found.slice(1).map(Number) as [
    number,
    number,
    number,
    number,
  ];
  return { generation, lane, step, item };
}

export function nameOf({ generation, lane, step, item }: Identity): string {
  return `${generation}.${lane}.${step}.${item}`;
}

function sizeOf(random: Random, most: number, count: number): number {
  const limit = Math.max(64, Math.floor(most / count));
  return random(LARGE_EVERY) === 0 ? random(limit) : random(Math.min(limit, 400));
}

function bodyOf(identity: Identity, size: number): Buffer {
  const head = Buffer.from(`${nameOf(identity)};`, "latin1");
  const body = Buffer.alloc(Math.max(size, head.length));
  const { generation, lane, step, item } = identity;
  const seed = generation * 5 + lane * 11 + step * 3 + item;
  for (let i = 0; i < body.length; i++) body[i] = seed + 31 * i + 17 * (i >> 8);
  head.copy(body);
  return body;
}
