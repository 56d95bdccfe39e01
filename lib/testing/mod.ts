/**
 * What tests of a store need: time that stands still, calls that fail when told to, and a disk whose
 * power can be cut.
 *
 * @module
 */

export { type SystemError, systemError } from "../io/system_error.ts";
export type { Call, CallName } from "./call.ts";
export { CANARIES, type Canary, tryCanary } from "./crash/canaries.ts";
export {
  type CrashCase,
  type CrashPoint,
  CUTS,
  type CutName,
  formatCase,
  parseCase,
} from "./crash/crash_case.ts";
export {
  Explorer,
  type ExplorerOptions,
  type Failure,
  playTrace,
  type Tally,
} from "./crash/explorer.ts";
export type { MessageSpec } from "./crash/planned_message.ts";
export {
  FailureTable,
  formatTrial,
  someWays,
  type Target,
  type Trial,
  targetsOf,
  tryFailure,
  tryFullDisk,
  type Verdict,
  type Way,
  waysOf,
} from "./crash/syscall_failures.ts";
export {
  MODES,
  type ModeName,
  type Outcome,
  type Stage,
  type Workload,
} from "./crash/workload.ts";
export { WORKLOADS } from "./crash/workloads.ts";
export { FakeClock } from "./fake_clock.ts";
export {
  type Hold,
  type Hook,
  InterceptedFileSystem,
  type Where,
} from "./intercepted_file_system.ts";
export { type Random, randomOf } from "./random.ts";
export { SimulatedDisk, type Survival } from "./simulated_disk.ts";
export {
  type Fault,
  SimulatedFileSystem,
  type SimulatedOptions,
} from "./simulated_file_system.ts";
