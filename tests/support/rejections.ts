/**
 * What a promise rejects with.
 *
 * @module
 */

import { PutError } from "../../lib/mod.ts";

/** The error; resolving is a failure. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`it resolved with ${String(value)}`);
}

/** The status of the put that was refused. */
export async function putStatus(promise: Promise<unknown>): Promise<string> {
  const error = await rejection(promise);
  if (error instanceof PutError) return error.status;
  throw error;
}
