import t from "tap";
import { topicOf } from "../../lib/message/topic.ts";

// First of all: nothing has been asked for before.
t.test("topicOf() takes no topic for one that is none", async (t) => {
  t.throws(() => topicOf(undefined as unknown as string), { name: "TypeError", message: /topic/ });
  t.match(topicOf("").fault, /empty/);
});

t.test("topicOf() knows the topic that was asked for last, and no other by its name", async (t) => {
  const one = topicOf("one");
  t.equal(topicOf("one"), one);
  const two = topicOf("two");
  t.equal(topicOf("one"), one);
  t.equal(topicOf("two"), two);
  t.match(topicOf("a/b").fault, /contains/);
  t.equal(topicOf("two"), two, "one that is refused is not remembered");
  t.match(topicOf("").fault, /empty/);
  t.throws(() => topicOf(null as unknown as string), { name: "TypeError" });
  t.throws(() => topicOf(2 as unknown as string), { name: "TypeError" });
  for (let i = 0; i < 5000; i++) t.equal(topicOf(`topic-${i}`).text, `topic-${i}`);
  t.strictSame(topicOf("one"), one, "many others make no difference");
});
