/**
 * A store's directory as a tree in memory, which costs next to nothing to copy and can be damaged
 * in every way that a real one can: wrong kinds, links, files that may not be read.
 *
 * @module
 */

import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

/** Content that is all zero from the end of `bytes` up to `size`. */
export interface ImageFile {
  readonly kind: "file";
  bytes: Buffer;
  size: number;
  /** `bytes` belong to this file alone: they may be written to. */
  owned: boolean;
  denied: boolean;
}

export interface ImageDirectory {
  readonly kind: "directory";
  readonly entries: Map<string, ImageNode>;
  denied: boolean;
}

/** A symbolic link; its target is relative to its own directory, or absolute. */
export interface ImageLink {
  readonly kind: "link";
  readonly target: string;
}

/** A pipe, a socket or a device: whoever opens it may wait for ever. */
export interface ImageOther {
  readonly kind: "other";
}

export type ImageNode = ImageFile | ImageDirectory | ImageLink | ImageOther;

/** What writes beyond this fail with, as a full disk does. */
const FILE_BYTES_MAX = 64 * 1024 * 1024;

/** Paths are relative to the store's root, with `/`; the empty path is the root itself. */
export class StoreImage {
  readonly root: ImageDirectory;

  constructor(root: ImageDirectory = directoryOf()) {
    this.root = root;
  }

  /** Reads a real directory. */
  static load(path: string): StoreImage {
    return new StoreImage(loadDirectory(path));
  }

  /** A copy that shares the bytes of its files until one of both is written to. */
  fork(): StoreImage {
    return new StoreImage(forkNode(this.root));
  }

  /** Writes everything into an empty real directory. What may not be read is left out. */
  save(path: string): void {
    saveDirectory(this.root, path);
  }

  /** The node itself; links are not followed. */
  node(path: string): ImageNode | undefined {
    let node: ImageNode | undefined = this.root;
    for (const name of namesOf(path)) {
      node = node?.kind === "directory" ? node.entries.get(name) : undefined;
    }
    return node;
  }

  file(path: string): ImageFile | undefined {
    const node = this.node(path);
    return node?.kind === "file" ? node : undefined;
  }

  directory(path: string): ImageDirectory | undefined {
    const node = this.node(path);
    return node?.kind === "directory" ? node : undefined;
  }

  /** Puts a node there in place of what is there; `undefined` removes. Nothing without a parent. */
  set(path: string, node: ImageNode | undefined): void {
    const names = namesOf(path);
    const name = names.pop();
    const parent = this.directory(names.join("/"));
    if (name === undefined || !parent) return;
    if (node) parent.entries.set(name, node);
    else parent.entries.delete(name);
  }

  /** All paths below the root, sorted. */
  paths(): string[] {
    const found: string[] = [];
    const walk = (directory: ImageDirectory, prefix: string): void => {
      for (const [name, node] of directory.entries) {
        const path = prefix + name;
        found.push(path);
        if (node.kind === "directory") walk(node, `${path}/`);
      }
    };
    walk(this.root, "");
    return found.sort();
  }

  /** All files, in no particular order. */
  *files(directory = this.root): Generator<ImageFile> {
    for (const node of directory.entries.values()) {
      if (node.kind === "file") yield node;
      else if (node.kind === "directory") yield* this.files(node);
    }
  }
}

export function fileOf(bytes: Uint8Array, size = bytes.length): ImageFile {
  return { kind: "file", bytes: trimmed(Buffer.from(bytes)), size, owned: false, denied: false };
}

export function directoryOf(entries: Iterable<readonly [string, ImageNode]> = []): ImageDirectory {
  return { kind: "directory", entries: new Map(entries), denied: false };
}

export function forkNode<Node extends ImageNode>(node: Node): Node {
  if (node.kind === "file") {
    node.owned = false;
    return { ...node };
  }
  if (node.kind !== "directory") return node;
  const entries = new Map<string, ImageNode>();
  for (const [name, child] of node.entries) entries.set(name, forkNode(child));
  return { ...node, entries };
}

/** Copies what lies from `position` on into `target`. @returns Bytes copied, up to the file's end. */
export function readFile(file: ImageFile, target: Uint8Array, position: number): number {
  const length = Math.max(0, Math.min(target.length, file.size - position));
  const copied =
    position < file.bytes.length
      ? file.bytes.copy(target, 0, position, Math.min(position + length, file.bytes.length))
      : 0;
  target.fill(0, copied, length);
  return length;
}

/** @returns Whether there was room. */
export function writeFile(file: ImageFile, bytes: Uint8Array, position: number): boolean {
  const end = position + bytes.length;
  if (end > FILE_BYTES_MAX && bytes.some((byte) => byte !== 0)) return false;
  if (end <= FILE_BYTES_MAX) {
    own(file, end);
    file.bytes.set(bytes, position);
  }
  file.size = Math.max(file.size, end);
  return true;
}

export function resizeFile(file: ImageFile, size: number): void {
  // A view is enough: nobody writes behind the end of it without taking a copy.
  if (size < file.bytes.length) {
    file.bytes = file.bytes.subarray(0, size);
    file.owned = false;
  }
  file.size = size;
}

/** Makes the bytes the file's own, and at least so many. */
function own(file: ImageFile, length: number): void {
  if (file.owned && file.bytes.length >= length) return;
  const room = Math.max(length, Math.min(file.bytes.length, file.size));
  const bytes = Buffer.alloc(
    room > file.bytes.length ? Math.min(grown(room), FILE_BYTES_MAX) : room,
  );
  file.bytes.copy(bytes);
  file.bytes = bytes.subarray(0, Math.min(bytes.length, Math.max(file.size, length)));
  file.owned = true;
}

function grown(length: number): number {
  return Math.ceil((length * 1.5) / 4096) * 4096;
}

/** Without the zeros at the end. */
function trimmed(bytes: Buffer): Buffer {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end--;
  return Buffer.from(bytes.subarray(0, end));
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "");
}

function loadDirectory(path: string): ImageDirectory {
  const directory = directoryOf();
  for (const name of readdirSync(path)) {
    const child = join(path, name);
    const stat = lstatSync(child);
    if (stat.isDirectory()) directory.entries.set(name, loadDirectory(child));
    else if (stat.isSymbolicLink()) {
      directory.entries.set(name, { kind: "link", target: readlinkSync(child) });
    } else if (stat.isFile()) {
      directory.entries.set(name, fileOf(readFileSync(child), stat.size));
    }
  }
  return directory;
}

function saveDirectory(directory: ImageDirectory, path: string): void {
  mkdirSync(path, { recursive: true });
  for (const [name, node] of directory.entries) {
    const child = join(path, name);
    if (node.kind === "directory" && !node.denied) saveDirectory(node, child);
    else if (node.kind === "link") symlinkSync(node.target, child);
    else if (node.kind === "file" && !node.denied) {
      writeFileSync(child, node.bytes);
      truncateSync(child, node.size);
    }
  }
}
