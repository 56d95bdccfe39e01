import { getEventListeners } from "node:events";
import t from "tap";
import { Arrivals } from "../../lib/dispatch/arrivals.ts";
import { turns } from "../support/random.ts";

/** Whether a promise has settled by now. */
async function settled(promise: Promise<void>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await turns(1);
  return done;
}

t.test("Arrivals.wake() wakes those who wait for that queue, once", async (t) => {
  const arrivals = new Arrivals();
  const waits = [arrivals.wait("T", 0), arrivals.wait("T", 0)] as const;
  const others = [arrivals.wait("T", 1), arrivals.wait("U", 0)] as const;
  arrivals.wake("T", 2);
  arrivals.wake("T", 0);
  for (const wait of waits) t.ok(await settled(wait));
  for (const other of others) t.notOk(await settled(other));
  const again = arrivals.wait("T", 0);
  t.notOk(await settled(again), "who waits anew waits for the next");
  arrivals.wakeAll();
  for (const wait of [again, ...others]) t.ok(await settled(wait));
  arrivals.wake("T", 0);
  arrivals.wakeAll();
});

t.test("Arrivals.wait() ends when its signal aborts", async (t) => {
  const arrivals = new Arrivals();
  t.ok(await settled(arrivals.wait("T", 0, AbortSignal.abort())));
  const controller = new AbortController();
  const wait = arrivals.wait("T", 0, controller.signal);
  const other = arrivals.wait("T", 0);
  t.notOk(await settled(wait));
  controller.abort();
  t.ok(await settled(wait));
  t.notOk(await settled(other), "alone");
});

t.test("Arrivals.wait() leaves no listener behind", async (t) => {
  const arrivals = new Arrivals();
  const { signal } = new AbortController();
  for (let i = 0; i < 1000; i++) {
    const wait = arrivals.wait("T", 0, signal);
    arrivals.wake("T", 0);
    await wait;
  }
  t.equal(getEventListeners(signal, "abort").length, 0);
  const controller = new AbortController();
  const wait = arrivals.wait("T", 0, controller.signal);
  controller.abort();
  await wait;
  t.equal(getEventListeners(controller.signal, "abort").length, 0);
});

t.test("Arrivals.wake() lets those whom it wakes wait again at once", async (t) => {
  const arrivals = new Arrivals();
  let woken = 0;
  const consumer = async (): Promise<void> => {
    while (woken < 5) {
      await arrivals.wait("T", 0);
      woken++;
    }
  };
  const done = consumer();
  for (let i = 1; i <= 5; i++) {
    arrivals.wake("T", 0);
    await turns(1);
    t.equal(woken, i);
  }
  await done;
});
