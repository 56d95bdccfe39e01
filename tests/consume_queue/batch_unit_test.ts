import t from "tap";
import {
  BATCH_UNIT_BYTES,
  batchBase,
  batchMessages,
  encodeBatch,
  isBatchUnit,
} from "../../lib/consume_queue/batch_unit.ts";
import { decodeUnit, encodeUnit } from "../../lib/consume_queue/queue_unit.ts";

/** Messages 100 to 109 with tag `refund`, in a record of 512 bytes at 2^30. */
const UNIT = Buffer.from(
  "000000004000000000000200ffffffffc847df780000019209b96d7b0000000000000064000affffffff00000000",
  "hex",
);

t.test("encodeBatch() completes RocketMQ's bytes", async (t) => {
  const bytes = Buffer.alloc(BATCH_UNIT_BYTES, 0xaa);
  encodeUnit(bytes, 0, 2 ** 30, 512, -934_813_832);
  encodeBatch(bytes, 0, 1_726_740_000_123, 100, 10);
  t.same(bytes, UNIT);
});

t.test("batchBase() and batchMessages() read them", async (t) => {
  const two = Buffer.concat([Buffer.alloc(BATCH_UNIT_BYTES), UNIT]);
  t.equal(batchBase(two, BATCH_UNIT_BYTES), 100);
  t.equal(batchMessages(two, BATCH_UNIT_BYTES), 10);
  t.ok(isBatchUnit(two, BATCH_UNIT_BYTES));
  t.same(decodeUnit(two, BATCH_UNIT_BYTES), {
    physicalOffset: 2 ** 30,
    size: 512,
    tagsCode: -934_813_832n,
  });
});

t.test("isBatchUnit() takes nothing else for a unit", async (t) => {
  const changes: Record<string, (unit: Buffer) => void> = {
    zeros: (unit) => unit.fill(0),
    "a negative offset": (unit) => unit.writeBigInt64BE(-1n, 0),
    "no size": (unit) => unit.writeInt32BE(0, 8),
    "a negative base": (unit) => unit.writeBigInt64BE(-1n, 28),
    "a base beyond 2^53": (unit) => unit.writeBigInt64BE(2n ** 53n, 28),
    "no message": (unit) => unit.writeInt16BE(0, 36),
    "less than none": (unit) => unit.writeInt16BE(-1, 36),
  };
  for (const [what, change] of Object.entries(changes)) {
    const unit = Buffer.from(UNIT);
    change(unit);
    t.notOk(isBatchUnit(unit, 0), what);
  }
});
