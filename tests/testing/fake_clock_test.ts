import t from "tap";
import { FakeClock } from "../../lib/testing/mod.ts";

t.test("FakeClock.advance() fires timers in order, each at its own time", async (t) => {
  const clock = new FakeClock(1000);
  const fired: string[] = [];
  const note = (name: string) => () => fired.push(`${name} at ${clock.monotonic()}`);
  clock.setTimer(note("late"), 30);
  clock.setTimer(note("early"), 10);
  clock.setTimer(note("also early"), 10);
  clock.setTimer(note("never"), 31);
  clock.setTimer(note("cancelled"), 5).cancel();
  await clock.advance(30);
  t.strictSame(fired, ["early at 10", "also early at 10", "late at 30"]);
  t.equal(clock.monotonic(), 30);
  t.equal(clock.now(), 1030);
  t.equal(clock.pendingTimers, 1);
});

t.test("FakeClock.advance() lets promises settle, and fires what they set", async (t) => {
  const clock = new FakeClock();
  const fired: number[] = [];
  const again = () => {
    fired.push(clock.monotonic());
    Promise.resolve()
      .then(() => {})
      .then(() => clock.setTimer(again, 10));
  };
  clock.setTimer(again, 10);
  await clock.advance(35);
  t.strictSame(fired, [10, 20, 30]);
});

t.test("FakeClock.advance() in fractions keeps now() whole", async (t) => {
  const clock = new FakeClock(1000);
  await clock.advance(0.75);
  t.equal(clock.monotonic(), 0.75);
  t.equal(clock.now(), 1000);
});

t.test("FakeClock.setWall() moves no timer and no monotonic time", async (t) => {
  const clock = new FakeClock(1_000_000);
  let fired = false;
  clock.setTimer(() => {
    fired = true;
  }, 100);
  clock.setWall(5);
  t.equal(clock.now(), 5);
  t.equal(clock.monotonic(), 0);
  await clock.advance(99);
  t.notOk(fired);
  t.equal(clock.now(), 104);
  await clock.advance(1);
  t.ok(fired);
});
