/**
 * A table that lives in memory and in one file of `config/`. RocketMQ: what extends `ConfigManager`.
 *
 * The file is written as a whole; members that are not ours to know are written again as they were read.
 * A store that never had something to write gets no file.
 *
 * @module
 */

import { byName } from "./config_fields.ts";
import { type ConfigContext, ConfigFile } from "./config_file.ts";
import { ConfigObject, type ConfigValue, formatConfig } from "./config_json.ts";
import { DataVersion } from "./data_version.ts";

export interface TableContext extends ConfigContext {
  /** @throws if nothing may be changed: the store is closed, or open for reading only. */
  readonly checkWritable: () => void;
}

export abstract class ConfigTable {
  /** Grows with every change; kept in the file. */
  readonly version = new DataVersion();
  protected readonly context: TableContext;
  readonly #file: ConfigFile;
  readonly #unreadable: "fail" | "start empty";
  #others = new ConfigObject();
  #changes = 0;
  #savedChanges = 0;
  #changesInText = 0;

  constructor(
    context: TableContext,
    fileName: string,
    unreadable: "fail" | "start empty" = context.readOnly ? "start empty" : "fail",
  ) {
    this.context = context;
    this.#file = new ConfigFile(context, fileName);
    this.#unreadable = unreadable;
  }

  /** The file, which may not be there. */
  get path(): string {
    return this.#file.path;
  }

  /** There are changes that are not in the file. */
  get isDirty(): boolean {
    return this.#savedChanges < this.#changes;
  }

  /** Reads the file; the store does that when it opens. */
  load(): Promise<void> {
    return this.#file.load((root) => {
      this.version.read(root);
      this.read(root);
      this.#others = root;
    }, this.#unreadable);
  }

  /**
   * Writes the file, if there is something new to write.
   *
   * @returns Resolves once every change made before this call survives a power cut.
   * @throws {StoreError} `STORE_IO`. The changes stay, in memory only; the next call tries again.
   */
  async flush(): Promise<void> {
    if (!this.isDirty) return;
    await this.#file.save(
      async () => {
        this.#changesInText = this.#changes;
        const bytes = formatConfig(this.#toConfig());
        await this.beforeSave();
        return bytes;
      },
      () => {
        this.#savedChanges = this.#changesInText;
      },
    );
  }

  /** Takes over what a file says, all of it or nothing. @throws {ConfigSyntaxError} */
  protected abstract read(root: ConfigObject): void;

  /** The members of the file that this table knows, but for `dataVersion`. */
  protected abstract members(): [name: string, value: ConfigValue][];

  /** What must have happened before the text that was made just now may be durable. */
  protected async beforeSave(): Promise<void> {}

  /** Something is different now. @param counts Whether the version tells it. */
  protected changed(counts = true): void {
    this.#changes++;
    if (counts) this.version.next(this.context.now());
  }

  #toConfig(): ConfigObject {
    const members = new Map<string, ConfigValue>(this.#others);
    members.set("dataVersion", this.version.toConfig());
    for (const [name, value] of this.members()) members.set(name, value);
    return new ConfigObject([...members].sort(byName));
  }
}
