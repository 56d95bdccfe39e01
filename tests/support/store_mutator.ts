/**
 * Damages a store in memory: bytes, records, units, names and kinds. A mutation is plain data, so that a
 * failure can be printed and had again.
 *
 * @module
 */

import { crc32 } from "node:zlib";
import { maskedCrc32 } from "../../lib/message/crc32.ts";
import {
  BODY_CRC_AT,
  bodyAt,
  bodyLengthAt,
  FLAG_AT,
  MAGIC_BLANK,
  MAGIC_V1,
  MAGIC_V2,
  PHYSICAL_OFFSET_AT,
  preparedTransactionOffsetAt,
  QUEUE_ID_AT,
  QUEUE_OFFSET_AT,
  readSysFlag,
  SYS_FLAG_AT,
  storeTimestampAt,
} from "../../lib/message/record_layout.ts";
import type { Random } from "../../lib/testing/random.ts";
import {
  directoryOf,
  fileOf,
  forkNode,
  readFile,
  resizeFile,
  type StoreImage,
  writeFile,
} from "./store_image.ts";

/** One change. Paths are relative to the store's root; what is not there any more is passed over. */
export type Mutation =
  | { readonly do: "bytes"; readonly path: string; readonly at: number; readonly hex: string }
  | {
      readonly do: "fill";
      readonly path: string;
      readonly at: number;
      readonly length: number;
      readonly byte: number;
    }
  | { readonly do: "resize"; readonly path: string; readonly size: number }
  | {
      readonly do: "copy";
      readonly path: string;
      readonly at: number;
      readonly length: number;
      readonly to: string;
      readonly toAt: number;
    }
  | { readonly do: "exchange"; readonly path: string; readonly other: string }
  | { readonly do: "move" | "clone"; readonly path: string; readonly to: string }
  | { readonly do: "remove" | "directory" | "other" | "deny"; readonly path: string }
  | { readonly do: "file"; readonly path: string; readonly hex: string; readonly size: number }
  | { readonly do: "link"; readonly path: string; readonly target: string };

export function mutate(image: StoreImage, mutation: Mutation): void {
  const { path } = mutation;
  const file = image.file(path);
  switch (mutation.do) {
    case "bytes":
      if (file) overwrite(file, Buffer.from(mutation.hex, "hex"), mutation.at);
      return;
    case "fill":
      if (file) overwrite(file, Buffer.alloc(mutation.length, mutation.byte), mutation.at);
      return;
    case "resize":
      if (file) resizeFile(file, mutation.size);
      return;
    case "copy": {
      const target = image.file(mutation.to);
      if (!file || !target) return;
      const bytes = Buffer.alloc(mutation.length);
      const length = readFile(file, bytes, mutation.at);
      overwrite(target, bytes.subarray(0, length), mutation.toAt);
      return;
    }
    case "exchange": {
      const [a, b] = [image.node(path), image.node(mutation.other)];
      if (!a || !b || isInside(path, mutation.other) || isInside(mutation.other, path)) return;
      image.set(path, b);
      image.set(mutation.other, a);
      return;
    }
    case "move":
    case "clone": {
      const node = image.node(path);
      if (!node || isInside(mutation.to, path)) return;
      image.set(mutation.to, mutation.do === "clone" ? forkNode(node) : node);
      if (mutation.do === "move") image.set(path, undefined);
      return;
    }
    case "remove":
      image.set(path, undefined);
      return;
    case "directory":
      image.set(path, directoryOf());
      return;
    case "other":
      image.set(path, { kind: "other" });
      return;
    case "link":
      image.set(path, { kind: "link", target: mutation.target });
      return;
    case "file":
      image.set(path, fileOf(Buffer.from(mutation.hex, "hex"), mutation.size));
      return;
    case "deny": {
      const node = image.node(path);
      if (node?.kind === "file" || node?.kind === "directory") node.denied = true;
      return;
    }
  }
}

function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`);
}

function overwrite(file: Parameters<typeof writeFile>[0], bytes: Buffer, at: number): void {
  writeFile(file, bytes.subarray(0, Math.max(0, file.size - at)), at);
}

/** A record of the undamaged store. */
interface Place {
  readonly path: string;
  readonly at: number;
  readonly size: number;
}

/** What lies where in a store before it is damaged. */
export interface Survey {
  readonly files: readonly string[];
  readonly directories: readonly string[];
  readonly logFiles: readonly string[];
  readonly queueFiles: readonly string[];
  readonly indexFiles: readonly string[];
  readonly records: readonly Place[];
  /** Behind the last record of each log file. */
  readonly ends: readonly Place[];
  readonly logFileSize: number;
}

export function surveyOf(image: StoreImage, logFileSize: number): Survey {
  const paths = image.paths();
  const files = paths.filter((path) => image.file(path));
  const logFiles = files.filter((path) => path.startsWith("commitlog/"));
  const records: Place[] = [];
  const ends: Place[] = [];
  for (const path of logFiles) {
    const bytes = Buffer.alloc(image.file(path)?.size ?? 0);
    readFile(image.file(path) as Parameters<typeof readFile>[0], bytes, 0);
    let at = 0;
    while (at + 8 <= bytes.length && isMagic(bytes.readInt32BE(at + 4))) {
      const size = bytes.readInt32BE(at);
      if (size < 91 || at + size > bytes.length) break;
      records.push({ path, at, size });
      at += size;
    }
    ends.push({ path, at, size: bytes.length - at });
  }
  return {
    files,
    directories: paths.filter((path) => image.directory(path)),
    logFiles,
    queueFiles: files.filter((path) => /^(batch)?consumequeue(_ext)?\//.test(path)),
    indexFiles: files.filter((path) => path.startsWith("index/")),
    records,
    ends,
    logFileSize,
  };
}

function isMagic(magic: number): boolean {
  return magic === MAGIC_V1 || magic === MAGIC_V2;
}

/** Makes one to `most` mutations of a store, and carries them out on `image`. */
export function mutateAtRandom(
  image: StoreImage,
  survey: Survey,
  random: Random,
  most = 6,
): Mutation[] {
  const made: Mutation[] = [];
  // Most stores have few faults: with many the first one hides the others.
  const count = 1 + Math.floor((random(1000) * random(1000) * most) / 1_000_000);
  for (let i = 0; i < count; i++) {
    const mutations = pick(random, WEIGHTED)(new Source(image, survey, random));
    for (const mutation of mutations) mutate(image, mutation);
    made.push(...mutations);
  }
  return made;
}

function pick<T>(random: Random, list: readonly T[]): T {
  return list[random(list.length)] as T;
}

/** What the makers of mutations draw from. */
class Source {
  readonly image: StoreImage;
  readonly survey: Survey;
  readonly random: Random;

  constructor(image: StoreImage, survey: Survey, random: Random) {
    this.image = image;
    this.survey = survey;
    this.random = random;
  }

  pick<T>(list: readonly T[]): T {
    return pick(this.random, list);
  }

  /** A file that is there, with its size: most are files of log and queues. */
  file(): string | undefined {
    const { files, logFiles, queueFiles, indexFiles } = this.survey;
    const lists = [logFiles, logFiles, queueFiles, queueFiles, indexFiles, files];
    const list = lists[this.random(lists.length)];
    return list?.length ? this.pick(list) : undefined;
  }

  /** A place in a file; most lie where there is something. */
  position(path: string): number {
    const file = this.image.file(path);
    if (!file) return 0;
    return this.random(Math.max(1, this.random(4) === 0 ? file.size : file.bytes.length));
  }

  sizeOf(path: string): number {
    return this.image.file(path)?.size ?? 0;
  }

  int32(): Buffer {
    const bytes = Buffer.alloc(4);
    if (this.random(4) === 0) bytes.writeUInt32BE(this.random(2 ** 32));
    else bytes.writeInt32BE(this.pick(INT32S));
    return bytes;
  }

  int64(): Buffer {
    const bytes = Buffer.alloc(8);
    const value = this.random(4) === 0 ? BigInt(this.random(1 << 20)) : this.pick(INT64S);
    bytes.writeBigInt64BE(value);
    return bytes;
  }

  garbage(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.random(256)));
  }

  read(path: string, at: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    const file = this.image.file(path);
    return file ? bytes.subarray(0, readFile(file, bytes, at)) : bytes.subarray(0, 0);
  }

  /** Where the file of the log begins in the whole. */
  startOf(path: string): number {
    return Number(path.slice(path.lastIndexOf("/") + 1)) || 0;
  }
}

const INT32S = [
  0,
  1,
  -1,
  2,
  7,
  8,
  20,
  48,
  87,
  88,
  90,
  91,
  92,
  127,
  128,
  255,
  256,
  4096,
  32767,
  32768,
  65535,
  65536,
  2 ** 20,
  2 ** 30,
  2 ** 31 - 1,
  -(2 ** 31),
  MAGIC_V1,
  MAGIC_V2,
  MAGIC_BLANK,
];
const INT64S = [
  0n,
  1n,
  -1n,
  19n,
  20n,
  91n,
  65536n,
  2n ** 31n,
  2n ** 32n,
  2n ** 40n,
  2n ** 45n,
  2n ** 48n,
  2n ** 49n,
  2n ** 52n,
  2n ** 53n - 1n,
  2n ** 53n,
  2n ** 53n + 1n,
  2n ** 62n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  -(2n ** 53n),
  -(2n ** 31n),
  9223372036854775n,
  450359962737049n,
  450359962737050n,
];

type Maker = (source: Source) => Mutation[];

const bytesAt = (path: string, at: number, bytes: Buffer): Mutation => ({
  do: "bytes",
  path,
  at,
  hex: bytes.toString("hex"),
});

/** With a file, or nothing. */
function withFile(make: (source: Source, path: string) => Mutation[]): Maker {
  return (source) => {
    const path = source.file();
    return path === undefined ? [] : make(source, path);
  };
}

function withRecord(make: (source: Source, record: Place) => Mutation[]): Maker {
  return (source) => {
    const { records } = source.survey;
    if (records.length === 0) return [];
    // The first and last ones decide most.
    const at = [
      0,
      records.length - 1,
      source.random(records.length),
      source.random(records.length),
    ];
    return make(source, records[source.pick(at)] as Place);
  };
}

// Bytes.

const flipBit = withFile((source, path) => {
  const at = source.position(path);
  const [byte = 0] = source.read(path, at, 1);
  return [bytesAt(path, at, Buffer.from([byte ^ (1 << source.random(8))]))];
});

const setByte = withFile((source, path) => [
  bytesAt(path, source.position(path), source.garbage(1)),
]);

const setNumber = withFile((source, path) => [
  bytesAt(path, source.position(path), source.random(2) ? source.int32() : source.int64()),
]);

const fillRange = withFile((source, path) => [
  {
    do: "fill",
    path,
    at: source.position(path),
    length: source.pick([1, 4, 20, 91, 512, 4096, 65536]),
    byte: source.pick([0, 0, 0xff, 1, 2]),
  },
]);

const garbageRange = withFile((source, path) => [
  bytesAt(path, source.position(path), source.garbage(source.pick([3, 20, 91, 512]))),
]);

const truncate = withFile((source, path) => [
  { do: "resize", path, size: source.pick([0, 1, source.position(path), source.position(path)]) },
]);

const extend = withFile((source, path) => {
  const size = source.sizeOf(path);
  const sizes = [size + 1, size + 20, size * 2, size + 4096, 2 ** 31, 2 ** 40];
  // A hole of so many bytes is legal, and is read.
  const large = source.random(20) === 0 ? 2 ** 31 - 1 : 2 ** 24;
  const beyond = Number.MAX_SAFE_INTEGER;
  return [{ do: "resize", path, size: source.pick([...sizes, large, beyond]) }];
});

const splice = withFile((source, path) => {
  const to = source.random(2) ? path : (source.file() ?? path);
  const length = source.pick([8, 20, 91, 200, 4096, 65536]);
  return [{ do: "copy", path, at: source.position(path), length, to, toAt: source.position(to) }];
});

// Records.

/** Fields by where they are, some of it depending on the record itself. */
const FIELDS: readonly (readonly [
  at: (bytes: Buffer) => number,
  value: (source: Source) => Buffer,
])[] = [
  [() => 0, (s) => s.int32()],
  [() => 4, (s) => s.int32()],
  [() => BODY_CRC_AT, (s) => s.int32()],
  [() => QUEUE_ID_AT, (s) => s.int32()],
  [() => FLAG_AT, (s) => s.int32()],
  [() => QUEUE_OFFSET_AT, (s) => s.int64()],
  [() => QUEUE_OFFSET_AT, (s) => s.int64()],
  [() => PHYSICAL_OFFSET_AT, (s) => s.int64()],
  [() => SYS_FLAG_AT, (s) => s.int32()],
  [(bytes) => storeTimestampAt(readSysFlag(bytes, 0)), (s) => s.int64()],
  [(bytes) => preparedTransactionOffsetAt(readSysFlag(bytes, 0)), (s) => s.int64()],
  [(bytes) => bodyLengthAt(readSysFlag(bytes, 0)), (s) => s.int32()],
  [topicLengthAt, (s) => s.garbage(1)],
  [topicLengthAt, (s) => Buffer.from([s.pick([0, 1, 126, 127, 128, 255])])],
  [(bytes) => topicLengthAt(bytes) + 1, (s) => Buffer.from(s.pick(TOPICS))],
  [(bytes) => bytes.length - 2, (s) => s.garbage(2)],
];

function topicLengthAt(bytes: Buffer): number {
  const sysFlag = readSysFlag(bytes, 0);
  return Math.min(
    Math.max(0, bodyAt(sysFlag) + bytes.readInt32BE(bodyLengthAt(sysFlag))),
    bytes.length - 1,
  );
}

const setField = withRecord((source, { path, at, size }) => {
  const bytes = source.read(path, at, size);
  if (bytes.length < 120) return [];
  const [fieldAt, value] = source.pick(FIELDS);
  return [bytesAt(path, at + fieldAt(bytes), value(source))];
});

/** A record as another one's neighbour, successor or in its place. */
const duplicateRecord = withRecord((source, { path, at, size }) => {
  const { records, ends } = source.survey;
  const to = source.random(2) ? source.pick(ends) : source.pick(records);
  const copy: Mutation = { do: "copy", path, at, length: size, to: to.path, toAt: to.at };
  if (source.random(2)) return [copy];
  // With the offset of its new place.
  const offset = Buffer.alloc(8);
  offset.writeBigInt64BE(BigInt(source.startOf(to.path) + to.at));
  return [copy, bytesAt(to.path, to.at + PHYSICAL_OFFSET_AT, offset)];
});

const blank = withRecord((source, { path, at }) => {
  const bytes = Buffer.alloc(8);
  source.int32().copy(bytes);
  bytes.writeInt32BE(MAGIC_BLANK, 4);
  return [bytesAt(path, at, bytes)];
});

const TOPICS = [
  "",
  ".",
  "..",
  "/",
  "../..",
  "../../../../../../tmp/x",
  "a/b",
  "..\0",
  "\0",
  "T\n\u001b[31m",
  "t".repeat(127),
  "t".repeat(255),
  "t".repeat(256),
  "é".repeat(63),
  "T",
  "TopicTest",
  "SCHEDULE_TOPIC_XXXX",
  "%LMQ%x",
  "RMQ_SYS_TRANS_HALF_TOPIC",
];
const NAMES = ["%LMQ%a", "..", ".", "", "a/b", "\0", "%LMQ%".padEnd(300, "x"), "x", "%LMQ%../../x"];

/** Fields of a record that is made up. */
export interface Forged {
  readonly topic: Buffer;
  readonly properties: Buffer;
  readonly queueId: number;
  readonly queueOffset: bigint;
  readonly storeTimestamp: bigint;
  readonly sysFlag: number;
}

/** A record that is whole in itself, whatever it says. */
export function forge(fields: Forged, offset: number, body: Buffer): Buffer {
  const { topic, properties, sysFlag } = fields;
  const isV2 = topic.length > 127;
  const front = Buffer.alloc(bodyAt(sysFlag));
  const back = Buffer.alloc(isV2 ? 2 : 1);
  if (isV2) back.writeInt16BE(topic.length);
  else back.writeInt8(topic.length);
  const propertiesLength = Buffer.alloc(2);
  propertiesLength.writeUInt16BE(properties.length);
  const record = Buffer.concat([front, body, back, topic, propertiesLength, properties]);
  record.writeInt32BE(record.length, 0);
  record.writeInt32BE(isV2 ? MAGIC_V2 : MAGIC_V1, 4);
  record.writeInt32BE(body.length === 0 ? 0 : maskedCrc32(body), BODY_CRC_AT);
  record.writeInt32BE(fields.queueId, QUEUE_ID_AT);
  record.writeBigInt64BE(fields.queueOffset, QUEUE_OFFSET_AT);
  record.writeBigInt64BE(BigInt(offset), PHYSICAL_OFFSET_AT);
  record.writeInt32BE(sysFlag, SYS_FLAG_AT);
  record.writeBigInt64BE(fields.storeTimestamp, storeTimestampAt(sysFlag));
  record.writeInt32BE(body.length, bodyLengthAt(sysFlag));
  return record;
}

function propertiesText(source: Source): string {
  const names = Array.from({ length: source.pick([1, 2, 3, 40]) }, () => source.pick(NAMES));
  const offsets = names.map(() =>
    source.pick(["0", "1", "9007199254740991", "450359962737049", "-1", "x"]),
  );
  const lists = `INNER_MULTI_DISPATCH\u0001${names.join(",")}\u0002INNER_MULTI_QUEUE_OFFSET\u0001${offsets.join(",")}\u0002`;
  return source.pick([
    "",
    "TAGS\u0001TagA\u0002",
    "\u0002".repeat(2000),
    "\u0001".repeat(2000),
    "TAGS\u0001".repeat(400),
    `DELAY\u0001${source.pick(["3", "-1", "99999999999", "2147483647"])}\u0002`,
    lists,
    lists,
    "INNER_NUM\u00012147483647\u0002INNER_BASE\u00011\u0002",
    "__CRC32#\u00010000000000\u0002",
  ]);
}

const forgeRecord: Maker = (source) => {
  const { records, ends } = source.survey;
  const replaced = source.random(2) && records.length > 0 ? source.pick(records) : undefined;
  const to = replaced ?? ends.at(-1);
  if (!to) return [];
  const fields: Forged = {
    topic: Buffer.from(source.pick(TOPICS)),
    properties: Buffer.from(propertiesText(source)),
    queueId: source.pick([0, 0, 1, -1, 7, 999_999_999, 1_000_000_000, 2 ** 31 - 1, -(2 ** 31)]),
    queueOffset: source.random(2) ? BigInt(source.random(40)) : source.pick(INT64S),
    storeTimestamp: source.random(3) ? 1_700_000_000_000n : source.pick(INT64S),
    sysFlag: source.pick([0, 0, 0, 4, 8, 12, 16, 32, 48, 0x80, -1]),
  };
  const offset = source.startOf(to.path) + to.at;
  const bare = forge(fields, offset, Buffer.alloc(0));
  const room = to.size - bare.length;
  if (room < 0) return [];
  const body = Buffer.alloc(replaced ? room : Math.min(room, source.random(100)), 0x62);
  return [bytesAt(to.path, to.at, forge(fields, offset, body))];
};

/** Heads of records that each claim the rest of the file, and state where they lie. */
const forest = withRecord((source, { path, at }) => {
  const size = source.sizeOf(path);
  const start = source.startOf(path);
  const head = forge(
    {
      topic: Buffer.from("T"),
      properties: Buffer.alloc(0),
      queueId: 0,
      queueOffset: 0n,
      storeTimestamp: 1n,
      sysFlag: 0,
    },
    0,
    Buffer.alloc(0),
  ).subarray(0, 88);
  const heads: Buffer[] = [];
  const end = Math.min(size, at + 32768);
  for (let place = at; place + 200 < end; place += head.length) {
    const bytes = Buffer.from(head);
    // An extended file is longer than any record can say.
    const length = Math.min(size - place, 2 ** 31 - 1);
    bytes.writeInt32BE(length, 0);
    bytes.writeBigInt64BE(BigInt(start + place), PHYSICAL_OFFSET_AT);
    bytes.writeInt32BE(length - 88 - 3, 84);
    heads.push(bytes);
  }
  return heads.length === 0 ? [] : [bytesAt(path, at, Buffer.concat(heads))];
});

// Units.

/** @param make Gets the size of a unit, too. */
function withQueue(
  make: (source: Source, path: string, units: number, size: number) => Mutation[],
): Maker {
  return (source) => {
    const { queueFiles } = source.survey;
    if (queueFiles.length === 0) return [];
    const path = source.pick(queueFiles);
    // Most units of an extension have as many bytes as those of a queue.
    const size = path.startsWith("batch") ? 46 : 20;
    const units = Math.ceil((source.image.file(path)?.bytes.length ?? 0) / size);
    return make(source, path, units, size);
  };
}

const int16 = (source: Source): Buffer =>
  source
    .int32()
    .subarray(source.random(2) * 2)
    .subarray(0, 2);

/** What units of extensions and of batch queues have beside the others. */
const setLongUnit = withQueue((source, path, units, size) => {
  const at = size * source.random(units + 1);
  if (size === 46) {
    return [
      source.pick([
        bytesAt(path, at + 28, source.int64()),
        bytesAt(path, at + 36, int16(source)),
        bytesAt(path, at + 20, Buffer.concat([source.int64(), source.int64(), int16(source)])),
      ]),
    ];
  }
  return [
    source.pick([
      bytesAt(path, at, int16(source)),
      bytesAt(path, at + 18, int16(source)),
      // An address, or what is none any more.
      bytesAt(path, at + 12, Buffer.concat([Buffer.from([0x80, 0, 0, 0]), source.int32()])),
    ]),
  ];
});

const setUnit = withQueue((source, path, units, size) => {
  const at = size * source.random(units + 1);
  const { records, logFileSize } = source.survey;
  const offset = Buffer.alloc(8);
  const place = records.length > 0 ? source.pick(records) : undefined;
  offset.writeBigInt64BE(BigInt(place ? source.startOf(place.path) + place.at : logFileSize));
  return [
    source.pick([
      bytesAt(path, at, source.int64()),
      bytesAt(path, at, offset),
      bytesAt(path, at + 8, source.int32()),
      bytesAt(path, at + 12, source.int64()),
      bytesAt(path, at, Buffer.concat([source.int64(), source.int32(), source.int64()])),
    ]),
  ];
});

const copyUnits = withQueue((source, path, units, size) => {
  const to = source.pick(source.survey.queueFiles);
  const length = size * (1 + source.random(Math.max(1, units)));
  const toAt = size * source.random(units + 1);
  return [{ do: "copy", path, at: size * source.random(units + 1), length, to, toAt }];
});

const FILLER = Buffer.from("00000000000000007fffffff0000000000000000", "hex");

/** Units that are filled at once at most: an extended file has room for any number. */
const FILLED_UNITS_MAX = 4096;

const fillUnits = withQueue((source, path, units) => {
  const unit = source.pick([FILLER, FILLER, Buffer.alloc(20), Buffer.alloc(20, 0xff)]);
  const room = Math.min(Math.floor(source.sizeOf(path) / 20), FILLED_UNITS_MAX);
  const count = source.pick([1, units, room]);
  const from = source.random(2) ? 0 : source.random(units + 1);
  return [bytesAt(path, 20 * from, Buffer.concat(Array.from({ length: count }, () => unit)))];
});

const reverseUnits = withQueue((source, path, units, size) => {
  const bytes = source.read(path, 0, units * size);
  const reversed = Array.from({ length: Math.floor(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, i * size + size),
  ).reverse();
  return [bytesAt(path, 0, Buffer.concat(reversed))];
});

// Checkpoint.

const setCheckpoint: Maker = (source) => {
  const bytes = Buffer.alloc(4096);
  source.read("checkpoint", 0, 4096).copy(bytes);
  const at = source.pick([0, 8, 16, 24, 32, 40, 2048, 2052, 2104, 2112, 2120, 2128, 2136]);
  source.int64().copy(bytes, at);
  if (source.random(3) === 0) {
    source.int64().copy(bytes, source.pick([2304, 2312, 2320, 2328, 2336, 2344, 2352]));
    bytes.writeUInt32BE(crc32(bytes.subarray(2304, 2360)), 2360);
  }
  // With a slot that is valid, or as it comes.
  if (source.random(3) > 0) {
    bytes.copy(bytes, 2056, 0, 48);
    bytes.writeUInt32BE(crc32(bytes.subarray(2048, 2136)), 2136);
  }
  return [{ do: "file", path: "checkpoint", hex: bytes.toString("hex"), size: 4096 }];
};

// Names and kinds.

const remove = withFile((_, path) => [{ do: "remove", path }]);

const removeDirectory: Maker = (source) =>
  source.survey.directories.length === 0
    ? []
    : [{ do: "remove", path: source.pick(source.survey.directories) }];

const NAMES_OF_FILES = [
  "0",
  "1",
  "-0000000000000000001",
  "00000000000000000001",
  "00000000000000000020",
  "000000000000000000000",
  "0000000000000000000000065536",
  "00000000000000065536",
  "00000000000000131072",
  "00004503599627370496",
  "00004503599627366400",
  "00004503599627370000",
  "00009007199254740991",
  "00009223372036854775807",
  "99999999999999999999",
  "0000000000000000000x",
  "abc",
  "x.tmp",
  "00000000000000000000.0.tmp",
  " ",
  "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠",
];

const rename = withFile((source, path) => {
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  const to = folder + source.pick(NAMES_OF_FILES);
  return [{ do: source.random(2) ? "move" : "clone", path, to }];
});

const NAMES_OF_QUEUES = [
  "-1",
  "007",
  "00",
  "1e3",
  "2147483647",
  "2147483648",
  "9999999999",
  "x",
  "+1",
  "0x1",
  " 1",
];

const renameDirectory: Maker = (source) => {
  const queues = source.survey.directories.filter((path) => path.split("/").length === 3);
  if (queues.length === 0) return [];
  const path = source.pick(queues);
  const topics = ["T", "%LMQ%x", "..x", "t".repeat(255), "\u001b[31m", "new\nline"];
  const [root, topic] = path.split("/") as [string, string];
  const to = source.random(2)
    ? `${root}/${topic}/${source.pick(NAMES_OF_QUEUES)}`
    : `${root}/${source.pick(topics)}`;
  const from = source.random(2) || to.split("/").length === 3 ? path : `${root}/${topic}`;
  return [{ do: source.random(2) ? "move" : "clone", path: from, to }];
};

const exchange = withFile((source, path) => [
  { do: "exchange", path, other: source.file() ?? path },
]);

const KNOWN = [
  "commitlog",
  "consumequeue",
  "consumequeue_ext",
  "batchconsumequeue",
  "checkpoint",
  "abort",
  "lock",
  "forcelog",
  "config",
  "index",
];

function anyPath(source: Source): string {
  const { files, directories } = source.survey;
  return source.pick([...KNOWN, ...directories, ...files]);
}

const wrongKind: Maker = (source) => {
  const path = anyPath(source);
  const what = source.random(8);
  if (what < 3) return [{ do: "directory", path }];
  if (what < 6) return [{ do: "file", path, hex: "", size: source.pick([0, 1, 4096, 65536]) }];
  return what === 6
    ? [{ do: "other", path }]
    : [{ do: "file", path, hex: source.garbage(48).toString("hex"), size: 48 }];
};

const link: Maker = (source) => {
  const path = anyPath(source);
  const targets = ["nowhere", path.split("/").at(-1) as string, "/store", ".", "../checkpoint"];
  // What `lock` and `abort` lead to is written to, in RocketMQ too: the log would not survive it.
  const file = path === "lock" || path === "abort" ? undefined : source.file();
  const target = source.pick([...targets, ...(file === undefined ? [] : [`/store/${file}`])]);
  return [{ do: "link", path, target }];
};

const moveAndLink = withFile((source, path) => {
  const to = `elsewhere-${source.random(1000)}`;
  return [
    { do: "move", path, to },
    { do: "link", path, target: `/store/${to}` },
  ];
});

const deny: Maker = (source) => [{ do: "deny", path: anyPath(source) }];

const addFile: Maker = (source) => {
  const folder = source.pick([
    "commitlog",
    "consumequeue",
    "config",
    "forcelog",
    "",
    ...source.survey.directories,
  ]);
  const names = [
    ...NAMES_OF_FILES,
    "topics.json",
    "CURRENT",
    "metadata",
    "holder.json",
    "kvStore",
    "dledger-x",
    "epochFileCheckpoint",
  ];
  const path = folder === "" ? source.pick(names) : `${folder}/${source.pick(names)}`;
  const hex = source.pick(
    ["", "7b", "ffff", "{".repeat(9)].map((text) => Buffer.from(text).toString("hex")),
  );
  const size = source.pick([0, 4, 400, 2000, source.survey.logFileSize]);
  return [source.random(4) === 0 ? { do: "directory", path } : { do: "file", path, hex, size }];
};

const toggleAbort: Maker = (source) =>
  source.image.node("abort")
    ? [{ do: "remove", path: "abort" }]
    : [{ do: "file", path: "abort", hex: "31", size: 1 }];

/** How often each is made. */
const WEIGHTED: readonly Maker[] = (
  [
    [flipBit, 8],
    [setByte, 2],
    [setNumber, 6],
    [fillRange, 5],
    [garbageRange, 2],
    [truncate, 3],
    [extend, 2],
    [splice, 5],
    [setField, 12],
    [duplicateRecord, 4],
    [blank, 2],
    [forgeRecord, 10],
    [forest, 1],
    [setUnit, 8],
    [setLongUnit, 3],
    [copyUnits, 3],
    [fillUnits, 2],
    [reverseUnits, 1],
    [setCheckpoint, 5],
    [remove, 4],
    [removeDirectory, 1],
    [rename, 4],
    [renameDirectory, 3],
    [exchange, 2],
    [wrongKind, 3],
    [link, 2],
    [moveAndLink, 1],
    [deny, 2],
    [addFile, 3],
    [toggleAbort, 8],
  ] as const
).flatMap(([maker, weight]) => Array.from({ length: weight }, () => maker as Maker));
