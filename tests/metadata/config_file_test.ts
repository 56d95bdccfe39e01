// How a file of config/ is read when it is not what it should be (known fault F70), and that writing it
// leaves a whole text under its name and its backup's, whatever fails.

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { ConfigFile } from "../../lib/metadata/config_file.ts";
import {
  ConfigObject,
  ConfigSyntaxError,
  formatConfig,
  parseConfig,
} from "../../lib/metadata/config_json.ts";
import { rejection } from "../support/rejections.ts";
import { BINDINGS } from "../support/stores.ts";
import { testFolder } from "../support/test_folder.ts";

const GOOD = '{"n":1}';
const BACKUP = '{"n":0}';

function rig(t: Test, content: Readonly<Record<string, string>> = {}, readOnly = false) {
  const root = testFolder(t, { forcelog: {}, config: { ...content } });
  const fileSystem = (BINDINGS[0] as (typeof BINDINGS)[0]).fileSystem();
  const warnings: string[] = [];
  const config = join(root, "config");
  const own = join(root, "forcelog");
  const file = new ConfigFile(
    {
      fileSystem,
      config,
      own,
      readOnly,
      now: () => 17,
      warn: (warning) => warnings.push(warning),
    },
    "x.json",
  );
  const path = join(config, "x.json");
  const read = (name = path): unknown => JSON.parse(readFileSync(name, "utf8"));
  const load = async (unreadable: "fail" | "start empty" = "fail"): Promise<unknown> => {
    let found: unknown;
    await file.load((object) => {
      const n = object.get("n");
      if (typeof n !== "number") throw new ConfigSyntaxError('"n" is no number', object.position);
      found = n;
    }, unreadable);
    return found;
  };
  const save = (n: number): Promise<void> =>
    file.save(
      async () => formatConfig(new ConfigObject([["n", n]])),
      () => undefined,
    );
  return { fileSystem, warnings, file, path, own, config, read, load, save };
}

t.test("a file is used as it is, and its backup not looked at", async (t) => {
  const { load, warnings } = rig(t, { "x.json": GOOD, "x.json.bak": "{" });
  t.equal(await load(), 1);
  t.same(warnings, []);
  const none = rig(t);
  t.equal(await none.load(), undefined);
  t.same(none.warnings, []);
});

t.test(
  "F70 what a power cut may leave: the backup is used, and nothing is destroyed",
  async (t) => {
    const damage = {
      empty: "",
      zeros: "\0".repeat(200),
      half: '{"n":',
      "wrong type": '{"n":[]}',
      "no object": "[]",
    };
    for (const [name, text] of Object.entries(damage)) {
      const { load, save, warnings, own, path, read } = rig(t, {
        "x.json": text,
        "x.json.bak": BACKUP,
      });
      t.equal(await load(), 0, name);
      t.match(warnings, [/its backup is used/], name);
      t.match(warnings[0], path);
      if (text !== "") {
        t.match(warnings[0], /damaged at position \d+: /);
        t.equal(readFileSync(join(own, "config-x.json-17"), "utf8"), text, "it is kept");
        t.notOk(existsSync(path), "a broker uses the backup, too");
      }
      t.equal(readFileSync(`${path}.bak`, "utf8"), BACKUP);
      await save(2);
      t.same([read(), read(`${path}.bak`)], [{ n: 2 }, { n: 0 }], "the next save makes both good");
    }
    for (const [name, text] of Object.entries(damage)) {
      const { load, save, warnings, read } = rig(t, { "x.json": text });
      t.equal(await load(), undefined, name);
      t.match(warnings, [/starts empty/], name);
      await save(2);
      t.same(read(), { n: 2 });
    }
    const { load, warnings } = rig(t, { "x.json.bak": BACKUP });
    t.equal(await load(), 0, "missing");
    t.match(warnings, [/is missing: its backup is used/]);
  },
);

t.test("with both damaged it does not open, or starts empty", async (t) => {
  for (const main of [undefined, "", "{"]) {
    const content = { ...(main === undefined ? {} : { "x.json": main }), "x.json.bak": "[" };
    const { load, warnings, path, own } = rig(t, content);
    const bad = main === "{" ? path : `${path}.bak`;
    t.match(await rejection(load()), {
      code: "STORE_CONFIG_DAMAGED",
      path: bad,
      position: main === "{" ? 1 : 0,
      message: `Cannot read ${bad}: damaged at position`,
    });
    t.same(readdirSync(own), [], "nothing is moved then");
    t.same(warnings, []);
    t.equal(await load("start empty"), undefined);
    const kept =
      main === "{" ? ["config-x.json-17", "config-x.json.bak-17"] : ["config-x.json.bak-17"];
    t.same(readdirSync(own).sort(), kept);
  }
});

t.test("evidence never replaces evidence; a reader moves nothing", async (t) => {
  const { load, path, own } = rig(t, { "x.json": "{" });
  await load();
  writeFileSync(path, "[");
  await load();
  t.same(readdirSync(own).sort(), ["config-x.json-17", "config-x.json-17.1"]);
  const reader = rig(t, { "x.json": "{", "x.json.bak": BACKUP }, true);
  t.equal(await reader.load(), 0);
  t.match(reader.warnings, [/its backup is used$/]);
  t.equal(readFileSync(reader.path, "utf8"), "{");
  t.notOk(reader.fileSystem.names().some((name) => /rename|pwrite|unlink/.test(name)));
});

t.test("what is no file, or cannot be read, is an error", async (t) => {
  const { load, path, fileSystem } = rig(t);
  mkdirSync(path);
  t.match(await rejection(load()), { code: "STORE_CONFIG_DAMAGED", message: "it is no file" });
  rmSync(path, { recursive: true });
  symlinkSync("/dev/null", path);
  t.match(await rejection(load()), { code: "STORE_CONFIG_DAMAGED", message: "it is no file" });
  rmSync(path);
  writeFileSync(path, GOOD);
  for (const name of ["stat", "open", "pread"] as const) {
    fileSystem.failNext(name, "EIO");
    t.match(await rejection(load()), { code: "STORE_IO", path, cause: { code: "EIO" } }, name);
  }
  writeFileSync(path, "{");
  fileSystem.failNext("rename", "EROFS");
  t.match(await rejection(load()), { code: "STORE_IO", cause: { code: "EROFS" } });
});

t.test("save() makes the folder, keeps the text before it, and syncs in order", async (t) => {
  const { save, read, path, fileSystem, config, load } = rig(t);
  rmSync(config, { recursive: true });
  await save(1);
  t.notOk(existsSync(`${path}.bak`));
  await save(2);
  t.same([read(), read(`${path}.bak`)], [{ n: 2 }, { n: 1 }]);
  const from = fileSystem.calls.length;
  await save(3);
  t.same(
    fileSystem.calls
      .slice(from)
      .map(({ name }) => name)
      .filter((name) => /pwritev|sync|rename/.test(name)),
    [
      "syncDirectory",
      ...["pwritev", "fdatasync", "rename", "syncDirectory"],
      ...["pwritev", "fdatasync", "rename", "syncDirectory"],
    ],
  );
  t.equal(await load(), 3);
});

t.test("save() shares what waits, and resolves behind a text that is new enough", async (t) => {
  const { file, fileSystem, read } = rig(t);
  let n = 0;
  let saved = 0;
  const save = (): Promise<void> =>
    file.save(
      async () => formatConfig(new ConfigObject([["n", n]])),
      () => {
        saved++;
      },
    );
  const held = fileSystem.hold("fdatasync");
  n = 1;
  const first = save();
  await held.waiting;
  n = 2;
  const others = [save(), save(), save()];
  n = 3;
  held.release();
  await first;
  await Promise.all(others);
  t.equal(saved, 2);
  t.same(read(), { n: 3 });
});

t.test("a save that fails leaves a whole text, and the next one works", async (t) => {
  const calls = ["open", "pwritev", "fdatasync", "rename", "syncDirectory", "mkdir"] as const;
  for (const name of calls) {
    for (let skip = 0; ; skip++) {
      const { save, read, path, fileSystem, own, load } = rig(t, { "x.json": GOOD });
      t.equal(await load(), 1);
      fileSystem.failNext(name, "EIO", { skip });
      const outcome = await save(2).then(
        () => "saved",
        (error: unknown) => error,
      );
      const both = () => [path, `${path}.bak`].filter(existsSync).map((name) => read(name));
      if (outcome === "saved") {
        t.ok(skip > 0, `${name} was called`);
        break;
      }
      t.match(outcome, { code: "STORE_IO", path, cause: { code: "EIO" } });
      for (const one of both()) t.ok([1, 2].includes((one as { n: number }).n));
      t.same(readdirSync(own), [], "nothing half-made is left");
      await save(2);
      t.same(read(), { n: 2 }, `${name} ${skip}`);
      t.same(parseConfig(readFileSync(`${path}.bak`)).get("n"), 1);
    }
  }
});
