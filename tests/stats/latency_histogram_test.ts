import t from "tap";
import { LatencyHistogram } from "../../lib/stats/latency_histogram.ts";
import { randomOf, sliceSeedOf } from "../support/random.ts";

t.test("an empty one, and times out of range", async (t) => {
  const histogram = new LatencyHistogram();
  t.same([histogram.count, histogram.maxMs, histogram.averageMs], [0, 0, 0]);
  t.equal(histogram.percentile(0.99), 0);
  for (const ms of [-5, 0, 0.0004, 1e12]) histogram.record(ms);
  t.equal(histogram.count, 4);
  t.equal(histogram.maxMs, 1e12);
  t.ok(histogram.averageMs > 0);
  t.equal(
    histogram.buckets().reduce((sum, { count }) => sum + count, 0),
    4,
  );
});

t.test("percentiles are right within a fourth, for any times", async (t) => {
  const random = randomOf(sliceSeedOf(t));
  for (let round = 0; round < 20; round++) {
    const histogram = new LatencyHistogram();
    const scale = 10 ** (random(7) - 2);
    const times = Array.from({ length: 1 + random(500) }, () => (random(1e6) / 1e6) * scale);
    for (const ms of times) histogram.record(ms);
    times.sort((a, b) => a - b);
    t.equal(histogram.maxMs, times.at(-1));
    for (const fraction of [0.5, 0.9, 0.99, 1]) {
      const exact = times[Math.ceil(times.length * fraction) - 1] as number;
      const told = histogram.percentile(fraction);
      t.ok(told >= exact - 0.001 && told <= exact * 1.26 + 0.001, `${fraction}: ${told} ${exact}`);
    }
  }
});
