/**
 * Big-endian integers in bytes, 64-bit ones as plain numbers.
 *
 * The writers neither check nor allocate: the caller has made sure that the value fits and that
 * the bytes are there.
 *
 * @module
 */

/** 2^32. */
const HIGH = 4294967296;

/** Writes a signed or unsigned 32-bit integer. */
export function writeInt32(target: Uint8Array, at: number, value: number): void {
  target[at] = value >>> 24;
  target[at + 1] = value >>> 16;
  target[at + 2] = value >>> 8;
  target[at + 3] = value;
}

/** Writes a safe integer, negative ones as two's complement. */
export function writeInt64(target: Uint8Array, at: number, value: number): void {
  writeInt32(target, at, Math.floor(value / HIGH));
  writeInt32(target, at + 4, value >>> 0);
}

/** Memory that stays where it is for a view that is kept: a piece of the log has half as much. */
const KEPT_BYTES_MAX = 1024 * 1024;

let viewed: Uint8Array | undefined;
let view: DataView;
let viewedBefore: Uint8Array | undefined;
let viewBefore: DataView;

/**
 * A view of the bytes, for many reads or writes: V8 makes each of its calls a single load or store. Two
 * are kept, but those of much memory: who reads a queue looks at units and records in turn.
 */
export function viewOf(target: Uint8Array): DataView {
  if (target === viewed) return view;
  if (target === viewedBefore) return viewBefore;
  if (target.buffer.byteLength > KEPT_BYTES_MAX) {
    return new DataView(target.buffer, target.byteOffset, target.length);
  }
  viewedBefore = viewed;
  viewBefore = view;
  viewed = target;
  view = new DataView(target.buffer, target.byteOffset, target.length);
  return view;
}

/** {@linkcode writeInt64} into a view. */
export function setInt64(target: DataView, at: number, value: number): void {
  target.setInt32(at, Math.floor(value / HIGH));
  target.setUint32(at + 4, value >>> 0);
}

/** {@linkcode readInt64Rounded} of a view. */
export function getInt64Rounded(source: DataView, at: number): number {
  return source.getInt32(at) * HIGH + source.getUint32(at + 4);
}

/** Reads a signed 32-bit integer. */
export function readInt32(source: Uint8Array, at: number): number {
  return (source[at]! << 24) | (source[at + 1]! << 16) | (source[at + 2]! << 8) | source[at + 3]!;
}

/** Reads a signed 16-bit integer. */
export function readInt16(source: Uint8Array, at: number): number {
  return ((source[at]! << 24) >> 16) | source[at + 1]!;
}

/**
 * Reads a signed 64-bit integer as a double: exact if the result is a safe integer, and not a safe
 * integer if the value is not.
 */
export function readInt64Rounded(source: Uint8Array, at: number): number {
  return readInt32(source, at) * HIGH + (readInt32(source, at + 4) >>> 0);
}

/** Reads a signed 64-bit integer, exactly. */
export function readBigInt64(source: Uint8Array, at: number): bigint {
  return (BigInt(readInt32(source, at)) << 32n) | BigInt(readInt32(source, at + 4) >>> 0);
}

/**
 * Reads a signed 64-bit integer that must be a safe one.
 *
 * @param name What it is, for the error.
 * @throws {RangeError} If it is beyond ±(2^53 - 1). It is never rounded.
 */
export function readInt64(source: Uint8Array, at: number, name: string): number {
  const value = readInt64Rounded(source, at);
  if (Number.isSafeInteger(value)) return value;
  throw new RangeError(
    `Cannot read ${name} as a number: ${readBigInt64(source, at)} is beyond 2^53 - 1`,
  );
}
