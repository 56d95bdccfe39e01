import t from "tap";
import { BlockRanges } from "../../lib/testing/block_ranges.ts";
import { randomOf, seedOf } from "../support/random.ts";

const BLOCKS = 40;

t.test("BlockRanges is a set of numbers", async (t) => {
  const random = randomOf(seedOf(t));
  let ranges = BlockRanges.NONE;
  const set = new Set<number>();
  for (let i = 0; i < 3000; i++) {
    const from = random(BLOCKS);
    const to = random(20) === 0 ? Number.POSITIVE_INFINITY : from + random(8);
    const before = ranges.count;
    if (random(2) === 0 && to < BLOCKS) {
      const more = ranges.with(from, to);
      t.equal(ranges.count, before, "it never changes");
      ranges = more;
      for (let block = from; block < to; block++) set.add(block);
    } else {
      ranges = ranges.without(from, to);
      for (let block = from; block < Math.min(to, BLOCKS); block++) set.delete(block);
    }
    if (ranges.count !== set.size) t.equal(ranges.count, set.size, `step ${i}`);
    const [start, end, free] = [random(BLOCKS), BLOCKS, random(10)];
    let [reached, left] = [start, free];
    while (reached < end && (set.has(reached) || left > 0)) {
      if (!set.has(reached)) left -= 1;
      reached += 1;
    }
    const reach = ranges.reach(start, end, free);
    if (reach !== reached) t.equal(reach, reached, `${start} to ${end} with ${free}`);
    if (!t.passing()) break;
  }
  t.equal(ranges.count, set.size);
  t.equal(BlockRanges.NONE.with(0, 2 ** 30).count, 2 ** 30);
  t.equal(BlockRanges.NONE.reach(3, 2 ** 30, Number.POSITIVE_INFINITY), 2 ** 30);
});
