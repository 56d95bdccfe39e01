import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { MessageStore, type StoreOptions } from "../../lib/mod.ts";
import { rejection } from "../support/rejections.ts";
import { openStore, SMALL, storePath } from "../support/stores.ts";

const EXTENDED: StoreOptions = {
  ...SMALL,
  mappedFileSizeConsumeQueue: 400,
  enableConsumeQueueExt: true,
  mappedFileSizeConsumeQueueExt: 210,
};

async function putTagged(store: MessageStore, from: number, end: number): Promise<void> {
  for (let i = from; i < end; i++) {
    await store.put({
      topic: "T",
      body: Buffer.from(`${i}`),
      tags: i % 10 === 7 ? "rare" : "often",
    });
  }
}

/** Queue offsets of all messages with a tag. */
async function filtered(store: MessageStore, filter: string): Promise<number[]> {
  const found: number[] = [];
  for (let offset = store.minOffset("T"); offset < store.maxOffset("T"); ) {
    const result = await store.get({ topic: "T", offset, filter });
    found.push(...result.messages.map(({ queueOffset }) => queueOffset));
    offset = result.nextBeginOffset;
  }
  return found;
}

/** Messages whose unit leads to one of the extension. */
async function extended(store: MessageStore): Promise<number[]> {
  const found: number[] = [];
  for (let from = store.minOffset("T"); from < store.maxOffset("T"); ) {
    for (const { extension } of await store.units({ topic: "T", from })) {
      if (extension) found.push(from);
      from++;
    }
  }
  return found;
}

const upTo = (end: number) => Array.from({ length: end }, (_, i) => i);
const rare = (end: number) => upTo(end).filter((i) => i % 10 === 7);

function extensionFolder(dir: string): string {
  return join(dir, "consumequeue_ext", "T", "0");
}

t.test("a store with extensions is filtered, killed, and goes on", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, EXTENDED);
  await putTagged(store, 0, 30);
  t.same(await filtered(store, "rare"), rare(30), "from memory");
  await store.checkpoint();
  t.same(await filtered(store, "rare"), rare(30), "from files");
  await putTagged(store, 30, 60);
  const killed = `${dir}-killed`;
  cpSync(dir, killed, { recursive: true });
  const { store: again, warnings } = await openStore(t, killed, EXTENDED);
  t.same(warnings, []);
  await putTagged(again, 60, 80);
  t.same(await extended(again), upTo(80));
  t.same(await filtered(again, "rare"), rare(80));
  await again.close();
  const { store: third } = await openStore(t, killed, EXTENDED);
  t.ok(third.recovery.cleanStop);
  t.same(await extended(third), upTo(80));
});

t.test("what is lost of extensions costs no message, whatever is put later", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, EXTENDED);
  await putTagged(store, 0, 50);
  await store.close();
  const damages: Record<string, (folder: string) => void> = {
    "all of it": (folder) => rmSync(folder, { recursive: true }),
    "its last file": (folder) => rmSync(join(folder, readdirSync(folder).sort().at(-1) as string)),
    "its content": (folder) => {
      for (const name of readdirSync(folder)) {
        const path = join(folder, name);
        writeFileSync(path, Buffer.alloc(statSync(path).size, 0x7f));
      }
    },
  };
  for (const [what, damage] of Object.entries(damages)) {
    for (const wasKilled of [false, true]) {
      const copy = storePath(t, `${what.length}-${wasKilled}`);
      cpSync(dir, copy, { recursive: true });
      if (wasKilled) writeFileSync(join(copy, "abort"), "");
      damage(extensionFolder(copy));
      const { store: later } = await openStore(t, copy, EXTENDED);
      await putTagged(later, 50, 70);
      t.same(await filtered(later, "rare"), rare(70), `${what}, killed ${wasKilled}`);
      t.same((await extended(later)).slice(-20), upTo(70).slice(50));
      await later.close();
    }
  }
});

t.test("without the option extensions are read, and new messages get none", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, EXTENDED);
  await putTagged(store, 0, 25);
  await store.close();
  // In whatever file size they have.
  const { mappedFileSizeConsumeQueueExt: _, enableConsumeQueueExt: __, ...plain } = EXTENDED;
  const { store: without } = await openStore(t, dir, plain);
  await putTagged(without, 25, 45);
  t.same(await extended(without), upTo(25));
  t.same(await filtered(without, "rare"), rare(45));
  await without.close();
  const { store: withIt } = await openStore(t, dir, EXTENDED);
  await putTagged(withIt, 45, 60);
  t.same(
    await extended(withIt),
    upTo(60).filter((i) => i < 25 || i >= 45),
  );
  t.same(await filtered(withIt, "rare"), rare(60));
});

t.test("a store opened for reading shows extensions, and changes nothing", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, EXTENDED);
  await putTagged(store, 0, 25);
  await store.close();
  writeFileSync(join(dir, "abort"), "");
  const filesOf = () =>
    readdirSync(extensionFolder(dir)).map((name) => readFileSync(join(extensionFolder(dir), name)));
  const before = filesOf();
  const { store: reader } = await openStore(
    t,
    dir,
    { ...SMALL, mappedFileSizeConsumeQueue: 400 },
    {
      readOnly: true,
    },
  );
  t.same(await extended(reader), upTo(25));
  t.same(await filtered(reader, "rare"), rare(25));
  await reader.close();
  t.same(filesOf(), before);
});

t.test("light queues have no extension", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, {
    ...EXTENDED,
    enableLmq: true,
    enableMultiDispatch: true,
  });
  const properties = { INNER_MULTI_DISPATCH: "%LMQ%a" };
  await store.put({ topic: "T", body: Buffer.from("light"), tags: "often", properties });
  const [own] = await store.units({ topic: "T", from: 0 });
  const [light] = await store.units({ topic: "%LMQ%a", from: 0 });
  t.equal(own?.extension?.tagsCode, light?.tagsCode);
  t.equal(light?.extension, undefined);
  await store.close();
  t.same(readdirSync(join(dir, "consumequeue_ext")), ["T"]);
});

t.test("files of extensions that RocketMQ would refuse are refused, and named", async (t) => {
  const dir = storePath(t);
  const { store } = await openStore(t, dir, EXTENDED);
  await putTagged(store, 0, 25);
  await store.close();
  const path = join(extensionFolder(dir), readdirSync(extensionFolder(dir)).sort()[0] as string);
  const wrong = { ...EXTENDED, mappedFileSizeConsumeQueueExt: 400 };
  t.match(await rejection(MessageStore.open(dir, wrong)), { code: "STORE_UNEXPECTED_FILE" });
  for (const stray of ["x.tmp", "00000000000000000001"]) {
    writeFileSync(join(extensionFolder(dir), stray), Buffer.alloc(210));
    const error = await rejection(MessageStore.open(dir, EXTENDED));
    t.match(error, { code: "STORE_UNEXPECTED_FILE", path: join(extensionFolder(dir), stray) });
    rmSync(join(extensionFolder(dir), stray));
  }
  writeFileSync(path, Buffer.alloc(100));
  t.match(await rejection(MessageStore.open(dir, EXTENDED)), {
    code: "STORE_UNEXPECTED_FILE",
    path,
  });
});
