/**
 * The file `checkpoint`: up to where what is durable. RocketMQ: `StoreCheckpoint`.
 *
 *     0     physicMsgTimestamp      store time of the newest record that is durable in the log, ms
 *     8     logicsMsgTimestamp      store time of the newest record whose unit is durable, ms
 *     16    indexMsgTimestamp       end time of the newest full index file, ms
 *     24    masterFlushedOffset     a slave's knowledge of its master
 *     32    confirmPhyOffset        start of the newest confirmed record
 *     40    logicsPhysicalOffset    start of the newest record whose unit is durable; 0 = unknown
 *     48    zeros
 *     2048  our slot: magic, a copy of the six longs, our watermarks, CRC-32
 *     2304  our slot of the index: magic, its watermarks, CRC-32
 *     ...   zeros up to 4096
 *
 * RocketMQ's store rewrites the longs in place and leaves the rest: where the copy in our slot
 * differs from them, a Java store was here since, and the slot is void. A damaged slot is void too.
 * The file is replaced as a whole, so a power cut leaves the old or the new one.
 *
 * @module
 */

import { crc32 } from "node:zlib";
import { StoreError } from "../errors.ts";
import { replaceFile } from "../io/directory.ts";
import type { FileSystem } from "../io/file_system.ts";
import { readFully } from "../io/fully.ts";
import type { PhysicalOffset } from "../units.ts";

/** Size of the file (`MappedFile.OS_PAGE_SIZE`). */
const CHECKPOINT_BYTES = 4096;

const LONG_NAMES = [
  "physicMsgTimestamp",
  "logicsMsgTimestamp",
  "indexMsgTimestamp",
  "masterFlushedOffset",
  "confirmPhyOffset",
  "logicsPhysicalOffset",
] as const;
const LONGS_BYTES = LONG_NAMES.length * 8;

const SLOT_AT = 2048;
/** "FLC1": forcelog's checkpoint slot, first version. */
const SLOT_MAGIC = 0x464c4331;
const COPY_AT = SLOT_AT + 8;
const LOG_END_AT = COPY_AT + LONGS_BYTES;
const QUEUES_END_AT = LOG_END_AT + 8;
const QUEUE_COUNT_AT = QUEUES_END_AT + 8;
const UNIT_COUNT_AT = QUEUE_COUNT_AT + 8;
const SLOT_CRC_AT = UNIT_COUNT_AT + 8;

const INDEX_SLOT_AT = 2304;
/** "FLI1". */
const INDEX_SLOT_MAGIC = 0x464c4931;
/** Digits of an index file's name. */
const INDEX_NAME_DIGITS = 17;
const INDEX_LONGS_AT = INDEX_SLOT_AT + 8;
const INDEX_SLOT_CRC_AT = INDEX_LONGS_AT + 6 * 8;

/** Counts of {@linkcode Watermarks} that tell nothing. */
export const UNCOUNTED = { queueCount: -1, unitCount: -1 } as const;

/** RocketMQ's six longs. */
export type CheckpointLongs = Readonly<Record<(typeof LONG_NAMES)[number], number>>;

/** What our slot says; it is true even after a power cut. */
export interface Watermarks {
  /** The log is durable below. */
  readonly logEnd: PhysicalOffset;
  /** Every record below has its units, durable. A record starts here, or the log ends. */
  readonly queuesEnd: PhysicalOffset;
  /**
   * How many queues then existed, and the sum of their ends: a lost queue is noticed. {@linkcode UNCOUNTED}
   * while some are being deleted.
   */
  readonly queueCount: number;
  readonly unitCount: number;
  /** Of the key index; `undefined` if nobody knows. */
  readonly index?: IndexMark | undefined;
}

/** How far the index of the keys is durable. */
export interface IndexMark {
  /** The keys of every record below are in it. A record starts here, or the log ends. */
  readonly end: PhysicalOffset;
  /** How many files it had, and the name of the newest one; "" without one. */
  readonly files: number;
  readonly newest: string;
  /** Number of the next entry in the newest file, and store time of the last message in it, in ms. */
  readonly count: number;
  readonly endTimestamp: number;
  /** The same time of the newest full file: `indexMsgTimestamp`. */
  readonly fullTimestamp: number;
}

export interface Checkpoint {
  readonly longs: CheckpointLongs;
  /** `undefined` if there is none, if it is damaged, or if a Java store was here since. */
  readonly watermarks: Watermarks | undefined;
}

export const NO_CHECKPOINT: Checkpoint = {
  longs: {
    physicMsgTimestamp: 0,
    logicsMsgTimestamp: 0,
    indexMsgTimestamp: 0,
    masterFlushedOffset: 0,
    confirmPhyOffset: 0,
    logicsPhysicalOffset: 0,
  },
  watermarks: undefined,
};

/** Reads the file; one that is missing or too short says nothing. */
export async function readCheckpoint(fileSystem: FileSystem, path: string): Promise<Checkpoint> {
  const bytes = Buffer.alloc(CHECKPOINT_BYTES);
  try {
    if ((await fileSystem.stat(path)).kind !== "file") {
      throw new StoreError("STORE_IO", `Cannot read ${path}: it is no file`, { path });
    }
    const file = await fileSystem.open(path, "read");
    try {
      if ((await readFully(file, bytes, 0)) < LONGS_BYTES) return NO_CHECKPOINT;
    } finally {
      await file.close();
    }
  } catch (cause) {
    if ((cause as { code?: string }).code === "ENOENT") return NO_CHECKPOINT;
    if (cause instanceof StoreError) throw cause;
    throw new StoreError("STORE_IO", `Cannot read ${path}`, { path, cause });
  }
  return decodeCheckpoint(bytes);
}

export function decodeCheckpoint(bytes: Buffer): Checkpoint {
  const longs: Record<string, number> = {};
  LONG_NAMES.forEach((name, i) => {
    longs[name] = readLong(bytes, i * 8);
  });
  return { longs: longs as CheckpointLongs, watermarks: decodeSlot(bytes) };
}

export function encodeCheckpoint(longs: CheckpointLongs, watermarks: Watermarks): Buffer {
  const bytes = Buffer.alloc(CHECKPOINT_BYTES);
  LONG_NAMES.forEach((name, i) => {
    bytes.writeBigInt64BE(BigInt(longs[name]), i * 8);
  });
  bytes.writeUInt32BE(SLOT_MAGIC, SLOT_AT);
  bytes.copy(bytes, COPY_AT, 0, LONGS_BYTES);
  bytes.writeBigInt64BE(BigInt(watermarks.logEnd), LOG_END_AT);
  bytes.writeBigInt64BE(BigInt(watermarks.queuesEnd), QUEUES_END_AT);
  bytes.writeBigInt64BE(BigInt(watermarks.queueCount), QUEUE_COUNT_AT);
  bytes.writeBigInt64BE(BigInt(watermarks.unitCount), UNIT_COUNT_AT);
  bytes.writeUInt32BE(crc32(bytes.subarray(SLOT_AT, SLOT_CRC_AT)), SLOT_CRC_AT);
  if (watermarks.index) encodeIndexSlot(bytes, watermarks.index);
  return bytes;
}

function encodeIndexSlot(bytes: Buffer, mark: IndexMark): void {
  const { end, files, newest, count, endTimestamp, fullTimestamp } = mark;
  bytes.writeUInt32BE(INDEX_SLOT_MAGIC, INDEX_SLOT_AT);
  // Names have 17 digits: more than a double holds.
  [end, files, newest, count, endTimestamp, fullTimestamp].forEach((value, i) => {
    bytes.writeBigInt64BE(BigInt(value), INDEX_LONGS_AT + i * 8);
  });
  const slot = bytes.subarray(INDEX_SLOT_AT, INDEX_SLOT_CRC_AT);
  bytes.writeUInt32BE(crc32(slot), INDEX_SLOT_CRC_AT);
}

function decodeIndexSlot(bytes: Buffer): IndexMark | undefined {
  const slot = bytes.subarray(INDEX_SLOT_AT, INDEX_SLOT_CRC_AT);
  if (bytes.readUInt32BE(INDEX_SLOT_AT) !== INDEX_SLOT_MAGIC) return undefined;
  if (bytes.readUInt32BE(INDEX_SLOT_CRC_AT) !== crc32(slot)) return undefined;
  const long = (i: number): number => readLong(bytes, INDEX_LONGS_AT + i * 8);
  const name = bytes.readBigInt64BE(INDEX_LONGS_AT + 16);
  const isPossible = [0, 1, 3, 4, 5].every((i) => long(i) >= 0) && name >= 0n;
  if (!isPossible || (name === 0n) !== (long(1) === 0)) return undefined;
  return {
    end: long(0),
    files: long(1),
    newest: name === 0n ? "" : String(name).padStart(INDEX_NAME_DIGITS, "0"),
    count: long(3),
    endTimestamp: long(4),
    fullTimestamp: long(5),
  };
}

/** Replaces the file. It survives a power cut once this resolves. */
export async function writeCheckpoint(
  fileSystem: FileSystem,
  { path, staging }: { readonly path: string; readonly staging: string },
  longs: CheckpointLongs,
  watermarks: Watermarks,
): Promise<void> {
  const content = encodeCheckpoint(longs, watermarks);
  try {
    await replaceFile(fileSystem, { staging, path, content });
  } catch (cause) {
    throw new StoreError("STORE_IO", `Cannot write ${path}`, { path, cause });
  }
}

function decodeSlot(bytes: Buffer): Watermarks | undefined {
  if (bytes.readUInt32BE(SLOT_AT) !== SLOT_MAGIC) return undefined;
  if (bytes.readUInt32BE(SLOT_CRC_AT) !== crc32(bytes.subarray(SLOT_AT, SLOT_CRC_AT))) {
    return undefined;
  }
  if (bytes.compare(bytes, 0, LONGS_BYTES, COPY_AT, COPY_AT + LONGS_BYTES) !== 0) return undefined;
  return {
    logEnd: readLong(bytes, LOG_END_AT),
    queuesEnd: readLong(bytes, QUEUES_END_AT),
    queueCount: readLong(bytes, QUEUE_COUNT_AT),
    unitCount: readLong(bytes, UNIT_COUNT_AT),
    index: decodeIndexSlot(bytes),
  };
}

/** A value that no double holds exactly can only be damage: it says nothing, as 0 does. */
function readLong(bytes: Buffer, at: number): number {
  const value = Number(bytes.readBigInt64BE(at));
  return Number.isSafeInteger(value) ? value : 0;
}
