import * as fs from "node:fs";
import { join } from "node:path";
import t from "tap";
import { GatheredCalls } from "../../lib/io/gathered_calls.ts";
import { loadNativeBinding, standIns } from "../../lib/io/native_binding.ts";
import { systemError } from "../../lib/io/system_error.ts";
import { rejection } from "../support/rejections.ts";

const native = loadNativeBinding();
async function message(failing: Promise<unknown>): Promise<string> {
  return ((await rejection(failing)) as Error).message;
}

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL } = fs.constants;

t.test("GatheredCalls go together if they come together, in at most two hops", async (t) => {
  for (const [calls, due] of [
    [1, [1]],
    [16, [16]],
    [17, [9, 8]],
    [300, [150, 150]],
  ] as const) {
    const hops: number[] = [];
    const gathered = new GatheredCalls({
      callEach: async (text) => {
        const numbers = text.split("\0").slice(0, -1);
        hops.push(numbers.length);
        return `[${numbers.map((line) => line.slice("o1 /".length))}]`;
      },
    });
    const answers = await Promise.all(
      Array.from({ length: calls }, (_, i) => gathered.open(`/${i}`, O_RDWR)),
    );
    t.strictSame(hops, due, `${calls} calls`);
    t.strictSame(
      answers,
      answers.map((_, i) => i),
      "each has its own answer",
    );
  }
});

t.test("GatheredCalls that change something go at once, and alone", async (t) => {
  const hops: string[] = [];
  const gathered = new GatheredCalls({
    callEach: async (text) => {
      hops.push(text);
      return `[${text.split("\0").slice(0, -1).fill("0")}]`;
    },
  });
  await Promise.all([
    gathered.close(1),
    gathered.unlink("/a"),
    gathered.close(2),
    gathered.mkdir("/b"),
  ]);
  t.strictSame(hops, ["u0 /a\0", "k0 /b\0", "c1 \0c2 \0"]);
});

t.test("GatheredCalls are made alone where there is no thread for them", async (t) => {
  const gathered = new GatheredCalls({
    callEach: async () => {
      throw systemError("EAGAIN", "pthread_create");
    },
  });
  const path = join(t.testdir({ a: "abc" }), "a");
  t.equal((await gathered.stat(path)).size, 3);
  await gathered.unlink(path);
  t.match(await rejection(gathered.stat(path)), { code: "ENOENT", syscall: "stat" });
});

t.test("GatheredCalls of a worker leave its files to Node", async () => {
  const gathered = new GatheredCalls(
    {
      callEach: async () => {
        throw new Error("not these");
      },
    },
    false,
  );
  await gathered.close(await gathered.open("/dev/null", O_RDWR));
});

for (const [name, binding] of Object.entries({ "without the addon": standIns, native })) {
  const what = name === "native" ? "with the addon" : name;
  t.test(`GatheredCalls ${what}`, { skip: !binding && "it isn't loaded" }, async (t) => {
    const gathered = new GatheredCalls(binding ?? standIns);

    t.test("answer as Node does, whatever becomes of the others", async (t) => {
      const names = ["plain", 'quoted " \\ name', "line\nbreak \u0001 \u007f", "größer 数 😀"];
      const root = t.testdir(Object.fromEntries(names.map((name) => [name, name])));
      const missing = join(root, "missing");
      const [fd, no, found, list] = await Promise.all([
        gathered.open(join(root, "plain"), O_RDWR),
        message(gathered.open(missing, O_RDWR)),
        gathered.stat(join(root, "größer 数 😀")),
        gathered.readdir(root),
      ]);
      t.equal(no, `ENOENT: no such file or directory, open '${missing}'`);
      t.equal(fs.fstatSync(fd).size, "plain".length);
      t.strictSame(
        list.map(({ name }) => name),
        names.sort(),
      );
      const own = fs.statSync(join(root, "größer 数 😀"), { bigint: true });
      t.strictSame(found, {
        kind: "file",
        size: Number(own.size),
        allocatedBytes: Number(own.blocks) * 512,
        identity: `${own.dev}:${own.ino}`,
        mtimeMs: Number(own.mtimeMs),
      });
      t.strictSame(await gathered.fstat(fd), await gathered.stat(join(root, "plain")));
      await gathered.close(fd);
      t.match(await rejection(gathered.close(fd)), { code: "EBADF", syscall: "close" });
    });

    t.test("tell kinds, times and sizes as Node does", async (t) => {
      const root = t.testdir({
        folder: {},
        file: "a",
        link: t.fixture("symlink", "folder"),
        lost: t.fixture("symlink", "nowhere"),
      });
      const entries = await gathered.readdir(root);
      t.strictSame(Object.fromEntries(entries.map(({ name, kind }) => [name, kind])), {
        folder: "directory",
        file: "file",
        link: "link",
        lost: "link",
      });
      t.equal((await gathered.stat(join(root, "link"))).kind, "directory");
      t.match(await rejection(gathered.stat(join(root, "lost"))), { code: "ENOENT" });
      t.equal((await gathered.stat("/dev/null")).kind, "other");
      const file = join(root, "file");
      for (const seconds of [0, 1_700_000_000.987, 4_000_000_000.5]) {
        fs.utimesSync(file, seconds, seconds);
        const { mtimeMs } = fs.statSync(file, { bigint: true });
        t.equal((await gathered.stat(file)).mtimeMs, Number(mtimeMs));
      }
      fs.truncateSync(file, 2 ** 40);
      t.equal((await gathered.stat(file)).size, 2 ** 40);
    });

    t.test("tell with the names what the files are, where they can", async (t) => {
      const root = t.testdir({ folder: {}, file: "abc", link: t.fixture("symlink", "file") });
      const entries = await gathered.readdir(root, "stats");
      t.strictSame(
        entries.map(({ name, kind }) => [name, kind]),
        [
          ["file", "file"],
          ["folder", "directory"],
          ["link", "link"],
        ],
      );
      const told = name === "native" ? await gathered.stat(join(root, "file")) : undefined;
      t.strictSame(
        entries.map(({ stat }) => stat),
        [told, undefined, undefined],
      );
    });

    t.test("look behind holes", async (t) => {
      const alone = async () => -5;
      const fd = fs.openSync(join(t.testdir(), "a"), "w+");
      fs.ftruncateSync(fd, 1 << 30);
      fs.writeSync(fd, "x", 1 << 29);
      const found = await gathered.nextData(fd, 0, alone);
      if (name === "native") {
        t.ok(found === 0 || (found > (1 << 29) - (1 << 21) && found <= 1 << 29), `found ${found}`);
        t.equal(await gathered.nextData(fd, 1 << 29, alone), 1 << 29);
        t.equal(await gathered.nextData(fd, 1 << 30, alone), 1 << 30);
        t.equal(await gathered.nextData(fd, 2 ** 40, alone), 1 << 30);
        t.equal(
          await message(gathered.nextData(1_000_000, 0, alone)),
          "EBADF: bad file descriptor, lseek",
        );
      } else {
        t.equal(found, -5);
      }
      fs.closeSync(fd);
      for (const position of [-1, 0.5, 2 ** 53]) {
        t.equal(await gathered.nextData(fd, position, alone), -5, `${position}`);
      }
      const knowsNone = fs.openSync("/proc/self/comm", "r");
      t.equal(await gathered.nextData(knowsNone, 0, alone), -5);
      fs.closeSync(knowsNone);
    });

    t.test("make, move and remove", async (t) => {
      const root = t.testdir();
      const [folder, from, to] = ["folder", "2 new", "moved"].map((name) => join(root, name)) as [
        string,
        string,
        string,
      ];
      await gathered.mkdir(folder);
      const fd = await gathered.open(from, O_RDWR | O_CREAT | O_EXCL);
      t.equal(fs.statSync(from).mode & 0o700, 0o600);
      t.match(fs.readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"), /^flags:\s+02\d+$/m, "on exec");
      await gathered.ftruncate(fd, 2 ** 33);
      t.equal(fs.statSync(from).size, 2 ** 33);
      await gathered.rename(from, to);
      await gathered.syncDirectory(root);
      t.strictSame(fs.readdirSync(root).sort(), ["folder", "moved"]);
      await gathered.close(fd);
      await gathered.unlink(to);
      await gathered.rmdir(folder);
      t.strictSame(fs.readdirSync(root), []);
    });

    t.test("fail with Node's errors", async (t) => {
      const root = t.testdir({ file: "", folder: { file: "" } });
      const [file, folder, no] = ["file", "folder", "no"].map((name) => join(root, name)) as [
        string,
        string,
        string,
      ];
      const fd = fs.openSync(file, "r");
      const texts = async (...failing: readonly Promise<unknown>[]) =>
        Promise.all(failing.map(message));
      t.strictSame(
        await texts(
          gathered.open(file, O_RDWR | O_CREAT | O_EXCL),
          gathered.readdir(file),
          gathered.stat(no),
          gathered.fstat(1_000_000),
          gathered.ftruncate(fd, 1),
          gathered.rename(no, file),
          gathered.unlink(no),
          gathered.mkdir(folder),
          gathered.rmdir(folder),
        ),
        [
          `EEXIST: file already exists, open '${file}'`,
          `ENOTDIR: not a directory, scandir '${file}'`,
          `ENOENT: no such file or directory, stat '${no}'`,
          "EBADF: bad file descriptor, fstat",
          "EINVAL: invalid argument, ftruncate",
          `ENOENT: no such file or directory, rename '${no}' -> '${file}'`,
          `ENOENT: no such file or directory, unlink '${no}'`,
          `EEXIST: file already exists, mkdir '${folder}'`,
          `ENOTEMPTY: directory not empty, rmdir '${folder}'`,
        ],
      );
      t.match(await rejection(gathered.rename(no, file)), { code: "ENOENT", path: no, dest: file });
      t.match(await rejection(gathered.syncDirectory(no)), { code: "ENOENT", syscall: "open" });
      for (const size of [-1, 1.5, Number.NaN]) {
        await rejection(gathered.ftruncate(fd, size));
      }
      t.match(await rejection(gathered.stat("/dev/null\0/x")), { code: "ERR_INVALID_ARG_VALUE" });
      fs.closeSync(fd);
      t.equal(
        typeof (await gathered.open(root, O_RDONLY).then((fd) => gathered.close(fd))),
        "undefined",
      );
    });
  });
}

t.test("callEach() of the addon", { skip: !native && "it isn't loaded" }, async (t) => {
  t.equal(await native!.callEach(""), "[]");
  const { ENOSYS } = (await import("node:os")).constants.errno;
  t.match(
    await native!.callEach("x1 /a\0?0 /dev/null\0u"),
    new RegExp(`^\\[-\\d+,-${ENOSYS},-\\d+\\]$`),
  );
  t.throws(() => native!.callEach(1 as unknown as string), TypeError);
});
