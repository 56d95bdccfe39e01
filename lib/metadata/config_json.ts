/**
 * The JSON of RocketMQ's configuration files, as fastjson writes and reads it.
 *
 *     {
 *     	"offsetTable":{
 *     		"TopicTest@group":{0:250,1:250
 *     		}
 *     	}
 *     }
 *
 * One tab a level, no space behind `:`, no newline at the end, UTF-8. Java writes the integer keys of a
 * map **without quotes**, which is no JSON; it reads them with and without. We write them with quotes.
 * Read as well, because versions of RocketMQ do: a byte order mark, commas too many, names in single or
 * without quotes, and `{"$ref":"$.path"}` for an object that stands elsewhere in the text. Text behind
 * the object is an error.
 *
 * Nothing of a file may be lost by writing it again: objects keep every member in its order, and whole
 * numbers that no double holds are `bigint`. Fractions are doubles.
 *
 * @module
 */

export type ConfigValue = null | boolean | number | bigint | string | ConfigValue[] | ConfigObject;

/** An object with its members, in the order of the text. */
export class ConfigObject extends Map<string, ConfigValue> {
  /** Where it stands in the text that was read, in bytes; 0 for one that was made here. */
  readonly position: number;

  constructor(members: Iterable<readonly [string, ConfigValue]> = [], position = 0) {
    super(members);
    this.position = position;
  }
}

/** The text, or what it says, is not what it should be. */
export class ConfigSyntaxError extends Error {
  override readonly name = "ConfigSyntaxError";
  /** Bytes from the start of the file. */
  readonly position: number;

  constructor(reason: string, position: number) {
    super(reason);
    this.position = position;
  }
}

/** Objects in objects: RocketMQ's files need five levels, and a hostile one must not end the process. */
const DEPTH_MAX = 100;
/** References that are followed from one to the next, and values that all of them may copy. */
const REFERENCES_MAX = 10;
const COPIES_MAX = 1_000_000;

/**
 * Reads the text of a file.
 *
 * @throws {ConfigSyntaxError} if it is no object, or not UTF-8.
 */
export function parseConfig(bytes: Uint8Array): ConfigObject {
  return new Parser(bytes).parse();
}

/** The text of an object, in UTF-8: members in their order. */
export function formatConfig(object: ConfigObject): Buffer {
  const parts: string[] = [];
  format(object, "\n", parts);
  return Buffer.from(parts.join(""));
}

function format(value: ConfigValue, newline: string, parts: string[]): void {
  const inner = `${newline}\t`;
  if (value instanceof ConfigObject) {
    let before = "{";
    for (const [name, member] of value) {
      parts.push(before, inner, JSON.stringify(name), ":");
      format(member, inner, parts);
      before = ",";
    }
    parts.push(value.size === 0 ? "{}" : `${newline}}`);
  } else if (Array.isArray(value)) {
    let before = "[";
    for (const item of value) {
      parts.push(before, inner);
      format(item, inner, parts);
      before = ",";
    }
    parts.push(value.length === 0 ? "[]" : `${newline}]`);
  } else {
    parts.push(typeof value === "bigint" ? String(value) : JSON.stringify(value));
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  0: "\0",
};
const DOUBLE_QUOTED = /[^"\\\p{Cc}]+/uy;
const SINGLE_QUOTED = /[^'\\\p{Cc}]+/uy;
const WORDS: ReadonlyMap<string, ConfigValue> = new Map<string, ConfigValue>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

class Parser {
  readonly #text: string;
  readonly #bytes: Uint8Array;
  readonly #isAscii: boolean;
  #at = 0;
  #hasReferences = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    try {
      this.#text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new ConfigSyntaxError("it is no UTF-8", faultOfUtf8(bytes));
    }
    this.#isAscii = this.#text.length === bytes.length;
  }

  parse(): ConfigObject {
    if (this.#text.startsWith("\ufeff")) this.#at++;
    this.#skipSpace();
    if (this.#text[this.#at] !== "{") throw this.#error("expected an object");
    const root = this.#object(0);
    this.#skipSpace();
    if (this.#at < this.#text.length) throw this.#error("there is text behind the object");
    if (this.#hasReferences) this.#resolve(root);
    return root;
  }

  #value(depth: number): ConfigValue {
    const char = this.#text[this.#at];
    if (char === "{") return this.#object(depth);
    if (char === "[") return this.#array(depth);
    if (char === '"' || char === "'") return this.#string(char);
    return this.#word();
  }

  #object(depth: number): ConfigObject {
    const object = new ConfigObject([], this.#position(this.#at));
    this.#enter(depth);
    while (!this.#ends("}")) {
      const name = this.#name();
      this.#skipSpace();
      if (this.#text[this.#at] !== ":") throw this.#error('expected ":"');
      this.#at++;
      this.#skipSpace();
      object.set(name, this.#value(depth + 1));
      this.#separate("}");
    }
    if (object.has("$ref")) this.#hasReferences = true;
    return object;
  }

  #array(depth: number): ConfigValue[] {
    const items: ConfigValue[] = [];
    this.#enter(depth);
    while (!this.#ends("]")) {
      items.push(this.#value(depth + 1));
      this.#separate("]");
    }
    return items;
  }

  #enter(depth: number): void {
    if (depth === DEPTH_MAX) throw this.#error(`there are more than ${DEPTH_MAX} levels`);
    this.#at++;
  }

  /** Passes over space and commas; at the closing bracket, over this as well. */
  #ends(close: string): boolean {
    for (;;) {
      this.#skipSpace();
      const char = this.#text[this.#at];
      if (char === undefined) throw this.#error(`the text ends, expected "${close}"`);
      if (char === close) {
        this.#at++;
        return true;
      }
      if (char !== ",") return false;
      this.#at++;
    }
  }

  /** What comes next is no second value. */
  #separate(close: string): void {
    this.#skipSpace();
    const char = this.#text[this.#at];
    if (char === undefined) throw this.#error(`the text ends, expected "${close}"`);
    if (char !== "," && char !== close) throw this.#error(`expected "," or "${close}"`);
  }

  #name(): string {
    const char = this.#text[this.#at];
    if (char === '"' || char === "'") return this.#string(char);
    const [name] = this.#match(/-?[\p{L}\p{N}_$][\p{L}\p{N}_$.-]*/uy) ?? [];
    if (name === undefined) throw this.#error("expected a name");
    return name;
  }

  #string(quote: string): string {
    const start = this.#at++;
    let text = "";
    for (;;) {
      const [plain = ""] = this.#match(quote === '"' ? DOUBLE_QUOTED : SINGLE_QUOTED) ?? [];
      text += plain;
      const char = this.#text[this.#at];
      if (char === quote) {
        this.#at++;
        return text;
      }
      if (char === "\\") text += this.#escape();
      else if (char === "\t" || (char !== undefined && char >= "\x7f"))
        text += this.#text[this.#at++];
      else if (char !== undefined) throw this.#error("there is a control character in a text");
      else throw this.#error("the text ends in a string", start);
    }
  }

  #escape(): string {
    const [all, code, hex] =
      this.#match(/\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[bfnrtv0"'/\\])/y) ?? [];
    if (all === undefined) throw this.#error("there is no such escape");
    const digits = code ?? hex;
    if (digits !== undefined) return String.fromCharCode(Number.parseInt(digits, 16));
    const char = all[1] as string;
    return ESCAPES[char] ?? char;
  }

  #word(): ConfigValue {
    const start = this.#at;
    const [text = ""] = this.#match(/[\w.+-]+/y) ?? [];
    const word = WORDS.get(text);
    if (word !== undefined) return word;
    if (/^-?\d+$/.test(text)) {
      const number = Number(text);
      return Number.isSafeInteger(number) && !Object.is(number, -0) ? number : BigInt(text);
    }
    if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) && Number.isFinite(Number(text))) {
      return Number(text);
    }
    throw this.#error("expected a value", start);
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at = pattern.lastIndex;
    return found;
  }

  #skipSpace(): void {
    this.#match(/[ \t\r\n]*/y);
  }

  /** Puts in place of each reference a copy of what it leads to. */
  #resolve(root: ConfigObject): void {
    let copies = 0;
    const copyOf = (value: ConfigValue): ConfigValue => {
      if (++copies > COPIES_MAX) throw new ConfigSyntaxError("references make it too large", 0);
      if (Array.isArray(value)) return value.map(copyOf);
      if (!(value instanceof ConfigObject)) return value;
      const members = [...value].map(([name, member]) => [name, copyOf(member)] as const);
      return new ConfigObject(members, value.position);
    };
    const replace = (value: ConfigValue, followed: number): ConfigValue => {
      if (Array.isArray(value)) return value.map((item) => replace(item, followed));
      if (!(value instanceof ConfigObject)) return value;
      const path = value.size === 1 ? value.get("$ref") : undefined;
      if (typeof path !== "string") {
        for (const [name, member] of value) value.set(name, replace(member, followed));
        return value;
      }
      const target = lookUp(root, path);
      if (target === undefined || followed === REFERENCES_MAX) {
        throw new ConfigSyntaxError(`"${path}" leads nowhere`, value.position);
      }
      return replace(copyOf(target), followed + 1);
    };
    replace(root, 0);
  }

  #position(at: number): number {
    return this.#isAscii ? at : Buffer.byteLength(this.#text.slice(0, at));
  }

  #error(reason: string, at = this.#at): ConfigSyntaxError {
    return new ConfigSyntaxError(reason, Math.min(this.#position(at), this.#bytes.length));
  }
}

/** `$.a.b[0]["c"]`, as fastjson names a place. */
function lookUp(root: ConfigObject, path: string): ConfigValue | undefined {
  if (!path.startsWith("$")) return undefined;
  let value: ConfigValue | undefined = root;
  const step = /\.((?:\\.|[^.[\\])+)|\[(\d+)\]|\[["']((?:[^"'\\]|\\.)*)["']\]/y;
  step.lastIndex = 1;
  while (step.lastIndex < path.length) {
    const found = step.exec(path);
    if (!found) return undefined;
    const [, plain, index, quoted] = found;
    const name = (plain ?? quoted ?? "").replace(/\\(.)/g, "$1");
    if (value instanceof ConfigObject) value = value.get(index ?? name);
    else if (Array.isArray(value) && index !== undefined) value = value[Number(index)];
    else return undefined;
  }
  return value;
}

/** Where a text stops being UTF-8. */
function faultOfUtf8(bytes: Uint8Array): number {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  for (let at = 0; at < bytes.length; at++) {
    try {
      decoder.decode(bytes.subarray(at, at + 1), { stream: true });
    } catch {
      return at;
    }
  }
  return bytes.length;
}
