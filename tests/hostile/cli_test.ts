// The command on damaged stores: it prints what there is, tells what is wrong in a line each, and ends.

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { forcelog } from "../support/command.ts";
import { baseOf } from "../support/hostile_bases.ts";
import { planOf, type TrialPlan } from "../support/hostile_trial.ts";
import { sliceSeedOf } from "../support/random.ts";
import type { StoreImage } from "../support/store_image.ts";
import { mutate } from "../support/store_mutator.ts";
import { testFolder } from "../support/test_folder.ts";

/** How long the random part takes at most, and how many stores are enough. */
const RANDOM_MS = 12_000;
const ROUNDS = 150;
/** Files with larger holes are read for long. */
const FILE_BYTES_MAX = 2 ** 24;

async function imageOf(plan: TrialPlan): Promise<StoreImage> {
  const image = (await baseOf(plan.base)).image.fork();
  for (const mutation of plan.mutations) mutate(image, mutation);
  return image;
}

/** What is wrong with what a verb says, if anything. */
function faultOf(
  result: { code: number; out: string; err: string },
  verb: string,
): string | undefined {
  const { code, out, err } = result;
  if (code !== 0 && code !== 1) return `it ended with ${code}`;
  if (code === 1 && err === "") return "it failed and did not say why";
  const lines = err.split("\n").filter((line) => line !== "");
  const wrong = lines.find(
    (line) => !line.startsWith("forcelog: ") || /undefined|NaN|\bat .*\.ts:/.test(line),
  );
  if (wrong !== undefined) return `it said ${JSON.stringify(wrong)}`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal would act upon them
  if (/[\u0000-\u0009\u000b-\u001f\u007f]/.test(err)) return "it wrote control characters";
  if (verb === "dump" && out !== "") JSON.parse(out);
  return undefined;
}

t.test("every verb that reads ends with a code and a line for each fault", async (t) => {
  const seed = sliceSeedOf(t);
  const folder = testFolder(t);
  const startedAt = performance.now();
  let stores = 0;
  for (let round = 0; round < ROUNDS && performance.now() - startedAt < RANDOM_MS; round++) {
    const plan = await planOf(seed, round);
    const image = await imageOf(plan);
    if (image.paths().some((path) => (image.file(path)?.size ?? 0) > FILE_BYTES_MAX)) continue;
    const dir = join(folder, `${round}`);
    mkdirSync(dir);
    image.save(dir);
    const { options, survey } = await baseOf(plan.base);
    const config = JSON.stringify(options);
    const [, topic = "T"] = survey.queueFiles[0]?.split("/") ?? [];
    for (const [verb, ...args] of [
      ["info", dir],
      ["info", dir, "--json"],
      ["ls", dir],
      ["ls", dir, "--files"],
      ["cat", dir, "--topic", topic],
      ["cat", dir, "--offset", "0", "--json"],
      ["dump", "--dir", dir],
      ["recover", "--dir", dir, "--explain"],
    ] as [string, ...string[]][]) {
      const isConfigured = round % 2 === 0;
      const result = await forcelog(verb, ...args, ...(isConfigured ? ["--config", config] : []));
      const fault = faultOf(result, verb);
      if (fault !== undefined) t.fail(`${verb}: ${fault}`, { seed, round, plan });
    }
    rmSync(dir, { recursive: true });
    stores++;
  }
  t.ok(stores > 0, `${stores} stores`);
});

t.test("a log with a gap of petabytes, and a queue with one, end", async (t) => {
  const dir = testFolder(t);
  const image = (await baseOf("sync")).image.fork();
  // Both are far behind the others, under legal names.
  for (const [path, to] of [
    ["commitlog/00000000000000000000", "commitlog/00004503599627366400"],
    ["consumequeue/T/0/00000000000000000000", "consumequeue/T/0/00004503599627370000"],
  ] as const) {
    mutate(image, { do: "clone", path, to });
  }
  image.save(dir);
  for (const args of [["info"], ["ls"], ["cat", "--topic", "T"]]) {
    const [verb, ...rest] = args as [string, ...string[]];
    const result = await forcelog(verb, dir, ...rest);
    t.equal(faultOf(result, verb), undefined, verb);
  }
  const result = await forcelog("dump", "--dir", dir);
  t.equal(faultOf(result, "dump"), undefined, "dump");
});

t.test("files that are folders are refused in one line", async (t) => {
  const folder = testFolder(t);
  const { image } = await baseOf("sync");
  for (const path of ["checkpoint", "abort", "lock", "forcelog", "commitlog", "consumequeue"]) {
    const damaged = image.fork();
    const isFolder = path === "commitlog" || path === "consumequeue" || path === "forcelog";
    mutate(damaged, isFolder ? { do: "file", path, hex: "", size: 0 } : { do: "directory", path });
    const dir = join(folder, path);
    mkdirSync(dir);
    damaged.save(dir);
    const { code, err } = await forcelog("info", dir);
    // A reader takes no lock.
    if (path === "lock") t.equal(code, 0);
    else t.match({ code, err }, { code: 1, err: new RegExp(`^forcelog: .*${path}.*\n$`) }, path);
  }
});
