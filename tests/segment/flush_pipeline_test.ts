import { getEventListeners } from "node:events";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import t, { type Test } from "tap";
import { StoreError } from "../../lib/errors.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OverlayFileSystem } from "../../lib/io/overlay_file_system.ts";
import type { StoreOptions } from "../../lib/options.ts";
import { verifyIdentity } from "../../lib/segment/flush_pipeline.ts";
import type { Segment } from "../../lib/segment/segment.ts";
import { PipelineRig } from "../support/pipeline_rig.ts";
import { randomOf, seedOf, turns, until } from "../support/random.ts";

const PAGE = 4096;
/** Random interleavings of each mode. */
const RUNS = Number(process.env.RUNS ?? 12);
const SYNC: StoreOptions = { flushDiskType: "SYNC_FLUSH" };
const ASYNC: StoreOptions = { flushDiskType: "ASYNC_FLUSH" };
const POOL: StoreOptions = { ...ASYNC, transientStorePoolEnable: true };

const ALL_MODES: Readonly<Record<string, StoreOptions>> = {
  SYNC_FLUSH: SYNC,
  "SYNC_FLUSH, readUnCommitted": { ...SYNC, readUnCommitted: true },
  "SYNC_FLUSH with the pool": { ...SYNC, transientStorePoolEnable: true },
  ASYNC_FLUSH: ASYNC,
  "ASYNC_FLUSH that wakes its flush service": {
    ...ASYNC,
    wakeFlushWhenPutMessage: true,
    flushCommitLogTimed: false,
  },
  "the pool": POOL,
  "the pool that does not wake its commit service": { ...POOL, wakeCommitWhenPutMessage: false },
};

/** Collects how promises end, and never lets one go unhandled. */
function outcomes(promises: readonly Promise<unknown>[]): Promise<string[]> {
  return Promise.all(
    promises.map((promise) =>
      promise.then(
        () => "ok",
        (error: Error) => error.message,
      ),
    ),
  );
}

async function committedTo(rig: PipelineRig, offset: number): Promise<void> {
  await until(() => rig.pipeline.committed >= offset, `committed ${offset}`);
}

async function flushedTo(rig: PipelineRig, offset: number): Promise<void> {
  await until(() => rig.pipeline.flushed >= offset, `flushed ${offset}`);
}

t.test("FlushPipeline.promised() is what the mode and WAIT say", async (t) => {
  for (const [options, wait, promised] of [
    [SYNC, true, "force"],
    [SYNC, false, "commit"],
    [ASYNC, true, "commit"],
    [ASYNC, false, "commit"],
    [POOL, true, "append"],
    [POOL, false, "append"],
    [{ ...SYNC, transientStorePoolEnable: true }, true, "force"],
    [{ ...SYNC, transientStorePoolEnable: true }, false, "append"],
  ] as const) {
    const rig = await PipelineRig.make(t, options);
    t.equal(rig.pipeline.promised(wait), promised, JSON.stringify({ options, wait }));
  }
});

t.test("FlushPipeline keeps the promise of every mode, over several files", async (t) => {
  for (const [name, options] of Object.entries(ALL_MODES)) {
    const rig = await PipelineRig.make(t, options);
    const puts = Array.from({ length: 100 }, (_, i) => rig.put(2000 + i, i % 3 > 0));
    await Promise.all(puts);
    await rig.pipeline.flush();
    t.equal(rig.pipeline.flushed, rig.pipeline.wrote, name);
    await rig.pipeline.close();
    t.ok(rig.forcingMax <= 1, `${name}: at most one force in flight`);
    t.equal(rig.buffer.pendingBytes, 0);
    rig.checkFiles();
  }
});

t.test("FlushPipeline resolves puts in the order of the log", async (t) => {
  for (const options of [SYNC, ASYNC]) {
    const rig = await PipelineRig.make(t, options);
    const puts: Promise<unknown>[] = [];
    for (let i = 0; i < 50; i++) {
      puts.push(rig.put(1000));
      if (i % 7 === 0) await turns(1);
    }
    await Promise.all(puts);
    const order = rig.events.filter((event) => event.startsWith("put"));
    const sorted = [...order].sort((a, b) => Number(a.slice(4)) - Number(b.slice(4)));
    t.strictSame(order, sorted, JSON.stringify(options));
  }
});

t.test("FlushPipeline tells its listener before the puts that waited resolve", async (t) => {
  const rig = await PipelineRig.make(t, SYNC);
  await Promise.all([rig.put(10), rig.put(10)]);
  t.strictSame(rig.events, ["committed 20", "flushed 20", "put 0", "put 10"]);
});

// SYNC_FLUSH: group commit.

t.test("FlushPipeline in SYNC_FLUSH lets the puts of one turn share one force", async (t) => {
  const rig = await PipelineRig.make(t, SYNC);
  await Promise.all(Array.from({ length: 64 }, () => rig.put(100)));
  t.equal(rig.syncs, 1);
  t.equal(rig.fs.count("commitAndForce"), 1, "written and synced in one hop");
  t.equal(rig.pipeline.counters.forces, 1);
  t.equal(rig.pipeline.flushed, 6400);
});

t.test("FlushPipeline lets those who come during a force join the next one", async (t) => {
  for (const options of [SYNC, { ...SYNC, transientStorePoolEnable: true }]) {
    const rig = await PipelineRig.make(t, options);
    const held = rig.fs.hold("fdatasync");
    const first = rig.put(100);
    await held.waiting;
    const later = [rig.put(100), rig.put(100)];
    await turns(3);
    later.push(rig.put(100));
    await turns(20);
    t.equal(rig.syncs, 1, "one force in flight");
    t.equal(held.held, 1);
    t.equal(rig.pipeline.flushed, 0);
    held.release();
    await first;
    t.ok(rig.pipeline.flushed === 100, "it covers only what was written before it began");
    await Promise.all(later);
    t.equal(rig.syncs, 2, "all later ones share the next");
    t.strictSame(
      rig.events.filter((event) => event.startsWith("put")),
      ["put 0", "put 100", "put 200", "put 300"],
    );
  }
});

t.test("FlushPipeline forces all files of a put that rolled, in ascending order", async (t) => {
  const rig = await PipelineRig.make(t, SYNC, { fileSize: 8192 });
  await rig.put(4000);
  const before = rig.fs.calls.length;
  const { end } = await rig.put(8000);
  t.equal(end, 8192 + 8000);
  t.equal(rig.pipeline.flushed, end);
  const synced = rig.fs.calls.slice(before).filter(({ name }) => name === "fdatasync");
  t.strictSame(
    synced.map(({ path }) => path),
    rig.queue.segments.map(({ path }) => path),
  );
  rig.checkFiles();
});

t.test("FlushPipeline.flush() forces several committed files in ascending order", async (t) => {
  for (const options of [ASYNC, POOL]) {
    const rig = await PipelineRig.make(t, options, { fileSize: 8192 });
    await Promise.all(Array.from({ length: 8 }, () => rig.put(4000)));
    await rig.pipeline.flush();
    t.equal(rig.pipeline.flushed, rig.pipeline.wrote);
    const synced = rig.fs.calls.filter(({ name }) => name === "fdatasync").map(({ path }) => path);
    t.strictSame(
      synced,
      rig.queue.segments.map(({ path }) => path),
    );
  }
});

t.test("FlushPipeline.durable() does not hurry the force", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  const { end } = await rig.put(100);
  let durable = false;
  const waits = rig.pipeline.durable(end).then(() => {
    durable = true;
  });
  await turns(20);
  t.notOk(durable);
  t.equal(rig.syncs, 0);
  await rig.clock.advance(500);
  await waits;
  t.equal(rig.syncs, 1);
  await rig.pipeline.durable(end);
  await rig.pipeline.flush();
  t.equal(rig.syncs, 1, "nothing is left to force");
});

t.test("FlushPipeline.durable() ends when its signal aborts, and keeps no listener", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  const { end } = await rig.put(100);
  const reason = new Error("enough");
  await t.rejects(rig.pipeline.durable(end, AbortSignal.abort(reason)), reason);
  const controller = new AbortController();
  const { signal } = controller;
  const aborted = outcomes([rig.pipeline.durable(end, signal)]);
  const other = rig.pipeline.durable(end);
  controller.abort(reason);
  t.strictSame(await aborted, ["enough"]);
  t.equal(getEventListeners(signal, "abort").length, 0);
  const fresh = new AbortController().signal;
  const resolved = rig.pipeline.durable(end, fresh);
  await rig.pipeline.flush();
  await Promise.all([other, resolved]);
  t.equal(getEventListeners(fresh, "abort").length, 0);
  await rig.pipeline.durable(end, AbortSignal.abort(reason));
  t.pass("what is durable already needs no wait");
});

t.test("FlushPipeline in SYNC_FLUSH commits for a put that does not wait", async (t) => {
  const rig = await PipelineRig.make(t, SYNC);
  const held = rig.fs.hold("fdatasync");
  await rig.put(100, false);
  t.equal(rig.pipeline.committed, 100, "resolved once committed, as in ASYNC_FLUSH");
  t.equal(rig.pipeline.flushed, 0);
  await held.waiting;
  held.release();
  await flushedTo(rig, 100);
});

t.test("FlushPipeline in SYNC_FLUSH with the pool commits first, without waiting", async (t) => {
  const rig = await PipelineRig.make(t, { ...SYNC, transientStorePoolEnable: true });
  await rig.put(100, false);
  t.equal(rig.pipeline.committed, 0, "with the pool it is in the write buffer");
  await rig.put(100);
  t.equal(rig.pipeline.flushed, 200);
  t.equal(rig.clock.monotonic(), 0, "no interval went by");
});

// Deadlines.

t.test("FlushPipeline expires a put whose force takes too long, and goes on", async (t) => {
  const rig = await PipelineRig.make(t, { ...SYNC, syncFlushTimeout: 50 });
  const held = rig.fs.hold("fdatasync");
  const first = outcomes([rig.put(100)]);
  await held.waiting;
  await rig.clock.advance(30);
  const second = outcomes([rig.put(100)]);
  await rig.clock.advance(19);
  t.notOk(await Promise.race([first, turns(2)]), "not before its time");
  await rig.clock.advance(1);
  t.strictSame(await first, ["timeout 0"]);
  t.notOk(await Promise.race([second, turns(2)]), "each has its own deadline");
  await rig.clock.advance(30);
  t.strictSame(await second, ["timeout 100"]);
  held.release();
  await flushedTo(rig, 200);
  await rig.put(100);
  t.equal(rig.pipeline.flushed, 300, "what timed out is forced all the same");
  t.equal(rig.pipeline.failure, undefined);
  rig.checkFiles();
});

t.test("FlushPipeline has no deadline for a put that waits for a commit only", async (t) => {
  const rig = await PipelineRig.make(t, { ...ASYNC, syncFlushTimeout: 50 });
  const held = rig.fs.hold("pwritev");
  const put = rig.put(100);
  await held.waiting;
  await rig.clock.advance(10_000);
  t.equal(rig.pipeline.busyForMs, 10_000);
  held.release();
  await put;
  t.equal(rig.pipeline.busyForMs, 0);
});

t.test("FlushPipeline reports a slow force with its time", async (t) => {
  const rig = await PipelineRig.make(t, SYNC);
  const held = rig.fs.hold("fdatasync");
  const put = rig.put(100);
  await held.waiting;
  await rig.clock.advance(501);
  held.release();
  await put;
  t.strictSame(rig.slowForces, [501]);
  t.equal(rig.pipeline.counters.longestForceMs, 501);
});

// The latch.

t.test("FlushPipeline latches on the first failed sync", async (t) => {
  for (const [name, options] of Object.entries(ALL_MODES)) {
    const rig = await PipelineRig.make(t, options);
    rig.fs.failNext("fdatasync", "EIO");
    const held = rig.fs.hold("fdatasync");
    const waits = [
      rig.put(100),
      rig.put(100, false),
      rig.pipeline.durable(200),
      rig.pipeline.flush(),
    ];
    await held.waiting;
    waits.push(rig.put(100), rig.pipeline.durable(250), rig.pipeline.flush());
    const ends = outcomes(waits);
    await turns(10);
    // Written beside the sync, in a thread.
    if (options.flushDiskType === "ASYNC_FLUSH") await waits[4];
    held.release();
    const found = await ends;
    const { failure } = rig.pipeline;
    t.match(failure, { code: "STORE_IO", position: 0, offset: 0, cause: { code: "EIO" } }, name);
    t.match(failure?.message, /^Cannot (write|sync) .*00000 at 0$/);
    const { flushDiskType, transientStorePoolEnable } = options;
    const forced = flushDiskType === "SYNC_FLUSH";
    t.equal(found[0], forced ? "failed 0" : "ok", `${name}: a put`);
    t.equal(found[4], forced ? "failed 200" : "ok", `${name}: a put that came meanwhile`);
    t.ok(forced || transientStorePoolEnable || found[1] === "ok", `${name}: committed before`);
    for (const i of [2, 3, 5, 6]) t.equal(found[i], failure?.message, `${name}: ${i}`);
    t.strictSame(rig.failures, [failure], "told once");
    const calls = rig.fs.calls.length;
    t.strictSame(
      await outcomes([
        rig.put(100),
        rig.put(100, false),
        rig.pipeline.flush(),
        rig.pipeline.durable(300),
      ]),
      ["failed 300", "failed 400", failure?.message, failure?.message],
    );
    await rig.clock.advance(100_000);
    t.strictSame(await outcomes([rig.pipeline.close()]), [failure?.message]);
    t.equal(rig.pipeline.flushed, 0);
    t.equal(rig.syncs, 1, `${name}: the sync is never tried again`);
    t.equal(rig.fs.calls.length, calls, `${name}: and nothing is written`);
  }
});

t.test("FlushPipeline gives every waiter the same cause", async (t) => {
  const rig = await PipelineRig.make(t, SYNC);
  rig.fs.failNext("fdatasync", "EIO");
  const puts = [rig.put(10), rig.put(10), rig.put(10)];
  const errors = await Promise.all(puts.map((put) => put.catch((error: Error) => error)));
  for (const error of errors) t.equal((error as Error).cause, rig.pipeline.failure);
});

t.test("FlushPipeline latches on a failed write", async (t) => {
  for (const [name, options] of Object.entries(ALL_MODES)) {
    for (const warm of [true, false]) {
      const rig = await PipelineRig.make(t, options);
      if (warm) await rig.warm();
      await Promise.all([rig.put(100), rig.pipeline.flush()]);
      rig.fs.failNext(["pwritev", "pwritevNow"], "EIO");
      const found = await outcomes([rig.put(100), rig.pipeline.flush()]);
      const { failure } = rig.pipeline;
      t.match(failure, { code: "STORE_IO", position: 100, offset: 100 }, name);
      t.match(failure?.cause, { code: "EIO" });
      t.equal(found[1], failure?.message);
      if (!options.transientStorePoolEnable || options.flushDiskType === "SYNC_FLUSH") {
        t.equal(found[0], "failed 100");
      }
      t.equal(rig.pipeline.committed, 100, `${name}: committed moves only by what was written`);
      t.equal(rig.pipeline.flushed, 100);
      t.strictSame(await outcomes([rig.pipeline.close()]), [failure?.message]);
    }
  }
});

t.test("FlushPipeline writes again what found no space, once there is some", async (t) => {
  for (const [name, options] of Object.entries(ALL_MODES)) {
    for (const code of ["ENOSPC", "EDQUOT"]) {
      for (const warm of [true, false]) {
        const rig = await PipelineRig.make(t, options);
        if (warm) await rig.warm();
        await Promise.all([rig.put(100), rig.pipeline.flush()]);
        rig.fs.shorten(["pwritev", "pwritevNow", "commitAndForce"], [7]);
        const full = { skip: 1, times: Number.POSITIVE_INFINITY };
        rig.fs.failNext(["pwritev", "pwritevNow"], code, full);
        const found = await outcomes([rig.put(100), rig.put(50), rig.pipeline.flush()]);
        const { noSpace } = rig.pipeline;
        t.match(noSpace, { code: "STORE_IO", position: 100, cause: { code } }, name);
        t.equal(found[2], noSpace?.message);
        const isKept = options.transientStorePoolEnable && options.flushDiskType === "ASYNC_FLUSH";
        t.strictSame(found.slice(0, 2), isKept ? ["ok", "ok"] : ["failed 100", "failed 200"]);
        t.equal(rig.pipeline.failure, undefined);
        t.equal(rig.pipeline.committed, 100);

        await rig.clock.advance(2000);
        await turns(10);
        t.equal(rig.pipeline.noSpace?.code, "STORE_IO", "still none");
        t.equal(rig.noSpace.length, 1, "told once");
        rig.fs.clear();
        await rig.clock.advance(500);
        await until(() => rig.pipeline.committed === 250);
        t.equal(rig.pipeline.noSpace, undefined);
        t.strictSame(rig.noSpace, [noSpace?.message, "space"]);
        await Promise.all([rig.put(100), rig.pipeline.flush()]);
        t.equal(rig.pipeline.flushed, 350);
        rig.checkFiles();
        await rig.pipeline.close();
      }
    }
  }
});

t.test("FlushPipeline.close() without space tries once more, and says so", async (t) => {
  for (const [name, options] of Object.entries(ALL_MODES)) {
    const rig = await PipelineRig.make(t, options);
    await Promise.all([rig.put(100), rig.pipeline.flush()]);
    rig.fs.failNext(["pwritev", "pwritevNow"], "ENOSPC", { times: Number.POSITIVE_INFINITY });
    await outcomes([rig.put(100), rig.pipeline.flush()]);
    const before = rig.fs.count("pwritev") + rig.fs.count("pwritevNow");
    t.match(await outcomes([rig.pipeline.close()]), [/Cannot write/], name);
    t.equal(rig.fs.count("pwritev") + rig.fs.count("pwritevNow"), before + 1);
    t.equal(rig.clock.pendingTimers, 0, name);
    t.equal(rig.pipeline.committed, 100);
  }
});

t.test("FlushPipeline latches on a sync that found no space", async (t) => {
  for (const options of [SYNC, ASYNC, POOL]) {
    const rig = await PipelineRig.make(t, options);
    rig.fs.failNext("fdatasync", "ENOSPC");
    await outcomes([rig.put(100), rig.pipeline.flush()]);
    t.match(rig.pipeline.failure, { code: "STORE_IO", cause: { code: "ENOSPC" } });
    t.equal(rig.pipeline.noSpace, undefined);
  }
});

t.test(
  "FlushPipeline: callers who put again at once share one force after the other",
  async (t) => {
    for (const callers of [1, 64, 128]) {
      const rig = await PipelineRig.make(t, SYNC);
      await Promise.all(
        Array.from({ length: callers }, async () => {
          for (let i = 0; i < 20; i++) await rig.put(10);
        }),
      );
      const forces = rig.fs.calls.filter(({ name }) => name === "commitAndForce");
      t.strictSame(
        forces.map(({ length }) => length),
        Array(20).fill(callers * 10),
      );
      t.equal(rig.forcingMax, 1, "never two at once");
      await rig.pipeline.close();
      rig.checkFiles();
    }
  },
);

t.test("FlushPipeline.close() settles what waits for more than there is", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  await rig.put(100);
  const beyond = outcomes([rig.pipeline.durable(1000)]);
  await rig.pipeline.close();
  t.equal(rig.pipeline.flushed, 100);
  t.match(await Promise.race([beyond, turns(3)]), [/closed/]);
  await t.rejects(rig.pipeline.durable(1000), { code: "STORE_CLOSED" });
});

t.test("FlushPipeline.fail() ends all writing from outside, once", async (t) => {
  const rig = await PipelineRig.make(t, SYNC);
  const held = rig.fs.hold("fdatasync");
  const put = outcomes([rig.put(100)]);
  await held.waiting;
  const failure = new StoreError("STORE_QUEUE_DAMAGED", "Cannot go on");
  rig.pipeline.fail(failure);
  rig.pipeline.fail(new StoreError("STORE_IO", "another"));
  t.equal(rig.pipeline.failure, failure);
  t.strictSame(await put, ["failed 0"]);
  held.release();
  await t.rejects(rig.pipeline.close(), failure);
  t.equal(rig.pipeline.flushed, 0, "nothing moves afterwards");
});

t.test("FlushPipeline writes what a short write left, and no byte twice", async (t) => {
  for (const [name, options] of Object.entries(ALL_MODES)) {
    for (const warm of [true, false]) {
      const rig = await PipelineRig.make(t, options);
      if (warm) await rig.warm();
      rig.fs.shorten(["pwritev", "pwritevNow"], [1, 7, "half", "half"]);
      rig.fs.failNext(["pwritev", "pwritevNow"], "EAGAIN", { skip: 2 });
      rig.fs.failNext(["pwritev", "pwritevNow"], "EINTR", { skip: 3 });
      await Promise.all([rig.put(1000), rig.put(500), rig.pipeline.flush()]);
      t.equal(rig.pipeline.flushed, 1500, name);
      rig.checkFiles();
    }
  }
});

t.test("FlushPipeline latches on a write that takes no byte", async (t) => {
  for (const warm of [true, false]) {
    const rig = await PipelineRig.make(t, ASYNC);
    if (warm) await rig.warm();
    rig.fs.shorten(["pwritev", "pwritevNow"], [10, 0]);
    t.strictSame(await outcomes([rig.put(1000)]), ["failed 0"]);
    t.match(rig.pipeline.failure?.cause, { code: "EIO" });
    t.equal(rig.pipeline.committed, 0);
  }
});

// ASYNC_FLUSH: commits.

t.test("FlushPipeline in ASYNC_FLUSH serves all puts of a turn with one write", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  await rig.warm();
  const puts = Array.from({ length: 64 }, () => rig.put(500));
  // Those that a microtask of this turn puts are in it too.
  puts.push(Promise.resolve().then(() => rig.put(500)));
  await Promise.all(puts);
  t.equal(rig.fs.count("pwritevNow"), 1);
  t.equal(rig.fs.count("pwritev"), 0);
  t.equal(rig.pipeline.counters.commits, 1);
  t.equal(rig.pipeline.counters.committedBytes, 65 * 500);
  t.equal(rig.syncs, 0);
});

t.test("FlushPipeline in ASYNC_FLUSH writes much at once in a thread", async (t) => {
  for (const [bytes, now] of [
    [256 * 1024, 1],
    [256 * 1024 + 1, 0],
  ] as const) {
    const rig = await PipelineRig.make(t, ASYNC, { fileSize: 1024 * 1024 });
    await rig.warm();
    await rig.put(bytes);
    t.equal(rig.fs.count("pwritevNow"), now, `${bytes} bytes`);
    t.equal(rig.fs.count("pwritev"), 1 - now);
  }
});

t.test("FlushPipeline goes through a thread while the kernel holds writers back", async (t) => {
  const rig = await PipelineRig.make(t, { ...ASYNC, flushIntervalCommitLog: 1e9 });
  const { pwritevNow } = slowWrites(rig, 10);
  await rig.warm();
  let count = 0;
  for (const pauseMs of [10, 40, 160, 640, 640]) {
    await rig.put(100);
    t.equal(pwritevNow(), ++count, "one that stands still");
    const inThread = rig.fs.count("pwritev");
    await rig.put(100);
    await rig.clock.advance(pauseMs - 1);
    await rig.put(100);
    t.equal(rig.fs.count("pwritev"), inThread + 2, `in a thread for ${pauseMs} ms`);
    await rig.clock.advance(1);
  }
  for (let i = 0; i < 2; i++) {
    await rig.clock.advance(200);
    await rig.put(100);
    await rig.clock.advance(10);
  }
  t.equal(pwritevNow(), count + 2, "an accident costs as long as it took");
  rig.checkFiles();
});

t.test("FlushPipeline goes on at once after a write that only lost its processor", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  const { pwritevNow } = slowWrites(rig, 9);
  await rig.warm();
  for (let i = 0; i < 3; i++) await rig.put(100);
  t.equal(pwritevNow(), 3);
});

t.test("FlushPipeline goes through a thread beside a sync, which holds writers up", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  await rig.warm();
  await rig.put(100);
  const held = rig.fs.hold("fdatasync");
  const flushed = rig.pipeline.flush();
  await held.waiting;
  await rig.put(100);
  t.equal(rig.fs.count("pwritevNow"), 1);
  t.equal(rig.fs.count("pwritev"), 1, "beside the sync");
  held.release();
  await flushed;
  t.equal(rig.pipeline.flushed, 100, "which did not cover it");
  await rig.put(100);
  t.equal(rig.fs.count("pwritevNow"), 2, "at once again after it");
  rig.checkFiles();
});

t.test("FlushPipeline takes an awaiting producer back from the thread", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  // The first put opens the file: in a thread.
  for (let i = 0; i < 5; i++) await promiseOf(rig, true);
  t.equal(rig.fs.count("pwritev"), 1);
  t.equal(rig.fs.count("pwritevNow"), 4);
});

t.test("FlushPipeline forces under a producer that awaits each commit", async (t) => {
  const rig = await PipelineRig.make(t, SYNC, { fileSize: 4 * 1024 * 1024 });
  let forced = false;
  let puts = 0;
  const producer = async (): Promise<void> => {
    for (; !forced && puts < 1000; puts++) await promiseOf(rig, false);
  };
  const produced = producer();
  await rig.put(100);
  forced = true;
  await produced;
  t.ok(puts < 1000, `forced after ${puts}`);
});

t.test("FlushPipeline tells many puts of their end in several turns, in order", async (t) => {
  for (const [name, options] of Object.entries({ SYNC, ASYNC })) {
    const rig = await PipelineRig.make(t, options, { fileSize: 4 * 1024 * 1024 });
    const told: number[] = [];
    const perTurn = [0];
    const puts = Array.from({ length: 600 }, (_, i) =>
      rig.put(100).then(() => {
        told.push(i);
        perTurn[perTurn.length - 1]!++;
      }),
    );
    let done = false;
    const count = (): void => {
      perTurn.push(0);
      if (!done) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(puts);
    done = true;
    t.strictSame(
      told,
      Array.from({ length: 600 }, (_, i) => i),
      name,
    );
    t.strictSame(
      perTurn.filter((puts) => puts > 0),
      [...Array(9).fill(64), 24],
    );
    const large = Array.from({ length: 3 }, () => rig.put(1024 * 1024 - 1));
    await large[0];
    const settled = await Promise.race([large[2]?.then(() => true), turns(0).then(() => false)]);
    t.equal(settled, false, "megabytes one by one");
    await Promise.all(large);
  }
});

/** The pipeline's own promise: its caller goes on at once. */
function promiseOf(rig: PipelineRig, wait: boolean): Promise<unknown> {
  const { pipeline } = rig;
  const { end } = rig.append(100);
  const unexpected = () => new Error("it does not fail");
  return pipeline.keep(pipeline.promised(wait), end, end, {
    expired: unexpected,
    failed: unexpected,
  });
}

/** Every write on the main thread takes so long. */
function slowWrites(rig: PipelineRig, ms: number) {
  const monotonic = rig.clock.monotonic.bind(rig.clock);
  const pwritevNow = () => rig.fs.count("pwritevNow");
  rig.clock.monotonic = () => monotonic() + ms * pwritevNow();
  return { pwritevNow };
}

t.test(
  "FlushPipeline lets the event loop turn under a producer that awaits each put",
  async (t) => {
    for (const [name, options] of Object.entries(ALL_MODES)) {
      const rig = await PipelineRig.make(t, options, {
        fileSize: 4 * 1024 * 1024,
        base: new OverlayFileSystem(new NodeFileSystem({ native: "off" })),
        // A thread is back in a later turn.
        delay: () => turns(1),
      });
      await rig.warm();
      let done = false;
      let immediates = 0;
      let most = 0;
      let since = 0;
      const count = (): void => {
        immediates++;
        since = 0;
        if (!done) setImmediate(count);
      };
      setImmediate(count);
      let timerFired = false;
      setTimeout(() => {
        timerFired = true;
      }, 1);
      const startedAt = performance.now();
      for (let i = 0; i < 300 || (performance.now() - startedAt < 20 && i < 5000); i++) {
        await rig.put(100);
        most = Math.max(most, ++since);
      }
      done = true;
      t.ok(immediates >= 4, `${name}: ${immediates} turns`);
      t.ok(most <= 130, `${name}: at most ${most} puts in one turn`);
      t.ok(timerFired, `${name}: timers fire`);
    }
  },
);

t.test("FlushPipeline makes sure of a file made ahead before its first byte", async (t) => {
  const cases: Record<string, (segment: Segment) => void> = {
    removed: ({ path }) => rmSync(path),
    replaced: ({ path }) => {
      renameSync(path, `${path}.old`);
      writeFileSync(path, Buffer.alloc(8192));
    },
  };
  for (const options of [SYNC, ASYNC, POOL]) {
    for (const [what, meddle] of Object.entries(cases)) {
      const rig = await PipelineRig.make(t, options, { fileSize: 8192, verified: true });
      await Promise.all([rig.put(4000), rig.pipeline.flush()]);
      t.equal(rig.queue.last?.unverifiedIdentity, undefined, "made sure of once");
      const put = rig.append(5000);
      meddle(rig.queue.last as Segment);
      const flush = rig.pipeline.flush();
      await t.rejects(flush, { code: "STORE_FILES_VANISHED", path: rig.queue.last?.path });
      t.match(rig.pipeline.failure?.message, new RegExp(`${what} by somebody else`));
      t.equal(rig.pipeline.committed, 8192, "the file before it is closed");
      t.equal(put.offset, 8192);
    }
  }
});

t.test("FlushPipeline looks at a file's identity only before its first write", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC, { verified: true });
  await rig.put(100);
  t.equal(rig.fs.count("stat"), 1);
  await rig.put(100);
  await rig.put(100);
  t.equal(rig.fs.count("stat"), 1);
});

t.test("verifyIdentity() passes on what is no answer", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  rig.fs.failNext("stat", "EIO");
  await t.rejects(verifyIdentity(rig.fs, (rig.queue.first as Segment).path, "x"), { code: "EIO" });
});

// The flush service of ASYNC_FLUSH.

/** The pipeline after its first, thorough round, with `start` bytes in the file. */
async function afterFirstRound(
  t: Test,
  options: StoreOptions,
  start: number,
): Promise<PipelineRig> {
  const rig = await PipelineRig.make(t, options);
  await rig.put(start);
  await rig.clock.advance(options.flushIntervalCommitLog ?? 500);
  await flushedTo(rig, start);
  return rig;
}

t.test("FlushPipeline's first round is thorough", async (t) => {
  const rig = await PipelineRig.make(t, ASYNC);
  await rig.put(1);
  await rig.clock.advance(499);
  t.equal(rig.syncs, 0);
  await rig.clock.advance(1);
  await flushedTo(rig, 1);
  t.equal(rig.syncs, 1);
});

t.test("FlushPipeline's flush gate counts whole pages by their floors", async (t) => {
  for (const [start, length, forced] of [
    [PAGE - 1, 3 * PAGE + 1, true],
    [PAGE - 1, 3 * PAGE, false],
    [PAGE, 4 * PAGE - 1, false],
    [PAGE, 4 * PAGE, true],
    [PAGE + 1, 4 * PAGE - 2, false],
    [PAGE + 1, 4 * PAGE - 1, true],
    [1, 1, false],
  ] as const) {
    const rig = await afterFirstRound(t, ASYNC, start);
    await rig.put(length);
    await rig.clock.advance(500);
    await turns(20);
    const what = `${length} bytes behind ${start}`;
    t.equal(rig.syncs, forced ? 2 : 1, what);
    if (forced) await flushedTo(rig, start + length);
    // The thorough round comes 10 s after the first one, on the grid of the rounds.
    await rig.clock.advance(9000);
    await turns(20);
    t.equal(rig.pipeline.flushed, forced ? start + length : start, what);
    await rig.clock.advance(500);
    await flushedTo(rig, start + length);
  }
});

t.test("FlushPipeline's flush gate opens for a full file", async (t) => {
  const rig = await afterFirstRound(t, ASYNC, 65_000);
  const { offset, end } = await rig.put(1000);
  t.equal(offset, 65_536);
  await rig.clock.advance(500);
  await flushedTo(rig, end);
});

t.test("FlushPipeline with flushCommitLogLeastPages 0 forces whatever waits", async (t) => {
  const rig = await afterFirstRound(t, { ...ASYNC, flushCommitLogLeastPages: 0 }, 10);
  await rig.put(1);
  await rig.clock.advance(500);
  await flushedTo(rig, 11);
});

t.test("FlushPipeline forces what was committed while a force was under way", async (t) => {
  const rig = await PipelineRig.make(t, { ...ASYNC, flushCommitLogLeastPages: 0 });
  await rig.put(10);
  const held = rig.fs.hold("fdatasync");
  await rig.clock.advance(500);
  await held.waiting;
  await rig.put(10);
  t.equal(rig.pipeline.committed, 20, "commits go on meanwhile");
  held.release();
  await flushedTo(rig, 10);
  t.equal(rig.pipeline.flushed, 10);
  await rig.clock.advance(500);
  await flushedTo(rig, 20);
});

t.test("FlushPipeline heeds wakeFlushWhenPutMessage only if it is not timed", async (t) => {
  for (const [wake, timed, forced] of [
    [true, false, true],
    [true, true, false],
    [false, false, false],
    [false, true, false],
  ] as const) {
    const options = { ...ASYNC, wakeFlushWhenPutMessage: wake, flushCommitLogTimed: timed };
    const rig = await PipelineRig.make(t, options);
    await rig.put(10);
    await turns(20);
    if (forced) await flushedTo(rig, 10);
    t.equal(rig.syncs, forced ? 1 : 0, JSON.stringify({ wake, timed }));
    t.equal(rig.clock.monotonic(), 0);
    await rig.put(3 * PAGE);
    await turns(20);
    t.equal(rig.syncs, forced ? 1 : 0, "woken, it still counts pages");
    await rig.put(PAGE);
    if (forced) await flushedTo(rig, 10 + 4 * PAGE);
    t.equal(rig.syncs, forced ? 2 : 0);
  }
});

// The commit service of the pool.

t.test("FlushPipeline with the pool commits when the pages of its gate are full", async (t) => {
  for (const [length, committed] of [
    [4 * PAGE - 1, false],
    [4 * PAGE, true],
  ] as const) {
    const rig = await PipelineRig.make(t, POOL);
    await rig.put(length);
    await turns(20);
    if (committed) await committedTo(rig, length);
    t.equal(rig.pipeline.committed, committed ? length : 0, `${length} bytes`);
    if (committed) continue;
    await rig.clock.advance(199);
    await turns(20);
    t.equal(rig.pipeline.committed, 0);
    await rig.clock.advance(1);
    await committedTo(rig, length);
  }
});

t.test("FlushPipeline with the pool and no wake-up commits in its rounds only", async (t) => {
  const rig = await PipelineRig.make(t, { ...POOL, wakeCommitWhenPutMessage: false });
  await rig.put(10 * PAGE);
  await turns(20);
  t.equal(rig.pipeline.committed, 0);
  await rig.clock.advance(200);
  await committedTo(rig, 10 * PAGE);
});

t.test("FlushPipeline with the pool commits a few bytes after the thorough interval", async (t) => {
  const rig = await PipelineRig.make(t, {
    ...POOL,
    commitIntervalCommitLog: 100,
    commitCommitLogThoroughInterval: 350,
  });
  await rig.put(10);
  await rig.clock.advance(100);
  await committedTo(rig, 10);
  t.equal(rig.pipeline.committed, 10, "the first round is thorough");
  await rig.put(10);
  await rig.clock.advance(300);
  await turns(20);
  t.equal(rig.pipeline.committed, 10, "too few bytes and too soon");
  await rig.clock.advance(100);
  await committedTo(rig, 20);
});

t.test("FlushPipeline with commitCommitLogLeastPages 0 commits any byte", async (t) => {
  const rig = await PipelineRig.make(t, { ...POOL, commitCommitLogLeastPages: 0 });
  await rig.put(1);
  await committedTo(rig, 1);
  t.equal(rig.clock.monotonic(), 0);
});

t.test("FlushPipeline with the pool commits the tail of a full file without waiting", async (t) => {
  const rig = await PipelineRig.make(t, POOL, { fileSize: 8 * PAGE });
  await rig.put(8 * PAGE - 200);
  await committedTo(rig, 8 * PAGE - 200);
  await rig.put(3);
  await turns(20);
  t.equal(rig.pipeline.committed, 8 * PAGE - 200);
  const { end } = await rig.put(300);
  t.equal(end, 8 * PAGE + 300);
  await committedTo(rig, 8 * PAGE);
  t.equal(rig.clock.monotonic(), 0);
  await rig.clock.advance(500);
  await flushedTo(rig, 8 * PAGE);
  rig.checkFiles();
});

t.test("FlushPipeline with the pool forces half a second after its commit", async (t) => {
  const rig = await PipelineRig.make(t, POOL);
  await rig.put(10);
  await rig.clock.advance(200);
  await committedTo(rig, 10);
  await rig.clock.advance(500);
  await flushedTo(rig, 10);
});

t.test("FlushPipeline.makeRoom() commits whatever the gates say", async (t) => {
  for (const options of [POOL, { ...POOL, wakeCommitWhenPutMessage: false }, SYNC]) {
    const rig = await PipelineRig.make(t, options);
    rig.append(10);
    rig.pipeline.makeRoom();
    await committedTo(rig, 10);
    t.equal(rig.clock.monotonic(), 0);
    t.equal(rig.buffer.pendingBytes, 0);
  }
});

// Closing.

t.test("FlushPipeline.close() drains and settles everything, and stops its timers", async (t) => {
  for (const [name, options] of Object.entries(ALL_MODES)) {
    const rig = await PipelineRig.make(t, options);
    const puts = outcomes([
      ...Array.from({ length: 40 }, (_, i) => rig.put(3000, i % 2 === 0)),
      rig.pipeline.durable(60_000),
    ]);
    await rig.pipeline.close();
    t.equal(rig.pipeline.flushed, rig.pipeline.wrote, name);
    t.strictSame(new Set(await puts), new Set(["ok"]));
    t.equal(rig.clock.pendingTimers, 0, `${name}: no timer is left`);
    t.equal(rig.forcing, 0);
    rig.checkFiles();
  }
});

t.test("FlushPipeline.close() waits for the calls under way after a failure", async (t) => {
  const rig = await PipelineRig.make(t, SYNC);
  const held = rig.fs.hold("fdatasync");
  const put = outcomes([rig.put(100)]);
  await held.waiting;
  rig.pipeline.fail(new StoreError("STORE_IO", "no more"));
  await put;
  let closed = false;
  const closing = rig.pipeline.close().catch(() => {
    closed = true;
  });
  await turns(20);
  t.notOk(closed);
  held.release();
  await closing;
  t.ok(closed);
});

// Interleavings.

t.test("FlushPipeline loses no wake-up, whatever the interleaving", async (t) => {
  const seed = seedOf(t);
  for (const [name, options] of Object.entries(ALL_MODES)) {
    for (let run = 0; run < RUNS; run++) {
      const runSeed = seed + run;
      if (!(await interleave(t, options, runSeed))) {
        t.fail(`${name} with SEED=${runSeed} stands still`);
        return;
      }
    }
    t.pass(name);
  }
});

/** A few producers at random on files in memory. @returns Whether all promises settled, without a timer. */
async function interleave(t: Test, options: StoreOptions, seed: number): Promise<boolean> {
  const random = randomOf(seed);
  const rig = await PipelineRig.make(t, options, {
    fileSize: 4096,
    files: 24,
    base: new OverlayFileSystem(new NodeFileSystem({ native: "off" })),
    delay: () => (random(3) === 0 ? undefined : turns(random(3))),
  });
  if (random(2) === 0) await rig.warm();
  const waiting = new Set<Promise<unknown>>();
  const track = <T>(promise: Promise<T>): Promise<T> => {
    waiting.add(promise);
    void promise.then(() => waiting.delete(promise));
    return promise;
  };
  let left = 60;
  const producer = async (): Promise<void> => {
    while (left > 0) {
      left--;
      const put = track(rig.put(1 + random(900), random(4) > 0));
      const what = random(8);
      if (what === 0) await turns(random(3));
      else if (what === 1) await track(rig.pipeline.flush());
      else if (what === 2) rig.pipeline.makeRoom();
      else if (what === 3) {
        void put.then(() => {
          if (left-- > 0) void track(rig.put(1 + random(300)));
        });
      } else if (what === 4) await null;
      else if (what < 7) await put;
    }
  };
  const producers = Array.from({ length: 1 + random(4) }, producer);
  const all = Promise.all(producers).then(() => Promise.all(waiting));
  // Neither does the clock move nor does anybody hurry it.
  if (!(await settles(all)) || !(await settles(rig.pipeline.close()))) return false;
  rig.check();
  return rig.forcingMax <= 1 && rig.pipeline.flushed === rig.pipeline.wrote;
}

async function settles(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  void promise.then(() => {
    settled = true;
  });
  for (let turn = 0; turn < 20_000 && !settled; turn++) await turns(1);
  return settled;
}
