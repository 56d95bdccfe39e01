/**
 * A reader on a commit log and its queues, without a store around them.
 *
 * @module
 */

import { join } from "node:path";
import type { Test } from "tap";
import type { ConsumeQueue } from "../../lib/consume_queue/consume_queue.ts";
import { ConsumeQueueTable } from "../../lib/consume_queue/consume_queue_table.ts";
import { Dispatcher } from "../../lib/dispatch/dispatcher.ts";
import type { Message } from "../../lib/message/message.ts";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import type { StoreOptions } from "../../lib/options.ts";
import { type GetRequest, type GetResult, MessageReader } from "../../lib/read/message_reader.ts";
import { DEFAULTS, LogRig } from "./log_rig.ts";
import { plainQueue } from "./queue_rig.ts";

/** Everything counts as recent. */
const MUCH_MEMORY = 2 ** 40;

export class ReadRig extends LogRig {
  readonly queues: ConsumeQueueTable;
  readonly dispatcher: Dispatcher;
  readonly reader: MessageReader;
  #noted = 0;

  /**
   * @param memoryBytes What the machine has.
   * @param remembers The log reads from memory what was put not long ago; else as one that was opened
   *   after that.
   */
  constructor(t: Test, options: StoreOptions = {}, memoryBytes = MUCH_MEMORY, remembers = false) {
    super(t, { mappedFileSizeCommitLog: 64 * 1024, ...options });
    if (!remembers) {
      const { log } = this;
      log.readEach = async (start, ranges, length) => {
        const bytes = Buffer.alloc(length);
        const isRead = await log.segments.readEach(start, ranges, bytes);
        return isRead ? { bytes, recent: false } : undefined;
      };
    }
    this.queues = new ConsumeQueueTable({
      fileSystem: this.fs,
      files: this.files,
      directory: join(this.directory, "../consumequeue"),
      staging: this.staging,
      fileSize: this.options.mappedFileSizeConsumeQueue,
    });
    this.dispatcher = new Dispatcher(
      {
        queues: this.queues,
        multiDispatch: true,
        arrived: () => undefined,
        failed: (error) => t.fail(error.message),
      },
      { offset: 0, end: 0, storeTimestamp: 0 },
    );
    this.reader = new MessageReader({
      log: this.log,
      queues: this.queues,
      options: this.options,
      visible: () => this.dispatcher.last.end,
      memoryBytes,
    });
  }

  /** Puts a message that is readable afterwards. */
  async message(message: Partial<Message> = {}): Promise<void> {
    const { topic = "T", queueId = 0 } = message;
    const queue = plainQueue(this.queues, topic, queueId);
    await this.put(prepareRecord({ topic, body: Buffer.from("b"), ...message }, DEFAULTS), queue);
  }

  /** Puts so many messages, whose bodies are their numbers, and makes them readable. */
  async messages(count: number, more: Partial<Message> = {}): Promise<void> {
    for (let i = 0; i < count; i++) await this.message({ body: Buffer.from(`${i}`), ...more });
    await this.dispatched();
  }

  async dispatched(): Promise<void> {
    await this.log.pipeline.flush();
    while (this.#noted < this.requests.length) {
      const request = this.requests[this.#noted++];
      if (request) this.dispatcher.note(request);
    }
    this.dispatcher.advance(this.log.pipeline.flushed);
  }

  get queueT(): ConsumeQueue {
    return plainQueue(this.queues, "T", 0);
  }

  async get(request: Partial<GetRequest> & { readonly offset: number }): Promise<GetResult> {
    return this.reader.get({ topic: "T", ...request });
  }
}
