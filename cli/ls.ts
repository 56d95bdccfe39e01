/**
 * `forcelog ls`: the queues of a store, or its files.
 *
 * @module
 */

import { readConfig } from "./arguments.ts";
import { jsonText } from "./json.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { checkStore, listFiles, openForReading } from "./store_directory.ts";
import { table } from "./table.ts";
import { printable, type Terminal } from "./terminal.ts";

interface LsOptions {
  readonly files?: true;
  readonly json?: true;
  readonly config?: string;
}

export const ls: Verb = (command, terminal) => {
  command
    .argument("<directory>", "the store's directory")
    .option("--files", "list the files on disk, with their size and the space they take, in bytes")
    .option("--json", "print one JSON object")
    .option("--config <json>", "options of the store: JSON text or a file")
    .addHelpText(
      "after",
      `
For each queue: its first message (MIN), one past its last (MAX), how many it holds (COUNT), and
where in the log its last record ends (LOG END), and its queue.type (TYPE): a unit for each message
(SimpleCQ), or for each record, which may hold many (BatchCQ).
${READS_ONLY}

Examples:
  forcelog ls /data/store
  forcelog ls /data/store --files --json`,
    )
    .action((directory: string, options: LsOptions) =>
      options.files
        ? lsFiles(directory, options, terminal)
        : lsQueues(directory, options, terminal),
    );
};

async function lsQueues(directory: string, options: LsOptions, terminal: Terminal): Promise<void> {
  const config = await readConfig(options.config);
  await checkStore(directory, config);
  const store = await openForReading(directory, config, terminal);
  try {
    const queues = store.queues().map(({ topic, queueId, minOffset, maxOffset, ...rest }) => {
      const count = maxOffset - minOffset;
      return { topic, queueId, min: minOffset, max: maxOffset, count, ...rest };
    });
    if (options.json) {
      await terminal.line(jsonText({ queues }));
    } else {
      await table(
        ["TOPIC", "QUEUE", "MIN", "MAX", "COUNT", "LOG END", "TYPE"],
        queues.map(({ topic, queueId, min, max, count, maxPhysicalOffset, queueType }) => [
          printable(topic),
          ...[queueId, min, max, count, maxPhysicalOffset, queueType].map(String),
        ]),
        terminal,
      );
    }
  } finally {
    await store.close();
  }
}

async function lsFiles(directory: string, options: LsOptions, terminal: Terminal): Promise<void> {
  await checkStore(directory, await readConfig(options.config));
  const files = await listFiles(directory);
  if (options.json) {
    await terminal.line(jsonText({ files: files.map((file) => ({ ...file })) }));
    return;
  }
  await table(
    ["PATH", "SIZE", "ON DISK"],
    files.map(({ path, size, allocatedBytes }) => [
      printable(path),
      String(size),
      String(allocatedBytes),
    ]),
    terminal,
  );
}
