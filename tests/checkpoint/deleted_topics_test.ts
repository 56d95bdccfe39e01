// The list of deleted topics: its text, and what it tells of a record or a queue.

import t from "tap";
import {
  type DeletedTopic,
  DeletedTopics,
  decodeDeletedTopics,
  encodeDeletedTopics,
} from "../../lib/checkpoint/deleted_topics.ts";

const LIST: DeletedTopic[] = [
  {
    topic: "A",
    below: 1310,
    next: new Map([
      [0, 300_000],
      [3, 600_000],
    ]),
  },
  { topic: "%LMQ%ä\n", below: 2 ** 53 - 1, next: new Map() },
];

t.test("the list is read as it was written", async (t) => {
  for (const list of [[], LIST.slice(0, 1), LIST]) {
    t.strictSame(decodeDeletedTopics(encodeDeletedTopics(list)), list);
  }
  t.match(
    encodeDeletedTopics(LIST.slice(0, 1)).toString(),
    /^[0-9a-f]{8}\n\[\{"topic":"A","below":1310,"next":\{"0":300000,"3":600000\}\}\]\n$/,
  );
});

t.test("a list is damaged whatever bit of it is another, and wherever it ends", async (t) => {
  const bytes = encodeDeletedTopics(LIST);
  for (let at = 0; at < bytes.length; at++) {
    const flipped = Buffer.from(bytes);
    flipped[at] = (flipped[at] as number) ^ 4;
    t.equal(decodeDeletedTopics(flipped), undefined);
    t.equal(decodeDeletedTopics(bytes.subarray(0, at)), undefined);
  }
  t.equal(decodeDeletedTopics(Buffer.alloc(100)), undefined);
});

t.test("records in front of a deletion are covered, and queues go on behind it", async (t) => {
  const deleted = new DeletedTopics(LIST);
  t.equal(deleted.covers("A", 1309), true);
  t.equal(deleted.covers("A", 1310), false);
  t.equal(deleted.covers("B", 0), false);
  t.equal(deleted.nextOf("A", 3), 600_000);
  t.equal(deleted.nextOf("A", 1), 0);
  t.equal(deleted.nextOf("B", 0), 0);
  t.equal(deleted.endAt(1000), true, "the log ends in front of what was deleted");
  t.equal(deleted.endAt(1000), false);
  t.equal(deleted.covers("A", 999), true);
  t.equal(deleted.covers("A", 1000), false);
  deleted.forgetBelow(999);
  t.equal(deleted.list().length, 2);
  deleted.forgetBelow(1000);
  t.strictSame(deleted.list(), []);
  t.equal(deleted.nextOf("A", 0), 0);
});
