/**
 * Where a benchmark ran: without it its figures say nothing.
 *
 * @module
 */

import { readFileSync, realpathSync } from "node:fs";
import { cpus, loadavg, release, totalmem, type } from "node:os";
import { loadNativeBinding } from "../../lib/io/native_binding.ts";

export interface Environment {
  readonly date: string;
  readonly processor: string;
  readonly processors: number;
  readonly memoryGiB: number;
  readonly system: string;
  /** Of the folder that the stores were made in. */
  readonly fileSystem: string;
  readonly node: string;
  readonly addon: "loaded" | "not loaded";
  /** `tsx` makes functions slower than a build does. */
  readonly code: "built" | "tsx";
  /** Processes that wanted a processor in the minute before. */
  readonly load: number;
  /** Of whom it is compared with. */
  readonly others: Readonly<Record<string, string>>;
}

/** @param others Versions of whom the store is compared with, by name. */
export function environmentOf(
  directory: string,
  others: Readonly<Record<string, string>>,
): Environment {
  return {
    date: new Date().toISOString(),
    processor: cpus()[0]?.model.trim() ?? "unknown",
    processors: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    system: `${type()} ${release()}`,
    fileSystem: fileSystemOf(realpathSync(directory)),
    node: process.version,
    addon: loadNativeBinding() === undefined ? "not loaded" : "loaded",
    code: import.meta.url.endsWith(".ts") ? "tsx" : "built",
    load: loadavg()[0]!,
    others,
  };
}

export function environmentText(environment: Environment): string {
  const { processor, processors, memoryGiB, system, fileSystem, node, addon, code } = environment;
  const others = Object.entries(environment.others);
  const textOf = (name: string, version: string): string =>
    name === "java" ? version : `${name} ${version}`;
  return [
    `${environment.date}  ${processors} × ${processor}, ${memoryGiB} GiB, ${system}`,
    fileSystem,
    `Node ${node}, addon ${addon}, code ${code}, load before ${environment.load.toFixed(1)}`,
    ...(others.length > 0
      ? [others.map(([name, version]) => textOf(name, version)).join(", ")]
      : []),
  ].join("\n");
}

/** Name and options of the file system that `directory` lies on. */
function fileSystemOf(directory: string): string {
  let found = "unknown file system";
  let longest = 0;
  let mounts: string;
  try {
    mounts = readFileSync("/proc/self/mounts", "utf8");
  } catch {
    return found;
  }
  for (const line of mounts.split("\n")) {
    const [, folder, kind, options] = line.split(" ");
    if (folder === undefined || folder.length < longest) continue;
    if (directory !== folder && !directory.startsWith(folder === "/" ? "/" : `${folder}/`))
      continue;
    longest = folder.length;
    found = `${kind} (${options})`;
  }
  return found;
}
