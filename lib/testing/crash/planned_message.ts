/**
 * The messages of a workload: each says in a property which one it is, so that whoever finds it
 * after a crash knows what it has to be, byte for byte.
 *
 * @module
 */

import { isInnerBatch } from "../../message/inner_batch.ts";
import { LIGHT_QUEUE_ID } from "../../message/light_queues.ts";
import type { BatchItem, Message } from "../../message/message.ts";
import {
  PROPERTY_INNER_MULTI_DISPATCH,
  PROPERTY_INNER_NUM,
  PROPERTY_WAIT_STORE_MSG_OK,
} from "../../message/property_names.ts";
import type { StoredMessage } from "../../message/record.ts";
import { takesQueueOffset } from "../../message/sys_flag.ts";

/** Property with the number of the message among all that a workload puts. */
const PROPERTY_NUMBER = "number";

/** What a workload says of a message; the rest follows from its number. */
export interface MessageSpec {
  readonly topic: string;
  /** @default 0 */
  readonly queueId?: number;
  /** @default 100 */
  readonly bodyBytes?: number;
  readonly tags?: string;
  readonly keys?: readonly string[];
  /** Further properties. */
  readonly properties?: Readonly<Record<string, string>>;
  /** As `Message.waitStoreMsgOK`; the property `WAIT` is written only if it is there. */
  readonly waitStoreMsgOK?: boolean;
  /** As `Message.sysFlag`. */
  readonly sysFlag?: number;
}

/** A message that is, or was, put. */
export class PlannedMessage {
  readonly number: number;
  readonly topic: string;
  readonly queueId: number;
  readonly body: Buffer;
  readonly sysFlag: number;
  readonly bornTimestamp: number;
  readonly #spec: MessageSpec;

  constructor(number: number, bornTimestamp: number, spec: MessageSpec) {
    this.number = number;
    this.topic = spec.topic;
    this.queueId = spec.queueId ?? 0;
    this.body = bodyOf(number, spec.bodyBytes ?? 100);
    this.sysFlag = spec.sysFlag ?? 0;
    this.bornTimestamp = bornTimestamp;
    this.#spec = spec;
  }

  /** It gets a unit in its queue. */
  get isQueued(): boolean {
    return takesQueueOffset(this.sysFlag);
  }

  /** How many it counts for in a batch queue. */
  get messages(): number {
    return isInnerBatch(this.sysFlag)
      ? Number(this.#spec.properties?.[PROPERTY_INNER_NUM] ?? 1)
      : 1;
  }

  /** The queues that it enters, as `topic/queueId`: its own, and light ones. */
  get queues(): string[] {
    if (!this.isQueued) return [];
    const light = this.#spec.properties?.[PROPERTY_INNER_MULTI_DISPATCH]?.split(",") ?? [];
    return [`${this.topic}/${this.queueId}`, ...light.map((name) => `${name}/${LIGHT_QUEUE_ID}`)];
  }

  /** What is handed to `put`. */
  get message(): Message {
    const { queueId, sysFlag, bornTimestamp } = this;
    const { waitStoreMsgOK } = this.#spec;
    const wait = waitStoreMsgOK === undefined ? {} : { waitStoreMsgOK };
    return { topic: this.topic, queueId, sysFlag, bornTimestamp, ...this.item, ...wait };
  }

  /** The same as a member of a batch. */
  get item(): BatchItem {
    const { tags, keys, properties } = this.#spec;
    return {
      body: this.body,
      flag: this.number,
      properties: { ...properties, [PROPERTY_NUMBER]: String(this.number) },
      ...(tags === undefined ? {} : { tags }),
      ...(keys === undefined ? {} : { keys }),
    };
  }

  /** What a stored message has that this one has not; `undefined` if it is this one. */
  difference(found: StoredMessage): string | undefined {
    const { tags, keys = [], properties = {} } = this.#spec;
    const pairs: readonly (readonly [what: string, found: unknown, due: unknown])[] = [
      ["topic", found.topic, this.topic],
      ["queue id", found.queueId, this.queueId],
      ["flag", found.flag, this.number],
      ["sysFlag", found.sysFlag, this.sysFlag],
      ["born timestamp", found.bornTimestamp, this.bornTimestamp],
      ["tags", found.tags, tags],
      ["keys", found.keys.join(" "), keys.join(" ")],
      ["version", found.version, Buffer.byteLength(this.topic) > 127 ? 2 : 1],
      ...Object.entries(properties).map(
        ([name, due]) => [name, found.property(name), due] as const,
      ),
    ];
    for (const [what, has, due] of pairs) {
      if (has !== due)
        return `its ${what} is ${JSON.stringify(has)}, ${JSON.stringify(due)} was put`;
    }
    const wait = found.property(PROPERTY_WAIT_STORE_MSG_OK);
    const due = this.#spec.waitStoreMsgOK;
    // A batch says it for all its members, and it is not written into them.
    if (wait !== undefined && wait !== String(due)) return `its property WAIT is ${wait}`;
    if (!found.body.equals(this.body)) {
      const at = this.body.findIndex((byte, i) => found.body[i] !== byte);
      return `its body of ${found.body.length} bytes differs from the ${this.body.length} bytes that were put${at < 0 ? "" : `, from byte ${at} on`}`;
    }
    return undefined;
  }
}

/** The number that a stored message says it has; `undefined` if no workload put it. */
export function numberOf(message: StoredMessage): number | undefined {
  const text = message.property(PROPERTY_NUMBER);
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Every third is zero at the end, or as a whole, so that it looks like what was never written. */
function bodyOf(number: number, bytes: number): Buffer {
  const body = Buffer.alloc(bytes);
  const filled = number % 3 === 2 ? (number % 6 === 2 ? 0 : bytes >> 1) : bytes;
  let state = number * 2654435761 + 1;
  for (let i = 0; i < filled; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    body[i] = state >>> 24;
  }
  return body;
}
