// How far delay levels have come, in a file of RocketMQ.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { openGolden } from "../support/golden.ts";
import { openStore, storePath } from "../support/stores.ts";

const FILE = "config/delayOffset.json";

t.test("set() and list(); the file is RocketMQ's", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir);
  const { delayOffsets } = store;
  t.equal(delayOffsets.get(3), undefined);
  for (const [level, offset] of [
    [10, 5],
    [3, 2],
    [3, 2],
  ] as const) {
    delayOffsets.set(level, offset);
  }
  t.same(delayOffsets.list(), [
    { level: 3, offset: 2 },
    { level: 10, offset: 5 },
  ]);
  for (const [level, offset] of [
    [0, 1],
    [1.5, 1],
    [1, -1],
    [1, Number.NaN],
  ] as const) {
    t.throws(() => delayOffsets.set(level, offset), RangeError);
  }
  await delayOffsets.flush();
  t.equal(
    readFileSync(join(dir, FILE), "utf8"),
    `{
	"dataVersion":{
		"counter":0,
		"stateVersion":0,
		"timestamp":0
	},
	"offsetTable":{
		"3":2,
		"10":5
	}
}`,
  );
  for (let offset = 0; offset < 200; offset++) delayOffsets.set(1, offset);
  t.equal(delayOffsets.version.counter, 1, "with every 200th change");
});

t.test("F39 an offset outside its queue is moved to the nearest end", async (t) => {
  const dir = storePath(t);
  mkdirSync(join(dir, "config"), { recursive: true });
  writeFileSync(join(dir, FILE), '{\n\t"offsetTable":{1:5,3:9999,4:0\n\t}\n}');
  const { store } = await openStore(t, dir);
  const moved = store.delayOffsets.clamp((level) => ({ min: level === 4 ? 4 : 0, max: 10 }));
  t.same(moved, [3, 4]);
  await store.close();
  t.same(JSON.parse(readFileSync(join(dir, FILE), "utf8")).offsetTable, { 1: 5, 3: 10, 4: 4 });
});

t.test("F70 a file that cannot be read is no reason not to open", async (t) => {
  for (const [i, [main, backup, found]] of (
    [
      ["", '{"offsetTable":{1:5}}', [{ level: 1, offset: 5 }]],
      ["\0".repeat(200), '{"offsetTable":{1:5}}', [{ level: 1, offset: 5 }]],
      ['{"offsetTable":', "\0", []],
      ['{"offsetTable":7}', "", []],
      ['{"offsetTable":{"a":1}}', undefined, []],
      [undefined, '{"offsetTable":{1:5}}', [{ level: 1, offset: 5 }]],
    ] as const
  ).entries()) {
    const dir = storePath(t, `${i}`);
    mkdirSync(join(dir, "config"), { recursive: true });
    if (main !== undefined) writeFileSync(join(dir, FILE), main);
    if (backup !== undefined) writeFileSync(join(dir, `${FILE}.bak`), backup);
    const { store, warnings } = await openStore(t, dir);
    t.same(store.delayOffsets.list(), found, `${i}`);
    t.ok(warnings.length > 0);
    store.delayOffsets.set(2, i + 1);
    await store.close();
    const again = await openStore(t, dir);
    t.same(again.warnings, []);
    t.equal(again.store.delayOffsets.get(2), i + 1);
  }
});

t.test("the file of a store that RocketMQ 4.9.8 wrote", async (t) => {
  const { dir, recipe } = openGolden(t, "v498-mixed");
  const before = readFileSync(join(dir, FILE), "utf8");
  t.equal(before, '{\n\t"offsetTable":{}\n}');
  const options = recipe.config as object;
  const { store, warnings } = await openStore(t, dir, options);
  t.same(store.delayOffsets.list(), []);
  await store.close();
  t.equal(readFileSync(join(dir, FILE), "utf8"), before, "nothing was changed");
  t.same(
    warnings.filter((warning) => /config/.test(warning)),
    [],
  );
});
