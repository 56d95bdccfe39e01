// What RocketMQ's own recovery would do, told without doing it: held against what it did do with the
// golden stores.

import t from "tap";
import { explainRecovery, type RocketmqExplanation } from "../../lib/mod.ts";
import { fingerprint } from "../support/command.ts";
import { type Golden, goldenNames, openGolden } from "../support/golden.ts";

/** Keys that concern what is not served. */
const NOT_OURS = ["maxHashSlotNum", "maxIndexNum"];

async function explained({ dir, recipe, seen }: Golden): Promise<RocketmqExplanation> {
  const config = Object.entries(recipe.config).filter(([key]) => !NOT_OURS.includes(key));
  const { rocketmq } = await explainRecovery(dir, Object.fromEntries(config), {
    onWarning: () => undefined,
  });
  const release = seen.version.split(".").slice(0, 2).join(".");
  return rocketmq.find(({ version }) => version === release)!;
}

for (const name of goldenNames()) {
  t.test(`explainRecovery() tells what RocketMQ made of the golden store ${name}`, async (t) => {
    const golden = openGolden(t, name);
    const { dir, seen } = golden;
    const before = fingerprint(dir);
    const told = await explained(golden);
    t.equal(fingerprint(dir), before, "nothing was changed");
    t.equal(told.refusal, undefined);
    t.equal(told.end, seen.maxOffsetAfterLoad);
    const queues = seen.queues.filter(({ max }) => max > 0);
    const key = ({ topic, queueId }: { topic: string; queueId: number }) => `${topic}/${queueId}`;
    const due = queues.map((queue) => [key(queue), queue.max, queue.maxPhysicOffset]);
    const found = told.queues.map((queue) => [key(queue), queue.max, queue.maxPhysicalOffset]);
    t.same(found.sort(), due.sort());
    const removed = Object.keys(seen.filesBefore).filter(
      (path) => path.startsWith("commitlog/") && !(path in seen.filesAfterLoad),
    );
    t.same(
      told.deletedFiles.map((path) => path.slice(dir.length + 1)),
      removed,
      "files that it deleted",
    );
  });
}
