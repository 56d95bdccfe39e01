/**
 * A store's directory as it lies on disk, and as a store that is only looked at.
 *
 * @module
 */

import { open, readdir, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { MessageStore, type StoreOptions } from "../lib/mod.ts";
import { printable, type Terminal } from "./terminal.ts";

export interface DirectoryFile {
  /** Below the store's directory, with `/`. */
  readonly path: string;
  readonly size: number;
  /** Space that it takes on the device, in bytes. */
  readonly allocatedBytes: number;
}

/** Opens the store without changing a byte: it is seen as its recovery would leave it. */
export async function openForReading(
  directory: string,
  options: StoreOptions,
  terminal: Terminal,
): Promise<MessageStore> {
  return MessageStore.open(directory, options, {
    readOnly: true,
    onWarning: (warning) => terminal.note(`warning: ${printable(warning)}`),
  });
}

/** Opens the store to change it: it is recovered if need be. */
export async function openForWriting(
  directory: string,
  options: StoreOptions,
  terminal: Terminal,
): Promise<MessageStore> {
  return MessageStore.open(directory, options, {
    onWarning: (warning) => terminal.note(`warning: ${printable(warning)}`),
  });
}

/** @throws if there is no such directory. */
export async function checkDirectory(directory: string): Promise<void> {
  try {
    if ((await stat(directory)).isDirectory()) return;
  } catch (cause) {
    throw new Error(`Cannot open ${resolve(directory)}`, { cause });
  }
  throw new Error(`Cannot open ${resolve(directory)}: it is no directory`);
}

/** @throws if nothing in the directory looks like a store. */
export async function checkStore(directory: string, options: StoreOptions): Promise<void> {
  await checkDirectory(directory);
  const names = ["commitlog", "consumequeue", "checkpoint", "abort"];
  const places = [...names.map((name) => join(directory, name)), options.storePathCommitLog];
  for (const place of places) {
    if (place !== undefined && (await exists(place))) return;
  }
  throw new Error(
    `Cannot find a store in ${resolve(directory)}: there is no ${names.slice(0, -1).join(", no ")} and no abort`,
  );
}

export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (cause) {
    const { code } = cause as { code?: string };
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw new Error(`Cannot look at ${path}`, { cause });
  }
}

/** Every regular file, sorted by path; one that vanishes meanwhile is left out. */
export async function listFiles(directory: string): Promise<DirectoryFile[]> {
  const files: DirectoryFile[] = [];
  const walk = async (path: string): Promise<void> => {
    for (const entry of await readdir(path, { withFileTypes: true }).catch(unlessMissing([]))) {
      const child = join(path, entry.name);
      if (entry.isDirectory()) await walk(child);
      if (!entry.isFile()) continue;
      const found = await stat(child).catch(unlessMissing(undefined));
      if (!found) continue;
      const name = relative(directory, child).split(sep).join("/");
      files.push({ path: name, size: found.size, allocatedBytes: found.blocks * 512 });
    }
  };
  await walk(directory);
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Files of a folder together. */
export interface FilesSum {
  readonly files: number;
  readonly bytes: number;
  /** Space that they take on the device. */
  readonly allocatedBytes: number;
}

/** Number, bytes and space of the files below a folder. */
export function sumOf(files: readonly DirectoryFile[], folder: string): FilesSum {
  const inside = files.filter(({ path }) => path.startsWith(`${folder}/`));
  const total = (of: (file: DirectoryFile) => number): number =>
    inside.reduce((bytes, file) => bytes + of(file), 0);
  return {
    files: inside.length,
    bytes: total(({ size }) => size),
    allocatedBytes: total(({ allocatedBytes }) => allocatedBytes),
  };
}

/**
 * The six 64-bit numbers at the front of `checkpoint`, exactly.
 *
 * @returns `undefined` without the file; none if it is too short for them.
 */
export async function readCheckpointLongs(directory: string): Promise<bigint[] | undefined> {
  const bytes = await readFront(join(directory, "checkpoint"), 48);
  if (bytes === undefined) return undefined;
  if (bytes.length < 48) return [];
  return [0, 8, 16, 24, 32, 40].map((at) => bytes.readBigInt64BE(at));
}

/**
 * The first bytes of a file, fewer if it is shorter; `undefined` if there is none.
 *
 * @throws if there is something else of that name: to open a pipe may take for ever.
 */
export async function readFront(path: string, length: number): Promise<Buffer | undefined> {
  try {
    const found = await stat(path).catch(unlessMissing(undefined));
    if (!found) return undefined;
    if (!found.isFile()) throw new Error("it is no file");
    const file = await open(path, "r");
    try {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, 0);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (cause) {
    throw new Error(`Cannot read ${path}`, { cause });
  }
}

function unlessMissing<T>(otherwise: T): (error: unknown) => T {
  return (error) => {
    if ((error as { code?: string }).code === "ENOENT") return otherwise;
    throw error;
  };
}
