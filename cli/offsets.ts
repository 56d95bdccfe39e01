/**
 * `forcelog offsets`: how far consumer groups have come, and how far they are behind.
 *
 * @module
 */

import type { MessageStore } from "../lib/mod.ts";
import { readConfig, wholeNumber } from "./arguments.ts";
import { jsonText } from "./json.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { checkStore, openForReading, openForWriting } from "./store_directory.ts";
import { table } from "./table.ts";
import { printable, type Terminal, UsageError } from "./terminal.ts";

interface OffsetsOptions {
  readonly group?: string;
  readonly topic?: string;
  readonly queue?: number;
  readonly behind?: true;
  readonly set?: number;
  readonly json?: true;
  readonly config?: string;
}

export const offsets: Verb = (command, terminal) => {
  command
    .argument("<directory>", "the store's directory")
    .option("--group <name>", "of this consumer group only")
    .option("--topic <name>", "of this topic only")
    .option("--queue <id>", "of this queue only", wholeNumber("--queue"))
    .option("--behind", "only those that are not at the end of their queue")
    .option("--set <offset>", "commits this offset; writes to the store", wholeNumber("--set"))
    .option("--json", "print one JSON object")
    .option("--config <json>", "options of the store: JSON text or a file")
    .addHelpText(
      "after",
      `
For each group and queue: the next message that it wants (OFFSET), the queue's first message (MIN) and
one past its last (MAX), and how many it has still to see (BEHIND). Less than 0: it waits for offsets
that the queue does not have yet, and would not see the messages that are put there.

--set takes --group, --topic and --queue (0) and opens the store for writing, which recovers it if need
be: no broker may be using it. Without --set:
${READS_ONLY}

Examples:
  forcelog offsets /data/store --group billing --behind
  forcelog offsets /data/store --group billing --topic orders --queue 3 --set 17`,
    )
    .action(async (directory: string, options: OffsetsOptions) => {
      const config = await readConfig(options.config);
      const { set } = options;
      if (set !== undefined && (options.group === undefined || options.topic === undefined)) {
        throw new UsageError("Cannot use --set without --group and --topic");
      }
      await checkStore(directory, config);
      const store =
        set === undefined
          ? await openForReading(directory, config, terminal)
          : await openForWriting(directory, config, terminal);
      try {
        if (set !== undefined) {
          const { group = "", topic = "", queue: queueId = 0 } = options;
          store.offsets.commit({ group, topic, queueId, offset: set });
          await store.offsets.flush();
        }
        await print(store, options, terminal);
      } finally {
        await store.close();
      }
    });
};

async function print(
  store: MessageStore,
  { group, topic, queue, behind, json }: OffsetsOptions,
  terminal: Terminal,
): Promise<void> {
  const wanted = {
    ...(group === undefined ? {} : { group }),
    ...(topic === undefined ? {} : { topic }),
  };
  const rows = store.offsets
    .list(wanted)
    .filter(({ queueId }) => queue === undefined || queueId === queue)
    .map(({ group, topic, queueId, offset }) => {
      const min = store.minOffset(topic, queueId);
      const max = store.maxOffset(topic, queueId);
      return { topic, group, queueId, offset, min, max, behind: max - Math.max(offset, min) };
    })
    .filter((row) => !behind || row.behind !== 0);
  if (json) {
    await terminal.line(jsonText({ offsets: rows }));
    return;
  }
  await table(
    ["TOPIC", "GROUP", "QUEUE", "OFFSET", "MIN", "MAX", "BEHIND"],
    rows.map(({ topic, group, ...numbers }) => [
      printable(topic),
      printable(group),
      ...[numbers.queueId, numbers.offset, numbers.min, numbers.max, numbers.behind].map(String),
    ]),
    terminal,
    2,
  );
}
