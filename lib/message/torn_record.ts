/**
 * Records that a power cut tore where no checksum looks: without a CRC of its own a record's topic
 * and properties have none. What a device did not write of a new file reads as zeros, sector by
 * sector, and no producer ends a text in zeros.
 *
 * @module
 */

import { readInt16 } from "./int64.ts";
import { claimedCrc } from "./property_crc.ts";
import {
  PROPERTIES_LENGTH_SIZE,
  readTotalSize,
  readVersion,
  topicLengthAt,
} from "./record_layout.ts";

/** What a device writes as a whole, in bytes. */
const SECTOR_BYTES = 512;

/**
 * Whether all that one sector holds of a record's topic, or of its properties, is zero.
 *
 * @param bytes Where the record lies, from `start` on; `checkRecord` said that it is whole.
 * @param position Where in its file it begins, in bytes.
 */
export function isTornRecord(bytes: Buffer, start: number, position: number): boolean {
  const end = start + readTotalSize(bytes, start);
  const lengthAt = start + topicLengthAt(bytes, start);
  const version = readVersion(bytes, start);
  const topicAt = lengthAt + version;
  const topicSize = version === 1 ? (bytes[lengthAt] as number) : readInt16(bytes, lengthAt);
  const propertiesAt = topicAt + topicSize + PROPERTIES_LENGTH_SIZE;
  if (claimedCrc(bytes, propertiesAt, end) !== undefined) return false;
  const shift = position - start;
  return (
    hasZeroSector(bytes, topicAt, topicAt + topicSize, shift) ||
    hasZeroSector(bytes, propertiesAt, end, shift)
  );
}

/** @param shift From a place in `bytes` to the one in the file. */
function hasZeroSector(bytes: Buffer, start: number, end: number, shift: number): boolean {
  for (let from = start; from < end; ) {
    const to = Math.min(from + SECTOR_BYTES - ((from + shift) % SECTOR_BYTES), end);
    let at = from;
    while (at < to && bytes[at] === 0) at++;
    if (at === to) return true;
    from = to;
  }
  return false;
}
