/**
 * Operations on directories that are done and not yet durable, in the order in which they were done.
 *
 * An operation sets a name, removes one, or (a rename) does both. Each of these becomes durable by
 * the sync of its directory. Until then it survives a power cut or not, by these rules:
 *
 * - A rename within a directory is one; so is one of a directory, wherever it goes.
 * - Of any other rename the old name goes only where the new one has come: both may be there, but
 *   never neither. What moved out of a directory that is gone has moved.
 * - As a journal does it ("prefix"), all survive up to some moment, which is not before the last one
 *   that was made durable.
 *
 * @module
 */

import type { Survival } from "./power_cut.ts";
import type { Random } from "./random.ts";

/** One name that was set or removed. Never changes: a sync makes another. */
interface Half {
  readonly directory: number;
  readonly name: string;
  /** What the name leads to, or led to before. */
  readonly inode: number;
  /** `"lost"`: a sync failed, and no later one makes it durable. */
  readonly state: "pending" | "lost" | "durable";
}

/** An operation as the directory tree reports it. */
export interface NameChange {
  /** Ascending. */
  readonly number: number;
  readonly set?: Omit<Half, "state">;
  readonly removed?: Omit<Half, "state">;
  /** Whether a directory is named so. */
  readonly isDirectory: boolean;
  /** The empty directory that a renamed one has replaced. */
  readonly replacedDirectory?: number;
}

interface Entry extends NameChange {
  readonly set?: Half;
  readonly removed?: Half;
}

/** Names of a directory, and what they lead to. */
export type Names = Map<string, number>;

export class NameLog {
  /** Is replaced, never changed: copies share it. */
  #entries: readonly Entry[] = [];
  /** Number of the last change of which a part was made durable. */
  #lastDurable = 0;

  copy(): NameLog {
    const copy = new NameLog();
    copy.#entries = this.#entries;
    copy.#lastDurable = this.#lastDurable;
    return copy;
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  note({ set, removed, ...change }: NameChange): void {
    const entry: Entry = {
      ...change,
      ...(set && { set: { ...set, state: "pending" } }),
      ...(removed && { removed: { ...removed, state: "pending" } }),
    };
    this.#entries = [...this.#entries, entry];
  }

  /** Whether a name that may survive leads to it. */
  leadsTo(inode: number): boolean {
    return this.#entries.some(({ set }) => set?.inode === inode);
  }

  /** Makes the changes of a directory up to the number `upTo` durable, in its durable `names`. */
  sync(directory: number, upTo: number, names: Names): void {
    this.#carryOut(directory, upTo, names);
    const superseded = new Set<string>();
    const gone = new Set<number>();
    const kept: Entry[] = [];
    for (const entry of this.#entries.toReversed()) {
      let next = changed(entry, (half) => {
        if (half.directory !== directory || half.state === "durable") return half;
        // A later change of this name is durable: this one has no say any more.
        if (superseded.has(half.name)) return { ...half, state: "durable" };
        if (half.state === "lost" || entry.number > upTo) return half;
        superseded.add(half.name);
        this.#lastDurable = Math.max(this.#lastDurable, entry.number);
        return { ...half, state: "durable" };
      });
      const { set, removed, replacedDirectory } = next;
      if (removed !== undefined && gone.has(removed.directory)) {
        next = { ...next, removed: { ...removed, state: "durable" } };
      }
      if (set?.state === "durable" && replacedDirectory !== undefined) gone.add(replacedDirectory);
      if (set === undefined && removed?.state === "durable") gone.add(removed.inode);
      if (!isDurable(next)) kept.push(next);
    }
    this.#entries = kept.reverse();
  }

  #carryOut(directory: number, upTo: number, names: Names): void {
    for (const { number, set, removed } of this.#entries) {
      if (number > upTo) break;
      for (const half of [removed, set]) {
        if (half?.directory !== directory || half.state !== "pending") continue;
        if (half === set) names.set(half.name, half.inode);
        else names.delete(half.name);
      }
    }
  }

  /** A sync of the directory that fails: no later one makes durable what this one should have. */
  failSync(directory: number, upTo: number): void {
    this.#entries = this.#entries.map((entry) =>
      changed(entry, (half) =>
        entry.number <= upTo && half.directory === directory && half.state === "pending"
          ? { ...half, state: "lost" }
          : half,
      ),
    );
  }

  /** A name that was made or removed durably by other means: no change of it is left. */
  forget(directory: number, name: string): void {
    this.#entries = this.#entries
      .map((entry) =>
        changed(entry, (half) =>
          half.directory === directory && half.name === name ? { ...half, state: "durable" } : half,
        ),
      )
      .filter((entry) => !isDurable(entry));
  }

  /**
   * Makes in a power cut's directories those changes that survive.
   *
   * @param namesOf The durable names of a directory, which may be changed.
   */
  survive(names: Survival["names"], random: Random, namesOf: (directory: number) => Names): void {
    const survivors = withConsequences(this.#entries, this.#drawn(names, random));
    this.#entries.forEach(({ set, removed }, i) => {
      const survivor = survivors[i]!;
      if (removed !== undefined && removed.state !== "durable" && survivor.removed) {
        namesOf(removed.directory).delete(removed.name);
      }
      if (set !== undefined && set.state !== "durable" && survivor.set) {
        namesOf(set.directory).set(set.name, set.inode);
      }
    });
  }

  #drawn(names: Survival["names"], random: Random): Drawn[] {
    if (names === "none") return this.#entries.map(() => ({ set: false, removed: false }));
    if (names === "all") return this.#entries.map(() => ({ set: true, removed: true }));
    if (names === "prefix") {
      const open = this.#entries.filter(({ number }) => number > this.#lastDurable);
      const count = random(open.length + 1);
      const last = count === 0 ? this.#lastDurable : open[count - 1]!.number;
      return this.#entries.map(({ number, set, removed }) => {
        const survives = (half: Half | undefined) =>
          number <= last && (half?.state !== "lost" || random(2) === 0);
        return { set: survives(set), removed: survives(removed) };
      });
    }
    const quarters = 1 + random(3);
    return this.#entries.map(() => ({
      set: random(4) < quarters,
      removed: random(4) < quarters,
    }));
  }
}

function changed(entry: Entry, change: (half: Half) => Half): Entry {
  const { set, removed } = entry;
  return {
    ...entry,
    ...(set && { set: change(set) }),
    ...(removed && { removed: change(removed) }),
  };
}

function isDurable({ set, removed }: Entry): boolean {
  return [set, removed].every((half) => half === undefined || half.state === "durable");
}

interface Drawn {
  readonly set: boolean;
  readonly removed: boolean;
}

/** What survives besides, as it is durable, or because something else survives that came later. */
function withConsequences(entries: readonly Entry[], drawn: readonly Drawn[]): Drawn[] {
  const survivors: Drawn[] = [];
  const gone = new Set<number>();
  const moved = new Set<number>();
  for (let i = entries.length - 1; i >= 0; i--) {
    const entry = entries[i]!;
    let set = drawn[i]!.set || entry.set?.state === "durable";
    let removed = drawn[i]!.removed || entry.removed?.state === "durable";
    if (entry.removed !== undefined && gone.has(entry.removed.directory)) removed = true;
    if (entry.set !== undefined && entry.removed !== undefined) {
      if (entry.isDirectory && moved.has(entry.set.inode)) set = true;
      if (removed) set = true;
      if (entry.isDirectory || entry.set.directory === entry.removed.directory) removed = set;
      if (set && entry.isDirectory) moved.add(entry.set.inode);
      if (set && entry.replacedDirectory !== undefined) gone.add(entry.replacedDirectory);
    } else if (removed && entry.isDirectory && entry.removed !== undefined) {
      gone.add(entry.removed.inode);
    }
    survivors.push({ set, removed });
  }
  return survivors.reverse();
}
