/**
 * Addresses as the record holds them: 4 or 16 bytes of IP address, then the port as an i32.
 *
 * An IPv4-mapped IPv6 address (`::ffff:1.2.3.4`, as Node gives it on a dual-stack socket) is
 * written as IPv4, because Java turns it into one. Text of an IPv6 address is Java's
 * (`InetAddress.getHostAddress`): eight groups, none left out, without leading zeros.
 *
 * @module
 */

import { readInt32, writeInt32 } from "./int64.ts";

/** Bytes of an IPv4 address with its port. */
export const HOST_V4_SIZE = 4 + 4;
/** Bytes of an IPv6 address with its port. */
export const HOST_V6_SIZE = 16 + 4;

/** The largest port of Java's `InetSocketAddress`; a record beyond it is unreadable there. */
const PORT_MAX = 65535;

/** An address in the form in which it is stored. */
export interface EncodedHost {
  /** 8 or 20 bytes. Shared: do not change them. */
  readonly bytes: Uint8Array;
  /** Whether the address is IPv6, so that `bytes` has 20 bytes and SYSFLAG needs its bit. */
  readonly v6: boolean;
  /** `1.2.3.4:5` or `[0:0:0:0:0:0:0:1]:5`. */
  readonly text: string;
  /** `bytes` in upper-case hex: the first part of a message id. */
  readonly hex: string;
}

/** Producers are few; a broker of many clients sees some thousands. */
const CACHE_SIZE_MAX = 4096;
const cache = new Map<string, EncodedHost>();

/**
 * Reads `1.2.3.4:5` or `[::1]:5`. Names are not looked up.
 *
 * @param text An IP address and a port of 0 to 65535. A zone (`%eth0`) is ignored.
 * @returns The encoded form, shared among calls with the same text.
 * @throws {TypeError} If it is not text.
 * @throws {RangeError} If it is not of that form.
 */
export function parseHost(text: string): EncodedHost {
  let host = cache.get(text);
  if (host === undefined) {
    host = encodeHost(text);
    if (cache.size >= CACHE_SIZE_MAX) cache.clear();
    cache.set(text, host);
  }
  return host;
}

function encodeHost(text: string): EncodedHost {
  if (typeof text !== "string") {
    throw new TypeError(`Cannot read host: expected text such as "1.2.3.4:5", got ${typeof text}`);
  }
  const parts = /^(?:\[([0-9A-Fa-f:.]+)(?:%[^\]]*)?\]|([0-9.]+)):([0-9]{1,5})$/.exec(text);
  const port = Number(parts?.[3]);
  const address = parts === null ? undefined : parseAddress(parts[1], parts[2]);
  if (address === undefined || port > PORT_MAX) {
    throw new RangeError(
      `Cannot read host "${text}": expected an address and a port such as "1.2.3.4:5", "[::1]:5"`,
    );
  }
  const bytes = new Uint8Array(address.length + 4);
  bytes.set(address);
  writeInt32(bytes, address.length, port);
  return hostOf(bytes);
}

function hostOf(bytes: Uint8Array): EncodedHost {
  return {
    bytes,
    v6: bytes.length === HOST_V6_SIZE,
    text: formatHost(bytes),
    hex: Buffer.from(bytes).toString("hex").toUpperCase(),
  };
}

function parseAddress(v6: string | undefined, v4: string | undefined): number[] | undefined {
  if (v6 === undefined) return parseIpv4(v4!);
  const address = parseIpv6(v6);
  return address !== undefined && isMapped(address) ? address.slice(12) : address;
}

function parseIpv4(text: string): number[] | undefined {
  const parts = text.split(".");
  // "010" is 10 to some readers and 8 to others: refused.
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part))) {
    return undefined;
  }
  const bytes = parts.map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : undefined;
}

function parseIpv6(text: string): number[] | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0]!, halves.length === 1);
  if (head === undefined) return undefined;
  if (halves.length === 1) return head.length === 16 ? head : undefined;
  const tail = parseGroups(halves[1]!, true);
  // "::" stands for at least one group.
  if (tail === undefined || head.length + tail.length > 14) return undefined;
  return [...head, ...new Array<number>(16 - head.length - tail.length).fill(0), ...tail];
}

/** Bytes of groups between colons; the last may be an IPv4 address if it ends the whole. */
function parseGroups(text: string, isEnd: boolean): number[] | undefined {
  if (text === "") return [];
  const bytes: number[] = [];
  const groups = text.split(":");
  for (const [i, group] of groups.entries()) {
    if (/^[0-9A-Fa-f]{1,4}$/.test(group)) {
      const value = Number.parseInt(group, 16);
      bytes.push(value >>> 8, value & 0xff);
      continue;
    }
    const embedded = isEnd && i === groups.length - 1 ? parseIpv4(group) : undefined;
    if (embedded === undefined) return undefined;
    bytes.push(...embedded);
  }
  return bytes;
}

function isMapped(address: ArrayLike<number>): boolean {
  for (let i = 0; i < 10; i++) if (address[i] !== 0) return false;
  return address[10] === 0xff && address[11] === 0xff;
}

/**
 * The text of an encoded host.
 *
 * @param bytes 8 bytes (IPv4) or 20 bytes (IPv6), from a record or an {@linkcode EncodedHost}.
 * @returns `1.2.3.4:5`, `[0:0:0:0:0:0:0:1]:5`; a mapped address as the IPv4 one that it means. The
 * port is printed as the i32 that it is.
 * @throws {RangeError} If there are neither 8 nor 20 bytes.
 */
export function formatHost(bytes: Uint8Array): string {
  if (bytes.length === HOST_V4_SIZE) {
    return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}:${readInt32(bytes, 4)}`;
  }
  if (bytes.length !== HOST_V6_SIZE) {
    throw new RangeError(
      `Cannot read host of ${bytes.length} bytes: expected ${HOST_V4_SIZE} or ${HOST_V6_SIZE}`,
    );
  }
  if (isMapped(bytes)) return formatHost(bytes.subarray(12));
  const groups: string[] = [];
  for (let i = 0; i < 16; i += 2) groups.push(((bytes[i]! << 8) | bytes[i + 1]!).toString(16));
  return `[${groups.join(":")}]:${readInt32(bytes, 16)}`;
}
