import t from "tap";
import { OneAtATime } from "../../lib/io/one_at_a_time.ts";
import { turns } from "../support/random.ts";

t.test("OneAtATime.run() begins each when the one before has ended, well or not", async (t) => {
  const line = new OneAtATime();
  const done: string[] = [];
  const first = line.run(async () => {
    await turns(3);
    done.push("first");
    throw new Error("no");
  });
  const second = line.run(async () => {
    done.push("second");
    return 2;
  });
  await t.rejects(first, { message: "no" });
  t.equal(await second, 2);
  t.strictSame(done, ["first", "second"]);
});

t.test("OneAtATime.idle() waits for all, and hears of no failure", async (t) => {
  const line = new OneAtATime();
  await line.idle();
  let ended = false;
  line.run(() => Promise.reject(new Error("no"))).catch(() => undefined);
  void line.run(async () => {
    await turns(3);
    ended = true;
  });
  await line.idle();
  t.ok(ended);
});
