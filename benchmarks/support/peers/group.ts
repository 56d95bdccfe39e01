/**
 * Puts that come in one turn of the event loop, or while the group before them is on its way, as
 * one group: how stores without a queue of their own are used at their best.
 *
 * @module
 */

export interface Entry {
  readonly key: number;
  readonly body: Buffer;
}

export class Groups {
  readonly #write: (entries: readonly Entry[]) => Promise<void> | undefined;
  #entries: Entry[] = [];
  #waiting: { resolve: (key: number) => void; reject: (error: unknown) => void }[] = [];
  #next = 0;
  #busy = false;

  /** @param write Keeps a group; one group at a time. */
  constructor(write: (entries: readonly Entry[]) => Promise<void> | undefined) {
    this.#write = write;
  }

  /** Resolves with the key once the body is kept. */
  put(body: Buffer): Promise<number> {
    this.#entries.push({ key: this.#next++, body });
    if (!this.#busy) {
      this.#busy = true;
      setImmediate(this.#run);
    }
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  readonly #run = async (): Promise<void> => {
    while (this.#entries.length > 0) {
      const entries = this.#entries;
      const waiting = this.#waiting;
      this.#entries = [];
      this.#waiting = [];
      try {
        await this.#write(entries);
        for (let i = 0; i < waiting.length; i++) waiting[i]?.resolve(entries[i]?.key ?? 0);
      } catch (error) {
        for (const { reject } of waiting) reject(error);
      }
      // Those who were told put again before the next group goes; and the event loop turns.
      await new Promise((turn) => setImmediate(turn));
    }
    this.#busy = false;
  };
}
