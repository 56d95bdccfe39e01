import t, { type Test } from "tap";
import { ConsumeQueueTable } from "../../lib/consume_queue/consume_queue_table.ts";
import type { Arrival } from "../../lib/dispatch/arrivals.ts";
import { Dispatcher, queuesOf } from "../../lib/dispatch/dispatcher.ts";
import type { StoreError } from "../../lib/errors.ts";
import type { DispatchRequest } from "../../lib/message/dispatch_request.ts";
import {
  TRANSACTION_PREPARED_TYPE,
  TRANSACTION_ROLLBACK_TYPE,
} from "../../lib/message/sys_flag.ts";
import { offsets, plainQueue, QueueRig } from "../support/queue_rig.ts";
import { plainRequest } from "../support/requests.ts";

/** Record n lies at n × 100. */
function request(n: number, queueOffset: number, more: Partial<DispatchRequest> = {}) {
  return plainRequest({
    physicalOffset: n * 100,
    tagsCode: n,
    storeTimestamp: 1000 + n,
    queueOffset,
    ...more,
  });
}

function setUp(t: Test, multiDispatch = false) {
  const rig = new QueueRig(t);
  const queues = new ConsumeQueueTable(rig.context);
  const arrivals: Arrival[] = [];
  const failures: StoreError[] = [];
  const dispatcher = new Dispatcher(
    {
      queues,
      multiDispatch,
      arrived: (topic, queueId, offset, { tagsCode, storeTimestamp }) =>
        arrivals.push({ topic, queueId, logicOffset: offset + 1, tagsCode, storeTimestamp }),
      failed: (error) => failures.push(error),
    },
    { offset: 0, end: 0, storeTimestamp: 0 },
  );
  return { queues, arrivals, failures, dispatcher };
}

t.test(
  "Dispatcher.advance() dispatches what ends at the visible offset, and no more",
  async (t) => {
    const { queues, arrivals, dispatcher } = setUp(t);
    for (let n = 0; n < 3; n++) dispatcher.note(request(n, n));
    const max = () => queues.find("T", 0)?.max ?? 0;
    dispatcher.advance(99);
    t.equal(queues.find("T", 0), undefined);
    dispatcher.advance(100);
    t.equal(max(), 1);
    t.strictSame(dispatcher.last, { offset: 0, end: 100, storeTimestamp: 1000 });
    dispatcher.advance(299);
    t.equal(max(), 2);
    dispatcher.advance(50);
    t.equal(max(), 2, "not backwards");
    dispatcher.advance(1000);
    t.equal(max(), 3);
    t.strictSame(dispatcher.last, { offset: 200, end: 300, storeTimestamp: 1002 });
    t.strictSame(
      arrivals.map(({ logicOffset, tagsCode, storeTimestamp }) => [
        logicOffset,
        tagsCode,
        storeTimestamp,
      ]),
      [
        [1, 0, 1000],
        [2, 1, 1001],
        [3, 2, 1002],
      ],
      "the new end of the queue, in order",
    );
  },
);

t.test("Dispatcher gives each queue its own units", async (t) => {
  const { queues, dispatcher } = setUp(t);
  dispatcher.note(request(0, 0));
  dispatcher.note(request(1, 0, { queueId: 1 }));
  dispatcher.note(request(2, 0, { topic: "U" }));
  dispatcher.note(request(3, 1));
  dispatcher.advance(400);
  for (const [topic, id, found] of [
    ["T", 0, [0, 300]],
    ["T", 1, [100]],
    ["U", 0, [200]],
  ] as const) {
    t.strictSame(await offsets(plainQueue(queues, topic, id)), found);
  }
});

t.test("Dispatcher gives no unit to a prepared or rolled back record, but passes it", async (t) => {
  const { queues, arrivals, dispatcher } = setUp(t);
  dispatcher.note(request(0, 0, { sysFlag: TRANSACTION_PREPARED_TYPE }));
  dispatcher.note(request(1, 0, { sysFlag: TRANSACTION_ROLLBACK_TYPE }));
  dispatcher.advance(200);
  t.strictSame([...queues], []);
  t.strictSame(arrivals, []);
  t.equal(dispatcher.last.end, 200);
});

t.test("Dispatcher gives a record that has its unit no second one", async (t) => {
  const { queues, dispatcher, failures } = setUp(t);
  const queue = plainQueue(queues, "T", 0);
  for (let n = 0; n < 3; n++) queue.append(n, n * 100, 100, n);
  for (let n = 0; n < 4; n++) dispatcher.note(request(n, n));
  dispatcher.advance(400);
  t.strictSame(await offsets(queue), [0, 100, 200, 300]);
  t.strictSame(failures, []);
});

t.test("Dispatcher starts a new queue at its first message's offset", async (t) => {
  const { queues, dispatcher, failures } = setUp(t);
  dispatcher.note(request(0, 7));
  dispatcher.advance(100);
  t.match(queues.find("T", 0), { min: 7, max: 8 });
  t.strictSame(failures, []);
});

t.test("Dispatcher stops for good at a gap, and says where", async (t) => {
  const { queues, arrivals, failures, dispatcher } = setUp(t);
  dispatcher.note(request(0, 0));
  dispatcher.note(request(1, 5));
  dispatcher.note(request(2, 0, { topic: "U" }));
  dispatcher.advance(300);
  t.match(failures, [{ code: "STORE_QUEUE_DAMAGED", offset: 100 }]);
  t.match(failures[0]?.message, /record at 100 as message 5 of queue T\/0: the queue ends at 1/);
  t.equal(dispatcher.failure, failures[0]);
  t.equal(dispatcher.last.end, 100, "nothing behind it is passed");
  t.equal(queues.find("U", 0), undefined);
  t.equal(arrivals.length, 1);
  dispatcher.advance(1000);
  t.equal(failures.length, 1, "reported once");
  t.equal(dispatcher.last.end, 100);
});

t.test("Dispatcher gives a record its light queues, if they are built", async (t) => {
  const multiDispatch = { queues: ["%LMQ%a", "a/b", "%LMQ%c"], offsets: [0, 3, 4] };
  const light = request(0, 2, { multiDispatch });
  t.strictSame(queuesOf(light, false), [["T", 0, 2]]);
  t.strictSame(queuesOf(light, true), [
    ["T", 0, 2],
    ["%LMQ%a", 0, 0],
    ["%LMQ%c", 0, 4],
  ]);
  const { queues, arrivals, dispatcher } = setUp(t, true);
  dispatcher.note(light);
  dispatcher.advance(100);
  t.strictSame(
    arrivals.map(({ topic, queueId, logicOffset }) => [topic, queueId, logicOffset]),
    [
      ["T", 0, 3],
      ["%LMQ%a", 0, 1],
      ["%LMQ%c", 0, 5],
    ],
  );
  t.strictSame(await offsets(plainQueue(queues, "%LMQ%c", 0)), [0]);
});

t.test("Dispatcher keeps its order through thousands of records", async (t) => {
  const { queues, arrivals, dispatcher } = setUp(t);
  let noted = 0;
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < 150; i++, noted++) dispatcher.note(request(noted, noted));
    dispatcher.advance(noted * 60);
  }
  dispatcher.advance(noted * 100);
  t.equal(queues.find("T", 0)?.max, noted);
  t.ok(arrivals.every(({ logicOffset }, i) => logicOffset === i + 1));
});
