/**
 * The version of a configuration file: name servers and slaves learn from it that something changed.
 * RocketMQ: `DataVersion`.
 *
 * @module
 */

import { integerIn, objectIn } from "./config_fields.ts";
import { ConfigObject } from "./config_json.ts";

export class DataVersion {
  #counter: number | bigint = 0;
  #timestamp: number | bigint = 0;
  #object = new ConfigObject();

  /** Changes so far. */
  get counter(): number {
    return Number(this.#counter);
  }

  /** Wall time of the last change in ms, or 0. */
  get timestamp(): number {
    return Number(this.#timestamp);
  }

  /** Takes over the `dataVersion` of a file; files of RocketMQ 4.9 have none. */
  read(file: ConfigObject): void {
    const object = objectIn(file, "dataVersion");
    integerIn(object, "stateVersion", 0);
    const counter = integerIn(object, "counter", 0);
    this.#timestamp = integerIn(object, "timestamp", 0);
    this.#counter = counter;
    this.#object = object;
  }

  /** There was a change. `stateVersion` belongs to controllers and stays. */
  next(now: number): void {
    this.#counter =
      typeof this.#counter === "bigint" ? BigInt.asIntN(64, this.#counter + 1n) : this.#counter + 1;
    this.#timestamp = now;
  }

  toConfig(): ConfigObject {
    const object = new ConfigObject(this.#object);
    object.set("counter", this.#counter);
    if (!object.has("stateVersion")) object.set("stateVersion", 0);
    object.set("timestamp", this.#timestamp);
    return object;
  }
}
