import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import type { ConsumeQueue } from "../../lib/consume_queue/consume_queue.ts";
import type { ExtensionContext } from "../../lib/consume_queue/queue_extension.ts";
import {
  addressedOffset,
  UNIT_BYTES,
  unitTagsHash,
  unitTagsHigh,
} from "../../lib/consume_queue/queue_unit.ts";
import { segmentName } from "../../lib/segment/segment.ts";
import { QueueRig, RECORD } from "../support/queue_rig.ts";

/** Room for three units, 4 bytes that stay free, and 3 more. */
const FILE_BYTES = 67;

/** Message n lies at n × 100, has tag n and was stored at 1000 + n. */
function fillExtended(queue: ConsumeQueue, end: number): void {
  while (queue.max < end) {
    const n = queue.max;
    queue.append(n, n * RECORD, RECORD, n, 1000 + n);
  }
}

/** Tags codes as a filter gets them; `undefined` where there is an address only. */
async function tags(queue: ConsumeQueue): Promise<(number | undefined)[]> {
  const found: (number | undefined)[] = [];
  while (queue.min + found.length < queue.max) {
    const units = await queue.units(queue.min + found.length, 1000);
    await queue.extension?.resolve(units);
    for (let at = 0; at < units.length; at += UNIT_BYTES) {
      found.push(unitTagsHigh(units, at) === 0 ? unitTagsHash(units, at) : undefined);
    }
  }
  return found;
}

async function addresses(queue: ConsumeQueue): Promise<(number | undefined)[]> {
  const found: (number | undefined)[] = [];
  for (let offset = queue.min; offset < queue.max; offset++) {
    found.push(addressedOffset(await queue.units(offset, 1), 0));
  }
  return found;
}

function filesOf({ directory }: ExtensionContext): string[] {
  const folder = join(directory, "T", "0");
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}

function pathOf({ directory }: ExtensionContext, start: number): string {
  return join(directory, "T", "0", segmentName(start));
}

const upTo = (end: number, from = 0) => Array.from({ length: end - from }, (_, i) => from + i);

async function written(queue: ConsumeQueue): Promise<void> {
  await queue.commit();
  await queue.force();
}

t.test("QueueExtension rolls where a unit and 4 bytes have no room", async (t) => {
  const rig = new QueueRig(t);
  const context = rig.extensionContext(FILE_BYTES);
  const queue = rig.extended(context);
  fillExtended(queue, 7);
  const places = [0, 20, 40, 67, 87, 107, 134];
  t.same(await addresses(queue), places);
  t.same(await tags(queue), upTo(7), "from memory");
  await written(queue);
  t.same(await tags(queue), upTo(7), "from files");
  t.same(filesOf(context), [0, 67, 134].map(segmentName));
  const first = readFileSync(pathOf(context, 0));
  t.equal(first.length, FILE_BYTES);
  t.equal(first.toString("hex", 60), "ffff0000000000");
  t.same(await queue.extension?.unitAt(87), {
    tagsCode: 4n,
    storeTimestamp: 1004n,
    bitmap: Buffer.alloc(0),
  });
  // A file of just one unit and what stays free.
  const tight = new QueueRig(t);
  const other = tight.extended(tight.extensionContext(24));
  fillExtended(other, 3);
  t.same(await addresses(other), [0, 24, 48]);
  t.same(await tags(other), [0, 1, 2]);
});

t.test("QueueExtension goes on behind the unit that the last address leads to", async (t) => {
  const rig = new QueueRig(t, 4);
  const context = rig.extensionContext(FILE_BYTES);
  const before = rig.extended(context);
  fillExtended(before, 10);
  await written(before);
  // Units from 5 on are lost, as behind what is durable after a crash.
  const queue = rig.extended(context);
  t.ok(await queue.findEnd(5 * RECORD));
  t.equal(queue.extension?.end, 107);
  await queue.clearBehind();
  await queue.force();
  t.same(filesOf(context), [0, 67].map(segmentName));
  t.same(readFileSync(pathOf(context, 67)).subarray(40), Buffer.alloc(27));
  fillExtended(queue, 12);
  await written(queue);
  const after = rig.extended(context);
  t.ok(await after.findEnd(Number.POSITIVE_INFINITY));
  t.same(await tags(after), upTo(12));
  t.same(await addresses(after), [0, 20, 40, 67, 87, 107, 134, 154, 174, 201, 221, 241]);
});

t.test("QueueExtension gives no place away that a unit leads to, whatever is lost", async (t) => {
  for (const [what, damage, known] of [
    ["all files", (c: ExtensionContext) => rmSync(c.directory, { recursive: true }), []],
    ["the last unit", (c: ExtensionContext) => zero(pathOf(c, 67), 20), [0, 1, 2, 3]],
    ["the last file", (c: ExtensionContext) => rmSync(pathOf(c, 67)), [0, 1, 2]],
    [
      "the first file",
      (c: ExtensionContext) => rmSync(pathOf(c, 0)),
      [undefined, undefined, undefined, 3, 4],
    ],
  ] as const) {
    const rig = new QueueRig(t);
    const context = rig.extensionContext(FILE_BYTES);
    const before = rig.extended(context);
    fillExtended(before, 5);
    await written(before);
    for (const start of [0, 67]) await rig.files.close(pathOf(context, start));
    damage(context);
    const queue = rig.extended(context);
    t.ok(await queue.findEnd(Number.POSITIVE_INFINITY), what);
    await queue.clearBehind();
    fillExtended(queue, 9);
    await written(queue);
    const again = rig.extended(context);
    await again.findEnd(Number.POSITIVE_INFINITY);
    const due = [...upTo(5).map((n) => known[n]), 5, 6, 7, 8];
    t.same(await tags(again), due, what);
  }
  function zero(path: string, from: number): void {
    writeFileSync(path, readFileSync(path).fill(0, from));
  }
});

t.test("QueueExtension without writes reads what is there, and changes nothing", async (t) => {
  const rig = new QueueRig(t);
  const context = rig.extensionContext(FILE_BYTES);
  const before = rig.extended(context);
  fillExtended(before, 5);
  await written(before);
  const files = filesOf(context).map((name) => readFileSync(pathOf(context, Number(name))));
  const queue = rig.extended({ ...context, writes: false });
  await queue.findEnd(3 * RECORD);
  await queue.clearBehind();
  fillExtended(queue, 6);
  await written(queue);
  t.same(await tags(queue), upTo(6));
  t.same(await addresses(queue), [0, 20, 40, undefined, undefined, undefined]);
  t.same(
    filesOf(context).map((name) => readFileSync(pathOf(context, Number(name)))),
    files,
  );
  // Later units have none: the place behind the last address is found all the same.
  const later = rig.extended(context);
  await later.findEnd(Number.POSITIVE_INFINITY);
  t.equal(later.extension?.end, 60);
});

t.test("QueueExtension files go with the messages that they are about", async (t) => {
  const rig = new QueueRig(t, 5);
  const context = rig.extensionContext(FILE_BYTES);
  const queue = rig.extended(context);
  fillExtended(queue, 11);
  await written(queue);
  t.same(filesOf(context), [0, 67, 134, 201].map(segmentName));
  // The last one whose record is gone is message 6.
  await queue.expire(6 * RECORD + 1);
  t.ok(queue.hasExpiredFiles);
  const removed = await queue.removeExpiredFiles();
  t.same(removed, [rig.path(0), pathOf(context, 0), pathOf(context, 67)]);
  t.notOk(queue.hasExpiredFiles);
  t.same(await tags(queue), upTo(11, 7));
  // Without any message the last file stays: it tells where to go on.
  await queue.expire(11 * RECORD);
  await queue.removeExpiredFiles();
  t.same(filesOf(context), [201].map(segmentName));
  t.same(await tags(queue), []);
  const again = rig.extended(context);
  await again.findEnd(Number.POSITIVE_INFINITY);
  await again.correctMin(11 * RECORD);
  fillExtended(again, 13);
  t.same(await addresses(again), [241, 268]);
  t.same(await tags(again), [11, 12]);
});

t.test("ConsumeQueue.reset() removes the extension, too", async (t) => {
  const rig = new QueueRig(t);
  const context = rig.extensionContext(FILE_BYTES);
  const queue = rig.extended(context);
  fillExtended(queue, 5);
  await written(queue);
  await queue.reset();
  t.same(filesOf(context), []);
  fillExtended(queue, 2);
  t.same(await addresses(queue), [0, 20]);
});

t.test("QueueExtension.resolve() leaves what cannot be read to the log", async (t) => {
  const rig = new QueueRig(t);
  const context = rig.extensionContext(FILE_BYTES);
  const queue = rig.extended(context);
  fillExtended(queue, 5);
  await written(queue);
  const bytes = readFileSync(pathOf(context, 0));
  bytes.writeInt16BE(300, 20);
  writeFileSync(pathOf(context, 0), bytes);
  t.same(await tags(queue), [0, undefined, 2, 3, 4]);
});
