/**
 * A message as JSON, with the fields of RocketMQ's `MessageExt`.
 *
 * @module
 */

import { createHash } from "node:crypto";
import type { StoredMessage } from "../lib/mod.ts";
import { exactJson, type Json } from "./json.ts";

/** Larger bodies are told by their hash. */
const BODY_BYTES_MAX = 64;

/**
 * @param bodyBytesMax A body of at most so many bytes is given in base64, a larger one by its
 *   SHA-256.
 */
export function messageJson(
  message: StoredMessage,
  bodyBytesMax = BODY_BYTES_MAX,
): Record<string, Json> {
  const { body, properties } = message;
  return {
    offset: message.physicalOffset,
    size: message.size,
    topic: message.topic,
    queueId: message.queueId,
    queueOffset: message.queueOffset,
    msgId: message.messageId,
    flag: message.flag,
    sysFlag: message.sysFlag,
    bodyCRC: message.bodyCrc,
    bornTimestamp: exactJson(message.exactBornTimestamp),
    bornHost: message.bornHost,
    storeTimestamp: message.storeTimestamp,
    storeHost: message.storeHost,
    reconsumeTimes: message.reconsumeTimes,
    preparedTransactionOffset: exactJson(message.exactPreparedTransactionOffset),
    properties:
      properties === undefined
        ? null
        : new Map([...properties].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))),
    bodyLength: body.length,
    ...(body.length <= bodyBytesMax
      ? { body: body.toString("base64") }
      : { bodySha256: sha256(body) }),
  };
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
