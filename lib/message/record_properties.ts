/**
 * Properties that the store itself adds to a record that is ready otherwise.
 *
 * @module
 */

import { encodeUtf8, isAscii } from "./java_string.ts";
import type { OutgoingRecord } from "./outgoing_record.ts";
import { encodeProperties, parseProperties } from "./properties.ts";
import { PROPERTY_CRC_SIZE } from "./property_crc.ts";

/** The record with one property more. */
export function withProperty(record: OutgoingRecord, name: string, value: string): OutgoingRecord {
  const properties = parseProperties(record.propertiesText);
  properties.set(name, value);
  const propertiesText = encodeProperties(properties);
  const propertiesBytes = isAscii(propertiesText) ? undefined : encodeUtf8(propertiesText);
  const propertiesSize =
    (propertiesBytes ?? propertiesText).length + (record.appendPropertyCrc ? PROPERTY_CRC_SIZE : 0);
  return {
    ...record,
    propertiesText,
    propertiesBytes,
    propertiesSize,
    size: record.size - record.propertiesSize + propertiesSize,
  };
}
