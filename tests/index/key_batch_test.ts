import fc from "fast-check";
import t from "tap";
import { KeyBatch, TAG_KEY_PREFIX } from "../../lib/index/key_batch.ts";
import { keyHash, topicHash } from "../../lib/index/key_hash.ts";
import { javaStringHash } from "../../lib/message/java_string.ts";
import { requestAt } from "../support/index_rig.ts";

const hashOf = (topic: string, key: string): number =>
  keyHash(javaStringHash(key, topicHash(topic)));

function hashesIn(batch: KeyBatch, except?: ReadonlySet<number>): number[] {
  const { hashes, length } = batch.hashed(except);
  return [...hashes.subarray(0, length)];
}

t.test("KeyBatch hashes each key as if it were alone, whatever its characters", async (t) => {
  const text = fc.string({ unit: "binary", minLength: 1, maxLength: 40 });
  const record = fc.record({
    topic: fc.constantFrom("T", "TopicTest", "中文", ""),
    uniqKey: fc.option(text, { nil: undefined }),
    words: fc.array(text),
    tags: fc.option(text, { nil: undefined }),
  });
  const batch = new KeyBatch();
  const holds = fc.property(fc.array(record, { maxLength: 30 }), (records) => {
    const expected: number[] = [];
    const places: number[] = [];
    batch.clear();
    records.forEach(({ topic, uniqKey, words, tags }, i) => {
      const keys = words.length > 0 ? ` ${words.join("  ")} ` : undefined;
      batch.add({ ...requestAt(i * 100), topic, uniqKey, keys, tags });
      const all = (keys ?? "").split(" ").filter((word) => word !== "");
      if (uniqKey !== undefined) all.unshift(uniqKey);
      if (tags !== undefined) all.push(TAG_KEY_PREFIX + tags);
      for (const key of all) {
        expected.push(hashOf(topic, key));
        places.push(i * 100);
      }
    });
    const { offsets, length } = batch.hashed();
    return (
      expected.length === batch.length &&
      hashesIn(batch).join() === expected.join() &&
      offsets.subarray(0, length).join() === places.join()
    );
  });
  t.doesNotThrow(() => fc.assert(holds));
});

t.test("KeyBatch takes a record with thousands of keys, and one with a long key", async (t) => {
  const batch = new KeyBatch();
  const words = Array.from({ length: 16_000 }, (_, i) => i.toString(36));
  batch.add(requestAt(0, { uniqKey: "first" }));
  t.notOk(batch.isFull);
  batch.add(requestAt(100, { keys: words.join(" ") }));
  const long = "x".repeat(32_767);
  batch.add(requestAt(200, { uniqKey: long }));
  t.ok(batch.isFull);
  const { topic } = requestAt(0);
  t.same(
    hashesIn(batch),
    ["first", ...words, long].map((key) => hashOf(topic, key)),
  );
  batch.clear();
  t.notOk(batch.isFull);
  t.same(hashesIn(batch), []);
});

t.test("KeyBatch leaves out keys that are there already, places and times with them", async (t) => {
  const batch = new KeyBatch();
  batch.add(requestAt(100, { uniqKey: "a", keys: "b c" }));
  batch.add(requestAt(200, { uniqKey: "b", keys: "d" }));
  const { topic } = requestAt(0);
  const { length, hashes, offsets, timestamps } = batch.hashed(
    new Set([hashOf(topic, "b"), hashOf(topic, "x")]),
  );
  t.same(
    [...hashes.subarray(0, length)],
    ["a", "c", "d"].map((key) => hashOf(topic, key)),
  );
  t.same([...offsets.subarray(0, length)], [100, 100, 200]);
  const [first, second] = [requestAt(100), requestAt(200)].map(
    ({ storeTimestamp }) => storeTimestamp,
  );
  t.same([...timestamps.subarray(0, length)], [first, first, second]);
});

t.test("KeyBatch keeps nothing of records without a key", async (t) => {
  const batch = new KeyBatch();
  for (let i = 0; i < 1000; i++) batch.add(requestAt(i * 100, { keys: " ".repeat(100), tags: "" }));
  t.equal(batch.length, 0);
  t.notOk(batch.isFull);
});
