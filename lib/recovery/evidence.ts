/**
 * Bytes that recovery takes out of the log, kept beside it: nothing is destroyed.
 *
 *     forcelog/cut-00000000000000012345-1700000000000     cut off behind the end, at that time in ms
 *     forcelog/hole-00000000000000012345-1700000000000    damaged, from the middle
 *
 * @module
 */

import { join } from "node:path";
import { StoreError } from "../errors.ts";
import { createFile } from "../io/directory.ts";
import type { FileHandle, FileSystem } from "../io/file_system.ts";
import { readFully, writeFully } from "../io/fully.ts";
import { hasCode } from "../io/system_error.ts";
import type { OpenFiles } from "../segment/open_files.ts";
import { type Segment, segmentName } from "../segment/segment.ts";
import type { FilePosition, PhysicalOffset } from "../units.ts";

/** What is read, copied or zeroed at once. */
export const PIECE_BYTES = 1024 * 1024;
export const ZEROS = Buffer.alloc(PIECE_BYTES);

/** Where and how evidence is kept. */
export interface EvidenceContext {
  readonly fileSystem: FileSystem;
  readonly files: OpenFiles;
  /** Its folder. */
  readonly own: string;
  /** Wall time in ms, for its name. */
  readonly now: number;
}

/** A free name for the bytes that lay at `offset`: older evidence is never replaced. */
export async function evidencePath(
  { fileSystem, own, now }: EvidenceContext,
  kind: "cut" | "hole",
  offset: PhysicalOffset,
): Promise<string> {
  const name = join(own, `${kind}-${segmentName(offset)}-${now}`);
  for (let number = 0; ; number++) {
    const path = number === 0 ? name : `${name}.${number}`;
    try {
      await fileSystem.stat(path);
    } catch (cause) {
      if (hasCode(cause, "ENOENT")) return path;
      throw new StoreError("STORE_IO", `Cannot look for ${path}`, { path, cause });
    }
  }
}

/**
 * Copies bytes of a segment. The copy survives a power cut once this resolves.
 *
 * @returns Its path.
 * @throws {StoreError} `STORE_IO` naming the segment.
 */
export async function saveEvidence(
  context: EvidenceContext,
  kind: "cut" | "hole",
  segment: Segment,
  from: FilePosition,
  to: FilePosition,
): Promise<string> {
  const path = await evidencePath(context, kind, segment.start + from);
  const { fileSystem, own } = context;
  const copy = (target: FileHandle): Promise<void> =>
    withSegment(context, segment, async (file) => {
      for (let position = from; position < to; position += PIECE_BYTES) {
        const bytes = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, to - position));
        const piece = bytes.subarray(0, await readFully(file, bytes, position));
        // The copy has its length already: what is zero stays a hole in it.
        if (!isZero(piece)) await writeFully(target, [piece], position - from);
      }
    });
  const file = { staging: own, path, size: to - from, fill: copy };
  try {
    const handle = await createFile(fileSystem, file);
    await handle.close();
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError("STORE_IO", `Cannot keep damaged bytes of ${segment.path} in ${path}`, {
      path,
      cause,
    });
  }
  return path;
}

/** @param bytes At most a piece. */
export function isZero(bytes: Buffer): boolean {
  return bytes.compare(ZEROS, 0, bytes.length) === 0;
}

/** @throws {StoreError} `STORE_IO` naming the segment. */
export async function withSegment<T>(
  { files }: Pick<EvidenceContext, "files">,
  { path }: Segment,
  action: (file: FileHandle) => Promise<T>,
): Promise<T> {
  try {
    return await files.use(path, action);
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError("STORE_IO", `Cannot mend ${path}`, { path, cause });
  }
}
