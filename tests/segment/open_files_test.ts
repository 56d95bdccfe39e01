import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { FileHandle } from "../../lib/io/file_system.ts";
import { writeFully } from "../../lib/io/fully.ts";
import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { OpenFiles } from "../../lib/segment/open_files.ts";
import { InterceptedFileSystem } from "../../lib/testing/mod.ts";
import { turns } from "../support/random.ts";
import { testFolder } from "../support/test_folder.ts";

/** Files `f0`, `f1`, ... and a table of at most `max` open ones. */
function setUp(t: Test, count: number, max?: number) {
  const root = testFolder(t);
  const paths = Array.from({ length: count }, (_, i) => join(root, `f${i}`));
  for (const path of paths) writeFileSync(path, "....................");
  const fs = new InterceptedFileSystem(new NodeFileSystem());
  const files = new OpenFiles(fs, max);
  t.teardown(() => {
    fs.clear();
    return files.closeAll();
  });
  return { fs, files, paths, path: paths[0] as string };
}

const nothing = async (): Promise<void> => undefined;

t.test("OpenFiles.use() opens a file once, for many at a time", async (t) => {
  const { fs, files, path } = setUp(t, 1);
  t.equal(files.ready(path), undefined);
  const handles = new Set<FileHandle>();
  await Promise.all(
    Array.from({ length: 5 }, () =>
      files.use(path, async (handle) => {
        handles.add(handle);
      }),
    ),
  );
  t.equal(fs.count("open"), 1);
  t.equal(handles.size, 1);
  t.equal(files.ready(path), [...handles][0]);
  t.equal(await files.use(path, async () => 7), 7, "gives what the action gives");
});

t.test(
  "OpenFiles.use() fails all who waited for an open that fails, then tries again",
  async (t) => {
    const { fs, files, path } = setUp(t, 1);
    fs.failNext("open", "EMFILE");
    const uses = [files.use(path, nothing), files.use(path, nothing)];
    for (const use of uses) await t.rejects(use, { code: "EMFILE" });
    t.equal(files.ready(path), undefined);
    await files.use(path, nothing);
    t.equal(fs.count("open"), 2);
  },
);

t.test("OpenFiles.use() passes on the error of the action, and keeps the file", async (t) => {
  const { fs, files, path } = setUp(t, 1);
  await t.rejects(
    files.use(path, () => Promise.reject(new Error("mine"))),
    /mine/,
  );
  await t.rejects(
    files.use(path, () => {
      throw new Error("at once");
    }),
    /at once/,
  );
  await files.use(path, nothing);
  t.equal(fs.count("open"), 1);
  await files.close(path);
  t.equal(fs.count("close"), 1, "no use was left counted");
});

t.test("OpenFiles closes the longest unused beyond its most", async (t) => {
  const { fs, files, paths } = setUp(t, 5, 3);
  for (const path of paths.slice(0, 3)) await files.use(path, nothing);
  await files.use(paths[0] as string, nothing);
  await files.use(paths[3] as string, nothing);
  await turns(5);
  const open = () => paths.filter((path) => files.ready(path)).map((path) => path.slice(-2));
  t.strictSame(open(), ["f0", "f2", "f3"], "f1 was the longest unused");
  t.equal(fs.count("close"), 1);
  await files.use(paths[1] as string, nothing);
  await turns(5);
  t.strictSame(open(), ["f0", "f1", "f3"]);
});

t.test("OpenFiles never closes what is in use", async (t) => {
  const { files, paths } = setUp(t, 6, 2);
  const ends: (() => void)[] = [];
  const uses = paths.map((path) =>
    files.use(path, async (handle) => {
      await new Promise<void>((resolve) => ends.push(resolve));
      await writeFully(handle, [Buffer.from("x")], 0);
    }),
  );
  while (ends.length < paths.length) await turns(1);
  t.equal(paths.filter((path) => files.ready(path)).length, 6, "more than the most");
  for (const end of ends) end();
  await Promise.all(uses);
  await turns(5);
  t.equal(paths.filter((path) => files.ready(path)).length, 2, "back to the most");
  for (const path of paths) t.equal(readFileSync(path, "utf8")[0], "x");
});

t.test("OpenFiles.adopt() takes over a handle, and the most counts for it too", async (t) => {
  const { fs, files, paths } = setUp(t, 3, 2);
  for (const path of paths) files.adopt(path, await fs.open(path, "write"));
  await turns(5);
  t.equal(files.ready(paths[0] as string), undefined);
  t.ok(files.ready(paths[2] as string));
});

t.test("OpenFiles.close() waits for a use under way", async (t) => {
  const { fs, files, path } = setUp(t, 1);
  // A write in three parts: the handle must not be closed between two of them.
  fs.shorten("pwritev", [1, 1]);
  const held = fs.hold("pwritev");
  const use = files.use(path, (handle) => writeFully(handle, [Buffer.from("abcdef")], 3));
  await held.waiting;
  let closed = false;
  const close = files.close(path).then(() => {
    closed = true;
  });
  await turns(5);
  t.notOk(closed);
  t.equal(files.ready(path), undefined, "nobody else gets this handle");
  held.release();
  await Promise.all([use, close]);
  t.strictSame(fs.names(), ["open", "pwritev", "pwritev", "pwritev", "close"]);
  t.equal(readFileSync(path, "utf8").slice(0, 10), "...abcdef.");
});

t.test("OpenFiles.close() waits for a use that is still opening the file", async (t) => {
  const { fs, files, path } = setUp(t, 1);
  const held = fs.hold("open");
  const use = files.use(path, (handle) => writeFully(handle, [Buffer.from("x")], 0));
  await held.waiting;
  const close = files.close(path);
  held.release();
  await Promise.all([use, close]);
  t.strictSame(fs.names(), ["open", "pwritev", "close"]);
  fs.failNext("open", "EIO");
  const failing = files.use(path, nothing);
  await Promise.all([t.rejects(failing, { code: "EIO" }), files.close(path)]);
});

t.test("OpenFiles.use() during a close() opens the file anew", async (t) => {
  const { fs, files, path } = setUp(t, 1);
  const held = fs.hold("pread");
  const first = files.use(path, (handle) => handle.pread(Buffer.alloc(1), 0));
  await held.waiting;
  const close = files.close(path);
  const second = files.use(path, (handle) => handle.pread(Buffer.alloc(1), 0));
  await turns(5);
  held.release();
  t.strictSame(await Promise.all([first, second, close]), [1, 1, undefined]);
  t.equal(fs.count("open"), 2);
  t.ok(files.ready(path));
});

t.test("OpenFiles.close() of what is not open does nothing, and passes on an error", async (t) => {
  const { fs, files, path } = setUp(t, 1);
  await files.close(path);
  await files.use(path, nothing);
  fs.failNext("close", "EIO");
  await t.rejects(files.close(path), { code: "EIO" });
  await files.close(path);
});

t.test("OpenFiles.closeAll() closes everything", async (t) => {
  const { fs, files, paths } = setUp(t, 4);
  await Promise.all(paths.map((path) => files.use(path, nothing)));
  await files.closeAll();
  t.equal(fs.count("close"), 4);
  await files.closeAll();
  t.equal(fs.count("close"), 4);
});

t.test("OpenFiles lets no file get another one's bytes while handles come and go", async (t) => {
  const { fs, files, paths } = setUp(t, 12, 2);
  const writes: Promise<void>[] = [];
  for (let round = 0; round < 20; round++) {
    paths.forEach((path, i) => {
      writes.push(
        files.use(path, (handle) =>
          writeFully(handle, [Buffer.from(String.fromCharCode(97 + i))], round),
        ),
      );
      if ((round + i) % 5 === 0) writes.push(files.close(path));
    });
    if (round % 3 === 0) await turns(1);
  }
  await Promise.all(writes);
  paths.forEach((path, i) => {
    t.equal(readFileSync(path, "utf8"), String.fromCharCode(97 + i).repeat(20));
  });
  await files.closeAll();
  t.equal(fs.count("open"), fs.count("close"), "every handle is closed");
  t.equal(readdirSync(join(paths[0] as string, "..")).length, 12);
});
