// What all verbs have in common: help, exit codes, messages.

import { join } from "node:path";
import t from "tap";
import { version } from "../../cli/main.ts";
import { forcelog } from "../support/command.ts";

const VERBS = ["info", "ls", "cat", "topics", "offsets", "run", "dump"];

t.test("forcelog --help lists every verb", async (t) => {
  const { code, out, err } = await forcelog("--help");
  t.equal(code, 0);
  t.equal(err, "");
  for (const verb of VERBS) t.match(out, new RegExp(`^  ${verb} `, "m"));
  t.match(out, /Examples:\n/);
  t.match(out, /Exit codes: /);
});

t.test("every verb has its own help, with examples, units and --json", async (t) => {
  for (const verb of VERBS) {
    const { code, out } = await forcelog(verb, "--help");
    t.equal(code, 0, verb);
    t.match(out, new RegExp(`Examples:\n  forcelog ${verb} `), verb);
    t.match(out, /--json/, verb);
    t.match(out, /bytes/, verb);
    t.equal((await forcelog("help", verb)).out, out, `forcelog help ${verb}`);
  }
});

t.test("forcelog --version prints the package's version", async (t) => {
  const { code, out } = await forcelog("--version");
  t.equal(code, 0);
  t.equal(out, `${version()}\n`);
  t.match(version(), /^\d+\.\d+\.\d+/);
});

t.test("a mistake in the call ends with exit code 2 and says what it was", async (t) => {
  const dir = t.testdir({ commitlog: {} });
  for (const [args, message] of [
    [[], "no verb is given"],
    [["nosuch"], "unknown command 'nosuch'"],
    [["info"], "missing required argument 'directory'"],
    [["ls", dir, "--bogus"], "unknown option '--bogus'"],
    [["dump"], "required option '--dir <directory>' not specified"],
    [["dump", "--dir", dir, "--pretty", "x"], "Cannot use --pretty x"],
    [["run", "--dir", dir], "required option '--script <json>' not specified"],
    [["cat", dir], "give one of --topic, --offset and --id"],
    [["cat", dir, "--topic", "T", "--offset", "0"], "give one of --topic, --offset and --id"],
    [["cat", dir, "--offset", "0", "--count", "1"], "Cannot use --count without --topic"],
    [["cat", dir, "--topic", "T", "--count", "0"], "Cannot use --count 0"],
    [["cat", dir, "--topic", "T", "--from", "-1"], "Cannot use --from -1"],
    [["cat", dir, "--topic", "T", "--format", "xml"], "Cannot use --format xml"],
    [["cat", dir, "--topic", "T", "--format", "raw", "--json"], "Cannot use --json"],
    [["cat", dir, "--id", "zz"], "Cannot use --id zz"],
  ] as const) {
    const { code, out, err } = await forcelog(...args);
    t.equal(code, 2, args.join(" "));
    t.equal(out, "");
    t.match(err, /^forcelog: /);
    t.ok(err.includes(message), err);
  }
});

t.test("a number beyond 2^53 is refused, not rounded", async (t) => {
  const dir = t.testdir({ commitlog: {} });
  const { code, err } = await forcelog("cat", dir, "--offset", "9007199254740993");
  t.equal(code, 2);
  t.match(err, /--offset 9007199254740993: expected a whole number of 0 to 9007199254740991/);
});

t.test("what cannot be done ends with exit code 1 and says what, where and why", async (t) => {
  const dir = t.testdir({ file: "x", empty: {}, "bad.json": "{", store: { commitlog: {} } });
  for (const [args, message] of [
    [["info", join(dir, "nosuch")], `Cannot open ${join(dir, "nosuch")}: ENOENT`],
    [["ls", join(dir, "file")], `Cannot open ${join(dir, "file")}: it is no directory`],
    [["cat", join(dir, "empty"), "--topic", "T"], `Cannot find a store in ${join(dir, "empty")}`],
    [["dump", "--dir", join(dir, "nosuch")], `Cannot open ${join(dir, "nosuch")}`],
    [["cat", join(dir, "store"), "--topic", "T"], 'Cannot find topic "T"'],
    [["cat", join(dir, "store"), "--offset", "0"], "Cannot find a message with offset 0"],
    [["info", join(dir, "store"), "--config", join(dir, "nosuch.json")], "nosuch.json: ENOENT"],
    [["info", join(dir, "store"), "--config", join(dir, "bad.json")], "bad.json as JSON"],
    [["info", join(dir, "store"), "--config", '{"config": 1}'], 'Cannot use "config"'],
    [["info", join(dir, "store"), "--config", '{"nosuch": 1}'], 'Cannot use option "nosuch"'],
  ] as const) {
    const { code, out, err } = await forcelog(...args);
    t.equal(code, 1, args.join(" "));
    t.equal(out, "");
    t.match(err, /^forcelog: /);
    t.ok(err.includes(message), err);
  }
});
