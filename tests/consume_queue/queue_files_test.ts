import { existsSync, readFileSync, renameSync } from "node:fs";
import t, { type Test } from "tap";
import { QueueFiles } from "../../lib/consume_queue/queue_files.ts";
import { QueueRig } from "../support/queue_rig.ts";

const CONTENT = {
  front: (position: number) => Buffer.alloc(position, 0xff),
  text: (from: number, end: number) => `bytes ${from} to ${end - 1}`,
};

/** Files of 20 bytes. */
function filesOf(t: Test): { rig: QueueRig; files: QueueFiles } {
  const rig = new QueueRig(t, 1);
  return { rig, files: new QueueFiles(rig.context, "T", 0, CONTENT) };
}

function put(files: QueueFiles, length: number, value: number): void {
  const at = files.grow(length);
  files.tail.fill(value, at, at + length);
}

t.test("QueueFiles grow in memory, are read there, and are written later", async (t) => {
  const { rig, files } = filesOf(t);
  for (let i = 1; i <= 50; i++) put(files, 5, i);
  t.equal(files.end, 250);
  t.equal(files.unwrittenBytes, 250);
  t.same(await files.read(245, 250), Buffer.alloc(5, 50));
  t.notOk(existsSync(rig.folder));
  await files.commit();
  t.equal(files.written, 250);
  t.equal(rig.bytes().length, 260, "files are whole");
  put(files, 5, 51);
  t.same(await files.read(250, 255), Buffer.alloc(5, 51));
  t.same(await files.read(240, 245), Buffer.alloc(5, 49));
  t.ok(files.hasUnforced || files.unwrittenBytes > 0);
  await files.commit();
  t.ok(files.hasUnforced);
  await files.force();
  t.notOk(files.hasUnforced);
});

t.test("QueueFiles.startAt() fills the front of the first file", async (t) => {
  const { rig, files } = filesOf(t);
  files.startAt(47);
  put(files, 3, 7);
  await files.commit();
  t.same(rig.starts, [40]);
  const due = Buffer.concat([Buffer.alloc(7, 0xff), Buffer.alloc(3, 7), Buffer.alloc(10)]);
  t.same(readFileSync(rig.path(40)), due);
});

t.test("QueueFiles.commit() names what it cannot write, and where", async (t) => {
  const { rig, files } = filesOf(t);
  put(files, 30, 1);
  rig.fs.failNext("pwritev", "ENOSPC");
  await t.rejects(files.commit(), {
    code: "STORE_IO",
    message: /^Cannot write bytes 0 to 19 in /,
    path: rig.path(0),
    position: 0,
  });
  await files.commit();
  t.same(rig.bytes().subarray(0, 30), Buffer.alloc(30, 1));
});

t.test("QueueFiles.readFiles() names what is missing, and where", async (t) => {
  const { rig, files } = filesOf(t);
  put(files, 20, 1);
  await files.commit();
  await t.rejects(async () => files.readFiles(20, 25), {
    code: "STORE_QUEUE_DAMAGED",
    message: /^Cannot read bytes 20 to 24: no file of /,
    path: rig.path(20),
    position: 0,
  });
});

t.test("QueueFiles.moveTo() and clearBehind() leave nothing behind the end", async (t) => {
  const { rig, files } = filesOf(t);
  put(files, 55, 9);
  await files.commit();
  files.moveTo(23);
  t.same(await files.clearBehind(), [rig.path(40), rig.path(20)]);
  t.same(rig.starts, [0, 20]);
  t.same(rig.bytes().subarray(20), Buffer.concat([Buffer.alloc(3, 9), Buffer.alloc(17)]));
  put(files, 1, 5);
  await files.commit();
  t.equal(rig.bytes()[23], 5);
});

t.test("QueueFiles.lookBehind() spares clearBehind() a look, if nothing is there", async (t) => {
  const { rig, files } = filesOf(t);
  put(files, 55, 9);
  await files.commit();
  let reads = 0;
  const read = files.sequence.read.bind(files.sequence);
  files.sequence.read = (offset, length) => {
    reads++;
    return read(offset, length);
  };
  files.moveTo(57);
  await files.lookBehind();
  t.equal(reads, 1);
  put(files, 1, 5);
  await files.commit();
  t.same(await files.clearBehind(), []);
  t.equal(reads, 1, "whatever was committed");
  files.moveTo(53);
  await files.lookBehind();
  t.same(await files.clearBehind(), [rig.path(40)], "something is there");
  t.same(rig.bytes().subarray(53), Buffer.alloc(7));
  await files.lookBehind();
  files.moveTo(43);
  t.same(await files.clearBehind(), [rig.path(40)], "the end was moved");
  files.moveTo(21);
  await files.lookBehind();
  t.same(await files.clearBehind(), [rig.path(40), rig.path(20)], "there are files behind it");
  t.same(rig.bytes().subarray(20), Buffer.concat([Buffer.alloc(1, 9), Buffer.alloc(19)]));
});

t.test("QueueFiles.lookBehind() leaves to clearBehind() what cannot be read", async (t) => {
  const { rig, files } = filesOf(t);
  await files.lookBehind();
  put(files, 15, 9);
  await files.commit();
  files.moveTo(10);
  await rig.context.files.close(rig.path(0));
  renameSync(rig.path(0), `${rig.path(0)}.away`);
  await files.lookBehind();
  await t.rejects(files.clearBehind(), { code: "STORE_IO" });
  renameSync(`${rig.path(0)}.away`, rig.path(0));
  t.same(await files.clearBehind(), [rig.path(0)]);
});

t.test("QueueFiles.removeBefore() keeps the last file, and one that is to be forced", async (t) => {
  const { rig, files } = filesOf(t);
  put(files, 20, 1);
  await files.commit();
  files.moveTo(10);
  put(files, 45, 2);
  await files.commit();
  t.same(await files.removeBefore(1000), [], "it was not forced");
  await files.force();
  t.notOk(files.hasFilesBefore(19));
  t.ok(files.hasFilesBefore(20));
  t.same(await files.removeBefore(1000), [rig.path(0), rig.path(20)]);
  t.same(rig.starts, [40]);
});
