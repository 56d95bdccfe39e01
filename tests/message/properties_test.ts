import fc from "fast-check";
import t from "tap";
import { javaStringHash } from "../../lib/message/java_string.ts";
import {
  deleteProperty,
  encodeProperties,
  findProperty,
  parseProperties,
} from "../../lib/message/properties.ts";

/** `a=1;` for `a 01 1 02`. */
const text = (short: string) => short.replaceAll("=", "\x01").replaceAll(";", "\x02");
const short = (text: string) => text.replaceAll("\x01", "=").replaceAll("\x02", ";");

t.test("encodeProperties() orders as a Java HashMap of 128 buckets", async (t) => {
  const names = ["KEYS", "TAGS", "WAIT", "UNIQ_KEY", "CLUSTER"];
  const encoded = encodeProperties(names.map((name) => [name, "v"]));
  t.equal(short(encoded), "UNIQ_KEY=v;CLUSTER=v;TAGS=v;KEYS=v;WAIT=v;");
  const swapped = encodeProperties(names.toReversed().map((name) => [name, "v"]));
  t.equal(short(swapped), "CLUSTER=v;UNIQ_KEY=v;TAGS=v;KEYS=v;WAIT=v;", "as inserted in a bucket");
});

t.test("encodeProperties() doubles the buckets when more than 3/4 are used", async (t) => {
  // Buckets, entries, and the hash of all names in the order in which a JVM gives them.
  const cases = [
    [128, 96, 782745884],
    [128, 97, -1878339047],
    [128, 192, -1900346320],
    [128, 193, -869104694],
    [16, 12, -977518330],
    [16, 13, 319730803],
    [16, 24, -692344576],
    [16, 25, -1167691610],
  ] as const;
  for (const [buckets, count, hash] of cases) {
    const entries = Array.from({ length: count }, (_, i) => [`property-${i}`, "v"] as const);
    const names = [...parseProperties(encodeProperties(entries, buckets)).keys()];
    t.equal(javaStringHash(names.join()), hash, `${count} in ${buckets} buckets`);
  }
});

t.test("encodeProperties() begins with 16 buckets if told so", async (t) => {
  const entries: [string, string][] = ["KEYS", "TAGS", "WAIT", "UNIQ_KEY"].map((n) => [n, "v"]);
  t.equal(short(encodeProperties(entries, 16)), "KEYS=v;UNIQ_KEY=v;WAIT=v;TAGS=v;");
});

t.test(
  "encodeProperties() skips null, writes empty values, takes the last of a name",
  async (t) => {
    t.equal(encodeProperties([]), "");
    t.equal(
      short(
        encodeProperties([
          ["a", "1"],
          ["b", ""],
          ["c", null],
          ["a", "2"],
        ]),
      ),
      "a=2;b=;",
    );
  },
);

t.test("parseProperties() follows Java's rules to the letter", async (t) => {
  const cases: [string, Record<string, string>][] = [
    ["", {}],
    ["a=1;b=2;", { a: "1", b: "2" }],
    ["a=1;b=2", { a: "1", b: "2" }],
    ["a=;b=2;", { b: "2" }],
    ["=1;b=2;", { b: "2" }],
    ["a;b=2;", { b: "2" }],
    ["a=;=1", {}],
    [";;a=1;;", { a: "1" }],
    ["a=1=2=;", { a: "1=2=" }],
    ["==1;", {}],
    ["a=1;a=2;", { a: "2" }],
    ["a=1;a=;", { a: "1" }],
    ["ab;c=1", { c: "1" }],
    ["订=单;", { 订: "单" }],
  ];
  for (const [given, expected] of cases) {
    const map = parseProperties(text(given));
    const readable = Object.fromEntries([...map].map(([n, v]) => [short(n), short(v)]));
    t.strictSame(readable, expected, given);
  }
});

t.test("findProperty() finds what parseProperties() finds", async (t) => {
  t.equal(findProperty(text("XTAGS=1;TAGS=2;TAGSX=3"), "TAGS"), "2");
  t.equal(findProperty(text("a=TAGS=1"), "TAGS"), undefined);
  t.equal(findProperty(text("TAGS=1;TAGS=;"), "TAGS"), "1");
  t.equal(findProperty(text("TAGS=1;x=2;TAGS=3"), "TAGS"), "3");
  t.equal(findProperty("", "TAGS"), undefined);
});

/** Text in which separators, the name looked for and near misses are frequent. */
const anyText = fc
  .array(fc.constantFrom("\x01", "\x02", "KEYS", "K", "a", "订"), { maxLength: 20 })
  .map((parts) => parts.join(""));

t.test("findProperty() agrees with parseProperties() on any text", async () => {
  fc.assert(
    fc.property(
      anyText,
      fc.constantFrom("KEYS", "K", "a"),
      (text, name) => findProperty(text, name) === parseProperties(text).get(name),
    ),
    { numRuns: 2000 },
  );
});

t.test("deleteProperty() takes out one name and leaves the rest byte for byte", async (t) => {
  const cases: [string, string][] = [
    ["", ""],
    ["a=1;c=2;b=3", "a=1;b=3"],
    ["c=1", ""],
    ["a=1;c=2", "a=1;"],
    ["c=1;c=2;a=;c=3;", "a=;"],
    ["xc=1;a=c=2;", "xc=1;a=c=2;"],
    ["a=1;c;c=;b=2;;", "a=1;c;b=2;;"],
  ];
  for (const [given, rest] of cases) t.equal(short(deleteProperty(text(given), "c")), rest, given);
});

t.test("parseProperties() reads back what encodeProperties() writes", async () => {
  const word = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 });
  const clean = word.filter((w) => !w.includes("\x01") && !w.includes("\x02"));
  fc.assert(
    fc.property(fc.array(fc.tuple(clean, clean), { maxLength: 150 }), (entries) => {
      const map = new Map(entries);
      const read = parseProperties(encodeProperties(entries));
      return read.size === map.size && [...map].every(([name, value]) => read.get(name) === value);
    }),
  );
});

t.test("parseProperties() takes no time for what is nothing but separators", async (t) => {
  // A million items: to look for a name in the whole rest for each would take minutes.
  const startedAt = performance.now();
  t.equal(parseProperties("\x02".repeat(1_000_000)).size, 0);
  t.equal(parseProperties(`${"\x02".repeat(1_000_000)}a\x01b`).get("a"), "b");
  t.ok(performance.now() - startedAt < 5000);
});
