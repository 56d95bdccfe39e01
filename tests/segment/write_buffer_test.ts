import fc from "fast-check";
import t from "tap";
import { type Segment, segmentOf } from "../../lib/segment/segment.ts";
import { type Piece, WriteBuffer } from "../../lib/segment/write_buffer.ts";
import { seedOf } from "../support/random.ts";

const KIB = 1024;
const CHUNK = 256 * KIB;

function segment(start: number, size = 1000): Segment {
  return segmentOf("/log", start, size);
}

/** Encodes `length` bytes of `value` and counts them. */
function append(
  buffer: WriteBuffer,
  into: Segment,
  position: number,
  length: number,
  value = 1,
  seals = false,
): Buffer {
  const { target, at } = buffer.room(into, position, length);
  target.fill(value, at, at + length);
  buffer.append(length, seals);
  return target;
}

function bytesOf(piece: Piece | undefined): Buffer {
  return Buffer.concat((piece?.buffers ?? []) as Uint8Array[]);
}

t.test("WriteBuffer.next() has nothing before something was appended", async (t) => {
  const buffer = new WriteBuffer(100);
  t.equal(buffer.next(1000), undefined);
  buffer.room(segment(0), 0, 10);
  t.equal(buffer.next(1000), undefined, "room alone is nothing");
  t.equal(buffer.pendingBytes, 0);
});

t.test("WriteBuffer.next() gives what waits, and again until it is released", async (t) => {
  const buffer = new WriteBuffer(10_000);
  const file = segment(2000);
  append(buffer, file, 100, 10, 1);
  append(buffer, file, 110, 5, 2);
  for (let i = 0; i < 2; i++) {
    const piece = buffer.next(1000) as Piece;
    t.match(piece, { segment: file, position: 100, bytes: 15, end: 2115 });
    t.same(bytesOf(piece), Buffer.concat([Buffer.alloc(10, 1), Buffer.alloc(5, 2)]));
  }
  const piece = buffer.next(1000) as Piece;
  append(buffer, file, 115, 7, 3);
  buffer.release(piece);
  t.equal(buffer.pendingBytes, 7, "what came meanwhile still waits");
  t.match(buffer.next(1000), { position: 115, bytes: 7, end: 2122 });
  t.same(bytesOf(buffer.next(1000)), Buffer.alloc(7, 3));
});

t.test("WriteBuffer.next() never spans two files", async (t) => {
  const buffer = new WriteBuffer(10_000);
  const [first, second] = [segment(0), segment(1000)];
  append(buffer, first, 900, 50, 1);
  append(buffer, first, 950, 8, 2, true);
  append(buffer, second, 0, 20, 3);
  const sealed = buffer.next(10_000) as Piece;
  t.match(sealed, { segment: first, position: 900, bytes: 58, end: 1000 });
  buffer.release(sealed);
  const next = buffer.next(10_000) as Piece;
  t.match(next, { segment: second, position: 0, bytes: 20, end: 1020 });
  t.same(bytesOf(next), Buffer.alloc(20, 3));
});

t.test("WriteBuffer.append() that seals does so whatever room is left", async (t) => {
  const buffer = new WriteBuffer(10_000);
  append(buffer, segment(0), 10, 8, 1, true);
  t.match(buffer.next(10_000), { position: 10, bytes: 8, end: 1000 });
});

t.test("WriteBuffer.room() in an abandoned room is as good as new", async (t) => {
  const buffer = new WriteBuffer(10_000);
  const [first, second] = [segment(0), segment(1000)];
  append(buffer, first, 0, 10, 1);
  buffer.room(first, 10, 20).target.fill(9, 10, 30);
  buffer.room(second, 0, 20);
  append(buffer, first, 10, 5, 2);
  const piece = buffer.next(10_000) as Piece;
  t.match(piece, { segment: first, position: 0, bytes: 15, end: 15 });
  t.same(bytesOf(piece), Buffer.concat([Buffer.alloc(10, 1), Buffer.alloc(5, 2)]));
  buffer.release(piece);
  t.equal(buffer.next(10_000), undefined);
  append(buffer, second, 0, 5, 3);
  t.match(buffer.next(10_000), { segment: second, position: 0, bytes: 5, end: 1005 });
});

t.test("WriteBuffer lets a lone producer write few pages again and again", async (t) => {
  const buffer = new WriteBuffer(10 * CHUNK);
  const file = segment(0, 100_000_000);
  const chunks = new Set<Buffer>();
  for (let i = 0; i < 100_000; i++) {
    chunks.add(append(buffer, file, i * 100, 100));
    buffer.release(buffer.next(10_000) as Piece);
  }
  t.equal(chunks.size, 16);
});

t.test("WriteBuffer.copy() finds what was appended last, in one chunk or in several", async (t) => {
  const buffer = new WriteBuffer(100 * CHUNK);
  const [first, second] = [segment(0, 10 * CHUNK), segment(10 * CHUNK, 90 * CHUNK)];
  const found = (offset: number, length: number): string => {
    const target = Buffer.alloc(length + 2, 0xee);
    if (!buffer.copy(offset, target, 1, length + 1)) return "gone";
    if (target[0] !== 0xee || target.at(-1) !== 0xee) return "too much";
    return [...new Set(target.subarray(1, -1))].join();
  };
  t.equal(found(0, 1), "gone", "nothing there yet");
  append(buffer, first, 100, CHUNK - 100, 1);
  append(buffer, first, CHUNK, CHUNK, 2);
  append(buffer, first, 2 * CHUNK, 10, 3);
  for (const what of ["waiting", "committed"]) {
    t.equal(found(100, CHUNK - 100), "1", what);
    t.equal(found(CHUNK - 1, CHUNK + 2), "1,2,3", what);
    t.equal(found(99, 1), "gone", `${what}: nothing was appended there`);
    t.equal(found(2 * CHUNK + 5, 6), "gone", `${what}: nor there`);
    while (buffer.pendingBytes > 0) buffer.release(buffer.next(CHUNK) as Piece);
  }
  append(buffer, first, 2 * CHUNK + 10, 10, 4, true);
  append(buffer, second, 0, 10, 5);
  t.equal(found(2 * CHUNK, 20), "3,4");
  t.equal(found(10 * CHUNK, 10), "5");
  while (buffer.pendingBytes > 0) buffer.release(buffer.next(CHUNK) as Piece);
  for (let i = 0; i < 80; i++) {
    append(buffer, second, 10 + i * CHUNK, CHUNK, 6);
    buffer.release(buffer.next(CHUNK) as Piece);
  }
  t.equal(found(CHUNK, 10), "gone", "its chunk was needed");
  t.equal(found(10 * CHUNK + 10 + 79 * CHUNK, CHUNK), "6");
  append(buffer, second, 10 + 80 * CHUNK, 2 * CHUNK, 7);
  buffer.release(buffer.next(CHUNK) as Piece);
  append(buffer, second, 10 + 82 * CHUNK, 10, 8);
  t.equal(found(10 * CHUNK + 10 + 80 * CHUNK, 1), "gone", "larger than a chunk: not kept");
  t.equal(found(10 * CHUNK + 10 + 82 * CHUNK, 10), "8");
});

t.test("WriteBuffer keeps chunks for the next burst, but not many", async (t) => {
  const buffer = new WriteBuffer(100 * CHUNK);
  const file = segment(0, 100_000_000);
  let position = 0;
  const burst = (): Set<Buffer> => {
    const chunks = new Set<Buffer>();
    for (let i = 0; i < 90; i++) {
      chunks.add(append(buffer, file, position, CHUNK));
      position += CHUNK;
    }
    while (buffer.pendingBytes > 0) buffer.release(buffer.next(CHUNK) as Piece);
    return chunks;
  };
  const before = burst();
  const again = [...burst()].filter((chunk) => before.has(chunk)).length;
  t.ok(again >= 64 && again <= 66, `${again} of 90 chunks were kept`);
});

t.test("WriteBuffer.room() for a record larger than a chunk is one of its own", async (t) => {
  const buffer = new WriteBuffer(100 * CHUNK);
  const file = segment(0, 100_000_000);
  append(buffer, file, 0, 10, 1);
  append(buffer, file, 10, CHUNK + 1, 2);
  append(buffer, file, CHUNK + 11, 10, 3);
  const piece = buffer.next(1) as Piece;
  t.match(piece, { position: 0, bytes: 10 }, "at least one chunk, and up to the most bytes");
  buffer.release(piece);
  const large = buffer.next(1) as Piece;
  t.match(large, { position: 10, bytes: CHUNK + 1, end: CHUNK + 11 });
  buffer.release(large);
  t.match(buffer.next(1), { position: CHUNK + 11, bytes: 10 });
  buffer.release(buffer.next(1) as Piece);
  append(buffer, file, CHUNK + 21, 2 * CHUNK, 4);
  buffer.release(buffer.next(1) as Piece);
  t.equal(buffer.next(1), undefined);
  t.equal(buffer.pendingBytes, 0);
});

t.test("WriteBuffer.next() takes at most 1024 buffers", async (t) => {
  const buffer = new WriteBuffer(1);
  const file = segment(0, 100_000);
  for (let i = 0; i < 3000; i++) append(buffer, file, i * 2, 2);
  const sizes: number[] = [];
  for (let piece = buffer.next(1e9); piece; piece = buffer.next(1e9)) {
    sizes.push(piece.buffers.length);
    buffer.release(piece);
  }
  t.strictSame(sizes, [1024, 1024, 952]);
});

t.test("WriteBuffer.hasRoomFor() keeps the budget, but lets one record wait alone", async (t) => {
  const buffer = new WriteBuffer(100);
  const file = segment(0, 100_000);
  t.ok(buffer.hasRoomFor(1000));
  append(buffer, file, 0, 60);
  t.ok(buffer.hasRoomFor(40));
  t.notOk(buffer.hasRoomFor(41));
  buffer.release(buffer.next(1000) as Piece);
  t.ok(buffer.hasRoomFor(1000));
});

t.test("WriteBuffer agrees with a plain list of bytes, whatever is done with it", async (t) => {
  const FILE = 3000;
  const step = fc.oneof(
    fc.record({ kind: fc.constant("append" as const), length: fc.integer({ min: 1, max: 700 }) }),
    fc.record({ kind: fc.constant("abandon" as const), length: fc.integer({ min: 1, max: 700 }) }),
    fc.record({ kind: fc.constant("next" as const), bytesMax: fc.integer({ min: 1, max: 2000 }) }),
    fc.record({ kind: fc.constant("release" as const) }),
  );
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 80 }),
      fc.integer({ min: 1, max: 1500 }),
      (steps, budget) => {
        const buffer = new WriteBuffer(budget);
        // The model: what waits, byte by byte, with its place.
        let waiting: { segment: Segment; position: number; value: number }[] = [];
        const sealedAt = new Map<Segment, number>();
        /** All that was appended, by its offset. */
        const all = new Map<number, number>();
        let file = segment(0, FILE);
        let position = 0;
        let value = 0;
        let taken: Piece | undefined;
        const add = (length: number, seals: boolean): void => {
          value = (value + 1) & 0xff;
          append(buffer, file, position, length, value, seals);
          for (let i = 0; i < length; i++) {
            waiting.push({ segment: file, position: position + i, value });
            all.set(file.start + position + i, value);
          }
          position += length;
          if (seals) sealedAt.set(file, position);
        };
        for (const one of steps) {
          if (one.kind === "append") {
            if (position + one.length + 8 > FILE) {
              add(8, true);
              file = segment(file.start + FILE, FILE);
              position = 0;
            }
            add(one.length, false);
          } else if (one.kind === "abandon") {
            const { target, at } = buffer.room(file, position, one.length);
            target.fill(0xee, at, at + one.length);
          } else if (one.kind === "next" && !taken) {
            taken = buffer.next(one.bytesMax);
            if (!taken !== (waiting.length === 0)) throw new Error("next() and the model disagree");
          } else if (one.kind === "release" && taken) {
            const bytes = bytesOf(taken);
            if (bytes.length !== taken.bytes)
              throw new Error("bytes are not the sum of the buffers");
            bytes.forEach((byte, i) => {
              const expected = waiting[i];
              if (
                expected?.segment !== taken?.segment ||
                expected?.position !== (taken?.position ?? 0) + i ||
                expected?.value !== byte
              ) {
                throw new Error(`byte ${i} of a piece is wrong`);
              }
            });
            const last = taken.position + taken.bytes;
            const { start } = taken.segment;
            const end = sealedAt.get(taken.segment) === last ? start + FILE : start + last;
            if (taken.end !== end) throw new Error(`ends at ${taken.end}, not at ${end}`);
            buffer.release(taken);
            waiting = waiting.slice(taken.bytes);
            taken = undefined;
          }
          // What can be had again is what was appended, and all that waits can be had.
          const first = waiting[0] ? waiting[0].segment.start + waiting[0].position : Infinity;
          for (const [offset, expected] of all) {
            const byte = Buffer.alloc(1);
            const isThere = buffer.copy(offset, byte, 0, 1);
            if (isThere ? byte[0] !== expected : offset >= first) {
              throw new Error(`copy() is wrong at ${offset}`);
            }
          }
          if (buffer.pendingBytes !== waiting.length) throw new Error("pendingBytes is wrong");
          if (buffer.hasRoomFor(5) !== (waiting.length === 0 || waiting.length + 5 <= budget)) {
            throw new Error("hasRoomFor() is wrong");
          }
        }
      },
    ),
    { seed: seedOf(t), numRuns: 400 },
  );
});
