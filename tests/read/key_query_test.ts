import t from "tap";
import { StoreError } from "../../lib/errors.ts";
import type { IndexHit, IndexSearch, KeyIndex } from "../../lib/index/key_index.ts";
import type { StoredMessage } from "../../lib/message/record.ts";
import { resolveOptions, type StoreOptions } from "../../lib/options.ts";
import { type QueryRequest, queryByKey } from "../../lib/read/key_query.ts";

const FILE = "20240101000000000";

/** A message that is read from `offset`, a second newer for each. */
function message(offset: number, properties: Record<string, string>, topic = "T"): StoredMessage {
  return {
    topic,
    physicalOffset: offset,
    storeTimestamp: offset * 1000,
    properties: new Map(Object.entries(properties)),
    tags: properties.TAGS,
  } as unknown as StoredMessage;
}

/** An index that leads to all messages that are given, the newest first, and a log that holds them. */
function setUp(messages: readonly StoredMessage[], options: StoreOptions = {}, minOffset = 0) {
  const searches: IndexSearch[] = [];
  const looked: number[] = [];
  const index = {
    files: [{ endTimestamp: 9000, endPhysicalOffset: 9 }],
    async *search(search: IndexSearch): AsyncGenerator<IndexHit, void, void> {
      searches.push(search);
      for (const { physicalOffset: offset } of [...messages].reverse()) {
        if (offset < search.before) yield { file: FILE, number: offset + 1, offset };
      }
    },
  } as unknown as KeyIndex;
  const query = (request: Partial<QueryRequest> = {}) =>
    queryByKey(
      {
        index,
        options: resolveOptions(options),
        lookup: async (offset) => {
          looked.push(offset);
          return messages.find(({ physicalOffset }) => physicalOffset === offset);
        },
        minOffset: () => minOffset,
      },
      { topic: "T", key: "k", ...request },
    );
  return { query, searches, looked };
}

const offsetsOf = ({ messages }: { readonly messages: readonly StoredMessage[] }): number[] =>
  messages.map(({ physicalOffset }) => physicalOffset);

t.test("queryByKey() returns those that have the very key, the newest first", async (t) => {
  const { query, searches } = setUp([
    message(1, { KEYS: "k" }),
    message(2, { KEYS: "k2 kk" }),
    message(3, { KEYS: "a k b" }),
    message(4, { UNIQ_KEY: "k" }),
    message(5, { KEYS: "k" }, "U"),
    message(6, { TAGS: "k" }),
    message(7, {}),
  ]);
  const result = await query();
  t.strictSame(offsetsOf(result), [4, 3, 1]);
  t.match(result, {
    cursor: undefined,
    unreadable: [],
    indexLastUpdateTimestamp: 9000,
    indexLastUpdatePhyOffset: 9,
  });
  t.match(searches, [{ topic: "T", key: "k", begin: 0, at: undefined }]);
  t.strictSame(offsetsOf(await query({ indexType: "T" })), [6], "a tag");
  t.equal(searches[1]?.key, "T#k");
});

t.test("queryByKey() takes the time of the message itself, both ends included", async (t) => {
  const { query } = setUp([1, 2, 3, 4].map((offset) => message(offset, { KEYS: "k" })));
  t.strictSame(offsetsOf(await query({ begin: 2000, end: 3000 })), [3, 2]);
  t.strictSame(offsetsOf(await query({ begin: 3001 })), [4]);
  t.strictSame(offsetsOf(await query({ begin: 4001 })), []);
});

t.test("queryByKey() answers in pages, and its cursor leads to the next one", async (t) => {
  const { query, searches } = setUp(
    [1, 2, 3, 4, 5].map((offset) => message(offset, { KEYS: "k" })),
    { defaultQueryMaxNum: 2, maxMsgsNumBatch: 3 },
  );
  const first = await query();
  t.strictSame(offsetsOf(first), [5, 4]);
  t.equal(first.cursor, `4.${FILE}.5`);
  const second = await query({ cursor: first.cursor as string, maxNum: 100 });
  t.strictSame(offsetsOf(second), [3, 2, 1], "no more than maxMsgsNumBatch");
  t.match(searches[1], { before: 4, at: { file: FILE, number: 5 } });
  const last = await query({ cursor: second.cursor as string });
  t.strictSame([offsetsOf(last), last.cursor], [[], undefined]);
  for (const cursor of ["", "4", `4.${FILE}`, `4.${FILE}.x`, `-4.${FILE}.5`]) {
    await t.rejects(query({ cursor }), { name: "RangeError", message: /no query answers with it/ });
  }
});

t.test("queryByKey() asks nothing where nothing can be found", async (t) => {
  const { query, searches } = setUp([message(1, { KEYS: "" })]);
  for (const request of [{ key: "" }, { maxNum: 0 }]) {
    t.strictSame(offsetsOf(await query(request)), []);
  }
  t.strictSame(searches, []);
});

t.test("queryByKey() reads nothing that has been deleted", async (t) => {
  const messages = [1, 2, 3].map((offset) => message(offset, { KEYS: "k" }));
  const { query, looked } = setUp(messages, {}, 3);
  t.strictSame(offsetsOf(await query()), [3]);
  t.strictSame(looked, [3]);
});

t.test("queryByKey() tells what is damaged, and fails with all else", async (t) => {
  const messages = [1, 2, 3].map((offset) => message(offset, { KEYS: "k" }));
  const { query } = setUp(messages);
  const find = messages.find.bind(messages);
  let code: "STORE_RECORD_DAMAGED" | "STORE_IO" = "STORE_RECORD_DAMAGED";
  messages.find = ((matches: (message: StoredMessage) => boolean) => {
    const found = find(matches);
    if (found?.physicalOffset === 2) throw new StoreError(code, "Cannot read it");
    return found;
  }) as typeof messages.find;
  const result = await query();
  t.strictSame([offsetsOf(result), result.unreadable], [[3, 1], [2]]);
  code = "STORE_IO";
  await t.rejects(query(), { code: "STORE_IO" });
});

t.test("queryByKey() ends with the signal's reason", async (t) => {
  const { query, looked } = setUp([1, 2].map((offset) => message(offset, { KEYS: "k" })));
  await t.rejects(query({ signal: AbortSignal.abort(new Error("enough")) }), { message: "enough" });
  t.strictSame(looked, []);
});
