/**
 * One file of `config/`: how it is read, and how it is written without ever being half there.
 * RocketMQ: `ConfigManager`.
 *
 * **Read** as RocketMQ does: the file; if it is missing, empty or no such text, its backup `NAME.bak`;
 * without a backup, nothing. A damaged file is kept: it is moved to `forcelog/config-NAME-<ms>`.
 *
 * **Written**: what the file says becomes the backup, then the new text the file. Each is made aside, synced,
 * renamed over the old one, and its folder synced: at any moment both names, if they were there, lead to a
 * whole text. (RocketMQ renames the file to its backup and writes a new one, or overwrites it in place: a
 * power cut leaves none, or half of one.)
 *
 * @module
 */

import { basename, join } from "node:path";
import { StoreError } from "../errors.ts";
import { createDirectory } from "../io/create_directory.ts";
import { exists, moveFile, replaceFile } from "../io/directory.ts";
import type { FileSystem } from "../io/file_system.ts";
import { readFully } from "../io/fully.ts";
import { OneAtATime } from "../io/one_at_a_time.ts";
import { hasCode } from "../io/system_error.ts";
import { type ConfigObject, ConfigSyntaxError, parseConfig } from "./config_json.ts";

/** Where the files lie, and who hears of what is wrong with them. */
export interface ConfigContext {
  readonly fileSystem: FileSystem;
  /** Their folder, made when one is written for the first time. */
  readonly config: string;
  /** Existing folder on the same file system: for half-made files, and for what was damaged. */
  readonly own: string;
  /** Nothing may be moved out of the way. */
  readonly readOnly: boolean;
  /** Wall time in ms. */
  readonly now: () => number;
  readonly warn: (warning: string) => void;
}

/** Larger ones are not read, in bytes: the parser needs several times as much memory. */
const SIZE_MAX = 256 * 1024 * 1024;

export class ConfigFile {
  readonly path: string;
  readonly #context: ConfigContext;
  /** What the file says, if that is a whole text. */
  #bytes: Uint8Array | undefined;
  readonly #writing = new OneAtATime();
  #next: Promise<void> | undefined;

  constructor(context: ConfigContext, name: string) {
    this.#context = context;
    this.path = join(context.config, name);
  }

  /**
   * Reads the file, or its backup.
   *
   * @param take Takes what it says, as a whole or not at all; a `ConfigSyntaxError` of it means that it is
   *   damaged, too.
   * @param unreadable With the backup damaged as well there is an error, as in RocketMQ (`"fail"`), or only
   *   a warning.
   * @throws {StoreError} `STORE_CONFIG_DAMAGED` naming file and position; `STORE_IO`.
   */
  async load(
    take: (object: ConfigObject) => void,
    unreadable: "fail" | "start empty",
  ): Promise<void> {
    const main = await this.#take(this.path, take);
    if (main === "good") return;
    const backup = await this.#take(`${this.path}.bak`, take);
    if (main === "missing" && backup === "missing") return;
    if (typeof backup === "object" && backup.size > 0 && unreadable === "fail") {
      throw typeof main === "object" && main.size > 0 ? main.error : backup.error;
    }
    const instead = backup === "good" ? "its backup is used" : "it starts empty";
    const { warn } = this.#context;
    if (typeof main === "object" && main.size > 0) {
      warn(`${main.error.message}; ${instead}${await this.#putAside(this.path)}`);
    } else {
      warn(`${this.path} is ${main === "missing" ? "missing" : "empty"}: ${instead}`);
    }
    if (typeof backup === "object" && backup.size > 0) {
      warn(`${backup.error.message}${await this.#putAside(`${this.path}.bak`)}`);
    }
  }

  /**
   * Writes the file. Saves that are asked for while one is under way share the next one.
   *
   * @param format Makes the text, when its turn has come.
   * @param saved The last text that was made is durable.
   * @returns Resolves once a text that was made after this call survives a power cut.
   * @throws {StoreError} `STORE_IO`: the file says what it said before, or what it should.
   */
  save(format: () => Promise<Uint8Array>, saved: () => void): Promise<void> {
    this.#next ??= this.#writing.run(async () => {
      this.#next = undefined;
      const bytes = await format();
      try {
        await this.#replace(bytes);
        saved();
      } catch (cause) {
        if (cause instanceof StoreError) throw cause;
        throw new StoreError("STORE_IO", `Cannot write ${this.path}`, { path: this.path, cause });
      }
    });
    return this.#next;
  }

  async #replace(content: Uint8Array): Promise<void> {
    const { fileSystem, config, own: staging } = this.#context;
    await createDirectory(fileSystem, config);
    const before = this.#bytes;
    if (before) {
      await replaceFile(fileSystem, { staging, path: `${this.path}.bak`, content: before });
    }
    await replaceFile(fileSystem, { staging, path: this.path, content });
    this.#bytes = content;
  }

  async #take(
    path: string,
    take: (object: ConfigObject) => void,
  ): Promise<"good" | "missing" | Damaged> {
    const bytes = await this.#read(path);
    if (bytes === undefined) return "missing";
    try {
      take(parseConfig(bytes));
      this.#bytes = bytes;
      return "good";
    } catch (cause) {
      if (!(cause instanceof ConfigSyntaxError)) throw cause;
      const { position, message } = cause;
      const error = new StoreError(
        "STORE_CONFIG_DAMAGED",
        `Cannot read ${path}: damaged at position ${position}: ${message}`,
        { path, position, cause },
      );
      return { size: bytes.length, error };
    }
  }

  /** @returns `undefined` if there is no such file. */
  async #read(path: string): Promise<Buffer | undefined> {
    const { fileSystem } = this.#context;
    try {
      // To open a pipe may take for ever.
      const { kind, size } = await fileSystem.stat(path);
      if (kind !== "file" || size > SIZE_MAX) {
        const reason = kind === "file" ? `it has ${size} bytes` : "it is no file";
        throw new StoreError("STORE_CONFIG_DAMAGED", `Cannot read ${path}: ${reason}`, { path });
      }
      const handle = await fileSystem.open(path, "read");
      try {
        const bytes = Buffer.alloc(size);
        return bytes.subarray(0, await readFully(handle, bytes, 0));
      } finally {
        await handle.close();
      }
    } catch (cause) {
      if (cause instanceof StoreError) throw cause;
      if (hasCode(cause, "ENOENT")) return undefined;
      throw new StoreError("STORE_IO", `Cannot read ${path}`, { path, cause });
    }
  }

  /** Moves a damaged file away: nothing is destroyed. @returns Where to, as part of a warning. */
  async #putAside(path: string): Promise<string> {
    const { fileSystem, own, now, readOnly } = this.#context;
    if (readOnly) return "";
    const base = join(own, `config-${basename(path)}-${now()}`);
    try {
      for (let number = 0; ; number++) {
        const kept = number === 0 ? base : `${base}.${number}`;
        if (await exists(fileSystem, kept)) continue;
        await moveFile(fileSystem, path, kept);
        return `; it is kept as ${kept}`;
      }
    } catch (cause) {
      throw new StoreError("STORE_IO", `Cannot move ${path} to ${base}`, { path, cause });
    }
  }
}

/** A file that is there and says nothing that could be used. */
interface Damaged {
  /** In bytes: an empty file holds nothing to keep. */
  readonly size: number;
  readonly error: StoreError;
}
