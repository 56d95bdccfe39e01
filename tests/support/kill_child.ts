/**
 * A process that puts messages until it is killed, and tells of each acknowledgement on descriptor
 * 3, after the put has resolved and before anything else. It may hold several stores.
 *
 * Its argument is a {@linkcode ChildSpec} as JSON; its lines are those of {@linkcode Report}.
 *
 * @module
 */

import { writeSync } from "node:fs";
import {
  type Message,
  type MessageBatch,
  MessageStore,
  NodeFileSystem,
  type PutResult,
} from "../../lib/mod.ts";
import { type Call, type CallName, InterceptedFileSystem } from "../../lib/testing/mod.ts";
import type { ChildSpec, Report, StoreSpec } from "./kill_harness.ts";
import { messageOf, stepOf } from "./kill_plan.ts";

/** Calls that change what the next process finds. Between the others a kill is all the same. */
const CHANGES: ReadonlySet<CallName> = new Set<CallName>([
  "open",
  "mkdir",
  "rmdir",
  "rename",
  "unlink",
  "pwritev",
  "pwritevNow",
  "ftruncate",
  "allocate",
  "punch",
]);
const WRITES: ReadonlySet<CallName> = new Set<CallName>(["pwritev", "pwritevNow"]);

function tell(report: Report): void {
  writeSync(3, `${JSON.stringify(report)}\n`);
}

/** A file system that kills the process at the n-th call that changes anything. */
function deadly(dies: NonNullable<StoreSpec["dies"]>): InterceptedFileSystem {
  const { atChange, tornBytes, under = "" } = dies;
  let changes = 0;
  const die = (): void => {
    process.kill(process.pid, "SIGKILL");
  };
  const fileSystem: InterceptedFileSystem = new InterceptedFileSystem(
    new NodeFileSystem(),
    (call: Call, proceed: () => unknown): unknown => {
      const isChange = CHANGES.has(call.name) && (call.name !== "open" || call.mode === "create");
      if (!isChange || !call.path.includes(under)) return proceed();
      changes++;
      if (changes !== atChange) return proceed();
      if (tornBytes === undefined || !WRITES.has(call.name)) die();
      // The kernel may have copied some of the bytes when it sees the signal.
      fileSystem.shorten(call.name, [Math.min(tornBytes as number, call.length as number)]);
      const result = proceed();
      if (result instanceof Promise) return result.finally(die);
      die();
      return result;
    },
  );
  return fileSystem;
}

async function live(spec: StoreSpec, index: number): Promise<void> {
  const { dir, options, plan, generation } = spec;
  tell({ is: "opening", store: index });
  const store = await MessageStore.open(dir, options, {
    onWarning: () => undefined,
    ...(spec.dies ? { fileSystem: deadly(spec.dies) } : {}),
  });
  tell({ is: "open", store: index, end: store.watermarks.wrote });
  const lanes = Array.from({ length: plan.lanes }, async (_, lane) => {
    const inFlight: Promise<void>[] = [];
    for (let step = 0; step < plan.steps; step++) {
      const put = stepOf(plan, { generation, lane, step });
      const message = messageOf(put);
      const acknowledge = (place?: PutResult): void => {
        const at = place && {
          queueOffset: place.queueOffset,
          physicalOffset: place.physicalOffset,
          size: place.size,
          storeTimestamp: place.storeTimestamp,
        };
        tell({ is: "acknowledged", store: index, generation, lane, step, at });
      };
      const result =
        put.kind === "batch"
          ? store.putBatch(message as MessageBatch)
          : store.put(message as Message);
      // Lies: as soon as it is in the write buffer, whatever the mode promises.
      if (spec.lies) acknowledge();
      inFlight.push(result.then((place) => (spec.lies ? undefined : acknowledge(place))));
      if (inFlight.length >= plan.window) await inFlight.shift();
      if (put.pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, put.pauseMs));
    }
    await Promise.all(inFlight);
  });
  await Promise.all(lanes);
  tell({ is: "done", store: index });
}

const spec = JSON.parse(process.argv[2] as string) as ChildSpec;
spec.stores.forEach((store, index) => {
  live(store, index).catch((error: Error) => {
    tell({ is: "failed", store: index, error: String(error.stack) });
  });
});
// Until it is killed, or the one who would do it is gone.
setInterval(() => {
  if (process.ppid === 1) process.exit(1);
}, 500);
