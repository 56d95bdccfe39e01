// What each flush mode costs, and what it keeps: for each of the three modes a process puts
// messages and is killed right after its last acknowledgement; then the store is opened again and
// what is there is counted. At the end, stores that RocketMQ itself wrote are opened.
//
//     npm run demo

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MessageStore, type StoredMessage, type StoreOptions } from "../lib/mod.ts";

/** Small files, so that the demo shows how they roll. */
const FILE_SIZES = { mappedFileSizeCommitLog: 4 * 1024 * 1024 } as const;
const BODY_BYTES = 1024;
const CALLERS = 16;
/** For how long each process puts, in ms. */
const PUT_MS = 1000;

const MODES: Readonly<
  Record<string, { readonly options: StoreOptions; readonly powerCut: string }>
> = {
  SYNC_FLUSH: {
    options: { ...FILE_SIZES, flushDiskType: "SYNC_FLUSH" },
    powerCut: "nothing",
  },
  ASYNC_FLUSH: {
    options: { ...FILE_SIZES, flushDiskType: "ASYNC_FLUSH" },
    powerCut: "about 0.5 s; the last < 4 pages up to 10.5 s",
  },
  "ASYNC_FLUSH + pool": {
    options: { ...FILE_SIZES, flushDiskType: "ASYNC_FLUSH", transientStorePoolEnable: true },
    powerCut: "the same and up to 0.2 s more",
  },
};

/** What a killed process had been told. */
interface Told {
  readonly acknowledged: number;
  readonly seconds: number;
  readonly forces: number;
}

const [role, directory, mode] = process.argv.slice(2);
if (role === "put") await putUntilKilled(directory as string, mode as string);
else await demo();

/** Puts for a while, tells what was acknowledged, and dies without closing anything. */
async function putUntilKilled(path: string, name: string): Promise<never> {
  const store = await MessageStore.open(path, MODES[name]?.options);
  const body = Buffer.alloc(BODY_BYTES, "x");
  let acknowledged = 0;
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, queueId) => {
      while (performance.now() - startedAt < PUT_MS) {
        await store.put({ topic: "demo", queueId: queueId % 4, body });
        acknowledged++;
      }
    }),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const { forces } = store.stats();
  writeSync(1, JSON.stringify({ acknowledged, seconds, forces } satisfies Told));
  process.kill(process.pid, "SIGKILL");
  throw new Error("it was killed");
}

async function demo(): Promise<void> {
  const workspace = mkdtempSync(join(tmpdir(), "forcelog-demo-"));
  try {
    console.log(
      `Each mode: ${CALLERS} callers put messages of ${BODY_BYTES} bytes for ${PUT_MS / 1000} s; then the process is killed (SIGKILL).\n`,
    );
    const rows = [
      [
        "mode",
        "messages/s",
        "syncs",
        "messages/sync",
        "acknowledged",
        "lost by the kill",
        "a power cut may lose",
      ],
    ];
    for (const name of Object.keys(MODES)) {
      const path = join(workspace, name.replaceAll(/\W+/g, "-"));
      const told = await killedProcess(path, name);
      const found = await countMessages(path, name);
      rows.push([
        name,
        Math.round(told.acknowledged / told.seconds).toLocaleString("en"),
        String(told.forces),
        told.forces === 0 ? "-" : (told.acknowledged / told.forces).toFixed(1),
        told.acknowledged.toLocaleString("en"),
        String(Math.max(0, told.acknowledged - found)),
        MODES[name]?.powerCut ?? "",
      ]);
    }
    printTable(rows);
    console.log(
      "\nSYNC_FLUSH and ASYNC_FLUSH lose nothing acknowledged to a kill; the pool loses what it had not committed yet.\n",
    );
    for (const name of ["v1-basic", "v551-mixed"]) await showJavaStore(workspace, name);
  } finally {
    rmSync(workspace, { recursive: true });
  }
}

function killedProcess(path: string, name: string): Promise<Told> {
  return new Promise((resolve, reject) => {
    const args = [...process.execArgv, fileURLToPath(import.meta.url), "put", path, name];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.on("data", (text: Buffer) => {
      output += text.toString();
    });
    child.once("error", reject);
    child.once("close", (_code, signal) => {
      if (signal === "SIGKILL" && output !== "") resolve(JSON.parse(output) as Told);
      else reject(new Error(`The process that puts in mode ${name} ended by itself`));
    });
  });
}

/** Opens the store after the kill, which recovers it, and counts what is readable. */
async function countMessages(path: string, name: string): Promise<number> {
  const store = await MessageStore.open(path, MODES[name]?.options, { onWarning: () => undefined });
  let count = 0;
  for (const { topic, queueId } of store.queues()) {
    count += store.maxOffset(topic, queueId) - store.minOffset(topic, queueId);
  }
  await store.close();
  return count;
}

/** Unpacks a store that RocketMQ wrote, looks at it, then goes on writing in it. */
async function showJavaStore(workspace: string, name: string): Promise<void> {
  const fixture = fileURLToPath(new URL(`../tests/fixtures/golden/${name}/`, import.meta.url));
  const { version, config } = JSON.parse(readFileSync(join(fixture, "recipe.json"), "utf8"));
  const path = mkdtempSync(join(workspace, "java-"));
  execFileSync("tar", ["-xzf", join(fixture, "store.tar.gz"), "-C", path]);
  const sizes: StoreOptions = {
    mappedFileSizeCommitLog: config.mappedFileSizeCommitLog,
    mappedFileSizeConsumeQueue: config.mappedFileSizeConsumeQueue,
    maxMessageSize: config.maxMessageSize,
  };
  const reader = await MessageStore.open(path, sizes, { readOnly: true });
  const queues = reader.queues();
  console.log(
    `A store written by RocketMQ ${version}: ${queues.length} queues, ${reader.watermarks.wrote} bytes of log`,
  );
  for (const { topic, queueId } of queues.slice(0, 4)) {
    const [min, max] = [reader.minOffset(topic, queueId), reader.maxOffset(topic, queueId)];
    const { messages } = await reader.get({ topic, queueId, offset: min, maxMessages: 2 });
    console.log(`  ${topic}/${queueId}: messages ${min} to ${max - 1}`);
    for (const message of messages) console.log(`    ${describe(message)}`);
  }
  await reader.close();
  const writer = await MessageStore.open(path, sizes);
  const topic = "TopicTest";
  const { queueOffset } = await writer.put({ topic, body: Buffer.from("from Node.js") });
  const { messages } = await writer.get({ topic, offset: queueOffset });
  console.log(`  put one more to ${topic}/0: message ${queueOffset}, "${messages[0]?.body}"\n`);
  await writer.close();
}

function describe({ queueOffset, messageId, tags, keys, body }: StoredMessage): string {
  const text = body.toString();
  const content = /^[\x20-\x7e]{1,40}$/.test(text) ? `"${text}"` : `${body.length} bytes`;
  const facts = [content, tags && `tag ${tags}`, keys.length > 0 && `keys ${keys.join(" ")}`];
  return `${queueOffset}  ${messageId}  ${facts.filter(Boolean).join(", ")}`;
}

function printTable(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? "").length)),
  );
  for (const row of rows) {
    const cells = row.map((cell, column) => {
      const text = column === 0 || column === row.length - 1;
      return text ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0);
    });
    console.log(cells.join("   ").trimEnd());
  }
}
