import t from "tap";
import { forcelog } from "../support/command.ts";
import { openGolden } from "../support/golden.ts";
import { message, openStore, SMALL, storePath } from "../support/stores.ts";

t.test("query prints the messages with a key, the newest first", async (t) => {
  const { dir, recipe, expected } = openGolden(t, "index-rolled");
  const config = JSON.stringify(recipe.config);
  const query = (...args: string[]) =>
    forcelog("query", dir, "--topic", "K", "--config", config, ...args);
  const { code, out } = await query("--key", "same", "--json");
  t.equal(code, 0);
  const offsets = out
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { offset: number }).offset);
  t.same(offsets, [...(expected.index.found["K#same"] ?? [])].reverse());
  t.same((await query("--key", "UK-7", "--format", "raw")).out, "m 7");
  t.equal((await query("--key", "same", "--count", "5", "--json")).out.split("\n").length, 6);
});

t.test("query of a key that nothing has ends with 1", async (t) => {
  const { dir } = openGolden(t, "index-rolled");
  const { code, out, err } = await forcelog("query", dir, "--topic", "K", "--key", "none");
  t.same([code, out], [1, ""]);
  t.match(err, /Cannot find a message of topic K with none/);
});

t.test("query takes a time window, and works beside a writer", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  const { storeTimestamp } = await store.put(message("one", { keys: "k", tags: "t7" }));
  const args = ["query", dir, "--topic", "T", "--key", "k", "--config", JSON.stringify(SMALL)];
  const at = String(storeTimestamp);
  const byTag = args.map((arg) => (arg === "--key" ? "--tag" : arg === "k" ? "t7" : arg));
  t.match((await forcelog(...byTag)).out, /one/);
  t.equal((await forcelog(...args, "--begin", at, "--end", at)).code, 0);
  t.equal((await forcelog(...args, "--begin", String(storeTimestamp + 1))).code, 1);
  t.equal((await forcelog(...args, "--end", String(storeTimestamp - 1))).code, 1);
});

t.test("query refuses calls that choose nothing, or twice", async (t) => {
  const { dir } = openGolden(t, "index-rolled");
  for (const args of [
    ["--topic", "K"],
    ["--topic", "K", "--key", "a", "--tag", "b"],
    ["--key", "a"],
    ["--topic", "K", "--key", "a", "--count", "0"],
    ["--topic", "K", "--key", "a", "--json", "--format", "raw"],
  ]) {
    t.equal((await forcelog("query", dir, ...args)).code, 2, args.join(" "));
  }
});
