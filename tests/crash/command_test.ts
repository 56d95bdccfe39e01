import t from "tap";
import { crashCommand } from "../../lib/testing/crash/command.ts";

async function run(...args: string[]): Promise<{ code: number; lines: string[] }> {
  const lines: string[] = [];
  const code = await crashCommand(args, (line) => lines.push(line));
  return { code, lines };
}

t.test("crashCommand() counts its cuts by workload, mode and kind", async (t) => {
  const { code, lines } = await run("--seed", "5", "--workload", "first", "--mode", "pool");
  t.equal(code, 0);
  t.match(lines[0], /^seed 5, 1 rounds$/);
  t.match(lines.at(-3), /none.*torn.*harsh|harsh.*torn|kill/);
  t.match(lines.at(-2), /^first, pool( +\d+\+\d+){7}$/);
  t.match(lines.at(-1), /^1 plays of \d+ calls, .* 0 failures$/);
});

t.test("crashCommand() replays a line", async (t) => {
  const fine = await run("--replay", "seed=5 workload=first mode=SYNC_FLUSH call=60 cut=torn");
  t.same(fine, { code: 0, lines: ["Nothing was violated"] });
  const play = await run("--replay", "seed=5 workload=first mode=SYNC_FLUSH");
  t.same(play, { code: 0, lines: ["Nothing was violated"] });
  const failed = await run("--replay", "seed=5 workload=first mode=pool fail=30 way=EIO");
  t.equal(failed.code, 0);
  t.match(failed.lines[0], /^(told|unaffected): /);
});

t.test("crashCommand() says what it does not understand", async (t) => {
  for (const args of [
    ["--bogus"],
    ["--workload", "none"],
    ["--mode", "none"],
    ["--seed", "-1"],
    ["--replay", "seed=5"],
    ["--replay", "seed=5 workload=first mode=pool call=99999 cut=none"],
  ]) {
    const { code, lines } = await run(...args);
    t.equal(code, 2, args.join(" "));
    t.ok((lines[0] ?? "").length > 0);
  }
  const { code, lines } = await run("--help");
  t.equal(code, 0);
  t.match(lines.join("\n"), /--replay/);
});
