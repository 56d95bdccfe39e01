import fc from "fast-check";
import t from "tap";
import { formatHost, parseHost } from "../../lib/message/host.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

t.test("parseHost() writes address and port as RocketMQ does", async (t) => {
  const v4 = parseHost("192.168.1.10:54321");
  t.equal(hex(v4.bytes), "c0a8010a0000d431");
  t.equal(v4.v6, false);
  t.equal(v4.text, "192.168.1.10:54321");
  const v6 = parseHost("[2001:db8::1]:54321");
  t.equal(hex(v6.bytes), "20010db80000000000000000000000010000d431");
  t.equal(v6.v6, true);
  t.equal(v6.hex, "20010DB80000000000000000000000010000D431");
});

t.test("parseHost() takes every form of IPv6, and prints it as Java does", async (t) => {
  // Right-hand sides printed by InetAddress.getHostAddress.
  const cases: [string, string][] = [
    ["::1", "0:0:0:0:0:0:0:1"],
    ["::", "0:0:0:0:0:0:0:0"],
    ["1::", "1:0:0:0:0:0:0:0"],
    ["2001:db8::7", "2001:db8:0:0:0:0:0:7"],
    ["1:0:0:2::3", "1:0:0:2:0:0:0:3"],
    ["2001:DB8:0:0:8:800:200C:417A", "2001:db8:0:0:8:800:200c:417a"],
    ["::1.2.3.4", "0:0:0:0:0:0:102:304"],
    ["64:ff9b::192.0.2.33", "64:ff9b:0:0:0:0:c000:221"],
    ["fe80::1%eth0", "fe80:0:0:0:0:0:0:1"],
    ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"],
  ];
  for (const [text, printed] of cases) {
    t.equal(parseHost(`[${text}]:10911`).text, `[${printed}]:10911`, text);
  }
});

t.test("parseHost() makes IPv4 of an IPv4-mapped address", async (t) => {
  for (const text of ["[::ffff:1.2.3.4]:5", "[::FFFF:102:304]:5", "[0:0:0:0:0:ffff:102:304]:5"]) {
    const host = parseHost(text);
    t.equal(hex(host.bytes), "0102030400000005", text);
    t.equal(host.v6, false);
    t.equal(host.text, "1.2.3.4:5");
  }
});

t.test("parseHost() gives the same object for the same text", async (t) => {
  t.equal(parseHost("1.2.3.4:5"), parseHost("1.2.3.4:5"));
});

t.test("parseHost() keeps working when more hosts come than it remembers", async (t) => {
  for (let i = 0; i < 10_000; i++) {
    const text = `10.0.${i >> 8}.${i & 255}:${i}`;
    if (parseHost(text).text !== text) t.fail(text);
  }
});

t.test("parseHost() refuses what is no address and port", async (t) => {
  const wrong = [
    "",
    "1.2.3.4",
    "1.2.3.4:",
    "1.2.3.4:65536",
    "1.2.3.4:-1",
    "1.2.3:4",
    "1.2.3.256:4",
    "1.2.3.04:4",
    "localhost:80",
    "::1:5",
    "[::1]",
    "[1.2.3.4]:5",
    "[1:2:3:4:5:6:7]:5",
    "[1:2:3:4:5:6:7:8:9]:5",
    "[1:2:3:4:5:6:7:8::]:5",
    "[1::2::3]:5",
    "[12345::]:5",
    "[::1.2.3]:5",
    "[1.2.3.4::]:5",
    "[:1:2:3:4:5:6:7]:5",
    " 1.2.3.4:5",
  ];
  for (const text of wrong) t.throws(() => parseHost(text), { name: "RangeError" }, text);
  t.throws(() => parseHost(5 as unknown as string), { name: "TypeError" });
});

t.test("formatHost() prints the port as an i32 and refuses other lengths", async (t) => {
  t.equal(formatHost(Buffer.from("01020304ffffffff", "hex")), "1.2.3.4:-1");
  t.throws(() => formatHost(new Uint8Array(9)), {
    name: "RangeError",
    message: "Cannot read host of 9 bytes: expected 8 or 20",
  });
});

t.test("parseHost() reads back what formatHost() prints", async () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ minLength: 4, maxLength: 4 }),
        fc.uint8Array({ minLength: 16, maxLength: 16 }),
      ),
      fc.nat(65535),
      (address, port) => {
        const bytes = Buffer.alloc(address.length + 4);
        bytes.set(address);
        bytes.writeInt32BE(port, address.length);
        return Buffer.compare(parseHost(formatHost(bytes)).bytes, bytes) === 0;
      },
    ),
  );
});
