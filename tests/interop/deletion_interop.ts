// A store whose topics were deleted, some of them put to again: what RocketMQ's own store makes of it, and
// what we make of that. It knows nothing of the list of deleted topics.

import t from "tap";
import {
  checkStore,
  killedCopy,
  message,
  openStore,
  putMany,
  storePath,
} from "../support/stores.ts";
import { copyOf, eachVersion, javaDump, oracleFor, SIZES } from "./forcelog.ts";
import type { Dump } from "./views.ts";

const oracle = oracleFor(t);

/** Where a queue goes on that had fewer messages than its file holds. */
const NEXT = SIZES.mappedFileSizeConsumeQueue / 20;

/** Ends of the queues that hold messages, and how many of their units lead to what they should. */
function queuesOf({ queues }: Dump): unknown[] {
  return queues
    .filter(({ max }) => max > 0)
    .map(({ topic, queueId, min, max, units, unreadableOrMisplaced }) => {
      return [`${topic}/${queueId}`, min, max, units.length, unreadableOrMisplaced];
    })
    .sort();
}

if (oracle) {
  t.jobs = 2;
  eachVersion(t, "a topic that was deleted and put to again", async (t, version) => {
    const dir = storePath(t);
    const { store } = await openStore(t, dir, SIZES);
    await putMany(store, 3, { topic: "A" });
    await putMany(store, 2, { topic: "B" });
    await putMany(store, 2, { topic: "C" });
    await store.checkpoint();
    await store.deleteTopics(["A", "C"]);
    await putMany(store, 2, { topic: "A" });
    await putMany(store, 1, { topic: "B" });
    const due = [
      ["A/0", NEXT, NEXT + 2, 2, 0],
      ["B/0", 0, 3, 3, 0],
    ];
    await store.checkpoint();
    const killed = killedCopy(t, dir);
    await store.close();
    t.strictSame(queuesOf(await javaDump(oracle, version, dir, SIZES)), due, "after a clean stop");
    // After a crash it may bring C back, as it does with its own: its records are dispatched again.
    const crashed = queuesOf(await javaDump(oracle, version, killed, SIZES)).filter(
      (queue) => (queue as unknown[])[0] !== "C/0",
    );
    t.strictSame(crashed, due, "after a crash");
    for (const place of [dir, killed]) {
      const copy = copyOf(place);
      await oracle.dump(version, copy, { config: SIZES });
      const { store: again } = await openStore(t, copy, SIZES);
      t.strictSame(
        again.queues().map(({ topic, minOffset, maxOffset }) => [topic, minOffset, maxOffset]),
        [
          ["A", NEXT, NEXT + 2],
          ["B", 0, 3],
        ],
      );
      t.equal((await again.put(message("", { topic: "C" }))).queueOffset, NEXT);
      await checkStore(t, again, copy);
      await again.close();
    }
  });
}
