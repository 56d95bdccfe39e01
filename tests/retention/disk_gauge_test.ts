import t from "tap";
import type { FileSystem } from "../../lib/io/file_system.ts";
import { resolveOptions, type StoreOptions } from "../../lib/options.ts";
import { DiskGauge } from "../../lib/retention/disk_gauge.ts";

interface Used {
  log: number | "ENOENT";
  queues: number | "ENOENT";
}

function gaugeOf(used: Used, options: StoreOptions = {}, storeBytes = 0) {
  const warnings: string[] = [];
  const fileSystem = {
    statfs: async (path: string) => {
      const percent = path === "/log" ? used.log : used.queues;
      if (percent === "ENOENT") throw Object.assign(new Error("ENOENT"), { code: "ENOENT" });
      const free = 10 * (100 - percent);
      return { totalBytes: 1000, freeBytes: free, availableBytes: free };
    },
  } as unknown as FileSystem;
  const gauge = new DiskGauge({
    fileSystem,
    commitLog: "/log",
    consumeQueue: "/queues",
    options: resolveOptions(options),
    storeBytes: () => storeBytes,
    warn: ({ message }) => warnings.push(message),
  });
  return { gauge, warnings };
}

t.test("DiskGauge: what is deleted and refused as a disk fills and empties", async (t) => {
  for (const which of ["log", "queues"] as const) {
    const used: Used = { log: 10, queues: 10 };
    const { gauge } = gaugeOf(used);
    for (const [percent, need, full] of [
      [10, "none", false],
      [75, "none", false],
      [75.1, "expired", false],
      [85, "expired", false],
      [86, "oldest", false],
      [90, "oldest", false],
      [90.5, "oldest", true],
      [86, "oldest", true],
      [85, "expired", false],
      [99, "oldest", true],
      [75, "none", false],
    ] as const) {
      used[which] = percent;
      t.equal(await gauge.probe(), need, `${which} ${percent}`);
      t.equal(gauge.refusal !== undefined, full, `${which} ${percent}`);
    }
  }
});

t.test("DiskGauge: one disk does not clear what the other has set", async (t) => {
  const used: Used = { log: 95, queues: 95 };
  const { gauge } = gaugeOf(used);
  await gauge.probe();
  used.log = 20;
  await gauge.probe();
  t.match(gauge.refusal, "the disk of /queues is 95 per cent full");
  used.log = 92;
  used.queues = 10;
  await gauge.probe();
  t.match(gauge.refusal, "the disk of /log is 92 per cent full");
  t.equal(gauge.logRatio, 0.92);
  t.equal(gauge.queuesRatio, 0.1);
});

t.test("DiskGauge: limits are held within RocketMQ's bounds", async (t) => {
  const used: Used = { log: 91, queues: 1 };
  const options = { diskSpaceWarningLevelRatio: 100, diskSpaceCleanForciblyRatio: 100 };
  const { gauge } = gaugeOf(used, options);
  t.equal(await gauge.probe(), "oldest");
  t.ok(gauge.refusal, "no later than at 90");
  used.log = 9;
  const low = gaugeOf(used, {
    diskMaxUsedSpaceRatio: 0,
    diskSpaceCleanForciblyRatio: 0,
    diskSpaceWarningLevelRatio: 0,
  });
  t.equal(await low.gauge.probe(), "none", "no sooner than at 10");
  used.log = 11;
  t.equal(await low.gauge.probe(), "expired");
  used.log = 31;
  t.equal(await low.gauge.probe(), "oldest");
  t.notOk(low.gauge.refusal);
  used.log = 36;
  await low.gauge.probe();
  t.ok(low.gauge.refusal);
});

t.test("DiskGauge: a store that shares its disk has a part of it", async (t) => {
  const options = { replicasPerDiskPartition: 2 };
  for (const [bytes, need] of [
    [375, "none"],
    [376, "expired"],
    [400, "expired"],
    [401, "oldest"],
  ] as const) {
    const { gauge } = gaugeOf({ log: 80, queues: 80 }, options, bytes);
    t.equal(await gauge.probe(), need, `${bytes} of 500`);
  }
  const { gauge } = gaugeOf({ log: 86, queues: 80 }, options, 0);
  t.equal(await gauge.probe(), "oldest", "the disk itself counts too");
});

t.test("DiskGauge: a disk that can't be asked is told once and deletes nothing", async (t) => {
  const used: Used = { log: "ENOENT", queues: "ENOENT" };
  const { gauge, warnings } = gaugeOf(used);
  for (let i = 0; i < 10; i++) t.equal(await gauge.probe(), "none");
  t.notOk(gauge.refusal);
  t.equal(gauge.logRatio, undefined);
  t.equal(warnings.length, 2);
  used.log = 95;
  await gauge.probe();
  used.log = "ENOENT";
  await gauge.probe();
  t.equal(warnings.length, 3);
});
