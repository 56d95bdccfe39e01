// A short run of the library, in whatever form it comes and under whatever Node this is:
//
//   node smoke.mjs LIBRARY TESTING      modules: names of a package's exports, or URLs of files
//
// In each mode it puts, reads, closes, opens again and reads the same. Ends with the first surprise.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";

const [library, testing] = process.argv.slice(2);
const { MessageStore, NodeFileSystem } = await import(library);
const { InterceptedFileSystem } = await import(testing);
const url = import.meta.resolve(library);
const binding = await import(new URL(`io/native_binding${extname(url)}`, url).href);
const status = binding.nativeBindingStatus();
assert.match(status, /^loaded from /);

const MODES = {
  SYNC_FLUSH: { flushDiskType: "SYNC_FLUSH" },
  ASYNC_FLUSH: { flushDiskType: "ASYNC_FLUSH" },
  pool: { flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
};
const SIZES = { mappedFileSizeCommitLog: 1 << 20, mappedFileSizeConsumeQueue: 20_000 };
const BODIES = ["one", "two", "three"];

async function bodies(store) {
  const { status, messages } = await store.get({ topic: "smoke", queueId: 0, offset: 0 });
  assert.equal(status, "FOUND");
  return messages.map(({ body }) => Buffer.from(body).toString());
}

const directory = mkdtempSync(join(tmpdir(), "forcelog-smoke-"));
try {
  for (const [mode, options] of Object.entries(MODES)) {
    const environment = { fileSystem: new InterceptedFileSystem(new NodeFileSystem()) };
    const open = () =>
      MessageStore.open(join(directory, mode), { ...SIZES, ...options }, environment);
    const store = await open();
    for (const text of BODIES) await store.put({ topic: "smoke", body: Buffer.from(text) });
    await store.flush();
    assert.deepEqual(await bodies(store), BODIES);
    await store.close();
    const again = await open();
    assert.deepEqual(await bodies(again), BODIES);
    await again.close();
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
console.log(`Node ${process.versions.node} puts and reads in every mode; addon ${status}`);
