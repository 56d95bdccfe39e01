/**
 * Cuts the log: what lies behind its end is saved as evidence if it is anything, and then zero, so
 * that no old record can ever line up with a new one.
 *
 * @module
 */

import { moveFile, removeFile } from "../io/directory.ts";
import { readFully, writeFully } from "../io/fully.ts";
import type { Segment } from "../segment/segment.ts";
import type { SegmentQueue } from "../segment/segment_queue.ts";
import { type FilePosition, OS_PAGE_SIZE, type PhysicalOffset } from "../units.ts";
import {
  type EvidenceContext,
  evidencePath,
  isZero,
  PIECE_BYTES,
  saveEvidence,
  withSegment,
  ZEROS,
} from "./evidence.ts";

export interface TailCut {
  /** Bytes that were not zero, from the cut to the last of them, and whole files behind it. */
  readonly droppedBytes: number;
  /** Where they are now. */
  readonly evidence: readonly string[];
  /** Files behind the end, which held nothing. */
  readonly removedFiles: readonly string[];
}

export interface CutContext extends EvidenceContext {
  /** The log was closed here: the blocks of its last file tell where it ends. */
  readonly trustBlocks: boolean;
  /** It is known that there are only zeros behind the end. */
  readonly isZero: boolean;
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
    const stale = context.isZero ? 0 : await lastNonZero(context, segment, 0, false);
    await context.files.close(segment.path);
    if (stale === 0) {
      await removeFile(context.fileSystem, segment.path);
      removedFiles.push(segment.path);
    } else {
      const path = await evidencePath(context, "cut", segment.start);
      await moveFile(context.fileSystem, segment.path, path);
      evidence.push(path);
      droppedBytes += stale;
    }
  }
  const last = segments.find(end);
  if (last && !context.isZero) {
    const position = end - last.start;
    const staleEnd = await lastNonZero(context, last, position, context.trustBlocks);
    if (staleEnd > position) {
      evidence.push(await saveEvidence(context, "cut", last, position, staleEnd));
      await zero(context, last, position, staleEnd);
      droppedBytes += staleEnd - position;
    }
  }
  return { droppedBytes, evidence: evidence.reverse(), removedFiles: removedFiles.reverse() };
}

/**
 * Whether the file is zero from `from` on.
 *
 * @param trustBlocks The log was closed here: the blocks of the file tell where it ends.
 */
export async function isZeroFrom(
  context: Pick<CutContext, "files">,
  segment: Segment,
  from: FilePosition,
  trustBlocks: boolean,
): Promise<boolean> {
  return (await findNonZero(context, segment, from, trustBlocks, "first")) === from;
}

/** One behind the last byte of the file, from `from` on, that is not zero; `from` if there is none. */
async function lastNonZero(
  context: Pick<CutContext, "files">,
  segment: Segment,
  from: FilePosition,
  trustBlocks: boolean,
): Promise<FilePosition> {
  return findNonZero(context, segment, from, trustBlocks, "last");
}

/** @returns One behind it, or `from`. With `"first"` any one will do. */
async function findNonZero(
  context: Pick<CutContext, "files">,
  segment: Segment,
  from: FilePosition,
  trustBlocks: boolean,
  which: "first" | "last",
): Promise<FilePosition> {
  return withSegment(context, segment, async (file) => {
    const { allocatedBytes } = await file.stat();
    // A log that we closed has no holes before its end: without blocks behind it there is nothing.
    const page = Math.ceil(from / OS_PAGE_SIZE) * OS_PAGE_SIZE;
    const isHole = trustBlocks && allocatedBytes <= page;
    const to = isHole ? Math.min(page, segment.size) : segment.size;
    const bytes = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, Math.max(to - from, 0)));
    let found = from;
    for (let position = from; position < to; position += bytes.length) {
      // A hole is zero without being read.
      const data = await file.nextData(position);
      if (data >= to) break;
      position = Math.max(position, data);
      const got = await readFully(file, bytes.subarray(0, to - position), position);
      if (isZero(bytes.subarray(0, got))) continue;
      for (let at = got - 1; at >= 0; at--) {
        if (bytes[at] === 0) continue;
        found = position + at + 1;
        break;
      }
      if (which === "first") break;
    }
    return found;
  });
}

async function zero(
  context: CutContext,
  segment: Segment,
  from: number,
  to: number,
): Promise<void> {
  await withSegment(context, segment, async (file) => {
    for (let position = from; position < to; position += PIECE_BYTES) {
      await writeFully(file, [ZEROS.subarray(0, to - position)], position);
    }
    await file.fdatasync();
  });
}
