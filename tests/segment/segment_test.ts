import t from "tap";
import { positionIn, segmentName, segmentOf, segmentStart } from "../../lib/segment/segment.ts";

t.test("segmentName() is RocketMQ's: 20 digits", async (t) => {
  for (const [start, name] of [
    [0, "00000000000000000000"],
    [1073741824, "00000000001073741824"],
    [Number.MAX_SAFE_INTEGER, "00009007199254740991"],
  ] as const) {
    t.equal(segmentName(start), name);
    t.equal(segmentStart(name), start);
  }
});

t.test("segmentStart() knows what is no name of a segment", async (t) => {
  for (const name of [
    "",
    "0",
    "0000000000000000000",
    "0000000000000000000a",
    "00000000000000000000.tmp",
    "-0000000000000000001",
    " 00000000000000000000",
    "00009007199254740992",
    "99999999999999999999",
  ]) {
    t.equal(segmentStart(name), undefined, name);
  }
});

t.test("positionIn() lies between 0 and the size", async (t) => {
  const segment = segmentOf("/store/commitlog", 2000, 1000);
  t.equal(segment.path, "/store/commitlog/00000000000000002000");
  t.equal(segment.unverifiedIdentity, undefined);
  for (const [offset, position] of [
    [0, 0],
    [1999, 0],
    [2000, 0],
    [2001, 1],
    [2999, 999],
    [3000, 1000],
    [9999, 1000],
  ] as const) {
    t.equal(positionIn(segment, offset), position, String(offset));
  }
});
