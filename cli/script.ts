/**
 * Scripts of puts and reads: what `forcelog run` takes. What is not served is refused by name,
 * before anything is done.
 *
 * @module
 */

import { type Fields, isFields } from "./arguments.ts";

export interface Script {
  /** The whole object: its `config` is read elsewhere. */
  readonly fields: Fields;
  readonly steps: readonly Fields[];
  readonly reads: readonly Fields[];
  readonly end: "shutdown" | "halt";
}

const OPS = [
  "put",
  "putBatch",
  "sleep",
  "flush",
  "waitDispatched",
  "clean",
  "checkpoint",
  "deleteFile",
  "restart",
];
const OPS_NOT_SERVED = ["commit", "op"];
const READS = [
  "getMessage",
  "queryMessage",
  "lookMessageByOffset",
  "offsetByTime",
  "queue",
  "unit",
  "store",
  "arrivals",
];
/** Fields of a put that ask for what is not served. */
const FIELDS_NOT_SERVED = ["tran", "delayLevel"];

/** Topics of the script whose queues are to be batch queues. */
export function batchTopicsIn({ fields }: Script): string[] {
  return Object.entries(fieldsIn(fields, "topics"))
    .filter(([, attributes]) => isFields(attributes) && attributes["queue.type"] === "BatchCQ")
    .map(([topic]) => topic);
}

/** @throws naming the step and what is wrong with it. */
export function parseScript(fields: Fields): Script {
  checkTopics(fields.topics);
  const steps = listOf(fields.steps, '"steps"');
  const reads = listOf(fields.reads, '"reads"');
  steps.forEach((step, i) => {
    checkStep(step, `step ${i + 1}`);
  });
  reads.forEach((read, i) => {
    if ("read" in read) checkRead(read, `read ${i + 1}`);
    else checkStep(read, `read ${i + 1}`);
  });
  const { end = "shutdown" } = fields;
  if (end !== "shutdown" && end !== "halt") {
    throw new Error(`Cannot end the script with ${show(end)}: expected "shutdown" or "halt"`);
  }
  return { fields, steps, reads, end };
}

function listOf(value: unknown, name: string): readonly Fields[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every(isFields)) return value;
  throw new Error(`Cannot use ${name} of the script: expected a list of objects`);
}

function checkTopics(topics: unknown): void {
  if (topics === undefined) return;
  if (!isFields(topics)) throw new Error('Cannot use "topics" of the script: expected an object');
  for (const [topic, attributes] of Object.entries(topics)) {
    if (!isFields(attributes)) {
      throw new Error(`Cannot use topic "${topic}" of the script: expected an object`);
    }
  }
}

function checkStep(step: Fields, where: string): void {
  const { op = "put" } = step;
  checkName("op", op, OPS, OPS_NOT_SERVED, where);
  if (op !== "put" && op !== "putBatch") return;
  const members = op === "putBatch" ? listOf(step.messages, `"messages" of ${where}`) : [];
  for (const fields of [step, ...members]) {
    const name = FIELDS_NOT_SERVED.find((field) => field in fields);
    if (name !== undefined) throw notServed(`"${name}"`, where);
  }
  if (step.innerBatch === true && step.uniqKey === undefined) {
    throw new Error(
      `Cannot use "innerBatch" in ${where} without "uniqKey": a batch is one by that`,
    );
  }
}

function checkRead({ read }: Fields, where: string): void {
  checkName("read", read, READS, [], where);
}

function checkName(
  field: string,
  name: unknown,
  served: readonly string[],
  notServedYet: readonly string[],
  where: string,
): void {
  if (served.includes(name as string)) return;
  if (notServedYet.includes(name as string)) throw notServed(`"${field}" ${show(name)}`, where);
  throw new Error(
    `Cannot use "${field}" ${show(name)} in ${where}: expected one of ${served.join(", ")}`,
  );
}

function notServed(what: string, where: string): Error {
  return new Error(`Cannot run the script: ${what} is not served yet (${where})`);
}

function show(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  return JSON.stringify(value) ?? "nothing";
}

// Reading of single fields. A value of another type is refused, never guessed.

/** A whole number; one that no double holds exactly is refused. */
export function numberIn(fields: Fields, name: string, otherwise: number): number {
  const value = fields[name] ?? otherwise;
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw new TypeError(
    `Cannot use "${name}": ${show(value)}: expected a whole number within ±(2^53 - 1)`,
  );
}

/** Text; a number or truth value counts as its text. */
export function textIn(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  return value === undefined || value === null ? undefined : textOf(value, name);
}

export function textOf(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  if (typeof value === "boolean" || typeof value === "bigint" || value === null) {
    return String(value);
  }
  if (typeof value === "number") return String(value);
  throw new TypeError(`Cannot use "${name}": ${show(value)}: expected a string`);
}

export function flagIn(fields: Fields, name: string): boolean {
  const value = fields[name] ?? false;
  if (typeof value === "boolean") return value;
  throw new TypeError(`Cannot use "${name}": ${show(value)}: expected true or false`);
}

export function fieldsIn(fields: Fields, name: string): Fields {
  const value = fields[name] ?? {};
  if (isFields(value)) return value;
  throw new TypeError(`Cannot use "${name}": ${show(value)}: expected an object`);
}

export function listIn(fields: Fields, name: string): readonly Fields[] {
  return listOf(fields[name], `"${name}"`);
}
