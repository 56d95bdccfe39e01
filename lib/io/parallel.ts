/**
 * The same for many, some of them at a time: what waits for a device or a thread need not wait in line.
 *
 * @module
 */

/** One of the four threads that libuv's pool has by default stays free for reads and for the log. */
const AT_ONCE = 3;

/**
 * Calls `action` for each item, at most three at a time, begun in their order.
 *
 * @throws The first failure; none is begun after it, and those under way have settled.
 */
export async function inParallel<T>(
  items: Iterable<T>,
  action: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failed = false;
  const lane = async (): Promise<void> => {
    for (let next = iterator.next(); !failed && !next.done; next = iterator.next()) {
      try {
        await action(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const lanes = Array.from({ length: AT_ONCE }, lane);
  const results = await Promise.allSettled(lanes);
  const failure = results.find((result) => result.status === "rejected");
  if (failure) throw failure.reason;
}
