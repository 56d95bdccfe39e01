import { existsSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import {
  forgetFailedSync,
  hasFailedSync,
  noteFailedSync,
} from "../../lib/checkpoint/sync_failed_file.ts";
import { rejection } from "../support/rejections.ts";
import {
  bodies,
  eachBinding,
  killedCopy,
  MODES,
  message,
  openStore,
  putMany,
  storePath,
} from "../support/stores.ts";

eachBinding(
  t,
  "a failed sync is noted before anybody hears of it, and the log is written again at the next open",
  async (t, binding) => {
    for (const [mode, options] of Object.entries(MODES)) {
      const dir = storePath(t, mode);
      const { store, fileSystem } = await openStore(t, dir, options, { binding });
      await putMany(store, 5);
      await store.checkpoint();
      const durable = store.watermarks.flushed;
      fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
      const held = fileSystem.hold("open", { path: /sync-failed/ });
      const lost = Promise.allSettled([store.put(message("5")), store.flush()]);
      await held.waiting;
      t.equal(store.state, "open", `${mode}: not before it is noted`);
      held.release();
      t.match((await lost)[1], { status: "rejected", reason: { cause: { code: "EIO" } } });
      t.ok(existsSync(join(dir, "forcelog", "sync-failed")));
      const end = store.watermarks.wrote;
      const copy = killedCopy(t, dir);

      const again = await openStore(t, copy, options, { binding });
      t.same(await bodies(again.store), ["0", "1", "2", "3", "4", "5"]);
      const written = again.fileSystem.calls.filter(
        ({ name, path }) => name === "pwritev" && /commitlog/.test(path),
      );
      t.match(written[0], { position: durable, length: end - durable }, mode);
      t.notOk(existsSync(join(copy, "forcelog", "sync-failed")));
      await again.store.close();
      const third = await openStore(t, copy, options, { binding });
      t.equal(third.fileSystem.count("pwritev", { path: /commitlog/ }), 0);
    }
  },
);

eachBinding(t, "an open that can't write the log again leaves the note", async (t, binding) => {
  const dir = storePath(t);
  const { store, fileSystem } = await openStore(t, dir, {}, { binding });
  await putMany(store, 5);
  fileSystem.failNext("fdatasync", "EIO", { path: /commitlog/ });
  await rejection(store.flush());
  const copy = killedCopy(t, dir);
  for (const name of ["pwritev", "fdatasync"] as const) {
    const broken = binding.fileSystem();
    broken.failNext(name, "EIO", { path: /commitlog/ });
    const opening = openStore(t, copy, {}, { binding, fileSystem: broken });
    t.match(await rejection(opening), { code: "STORE_IO", cause: { code: "EIO" } });
    t.ok(existsSync(join(copy, "forcelog", "sync-failed")), name);
  }
  const { store: again } = await openStore(t, copy, {}, { binding });
  t.equal((await bodies(again)).length, 5);
});

t.test("noteFailedSync() never rejects; the others tell what failed", async (t) => {
  const { fileSystem } = await openStore(t, storePath(t));
  const path = join(storePath(t), "forcelog", "sync-failed");
  t.equal(await hasFailedSync(fileSystem, path), false);
  fileSystem.failNext("open", "EROFS");
  await noteFailedSync(fileSystem, path);
  await noteFailedSync(fileSystem, path);
  await noteFailedSync(fileSystem, path);
  t.equal(await hasFailedSync(fileSystem, path), true);
  fileSystem.failNext("stat", "EACCES");
  t.match(await rejection(hasFailedSync(fileSystem, path)), { code: "STORE_IO", path });
  fileSystem.failNext("unlink", "EROFS");
  t.match(await rejection(forgetFailedSync(fileSystem, path)), { code: "STORE_IO", path });
  await forgetFailedSync(fileSystem, path);
  t.equal(await hasFailedSync(fileSystem, path), false);
});
