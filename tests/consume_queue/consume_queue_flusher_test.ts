import t, { type Test } from "tap";
import {
  ConsumeQueueFlusher,
  type FlusherContext,
} from "../../lib/consume_queue/consume_queue_flusher.ts";
import { ConsumeQueueTable } from "../../lib/consume_queue/consume_queue_table.ts";
import { StoreError } from "../../lib/errors.ts";
import { resolveOptions, type StoreOptions } from "../../lib/options.ts";
import { FakeClock } from "../../lib/testing/mod.ts";
import { fill, plainQueue, QueueRig } from "../support/queue_rig.ts";
import { turns, until } from "../support/random.ts";

/** Two pages, in units. */
const TWO_PAGES = Math.ceil((2 * 4096) / 20);

function setUp(t: Test, options: StoreOptions = {}, more: Partial<FlusherContext<string>> = {}) {
  const rig = new QueueRig(t, 1000);
  const queues = new ConsumeQueueTable(rig.context);
  const clock = new FakeClock();
  const events: string[] = [];
  const warnings: StoreError[] = [];
  const failures: StoreError[] = [];
  let marks = 0;
  const flusher = new ConsumeQueueFlusher<string>({
    queues,
    clock,
    options: resolveOptions(options),
    capture: () => {
      events.push("capture");
      return `mark ${++marks}`;
    },
    forceLog: async (mark) => {
      events.push(`log forced for ${mark}, ${rig.fs.count("open")} files opened`);
    },
    publish: async (mark) => {
      const unforced = [...queues].filter(
        ({ unwrittenBytes, hasUnforcedFiles }) => unwrittenBytes > 0 || hasUnforcedFiles,
      );
      events.push(`published ${mark}, ${unforced.length} queues unforced`);
    },
    warn: (error) => warnings.push(error),
    failed: (error) => failures.push(error),
    ...more,
  });
  t.teardown(() => {
    rig.fs.clear();
    return flusher.close();
  });
  const queue = (id: number) => plainQueue(queues, "T", id);
  return { rig, queues, clock, events, warnings, failures, flusher, queue };
}

t.test("ConsumeQueueFlusher.flush() forces the log, then the queues, then publishes", async (t) => {
  const { rig, flusher, events, queue } = setUp(t);
  for (const id of [0, 1, 2]) fill(queue(id), 3);
  await flusher.flush();
  t.strictSame(events, [
    "capture",
    "log forced for mark 1, 0 files opened",
    "published mark 1, 0 queues unforced",
  ]);
  fill(queue(1), 6);
  const before = rig.fs.calls.length;
  await flusher.flush();
  t.strictSame(
    rig.fs.calls.slice(before).map(({ name }) => name),
    ["pwritev", "fdatasync", "stat"],
    "only what has changed is written and synced",
  );
});

t.test("ConsumeQueueFlusher.flush() leaves what came after its mark unclaimed", async (t) => {
  const { rig, flusher, events, queue } = setUp(t);
  fill(queue(0), 3);
  const held = rig.fs.hold("rename");
  const flush = flusher.flush();
  await held.waiting;
  fill(queue(0), 5);
  fill(queue(1), 5);
  held.release();
  await flush;
  t.equal(events.filter((event) => event === "capture").length, 1, "captured once, at the start");
});

t.test("ConsumeQueueFlusher.flush() is shared by those who call before it begins", async (t) => {
  const { rig, flusher, events, queue } = setUp(t);
  fill(queue(0), 3);
  const held = rig.fs.hold("rename");
  const first = flusher.flush();
  await held.waiting;
  const later = [flusher.flush(), flusher.flush()];
  t.equal(later[0], later[1], "one round for both");
  t.not(later[0], first, "and not the one that has begun");
  held.release();
  await Promise.all([first, ...later]);
  t.equal(events.filter((event) => event === "capture").length, 2);
});

t.test("ConsumeQueueFlusher.touched() brings a round that writes full pages only", async (t) => {
  const { rig, flusher, clock, queue, events } = setUp(t);
  fill(queue(0), TWO_PAGES - 1);
  fill(queue(1), TWO_PAGES);
  flusher.touched();
  flusher.touched();
  t.equal(clock.pendingTimers, 1);
  await clock.advance(999);
  t.equal(rig.fs.calls.length, 0);
  await clock.advance(1);
  await until(() => queue(1).unwritten === 0);
  t.equal(queue(0).unwritten, TWO_PAGES - 1);
  fill(queue(0), TWO_PAGES);
  await until(() => clock.pendingTimers === 1);
  await clock.advance(1000);
  await until(() => queue(0).unwritten === 0);
  t.strictSame(events, [], "no thorough round yet");
  await turns(5);
  t.equal(clock.pendingTimers, 0, "and none comes for nothing");
});

t.test("ConsumeQueueFlusher has a thorough round after its interval", async (t) => {
  const { flusher, clock, queue, events } = setUp(t, {
    flushConsumeQueueThoroughInterval: 5000,
  });
  fill(queue(0), 1);
  flusher.touched();
  for (let second = 0; second < 4; second++) {
    await clock.advance(1000);
    await until(() => clock.pendingTimers === 1);
  }
  t.equal(queue(0).unwritten, 1);
  t.strictSame(events, []);
  await clock.advance(1000);
  await until(() => events.length === 3);
  t.match(events[2], /^published mark 1, 0 queues/);
});

t.test("ConsumeQueueFlusher with flushConsumeQueueLeastPages 0 writes any unit", async (t) => {
  const { flusher, clock, queue } = setUp(t, { flushConsumeQueueLeastPages: 0 });
  fill(queue(0), 1);
  flusher.touched();
  await clock.advance(1000);
  await until(() => queue(0).unwritten === 0);
  t.pass("written");
});

t.test("ConsumeQueueFlusher tries a failed write again, and claims nothing before", async (t) => {
  const { rig, flusher, clock, queue, events, warnings, failures } = setUp(t);
  fill(queue(0), TWO_PAGES);
  rig.fs.failNext("rename", "ENOSPC");
  flusher.touched();
  await clock.advance(1000);
  await until(() => warnings.length === 1);
  t.match(warnings[0], { code: "STORE_IO", cause: { code: "ENOSPC" } });
  t.equal(queue(0).unwritten, TWO_PAGES);
  await until(() => clock.pendingTimers === 1);
  await clock.advance(1000);
  await until(() => queue(0).unwritten === 0);
  t.strictSame(failures, [], "it is no end");

  fill(queue(0), TWO_PAGES + 1);
  rig.fs.failNext("pwritev", "ENOSPC");
  await t.rejects(flusher.flush(), { code: "STORE_IO" });
  t.notOk(events.some((event) => event.startsWith("published")));
  await flusher.flush();
  t.match(events.at(-1), /^published mark 2, 0 queues/);
});

t.test("ConsumeQueueFlusher publishes nothing if the log can't be forced", async (t) => {
  const failure = new StoreError("STORE_IO", "Cannot sync the log");
  const { flusher, events, queue, rig } = setUp(t, {}, { forceLog: () => Promise.reject(failure) });
  fill(queue(0), 1);
  await t.rejects(flusher.flush(), failure);
  t.strictSame(events, ["capture"]);
  t.equal(rig.fs.calls.length, 0, "no unit outlives its record");
});

t.test("ConsumeQueueFlusher never believes a queue again after a failed sync", async (t) => {
  const { rig, flusher, clock, queue, events, failures } = setUp(t);
  fill(queue(0), 2);
  await flusher.flush();
  fill(queue(0), 4);
  rig.fs.failNext("fdatasync", "EIO");
  await t.rejects(flusher.flush(), { code: "STORE_IO", cause: { code: "EIO" } });
  t.equal(failures.length, 1);
  t.equal(events.filter((event) => event.startsWith("published")).length, 1);
  const syncs = rig.fs.count("fdatasync");
  await t.rejects(flusher.flush(), { code: "STORE_IO", cause: { code: "EIO" } });
  flusher.touched();
  await clock.advance(200_000);
  await turns(20);
  t.equal(rig.fs.count("fdatasync"), syncs, "the sync is not tried again");
  t.equal(events.filter((event) => event.startsWith("published")).length, 1);
});

t.test(
  "ConsumeQueueFlusher.close() waits for the round under way, and ends the rest",
  async (t) => {
    const { rig, flusher, clock, queue } = setUp(t);
    fill(queue(0), TWO_PAGES);
    flusher.touched();
    const held = rig.fs.hold("rename");
    await clock.advance(1000);
    await held.waiting;
    let closed = false;
    const close = flusher.close().then(() => {
      closed = true;
    });
    await turns(10);
    t.notOk(closed);
    held.release();
    await close;
    t.equal(queue(0).unwritten, 0);
    fill(queue(0), 2 * TWO_PAGES);
    flusher.touched();
    t.equal(clock.pendingTimers, 0);
  },
);
