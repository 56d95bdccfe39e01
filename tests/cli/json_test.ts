// JSON with 64-bit numbers, in one piece and in many.

import { Writable } from "node:stream";
import t from "tap";
import { exactJson, JsonStream, jsonText } from "../../cli/json.ts";
import { Terminal } from "../../cli/terminal.ts";

t.test("jsonText() writes what JSON.stringify does", async (t) => {
  for (const value of [
    null,
    true,
    false,
    0,
    -1.5,
    "",
    'a"\\\n\u0001\ud800é😀',
    [],
    {},
    [1, [2, []]],
    { a: 1, b: [{ c: null }] },
    { a: undefined, b: 1 },
  ]) {
    t.equal(jsonText(value), JSON.stringify(value));
  }
  t.throws(() => jsonText(Number.NaN), TypeError);
});

t.test("64-bit numbers are written exactly", async (t) => {
  t.equal(jsonText(exactJson(2n ** 53n + 1n)), "9007199254740993");
  t.equal(jsonText(exactJson(-(2n ** 63n))), "-9223372036854775808");
  t.equal(exactJson(-5n), -5);
});

t.test("a map keeps its order, whatever its names are", async (t) => {
  const map = new Map([
    ["b", 1],
    ["1", 2],
    ["__proto__", 3],
  ]);
  t.equal(jsonText(map), '{"b":1,"1":2,"__proto__":3}');
});

t.test("lines are broken down to a depth", async (t) => {
  const value = { a: [1, { b: [] }], c: {} };
  t.equal(jsonText(value, 0), '{"a": [1,{"b": []}],"c": {}}');
  t.equal(jsonText(value, 1), '{\n "a": [1,{"b": []}],\n "c": {}\n}');
  t.equal(jsonText(value, 2), '{\n "a": [\n  1,\n  {"b": []}\n ],\n "c": {}\n}');
});

t.test("JsonStream writes the same as jsonText(), in pieces", async (t) => {
  const items = Array.from({ length: 5000 }, (_, i) => `item ${i} ${"x".repeat(50)}`);
  for (const depth of [-1, 0, 1, 3]) {
    const pieces: string[] = [];
    const sink = new Writable({
      decodeStrings: false,
      highWaterMark: 1,
      write(piece: string, _, done) {
        pieces.push(piece);
        setImmediate(done);
      },
    });
    const json = new JsonStream(new Terminal(sink, sink), depth);
    json.begin("{");
    await json.add(1, "first");
    json.begin("[", "items");
    for (const item of items) await json.add(item);
    await json.end();
    json.begin("{", "empty");
    await json.end();
    await json.end();
    t.equal(pieces.join(""), `${jsonText({ first: 1, items, empty: {} }, depth)}\n`);
    t.ok(pieces.length > 4, `${pieces.length} pieces`);
  }
});
