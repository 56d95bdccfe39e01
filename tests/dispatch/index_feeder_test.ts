import t, { type Test } from "tap";
import type { IndexMark } from "../../lib/checkpoint/store_checkpoint.ts";
import { NO_CHECKPOINT } from "../../lib/checkpoint/store_checkpoint.ts";
import { IndexFeeder, type IndexFeederContext } from "../../lib/dispatch/index_feeder.ts";
import { prepareRecord } from "../../lib/message/outgoing_record.ts";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import { IndexRig } from "../support/index_rig.ts";
import { DEFAULTS, LogRig } from "../support/log_rig.ts";

/** A log, an index beside it, and a feeder between them. */
class FeederRig {
  readonly log: LogRig;
  readonly index: IndexRig;
  readonly published: (IndexMark | undefined)[] = [];
  readonly warnings: string[] = [];
  visible = 0;
  feeder: IndexFeeder;
  #noted = 0;

  constructor(t: Test, more: Partial<IndexFeederContext> = {}, mappedFileSizeCommitLog = 4096) {
    this.log = new LogRig(t, { mappedFileSizeCommitLog });
    this.index = new IndexRig(t, { slots: 10, entries: 40 });
    this.feeder = this.open(more);
    t.teardown(() => this.feeder.close(false));
  }

  /** Another feeder on what the last one left. */
  open(more: Partial<IndexFeederContext> = {}): IndexFeeder {
    this.feeder = new IndexFeeder({
      index: this.index.index,
      files: this.index.context,
      segments: this.log.log.segments,
      clock: this.log.clock,
      delayLevels: DelayLevels.parse(this.log.options.messageDelayLevel),
      enabled: true,
      cleanStop: true,
      longs: NO_CHECKPOINT.longs,
      mark: undefined,
      anew: false,
      visible: () => this.visible,
      publish: async () => {
        this.published.push(await this.feeder.force(this.feeder.mark()));
      },
      warn: (text) => this.warnings.push(text),
      ...more,
    });
    return this.feeder;
  }

  /** Puts a message into the log; nobody hears of it. */
  async put(keys: string): Promise<void> {
    await this.log.put(prepareRecord({ topic: "T", body: Buffer.from("b"), keys }, DEFAULTS));
    await this.log.log.pipeline.flush();
  }

  /** What was put becomes readable, one by one. */
  dispatch(): void {
    for (; this.#noted < this.log.requests.length; this.#noted++) {
      const request = this.log.requests[this.#noted];
      if (!request) continue;
      this.visible = request.physicalOffset + request.size;
      this.feeder.dispatched(request);
    }
  }

  /** The same for a store that was opened on it. */
  see(): void {
    this.#noted = this.log.requests.length;
    this.visible = this.log.log.pipeline.wrote;
  }

  async find(key: string): Promise<number[]> {
    await this.feeder.ready();
    return this.index.found(key);
  }
}

t.test("IndexFeeder reads what is there at first, and then takes what is dispatched", async (t) => {
  const rig = new FeederRig(t);
  for (let i = 0; i < 5; i++) await rig.put("old");
  rig.see();
  rig.open();
  rig.feeder.start();
  t.equal((await rig.find("old")).length, 5);
  for (let i = 0; i < 3; i++) await rig.put("new");
  rig.dispatch();
  t.equal((await rig.index.found("new")).length, 3, "in the turn that makes it readable");
  t.strictSame(rig.warnings, []);
});

t.test("IndexFeeder.ready() waits for what was readable when it was called", async (t) => {
  const rig = new FeederRig(t);
  await rig.put("a");
  rig.see();
  rig.open();
  const ready = rig.feeder.ready();
  await rig.put("b");
  rig.dispatch();
  await ready;
  t.equal((await rig.index.found("a")).length, 1);
  t.equal((await rig.find("b")).length, 1);
});

t.test("IndexFeeder.force() makes durable what mark() says, and goes on from there", async (t) => {
  const rig = new FeederRig(t);
  for (let i = 0; i < 4; i++) await rig.put("a");
  rig.see();
  rig.open();
  await rig.feeder.ready();
  const mark = await rig.feeder.force(rig.feeder.mark());
  t.equal(mark?.end, rig.visible);
  await rig.put("b");
  rig.dispatch();
  // Killed: what was indexed since is not in its file.
  await rig.index.load();
  rig.see();
  rig.open({ cleanStop: false, mark });
  t.equal((await rig.find("a")).length, 4);
  t.equal((await rig.find("b")).length, 1, "was read from the log");
});

t.test("IndexFeeder makes an index anew that knows more than the log", async (t) => {
  const rig = new FeederRig(t);
  for (let i = 0; i < 4; i++) await rig.put("a");
  rig.see();
  rig.open();
  await rig.feeder.ready();
  const mark = (await rig.feeder.force(rig.feeder.mark())) as IndexMark;
  await rig.feeder.close(true);
  await rig.index.load();
  rig.open({ mark: { ...mark, end: mark.end + 1000 } });
  t.equal((await rig.find("a")).length, 4);
  t.ok(rig.published.length > 0, "no checkpoint may vouch for what is gone");
});

t.test("IndexFeeder tries again what could not be written, and stops nothing", async (t) => {
  const rig = new FeederRig(t);
  await rig.put("a");
  rig.see();
  rig.open();
  rig.index.fs.failNext("open", "EIO");
  await rig.feeder.ready();
  const before = rig.feeder.mark();
  t.equal(await rig.feeder.force(before), undefined, "nothing is durable");
  t.match(rig.warnings, [/its keys are indexed later, from the log/]);
  t.equal((await rig.find("a")).length, 1);
  t.equal((await rig.feeder.force(rig.feeder.mark()))?.end, rig.visible);
});

t.test("IndexFeeder passes over damage in the log", async (t) => {
  const rig = new FeederRig(t);
  for (const keys of ["a", "b", "c"]) await rig.put(keys);
  rig.see();
  const { segments } = rig.log.log;
  const damaged = rig.log.requests[1];
  const { read, readOnThread } = segments;
  const damage = (offset: number, bytes: Buffer | undefined): Buffer | undefined => {
    const at = (damaged?.physicalOffset ?? 0) - offset;
    if (bytes && at >= 0 && at + 8 <= bytes.length) bytes.fill(0xff, at, at + 8);
    return bytes;
  };
  segments.read = async (offset, length) =>
    damage(offset, await read.call(segments, offset, length));
  segments.readIfCached = async () => false;
  segments.readOnThread = async (offset, buffer) =>
    damage(offset, await readOnThread.call(segments, offset, buffer));
  rig.open();
  t.equal((await rig.find("a")).length, 1);
  t.equal((await rig.index.found("b")).length, 0);
  t.equal((await rig.index.found("c")).length, 1);
});

t.test("IndexFeeder that is switched off leaves the index as it is", async (t) => {
  const rig = new FeederRig(t);
  await rig.put("a");
  rig.see();
  rig.open({ enabled: false });
  t.strictSame(await rig.find("a"), []);
  await rig.put("b");
  rig.dispatch();
  t.strictSame(await rig.find("b"), []);
  t.strictSame(rig.index.names, []);
  t.equal(rig.feeder.mark(), undefined);
});

t.test(
  "IndexFeeder.close() completes the index, or leaves it, and answers who waits",
  async (t) => {
    const rig = new FeederRig(t);
    await rig.put("a");
    rig.see();
    rig.open();
    await rig.feeder.close(true);
    t.equal((await rig.index.found("a")).length, 1);
    await t.rejects(
      rig
        .open()
        .close(false)
        .then(() => rig.feeder.ready()),
      { code: "STORE_CLOSED" },
    );

    const waiting = new FeederRig(t);
    await waiting.put("a");
    waiting.see();
    waiting.open();
    const answer = t.rejects(waiting.feeder.ready(), { code: "STORE_CLOSED" });
    await waiting.feeder.close(false);
    await answer;
  },
);

t.test("IndexFeeder goes on behind a file that is deleted while it is read", async (t) => {
  const rig = new FeederRig(t, {}, 1024 * 1024);
  const body = Buffer.alloc(400);
  const messages = Array.from({ length: 5000 }, (_, i) =>
    prepareRecord({ topic: "T", body, keys: `k${i}` }, DEFAULTS),
  );
  await Promise.all(messages.map((message) => rig.log.put(message)));
  await rig.log.log.pipeline.flush();
  const { segments } = rig.log.log;
  t.ok(segments.segments.length > 2);
  rig.see();
  rig.open();
  const ready = rig.feeder.ready();
  const [first, second] = segments.segments;
  const isInside = (offset = 0) => offset > 0 && offset < (second?.start ?? 0);
  // It reads no file in one turn.
  while (!isInside(rig.feeder.mark()?.end)) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  await segments.removeFirst(rig.log.fs);
  t.not(segments.first, first);
  await ready;
  for (let i = 0; i < messages.length; i++) {
    const offset = rig.log.requests[i]?.physicalOffset ?? -1;
    if (offset < (second?.start ?? 0)) continue;
    const found = await rig.index.found(`k${i}`);
    if (found.length !== 1) t.fail(`message ${i} at ${offset}`);
  }
});
