/**
 * Attributes of topics and groups: names with values, of which RocketMQ knows a few.
 * RocketMQ: `TopicAttributes`, `AttributeUtil`.
 *
 * @module
 */

export type Attributes = Readonly<Record<string, string>>;
/** Attributes to set, and with `null` those to remove. */
export type AttributeChanges = Readonly<Record<string, string | null>>;

export interface AttributeRule {
  /** Whether it is a value. */
  readonly allows: (value: string) => boolean;
  /** What is, for the message of an error. */
  readonly wanted: string;
  /** It can only be given to something new. */
  readonly fixed?: true;
}

export type AttributeRules = (name: string) => AttributeRule | undefined;

const ANY: AttributeRule = { allows: () => true, wanted: "any text" };

function oneOf(...values: readonly string[]): AttributeRule {
  return { allows: (value) => values.includes(value), wanted: `one of ${values.join(", ")}` };
}

function integerFrom(least: bigint): AttributeRule {
  return {
    allows: (value) => /^[+-]?\d{1,19}$/.test(value) && BigInt(value.replace("+", "")) >= least,
    wanted: `a whole number from ${least} on`,
  };
}

const OF_TOPICS: Readonly<Record<string, AttributeRule>> = {
  "queue.type": { ...oneOf("SimpleCQ", "BatchCQ"), fixed: true },
  "cleanup.policy": { ...oneOf("DELETE", "COMPACTION"), fixed: true },
  "message.type": oneOf(
    ...["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE"],
  ),
  "reserve.time": integerFrom(-1n),
  "lite.topic.expiration": integerFrom(-1n),
};

/** What may be changed at topics. `queue.type` and `cleanup.policy` stay what they were made with. */
export const TOPIC_ATTRIBUTES: AttributeRules = (name) =>
  Object.hasOwn(OF_TOPICS, name) ? OF_TOPICS[name] : undefined;

/** What may be changed at groups. */
export const GROUP_ATTRIBUTES: AttributeRules = (name) =>
  name === "priority.factor" || name === "lite.bind.topic" || name.startsWith("lite.sub.")
    ? ANY
    : undefined;

/**
 * @param before Undefined for something new.
 * @throws {TypeError | RangeError} for a name that is not known, or a value that is none of its values.
 */
export function changeAttributes(
  before: Attributes | undefined,
  changes: AttributeChanges,
  rules: AttributeRules,
): Attributes {
  const attributes = new Map(Object.entries(before ?? {}));
  for (const [name, value] of Object.entries(changes)) {
    const rule = rules(name);
    const cannot = `Cannot change attribute "${name}"`;
    if (!rule) throw new RangeError(`${cannot}: there is no such attribute`);
    if (value !== null && typeof value !== "string") {
      throw new TypeError(`${cannot}: expected a text, or null to remove it`);
    }
    if (value !== null && !rule.allows(value)) {
      throw new RangeError(`${cannot} to "${value}": expected ${rule.wanted}`);
    }
    if ((attributes.get(name) ?? null) === value) continue;
    if (rule.fixed && before) throw new RangeError(`${cannot}: it is given once and for all`);
    if (value === null) attributes.delete(name);
    else attributes.set(name, value);
  }
  return Object.fromEntries(attributes);
}
