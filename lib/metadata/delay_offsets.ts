/**
 * How far each delay level has been delivered, in `config/delayOffset.json`. RocketMQ: part of
 * `ScheduleMessageService`.
 *
 * A file that cannot be read is no reason not to open: what is there is delivered from its beginning.
 *
 * @module
 */

import type { QueueOffset } from "../units.ts";
import { numberIn, objectIn, wrong } from "./config_fields.ts";
import { ConfigObject, type ConfigValue } from "./config_json.ts";
import { ConfigTable, type TableContext } from "./config_table.ts";

/** Changes after which the version grows (`delayOffsetUpdateVersionStep`). */
const CHANGES_PER_VERSION = 200;

export class DelayOffsets extends ConfigTable {
  #offsets = new Map<number, QueueOffset>();
  #count = 0;

  constructor(context: TableContext) {
    super(context, "delayOffset.json", "start empty");
  }

  /** Offset of the next message in queue `level - 1` of the schedule topic; `undefined` if it never moved. */
  get(level: number): QueueOffset | undefined {
    return this.#offsets.get(level);
  }

  /** Levels that ever moved, in order. */
  list(): { readonly level: number; readonly offset: QueueOffset }[] {
    return [...this.#offsets]
      .sort(([a], [b]) => a - b)
      .map(([level, offset]) => ({ level, offset }));
  }

  /**
   * Notes how far a level has come, in memory: {@linkcode DelayOffsets.flush} writes it.
   *
   * @param level From 1 on. @param offset From 0 on.
   * @throws {RangeError} for numbers out of range.
   */
  set(level: number, offset: QueueOffset): void {
    this.context.checkWritable();
    if (!Number.isInteger(level) || level < 1 || level > 2 ** 31 - 1) {
      throw new RangeError(`Cannot use delay level ${level}: they count from 1`);
    }
    if (!Number.isSafeInteger(offset) || offset < 0) {
      throw new RangeError(`Cannot use offset ${offset} of delay level ${level}`);
    }
    if (this.#offsets.get(level) === offset) return;
    this.#offsets.set(level, offset);
    this.#count++;
    this.changed(this.#count % CHANGES_PER_VERSION === 0);
  }

  /** Moves what lies outside its queue to its nearest end. @returns The levels that were moved. */
  clamp(
    bounds: (level: number) => { readonly min: QueueOffset; readonly max: QueueOffset },
  ): number[] {
    const moved: number[] = [];
    for (const [level, offset] of this.#offsets) {
      const { min, max } = bounds(level);
      const right = Math.max(min, Math.min(max, offset));
      if (right === offset) continue;
      this.set(level, right);
      moved.push(level);
    }
    return moved;
  }

  protected override read(root: ConfigObject): void {
    const table = objectIn(root, "offsetTable");
    const offsets = new Map<number, QueueOffset>();
    for (const level of table.keys()) {
      if (!/^-?\d{1,10}$/.test(level)) throw wrong(root, "offsetTable", "a map by level");
      offsets.set(Number(level), numberIn(table, level, 0));
    }
    this.#offsets = offsets;
  }

  protected override members(): [string, ConfigValue][] {
    const table = this.list().map(({ level, offset }) => [String(level), offset] as const);
    return [["offsetTable", new ConfigObject(table)]];
  }
}
