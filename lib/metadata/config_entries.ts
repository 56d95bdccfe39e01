/**
 * The settings of many things, by name: a table of a file of `config/`.
 *
 * @module
 */

import { byName, objectIn, wrong } from "./config_fields.ts";
import { ConfigObject } from "./config_json.ts";

export interface ConfigEntry<Config> {
  readonly config: Config;
  /** As it stands in the file, with members that are not known here. */
  readonly object: ConfigObject;
}

export class ConfigEntries<Config extends object> {
  readonly #entries = new Map<string, ConfigEntry<Config>>();

  /**
   * Reads a member of the file.
   *
   * @throws {ConfigSyntaxError} if an entry is no object, or what `decode` throws.
   */
  static read<Config extends object>(
    root: ConfigObject,
    member: string,
    decode: (name: string, object: ConfigObject) => Config,
  ): ConfigEntries<Config> {
    const entries = new ConfigEntries<Config>();
    const table = objectIn(root, member);
    for (const [name, object] of table) {
      if (object === null) continue;
      if (!(object instanceof ConfigObject)) throw wrong(table, name, "an object");
      entries.set(name, decode(name, object), object);
    }
    return entries;
  }

  get(name: string): ConfigEntry<Config> | undefined {
    return this.#entries.get(name);
  }

  set(name: string, config: Config, object: ConfigObject): void {
    this.#entries.set(name, { config: Object.freeze(config), object });
  }

  /** @returns Whether it was there. */
  delete(name: string): boolean {
    return this.#entries.delete(name);
  }

  /** All settings, by name. */
  list(): Config[] {
    return [...this.#entries].sort(byName).map(([, { config }]) => config);
  }

  toConfig(): ConfigObject {
    const objects = [...this.#entries].map(([name, { object }]) => [name, object] as const);
    return new ConfigObject(objects.sort(byName));
  }
}
