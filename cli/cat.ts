/**
 * `forcelog cat`: messages of a queue, or a single one.
 *
 * @module
 */

import {
  type MessagePlace,
  type MessageStore,
  type QueueUnit,
  type StoredMessage,
  StoreError,
} from "../lib/mod.ts";
import { readConfig, timeOf, wholeNumber } from "./arguments.ts";
import { jsonText } from "./json.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { messageJson } from "./message_json.ts";
import { checkStore, openForReading } from "./store_directory.ts";
import { bytesText, printable, type Terminal, timeText, UsageError } from "./terminal.ts";

/** Bytes of a body that is no text that are shown, in hex. */
const HEX_BYTES_MAX = 64;
/** Bits of the system flag that say how a body is compressed. */
const COMPRESSED = 0x1;
const UNITS_AT_ONCE = 200;
/** Size in a unit that leads to no message. */
const FILLER_SIZE = 2 ** 31 - 1;
/** Tags code in the unit of a lost message: it leads nowhere, or to the next one. */
const LOST_TAGS_CODE = 0x464c4831n;
const NOWHERE_SIZE = 9;

const FORMATS = ["text", "json", "raw"] as const;
export type Format = (typeof FORMATS)[number];

/** How messages are shown. */
export interface CatFormatOptions {
  readonly format?: string;
  readonly json?: true;
}

interface CatOptions extends CatFormatOptions {
  readonly topic?: string;
  readonly queue?: number;
  readonly from?: number;
  readonly atTime?: number;
  readonly count?: number;
  readonly offset?: number;
  readonly id?: string;
  readonly config?: string;
}

export const cat: Verb = (command, terminal) => {
  command
    .argument("<directory>", "the store's directory")
    .option("--topic <name>", "messages of this topic")
    .option("--queue <id>", "of this queue only", wholeNumber("--queue"))
    .option("--from <offset>", "from this queue offset on", wholeNumber("--from"))
    .option("--at-time <time>", "from the first one stored then or later on", timeOf("--at-time"))
    .option("--count <messages>", "at most so many of each queue", wholeNumber("--count", 1))
    .option("--offset <bytes>", "the message at this offset in the log", wholeNumber("--offset"))
    .option("--id <id>", "the message with this id: 32 or 56 hex digits")
    .option("--format <format>", "text, json (one line each) or raw (only the bodies)")
    .option("--json", "the same as --format json")
    .option("--config <json>", "options of the store: JSON text or a file")
    .addHelpText(
      "after",
      `
A time is a date as ISO 8601 has it, or ms since the epoch.
A message that is damaged, or no longer in the log, is told on standard error, with file and
position; those around it are printed, and the exit code is 1.
${READS_ONLY}

Examples:
  forcelog cat /data/store --topic orders
  forcelog cat /data/store --topic orders --queue 3 --from 17 --count 1 --format raw > body
  forcelog cat /data/store --topic orders --at-time 2024-09-19T10:00:00Z --count 10
  forcelog cat /data/store --offset 1073741824 --json
  forcelog cat /data/store --id 0A00000700002A9F0000000000000000`,
    )
    .action((directory: string, options: CatOptions) => catStore(directory, options, terminal));
};

async function catStore(directory: string, options: CatOptions, terminal: Terminal): Promise<void> {
  const { topic, offset, id } = options;
  const format = formatOf(options);
  if ([topic, offset, id].filter((way) => way !== undefined).length !== 1) {
    throw new UsageError("Cannot choose messages: give one of --topic, --offset and --id");
  }
  if (id !== undefined && !/^(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})$/.test(id)) {
    throw new UsageError(`Cannot use --id ${id}: expected 32 or 56 hex digits`);
  }
  if (topic === undefined) {
    const extra = (["queue", "from", "atTime", "count"] as const).find(
      (name) => options[name] !== undefined,
    );
    const name = extra === "atTime" ? "at-time" : extra;
    if (name) throw new UsageError(`Cannot use --${name} without --topic`);
  } else if (options.from !== undefined && options.atTime !== undefined) {
    throw new UsageError("Cannot use --from with --at-time");
  }
  const config = await readConfig(options.config);
  await checkStore(directory, config);
  const store = await openForReading(directory, config, terminal);
  try {
    noteDamage(store, terminal);
    const print = (message: StoredMessage): Promise<void> =>
      terminal.write(formatted(message, format));
    if (topic !== undefined) {
      await catTopic(store, topic, options, print, terminal);
    } else {
      const wanted = offset ?? (id as string);
      const message = await store.lookup(wanted);
      if (message) await print(message);
      else terminal.fail(notFound(store, offset === undefined ? `id ${id}` : `offset ${offset}`));
    }
  } finally {
    await store.close();
  }
}

export function formatOf({ format, json }: CatFormatOptions): Format {
  const name = format ?? (json ? "json" : "text");
  if (json && name !== "json") throw new UsageError(`Cannot use --json with --format ${name}`);
  if ((FORMATS as readonly string[]).includes(name)) return name as Format;
  throw new UsageError(`Cannot use --format ${name}: expected one of ${FORMATS.join(", ")}`);
}

/** Messages that recovery would drop are not shown: that has to be said. */
export function noteDamage(store: MessageStore, terminal: Terminal): void {
  const { holes, cut } = store.recovery;
  for (const { offset, path, position, reason, size } of holes) {
    terminal.fail(
      `The log is damaged at offset ${offset}, position ${position} of ${path}: ${reason}; ${bytesText(size)} cannot be shown`,
    );
  }
  if (!cut) return;
  terminal.fail(
    `The log ends at offset ${cut.offset}, position ${cut.position} of ${cut.path}: ${cut.reason}; what follows, ${cut.droppedBytes} bytes, is not shown`,
  );
}

function notFound(store: MessageStore, what: string): string {
  const { minPhysicalOffset: min, watermarks } = store;
  return `Cannot find a message with ${what}: the log holds ${Math.max(min, 0)} to ${watermarks.dispatched}, and none begins there`;
}

async function catTopic(
  store: MessageStore,
  topic: string,
  options: CatOptions,
  print: (message: StoredMessage) => Promise<void>,
  terminal: Terminal,
): Promise<void> {
  const ofTopic = store.queues().filter((queue) => queue.topic === topic);
  const queues = ofTopic.filter(({ queueId }) => queueId === (options.queue ?? queueId));
  if (ofTopic.length === 0) throw new Error(`Cannot find topic "${printable(topic)}" in the store`);
  if (queues.length === 0) {
    const ids = ofTopic.map(({ queueId }) => queueId).join(", ");
    throw new Error(
      `Cannot find queue ${options.queue} of topic "${printable(topic)}": it has ${ids}`,
    );
  }
  for (const { queueId, minOffset, maxOffset } of queues) {
    const name = `${printable(topic)}/${queueId}`;
    const from = Math.max(
      options.from ?? (await offsetAtTime(store, topic, queueId, options)),
      minOffset,
    );
    const end = Math.min(options.count === undefined ? maxOffset : from + options.count, maxOffset);
    if (options.from !== undefined && (options.from < minOffset || options.from >= maxOffset)) {
      terminal.note(
        `Queue ${name} holds ${minOffset} to ${maxOffset - 1}, nothing at ${options.from}`,
      );
    }
    await catQueue(store, { topic, queueId, name, from, end }, print, terminal);
  }
}

/** Where to begin without `--from`. */
async function offsetAtTime(
  store: MessageStore,
  topic: string,
  queueId: number,
  { atTime }: CatOptions,
): Promise<number> {
  if (atTime === undefined) return store.minOffset(topic, queueId);
  return store.offsetByTime({ topic, queueId, timestamp: atTime });
}

interface QueueRange {
  readonly topic: string;
  readonly queueId: number;
  readonly name: string;
  readonly from: number;
  readonly end: number;
}

async function catQueue(
  store: MessageStore,
  { topic, queueId, name, from, end }: QueueRange,
  print: (message: StoredMessage) => Promise<void>,
  terminal: Terminal,
): Promise<void> {
  const refuse = (offset: number, cause: unknown): void =>
    terminal.fail(new Error(`Cannot read message ${offset} of queue ${name}`, { cause }));
  /** A row of messages that the log does not have: there may be millions, in a file that is gone. */
  let missing: QueueRun | undefined;
  const tellMissing = (): void => {
    if (missing) terminal.fail(missingText(missing, name));
    missing = undefined;
  };
  let count = UNITS_AT_ONCE;
  for (let offset = from; offset < end; ) {
    let units: MessagePlace[];
    try {
      units = await store.units({ topic, queueId, from: offset, count });
    } catch (error) {
      if (error instanceof StoreError) {
        refuse(offset, error);
        offset = await behind(store, topic, queueId, offset);
      } else if (count > 1) {
        count = 1;
      } else {
        refuse(offset, error);
        offset++;
      }
      continue;
    }
    count = UNITS_AT_ONCE;
    if (units.length === 0) break;
    for (const [i, unit] of units.entries()) {
      if (offset >= end) break;
      const { physicalOffset, queueOffset, messages } = unit;
      const behindIt = queueOffset + messages;
      try {
        const next = units[i + 1] ?? (await unitAt(store, topic, queueId, behindIt));
        const message = isLost(topic, unit, next) ? undefined : await store.lookup(physicalOffset);
        if (message?.topic === topic && message.queueOffset !== queueOffset) {
          throw new Error(`its unit leads to message ${message.queueOffset} at ${physicalOffset}`);
        }
        if (message) {
          tellMissing();
          await print(message);
        } else {
          missing = { first: missing?.first ?? offset, last: behindIt - 1 };
        }
      } catch (error) {
        tellMissing();
        refuse(offset, error);
      }
      offset = behindIt;
    }
  }
  tellMissing();
}

/** Behind a damaged unit, or behind all of a file of the queue that is missing. */
async function behind(
  store: MessageStore,
  topic: string,
  queueId: number,
  offset: number,
): Promise<number> {
  try {
    const { nextBeginOffset } = await store.get({ topic, queueId, offset, maxMessages: 1 });
    return Math.max(nextBeginOffset, offset + 1);
  } catch (error) {
    if (error instanceof StoreError) return offset + 1;
    throw error;
  }
}

function isLost(
  topic: string,
  { physicalOffset, size, tagsCode }: QueueUnit,
  next: QueueUnit | undefined,
): boolean {
  if (size === FILLER_SIZE && physicalOffset === 0) return true;
  const mayBe = tagsCode === LOST_TAGS_CODE || topic === "SCHEDULE_TOPIC_XXXX";
  const leadsToNext = next?.physicalOffset === physicalOffset && next.size === size;
  return mayBe && (size === NOWHERE_SIZE || leadsToNext);
}

async function unitAt(
  store: MessageStore,
  topic: string,
  queueId: number,
  from: number,
): Promise<QueueUnit | undefined> {
  const [unit] = await store.units({ topic, queueId, from, count: 1 }).catch(() => []);
  return unit;
}

interface QueueRun {
  readonly first: number;
  readonly last: number;
}

function missingText({ first, last }: QueueRun, name: string): string {
  const which = first === last ? `message ${first}` : `messages ${first} to ${last}`;
  return `Cannot read ${which} of queue ${name}: the log has nothing where ${first === last ? "it" : "they"} should be`;
}

export function formatted(message: StoredMessage, format: Format): string | Uint8Array {
  switch (format) {
    case "raw":
      return message.body;
    case "json":
      return `${jsonText(messageJson(message, Number.POSITIVE_INFINITY))}\n`;
    case "text":
      return messageText(message);
  }
}

function messageText(message: StoredMessage): string {
  const { topic, queueId, queueOffset, physicalOffset, size, messageId, properties } = message;
  const lines = [
    `${printable(topic)}/${queueId} ${queueOffset}`,
    `  at ${physicalOffset}, ${size} bytes, id ${messageId}`,
    `  stored ${timeText(message.storeTimestamp)} by ${message.storeHost}, born ${timeText(message.exactBornTimestamp)} at ${message.bornHost}`,
  ];
  const numbers = [
    ["flag", message.flag],
    ["sysFlag", message.sysFlag],
    ["reconsumeTimes", message.reconsumeTimes],
    ["preparedTransactionOffset", message.exactPreparedTransactionOffset],
  ] as const;
  const set = numbers.filter(([, value]) => Number(value) !== 0);
  if (set.length > 0) lines.push(`  ${set.map(([name, value]) => `${name} ${value}`).join(", ")}`);
  for (const [name, value] of properties ?? []) {
    lines.push(`  ${printable(name)} = ${printable(value)}`);
  }
  lines.push(`  ${bodyText(message)}`, "");
  return `${lines.join("\n")}\n`;
}

function bodyText({ body, sysFlag }: StoredMessage): string {
  if (body.length === 0) return "(empty body)";
  const compressed = (sysFlag & COMPRESSED) !== 0;
  const text = compressed ? undefined : asText(body);
  if (text !== undefined) return text.split("\n").map(printable).join("\n  ");
  const what = compressed ? "compressed bytes" : "bytes";
  const more = body.length > HEX_BYTES_MAX ? "…" : "";
  return `(${body.length} ${what}) ${body.toString("hex", 0, HEX_BYTES_MAX)}${more}`;
}

/** A body that is UTF-8 without control characters but for line ends and tabs. */
function asText(body: Uint8Array): string | undefined {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return undefined;
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) ? undefined : text;
}
