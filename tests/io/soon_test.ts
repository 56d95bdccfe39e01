import t from "tap";
import { soon } from "../../lib/io/soon.ts";

t.test("soon() goes on at once with what is there, and later with what is not", async (t) => {
  t.equal(
    soon(2, (value) => value + 1),
    3,
  );
  const later = soon(Promise.resolve(2), (value) => value + 1);
  t.ok(later instanceof Promise);
  t.equal(await later, 3);
});

t.test("soon() passes failures on", async (t) => {
  const fail = (): never => {
    throw new Error("no");
  };
  t.throws(() => soon(1, fail), /no/);
  await t.rejects(async () => soon(Promise.resolve(1), fail), /no/);
  await t.rejects(async () => soon(Promise.reject(new Error("no")), () => t.fail("went on")), /no/);
});
