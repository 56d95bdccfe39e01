// The power is cut at calls of a store that writes its configuration between its puts.

import t from "tap";
import { Explorer, MODES, type ModeName, WORKLOADS, type Workload } from "../../lib/testing/mod.ts";
import { sliceSeedOf } from "../support/random.ts";

const CUTS_PER_MODE = 60;

const seed = sliceSeedOf(t);

t.test("the config files are whole after each cut, and what was durable is there", async (t) => {
  const workload = WORKLOADS.get("config") as Workload;
  for (const mode of Object.keys(MODES) as ModeName[]) {
    const explorer = new Explorer({ cutsMax: CUTS_PER_MODE });
    await explorer.explore(seed, { ...workload, callsPerCut: 30 }, mode);
    t.comment(`${mode}: ${explorer.totals.cuts} cuts, ${explorer.totals.disks} different disks`);
    t.ok(explorer.totals.cuts > 10);
    for (const { line, at, violations } of explorer.failures) {
      t.comment(`npm run crash -- --replay "${line}"`);
      t.same(violations.slice(0, 5), [], `${line} (${at})`);
    }
  }
});

t.test("a store that syncs no name of a config file is caught", async (t) => {
  const workload = WORKLOADS.get("config") as Workload;
  const explorer = new Explorer({
    failuresMax: 1,
    wrap: (fileSystem) =>
      new Proxy(fileSystem, {
        get(target, name) {
          const value = Reflect.get(target, name);
          if (name !== "syncDirectory")
            return typeof value === "function" ? value.bind(target) : value;
          return async (path: string) => {
            if (!path.endsWith("/config")) await target.syncDirectory(path);
          };
        },
      }),
  });
  await explorer.explore(seed, workload, "SYNC_FLUSH");
  t.match(explorer.failures[0]?.violations, [/and durable/]);
});
