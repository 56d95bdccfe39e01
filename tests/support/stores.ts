/**
 * Stores for tests: small files, a file system whose calls can be failed or held, and a checker of
 * everything that must always hold.
 *
 * @module
 */

import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Test } from "tap";
import { UNIT_BYTES } from "../../lib/consume_queue/queue_unit.ts";
import { loadNativeBinding } from "../../lib/io/native_binding.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import {
  type Message,
  MessageStore,
  type StoreEnvironment,
  type StoreOptions,
} from "../../lib/mod.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { testFolder } from "./test_folder.ts";

/** Sizes that make files roll after a few messages. */
export const SMALL: StoreOptions = {
  mappedFileSizeCommitLog: 64 * 1024,
  mappedFileSizeConsumeQueue: 2000,
  maxHashSlotNum: 100,
  maxIndexNum: 400,
  maxMessageSize: 32 * 1024,
};

/** The three modes. */
export const MODES: Readonly<Record<string, StoreOptions>> = {
  SYNC_FLUSH: { flushDiskType: "SYNC_FLUSH" },
  ASYNC_FLUSH: { flushDiskType: "ASYNC_FLUSH" },
  pool: { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
};

/** How a test reaches the machine. */
export interface Binding {
  readonly name: string;
  readonly fileSystem: () => InterceptedFileSystem;
  /** Options that opening for writing needs. */
  readonly options: StoreOptions;
}

function hasFlock(): boolean {
  try {
    createRequire(import.meta.url)("fs-ext");
    return true;
  } catch {
    return false;
  }
}

/** With the addon (where it is built) and without it. */
export const BINDINGS: readonly Binding[] = [
  ...(loadNativeBinding() === undefined
    ? []
    : [
        {
          name: "with the addon",
          fileSystem: () => new InterceptedFileSystem(new NodeFileSystem()),
          options: {},
        },
      ]),
  {
    name: "without the addon",
    fileSystem: () => new InterceptedFileSystem(new NodeFileSystem({ native: "off" })),
    options: hasFlock() ? {} : { unsafeOpenWithoutLock: true },
  },
];

/** Runs a test once for each binding. */
export function eachBinding(
  t: Test,
  name: string,
  body: (t: Test, binding: Binding) => Promise<void>,
): Promise<unknown> {
  return Promise.all(
    BINDINGS.map((binding) => t.test(`${name} (${binding.name})`, (t) => body(t, binding))),
  );
}

const withFolder = new WeakSet<Test>();

/** A path for a store in the test's own folder, which is removed afterwards. */
export function storePath(t: Test, name = "store"): string {
  // A second call of testdir() would empty it.
  if (!withFolder.has(t)) testFolder(t);
  withFolder.add(t);
  return join(t.testdirName, name);
}

/** Files after which what was put before is read from its file: a log has 16 pieces of memory. */
const FILES_REMEMBERED = 16;

/** Puts to topic `Filler` until what was put before is no longer in memory. For stores of small files. */
export async function forgetRecent(store: MessageStore): Promise<void> {
  const { mappedFileSizeCommitLog, maxMessageSize } = store.options;
  const body = Buffer.alloc(Math.min(mappedFileSizeCommitLog / 2, maxMessageSize) - 200);
  const end = store.watermarks.wrote + (FILES_REMEMBERED + 1) * mappedFileSizeCommitLog;
  while (store.watermarks.wrote < end) await store.put({ topic: "Filler", body });
}

export interface Opened {
  readonly store: MessageStore;
  readonly fileSystem: InterceptedFileSystem;
  readonly warnings: string[];
}

/** Opens a store that is closed at the end of the test. */
export async function openStore(
  t: Test,
  directory: string,
  options: StoreOptions = {},
  environment: StoreEnvironment & { readonly binding?: Binding } = {},
): Promise<Opened> {
  const { binding = BINDINGS[0] as Binding, ...rest } = environment;
  const fileSystem =
    rest.fileSystem instanceof InterceptedFileSystem ? rest.fileSystem : binding.fileSystem();
  const warnings: string[] = [];
  const store = await MessageStore.open(
    directory,
    { ...SMALL, ...binding.options, ...options },
    {
      onWarning: (warning) => {
        if (!isAboutLock(warning)) warnings.push(warning);
      },
      ...rest,
      fileSystem,
    },
  );
  const opened = { store, fileSystem, warnings };
  const others = openedIn.get(t);
  if (others) {
    others.push(opened);
  } else {
    openedIn.set(t, [opened]);
    t.teardown(() => closeStores(t));
  }
  return opened;
}

const openedIn = new WeakMap<Test, Opened[]>();

/** Closes what the test opened, before its folder is removed. */
async function closeStores(t: Test): Promise<void> {
  for (const { store, fileSystem } of openedIn.get(t) ?? []) {
    fileSystem.clear();
    await store.close().catch(() => undefined);
  }
}

/** Without the addon each open warns that the lock is weak, or that there is none. */
function isAboutLock(warning: string): boolean {
  return /lock/.test(warning);
}

/** A copy of the directory as a process that is killed now would leave it. */
export function killedCopy(t: Test, directory: string): string {
  const copy = mkdtempSync(storePath(t, "killed-"));
  cpSync(directory, copy, { recursive: true });
  return copy;
}

export function message(text: string, more: Partial<Message> = {}): Message {
  return { topic: "T", body: Buffer.from(text), ...more };
}

/** Puts `count` messages one after the other; their bodies are their numbers. */
export async function putMany(
  store: MessageStore,
  count: number,
  more: Partial<Message> & { readonly size?: number } = {},
): Promise<void> {
  const { size = 0, ...fields } = more;
  for (let i = 0; i < count; i++) await store.put(message(`${i}`.padEnd(size, "."), fields));
}

/** All bodies of a queue, from its first message on. */
export async function bodies(store: MessageStore, topic = "T", queueId = 0): Promise<string[]> {
  const found: string[] = [];
  let offset = store.minOffset(topic, queueId);
  while (offset < store.maxOffset(topic, queueId)) {
    const result = await store.get({ topic, queueId, offset });
    if (result.nextBeginOffset === offset) throw new Error(`stuck at ${offset}: ${result.status}`);
    for (const one of result.messages) found.push(one.body.toString().replace(/\.+$/, ""));
    offset = result.nextBeginOffset;
  }
  return found;
}

/**
 * What must hold at any time: positions are in order, no unit points past the readable end of the
 * log, each leads to the message that it says, and files have RocketMQ's names and full sizes.
 *
 * @param lost Places of queues whose messages were damaged, as `topic/queueId/queueOffset`.
 */
export async function checkStore(
  t: Test,
  store: MessageStore,
  directory: string,
  lost: readonly string[] = [],
): Promise<void> {
  const { flushed, committed, wrote, dispatched } = store.watermarks;
  t.ok(flushed <= committed && committed <= wrote, `${flushed} ≤ ${committed} ≤ ${wrote}`);
  t.ok(dispatched <= committed, "what is readable is in the files");
  for (const { topic, queueId } of store.queues()) {
    const seen = new Set<number>();
    let offset = store.minOffset(topic, queueId);
    const max = store.maxOffset(topic, queueId);
    const isLost = (): boolean => lost.includes(`${topic}/${queueId}/${offset}`);
    while (offset < max) {
      const { messages, nextBeginOffset } = await store.get({ topic, queueId, offset });
      for (const one of messages) {
        while (isLost()) offset++;
        t.equal(one.queueOffset, offset++, `offsets of ${topic}/${queueId} have no gap`);
        t.notOk(seen.has(one.physicalOffset), "each record is there once");
        t.ok(one.physicalOffset + one.size <= dispatched, "no unit points past the log");
        seen.add(one.physicalOffset);
      }
      while (offset < nextBeginOffset && isLost()) offset++;
      t.equal(nextBeginOffset, offset);
      if (nextBeginOffset !== offset) break;
    }
  }
  const { mappedFileSizeCommitLog, mappedFileSizeConsumeQueue } = store.options;
  checkFolder(t, join(directory, "commitlog"), mappedFileSizeCommitLog);
  const queues = join(directory, "consumequeue");
  if (!existsSync(queues)) return;
  for (const topic of readdirSync(queues)) {
    for (const id of readdirSync(join(queues, topic))) {
      checkFolder(t, join(queues, topic, id), mappedFileSizeConsumeQueue);
    }
  }
}

function checkFolder(t: Test, folder: string, fileSize: number): void {
  for (const name of readdirSync(folder)) {
    t.match(name, /^\d{20}$/, `${folder}/${name} is a segment`);
    t.equal(statSync(join(folder, name)).size, fileSize, `${folder}/${name} is whole`);
  }
}

/** Changes bytes of a file. */
export function overwrite(path: string, position: number, bytes: Uint8Array): void {
  const content = readFileSync(path);
  content.set(bytes, position);
  writeFileSync(path, content);
}

/** The units of a queue file that are not zero, as hex. */
export function unitsOnDisk(directory: string, topic = "T", queueId = 0): string[] {
  const folder = join(directory, "consumequeue", topic, String(queueId));
  if (!existsSync(folder)) return [];
  const units: string[] = [];
  for (const name of readdirSync(folder).sort()) {
    const content = readFileSync(join(folder, name));
    for (let at = 0; at < content.length; at += UNIT_BYTES) {
      const unit = content.subarray(at, at + UNIT_BYTES);
      if (unit.some((byte) => byte !== 0)) units.push(unit.toString("hex"));
    }
  }
  return units;
}

/** Path of the commit log file that starts at `start`. */
export function logFile(directory: string, start = 0): string {
  return join(directory, "commitlog", String(start).padStart(20, "0"));
}

/** Length of a record of topic `T` without properties: add the body's. */
export const BARE_RECORD_BYTES = 92;
