/**
 * The calls of `node:fs` on raw descriptors, as promises.
 *
 * Descriptors rather than the objects of `node:fs/promises`: a call is cheaper that way, and
 * nothing is closed behind our back when an object is collected.
 *
 * @module
 */

import * as fs from "node:fs";
import type { DirectoryEntry, FileStat } from "./file_system.ts";

/** The mode of a new file, before the process's umask. */
const FILE_MODE = 0o644;

type Done<T> = (error: NodeJS.ErrnoException | null, result: T) => void;

/** Any call of `node:fs` that takes a callback. */
export function settle<T = void>(call: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, result) => {
      if (error === null || error === undefined) resolve(result);
      else reject(error);
    });
  });
}

/** @param flags `O_RDWR` and its like, from `fs.constants`. */
export function open(path: string, flags: number): Promise<number> {
  return settle<number>((done) => fs.open(path, flags, FILE_MODE, done));
}

export function close(fd: number): Promise<void> {
  return settle((done) => fs.close(fd, done));
}

export function mkdir(path: string): Promise<void> {
  return settle((done) => fs.mkdir(path, done));
}

export function rmdir(path: string): Promise<void> {
  return settle((done) => fs.rmdir(path, done));
}

export function rename(from: string, to: string): Promise<void> {
  return settle((done) => fs.rename(from, to, done));
}

export function unlink(path: string): Promise<void> {
  return settle((done) => fs.unlink(path, done));
}

export function ftruncate(fd: number, size: number): Promise<void> {
  return settle((done) => fs.ftruncate(fd, size, done));
}

/** `fsync` of a directory. */
export async function syncDirectory(path: string): Promise<void> {
  const fd = await open(path, fs.constants.O_RDONLY);
  try {
    await settle((done) => fs.fsync(fd, done));
  } finally {
    await close(fd);
  }
}

/** A name in a directory, and what it is: a link is not followed. */
export interface ListedEntry extends Omit<DirectoryEntry, "kind"> {
  kind: DirectoryEntry["kind"] | "link";
}

export async function readdir(path: string): Promise<ListedEntry[]> {
  const entries = await settle<fs.Dirent[]>((done) =>
    fs.readdir(path, { withFileTypes: true }, done),
  );
  return entries.map((entry) => ({
    name: entry.name,
    kind: entry.isSymbolicLink() ? "link" : kindOf(entry),
  }));
}

export async function stat(path: string): Promise<FileStat> {
  return fileStat(await settle<fs.BigIntStats>((done) => fs.stat(path, { bigint: true }, done)));
}

/** Bytes written, which may be fewer than given. */
export function pwritev(
  fd: number,
  buffers: readonly Uint8Array[],
  position: number,
): Promise<number> {
  const [first] = buffers;
  if (first === undefined) return Promise.resolve(0);
  return settle<number>((done) =>
    buffers.length === 1
      ? fs.write(fd, first, 0, first.length, position, done)
      : fs.writev(fd, buffers, position, done),
  );
}

/** The same at once, on the calling thread. */
export function pwritevNow(fd: number, buffers: readonly Uint8Array[], position: number): number {
  const [first] = buffers;
  if (first === undefined) return 0;
  return buffers.length === 1
    ? fs.writeSync(fd, first, 0, first.length, position)
    : fs.writevSync(fd, buffers, position);
}

export function pread(fd: number, buffer: Uint8Array, position: number): Promise<number> {
  return settle<number>((done) => fs.read(fd, buffer, 0, buffer.length, position, done));
}

export async function fstat(fd: number): Promise<FileStat> {
  return fileStat(await settle<fs.BigIntStats>((done) => fs.fstat(fd, { bigint: true }, done)));
}

/** Bytes of the file. */
export async function size(fd: number): Promise<number> {
  return (await fstat(fd)).size;
}

/** On macOS this is `F_FULLFSYNC`, as `fdatasync(2)` alone would not reach the disk there. */
export function fdatasync(fd: number): Promise<void> {
  return settle((done) => fs.fdatasync(fd, done));
}

function fileStat(stat: fs.BigIntStats): FileStat {
  return {
    kind: kindOf(stat),
    size: Number(stat.size),
    allocatedBytes: Number(stat.blocks) * 512,
    identity: `${stat.dev}:${stat.ino}`,
    mtimeMs: Number(stat.mtimeMs),
  };
}

function kindOf(entry: { isFile(): boolean; isDirectory(): boolean }): FileStat["kind"] {
  if (entry.isFile()) return "file";
  return entry.isDirectory() ? "directory" : "other";
}
