/**
 * Whether somebody has a store open, asked without touching its lock: a try to take it could keep
 * out a broker that starts at that moment.
 *
 * @module
 */

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { readFront } from "./store_directory.ts";
import { printable } from "./terminal.ts";

/** More than any file that says who holds a lock is long, in bytes. */
const HOLDER_BYTES_MAX = 4096;

export interface LockState {
  /** `unknown` where the system does not list its locks. */
  readonly state: "held" | "free" | "unknown";
  /** Who holds it, or who took it last if the state is unknown. */
  readonly holder: string | undefined;
}

export async function lockState(directory: string): Promise<LockState> {
  const found = await stat(join(directory, "lock"), { bigint: true }).catch(() => undefined);
  if (!found) return { state: "free", holder: undefined };
  const holder = await ourHolder(directory);
  const locks = await readFile("/proc/locks", "utf8").catch(() => undefined);
  if (locks === undefined) return { state: "unknown", holder };
  // 1: POSIX  ADVISORY  WRITE 1234 08:01:131090 0 0
  // 2: OFDLCK ADVISORY  WRITE -1 08:01:131090 0 0
  for (const line of locks.split("\n")) {
    const [, kind, , , pid, place] = line.trim().split(/\s+/);
    // The device is not compared: on some file systems it is another one than stat tells.
    if (place?.split(":")[2] !== String(found.ino)) continue;
    const process = Number(pid) > 0 ? `process ${pid}` : undefined;
    // A POSIX lock is a Java broker's.
    return { state: "held", holder: kind === "POSIX" ? process : (holder ?? process) };
  }
  return { state: "free", holder: undefined };
}

/** Who we are is in our own folder; a Java broker writes no such file. */
async function ourHolder(directory: string): Promise<string | undefined> {
  try {
    const bytes = await readFront(join(directory, "forcelog", "holder.json"), HOLDER_BYTES_MAX);
    if (!bytes) return undefined;
    const { pid, host, startedAt, program } = JSON.parse(bytes.toString()) as Record<
      string,
      unknown
    >;
    return printable(`process ${pid} on ${host} (${program}) since ${startedAt}`);
  } catch {
    return undefined;
  }
}
