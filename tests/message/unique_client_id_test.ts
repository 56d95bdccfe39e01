import t from "tap";
import { UniqueClientIds } from "../../lib/message/unique_client_id.ts";

const SOURCE = { address: Uint8Array.of(192, 168, 1, 10), pid: 8000, loaderHash: 0x18b4aac2 };
const CLOCK = new Date(2024, 8, 19, 10).getTime();

t.test("UniqueClientIds.next() joins address, process, time and counter", async (t) => {
  const ids = new UniqueClientIds(SOURCE);
  t.equal(ids.next(CLOCK), "C0A8010A1F4018B4AAC25ED7C9000000");
  t.equal(ids.next(CLOCK + 1), "C0A8010A1F4018B4AAC25ED7C9010001");
});

t.test("UniqueClientIds.next() counts to 65535 and begins anew", async (t) => {
  const ids = new UniqueClientIds(SOURCE);
  const seen = new Set<string>();
  for (let i = 0; i < 65536; i++) seen.add(ids.next(CLOCK));
  t.equal(seen.size, 65536);
  t.ok(seen.has(ids.next(CLOCK)));
});

t.test("UniqueClientIds.next() begins a new month, and forgives a small step back", async (t) => {
  const ids = new UniqueClientIds(SOURCE);
  ids.next(CLOCK);
  const october = new Date(2024, 9, 1).getTime();
  t.match(ids.next(october + 5), /^C0A8010A1F4018B4AAC2000000050001$/);
  t.match(ids.next(october - 1000), /^C0A8010A1F4018B4AAC2000000000002$/);
});

t.test("UniqueClientIds takes IPv6, and no other address", async (t) => {
  const v6 = new UniqueClientIds({ ...SOURCE, address: new Uint8Array(16).fill(1) });
  t.equal(v6.next(CLOCK).length, 56);
  t.throws(() => new UniqueClientIds({ ...SOURCE, address: new Uint8Array(5) }), {
    name: "RangeError",
  });
});
