import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { DelayLevels } from "../../lib/message/tags_code.ts";
import { type LogEntry, readLog } from "../../lib/read/log_reader.ts";
import { segmentName } from "../../lib/segment/segment.ts";
import { LogRig, recordOf } from "../support/log_rig.ts";

/** Records of 300 bytes, three in each file of 1024. */
async function setUp(t: Test, count: number): Promise<LogRig> {
  const rig = new LogRig(t);
  for (let i = 0; i < count; i++) await rig.put(recordOf(300, { tags: "TagA" }));
  await rig.log.pipeline.flush();
  return rig;
}

async function entries(rig: LogRig, from = 0, to = rig.log.pipeline.flushed): Promise<LogEntry[]> {
  const found: LogEntry[] = [];
  const levels = DelayLevels.parse(rig.options.messageDelayLevel);
  for await (const entry of readLog(rig.log.segments, from, to, { checkCrc: true }, levels)) {
    found.push(entry);
  }
  return found;
}

const short = ({ kind, offset }: LogEntry): string => `${kind} ${offset}`;

t.test("readLog() yields records and blanks up to its end", async (t) => {
  const rig = await setUp(t, 5);
  const all = await entries(rig);
  t.strictSame(all.map(short), [
    "record 0",
    "record 300",
    "record 600",
    "blank 900",
    "record 1024",
    "record 1324",
  ]);
  t.match(all[1], { size: 300, tagsCode: 2598919, message: { queueOffset: 1, topic: "T" } });
  t.match(all[3], { size: 124 });
  t.strictSame((await entries(rig, 300, 1024)).map(short), [
    "record 300",
    "record 600",
    "blank 900",
  ]);
  t.strictSame((await entries(rig, 0, 301)).map(short), ["record 0", "record 300"]);
  t.strictSame(await entries(rig, 0, 0), []);
});

t.test("readLog() names a bad place and goes on at the next record", async (t) => {
  const rig = await setUp(t, 5);
  const path = join(rig.directory, segmentName(0));
  const content = rig.file(0);
  content.fill(0xee, 310, 320);
  writeFileSync(path, content);
  const all = await entries(rig);
  t.strictSame(all.map(short), [
    "record 0",
    "bad 300",
    "record 600",
    "blank 900",
    "record 1024",
    "record 1324",
  ]);
  t.match(all[1], { declaredSize: 300, next: 600, path, position: 300, reason: String });
  content.fill(0xee, 600, 1024);
  writeFileSync(path, content);
  t.match((await entries(rig))[1], { kind: "bad", next: 1024 });
});

t.test("readLog() tells missing files", async (t) => {
  const rig = await setUp(t, 8);
  for (const segment of rig.log.segments.dropFrom(1024)) {
    if (segment.start > 1024) rig.log.segments.add(segment);
  }
  const all = await entries(rig);
  t.strictSame(all.slice(3).map(short), ["blank 900", "gap 1024", "record 2048", "record 2348"]);
  t.match(all[4], { size: 1024 });
});

t.test("readLog() ends when its caller has seen enough", async (t) => {
  const rig = await setUp(t, 8);
  const levels = DelayLevels.parse(rig.options.messageDelayLevel);
  for await (const entry of readLog(rig.log.segments, 0, 9999, { checkCrc: true }, levels)) {
    if (entry.offset === 300) break;
  }
  t.pass("no error");
});
