/**
 * A process that takes a store's lock, says so on its output, and keeps it until it is killed.
 *
 * Arguments: the lock path, the holder path.
 */

import { NodeFileSystem } from "../../lib/io/node_file_system.ts";
import { StoreLock } from "../../lib/io/store_lock.ts";

const [lockPath, holderPath] = process.argv.slice(2) as [string, string];
await StoreLock.acquire(new NodeFileSystem(), { lockPath, holderPath, description: "the holder" });
process.stdout.write("held\n");
setInterval(() => {}, 1000);
