import t from "tap";
import { StoreError } from "../../lib/errors.ts";
import { type Waiter, Waiters } from "../../lib/segment/waiters.ts";

function noting(events: string[], end: number): Waiter<number> {
  return {
    end,
    deadline: end,
    value: end,
    resolve: (value) => events.push(`resolve ${value}`),
    reject: (error) => events.push(error.message),
    refusals: {
      expired: (value) => new Error(`expire ${value}`),
      failed: (value, cause) => new Error(`fail ${value} ${cause.message}`),
    },
  };
}

t.test("Waiters.resolveTo() resolves in order up to the offset, and no further", async (t) => {
  const events: string[] = [];
  const waiters = new Waiters();
  for (const end of [1, 5, 5, 6]) waiters.push(noting(events, end));
  waiters.resolveTo(0);
  t.strictSame(events, []);
  waiters.resolveTo(5);
  t.strictSame(events, ["resolve 1", "resolve 5", "resolve 5"]);
  t.equal(waiters.size, 1);
  t.equal(waiters.first?.end, 6);
  waiters.resolveTo(100);
  t.equal(waiters.size, 0);
  t.equal(waiters.first, undefined);
  t.equal(waiters.shift(), undefined);
});

t.test("Waiters.resolveTo() resolves no more than it is told to, but at least one", async (t) => {
  const events: string[] = [];
  const waiters = new Waiters();
  for (const end of [10, 20, 30, 1000, 1001]) waiters.push(noting(events, end));
  const told = (): string[] => events.splice(0);
  t.equal(waiters.resolveTo(1000, { count: 2, bytes: 1000 }), false);
  t.strictSame(told(), ["resolve 10", "resolve 20"]);
  t.equal(waiters.resolveTo(1000, { count: 10, bytes: 100 }), false);
  t.strictSame(told(), ["resolve 30"]);
  t.equal(waiters.resolveTo(1000, { count: 10, bytes: 100 }), true, "all that waited for 1000");
  t.strictSame(told(), ["resolve 1000"]);
  t.equal(waiters.resolveTo(1000, { count: 10, bytes: 100 }), true, "none is left");
  t.strictSame(told(), []);
});

t.test("Waiters.failAll() fails all with the same cause", async (t) => {
  const events: string[] = [];
  const waiters = new Waiters();
  waiters.push(noting(events, 1));
  waiters.push(noting(events, 2));
  waiters.failAll(new StoreError("STORE_IO", "why"));
  t.strictSame(events, ["fail 1 why", "fail 2 why"]);
  t.equal(waiters.size, 0);
});

t.test("Waiters keeps its order through thousands of them", async (t) => {
  const events: string[] = [];
  const waiters = new Waiters();
  let pushed = 0;
  let resolved = 0;
  for (let round = 0; round < 300; round++) {
    for (let i = 0; i < 20; i++) waiters.push(noting(events, ++pushed));
    resolved = Math.min(pushed, resolved + 17);
    waiters.resolveTo(resolved);
    t.equal(waiters.size, pushed - resolved);
  }
  waiters.resolveTo(pushed);
  t.strictSame(
    events,
    Array.from({ length: pushed }, (_, i) => `resolve ${i + 1}`),
  );
});

t.test("Waiters lets a waiter push another while it resolves", async (t) => {
  const events: string[] = [];
  const waiters = new Waiters();
  waiters.push({
    ...noting(events, 1),
    resolve: () => {
      events.push("resolve 1");
      waiters.push(noting(events, 2));
      waiters.push(noting(events, 9));
    },
  });
  waiters.resolveTo(5);
  t.strictSame(events, ["resolve 1", "resolve 2"]);
  t.equal(waiters.size, 1);
});
