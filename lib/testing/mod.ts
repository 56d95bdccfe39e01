/**
 * What tests of a store need: time that stands still, and calls that fail when told to.
 *
 * @module
 */

export { type SystemError, systemError } from "../io/system_error.ts";
export { FakeClock } from "./fake_clock.ts";
export {
  type Call,
  type CallName,
  type Hold,
  type Hook,
  InterceptedFileSystem,
  type Where,
} from "./intercepted_file_system.ts";
