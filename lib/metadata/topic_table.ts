/**
 * Topics and their settings, in `config/topics.json`. RocketMQ: `TopicConfigManager`, `TopicConfig`.
 *
 * The store itself looks at no other than `queue.type`: it takes messages of any topic and queue. They are for those
 * who send and receive, and for a broker that takes the store over.
 *
 * @module
 */

import {
  type AttributeChanges,
  type Attributes,
  changeAttributes,
  TOPIC_ATTRIBUTES,
} from "./attributes.ts";
import { ConfigEntries } from "./config_entries.ts";
import { booleanIn, byName, numberIn, textIn, textsIn, textsToConfig } from "./config_fields.ts";
import { ConfigObject, type ConfigValue } from "./config_json.ts";
import { ConfigTable, type TableContext } from "./config_table.ts";
import {
  checkName,
  DEFAULT_TOPIC,
  isGroupTopic,
  isSystemTopic,
  SYSTEM_TOPICS,
} from "./resource_name.ts";
import { type Fields, settingsOf } from "./settings.ts";

/** Bits of {@linkcode TopicConfig.perm} (`PermName`). */
export const TOPIC_PERMISSIONS = { inherit: 1, write: 2, read: 4 } as const;

/** What can be said of a topic. */
export interface TopicSettings {
  /** Queues that consumers read, 0 to 2^31 - 1. @default 16 */
  readonly readQueueNums?: number;
  /** Queues that producers write, 0 to 2^31 - 1. @default 16 */
  readonly writeQueueNums?: number;
  /** Sum of {@linkcode TOPIC_PERMISSIONS}. @default 6: read and write */
  readonly perm?: number;
  /** @default "SINGLE_TAG" */
  readonly topicFilterType?: "SINGLE_TAG" | "MULTI_TAG";
  /** 1: unit, 2: unit subscription. @default 0 */
  readonly topicSysFlag?: number;
  /** Messages are to be consumed in order. @default false */
  readonly order?: boolean;
  /**
   * Changes: those that are not named stay, `null` removes one. `queue.type` and `cleanup.policy` can only be
   * given to a new topic. @default none
   */
  readonly attributes?: AttributeChanges;
}

/** A topic with its settings. */
export interface TopicConfig extends Required<Omit<TopicSettings, "attributes">> {
  readonly topicName: string;
  readonly attributes: Attributes;
}

const INT32_MAX = 2 ** 31 - 1;
const FIELDS: Fields<Omit<TopicSettings, "attributes">> = {
  order: "boolean",
  perm: [0, 7],
  readQueueNums: [0, INT32_MAX],
  topicFilterType: ["SINGLE_TAG", "MULTI_TAG"],
  topicSysFlag: [0, 3],
  writeQueueNums: [0, INT32_MAX],
};
const DEFAULTS: Omit<TopicConfig, "topicName"> = {
  attributes: {},
  order: false,
  perm: TOPIC_PERMISSIONS.read | TOPIC_PERMISSIONS.write,
  readQueueNums: 16,
  topicFilterType: "SINGLE_TAG",
  topicSysFlag: 0,
  writeQueueNums: 16,
};
/** Queues that a producer asks for (`defaultTopicQueueNums` of its client). */
const CLIENT_QUEUES = 4;

export interface TopicTableContext extends TableContext {
  /** Of what type the queues are that a topic has; `undefined` if it has none. */
  readonly queueTypeOf?: (topic: string) => QueueType | undefined;
}

/** Values of the attribute `queue.type`: a unit for each message, or for each record. */
export type QueueType = "SimpleCQ" | "BatchCQ";

const QUEUE_TYPE = "queue.type";

/** What the queues of a topic are, by its attributes. RocketMQ: `QueueTypeUtils.getCQType`. */
export function queueTypeIn(attributes: Attributes): QueueType {
  return attributes[QUEUE_TYPE] === "BatchCQ" ? "BatchCQ" : "SimpleCQ";
}

export class TopicTable extends ConfigTable {
  #topics = new ConfigEntries<TopicConfig>();
  readonly #queueTypeOf: (topic: string) => QueueType | undefined;

  constructor(context: TopicTableContext) {
    super(context, "topics.json");
    this.#queueTypeOf = context.queueTypeOf ?? (() => undefined);
  }

  get(name: string): TopicConfig | undefined {
    return this.#topics.get(name)?.config;
  }

  /** Of what type its queues are to be; `undefined` without settings. */
  queueTypeOf(name: string): QueueType | undefined {
    const config = this.get(name);
    return config && queueTypeIn(config.attributes);
  }

  /** All of them, by name. */
  list(): TopicConfig[] {
    return this.#topics.list();
  }

  /**
   * Makes a topic, or changes one: what is not named in `settings` stays as it is.
   *
   * @returns Resolves once the file says so: it survives a power cut then.
   * @throws {TypeError | RangeError} for a name or setting that RocketMQ would not take, and for its own topics.
   * @throws {StoreError} `STORE_IO`: the topic is as asked for in memory only, until a later write succeeds.
   */
  async update(name: string, settings: TopicSettings = {}): Promise<TopicConfig> {
    this.context.checkWritable();
    checkUsersTopic(name);
    const before = this.#topics.get(name);
    const { attributes: changes = {}, ...rest } = settings;
    const config: TopicConfig = {
      ...(before?.config ?? DEFAULTS),
      ...settingsOf(rest, FIELDS, `topic "${name}"`),
      topicName: name,
      attributes: before
        ? changeAttributes(before.config.attributes, changes, TOPIC_ATTRIBUTES)
        : this.#attributesFor(name, changes),
    };
    this.#set(config, before?.object);
    await this.flush();
    return config;
  }

  /**
   * The topic; if there is none, it is made as a broker makes one for the first message: a group's own with
   * one queue, RocketMQ's own with theirs, and others after the topic `TBW102` (8 queues, unless the file says
   * otherwise), with at most `queues` of its queues.
   *
   * @returns Resolves once the file says so.
   * @throws {RangeError} if it cannot be a topic, or if `TBW102` says that nothing inherits from it.
   * @throws {StoreError} `STORE_IO`, as {@linkcode TopicTable.update}.
   */
  async ensure(name: string, { queues = CLIENT_QUEUES } = {}): Promise<TopicConfig> {
    const there = this.get(name);
    if (there) return there;
    this.context.checkWritable();
    checkName("topic", name);
    const attributes = this.#attributesFor(name, {});
    const config = { ...this.#defaultsFor(name, queues), attributes, topicName: name };
    this.#set(config, undefined);
    await this.flush();
    return config;
  }

  /**
   * Removes a topic from the file. Its messages and queues stay, and so do consumer offsets: see
   * {@linkcode ConsumerOffsets.removeTopic}.
   *
   * @returns Whether there was one; resolves once the file says so.
   * @throws {RangeError} for RocketMQ's own topics. @throws {StoreError} `STORE_IO`
   */
  async delete(name: string): Promise<boolean> {
    this.context.checkWritable();
    checkUsersTopic(name);
    if (!this.#topics.delete(name)) return false;
    this.changed();
    await this.flush();
    return true;
  }

  /** Of a new topic, which may have queues all the same: they stay what they are. */
  #attributesFor(name: string, changes: AttributeChanges): Attributes {
    const attributes = changeAttributes(undefined, changes, TOPIC_ATTRIBUTES);
    const there = this.#queueTypeOf(name);
    if (there === undefined || there === queueTypeIn(attributes)) return attributes;
    if (attributes[QUEUE_TYPE] === undefined) return { ...attributes, [QUEUE_TYPE]: there };
    throw new RangeError(
      `Cannot make topic "${name}" with ${QUEUE_TYPE} "${attributes[QUEUE_TYPE]}": its queues are there, and are ${there}`,
    );
  }

  #defaultsFor(name: string, queues: number): Omit<TopicConfig, "topicName"> {
    const own = isGroupTopic(name) ? 1 : SYSTEM_TOPICS.get(name);
    if (own !== undefined) {
      const perm =
        name === DEFAULT_TOPIC ? DEFAULTS.perm | TOPIC_PERMISSIONS.inherit : DEFAULTS.perm;
      return { ...DEFAULTS, perm, readQueueNums: own, writeQueueNums: own };
    }
    const { perm, topicFilterType, writeQueueNums } = this.get(DEFAULT_TOPIC) ?? {
      ...DEFAULTS,
      ...this.#defaultsFor(DEFAULT_TOPIC, queues),
    };
    if ((perm & TOPIC_PERMISSIONS.inherit) === 0) {
      throw new RangeError(`Cannot make topic "${name}": nothing inherits from ${DEFAULT_TOPIC}`);
    }
    if (!Number.isSafeInteger(queues)) throw new RangeError(`Cannot use ${queues} queues`);
    const count = Math.max(0, Math.min(queues, writeQueueNums));
    return {
      ...DEFAULTS,
      perm: perm & ~TOPIC_PERMISSIONS.inherit,
      topicFilterType,
      readQueueNums: count,
      writeQueueNums: count,
    };
  }

  #set(config: TopicConfig, before: ConfigObject | undefined): void {
    const object = new ConfigObject(before);
    for (const [name, value] of Object.entries(config).sort(byName)) {
      object.set(name, name === "attributes" ? textsToConfig(config.attributes) : value);
    }
    this.#topics.set(config.topicName, config, object);
    this.changed();
  }

  protected override read(root: ConfigObject): void {
    this.#topics = ConfigEntries.read(root, "topicConfigTable", topicIn);
  }

  protected override members(): [string, ConfigValue][] {
    return [["topicConfigTable", this.#topics.toConfig()]];
  }
}

function topicIn(topicName: string, object: ConfigObject): TopicConfig {
  return {
    topicName,
    attributes: textsIn(object, "attributes"),
    order: booleanIn(object, "order", DEFAULTS.order),
    perm: numberIn(object, "perm", DEFAULTS.perm),
    readQueueNums: numberIn(object, "readQueueNums", DEFAULTS.readQueueNums),
    topicFilterType:
      textIn(object, "topicFilterType", "") === "MULTI_TAG" ? "MULTI_TAG" : "SINGLE_TAG",
    topicSysFlag: numberIn(object, "topicSysFlag", DEFAULTS.topicSysFlag),
    writeQueueNums: numberIn(object, "writeQueueNums", DEFAULTS.writeQueueNums),
  };
}

function checkUsersTopic(name: string): void {
  checkName("topic", name);
  if (isSystemTopic(name)) {
    throw new RangeError(`Cannot change topic "${name}": it is one of RocketMQ's own`);
  }
}
