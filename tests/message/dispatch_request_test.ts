import t from "tap";
import {
  type DispatchRequest,
  dispatchRequestFor,
  dispatchRequestOf,
} from "../../lib/message/dispatch_request.ts";
import type { Message } from "../../lib/message/message.ts";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import {
  DEFAULTS,
  encode,
  ORDER_PAID,
  ORDER_PAID_BYTES,
  PHYSICAL_OFFSET,
  QUEUE_OFFSET,
  STORE_TIMESTAMP,
} from "./samples.ts";

const LEVELS = DelayLevels.parse();

/** The request read from the bytes, after seeing that append would have noted the same. */
function request(message: Message): DispatchRequest {
  const record = prepareRecord(message, DEFAULTS);
  const read = dispatchRequestOf(encode(record), 0, LEVELS);
  const noted = dispatchRequestFor(record, QUEUE_OFFSET, PHYSICAL_OFFSET, STORE_TIMESTAMP, LEVELS);
  t.strictSame(noted, read);
  return read;
}

t.test("dispatchRequestOf() reads what queues and index need", async (t) => {
  const bytes = Buffer.concat([Buffer.alloc(3), ORDER_PAID_BYTES, Buffer.alloc(3)]);
  t.strictSame(dispatchRequestOf(bytes, 3, LEVELS), {
    topic: "TopicTest",
    queueId: 3,
    physicalOffset: PHYSICAL_OFFSET,
    size: 213,
    tagsCode: -934813832,
    storeTimestamp: STORE_TIMESTAMP,
    queueOffset: QUEUE_OFFSET,
    sysFlag: 0,
    keys: "order-1001",
    uniqKey: "C0A8010A1F4018B4AAC25ED7C9000000",
    tags: "refund",
    multiDispatch: undefined,
    batchSize: 1,
    propertiesText: ORDER_PAID_BYTES.toString("utf8", 110),
  });
});

t.test("dispatchRequestOf() reads V2 and IPv6 records", async (t) => {
  const topic = "t".repeat(200);
  const hosts = { bornHost: "[::1]:1", storeHost: "[::2]:2" };
  t.match(request({ ...ORDER_PAID, ...hosts, topic }), {
    topic,
    storeTimestamp: STORE_TIMESTAMP,
    keys: "order-1001",
  });
});

t.test("dispatchRequestOf() has tags code 0 without a tag", async (t) => {
  t.match(request({ topic: "T", body: Buffer.alloc(1) }), { tagsCode: 0, propertiesText: "" });
});

t.test("dispatchRequestOf() has the time of delivery in the schedule topic", async (t) => {
  const code = (topic: string, DELAY: string) =>
    request({ topic, body: Buffer.alloc(1), tags: "TagA", properties: { DELAY } }).tagsCode;
  t.equal(code("SCHEDULE_TOPIC_XXXX", "3"), 1726740010123);
  t.equal(code("SCHEDULE_TOPIC_XXXX", "18"), STORE_TIMESTAMP + 7_200_000);
  t.equal(code("SCHEDULE_TOPIC_XXXX", "19"), STORE_TIMESTAMP + 7_200_000);
  t.equal(code("SCHEDULE_TOPIC_XXXX", "0"), 2598919);
  t.equal(code("SCHEDULE_TOPIC_XXXX", "-1"), 2598919);
  t.equal(code("SCHEDULE_TOPIC_XXXX", "soon"), 2598919);
  t.equal(code("T", "3"), 2598919);
});

t.test("dispatchRequestOf() reads further queues, if each has an offset", async (t) => {
  const multi = (INNER_MULTI_DISPATCH: string, INNER_MULTI_QUEUE_OFFSET: string) =>
    request({
      topic: "T",
      body: Buffer.alloc(1),
      properties: { INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET },
    }).multiDispatch;
  t.strictSame(multi("%LMQ%a,%LMQ%b", "0,17"), { queues: ["%LMQ%a", "%LMQ%b"], offsets: [0, 17] });
  t.strictSame(multi("%LMQ%a", "5"), { queues: ["%LMQ%a"], offsets: [5] });
  for (const offsets of ["0", "0,", ",0", "0,x", "0,-1", "0,9007199254740993", "0,1,2"]) {
    t.equal(multi("%LMQ%a,%LMQ%b", offsets), undefined, offsets);
  }
  t.equal(multi("%LMQ%a", ""), undefined);
  t.equal(multi("%LMQ%a", "281474976710657"), undefined, "no queue is so long");
  t.strictSame(
    multi(`..,%LMQ%a,.,a/b,\0,%LMQ%${"x".repeat(255)},`, "0,1,2,3,4,5,6"),
    { queues: ["%LMQ%a"], offsets: [1] },
    "what is no name of a directory is left out",
  );
});

t.test("dispatchRequestOf() counts the messages of an inner batch", async (t) => {
  const size = (properties: Record<string, string>) =>
    request({ topic: "T", body: Buffer.alloc(1), properties }).batchSize;
  t.equal(size({ INNER_NUM: "5", INNER_BASE: "100" }), 5);
  t.equal(size({ INNER_NUM: "5" }), 1);
});
