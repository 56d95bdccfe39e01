import t from "tap";
import { explainRecovery, MessageStore, StoreError, type StoreOptions } from "../lib/mod.ts";
import { FakeClock } from "../lib/testing/mod.ts";
import { baseOf } from "./support/hostile_bases.ts";
import { ImageFileSystem } from "./support/image_file_system.ts";
import { rejection } from "./support/rejections.ts";
import { type Mutation, mutate } from "./support/store_mutator.ts";

const QUEUE = "consumequeue/T/0/00000000000000000000";
const LOG = "commitlog/00000000000000000000";

/** The first is the path that is named. */
const CASES: Readonly<Record<string, readonly Mutation[]>> = {
  "a file as the store's own folder": [{ do: "file", path: "forcelog", hex: "78", size: 1 }],
  "a link to itself as the store's own folder": [
    { do: "link", path: "forcelog", target: "/store/forcelog" },
  ],
  "a file as the folder of the log": [{ do: "file", path: "commitlog", hex: "78", size: 1 }],
  "a file as the folder of the queues": [{ do: "file", path: "consumequeue", hex: "78", size: 1 }],
  "a folder as a log file": [{ do: "directory", path: LOG }],
  "a log file that may not be read": [{ do: "deny", path: LOG }],
  "a queue file that may not be read": [{ do: "deny", path: QUEUE }],
  "a short queue file that may not be written": [
    { do: "deny", path: QUEUE },
    { do: "resize", path: QUEUE, size: 100 },
  ],
  "a checkpoint that may not be read": [{ do: "deny", path: "checkpoint" }],
};

for (const [what, mutations] of Object.entries(CASES)) {
  t.test(`a store with ${what} is refused alike by all that open it`, async (t) => {
    const base = await baseOf("sync");
    const image = base.image.fork();
    for (const mutation of mutations) mutate(image, mutation);
    const path = `/store/${mutations[0]?.path}`;
    const calls: Readonly<Record<string, (fs: ImageFileSystem) => Promise<unknown>>> = {
      explain: (fileSystem) => explainRecovery("/store", base.options, environment(fileSystem)),
      read: (fileSystem) => open(fileSystem, base.options, true),
      write: (fileSystem) => open(fileSystem, base.options, false),
      repair: (fileSystem) => open(fileSystem, { ...base.options, recoverWholeLog: true }, false),
    };
    for (const [name, call] of Object.entries(calls)) {
      const fileSystem = new ImageFileSystem(image.fork());
      const error = await rejection(call(fileSystem));
      t.ok(error instanceof StoreError, `${name}: ${error}`);
      t.match(error, { path }, name);
      t.equal(fileSystem.openHandles, 0, name);
    }
  });
}

function environment(fileSystem: ImageFileSystem) {
  return { fileSystem, clock: new FakeClock(), onWarning: () => undefined };
}

function open(
  fileSystem: ImageFileSystem,
  options: StoreOptions,
  readOnly: boolean,
): Promise<MessageStore> {
  return MessageStore.open("/store", options, { ...environment(fileSystem), readOnly });
}
