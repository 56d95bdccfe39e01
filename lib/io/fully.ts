/**
 * The one loop that writes fully and the one that reads fully.
 *
 * A system call may move fewer bytes than it was given, or be interrupted before it moved any. Both
 * are no errors, and neither may reach a caller as success:
 *
 *     asked 100   took 7    -> goes on with bytes 7..99 at position + 7
 *                 EINTR     -> again, the same bytes; RETRIES_MAX times without progress at most
 *                 took 93   -> done
 *                 took 0    -> EIO: it would loop for ever
 *
 * A failed sync is never tried again: the kernel may have dropped the pages and call the second one
 * a success.
 *
 * @module
 */

import type { FileHandle } from "./file_system.ts";
import { hasCode, systemError } from "./system_error.ts";

/** Most bytes that Linux moves in one call, whatever it is given (`MAX_RW_COUNT`, include/linux/fs.h). */
export const BYTES_PER_CALL_MAX = 0x7ffff000;

/** Interrupted calls in a row, without a byte of progress, before the interruption is an error. */
const RETRIES_MAX = 16;

/**
 * Writes every byte of `buffers`, one after the other, from `position` on.
 *
 * Afterwards a process crash loses none of them; a power cut still can. After an error any prefix
 * of the bytes may have been written. The caller leaves the buffers unchanged until it settles.
 *
 * @param position Bytes from the start of the file.
 * @throws What the call failed with; `EIO` if a call takes no bytes.
 */
export async function writeFully(
  handle: FileHandle,
  buffers: readonly Uint8Array[],
  position: number,
): Promise<void> {
  const rest = new Remainder(buffers, position);
  while (rest.bytes > 0) {
    try {
      rest.took(await handle.pwritev(rest.part(), rest.position), "pwritev");
    } catch (error) {
      rest.retryOrThrow(error);
    }
  }
}

/** {@linkcode writeFully} at once on the calling thread: see {@linkcode FileHandle.pwritevNow}. */
export function writeFullyNow(
  handle: FileHandle,
  buffers: readonly Uint8Array[],
  position: number,
): void {
  const rest = new Remainder(buffers, position);
  while (rest.bytes > 0) {
    try {
      rest.took(handle.pwritevNow(rest.part(), rest.position), "pwritev");
    } catch (error) {
      rest.retryOrThrow(error);
    }
  }
}

/**
 * Writes every byte of `buffers` and syncs them; with no bytes it only syncs.
 *
 * Once it resolves, these bytes and everything written to the file before the call survive a power
 * cut. After an error nothing is known: neither what was written nor what is durable.
 *
 * @param position Bytes from the start of the file.
 * @throws What the write or the sync failed with; `EIO` if a call takes no bytes.
 */
export async function commitAndForceFully(
  handle: FileHandle,
  buffers: readonly Uint8Array[],
  position: number,
): Promise<void> {
  const rest = new Remainder(buffers, position);
  if (rest.bytes === 0) return handle.fdatasync();
  while (rest.bytes > 0) {
    try {
      // Only the last part syncs: it covers those before it. A short count synced nothing, and
      // leaves bytes, so that there is another part.
      const count =
        rest.bytes > BYTES_PER_CALL_MAX
          ? await handle.pwritev(rest.part(), rest.position)
          : await handle.commitAndForce(rest.part(), rest.position);
      rest.took(count, "pwritev");
    } catch (error) {
      rest.retryOrThrow(error);
    }
  }
}

/**
 * Reads into `buffer` until it is full or the file ends.
 *
 * @param position Bytes from the start of the file.
 * @returns Bytes read: less than `buffer.length` only at the end of the file, 0 at or behind it.
 */
export async function readFully(
  handle: FileHandle,
  buffer: Uint8Array,
  position: number,
): Promise<number> {
  const rest = new Remainder([buffer], position);
  while (rest.bytes > 0) {
    try {
      const [part] = rest.part() as [Uint8Array];
      const count = await handle.pread(part, rest.position);
      if (count === 0) break;
      rest.took(count, "pread");
    } catch (error) {
      rest.retryOrThrow(error);
    }
  }
  return buffer.length - rest.bytes;
}

/** {@linkcode FileHandle.preadEachIfCached}, call by call. */
export function preadEachIfCached(
  handle: Pick<FileHandle, "preadIfCached">,
  buffer: Uint8Array,
  ranges: Float64Array,
): number {
  let at = 0;
  for (let i = 0; i < ranges.length; i += 2) {
    const part = buffer.subarray(at, at + (ranges[i + 1] as number));
    if (handle.preadIfCached(part, ranges[i] as number) !== part.length) return i / 2;
    at += part.length;
  }
  return ranges.length / 2;
}

/** Bytes of all the buffers together. */
export function totalBytes(buffers: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const buffer of buffers) bytes += buffer.length;
  return bytes;
}

/**
 * Views of at most `bytesMax` bytes in at most `buffersMax` buffers, from byte `skip` on. Nothing
 * is copied, and buffers that are wanted whole are passed on as they are.
 */
export function partOf(
  buffers: readonly Uint8Array[],
  skip: number,
  bytesMax: number,
  buffersMax = Number.POSITIVE_INFINITY,
): readonly Uint8Array[] {
  const part: Uint8Array[] = [];
  let start = skip;
  let room = bytesMax;
  for (const buffer of buffers) {
    if (room === 0 || part.length === buffersMax) break;
    const length = Math.min(buffer.length - start, room);
    if (length > 0) {
      part.push(length === buffer.length ? buffer : buffer.subarray(start, start + length));
      room -= length;
    }
    start = Math.max(0, start - buffer.length);
  }
  return part;
}

/** What is left to move, and how often in a row it did not move. */
class Remainder {
  /** Bytes left. */
  bytes: number;
  /** Where they go, in bytes from the start of the file. */
  position: number;
  readonly #buffers: readonly Uint8Array[];
  #done = 0;
  #retries = 0;

  constructor(buffers: readonly Uint8Array[], position: number) {
    this.#buffers = buffers;
    this.bytes = totalBytes(buffers);
    this.position = position;
  }

  /** The buffers for the next call: all that is left, but never more than a call can take. */
  part(): readonly Uint8Array[] {
    if (this.#done === 0 && this.bytes <= BYTES_PER_CALL_MAX) return this.#buffers;
    return partOf(this.#buffers, this.#done, BYTES_PER_CALL_MAX);
  }

  took(count: number, syscall: string): void {
    if (!(count > 0 && count <= this.bytes)) {
      const detail = `moved ${count} of ${this.bytes} bytes at position ${this.position}`;
      throw systemError("EIO", syscall, undefined, detail);
    }
    this.#done += count;
    this.bytes -= count;
    this.position += count;
    this.#retries = 0;
  }

  retryOrThrow(error: unknown): void {
    const again = hasCode(error, "EINTR", "EAGAIN") && !/sync/.test(error.syscall);
    this.#retries += 1;
    if (!again || this.#retries > RETRIES_MAX) throw error;
  }
}
