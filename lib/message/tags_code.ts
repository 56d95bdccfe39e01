/**
 * The number that a consume queue unit holds beside offset and size: hash of the tag, or for a
 * message parked for a delay level the time of its delivery.
 *
 * Both fit a `number`: the hash is an int32, the time counts milliseconds. In the unit on disk the
 * field is an i64 and may also be an address in the ext file, which only the reader of units sees.
 *
 * @module
 */

import { javaStringHash } from "./java_string.ts";

/**
 * The tags code of a message outside the schedule topic
 * (`MessageExtBrokerInner.tagsString2tagsCode`).
 *
 * @param tags Property `TAGS`, hashed as a whole.
 * @returns An int32, to be sign-extended; 0 if there is no tag.
 */
export function tagsCodeOf(tags: string | undefined): number {
  return tags === undefined ? 0 : javaStringHash(tags);
}

/** Milliseconds of the units s, m, h and d (`DelayLevel`, `parseDelayLevel`). */
const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Delay of a level that is not in the table, in milliseconds (`computeDeliverTimestamp`). */
const UNKNOWN_LEVEL_DELAY_MS = 1_000;

/** `messageDelayLevel`'s default (`MessageStoreConfig.messageDelayLevel`): 18 levels. */
export const DEFAULT_MESSAGE_DELAY_LEVEL =
  "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/** The table of delay levels. Levels count from 1. */
export class DelayLevels {
  readonly #delaysMs: readonly number[];

  private constructor(delaysMs: readonly number[]) {
    this.#delaysMs = delaysMs;
  }

  /**
   * Reads a value of `messageDelayLevel`.
   *
   * @param text Items such as `30s` or `2h`, separated by one space; the i-th is level i.
   * @throws {RangeError} If an item is not a number and a unit. (RocketMQ 5.x logs and goes on
   * with the levels before it.)
   */
  static parse(text: string = DEFAULT_MESSAGE_DELAY_LEVEL): DelayLevels {
    return new DelayLevels(
      text.split(" ").map((item, i) => {
        const parts = /^([0-9]{1,12})([smhd])$/.exec(item);
        if (parts === null) {
          throw new RangeError(
            `Cannot read delay level ${i + 1} of "${text}": ` +
              `"${item}" is not a number and s, m, h or d`,
          );
        }
        return Number(parts[1]) * UNIT_MS[parts[2]!]!;
      }),
    );
  }

  /** The highest level. A higher one asked for counts as this. */
  get maxLevel(): number {
    return this.#delaysMs.length;
  }

  /**
   * Delay of a level in milliseconds.
   *
   * @param level From 1; beyond {@linkcode maxLevel} it is lowered to that.
   */
  delayMs(level: number): number {
    return this.#delaysMs[Math.min(level, this.maxLevel) - 1] ?? UNKNOWN_LEVEL_DELAY_MS;
  }

  /**
   * When a message is due.
   *
   * @param level As in {@linkcode delayMs}.
   * @param storeTimestamp When it was stored: Unix time in milliseconds.
   * @returns Unix time in milliseconds.
   */
  deliverTime(level: number, storeTimestamp: number): number {
    return storeTimestamp + this.delayMs(level);
  }
}
