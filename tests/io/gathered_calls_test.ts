import * as fs from "node:fs";
import { join } from "node:path";
import t from "tap";
import { GatheredCalls } from "../../lib/io/gathered_calls.ts";
import { loadNativeBinding, standIns } from "../../lib/io/native_binding.ts";

const native = loadNativeBinding();
const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL } = fs.constants;

/** Notes how many calls went in each hop. */
function counting(callEach = native?.callEach ?? standIns.callEach) {
  const hops: number[] = [];
  const gathered = new GatheredCalls({
    callEach: (calls) => {
      hops.push(calls.split("\0").length - 1);
      return callEach(calls);
    },
  });
  return { gathered, hops };
}

t.test("GatheredCalls go together if they come together, in at most three hops", async (t) => {
  for (const [calls, due] of [
    [1, [1]],
    [16, [16]],
    [17, [9, 8]],
    [40, [14, 14, 12]],
    [300, [100, 100, 100]],
  ] as const) {
    const { gathered, hops } = counting(async () => "[]");
    const answers = await Promise.all(Array.from({ length: calls }, () => gathered.stat("/a")));
    t.strictSame(hops, due, `${calls} calls`);
    t.ok(answers.every((answer) => answer === undefined));
  }
});

t.test("GatheredCalls without the addon leave each call to be made alone", async (t) => {
  const gathered = new GatheredCalls(standIns);
  const path = t.testdir();
  t.equal(await gathered.open(path, O_RDONLY), undefined);
  t.equal(await gathered.stat(path), undefined);
  t.equal(await gathered.readdir(path), undefined);
  t.equal(await gathered.close(1_000_000), undefined);
});

t.test("GatheredCalls", { skip: native === undefined && "the addon isn't loaded" }, async (t) => {
  const names = [
    "plain",
    'quoted " \\ name',
    "line\nbreak \u0001 \u007f",
    "größer 数 😀",
    "%LMQ%a",
  ];

  t.test("answer in their order, whatever becomes of the others", async (t) => {
    const { gathered, hops } = counting();
    const root = t.testdir(Object.fromEntries(names.map((name) => [name, name])));
    const missing = join(root, "missing");
    const [opened, no, found, nothing, list, none] = await Promise.all([
      gathered.open(join(root, "plain"), O_RDWR),
      gathered.open(missing, O_RDWR),
      gathered.stat(join(root, "größer 数 😀")),
      gathered.stat(missing),
      gathered.readdir(root),
      gathered.readdir(missing),
    ]);
    t.strictSame(hops, [6]);
    t.equal(fs.fstatSync(opened as number).size, "plain".length);
    const { dev, ino, blocks, size } = fs.statSync(join(root, "größer 数 😀"), { bigint: true });
    t.strictSame(
      { ...found, mtimeMs: 0 },
      {
        kind: "file",
        size: Number(size),
        allocatedBytes: Number(blocks) * 512,
        identity: `${dev}:${ino}`,
        mtimeMs: 0,
      },
    );
    t.strictSame(list?.map(({ name }) => name).sort(), [...names].sort());
    t.strictSame([no, nothing, none], [undefined, undefined, undefined]);
    t.equal(await gathered.close(opened as number), 0);
    t.ok(((await gathered.close(opened as number)) as number) < 0, "closed already");
  });

  t.test("tell kinds, times and sizes as Node does", async (t) => {
    const gathered = new GatheredCalls(native!);
    const root = t.testdir({
      folder: {},
      file: "a",
      link: t.fixture("symlink", "folder"),
      lost: t.fixture("symlink", "nowhere"),
    });
    const kinds = Object.fromEntries(
      ((await gathered.readdir(root)) ?? []).map(({ name, kind }) => [name, kind]),
    );
    t.strictSame(kinds, { folder: "directory", file: "file", link: "link", lost: "link" });
    t.equal((await gathered.stat(join(root, "link")))?.kind, "directory");
    t.equal(await gathered.stat(join(root, "lost")), undefined);
    t.equal((await gathered.stat("/dev/null"))?.kind, "other");
    const file = join(root, "file");
    for (const seconds of [0, 1_700_000_000.987, 4_000_000_000.5]) {
      fs.utimesSync(file, seconds, seconds);
      const { mtimeMs } = fs.statSync(file, { bigint: true });
      t.equal((await gathered.stat(file))?.mtimeMs, Number(mtimeMs));
    }
    fs.truncateSync(file, 2 ** 40);
    t.equal((await gathered.stat(file))?.size, 2 ** 40);
  });

  t.test("open with the flags that are given, and close on exec", async (t) => {
    const gathered = new GatheredCalls(native!);
    const path = join(t.testdir(), "2 new");
    const fd = await gathered.open(path, O_RDWR | O_CREAT | O_EXCL);
    t.type(fd, "number");
    t.equal(await gathered.open(path, O_RDWR | O_CREAT | O_EXCL), undefined);
    t.match(fs.readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"), /^flags:\s+02\d+$/m);
    t.equal(await gathered.close(fd as number), 0);
  });

  t.test("refuse a path that the system would cut, and text that is none", async (t) => {
    const gathered = new GatheredCalls(native!);
    t.equal(await gathered.stat("/dev/null\0/x"), undefined);
    t.equal(await native!.callEach(""), "[]");
    t.equal(
      await native!.callEach("x1 /a\0s0 /dev/null"),
      `[null,${await native!.callEach("s0 /dev/null\0").then((text) => text.slice(1, -1))}]`,
    );
    t.throws(() => native!.callEach(1 as unknown as string), TypeError);
  });
});
