import t from "tap";
import { PAGE_BYTES, SparseBytes } from "../../lib/testing/sparse_bytes.ts";
import { type Random, randomOf, seedOf } from "../support/random.ts";

/** More than two chunks of 64 pages. */
const BYTES = 140 * PAGE_BYTES;

/** The same bytes twice: sparse, and as they are. */
class Pair {
  readonly sparse: SparseBytes;
  readonly plain: Buffer;

  constructor(sparse = new SparseBytes(), plain: Buffer = Buffer.alloc(BYTES)) {
    this.sparse = sparse;
    this.plain = plain;
  }

  copy(): Pair {
    return new Pair(this.sparse.copy(), Buffer.from(this.plain));
  }

  step(random: Random): void {
    const edge = [0, 1, 63, 64, 65, 128][random(6)]! * PAGE_BYTES;
    const from = Math.max(0, edge + random(3 * PAGE_BYTES) - PAGE_BYTES * random(2));
    const to = Math.min(BYTES, from + [10, 600, PAGE_BYTES, 70 * PAGE_BYTES][random(4)]!);
    const kind = random(4);
    if (kind < 2) {
      const bytes = Buffer.alloc(to - from, random(256));
      this.sparse.write(bytes, from);
      bytes.copy(this.plain, from);
    } else if (kind === 2) {
      this.sparse.zero(from, to);
      this.plain.fill(0, from, to);
    } else if (random(4) === 0) {
      this.sparse.truncate(from);
      this.plain.fill(0, from);
    }
  }

  get isSame(): boolean {
    const read = Buffer.alloc(BYTES, 0xee);
    this.sparse.read(read, 0);
    const pages = new Set(this.sparse.pages());
    for (let page = 0; page < BYTES / PAGE_BYTES; page++) {
      const bytes = this.plain.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
      if (!pages.has(page) && bytes.some((byte) => byte !== 0)) return false;
    }
    return read.equals(this.plain);
  }
}

t.test("SparseBytes reads what was written, and zeros elsewhere, in every copy", async (t) => {
  const random = randomOf(seedOf(t));
  const pairs = [new Pair()];
  for (let i = 0; i < 300; i++) {
    const pair = pairs[random(pairs.length)]!;
    if (random(4) === 0 && pairs.length < 5) pairs.push(pair.copy());
    pair.step(random);
    if (i % 10 === 0) t.ok(pairs.every(({ isSame }) => isSame));
  }
  const part = Buffer.alloc(5000);
  pairs[0]!.sparse.read(part, 100);
  t.ok(part.equals(pairs[0]!.plain.subarray(100, 5100)));
});

t.test("SparseBytes.digest() is equal for equal bytes only", async (t) => {
  const random = randomOf(seedOf(t));
  const digests = new Map<string, string>();
  const pair = new Pair();
  for (let i = 0; i < 100; i++) {
    pair.step(random);
    const written = new SparseBytes();
    written.write(pair.plain, 0);
    const digest = pair.sparse.digest();
    t.equal(digest, written.digest(), "a hole is the same as zeros");
    t.equal(digest, pair.copy().sparse.digest());
    const bytes = pair.plain.toString("latin1");
    t.equal(digests.get(digest) ?? bytes, bytes);
    digests.set(digest, bytes);
  }
  const page = new SparseBytes();
  const seen = [1, 2, 0].map((letter) => {
    page.write(Buffer.alloc(PAGE_BYTES, letter), 0);
    return page.digest();
  });
  t.equal(new Set(seen).size, 3, "also of a page that is written over as a whole");
});

t.test("SparseBytes.nextData() finds the next page that is no hole", async (t) => {
  const bytes = new SparseBytes();
  t.equal(bytes.nextData(5), Number.POSITIVE_INFINITY);
  bytes.write(Buffer.alloc(10, 1), 3 * PAGE_BYTES + 100);
  bytes.write(Buffer.alloc(10, 1), 2 ** 40);
  t.equal(bytes.nextData(0), 3 * PAGE_BYTES);
  t.equal(bytes.nextData(3 * PAGE_BYTES + 7), 3 * PAGE_BYTES + 7);
  t.equal(bytes.nextData(4 * PAGE_BYTES), 2 ** 40);
  t.equal(bytes.nextData(2 ** 40 + PAGE_BYTES), Number.POSITIVE_INFINITY);
  bytes.zero(0, 10 * PAGE_BYTES);
  t.equal(bytes.nextData(0), 2 ** 40);
});
