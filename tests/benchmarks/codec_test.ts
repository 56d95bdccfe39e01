// The benchmark of the codec at its smallest size: it must not rot. No figure is judged.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import t from "tap";

const PROGRAM = join(import.meta.dirname, "../../benchmarks/codec.ts");

t.test("benchmarks/codec.ts --smoke measures every row", async (t) => {
  const output = execFileSync(process.execPath, ["--import=tsx", PROGRAM, "--smoke"], {
    encoding: "utf8",
  });
  for (const row of ["prepare+encode, tag", "check, both CRCs", "dispatch", "decode"]) {
    t.match(output, new RegExp(`256 B × ${row.replace("+", "\\+")} +│`), row);
  }
  t.match(output, /^checksum -?\d+ /m);
});
