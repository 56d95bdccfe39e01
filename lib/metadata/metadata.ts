/**
 * The files of `config/` that a store keeps for those who use it, each a table.
 *
 * | file | table |
 * |---|---|
 * | `topics.json` | {@linkcode TopicTable} |
 * | `subscriptionGroup.json` | {@linkcode GroupTable} |
 * | `consumerOffset.json` | {@linkcode ConsumerOffsets} |
 * | `delayOffset.json` | {@linkcode DelayOffsets} |
 *
 * All others are left as they are, `consumerFilter.json` among them.
 *
 * @module
 */

import { StoreError } from "../errors.ts";
import { hasCode } from "../io/system_error.ts";
import { ConsumerOffsets, type OffsetsContext } from "./consumer_offsets.ts";
import { DelayOffsets } from "./delay_offsets.ts";
import { GroupTable } from "./group_table.ts";
import { TopicTable, type TopicTableContext } from "./topic_table.ts";

export class Metadata {
  readonly topics: TopicTable;
  readonly groups: GroupTable;
  readonly offsets: ConsumerOffsets;
  readonly delayOffsets: DelayOffsets;
  readonly #context: OffsetsContext;

  constructor(context: OffsetsContext & TopicTableContext) {
    this.#context = context;
    this.topics = new TopicTable(context);
    this.groups = new GroupTable(context);
    this.offsets = new ConsumerOffsets(context);
    this.delayOffsets = new DelayOffsets(context);
  }

  /** @throws {StoreError} `STORE_CONFIG_DAMAGED` naming file and position; `STORE_IO`. */
  async load(): Promise<void> {
    const { fileSystem, config } = this.#context;
    try {
      await fileSystem.stat(config);
    } catch (cause) {
      if (hasCode(cause, "ENOENT")) return;
      throw new StoreError("STORE_IO", `Cannot look for ${config}`, { path: config, cause });
    }
    for (const table of this.#tables) await table.load();
  }

  /** Writes what is not in the files yet. @throws {StoreError} `STORE_IO` */
  async flush(): Promise<void> {
    for (const table of this.#tables) await table.flush();
  }

  /** No write begins by itself any more. */
  stop(): void {
    this.offsets.stop();
  }

  get #tables() {
    return [this.topics, this.groups, this.offsets, this.delayOffsets];
  }
}
