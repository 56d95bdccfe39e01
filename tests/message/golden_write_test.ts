/**
 * The messages that RocketMQ was given for a golden store, given to us, become the same bytes:
 * properties in the same order, the same version, the same CRCs.
 */

import t from "tap";
import { parseHost } from "../../lib/message/host.ts";
import type { Message } from "../../lib/message/message.ts";
import { prepareRecord, type RecordDefaults } from "../../lib/message/outgoing_record.ts";
import { encodeRecord } from "../../lib/message/record.ts";
import { goldenNames, openGolden, readLog } from "../support/golden.ts";

/** Hosts and time that no golden record has: none may come from here. */
const DEFAULTS: RecordDefaults = {
  bornHost: parseHost("9.9.9.9:9"),
  storeHost: parseHost("9.9.9.9:9"),
  now: 9,
  appendPropertyCrc: false,
  autoVersion: true,
};

/** Stands for the number of the repeat in the texts of a recipe. */
const REPEAT = /\$\{i\}/g;

const TRANSACTION_BITS: Readonly<Record<string, number>> = { prepared: 4, commit: 8, rollback: 12 };

for (const name of goldenNames()) {
  t.test(`encodeRecord() writes the messages of ${name} as RocketMQ wrote them`, async (t) => {
    const { dir, recipe, expected, results } = openGolden(t, name);
    if (recipe.version.startsWith("4.")) return t.comment("4.9.8 has no separator at the end");
    const fileSize = recipe.config.mappedFileSizeCommitLog;
    const files = readLog(dir);
    const entries = new Map(expected.commitLog.records.map((entry) => [entry.offset, entry]));
    const puts = results.filter(({ op }) => ["put", "putBatch", "commit", "op"].includes(op));
    let count = 0;
    for (const step of recipe.steps as unknown as readonly Step[]) {
      if (!["put", "putBatch", "commit", "op"].includes(step.op ?? "put")) continue;
      for (let i = 0; i < (step.repeat ?? 1); i++) {
        const { wroteOffset } = puts.shift()!;
        const entry = entries.get(wroteOffset!);
        if (!isPlain(step) || entry === undefined || !("topic" in entry)) continue;
        const appendPropertyCrc = recipe.config.enabledAppendPropCRC === true;
        const record = prepareRecord(messageOf(step, i + (step.from ?? 0)), {
          ...DEFAULTS,
          appendPropertyCrc,
        });
        const target = Buffer.alloc(record.size);
        encodeRecord(target, 0, record, entry.queueOffset, entry.offset, entry.storeTimestamp);
        const start = entry.offset % fileSize;
        const bytes = files.get(entry.offset - start)!.subarray(start, start + entry.size);
        t.strictSame(target, bytes, `at ${entry.offset}`);
        count++;
      }
    }
    return t.comment(`${count} messages`);
  });
}

/** A step of a recipe that puts messages. In texts `${i}` is the number of the repeat. */
interface Step {
  readonly op?: string;
  readonly topic: string;
  readonly queueId?: number;
  readonly queues?: number;
  readonly body?:
    | string
    | {
        readonly base64?: string;
        readonly size?: number;
        readonly seed?: number;
        readonly grow?: number;
      };
  readonly keys?: string;
  readonly tags?: string;
  readonly uniqKey?: string;
  readonly wait?: boolean;
  readonly properties?: Readonly<Record<string, string>>;
  readonly propertiesString?: string;
  readonly flag?: number;
  readonly sysFlag?: number;
  readonly tran?: string;
  readonly bornTimestamp?: number;
  readonly bornHost?: string;
  readonly storeHost?: string;
  readonly reconsumeTimes?: number;
  readonly preparedTransactionOffset?: number;
  readonly repeat?: number;
  readonly from?: number;
}

/** A message that reaches the store as it is: no broker rewrites it, no rest of a file sizes it. */
function isPlain(step: Step): boolean {
  return (
    (step.op ?? "put") === "put" &&
    step.tran !== "half" &&
    !("delayLevel" in step) &&
    !("INNER_MULTI_DISPATCH" in (step.properties ?? {})) &&
    !(typeof step.body === "object" && ("leave" in step.body || "record" in step.body))
  );
}

function messageOf(step: Step, i: number): Message {
  const fill = (text: string) => text.replace(REPEAT, String(i));
  const properties = Object.entries(step.properties ?? {}).map(([n, v]) => [fill(n), fill(v)]);
  return {
    topic: fill(step.topic),
    queueId: step.queues === undefined ? (step.queueId ?? 0) : i % step.queues,
    body: bodyOf(step.body ?? "", i),
    ...(step.keys === undefined ? {} : { keys: fill(step.keys) }),
    ...(step.tags === undefined ? {} : { tags: fill(step.tags) }),
    ...(step.uniqKey === undefined ? {} : { uniqKey: fill(step.uniqKey) }),
    ...(step.wait === undefined ? {} : { waitStoreMsgOK: step.wait }),
    ...(step.propertiesString === undefined
      ? {}
      : { propertiesString: fill(step.propertiesString) }),
    properties: Object.fromEntries(properties),
    flag: step.flag ?? 0,
    sysFlag: (step.sysFlag ?? 0) | (TRANSACTION_BITS[step.tran ?? ""] ?? 0),
    bornTimestamp: (step.bornTimestamp ?? 1726740000000) + i,
    bornHost: step.bornHost ?? "192.168.1.10:54321",
    storeHost: step.storeHost ?? "10.0.0.7:10911",
    reconsumeTimes: step.reconsumeTimes ?? 0,
    preparedTransactionOffset: step.preparedTransactionOffset ?? 0,
  };
}

function bodyOf(body: NonNullable<Step["body"]>, i: number): Buffer {
  if (typeof body === "string") return Buffer.from(body.replace(REPEAT, String(i)));
  if (body.base64 !== undefined) return Buffer.from(body.base64, "base64");
  const size = (body.size ?? 0) + (body.grow ?? 0) * i;
  const seed = (body.seed ?? 0) + i;
  return Buffer.from(Array.from({ length: size }, (_, k) => seed + 31 * k + 17 * (k >> 8)));
}
