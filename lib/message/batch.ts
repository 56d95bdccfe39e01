/**
 * The body of a client's batch request: its messages, one after the other (RocketMQ:
 * `MessageDecoder.encodeMessages`).
 *
 * | field | bytes | |
 * |---|---|---|
 * | TOTALSIZE | 4 | of the item, this field included: 22 + body + properties |
 * | MAGICCODE, BODYCRC | 4 + 4 | 0 |
 * | FLAG | 4 | |
 * | BODYLENGTH, BODY | 4, n | not compressed |
 * | PROPERTIESLENGTH, PROPERTIES | 2, n | i16; see `properties.ts` |
 *
 * @module
 */

import { INT32_MAX, INT32_MIN, integerOf, wrongType } from "./fields.ts";
import { readInt16, readInt32, writeInt32 } from "./int64.ts";
import { decodeUtf8, encodeUtf8 } from "./java_string.ts";
import type { BatchItem } from "./message.ts";
import { propertiesOfItem } from "./message_properties.ts";
import { PROPERTIES_SIZE_MAX } from "./record_layout.ts";

const TOTAL_SIZE_AT = 0;
const FLAG_AT = TOTAL_SIZE_AT + 4 + 4 + 4;
const BODY_LENGTH_AT = FLAG_AT + 4;
const BODY_AT = BODY_LENGTH_AT + 4;
const PROPERTIES_LENGTH_SIZE = 2;

/** Bytes of an item without body and properties. */
export const BATCH_ITEM_SIZE_MIN = BODY_AT + PROPERTIES_LENGTH_SIZE;

/**
 * The request body that a client makes of these messages.
 *
 * @throws {TypeError} If a field is not of its type.
 * @throws {RangeError} If an item's properties have more than 32767 bytes.
 */
export function encodeBatchBody(items: readonly BatchItem[]): Buffer {
  return Buffer.concat(items.map(encodeItem));
}

function encodeItem(item: BatchItem, index: number): Buffer {
  const { body } = item;
  if (!(body instanceof Uint8Array))
    throw wrongType(`messages[${index}].body`, "a Uint8Array", body);
  const properties = encodeUtf8(propertiesOfItem(item).text);
  if (properties.length > PROPERTIES_SIZE_MAX) {
    throw new RangeError(
      `Cannot encode item ${index} of a batch: its properties have ${properties.length} bytes, ` +
        `the most are ${PROPERTIES_SIZE_MAX}`,
    );
  }
  const bytes = Buffer.alloc(BATCH_ITEM_SIZE_MIN + body.length + properties.length);
  writeInt32(bytes, TOTAL_SIZE_AT, bytes.length);
  writeInt32(bytes, FLAG_AT, integerOf(item.flag, 0, "flag", INT32_MIN, INT32_MAX));
  writeInt32(bytes, BODY_LENGTH_AT, body.length);
  bytes.set(body, BODY_AT);
  bytes.writeInt16BE(properties.length, BODY_AT + body.length);
  bytes.set(properties, BODY_AT + body.length + PROPERTIES_LENGTH_SIZE);
  return bytes;
}

/**
 * The messages in a request body. Bodies are views of it.
 *
 * @throws {RangeError} If it is not a row of whole items; says which one, and where.
 */
export function decodeBatchBody(bytes: Uint8Array): BatchItem[] {
  const items: BatchItem[] = [];
  for (let start = 0; start < bytes.length; ) {
    const left = bytes.length - start;
    const broken = (what: string): RangeError =>
      new RangeError(
        `Cannot decode item ${items.length} of a batch at byte ${start} of ${bytes.length}: ` +
          what,
      );
    if (left < BATCH_ITEM_SIZE_MIN) {
      throw broken(`${left} bytes are left, the smallest item has ${BATCH_ITEM_SIZE_MIN}`);
    }
    const size = readInt32(bytes, start + TOTAL_SIZE_AT);
    if (size < BATCH_ITEM_SIZE_MIN || size > left) {
      throw broken(`TOTALSIZE is ${size}, with ${left} bytes left`);
    }
    const bodySize = readInt32(bytes, start + BODY_LENGTH_AT);
    if (bodySize < 0 || bodySize > size - BATCH_ITEM_SIZE_MIN) {
      throw broken(`BODYLENGTH is ${bodySize}, which does not fit TOTALSIZE ${size}`);
    }
    const bodyStart = start + BODY_AT;
    const bodyEnd = bodyStart + bodySize;
    const propertiesSize = readInt16(bytes, bodyEnd);
    if (propertiesSize !== size - BATCH_ITEM_SIZE_MIN - bodySize) {
      throw broken(`PROPERTIESLENGTH is ${propertiesSize}, which does not fit TOTALSIZE ${size}`);
    }
    items.push({
      body: bytes.subarray(bodyStart, bodyEnd),
      flag: readInt32(bytes, start + FLAG_AT),
      propertiesString: decodeUtf8(bytes, bodyEnd + PROPERTIES_LENGTH_SIZE, start + size),
    });
    start += size;
  }
  return items;
}
