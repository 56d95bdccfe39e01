import fc from "fast-check";
import t from "tap";
import { OverlayPages } from "../../lib/io/overlay_pages.ts";

const PAGE = 64 * 1024;

t.test("OverlayPages.patch() puts what was written over what lies beneath", async (t) => {
  const pages = new OverlayPages();
  pages.write(Buffer.from("bbbb"), PAGE - 2);
  pages.zero(PAGE + 4, PAGE + 6);
  const buffer = Buffer.alloc(12, "a");
  pages.patch(buffer, PAGE - 4);
  t.equal(buffer.toString(), "aabbbbaa\0\0aa");
});

t.test("OverlayPages takes no memory for zeros, and a page for a few bytes", async (t) => {
  const pages = new OverlayPages();
  pages.zero(0, 1 << 30);
  t.equal(pages.heldBytes, 0);
  t.ok(pages.covers(0, 1 << 30));
  pages.write(Buffer.alloc(4096, 1), 1 << 29);
  t.equal(pages.heldBytes, PAGE);
  pages.zero(1 << 29, (1 << 29) + PAGE);
  t.equal(pages.heldBytes, 0);
});

t.test("OverlayPages.nextData() finds what was written, zeros of whole pages aside", async (t) => {
  const pages = new OverlayPages();
  t.equal(pages.nextData(0), Number.POSITIVE_INFINITY);
  pages.write(Buffer.from("b"), 3 * PAGE + 10);
  pages.write(Buffer.from("aa"), PAGE + 20);
  pages.write(Buffer.from("a"), PAGE + 30);
  pages.zero(4 * PAGE, 5 * PAGE);
  for (const [position, next] of [
    [0, PAGE + 20],
    [PAGE + 20, PAGE + 20],
    [PAGE + 21, PAGE + 21],
    [PAGE + 22, PAGE + 30],
    [PAGE + 31, 3 * PAGE + 10],
    [3 * PAGE + 11, Number.POSITIVE_INFINITY],
  ] as const) {
    t.equal(pages.nextData(position), next);
  }
});

t.test("OverlayPages keeps a copy: the caller may change his buffer", async (t) => {
  const pages = new OverlayPages();
  const mine = Buffer.from("abc");
  pages.write(mine, 0);
  mine.fill("x");
  const buffer = Buffer.alloc(3);
  pages.patch(buffer, 0);
  t.equal(buffer.toString(), "abc");
});

// Against the simplest thing that could be right: an array with undefined where nothing was written.
t.test("OverlayPages agrees with a plain array, whatever is done", async (t) => {
  const end = 4 * PAGE;
  const place = fc.oneof(
    fc.nat(end - 1),
    fc.constantFrom(0, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 3 * PAGE),
  );
  const length = fc.oneof(fc.nat(5), fc.nat(PAGE + 10), fc.constantFrom(PAGE, 2 * PAGE));
  const operation = fc.record({
    name: fc.constantFrom("write", "zero", "truncate"),
    place,
    length,
    byte: fc.nat(255),
  });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 12 }), place, length, (operations, from, size) => {
      const pages = new OverlayPages();
      const model: (number | undefined)[] = new Array(end);
      for (const { name, place, length, byte } of operations) {
        const to = Math.min(end, place + length);
        if (name === "write") {
          pages.write(Buffer.alloc(to - place, byte), place);
          model.fill(byte, place, to);
        } else if (name === "zero") {
          pages.zero(place, to);
          model.fill(0, place, to);
        } else {
          pages.truncate(place);
          model.fill(undefined, place);
        }
      }
      const buffer = Buffer.alloc(Math.min(end, from + size) - from, 0xee);
      pages.patch(buffer, from);
      const expected = Array.from(model.slice(from, from + buffer.length));
      t.equal(pages.covers(from, from + buffer.length), !expected.includes(undefined));
      return expected.every((byte, i) => buffer[i] === (byte ?? 0xee));
    }),
    { numRuns: 60 },
  );
});
