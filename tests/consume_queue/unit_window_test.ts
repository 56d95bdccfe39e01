import { truncateSync } from "node:fs";
import t, { type Test } from "tap";
import { QueueFiles } from "../../lib/consume_queue/queue_files.ts";
import { UnitWindow } from "../../lib/consume_queue/unit_window.ts";
import { QueueRig } from "../support/queue_rig.ts";

const CONTENT = {
  front: (position: number) => Buffer.alloc(position),
  text: (from: number, end: number) => `bytes ${from} to ${end - 1}`,
};
const UNIT = 20;
/** In a file of two pages and a little more. */
const UNITS_PER_FILE = 500;

/** Two files of units that say their numbers, and what reads them. */
async function windowOf(
  t: Test,
): Promise<{ rig: QueueRig; window: UnitWindow; reads: () => number }> {
  const rig = new QueueRig(t, UNITS_PER_FILE);
  const files = new QueueFiles(rig.context, "T", 0, CONTENT);
  for (let unit = 0; unit < 2 * UNITS_PER_FILE; unit++) {
    const at = files.grow(UNIT);
    files.tail.fill(0, at, at + UNIT);
    files.tail.writeUInt32BE(unit, at);
  }
  await files.commit();
  let reads = 0;
  const { sequence } = files;
  const read = sequence.read.bind(sequence);
  sequence.read = (offset, length) => {
    reads++;
    return read(offset, length);
  };
  return { rig, window: new UnitWindow(files, UNIT), reads: () => reads };
}

function numbers(units: Buffer): number[] {
  return Array.from({ length: units.length / UNIT }, (_, i) => units.readUInt32BE(i * UNIT));
}

t.test("UnitWindow reads a page once", async (t) => {
  const { window, reads } = await windowOf(t);
  t.same(numbers(await window.read(0, 1)), [0]);
  t.same(numbers(await window.read(200, 201)), [200]);
  t.same(
    numbers(await window.read(3, 204)),
    Array.from({ length: 201 }, (_, i) => i + 3),
  );
  t.equal(reads(), 1);
  t.same(numbers(await window.read(203, 205)), [203, 204], "the second lies in the next page, too");
  t.same(numbers(await window.read(409, 410)), [409]);
  t.ok(reads() <= 3);
  t.same(numbers(await window.read(100, 101)), [100], "it may go back");
});

t.test("UnitWindow reads to the end of a file, and not behind it", async (t) => {
  const { window } = await windowOf(t);
  const last = UNITS_PER_FILE - 1;
  t.same(numbers(await window.read(last, last + 1)), [last]);
  t.same(numbers(await window.read(last + 1, last + 3)), [last + 1, last + 2]);
  t.same(numbers(await window.read(2 * UNITS_PER_FILE - 2, 2 * UNITS_PER_FILE)), [998, 999]);
});

t.test("UnitWindow does without what is behind the units that are wanted", async (t) => {
  const { rig, window } = await windowOf(t);
  truncateSync(rig.path(0), 3 * UNIT);
  t.same(numbers(await window.read(1, 3)), [1, 2]);
  await t.rejects(async () => window.read(2, 4), {
    code: "STORE_QUEUE_DAMAGED",
    message: /^Cannot read bytes 40 to 79: .* ends before$/,
  });
  await t.rejects(async () => window.read(5000, 5001), {
    code: "STORE_QUEUE_DAMAGED",
    message: /no file of /,
  });
});
