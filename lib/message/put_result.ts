/**
 * What a put tells about the message that it stored.
 *
 * @module
 */

import type { PhysicalOffset, QueueOffset } from "../units.ts";
import { messageIdOf } from "./message_id.ts";
import type { OutgoingRecord } from "./outgoing_record.ts";

/** Where a message, or a batch, was stored. RocketMQ: `AppendMessageResult`. */
export class PutResult {
  /** Always `"PUT_OK"`: anything else rejects with a `PutError`. */
  readonly status = "PUT_OK";
  readonly topic: string;
  readonly queueId: number;
  /** Of the (first) message, in its queue. */
  readonly queueOffset: QueueOffset;
  /** Of the (first) record, in bytes from the start of the log. */
  readonly physicalOffset: PhysicalOffset;
  /** Bytes of the record, or of all records of the batch. */
  readonly size: number;
  /** Wall time of the append in ms; never lower than that of the record before. */
  readonly storeTimestamp: number;
  readonly #records: readonly OutgoingRecord[];
  #messageId: string | undefined;

  constructor(
    records: readonly OutgoingRecord[],
    size: number,
    place: {
      readonly queueOffset: QueueOffset;
      readonly physicalOffset: PhysicalOffset;
      readonly storeTimestamp: number;
    },
  ) {
    const { topic, queueId } = records[0] as OutgoingRecord;
    this.topic = topic;
    this.queueId = queueId;
    this.queueOffset = place.queueOffset;
    this.physicalOffset = place.physicalOffset;
    this.size = size;
    this.storeTimestamp = place.storeTimestamp;
    this.#records = records;
  }

  /** Messages stored: 1, or the members of the batch. */
  get messageCount(): number {
    return messagesOf(this.#records);
  }

  /** RocketMQ's offset message id; of a batch the ids of its members, joined by commas. */
  get messageId(): string {
    if (this.#messageId === undefined) {
      let offset = this.physicalOffset;
      this.#messageId = this.#records
        .map((record) => {
          const id = messageIdOf(record.storeHost.bytes, offset);
          offset += record.size;
          return id;
        })
        .join(",");
    }
    return this.#messageId;
  }
}

/** Messages in all records. */
export function messagesOf(records: readonly OutgoingRecord[]): number {
  let messages = 0;
  for (const record of records) messages += record.messages;
  return messages;
}
