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
  readonly dest?: string;
}

/** Texts of errors that Node has none for, or that of a socket's error. */
const TEXTS: Readonly<Record<string, string>> = {
  EDQUOT: "disk quota exceeded",
  ENOLCK: "no locks available",
  EOPNOTSUPP: "operation not supported",
  ESTALE: "stale file handle",
};

/** Node's own texts: it makes a new table at each call. */
let texts: ReturnType<typeof getSystemErrorMap> | undefined;

function nodesTexts(): ReturnType<typeof getSystemErrorMap> {
  texts ??= getSystemErrorMap();
  return texts;
}

/**
 * Makes the error that Node would: `ENOSPC: no space left on device, pwritev '/data/0'`.
 *
 * @param code Name of the error, `"ENOSPC"`.
 * @param detail Said in place of the system's text for that code.
 * @param dest The second path of a call that has two.
 */
export function systemError(
  code: string,
  syscall: string,
  path?: string,
  detail?: string,
  dest?: string,
): SystemError {
  const errno = errnoOf(code) ?? 0;
  const text = detail ?? TEXTS[code] ?? nodesTexts().get(errno)?.[1] ?? "unknown error";
  const where = path === undefined ? "" : ` '${path}'`;
  const whereTo = dest === undefined ? "" : ` -> '${dest}'`;
  const error = new Error(`${code}: ${text}, ${syscall}${where}${whereTo}`);
  const paths = {
    ...(path === undefined ? {} : { path }),
    ...(dest === undefined ? {} : { dest }),
  };
  return Object.assign(error, paths, { code, errno, syscall });
}

/**
 * Whether `error` is a failed system call with one of these codes. Two names of one number are the
 * same, and an error that Node has no name for (`EDQUOT`) is known by its number.
 */
export function hasCode(error: unknown, ...codes: readonly string[]): error is SystemError {
  if (!(error instanceof Error && "code" in error)) return false;
  const errno = "errno" in error ? error.errno : undefined;
  return codes.some(
    (code) => code === error.code || (errno !== undefined && errno === errnoOf(code)),
  );
}

/** The name of a negative number, as {@linkcode systemError} wants it. */
export function errorName(errno: number): string {
  const found = Object.entries(constants.errno).find(([, number]) => number === -errno);
  return nodesTexts().get(errno)?.[0] ?? found?.[0] ?? `errno ${-errno}`;
}

/** Negative, as Node has it; undefined if this system has no such error. */
function errnoOf(code: string): number | undefined {
  const errno = constants.errno[code as keyof typeof constants.errno];
  return errno === undefined ? undefined : -errno;
}
