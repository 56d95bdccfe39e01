import * as fs from "node:fs";
import t from "tap";
import { hasCode, systemError } from "../../lib/io/system_error.ts";

t.test("systemError() makes the error that Node makes", async (t) => {
  const path = `${t.testdir()}/none`;
  let nodes: unknown;
  try {
    fs.openSync(path, "r");
  } catch (error) {
    nodes = error;
  }
  const ours = systemError("ENOENT", "open", path);
  t.match(nodes, { ...ours, message: ours.message });
});

t.test("systemError() has a text for what Node has no name for", async (t) => {
  t.equal(systemError("ENOLCK", "lock", "/a").message, "ENOLCK: no locks available, lock '/a'");
  t.equal(systemError("EIO", "pread", undefined, "read 0 of 4").message, "EIO: read 0 of 4, pread");
  t.match(systemError("ENONSENSE", "open"), { code: "ENONSENSE", errno: 0 });
});

t.test("hasCode() knows an error by its code or its number", async (t) => {
  const error = systemError("ENOSPC", "pwritev");
  t.ok(hasCode(error, "EIO", "ENOSPC"));
  t.notOk(hasCode(error, "EIO"));
  t.notOk(hasCode(error));
  if (process.platform === "linux") t.ok(hasCode(systemError("ENOTSUP", "x"), "EOPNOTSUPP"));
  const unnamed = Object.assign(new Error(), {
    code: "Unknown system error -122",
    errno: systemError("EDQUOT", "x").errno,
  });
  t.ok(hasCode(unnamed, "EDQUOT"));
  t.notOk(hasCode(systemError("ENONSENSE", "open"), "EALSO"), "no number is no number");
  for (const other of [undefined, null, "ENOSPC", { code: "ENOSPC" }, new Error("ENOSPC")]) {
    t.notOk(hasCode(other, "ENOSPC"));
  }
});
