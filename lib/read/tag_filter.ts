/**
 * A subscription to tags: `"TagA || TagB"`, or `"*"` for all. RocketMQ: `SubscriptionData`.
 *
 * A queue unit has the hash of its message's tag, which rules most others out without a look at the
 * log; since two tags may have one hash, the text decides.
 *
 * @module
 */

import { isAddress } from "../consume_queue/queue_unit.ts";
import { javaStringHash } from "../message/java_string.ts";

export class TagFilter {
  readonly #tags: ReadonlySet<string>;
  readonly #hashes: ReadonlySet<number>;

  private constructor(tags: ReadonlySet<string>) {
    this.#tags = tags;
    this.#hashes = new Set([...tags].map((tag) => javaStringHash(tag)));
  }

  /** @returns The filter, or `undefined` if everything passes: `"*"`, an empty text, or none. */
  static parse(expression: string | undefined): TagFilter | undefined {
    if (expression === undefined) return undefined;
    const tags = expression
      .split("||")
      .map((tag) => tag.trim())
      .filter((tag) => tag !== "");
    if (tags.length === 0 || (tags.length === 1 && tags[0] === "*")) return undefined;
    return new TagFilter(new Set(tags));
  }

  /**
   * Whether a unit's message may have one of the tags; one whose tags are not known may.
   *
   * @param tagsCodeHigh Upper 32 bits of the tags code, signed, and `tagsCodeLow` the lower ones.
   */
  mayPass(tagsCodeHigh: number, tagsCodeLow: number): boolean {
    return isAddress(tagsCodeHigh) || this.#hashes.has(tagsCodeLow);
  }

  passes(tags: string | undefined): boolean {
    return tags !== undefined && this.#tags.has(tags);
  }
}
