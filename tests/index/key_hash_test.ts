import t from "tap";
import { keyHash, topicHash } from "../../lib/index/key_hash.ts";
import { javaStringHash } from "../../lib/message/java_string.ts";

const hashOf = (topic: string, key: string): number =>
  keyHash(javaStringHash(key, topicHash(topic)));

t.test("keyHash() is RocketMQ's, topic and key taken one after the other", async (t) => {
  t.equal(hashOf("TopicTest", "C0A8010A1F4018B4AAC25ED7C9000000"), 157777302);
  t.equal(hashOf("TopicTest", "order-1001"), 1043804929);
  t.equal(hashOf("TopicTest", "KEY1"), 1656969516);
  t.equal(hashOf("TopicTest", "T#refund"), 1674452343);
  t.equal(hashOf("AaTopic", "BB"), hashOf("BBTopic", "Aa"));
});

t.test("keyHash() of the least int32 is 0", async (t) => {
  t.equal(keyHash(javaStringHash("polygenelubricants")), 0);
  t.equal(hashOf("K", "6WqOuBtp"), 0);
  t.equal(keyHash(-2147483647), 2147483647);
});

t.test("javaStringHash() takes a part of a text, in UTF-16", async (t) => {
  t.equal(javaStringHash("xx中文y", 0, 2, 4), 646394);
  t.equal(javaStringHash("😀", topicHash("中")), javaStringHash("中#😀"));
});
