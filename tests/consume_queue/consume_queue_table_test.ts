import t from "tap";
import { ConsumeQueue } from "../../lib/consume_queue/consume_queue.ts";
import { ConsumeQueueTable } from "../../lib/consume_queue/consume_queue_table.ts";
import { QueueRig } from "../support/queue_rig.ts";

t.test("ConsumeQueueTable.find() makes no queue", async (t) => {
  const table = new ConsumeQueueTable(new QueueRig(t).context);
  t.equal(table.find("T", 0), undefined);
  t.strictSame([...table], []);
  t.strictSame([...table.topics()], []);
  t.strictSame(table.queueIds("T"), []);
});

t.test("ConsumeQueueTable.findOrCreate() makes each queue once, in memory only", async (t) => {
  const rig = new QueueRig(t);
  const table = new ConsumeQueueTable(rig.context);
  const queue = table.findOrCreate("T", 3);
  t.match(queue, { topic: "T", queueId: 3, min: 0, max: 0, exists: false });
  t.equal(table.findOrCreate("T", 3), queue);
  t.equal(table.find("T", 3), queue);
  t.not(table.findOrCreate("T", 4), queue);
  t.not(table.findOrCreate("t", 3), queue);
  t.equal(rig.fs.calls.length, 0);
});

t.test("ConsumeQueueTable keeps what is added until it is deleted", async (t) => {
  const { context } = new QueueRig(t);
  const table = new ConsumeQueueTable(context);
  const queues = [10, 2, 1].map((id) => new ConsumeQueue(context, "A", id));
  for (const queue of queues) table.add(queue);
  table.add(new ConsumeQueue(context, "B", 0));
  t.strictSame(table.queueIds("A"), [1, 2, 10]);
  t.strictSame([...table.topics()], ["A", "B"]);
  t.equal([...table].length, 4);
  for (const queue of queues) table.delete(queue);
  table.delete(new ConsumeQueue(context, "none", 0));
  t.strictSame([...table.topics()], ["B"]);
  t.equal(table.find("A", 1), undefined);
});
