import t from "tap";
import { Turn } from "../../lib/segment/turn.ts";
import { turns } from "../support/random.ts";

const MIB = 1024 * 1024;

t.test(
  "Turn is over after 64 steps or 1 MiB, and begins again with the event loop's",
  async (t) => {
    const turn = new Turn();
    for (let i = 0; i < 63; i++) turn.spend(1);
    t.equal(turn.over, false);
    turn.spend(1);
    t.equal(turn.over, true);
    await turns(1);
    t.equal(turn.over, false);
    turn.spend(MIB - 1);
    t.equal(turn.over, false);
    turn.spend(1);
    t.equal(turn.over, true);
    await turns(1);
    t.equal(turn.over, false);
  },
);

t.test("Turn.take() has to be waited for once the turn is over", async (t) => {
  const turn = new Turn();
  t.equal(turn.take(MIB - 1), undefined);
  const next = turn.take(1);
  t.ok(next instanceof Promise);
  await next;
  t.equal(turn.take(1), undefined);
});

t.test("Turn.next() lets as many go on in a turn as it bears, in order", async (t) => {
  const turn = new Turn();
  const events: string[] = [];
  const wait = (name: string, bytes: number): void => {
    void turn.next(bytes).then(() => {
      events.push(name);
      turn.spend(bytes);
    });
  };
  wait("large 1", MIB - 1);
  wait("large 2", MIB - 1);
  wait("large 3", MIB - 1);
  for (let i = 0; i < 70; i++) wait("small", 10);
  t.equal(turn.over, true, "they go first");
  const inTurn: string[][] = [];
  for (let i = 0; i < 5; i++) {
    await turns(1);
    inTurn.push(events.splice(0));
  }
  const small = (count: number): string[] => Array(count).fill("small");
  t.strictSame(inTurn, [["large 1", "large 2"], ["large 3", ...small(1)], small(64), small(5), []]);
  t.equal(turn.over, false);
});
