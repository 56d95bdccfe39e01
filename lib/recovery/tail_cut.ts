/**
 * Cuts the log: what lies behind its end is saved as evidence if it is anything, and then zero, so
 * that no old record can ever line up with a new one.
 *
 * @module
 */

import { join } from "node:path";
import { StoreError } from "../errors.ts";
import { createFile, moveFile, removeFile } from "../io/directory.ts";
import type { FileHandle, FileSystem } from "../io/file_system.ts";
import { readFully, writeFully } from "../io/fully.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import { type Segment, segmentName } from "../segment/segment.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import { OS_PAGE_SIZE, type PhysicalOffset } from "../units.ts";

/** What is read, copied or zeroed at once. */
const PIECE_BYTES = 1024 * 1024;
const ZEROS = Buffer.alloc(PIECE_BYTES);

export interface TailCut {
  /** Bytes that were not zero, from the cut to the last of them, and whole files behind it. */
  readonly droppedBytes: number;
  /** Where they are now. */
  readonly evidence: readonly string[];
  /** Files behind the end, which held nothing. */
  readonly removedFiles: readonly string[];
}

export interface CutContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  /** Where evidence goes. */
  readonly own: string;
  /** The log was closed here: the blocks of its last file tell where it ends. */
  readonly trustBlocks: boolean;
  /** Wall time in ms, for the names of evidence. */
  readonly now: number;
}

/** Makes `end` the end of the log on disk. It survives a power cut once this resolves. */
export async function cutTail(
  segments: SegmentQueue,
  end: PhysicalOffset,
  context: CutContext,
): Promise<TailCut> {
  const evidence: string[] = [];
  const removedFiles: string[] = [];
  let droppedBytes = 0;
  // From the back: if this is cut short, what is left is still a log without a hole. A file that
  // starts at the end stays: without it RocketMQ would go on at the blank record before it.
  for (const segment of segments.dropFrom(end + 1).reverse()) {
    const stale = await lastNonZero(context, segment, 0);
    await context.files.close(segment.path);
    if (stale === 0) {
      await removeFile(context.fileSystem, segment.path);
      removedFiles.push(segment.path);
    } else {
      const path = evidencePath(context, segment.start);
      await moveFile(context.fileSystem, segment.path, path);
      evidence.push(path);
      droppedBytes += stale;
    }
  }
  const last = segments.find(end);
  if (last) {
    const position = end - last.start;
    const staleEnd = await lastNonZero(context, last, position);
    if (staleEnd > position) {
      evidence.push(await save(context, last, position, staleEnd));
      await zero(context, last, position, staleEnd);
      droppedBytes += staleEnd - position;
    }
  }
  return { droppedBytes, evidence: evidence.reverse(), removedFiles: removedFiles.reverse() };
}

function evidencePath({ own, now }: CutContext, offset: PhysicalOffset): string {
  return join(own, `cut-${segmentName(offset)}-${now}`);
}

/** One behind the last byte of the file, from `from` on, that is not zero; `from` if there is none. */
async function lastNonZero(context: CutContext, segment: Segment, from: number): Promise<number> {
  return withFile(context, segment, async (file) => {
    const { allocatedBytes } = await file.stat();
    // A log that we closed has no holes before its end: without blocks behind it there is nothing.
    const page = Math.ceil(from / OS_PAGE_SIZE) * OS_PAGE_SIZE;
    const isHole = context.trustBlocks && allocatedBytes <= page;
    const to = isHole ? Math.min(page, segment.size) : segment.size;
    const bytes = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, Math.max(to - from, 0)));
    let found = from;
    for (let position = from; position < to; position += bytes.length) {
      const got = await readFully(file, bytes.subarray(0, to - position), position);
      if (bytes.compare(ZEROS, 0, got, 0, got) === 0) continue;
      for (let at = got - 1; at >= 0; at--) {
        if (bytes[at] === 0) continue;
        found = position + at + 1;
        break;
      }
    }
    return found;
  });
}

async function save(
  context: CutContext,
  segment: Segment,
  from: number,
  to: number,
): Promise<string> {
  const path = evidencePath(context, segment.start + from);
  const { fileSystem, own } = context;
  const copy = (target: FileHandle): Promise<void> =>
    withFile(context, segment, async (file) => {
      for (let position = from; position < to; position += PIECE_BYTES) {
        const bytes = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, to - position));
        const got = await readFully(file, bytes, position);
        await writeFully(target, [bytes.subarray(0, got)], position - from);
      }
    });
  const handle = await createFile(fileSystem, { staging: own, path, size: to - from, fill: copy });
  await handle.close();
  return path;
}

async function zero(
  context: CutContext,
  segment: Segment,
  from: number,
  to: number,
): Promise<void> {
  await withFile(context, segment, async (file) => {
    for (let position = from; position < to; position += PIECE_BYTES) {
      await writeFully(file, [ZEROS.subarray(0, to - position)], position);
    }
    await file.fdatasync();
  });
}

async function withFile<T>(
  { files }: CutContext,
  segment: Segment,
  action: (file: FileHandle) => Promise<T>,
): Promise<T> {
  try {
    return await files.use(segment.path, action);
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError("STORE_IO", `Cannot cut ${segment.path}`, { path: segment.path, cause });
  }
}
