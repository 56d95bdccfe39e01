import t from "tap";
import { inParallel } from "../../lib/io/parallel.ts";
import { turns } from "../support/random.ts";

t.test("inParallel() begins all in order, three at a time", async (t) => {
  const begun: number[] = [];
  let underWay = 0;
  let most = 0;
  await inParallel(
    Array.from({ length: 30 }, (_, i) => i),
    async (i) => {
      begun.push(i);
      most = Math.max(most, ++underWay);
      await turns(1 + (i % 3));
      underWay--;
    },
  );
  t.strictSame(
    begun,
    Array.from({ length: 30 }, (_, i) => i),
  );
  t.equal(most, 3);
  await inParallel([], () => Promise.reject(new Error("none is begun")));
});

t.test("inParallel() begins none after a failure, and waits for those under way", async (t) => {
  let begun = 0;
  let ended = 0;
  const all = inParallel(
    Array.from({ length: 30 }, (_, i) => i),
    async (i) => {
      begun++;
      await turns(i === 2 ? 1 : 5);
      ended++;
      if (i === 2) throw new Error("the third");
    },
  );
  await t.rejects(all, { message: "the third" });
  t.equal(begun, ended);
  t.ok(begun < 30, `${begun} begun`);
});

t.test(
  "inParallel() lets the event loop have a turn, and begins none behind a failure in it",
  async (t) => {
    let turned = false;
    let begun = 0;
    setImmediate(() => {
      turned = true;
    });
    await inParallel(Array.from({ length: 300 }), async () => {
      begun++;
    });
    t.ok(turned);
    t.equal(begun, 300);
    const items: number[] = [];
    const all = inParallel(
      Array.from({ length: 300 }, (_, i) => i),
      async (i) => {
        items.push(i);
        if (i === 100) throw new Error("item 100");
      },
      64,
    );
    await t.rejects(all, { message: "item 100" });
    t.notOk(items.includes(99), "it was to wait for a turn");
  },
);
