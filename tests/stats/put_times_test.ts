import t from "tap";
import { PUT_TIME_SLOTS, PutTimes } from "../../lib/stats/put_times.ts";

t.test("each time has its slot, as RocketMQ has them", async (t) => {
  t.equal(PUT_TIME_SLOTS.length, 13);
  for (const [ms, slot] of [
    [-1, 0],
    [0, 0],
    [1, 1],
    [9, 1],
    [10, 2],
    [49, 2],
    [50, 3],
    [100, 4],
    [199, 4],
    [200, 5],
    [255, 5],
    [256, 5],
    [500, 6],
    [1000, 7],
    [2000, 8],
    [3000, 9],
    [4999, 10],
    [5000, 11],
    [9999, 11],
    [10_000, 12],
    [1e9, 12],
  ] as const) {
    const times = new PutTimes();
    times.record(ms);
    t.equal(times.distributionNow().indexOf(1), slot, `${ms}`);
    t.equal(times.maxMs, Math.max(0, ms));
  }
});

t.test("what is told is of the minute before", async (t) => {
  const times = new PutTimes();
  for (let i = 0; i < 99; i++) times.record(3);
  times.record(700);
  t.equal(times.percentile(0.99), 0);
  t.same(times.distribution(), Array(13).fill(0));
  times.rotate();
  t.same(times.distribution().slice(0, 7), [0, 99, 0, 0, 0, 0, 1]);
  t.equal(times.percentile(0.99), 3);
  t.ok(times.percentile(0.5) > 2 && times.percentile(0.5) < 3, "linear in its bucket");
  t.ok(times.percentile(0.999) > 600 && times.percentile(0.999) <= 700);
  times.record(20_000);
  times.rotate();
  t.equal(times.percentile(0.99), 10_000, "what is longer than all buckets");
  times.clear();
  t.same(times.distribution(), Array(13).fill(0));
  t.equal(times.maxMs, 20_000);
});
