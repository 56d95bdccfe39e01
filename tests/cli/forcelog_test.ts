// The command as a process: how it starts, how it ends.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { version } from "../../cli/main.ts";
import { openGolden } from "../support/golden.ts";

const COMMAND = join(import.meta.dirname, "../../cli/forcelog.mjs");

function start(...args: string[]): ChildProcess {
  return spawn(process.execPath, [COMMAND, ...args], {
    cwd: "/",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function ended(
  child: ChildProcess,
): Promise<{ code: number | null; out: string; err: string }> {
  let out = "";
  let err = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out, err };
}

t.jobs = 4;

t.test("it runs from anywhere, built or not", async (t) => {
  const { code, out, err } = await ended(start("--version"));
  t.strictSame({ code, out, err }, { code: 0, out: `${version()}\n`, err: "" });
});

t.test("its exit code tells a mistake in the call", async (t) => {
  const { code, out, err } = await ended(start("ls"));
  t.strictSame([code, out], [2, ""]);
  t.match(err, /^forcelog: missing required argument/);
});

t.test("halt ends it as kill -9 does: abort stays", async (t) => {
  const dir = join(t.testdir({}), "store");
  const script = JSON.stringify({
    config: { mappedFileSizeCommitLog: 65536 },
    steps: [{ body: "x", repeat: 50 }],
    end: "halt",
  });
  const { code, out, err } = await ended(start("run", "--dir", dir, "--script", script));
  t.equal(code, 0, err);
  const lines = out.trimEnd().split("\n");
  t.equal(lines.length, 51);
  const end = JSON.parse(lines[50] as string);
  t.match(end, { op: "end", end: "halt", maxPhyOffset: 4650, behind: 0 });
  t.ok(existsSync(join(dir, "abort")));
  t.notOk(existsSync(join(dir, "consumequeue", "T")), "its queues were in memory");
  const dump = await ended(start("dump", "--dir", dir));
  t.equal(JSON.parse(dump.out).commitLog.records.length, 50, "what was acknowledged is there");
});

t.test("a reader that has enough is no failure", async (t) => {
  const { dir } = openGolden(t, "roll-boundaries");
  const child = start("cat", dir, "--topic", "Roll", "--json");
  child.stdout?.once("data", () => child.stdout?.destroy());
  const code = await new Promise((resolve) => child.once("close", resolve));
  t.equal(code, 0);
});
