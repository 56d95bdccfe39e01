/**
 * The `forcelog` command: finds the verb and turns what it throws into a message and an exit code.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { Terminal, UsageError } from "./terminal.ts";

/** Adds a verb's arguments, options, help and action to its command. */
export type Verb = (command: Command, terminal: Terminal) => void;

const VERBS: Readonly<Record<string, readonly [about: string, load: () => Promise<Verb>]>> = {
  info: [
    "what a store is: sizes, offsets, checkpoint, and what its recovery would do",
    async () => (await import("./info.ts")).info,
  ],
  stats: [
    "figures of a store: sizes, disks, messages and times of topics, what is behind",
    async () => (await import("./stats.ts")).stats,
  ],
  ls: ["the queues of a store, or its files", async () => (await import("./ls.ts")).ls],
  cat: ["messages of a store", async () => (await import("./cat.ts")).cat],
  query: ["messages of a store by key", async () => (await import("./query.ts")).query],
  topics: [
    "the topics of a store with their settings, or its consumer groups; deletes topics with --delete",
    async () => (await import("./topics.ts")).topics,
  ],
  offsets: [
    "how far consumer groups have come; writes with --set",
    async () => (await import("./offsets.ts")).offsets,
  ],
  recover: [
    "recovers a store, or only explains what that would do; writes to it",
    async () => (await import("./recover.ts")).recover,
  ],
  repair: [
    "mends damage anywhere in a store's log; writes to it",
    async () => (await import("./recover.ts")).repair,
  ],
  run: [
    "carries out a script of puts and reads on a store; writes to it",
    async () => (await import("./run.ts")).run,
  ],
  dump: [
    "everything that a store holds, as one JSON object",
    async () => (await import("./dump.ts")).dump,
  ],
};

/** What the help of every verb that reads ends with. */
export const READS_ONLY = `
Nothing is changed: the store is shown as its recovery would leave it, and a broker may be using it
meanwhile. Offsets in the log are bytes, queue offsets count messages. Times are UTC; in JSON they
are milliseconds since 1970.`;

/** @returns The exit code: 0, 1 if something went wrong, 2 for a mistake in the call. */
export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const output = {
    writeOut: (text: string) => void terminal.write(text),
    writeErr: (text: string) => terminal.note(text.replace(/^error: /, "").trimEnd()),
  };
  const program = new Command("forcelog")
    .description("Looks into message stores of Apache RocketMQ and of forcelog, and drives them.")
    .version(version(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help, or that of a verb")
    .helpCommand("help [verb]", "print the help of a verb")
    .configureOutput(output)
    .exitOverride()
    .addHelpText(
      "after",
      `
Exit codes: 0, 1 if something went wrong or is damaged, 2 for a mistake in the call.

Examples:
  forcelog info /data/store
  forcelog cat /data/store --topic orders --queue 0 --from 17 --count 3
  forcelog help cat`,
    );
  for (const [name, [about, load]] of Object.entries(VERBS)) {
    const command = program.command(name).description(about);
    command.helpOption("-h, --help", "print this help");
    // Only the verb that is asked for is loaded.
    if (args.slice(0, 2).includes(name)) (await load())(command, terminal);
  }
  let code = 0;
  try {
    if (args.length === 0) throw new UsageError("no verb is given, see forcelog --help");
    await program.parseAsync([...args], { from: "user" });
    if (terminal.failed) code = 1;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has said it already; help and version are such errors too.
      code = error.exitCode === 0 ? 0 : 2;
    } else {
      terminal.fail(error);
      code = error instanceof UsageError ? 2 : 1;
    }
  }
  await terminal.flushed();
  return code;
}

/** Runs {@linkcode main} as a process of its own. */
export async function runProcess(): Promise<void> {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // Whoever read this wants no more: `forcelog cat ... | head`.
    process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  process.exitCode = await main(
    process.argv.slice(2),
    new Terminal(process.stdout, process.stderr),
  );
}

/** The package's version. */
export function version(): string {
  // From cli/ in a checkout, and from dist/cli/.
  for (const place of ["../package.json", "../../package.json"]) {
    try {
      const text = readFileSync(new URL(place, import.meta.url), "utf8");
      return (JSON.parse(text) as { version: string }).version;
    } catch {
      // The other one.
    }
  }
  return "unknown";
}
