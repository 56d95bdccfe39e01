/**
 * Errors of system calls, in the shape that Node gives them, for what Node does not call itself.
 *
 * @module
 */

import { constants } from "node:os";
import { getSystemErrorMap } from "node:util";

/** A failed system call. `errno` is negative, as Node's is. */
export interface SystemError extends Error {
  readonly code: string;
  readonly errno: number;
  readonly syscall: string;
  readonly path?: string;
}

/**
 * Makes the error that Node would: `ENOSPC: no space left on device, pwritev '/data/0'`.
 *
 * @param code Name of the error, `"ENOSPC"`. It need not exist on this system.
 * @param detail Said in place of the system's text for that code.
 */
export function systemError(
  code: string,
  syscall: string,
  path?: string,
  detail?: string,
): SystemError {
  const errno = -(constants.errno[code as keyof typeof constants.errno] ?? 0);
  const text = detail ?? getSystemErrorMap().get(errno)?.[1] ?? "unknown error";
  const where = path === undefined ? "" : ` '${path}'`;
  const error = new Error(`${code}: ${text}, ${syscall}${where}`);
  return Object.assign(error, path === undefined ? {} : { path }, { code, errno, syscall });
}

/** Whether `error` is a failed system call with one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): error is SystemError {
  return error instanceof Error && "code" in error && codes.includes(error.code as string);
}
