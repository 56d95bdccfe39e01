import t from "tap";
import { Turn } from "../../lib/segment/turn.ts";

t.test("Turn is over after 64 steps or 1 MiB, and begins anew with the next", async (t) => {
  for (const [bytes, steps] of [
    [0, 64],
    [16 * 1024, 64],
    [16 * 1024 + 1, 64],
    [64 * 1024, 16],
    [1024 * 1024 - 1, 2],
    [1024 * 1024, 1],
    [10_000_000, 1],
  ] as const) {
    const turn = new Turn();
    t.notOk(turn.over);
    let count = 0;
    while (!turn.over) {
      turn.spend(bytes);
      count++;
    }
    t.equal(count, steps, `${bytes} bytes a step`);
    await turn.next();
    t.notOk(turn.over);
  }
});

t.test("Turn.next() resolves in the next turn, for all who wait", async (t) => {
  const turn = new Turn();
  const order: string[] = [];
  setImmediate(() => order.push("an immediate"));
  const waits = [1, 2].map((n) => turn.next().then(() => order.push(`wait ${n}`)));
  await Promise.resolve();
  process.nextTick(() => order.push("a tick"));
  await Promise.all(waits);
  t.strictSame(order, ["a tick", "an immediate", "wait 1", "wait 2"]);
  let again = false;
  void turn.next().then(() => {
    again = true;
  });
  await Promise.resolve();
  t.notOk(again, "and then there is another next");
});
