// Damage in the middle of the log, of every length and at every kind of place: what it touched is
// lost, and nothing else.

import t from "tap";
import { judge, STOPS, someMessages, trial } from "../support/damage_trial.ts";
import { baseOf } from "../support/damaged_store.ts";

const options = { mappedFileSizeCommitLog: 2048 };
const plain = await baseOf(options, (store) => someMessages(store, 36));
// Where damage may begin in properties, only a CRC over all of the record tells.
const crc = { enabledAppendPropCRC: true, forceVerifyPropCRC: true };
const withCrc = await baseOf({ ...options, ...crc }, (store) => someMessages(store, 36));
const middle = plain.records[5]!;

/** Where damage of so many bytes begins. */
const PLACES = {
  "from the first byte of the log": [plain, () => 0],
  "from the first byte of a record": [plain, () => middle.offset],
  "from inside a body": [plain, () => middle.offset + 90],
  "from the first byte of a file": [plain, () => 2048],
  "up to the last byte of a file": [withCrc, (length: number) => 2048 - length],
  "over the border of two files": [withCrc, (length: number) => 2048 - Math.ceil(length / 2)],
} as const;

for (const [place, [base, start]] of Object.entries(PLACES)) {
  t.test(`recover() keeps what is around 1 to 400 damaged bytes ${place}`, async (t) => {
    for (const [stop, options] of STOPS) {
      const wrong: string[] = [];
      for (let length = 1; length <= 400; length += stop === "killed" ? 1 : 9) {
        const from = start(length);
        const again = length % 23 === 1;
        const found = await trial(base, [{ from, to: from + length }], { stop, options, again });
        wrong.push(...found.map((problem) => `${length} bytes: ${problem}`));
      }
      judge(t, stop, wrong);
    }
  });
}
