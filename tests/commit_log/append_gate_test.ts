import t from "tap";
import { AppendGate, type Blocked, refusal } from "../../lib/commit_log/append_gate.ts";
import { PutError, StoreError } from "../../lib/errors.ts";
import { FakeClock } from "../../lib/testing/mod.ts";

const BUFFER_WAIT_MS = 300;

function setUp() {
  const clock = new FakeClock();
  const gate = new AppendGate(clock, BUFFER_WAIT_MS);
  /** What each put has to wait for still. */
  const needs = new Map<string, Blocked | undefined>();
  const events: string[] = [];
  const errors: PutError[] = [];
  const put = (name: string, blocked: Blocked): void => {
    needs.set(name, blocked);
    gate.wait(
      blocked,
      () => {
        const need = needs.get(name);
        events.push(need ? `${name} still waits` : `${name} done`);
        return need;
      },
      (error) => {
        events.push(`${name} refused ${error.status}`);
        errors.push(error);
      },
    );
  };
  const let_ = (...names: string[]): void => {
    for (const name of names) needs.set(name, undefined);
  };
  return { clock, gate, needs, events, errors, put, let_ };
}

t.test("AppendGate.drain() lets puts pass in order, up to the first that can't", async (t) => {
  const { gate, events, put, let_ } = setUp();
  gate.drain();
  t.notOk(gate.closed);
  for (const name of ["a", "b", "c"]) put(name, "file");
  t.ok(gate.closed);
  t.equal(gate.length, 3);
  gate.drain();
  let_("a", "c");
  gate.drain();
  t.strictSame(events, ["a still waits", "a done", "b still waits"]);
  t.equal(gate.length, 2);
  let_("b");
  gate.drain();
  t.strictSame(events.slice(3), ["b done", "c done"]);
  t.notOk(gate.closed);
});

t.test("AppendGate.drain() may be called while it drains", async (t) => {
  const clock = new FakeClock();
  const gate = new AppendGate(clock, BUFFER_WAIT_MS);
  const done: number[] = [];
  for (let i = 0; i < 5; i++) {
    gate.wait(
      "buffer",
      () => {
        done.push(i);
        gate.drain();
        return undefined;
      },
      () => t.fail("nobody is refused"),
    );
  }
  gate.drain();
  t.strictSame(done, [0, 1, 2, 3, 4], "each once");
  t.notOk(gate.closed);
});

t.test("AppendGate.drain() does none twice if one throws", async (t) => {
  const { gate, events, put, let_ } = setUp();
  put("a", "buffer");
  let throwing = true;
  gate.wait(
    "buffer",
    () => {
      if (throwing) throw new Error("not now");
      events.push("b done");
      return undefined;
    },
    () => t.fail("not refused"),
  );
  let_("a");
  t.throws(() => gate.drain(), /not now/);
  throwing = false;
  gate.drain();
  t.strictSame(events, ["a done", "b done"]);
});

t.test("AppendGate refuses who has waited too long, by what it waited for", async (t) => {
  for (const [blocked, ms, status] of [
    ["file", 5000, "CREATE_MAPPED_FILE_FAILED"],
    ["buffer", BUFFER_WAIT_MS, "OS_PAGE_CACHE_BUSY"],
    ["queues", BUFFER_WAIT_MS, "OS_PAGE_CACHE_BUSY"],
  ] as const) {
    const { clock, gate, events, errors, put } = setUp();
    put("a", blocked);
    await clock.advance(ms - 1);
    t.strictSame(events, [], `${blocked}: not before its time`);
    await clock.advance(1);
    t.strictSame(events, [`a refused ${status}`]);
    t.match(errors[0], { code: "STORE_PUT_FAILED", outcome: "not stored" });
    t.notOk(gate.closed);
    t.equal(clock.pendingTimers, 0);
  }
});

t.test("AppendGate gives each put its own time, and the reason of the first", async (t) => {
  const { clock, events, needs, put } = setUp();
  put("a", "file");
  // Whoever finds the gate closed has not been asked what it would wait for.
  put("b", "buffer");
  await clock.advance(1000);
  put("c", "buffer");
  needs.set("b", "file").set("c", "file");
  await clock.advance(4000);
  const refused = () => events.filter((event) => event.includes("refused"));
  t.strictSame(refused(), [
    "a refused CREATE_MAPPED_FILE_FAILED",
    "b refused CREATE_MAPPED_FILE_FAILED",
  ]);
  await clock.advance(1000);
  t.equal(refused()[2], "c refused CREATE_MAPPED_FILE_FAILED");
});

t.test("AppendGate counts anew when the first one waits for something else", async (t) => {
  const { clock, gate, events, needs, put } = setUp();
  put("a", "file");
  await clock.advance(200);
  needs.set("a", "buffer");
  gate.drain();
  await clock.advance(BUFFER_WAIT_MS - 201);
  t.notOk(events.some((event) => event.includes("refused")));
  await clock.advance(1);
  t.equal(events.at(-1), "a refused OS_PAGE_CACHE_BUSY");
});

t.test("AppendGate tries those behind once the first one is refused", async (t) => {
  const { clock, events, put, let_ } = setUp();
  put("a", "buffer");
  await clock.advance(100);
  put("b", "buffer");
  let_("b");
  await clock.advance(BUFFER_WAIT_MS - 100);
  t.strictSame(events, ["a refused OS_PAGE_CACHE_BUSY", "b done"]);
  t.equal(clock.pendingTimers, 0);
});

t.test("AppendGate.refuse() refuses who can't do without, and lets the others pass", async (t) => {
  const { gate, events, errors, needs, put, let_ } = setUp();
  const cause = new Error("ENOSPC");
  for (const name of ["a", "b", "c", "d"]) put(name, "file");
  let_("b");
  needs.set("c", "buffer");
  gate.refuse("file", cause);
  t.strictSame(events, [
    "a still waits",
    "a refused CREATE_MAPPED_FILE_FAILED",
    "b done",
    "c still waits",
    "d refused CREATE_MAPPED_FILE_FAILED",
  ]);
  t.equal(errors[0]?.cause, cause);
  t.equal(gate.length, 1, "c waits on, for the buffer");
});

t.test("AppendGate.failAll() and refuseAll() leave nobody waiting", async (t) => {
  const { clock, gate, errors, put } = setUp();
  put("a", "file");
  put("b", "buffer");
  const cause = new StoreError("STORE_IO", "Cannot sync");
  gate.failAll(cause);
  t.strictSame(
    errors.map(({ status, outcome, cause }) => [status, outcome, cause]),
    [
      ["SERVICE_NOT_AVAILABLE", "not stored", cause],
      ["SERVICE_NOT_AVAILABLE", "not stored", cause],
    ],
  );
  t.notOk(gate.closed);
  t.equal(clock.pendingTimers, 0);
  put("c", "buffer");
  gate.refuseAll(() => new PutError("UNKNOWN_ERROR", "not stored", "closing"));
  t.equal(errors[2]?.status, "UNKNOWN_ERROR");
  await clock.advance(10_000);
  t.equal(errors.length, 3);
});

t.test("refusal() says what could not be had", async (t) => {
  for (const [what, status, text] of [
    ["file", "CREATE_MAPPED_FILE_FAILED", /next file/],
    ["buffer", "OS_PAGE_CACHE_BUSY", /write buffer is full/],
    ["queues", "OS_PAGE_CACHE_BUSY", /consume queues/],
  ] as const) {
    const error = refusal(what, undefined);
    t.equal(error.status, status);
    t.equal(error.outcome, "not stored");
    t.match(error.message, text);
    t.equal(error.cause, undefined);
  }
});
