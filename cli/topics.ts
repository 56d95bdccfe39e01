/**
 * `forcelog topics`: the topics that a broker knows of, or its consumer groups.
 *
 * @module
 */

import type { MessageStore } from "../lib/mod.ts";
import { readConfig } from "./arguments.ts";
import { jsonText } from "./json.ts";
import { READS_ONLY, type Verb } from "./main.ts";
import { checkStore, openForReading, openForWriting } from "./store_directory.ts";
import { table } from "./table.ts";
import { printable, type Terminal } from "./terminal.ts";

interface TopicsOptions {
  readonly groups?: true;
  readonly delete?: readonly string[];
  readonly json?: true;
  readonly config?: string;
}

/** `PermName`: what each bit allows. */
const PERMISSIONS = ["X", "W", "R"] as const;

export const topics: Verb = (command, terminal) => {
  command
    .argument("<directory>", "the store's directory")
    .option("--groups", "list the consumer groups instead")
    .option("--delete <name...>", "deletes these topics; writes to the store")
    .option("--json", "print one JSON object, with all settings")
    .option("--config <json>", "options of the store: JSON text or a file")
    .addHelpText(
      "after",
      `
What config/topics.json says, or config/subscriptionGroup.json; topics that nobody has made there may
have messages all the same: see forcelog ls. PERM: R read, W write, X others are made after it.

--delete opens the store for writing, which recovers it if need be: no broker may be using it. Without
--delete:
${READS_ONLY}

Examples:
  forcelog topics /data/store
  forcelog topics /data/store --groups --json`,
    )
    .action(async (directory: string, options: TopicsOptions) => {
      const config = await readConfig(options.config);
      await checkStore(directory, config);
      const store = options.delete
        ? await openForWriting(directory, config, terminal)
        : await openForReading(directory, config, terminal);
      try {
        if (options.delete) await deleteAll(store, options.delete, terminal);
        const topics = store.topics.list();
        const groups = store.groups.list();
        if (options.json) {
          const list = options.groups ? { groups } : { topics };
          await terminal.line(jsonText(JSON.parse(JSON.stringify(list))));
        } else if (options.groups) {
          await table(
            ["GROUP", "CONSUMES", "RETRIES", "RETRY QUEUES"],
            groups.map(({ groupName, consumeEnable, retryMaxTimes, retryQueueNums }) => [
              printable(groupName),
              consumeEnable ? "yes" : "no",
              String(retryMaxTimes),
              String(retryQueueNums),
            ]),
            terminal,
          );
        } else {
          await table(
            ["TOPIC", "READ QUEUES", "WRITE QUEUES", "PERM", "ORDER", "ATTRIBUTES"],
            topics.map((topic) => [
              printable(topic.topicName),
              String(topic.readQueueNums),
              String(topic.writeQueueNums),
              permissionText(topic.perm),
              topic.order ? "yes" : "no",
              printable(
                Object.entries(topic.attributes)
                  .map(([name, value]) => `${name}=${value}`)
                  .join(","),
              ),
            ]),
            terminal,
          );
        }
      } finally {
        await store.close();
      }
    });
};

async function deleteAll(
  store: MessageStore,
  names: readonly string[],
  terminal: Terminal,
): Promise<void> {
  for (const name of names) {
    if ((await store.deleteTopics([name])) === 1) continue;
    terminal.fail(new Error(`Cannot delete topic "${printable(name)}": there is none`));
  }
}

function permissionText(perm: number): string {
  return PERMISSIONS.map((letter, bit) => ((perm >> bit) & 1 ? letter : "-"))
    .reverse()
    .join("");
}
