import t from "tap";
import { compressionType, takesQueueOffset, transactionType } from "../../lib/message/sys_flag.ts";

t.test("transactionType() reads bits 2 and 3 alone", async (t) => {
  t.equal(transactionType(0), "none");
  t.equal(transactionType(0x4), "prepared");
  t.equal(transactionType(0x8), "commit");
  t.equal(transactionType(0xc), "rollback");
  t.equal(transactionType(~0xc), "none");
  t.equal(transactionType(-1), "rollback");
});

t.test("takesQueueOffset() says no for prepared and rollback", async (t) => {
  t.strictSame([0, 0x4, 0x8, 0xc, 0x30].map(takesQueueOffset), [true, false, true, false, true]);
});

t.test("compressionType() knows old and new zlib, lz4, zstd", async (t) => {
  t.equal(compressionType(0x300), undefined, "not compressed");
  t.equal(compressionType(0x001), "zlib");
  t.equal(compressionType(0x101), "lz4");
  t.equal(compressionType(0x201), "zstd");
  t.equal(compressionType(0x301), "zlib");
  t.equal(compressionType(0x401), "unknown");
});
