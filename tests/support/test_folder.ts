/**
 * A test's own folder.
 *
 * @module
 */

import type { Test } from "tap";

/**
 * An empty folder, removed after the test: behind everything that the test hands to `teardown()`.
 *
 * tap removes the folder of `testdir()` first, unless the test has a teardown before it has a folder;
 * what still writes there then would hinder the removal.
 */
export function testFolder(t: Test, content: Parameters<Test["testdir"]>[0] = {}): string {
  t.teardown(() => undefined);
  return t.testdir(content);
}
