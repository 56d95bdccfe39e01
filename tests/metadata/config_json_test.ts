// The JSON of RocketMQ's configuration files: what each of its versions writes is read, what is written
// is JSON, and nothing is lost on the way.

import t from "tap";
import {
  ConfigObject,
  ConfigSyntaxError,
  type ConfigValue,
  formatConfig,
  parseConfig,
} from "../../lib/metadata/config_json.ts";
import { randomOf, sliceSeedOf } from "../support/random.ts";

const parse = (text: string): ConfigObject => parseConfig(Buffer.from(text));

/** As plain values. */
function plain(value: ConfigValue): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof ConfigObject)) return value;
  return Object.fromEntries([...value].map(([name, member]) => [name, plain(member)]));
}

t.test("parseConfig() reads integer keys as each version of RocketMQ writes them", async (t) => {
  const old =
    '{\n\t"offsetTable":{\n\t\t"T@g":{0:250,1:251\n\t\t},\n\t\t"R@g":{-1:0\n\t\t}\n\t}\n}';
  const newer =
    '{\n\t"offsetTable":{\n\t\t"T@g":{\n\t\t\t0:250,\n\t\t\t1:251\n\t\t},\n\t\t"R@g":{\n\t\t\t-1:0\n\t\t}\n\t}\n}';
  const quoted = '{"offsetTable":{"T@g":{"0":250,"1":251},"R@g":{"-1":0}}}';
  const wanted = { offsetTable: { "T@g": { 0: 250, 1: 251 }, "R@g": { "-1": 0 } } };
  for (const text of [old, newer, quoted]) t.strictSame(plain(parse(text)), wanted, text);
});

t.test("parseConfig() forgives what RocketMQ forgives", async (t) => {
  for (const [text, wanted] of [
    ["\ufeff{}", {}],
    [" \r\n{ } \n\t", {}],
    ['{,,"a":1,,"b":[,1,,2,],}', { a: 1, b: [1, 2] }],
    ["{a:1,$b_c:2,d.e:3,'f\"':'g\\''}", { a: 1, $b_c: 2, "d.e": 3, 'f"': "g'" }],
    ['{"a":true,"b":false,"c":null}', { a: true, b: false, c: null }],
    ['{"a":-1.5e3,"b":0.25,"c":-7}', { a: -1500, b: 0.25, c: -7 }],
    ['{"a":9223372036854775807}', { a: 9223372036854775807n }],
    ['{"\\u4e2d\\x41\\n\\/\\v":"\u4e2d\u007f\t"}', { "\u4e2dA\n/\v": "\u4e2d\u007f\t" }],
    ['{"a":1,"a":2}', { a: 2 }],
    ['{"__proto__":1}', Object.fromEntries([["__proto__", 1]])],
  ] as const) {
    t.strictSame(plain(parse(text)), wanted, text);
  }
});

t.test("parseConfig() follows references", async (t) => {
  const text = `{"t":{"a":{"x":[1,{"y":2}]},"b.c":{"$ref":"$.t.a"},"d":{"$ref":"$.t.a.x[1]"}},
    "e":{"$ref":"$.t.b\\\\.c"},"f":{"$ref":"$.t['b.c']"}}`;
  const a = { x: [1, { y: 2 }] };
  t.strictSame(plain(parse(text)), { t: { a, "b.c": a, d: { y: 2 } }, e: a, f: a });
  for (const bad of [
    '{"a":{"$ref":"$.b"}}',
    '{"a":{"$ref":"$"}}',
    '{"a":{"$ref":".."}}',
    '{"a":{"$ref":"$.a"}}',
    `{${[..."abcdefgh"].map((c, i) => `"${c}":[${`{"$ref":"$.${"abcdefghi"[i + 1]}"},`.repeat(50)}]`)},"i":[1]}`,
  ]) {
    t.throws(() => parse(bad), ConfigSyntaxError, bad.slice(0, 40));
  }
});

t.test("parseConfig() tells where a text is damaged", async (t) => {
  for (const [text, position] of [
    ["", 0],
    ["[]", 0],
    ["null", 0],
    ["\0".repeat(200), 0],
    ["{", 1],
    ['{"a"', 4],
    ['{"a" 1}', 5],
    ['{"a":}', 5],
    ['{"a":1 "b":2}', 7],
    ['{"a":1}}', 7],
    ['{"a":1}\0', 7],
    ['{"a":"b', 5],
    ['{"a":"b\0"}', 7],
    ['{"a":"\\q"}', 6],
    ['{"a":tru}', 5],
    ['{"a":1.}', 5],
    ['{"a":1e999}', 5],
    ['{"a":"\u4e2d", "b" 2}', 16],
    [`{"a":${"[".repeat(200)}`, 5 + 99],
  ] as const) {
    t.throws(() => parse(text), { name: "ConfigSyntaxError", position }, JSON.stringify(text));
  }
  const bytes = Buffer.from('{"a":"x"}');
  bytes[6] = 0xff;
  t.throws(() => parseConfig(bytes), { position: 6, message: "it is no UTF-8" });
});

t.test("formatConfig() writes what RocketMQ writes, but for the quotes", async (t) => {
  const text = `{
	"a":{},
	"b":[],
	"c":{
		"0":250,
		"1":9223372036854775807
	},
	"d":[
		1,
		{
			"e":"中\\u0001\\""
		}
	],
	"f":null,
	"g":false
}`;
  t.equal(formatConfig(parse(text)).toString(), text);
});

t.test("what is formatted is JSON, and reads back the same", async (t) => {
  const random = randomOf(sliceSeedOf(t));
  const text = (): string =>
    String.fromCharCode(...Array.from({ length: random(6) }, () => random(0xd800)));
  const value = (depth: number): ConfigValue => {
    switch (random(depth > 4 ? 5 : 7)) {
      case 0:
        return null;
      case 1:
        return random(2) === 0;
      case 2:
        return random(2 ** 31) - 2 ** 30;
      case 3:
        return (BigInt(random(2 ** 31)) << 32n) + 2n ** 60n;
      case 4:
        return text();
      case 5:
        return Array.from({ length: random(4) }, () => value(depth + 1));
      default:
        return object(depth + 1);
    }
  };
  const object = (depth: number): ConfigObject =>
    new ConfigObject(Array.from({ length: random(5) }, () => [text(), value(depth)] as const));
  for (let i = 0; i < 300; i++) {
    const made = object(0);
    const bytes = formatConfig(made);
    JSON.parse(bytes.toString());
    const read = parseConfig(bytes);
    t.ok(formatConfig(read).equals(bytes), `${i}`);
    t.strictSame(plain(read), plain(made));
    // Half of a text is none, and never an error of another kind.
    for (let cut = 1; cut < bytes.length; cut += 1 + random(40)) {
      try {
        parseConfig(bytes.subarray(0, cut));
        t.fail(`cut at ${cut} it passes for whole`);
      } catch (error) {
        if (!(error instanceof ConfigSyntaxError)) throw error;
      }
    }
    // Nor is any other text.
    const garbled = Buffer.from(bytes);
    for (let k = 0; k < 3 && garbled.length > 0; k++) garbled[random(garbled.length)] = random(256);
    try {
      parseConfig(garbled);
    } catch (error) {
      if (!(error instanceof ConfigSyntaxError)) throw error;
      t.ok(error.position >= 0 && error.position <= garbled.length);
    }
  }
});
