/**
 * One directory of a simulated disk.
 *
 * @module
 */

import type { Names } from "./name_log.ts";

/** The names that are to be seen, and those that are durable whatever happens. */
export class SimulatedDirectory {
  readonly kind = "directory";
  readonly inode: number;
  /** Who may change it in place; others make a copy first. Nobody if undefined. */
  readonly owner: object | undefined;
  readonly names: Names;
  readonly durable: Names;
  mtimeMs = 0;

  constructor(
    inode: number,
    owner: object | undefined,
    names: Names = new Map(),
    durable: Names = new Map(),
  ) {
    this.inode = inode;
    this.owner = owner;
    this.names = names;
    this.durable = durable;
  }

  copy(owner: object): SimulatedDirectory {
    const copy = new SimulatedDirectory(
      this.inode,
      owner,
      new Map(this.names),
      new Map(this.durable),
    );
    copy.mtimeMs = this.mtimeMs;
    return copy;
  }

  /** The directory as it is found after a power cut that has left these names. */
  survive(names: Names): SimulatedDirectory {
    const survivor = new SimulatedDirectory(this.inode, undefined, names, names);
    survivor.mtimeMs = this.mtimeMs;
    return survivor;
  }
}
