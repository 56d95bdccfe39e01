import t from "tap";
import { javaStringHash } from "../../lib/message/java_string.ts";
import { TagFilter } from "../../lib/read/tag_filter.ts";

t.test("TagFilter.parse() of what lets everything pass is none", async (t) => {
  for (const expression of [undefined, "", " ", "*", " * ", "||", " || "]) {
    t.equal(TagFilter.parse(expression), undefined, String(expression));
  }
});

t.test("TagFilter.passes() compares the text", async (t) => {
  const filter = TagFilter.parse("TagA||  TagB ||*") as TagFilter;
  for (const [tags, passes] of [
    ["TagA", true],
    ["TagB", true],
    ["*", true],
    ["taga", false],
    ["TagA || TagB", false],
    ["", false],
    [undefined, false],
  ] as const) {
    t.equal(filter.passes(tags), passes, String(tags));
  }
});

t.test(
  "TagFilter.mayPass() compares the hash, and lets addresses of extensions pass",
  async (t) => {
    const filter = TagFilter.parse("Aa || polygenelubricants") as TagFilter;
    const halves = (code: bigint): [number, number] => [
      Number(BigInt.asIntN(32, code >> 32n)),
      Number(BigInt.asIntN(32, code)),
    ];
    for (const [code, may] of [
      [BigInt(javaStringHash("Aa")), true],
      [BigInt(javaStringHash("BB")), true],
      [-2147483648n, true],
      [0n, false],
      [-1n, false],
      [1n, false],
      [-(2n ** 63n), true],
      [-(2n ** 63n) + 123_456n, true],
      [1_700_000_000_000n, false],
    ] as const) {
      t.equal(filter.mayPass(...halves(code)), may, String(code));
    }
  },
);
