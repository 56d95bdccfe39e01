import t from "tap";
import { DelayLevels, tagsCodeOf } from "../../lib/message/tags_code.ts";

t.test("tagsCodeOf() hashes the whole tag, and is 0 without one", async (t) => {
  t.equal(tagsCodeOf(undefined), 0);
  t.equal(tagsCodeOf(""), 0);
  t.equal(tagsCodeOf("refund"), -934813832);
  t.equal(tagsCodeOf("TagA || TagB"), tagsCodeOf("TagA || TagB"));
  t.equal(tagsCodeOf("Aa"), tagsCodeOf("BB"), "two tags may have one code");
});

t.test("DelayLevels.deliverTime() adds the level's delay to the store time", async (t) => {
  const levels = DelayLevels.parse();
  t.equal(levels.maxLevel, 18);
  t.equal(levels.deliverTime(3, 1726740000123), 1726740010123);
  const minutes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120].map((m) => m * 60_000);
  const expected = [1_000, 5_000, 10_000, 30_000, ...minutes];
  t.strictSame(
    expected.map((_, i) => levels.delayMs(i + 1)),
    expected,
  );
});

t.test("DelayLevels.deliverTime() lowers a level beyond the highest", async (t) => {
  t.equal(DelayLevels.parse("7s 2d").deliverTime(9, 1), 2 * 86_400_000 + 1);
});

t.test("DelayLevels.parse() names the item that it cannot read", async (t) => {
  for (const text of ["", "1s  5s", "1s 5x", "1s s", "1s 5", "1s -5s", "1s\t5s"]) {
    t.throws(() => DelayLevels.parse(text), { name: "RangeError" }, JSON.stringify(text));
  }
  t.throws(() => DelayLevels.parse("1s 5x"), {
    message: 'Cannot read delay level 2 of "1s 5x": "5x" is not a number and s, m, h or d',
  });
});
