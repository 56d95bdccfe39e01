import t from "tap";
import { CountWindow } from "../../lib/stats/count_window.ts";
import { ITEMS_MAX, StatItems } from "../../lib/stats/stat_items.ts";

t.test("CountWindow tells what was counted in a time, whenever it looked", async (t) => {
  const window = new CountWindow(1000, 60);
  t.same(window.grown(5, 7, 1000), { by: 0, inMs: 1 });
  window.sample(0, 0);
  for (let second = 1; second <= 100; second++) window.sample(second * 1000, second * 10);
  t.same(window.grown(100_000, 1000, 10_000), { by: 100, inMs: 10_000 });
  t.same(window.grown(100_000, 1000, 60_000), { by: 600, inMs: 60_000 });
  t.same(window.grown(200_000, 1000, 10_000), { by: 0, inMs: 10_000 }, "nothing since");
  t.same(window.grown(101_000, 1500, 1_000_000), { by: 1500, inMs: 101_000 }, "all it knows");
  for (let second = 101; second <= 300; second++) window.sample(second * 1000, second * 10);
  t.same(window.grown(300_000, 3000, 1_000_000), { by: 1200, inMs: 120_000 }, "twice its steps");
  // Counted within a step, then a rest: that is not of now.
  window.sample(400_000, 3050, 300_500);
  t.same(window.grown(400_000, 3051, 10_000), { by: 1, inMs: 10_000 });
  const young = new CountWindow(1000, 60);
  young.sample(0, 0);
  young.sample(10, 99);
  t.same(young.grown(500, 20, 10_000), { by: 20, inMs: 500 });
});

t.test("items count over a minute, an hour and a day", async (t) => {
  const items = new StatItems();
  const all = () => true;
  let now = 0;
  // Two messages in a call, each second, for two hours.
  for (; now <= 7_200_000; now += 1000) {
    items.add("GROUP_GET_NUMS", "T@g", 2, now);
    if (now % 10_000 === 0) items.sample(now, all);
  }
  const [item] = items.list(now, "GROUP_GET_NUMS");
  t.match(item, { key: "T@g", value: 2 * 7201, times: 7201 });
  t.match(item?.minute, { average: 2 });
  t.ok(Math.abs((item?.minute.tps ?? 0) - 2) < 0.4, `${item?.minute.tps}`);
  t.ok(Math.abs((item?.hour.tps ?? 0) - 2) < 0.4);
  t.ok(Math.abs((item?.day.tps ?? 0) - 2) < 0.4);
  t.ok(Math.abs((item?.hour.sum ?? 0) - 7200) < 1500);
  const later = now + 3_600_000;
  t.match(items.list(later)[0], { minute: { sum: 0, tps: 0, times: 0, average: 0 } });
});

t.test(
  "keys that rest, those of topics that are gone, and those too many are dropped",
  async (t) => {
    const items = new StatItems();
    items.set("TOPIC_PUT_NUMS", "old", 1, 1, 0);
    items.set("TOPIC_PUT_NUMS", "deleted", 1, 1, 80_000_000);
    items.set("TOPIC_PUT_NUMS", "used", 1, 1, 80_000_000);
    items.add("GROUP_GET_NUMS", "deleted@g", 1, 80_000_000);
    items.set("GROUP_GET_FALL_SIZE", "0@deleted@g", 1, 1, 80_000_000);
    items.sample(86_400_001, (topic) => topic !== "deleted");
    t.same(
      items.list(86_400_001).map(({ key }) => key),
      ["used"],
    );
    t.equal(items.size, 1);
    for (let i = 0; i < ITEMS_MAX + 5; i++)
      items.add("GROUP_GET_NUMS", `T@${i}`, 1, 86_400_001 + i);
    t.ok(items.size <= ITEMS_MAX);
    t.ok(items.size >= ITEMS_MAX * 0.9);
    const keys = items.list(90_000_000, "GROUP_GET_NUMS").map(({ key }) => key);
    t.ok(keys.includes(`T@${ITEMS_MAX + 4}`), "the newest are there");
    t.notOk(keys.includes("T@0"));
  },
);
