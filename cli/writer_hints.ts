/**
 * Which releases of RocketMQ may have written a store, as far as its files tell.
 *
 * @module
 */

import type { StoredMessage } from "../lib/mod.ts";
import type { DirectoryFile } from "./store_directory.ts";

export interface Traces {
  readonly files: readonly DirectoryFile[];
  readonly longs: readonly bigint[] | undefined;
  /** Content of `abort`. */
  readonly abort: string | undefined;
  /** Some records of the newest file. */
  readonly sample: readonly StoredMessage[];
  /** The checkpoint has a valid slot of forcelog. */
  readonly isOurs: boolean;
}

/** Ends each property from 5.2.0 on; in 4.9.1 to 5.1.4 it only stands between two. */
const PROPERTY_SEPARATOR = "\u0002";

/** The strongest hint first. Each is a lower bound or a range; none is a proof. */
export function writerHints({ files, longs, abort, sample, isOurs }: Traces): string[] {
  const hints: string[] = [];
  if (isOurs) hints.push("forcelog wrote the checkpoint last");
  if (!isOurs && (longs?.[5] ?? 0n) !== 0n) {
    hints.push("5.5.1 or later: logicsPhysicalOffset is set in the checkpoint");
  }
  if (files.some(({ path }) => path.startsWith("rocksdbstore/"))) {
    hints.push("5.4.0 or later: there is a folder rocksdbstore");
  }
  const text = sample.map(({ propertiesText }) => propertiesText).find((found) => found !== "");
  if (text !== undefined) {
    hints.push(
      text.endsWith(PROPERTY_SEPARATOR)
        ? "5.2.0 or later, or 4.9.0: properties end in a separator"
        : "4.9.1 to 5.1.4: properties end without a separator",
    );
  }
  if (sample.some(({ version }) => version === 2))
    hints.push("5.1.0 or later: records of version 2");
  if (!isOurs && (longs?.[4] ?? 0n) !== 0n) {
    hints.push("5.1.1 or later: confirmPhyOffset is set in the checkpoint");
  }
  if (files.some(({ path }) => path === "abort.bak")) {
    hints.push("5.0.0 or later: there is a file abort.bak");
  } else if (abort === "") {
    hints.push("4.9 or earlier: the abort file is empty");
  }
  return hints;
}
