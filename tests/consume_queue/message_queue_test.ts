import t from "tap";
import { BatchQueue } from "../../lib/consume_queue/batch_queue.ts";
import { BATCH_UNIT_BYTES, batchMessages } from "../../lib/consume_queue/batch_unit.ts";
import { appendRecord, messagesIn } from "../../lib/consume_queue/message_queue.ts";
import { QueueRig } from "../support/queue_rig.ts";
import { plainRequest } from "../support/requests.ts";

t.test("messagesIn() and appendRecord() take no number that a unit cannot tell", async (t) => {
  const rig = new QueueRig(t);
  const batches = new BatchQueue({ ...rig.context, fileSize: BATCH_UNIT_BYTES * 20 }, "T", 0);
  const plain = rig.queue();
  for (const [sysFlag, batchSize, messages] of [
    [0, 5, 1],
    [0xc0, 5, 5],
    [0x80, 32_767, 32_767],
    [0xc0, 32_768, 1],
    [0xc0, 2 ** 31 - 1, 1],
    [0xc0, 0, 1],
    [0xc0, -3, 1],
  ] as const) {
    const request = plainRequest({ sysFlag, batchSize, size: 100 });
    t.equal(messagesIn(plain, request), 1);
    t.equal(messagesIn(batches, request), messages, `${batchSize}`);
    const { max } = batches;
    t.equal(appendRecord(batches, max, request), "appended");
    t.equal(batches.max, max + messages);
    t.equal(batchMessages(await batches.units(max, 1), 0), messages);
  }
  t.equal(appendRecord(plain, 0, plainRequest({ sysFlag: 0xc0, batchSize: 5 })), "appended");
  t.equal(plain.max, 1);
});
