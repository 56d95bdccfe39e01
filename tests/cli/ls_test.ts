// forcelog ls: queues and files.

import { statSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { fingerprint, forcelog } from "../support/command.ts";
import { openGolden } from "../support/golden.ts";

t.test("ls prints a line for each queue, in order", async (t) => {
  const { dir, expected } = openGolden(t, "queue-rolled");
  const before = fingerprint(dir);
  const { code, out, err } = await forcelog("ls", dir);
  t.equal(code, 0);
  t.equal(err, "");
  const [head, ...rows] = out.trimEnd().split("\n");
  t.match(head, /^TOPIC +QUEUE +MIN +MAX +COUNT +LOG END +TYPE$/);
  t.strictSame(
    rows.map((row) => row.split(/ +/)),
    expected.queues.map(({ topic, queueId, min, max, maxPhysicOffset }) =>
      [topic, queueId, min, max, max - min, maxPhysicOffset, "SimpleCQ"].map(String),
    ),
  );
  t.equal(fingerprint(dir), before, "nothing was changed");
});

t.test("ls --json prints the same as one object", async (t) => {
  for (const name of ["lmq", "expired-front", "pre-blank", "crash-queues-behind"]) {
    const { dir, recipe, expected } = openGolden(t, name);
    const config = JSON.stringify(recipe.config);
    const { code, out } = await forcelog("ls", dir, "--json", "--config", config);
    t.equal(code, 0, name);
    t.strictSame(
      JSON.parse(out).queues.map((queue: Record<string, unknown>) => [
        queue.topic,
        queue.queueId,
        queue.min,
        queue.max,
        queue.count,
      ]),
      expected.queues
        .filter(({ max }) => max > 0)
        .map(({ topic, queueId, min, max }) => [topic, queueId, min, max, max - min]),
      name,
    );
  }
});

t.test("ls --files lists what lies on disk", async (t) => {
  const { dir, expected } = openGolden(t, "crash-async");
  const before = fingerprint(dir);
  const { code, out } = await forcelog("ls", dir, "--files", "--json");
  t.equal(code, 0);
  const { files } = JSON.parse(out) as {
    files: { path: string; size: number; allocatedBytes: number }[];
  };
  t.strictSame(
    Object.fromEntries(files.map(({ path, size }) => [path, size])),
    expected.filesBefore,
  );
  for (const { path, allocatedBytes } of files) {
    t.equal(allocatedBytes, statSync(join(dir, path)).blocks * 512, path);
  }
  const text = await forcelog("ls", dir, "--files");
  t.match(text.out, /^PATH +SIZE +ON DISK\n/);
  t.equal(text.out.trimEnd().split("\n").length, files.length + 1);
  t.equal(fingerprint(dir), before, "nothing was changed");
});
