/**
 * Directories that survive a power cut.
 *
 * @module
 */

import { dirname } from "node:path";
import type { FileSystem } from "./file_system.ts";
import { hasCode } from "./system_error.ts";

/** Directories that are being made, by their parents. */
const broods = new WeakMap<FileSystem, Map<string, Brood>>();

/**
 * Makes a directory and those above it, each synced into its parent. One that exists is fine. Once this
 * resolves, it survives a power cut; after an error it may be there or not.
 *
 * Those that are wanted in one parent at the same time are made together, with one sync, and no other is made
 * while that lasts: a sync that fails may take with it what the next one should have written.
 */
export function createDirectory(fs: FileSystem, path: string): Promise<void> {
  const parent = dirname(path);
  const parents = broods.get(fs) ?? new Map<string, Brood>();
  broods.set(fs, parents);
  let brood = parents.get(parent);
  if (!brood || brood.begun) {
    const before = brood?.ended;
    brood = new Brood(fs, parent);
    parents.set(parent, brood);
    brood.ended = brood.run(before).finally(() => {
      if (parents.get(parent) === brood) parents.delete(parent);
    });
  }
  return brood.add(path);
}

/** Directories of one parent that are made together. */
class Brood {
  readonly #fs: FileSystem;
  readonly #parent: string;
  readonly #paths = new Set<string>();
  /** Those that could not be made, and why. */
  readonly #errors = new Map<string, unknown>();
  begun = false;
  /** Never rejects. */
  ended: Promise<void> = Promise.resolve();

  constructor(fs: FileSystem, parent: string) {
    this.#fs = fs;
    this.#parent = parent;
  }

  /** Only before it has begun. */
  async add(path: string): Promise<void> {
    this.#paths.add(path);
    await this.ended;
    if (this.#errors.has(path)) throw this.#errors.get(path);
  }

  async run(before: Promise<void> | undefined): Promise<void> {
    await before;
    this.begun = true;
    const made: string[] = [];
    await Promise.all(
      [...this.#paths].map(async (path) => {
        try {
          if (await this.#make(path)) made.push(path);
        } catch (error) {
          this.#errors.set(path, error);
        }
      }),
    );
    if (this.#errors.size === this.#paths.size) return;
    try {
      await this.#fs.syncDirectory(this.#parent);
    } catch (error) {
      // Whoever made a directory that exists may have been killed before this sync, so it is done all the
      // same. A parent that we may not even read was not changed by a store.
      if (made.length === 0 && hasCode(error, "EACCES")) return;
      for (const path of this.#paths) if (!this.#errors.has(path)) this.#errors.set(path, error);
      // Another sync may succeed without writing what this one should have written: whoever tries
      // again must make the directory anew.
      for (const path of made) await this.#fs.rmdir(path).catch(() => undefined);
    }
  }

  /** @returns Whether it is new. */
  async #make(path: string): Promise<boolean> {
    try {
      try {
        await this.#fs.mkdir(path);
      } catch (error) {
        if (!hasCode(error, "ENOENT") || this.#parent === path) throw error;
        await createDirectory(this.#fs, this.#parent);
        await this.#fs.mkdir(path);
      }
      return true;
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error;
      if ((await this.#fs.stat(path)).kind !== "directory") throw error;
      return false;
    }
  }
}
