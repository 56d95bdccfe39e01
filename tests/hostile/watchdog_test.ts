// A search that stands still says where, although its thread can't.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import t from "tap";

const WATCHDOG = pathToFileURL(join(import.meta.dirname, "../support/watchdog.ts")).href;

function run(code: string) {
  const script = `import { Watchdog } from ${JSON.stringify(WATCHDOG)};\n${code}`;
  const args = ["--import=tsx", "--input-type=module", "--eval", script];
  return spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
}

t.test("Watchdog ends a process that loops, and tells its last step", async (t) => {
  const { signal, stderr } = run(`
    const watchdog = new Watchdog(400, "seed %1, round %2");
    watchdog.step(7, 41);
    watchdog.step(7, 42);
    for (;;);
  `);
  t.equal(signal, "SIGKILL");
  t.match(stderr, /Nothing has happened for 400 ms: seed 7, round 42\n$/);
});

t.test("Watchdog leaves one alone that goes on, and keeps none alive", async (t) => {
  const { status, stderr, stdout } = run(`
    const watchdog = new Watchdog(4000, "%1 %2");
    for (let i = 0; i < 20; i++) {
      watchdog.step(1, i);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    console.log("done");
  `);
  t.match({ status, stdout }, { status: 0, stdout: "done\n" }, stderr);
});
