/**
 * `forcelog query`: messages by key.
 *
 * @module
 */

import type { MessageStore, QueryRequest, QueryResult } from "../lib/mod.ts";
import { readConfig, wholeNumber } from "./arguments.ts";
import { type CatFormatOptions, formatOf, formatted, noteDamage } from "./cat.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { checkStore, openForReading } from "./store_directory.ts";
import { type Terminal, UsageError } from "./terminal.ts";

interface QueryOptions extends CatFormatOptions {
  readonly topic: string;
  readonly key?: string;
  readonly tag?: string;
  readonly begin?: number;
  readonly end?: number;
  readonly count?: number;
  readonly config?: string;
}

export const query: Verb = (command, terminal) => {
  command
    .argument("<directory>", "the store's directory")
    .requiredOption("--topic <name>", "messages of this topic")
    .option("--key <key>", "with this key, or with this unique key")
    .option("--tag <tag>", "with this tag")
    .option(
      "--begin <ms>",
      "stored at this time or later, in ms since 1970",
      wholeNumber("--begin"),
    )
    .option("--end <ms>", "stored at this time or before", wholeNumber("--end"))
    .option("--count <messages>", "at most so many", wholeNumber("--count", 1))
    .option("--format <format>", "text, json (one line each) or raw (only the bodies)")
    .option("--json", "the same as --format json")
    .option("--config <json>", "options of the store: JSON text or a file")
    .addHelpText(
      "after",
      `
The newest message comes first. The exit code is 1 if there is none. What the files of the index do
not cover is read from the log first: that may take a while. Files of another shape than the default
need --config with maxHashSlotNum and maxIndexNum.
${READS_ONLY}

Examples:
  forcelog query /data/store --topic orders --key o-1001
  forcelog query /data/store --topic orders --tag refund --count 10 --json`,
    )
    .action((directory: string, options: QueryOptions) => queryStore(directory, options, terminal));
};

async function queryStore(
  directory: string,
  options: QueryOptions,
  terminal: Terminal,
): Promise<void> {
  const { topic, key, tag, begin, end, count = Number.POSITIVE_INFINITY } = options;
  const format = formatOf(options);
  const wanted = key ?? tag;
  if (wanted === undefined || (key !== undefined && tag !== undefined)) {
    throw new UsageError("Cannot choose messages: give one of --key and --tag");
  }
  const config = await readConfig(options.config);
  await checkStore(directory, config);
  const store = await openForReading(directory, config, terminal);
  try {
    noteDamage(store, terminal);
    const request: QueryRequest = {
      topic,
      key: wanted,
      ...(key === undefined ? { indexType: "T" } : {}),
      ...(begin === undefined ? {} : { begin }),
      ...(end === undefined ? {} : { end }),
      maxNum: Math.min(count, 2 ** 31 - 1),
    };
    let found = 0;
    for await (const { messages, unreadable } of pages(store, request)) {
      for (const message of messages.slice(0, count - found)) {
        await terminal.write(formatted(message, format));
      }
      found += messages.length;
      for (const offset of unreadable) {
        terminal.fail(`Cannot read the record at ${offset}, which may have the key`);
      }
      if (found >= count) break;
    }
    if (found === 0) terminal.fail(`Cannot find a message of topic ${topic} with ${wanted}`);
  } finally {
    await store.close();
  }
}

/** All results of a query, page by page. */
export async function* pages(
  store: MessageStore,
  request: QueryRequest,
): AsyncGenerator<QueryResult, void, void> {
  for (let cursor: string | undefined; ; ) {
    const result = await store.query({ ...request, ...(cursor === undefined ? {} : { cursor }) });
    yield result;
    cursor = result.cursor;
    if (cursor === undefined) return;
  }
}
