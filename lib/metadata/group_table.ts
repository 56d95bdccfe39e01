/**
 * Consumer groups and their settings, in `config/subscriptionGroup.json`. RocketMQ:
 * `SubscriptionGroupManager`, `SubscriptionGroupConfig`.
 *
 * @module
 */

import {
  type AttributeChanges,
  type Attributes,
  changeAttributes,
  GROUP_ATTRIBUTES,
} from "./attributes.ts";
import { ConfigEntries } from "./config_entries.ts";
import {
  booleanIn,
  byName,
  numberIn,
  objectIn,
  textIn,
  textsIn,
  textsToConfig,
} from "./config_fields.ts";
import { ConfigObject, type ConfigValue } from "./config_json.ts";
import { ConfigTable, type TableContext } from "./config_table.ts";
import { checkName } from "./resource_name.ts";
import { type Fields, settingsOf } from "./settings.ts";

/** When a message that was not consumed is delivered again; times in ms. */
export type GroupRetryPolicy =
  | { readonly type: "CUSTOMIZED"; readonly next?: readonly number[] }
  | {
      readonly type: "EXPONENTIAL";
      readonly initial?: number;
      readonly max?: number;
      readonly multiplier?: number;
    };

/** What can be said of a group, but for what is no plain value. */
interface PlainGroupSettings {
  /** `false`: its pulls are refused. @default true */
  readonly consumeEnable?: boolean;
  /** @default true */
  readonly consumeFromMinEnable?: boolean;
  /** @default true */
  readonly consumeBroadcastEnable?: boolean;
  /** @default false */
  readonly consumeMessageOrderly?: boolean;
  /** Queues of `%RETRY%group`. @default 1 */
  readonly retryQueueNums?: number;
  /** Deliveries before a message goes to `%DLQ%group`. @default 16 */
  readonly retryMaxTimes?: number;
  /** Where to pull from. @default 0 */
  readonly brokerId?: number;
  /** Where to pull from when far behind. @default 1 */
  readonly whichBrokerWhenConsumeSlowly?: number;
  /** @default true */
  readonly notifyConsumerIdsChangedEnable?: boolean;
  /** @default 0 */
  readonly groupSysFlag?: number;
  /** In minutes. @default 15 */
  readonly consumeTimeoutMinute?: number;
}

export interface GroupSettings extends PlainGroupSettings {
  /** @default { type: "CUSTOMIZED" } */
  readonly groupRetryPolicy?: GroupRetryPolicy;
  /** Changes: those that are not named stay, `null` removes one. @default none */
  readonly attributes?: AttributeChanges;
}

/** A group with its settings. */
export interface GroupConfig extends Required<Omit<GroupSettings, "attributes">> {
  readonly groupName: string;
  readonly attributes: Attributes;
}

const INT32_MAX = 2 ** 31 - 1;
const COUNT = [0, INT32_MAX] as const;
const FIELDS: Fields<PlainGroupSettings> = {
  brokerId: [0, Number.MAX_SAFE_INTEGER],
  consumeBroadcastEnable: "boolean",
  consumeEnable: "boolean",
  consumeFromMinEnable: "boolean",
  consumeMessageOrderly: "boolean",
  consumeTimeoutMinute: COUNT,
  groupSysFlag: COUNT,
  notifyConsumerIdsChangedEnable: "boolean",
  retryMaxTimes: [-1, INT32_MAX],
  retryQueueNums: COUNT,
  whichBrokerWhenConsumeSlowly: [0, Number.MAX_SAFE_INTEGER],
};
const DEFAULTS: Omit<GroupConfig, "groupName"> = {
  attributes: {},
  brokerId: 0,
  consumeBroadcastEnable: true,
  consumeEnable: true,
  consumeFromMinEnable: true,
  consumeMessageOrderly: false,
  consumeTimeoutMinute: 15,
  groupRetryPolicy: { type: "CUSTOMIZED" },
  groupSysFlag: 0,
  notifyConsumerIdsChangedEnable: true,
  retryMaxTimes: 16,
  retryQueueNums: 1,
  whichBrokerWhenConsumeSlowly: 1,
};

export class GroupTable extends ConfigTable {
  #groups = new ConfigEntries<GroupConfig>();
  /** Group, then topic, then a mask of bits: 4 forbids pulling. */
  #forbidden = new Map<string, Map<string, number>>();

  constructor(context: TableContext) {
    super(context, "subscriptionGroup.json");
  }

  get(name: string): GroupConfig | undefined {
    return this.#groups.get(name)?.config;
  }

  /** All of them, by name. */
  list(): GroupConfig[] {
    return this.#groups.list();
  }

  /**
   * Makes a group, or changes one: what is not named in `settings` stays as it is.
   *
   * @returns Resolves once the file says so: it survives a power cut then.
   * @throws {TypeError | RangeError} for a name or setting that RocketMQ would not take.
   * @throws {StoreError} `STORE_IO`: the group is as asked for in memory only, until a later write succeeds.
   */
  async update(name: string, settings: GroupSettings = {}): Promise<GroupConfig> {
    this.context.checkWritable();
    checkName("group", name);
    const before = this.#groups.get(name);
    const { attributes: changes = {}, groupRetryPolicy: policy, ...rest } = settings;
    const config: GroupConfig = {
      ...(before?.config ?? DEFAULTS),
      ...settingsOf(rest, FIELDS, `group "${name}"`),
      ...(policy === undefined ? {} : { groupRetryPolicy: checkPolicy(policy) }),
      groupName: name,
      attributes: changeAttributes(before?.config.attributes, changes, GROUP_ATTRIBUTES),
    };
    const object = new ConfigObject(before?.object);
    for (const [member, value] of Object.entries(config).sort(byName)) {
      if (member === "attributes") object.set(member, textsToConfig(config.attributes));
      else if (member !== "groupRetryPolicy") object.set(member, value as ConfigValue);
      // One of a kind that is not known here stays, unless another is asked for.
      else if (policy !== undefined || !object.has(member)) {
        object.set(member, policyToConfig(config.groupRetryPolicy));
      }
    }
    this.#groups.set(name, config, object);
    this.changed();
    await this.flush();
    return config;
  }

  /**
   * Removes a group, and what is forbidden to it. Its offsets stay: see
   * {@linkcode ConsumerOffsets.removeGroup}.
   *
   * @returns Whether there was one; resolves once the file says so.
   * @throws {StoreError} `STORE_IO`
   */
  async delete(name: string): Promise<boolean> {
    this.context.checkWritable();
    const wasThere = this.#groups.delete(name);
    if (!this.#forbidden.delete(name) && !wasThere) return false;
    this.changed();
    await this.flush();
    return wasThere;
  }

  /** What is forbidden to a group with a topic: a mask of bits, of which 4 is pulling; 0 for nothing. */
  forbidden(group: string, topic: string): number {
    return this.#forbidden.get(group)?.get(topic) ?? 0;
  }

  /**
   * Sets what is forbidden to a group with one topic; other topics stay as they are.
   *
   * @param mask 0 to 2^31 - 1; 0 allows everything.
   * @returns Resolves once the file says so.
   * @throws {RangeError} for a mask out of its range. @throws {StoreError} `STORE_IO`
   */
  async setForbidden(group: string, topic: string, mask: number): Promise<void> {
    this.context.checkWritable();
    checkName("group", group);
    checkName("topic", topic);
    if (!Number.isInteger(mask) || mask < 0 || mask > INT32_MAX) {
      throw new RangeError(`Cannot forbid ${mask}: expected a mask of 0 to ${INT32_MAX}`);
    }
    if (mask === this.forbidden(group, topic)) return;
    const topics = this.#forbidden.get(group) ?? new Map<string, number>();
    if (mask === 0) topics.delete(topic);
    else topics.set(topic, mask);
    if (topics.size === 0) this.#forbidden.delete(group);
    else this.#forbidden.set(group, topics);
    this.changed();
    await this.flush();
  }

  protected override read(root: ConfigObject): void {
    const groups = ConfigEntries.read(root, "subscriptionGroupTable", groupIn);
    const masks = objectIn(root, "forbiddenTable");
    const forbidden = new Map<string, Map<string, number>>();
    for (const group of masks.keys()) {
      const topics = objectIn(masks, group);
      forbidden.set(group, new Map([...topics.keys()].map((t) => [t, numberIn(topics, t, 0)])));
    }
    this.#groups = groups;
    this.#forbidden = forbidden;
  }

  protected override members(): [string, ConfigValue][] {
    const masks = [...this.#forbidden].map(
      ([group, topics]) => [group, new ConfigObject([...topics].sort(byName))] as const,
    );
    return [
      ["forbiddenTable", new ConfigObject(masks.sort(byName))],
      ["subscriptionGroupTable", this.#groups.toConfig()],
    ];
  }
}

function groupIn(groupName: string, object: ConfigObject): GroupConfig {
  const number = (name: keyof PlainGroupSettings): number =>
    numberIn(object, name, DEFAULTS[name] as number);
  const boolean = (name: keyof PlainGroupSettings): boolean =>
    booleanIn(object, name, DEFAULTS[name] as boolean);
  return {
    groupName,
    attributes: textsIn(object, "attributes"),
    brokerId: number("brokerId"),
    consumeBroadcastEnable: boolean("consumeBroadcastEnable"),
    consumeEnable: boolean("consumeEnable"),
    consumeFromMinEnable: boolean("consumeFromMinEnable"),
    consumeMessageOrderly: boolean("consumeMessageOrderly"),
    consumeTimeoutMinute: number("consumeTimeoutMinute"),
    groupRetryPolicy: policyIn(objectIn(object, "groupRetryPolicy")),
    groupSysFlag: number("groupSysFlag"),
    notifyConsumerIdsChangedEnable: boolean("notifyConsumerIdsChangedEnable"),
    retryMaxTimes: number("retryMaxTimes"),
    retryQueueNums: number("retryQueueNums"),
    whichBrokerWhenConsumeSlowly: number("whichBrokerWhenConsumeSlowly"),
  };
}

const EXPONENTIAL = ["initial", "max", "multiplier"] as const;

function policyIn(object: ConfigObject): GroupRetryPolicy {
  if (textIn(object, "type", "CUSTOMIZED") === "EXPONENTIAL") {
    const policy = objectIn(object, "exponentialRetryPolicy");
    const given = EXPONENTIAL.filter((name) => policy.has(name));
    return {
      type: "EXPONENTIAL",
      ...Object.fromEntries(given.map((name) => [name, numberIn(policy, name, 0)])),
    };
  }
  const next = objectIn(object, "customizedRetryPolicy").get("next");
  const isList = Array.isArray(next) && next.every((ms) => typeof ms === "number");
  return isList ? { type: "CUSTOMIZED", next: next as number[] } : { type: "CUSTOMIZED" };
}

function policyToConfig(policy: GroupRetryPolicy): ConfigObject {
  const { type, ...rest } = policy;
  const parts: [string, ConfigValue][] = [["type", type]];
  if (policy.type === "EXPONENTIAL") {
    const given = Object.entries(rest).filter(([, value]) => value !== undefined);
    const members = given.sort(byName) as [string, ConfigValue][];
    if (members.length > 0) parts.push(["exponentialRetryPolicy", new ConfigObject(members)]);
  } else if (policy.next) {
    parts.push(["customizedRetryPolicy", new ConfigObject([["next", [...policy.next]]])]);
  }
  return new ConfigObject(parts.sort(byName));
}

function checkPolicy(policy: GroupRetryPolicy): GroupRetryPolicy {
  const what = "the retry policy";
  if (policy.type === "EXPONENTIAL") {
    const { type, ...times } = policy;
    const range = [0, Number.MAX_SAFE_INTEGER] as const;
    return { type, ...settingsOf(times, { initial: range, max: range, multiplier: range }, what) };
  }
  const { type, next, ...others } = policy;
  settingsOf(others, {}, what);
  if (type !== "CUSTOMIZED") throw new RangeError(`Cannot use a retry policy of type "${type}"`);
  if (next === undefined) return { type };
  if (!Array.isArray(next) || !next.every((ms) => Number.isSafeInteger(ms) && ms >= 0)) {
    throw new RangeError("Cannot use a retry policy: next is no list of times in ms");
  }
  return { type, next: [...next] };
}
