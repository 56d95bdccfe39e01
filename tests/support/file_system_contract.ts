/**
 * What the seam promises, as a list of behaviours that any file system can be put through: the real
 * one with and without the addon, one that is intercepted, one that keeps its changes in memory.
 */

import { join } from "node:path";
import type { Test } from "tap";
import type { FileSystem } from "../../lib/io/file_system.ts";

/** Bytes `from`, `from + 1`, ...: each position is told from its neighbours. */
export function counted(length: number, from = 0): Buffer {
  return Buffer.from(Array.from({ length }, (_, i) => (from + i) & 0xff));
}

/**
 * @param make Makes the file system and an existing, empty directory in it. `punches`: whether
 *   `punch` works there.
 */
export function fileSystemContract(
  t: Test,
  name: string,
  make: (t: Test) => { readonly fs: FileSystem; readonly root: string; readonly punches: boolean },
): void {
  const behaviour = (
    text: string,
    run: (t: Test, fs: FileSystem, root: string, punches: boolean) => Promise<void>,
  ) =>
    t.test(`${name}: ${text}`, async (t) => {
      const { fs, root, punches } = make(t);
      await run(t, fs, root, punches);
    });

  behaviour("FileHandle.pwritev() writes its buffers one after the other", async (t, fs, root) => {
    const file = await fs.open(join(root, "a"), "create");
    const buffers = [counted(3), Buffer.alloc(0), counted(5, 3)];
    t.equal(await file.pwritev(buffers, 10), 8);
    t.equal(file.pwritevNow([counted(2, 8)], 18), 2);
    t.equal(file.pwritevNow([counted(1, 10), counted(2, 11)], 20), 3);
    t.equal(await file.commitAndForce([counted(4, 13)], 23), 4);
    const buffer = Buffer.alloc(40, 0xee);
    t.equal(await file.pread(buffer, 10), 17, "short at the end of the file");
    t.strictSame(buffer.subarray(0, 17), counted(17));
    t.equal(await file.pread(buffer, 0), 27);
    t.strictSame(buffer.subarray(0, 10), Buffer.alloc(10), "a gap reads as zero");
    t.equal(await file.pread(buffer, 27), 0, "0 at the end of the file");
    t.equal(await file.pread(buffer, 1000), 0, "0 behind it");
    await file.close();
  });

  behaviour("FileHandle.pwritev() of no bytes answers 0", async (t, fs, root) => {
    const file = await fs.open(join(root, "a"), "create");
    t.equal(await file.pwritev([], 10), 0);
    t.equal(await file.pwritev([Buffer.alloc(0)], 10), 0);
    t.equal(file.pwritevNow([], 10), 0);
    t.equal(await file.commitAndForce([], 10), 0);
    t.equal((await file.stat()).size, 0);
    await file.close();
  });

  behaviour("FileHandle.pwritev() works beyond 4 GiB", async (t, fs, root) => {
    const file = await fs.open(join(root, "a"), "create");
    const position = 2 ** 40 + 3;
    t.equal(await file.pwritev([counted(3)], position), 3);
    t.equal(file.pwritevNow([counted(2, 3)], position + 3), 2);
    const buffer = Buffer.alloc(5);
    t.equal(await file.pread(buffer, position), 5);
    t.strictSame(buffer, counted(5));
    t.equal((await file.stat()).size, position + 5);
    await file.close();
  });

  behaviour(
    "FileHandle.pwritev() takes any number of buffers, if in parts",
    async (t, fs, root) => {
      const file = await fs.open(join(root, "a"), "create");
      const buffers = Array.from({ length: 3000 }, (_, i) => counted(1, i));
      for (const write of [
        (rest: Buffer[], position: number) => file.pwritev(rest, position),
        (rest: Buffer[], position: number) => file.pwritevNow(rest, position),
        (rest: Buffer[], position: number) => file.commitAndForce(rest, position),
      ]) {
        let done = 0;
        while (done < 3000) done += await write(buffers.slice(done), done);
        const buffer = Buffer.alloc(3000);
        t.equal(await file.pread(buffer, 0), 3000);
        t.strictSame(buffer, Buffer.concat(buffers));
        await file.ftruncate(0);
      }
      await file.close();
    },
  );

  behaviour("FileHandle.preadIfCached() reads the same or says -1", async (t, fs, root) => {
    const file = await fs.open(join(root, "a"), "create");
    await file.pwritev([counted(100)], 0);
    const buffer = Buffer.alloc(50);
    const count = file.preadIfCached(buffer, 20);
    t.ok(count === 50 || count === -1, `answered ${count}`);
    if (count === 50) {
      t.strictSame(buffer, counted(50, 20));
      t.equal(file.preadIfCached(buffer, 90), 10);
      t.equal(file.preadIfCached(buffer, 100), 0);
    }
    await file.close();
  });

  behaviour("FileHandle.nextData() skips only what reads as zero", async (t, fs, root) => {
    const file = await fs.open(join(root, "a"), "create");
    t.equal(await file.nextData(0), 0, "the size of an empty file");
    const size = 4 << 20;
    const [first, last] = [(1 << 20) + 100, (3 << 20) - 1];
    await file.ftruncate(size);
    await file.pwritev([counted(5, 1)], first);
    file.pwritevNow([counted(1, 1)], last);
    const skips = async (position: number, upTo: number) => {
      const next = await file.nextData(position);
      t.ok(position <= next && next <= upTo, `from ${position} to ${next}, at most ${upTo}`);
    };
    await skips(0, first);
    await skips(first - 1, first);
    for (let i = 0; i < 5; i++) t.equal(await file.nextData(first + i), first + i);
    await skips(first + 5, last);
    t.equal(await file.nextData(last), last);
    await skips(last + 1, size);
    await skips(size - 1, size);
    for (const behind of [0, 1, size]) t.equal(await file.nextData(size + behind), size);
    if (make(t).punches) {
      await file.punch(0, 2 << 20);
      await skips(0, last);
    }
    await file.ftruncate(first);
    await skips(0, first);
    t.equal(await file.nextData(last), first, "the size, once the file was cut");
    await file.ftruncate(size);
    await skips(0, size);
    await file.close();
  });

  behaviour("FileHandle.ftruncate() cuts, and grows with zeros", async (t, fs, root) => {
    const file = await fs.open(join(root, "a"), "create");
    await file.pwritev([counted(100)], 0);
    await file.ftruncate(10);
    t.equal((await file.stat()).size, 10);
    await file.ftruncate(200_000);
    t.equal((await fs.stat(join(root, "a"))).size, 200_000);
    const buffer = Buffer.alloc(20, 0xee);
    t.equal(await file.pread(buffer, 0), 20);
    t.strictSame(buffer, Buffer.concat([counted(10), Buffer.alloc(10)]));
    await file.close();
  });

  behaviour(
    "FileHandle.punch() and allocate() leave the length, or refuse",
    async (t, fs, root) => {
      const file = await fs.open(join(root, "a"), "create");
      await file.pwritev([Buffer.alloc(300_000, 1)], 0);
      const { punches } = make(t);
      if (punches) {
        await file.punch(100, 200_000);
        await file.allocate(0, 1_000_000);
        t.equal((await file.stat()).size, 300_000);
        const buffer = Buffer.alloc(300_000, 0xee);
        t.equal(await file.pread(buffer, 0), 300_000);
        t.strictSame(
          buffer,
          Buffer.concat([Buffer.alloc(100, 1), Buffer.alloc(200_000), Buffer.alloc(99_900, 1)]),
        );
      } else {
        await t.rejects(file.punch(100, 200_000), { code: "EOPNOTSUPP" });
        await t.rejects(file.allocate(0, 1000), { code: "EOPNOTSUPP" });
      }
      await file.close();
    },
  );

  behaviour(
    "FileHandle.advise() and fdatasync() change nothing to be seen",
    async (t, fs, root) => {
      const file = await fs.open(join(root, "a"), "create");
      await file.pwritev([counted(100)], 0);
      await file.fdatasync();
      for (const advice of ["normal", "sequential", "random", "willneed", "dontneed"] as const) {
        await file.advise(0, 0, advice);
      }
      const buffer = Buffer.alloc(100);
      t.equal(await file.pread(buffer, 0), 100);
      t.strictSame(buffer, counted(100));
      await file.close();
    },
  );

  behaviour('FileHandle opened with "read" refuses to write', async (t, fs, root) => {
    const path = join(root, "a");
    await (await fs.open(path, "create")).close();
    const file = await fs.open(path, "read");
    await t.rejects(file.pwritev([counted(1)], 0), { code: "EBADF" });
    t.throws(() => file.pwritevNow([counted(1)], 0), { code: "EBADF" });
    await t.rejects(file.commitAndForce([counted(1)], 0), { code: "EBADF" });
    await file.close();
    t.equal((await fs.stat(path)).size, 0);
  });

  behaviour("FileHandle after close() refuses every call with EBADF", async (t, fs, root) => {
    const file = await fs.open(join(root, "a"), "create");
    const closed = file.close();
    const buffer = Buffer.alloc(1);
    for (const [call, result] of Object.entries({
      pwritev: file.pwritev([buffer], 0),
      pread: file.pread(buffer, 0),
      nextData: file.nextData(0),
      fdatasync: file.fdatasync(),
      commitAndForce: file.commitAndForce([buffer], 0),
      ftruncate: file.ftruncate(1),
      allocate: file.allocate(0, 1),
      punch: file.punch(0, 1),
      advise: file.advise(0, 0, "normal"),
      stat: file.stat(),
    })) {
      await t.rejects<unknown>(result, { code: "EBADF" }, call);
    }
    t.throws(() => file.pwritevNow([buffer], 0), { code: "EBADF" });
    t.throws(() => file.preadIfCached(buffer, 0), { code: "EBADF" });
    await closed;
    await file.close();
  });

  behaviour("FileSystem.open() has three modes", async (t, fs, root) => {
    const path = join(root, "a");
    await t.rejects(fs.open(path, "read"), { code: "ENOENT", syscall: "open", path });
    await t.rejects(fs.open(path, "write"), { code: "ENOENT", path });
    await t.rejects(fs.open(join(root, "none", "a"), "create"), { code: "ENOENT" });
    await (await fs.open(path, "create")).close();
    await t.rejects(fs.open(path, "create"), { code: "EEXIST", path });
    const writing = await fs.open(path, "write");
    await writing.pwritev([counted(4)], 0);
    const reading = await fs.open(path, "read");
    const buffer = Buffer.alloc(4);
    t.equal(await reading.pread(buffer, 0), 4, "what one handle wrote another reads");
    t.equal(reading.path, path);
    await reading.close();
    await writing.close();
  });

  behaviour("FileSystem.mkdir(), rmdir() and readdir() agree", async (t, fs, root) => {
    const directory = join(root, "d");
    await fs.mkdir(directory);
    await t.rejects(fs.mkdir(directory), { code: "EEXIST" });
    await t.rejects(fs.mkdir(join(root, "no", "e")), { code: "ENOENT" });
    await (await fs.open(join(directory, "f"), "create")).close();
    await fs.mkdir(join(directory, "sub"));
    const entries = await fs.readdir(directory);
    entries.sort((a, b) => a.name.localeCompare(b.name));
    t.strictSame(entries, [
      { name: "f", kind: "file" },
      { name: "sub", kind: "directory" },
    ]);
    await t.rejects(fs.rmdir(directory), { code: "ENOTEMPTY" });
    await fs.unlink(join(directory, "f"));
    await fs.rmdir(join(directory, "sub"));
    await fs.syncDirectory(directory);
    await fs.rmdir(directory);
    await t.rejects(fs.readdir(directory), { code: "ENOENT" });
    await t.rejects(fs.rmdir(directory), { code: "ENOENT" });
    await t.rejects(fs.syncDirectory(directory), { code: "ENOENT" });
    t.strictSame(await fs.readdir(root), []);
  });

  behaviour("FileSystem.stat() tells what is there", async (t, fs, root) => {
    t.match(await fs.stat(root), { kind: "directory", identity: String });
    const path = join(root, "a");
    await t.rejects(fs.stat(path), { code: "ENOENT", syscall: "stat", path });
    const file = await fs.open(path, "create");
    await file.pwritev([counted(10)], 0);
    const stat = await fs.stat(path);
    t.match(stat, { kind: "file", size: 10, allocatedBytes: Number, mtimeMs: Number });
    t.equal(stat.identity, (await file.stat()).identity, "a handle leads to the same identity");
    await (await fs.open(join(root, "b"), "create")).close();
    t.not(stat.identity, (await fs.stat(join(root, "b"))).identity);
    await t.rejects(fs.stat(join(path, "below-a-file")), { code: "ENOTDIR" });
    await file.close();
  });

  behaviour("FileSystem.rename() replaces a file, and handles follow", async (t, fs, root) => {
    const [a, b] = [join(root, "a"), join(root, "b")];
    const file = await fs.open(a, "create");
    await (await fs.open(b, "create")).close();
    const { identity } = await fs.stat(a);
    await fs.rename(a, b);
    t.equal((await fs.stat(b)).identity, identity);
    await t.rejects(fs.stat(a), { code: "ENOENT" });
    await t.rejects(fs.rename(a, b), { code: "ENOENT" });
    await file.pwritev([counted(7)], 0);
    t.equal((await fs.stat(b)).size, 7);
    await fs.rename(b, b);
    await fs.mkdir(join(root, "d"));
    await t.rejects(fs.rename(b, join(root, "d")), { code: "EISDIR" });
    await t.rejects(fs.rename(join(root, "d"), b), { code: "ENOTDIR" });
    await t.rejects(fs.rename(join(root, "d"), join(root, "d", "e")), { code: "EINVAL" });
    await fs.rename(b, join(root, "d", "b"));
    await t.rejects(fs.rename(join(root, "d"), join(root, "none", "d")), { code: "ENOENT" });
    await fs.rename(join(root, "d"), join(root, "e"));
    t.equal((await fs.stat(join(root, "e", "b"))).size, 7);
    await file.close();
  });

  behaviour("FileSystem.unlink() leaves the file to open handles", async (t, fs, root) => {
    const path = join(root, "a");
    await t.rejects(fs.unlink(path), { code: "ENOENT" });
    const file = await fs.open(path, "create");
    await file.pwritev([counted(7)], 0);
    await fs.unlink(path);
    t.strictSame(await fs.readdir(root), []);
    t.equal(await file.pread(Buffer.alloc(10), 0), 7);
    await (await fs.open(path, "create")).close();
    t.equal((await fs.stat(path)).size, 0, "the name is free for another file");
    await file.close();
  });

  behaviour("FileSystem.statfs() counts in bytes", async (t, fs, root) => {
    const space = await fs.statfs(root);
    t.ok(space.totalBytes >= space.freeBytes && space.freeBytes >= space.availableBytes);
    t.ok(space.totalBytes > 1_000_000);
  });
}
