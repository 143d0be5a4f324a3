import type { promises } from "node:dns";
import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createPost, UNUSABLE_ADDRESS, whyUrlIsRefused } from "../../server/webhooks/request.js";
import { openNameServer } from "../support/name-server.js";

const SETTINGS = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: false };

/** Counts the connections to this address, which are closed at once. */
async function openListener(address: string, port = 0) {
  const listener = { connections: 0, port };
  const server = createServer((socket) => {
    listener.connections++;
    socket.on("error", () => {}).destroy();
  });
  await new Promise<void>((resolve) => server.listen(port, address, resolve));
  onTestFinished(() => void server.close());
  const bound = server.address();
  if (bound === null || typeof bound === "string") throw new Error("the server has no port");
  listener.port = bound.port;
  return listener;
}

/** How a delivery to the URL fails: its message and duration. */
const failureOf = (post: ReturnType<typeof createPost>, url: string) =>
  post(url, {}, "{}").then(
    () => expect.fail("it was accepted"),
    ({ message, durationMs }) => ({ message, durationMs }),
  );

const REFUSED = { message: UNUSABLE_ADDRESS, durationMs: null };

test.each([
  ["loopback", "127.0.0.1"],
  ["all of the loopback network", "127.8.9.10"],
  ["this host", "0.0.0.0"],
  ["this network", "0.1.2.3"],
  ["private, 10/8", "10.0.0.1"],
  ["private, 172.16/12", "172.31.255.254"],
  ["private, 192.168/16", "192.168.1.1"],
  ["shared, of carriers", "100.64.0.1"],
  ["metadata of Alibaba", "100.100.100.200"],
  ["link-local, metadata of AWS, Azure and Google", "169.254.169.254"],
  ["metadata of Amazon ECS", "169.254.170.2"],
  ["metadata of Oracle", "192.0.0.192"],
  ["metadata of Azure, at a public address", "168.63.129.16"],
  ["benchmarks", "198.18.0.1"],
  ["documentation", "203.0.113.7"],
  ["multicast", "224.0.0.1"],
  ["reserved", "240.0.0.1"],
  ["broadcast", "255.255.255.255"],
  ["unspecified, IPv6", "::"],
  ["loopback, IPv6", "::1"],
  ["IPv4 mapped in IPv6", "::ffff:127.0.0.1"],
  ["public IPv4 mapped in IPv6", "::ffff:8.8.8.8"],
  ["IPv4 translated, RFC 6145", "::ffff:0:10.0.0.1"],
  ["NAT64", "64:ff9b::a9fe:a9fe"],
  ["local NAT64", "64:ff9b:1::a00:1"],
  ["6to4", "2002:a00:1::1"],
  ["Teredo", "2001:0:1::1"],
  ["unique local, metadata of AWS", "fd00:ec2::254"],
  ["link-local, IPv6", "fe80::1"],
  ["site-local", "fec0::1"],
  ["multicast, IPv6", "ff02::1"],
  ["documentation, IPv6", "2001:db8::1"],
  ["IPv4-compatible IPv6", "::7f00:1"],
  ["public IPv4-compatible IPv6", "::808:808"],
  ["discard", "100::1"],
  ["dummy", "100:0:0:1::1"],
])(
  "a name with an address that is %s is refused, also as the second one after a public one, without a connection",
  async (_, address) => {
    const { resolver } = await openNameServer((name) => {
      if (name.startsWith("second")) return ["8.8.8.8", address];
      return name.startsWith("third") ? ["8.8.8.8", "2606:4700:4700::1111", address] : [address];
    });
    const post = createPost(SETTINGS, { resolver });
    for (const name of ["only", "second", "third"])
      expect(await failureOf(post, `https://${name}.example.com/`)).toEqual(REFUSED);
  },
);

test.each(["::7f00:1", "::127.0.0.1", "::808:808", "::8.8.8.8"])(
  "an IPv4 address in IPv6 is refused in every notation in which a resolver may return it: %s",
  async (address) => {
    const resolver = { resolve4: async () => [], resolve6: async () => ["2606:4700:4700::1111", address] };
    // Only addresses are wanted.
    const post = createPost(SETTINGS, { resolver: resolver as unknown as promises.Resolver });
    expect(await failureOf(post, "https://internal.example.com/")).toEqual(REFUSED);
  },
);

test("a name that does not exist, and one whose server does not answer, are refused with the same words", async () => {
  const { resolver } = await openNameServer((name) => (name.startsWith("silent") ? "silent" : []));
  const post = createPost(SETTINGS, { resolver });
  expect(await failureOf(post, "https://nowhere.example.com/")).toEqual(REFUSED);
  expect(await failureOf(post, "https://silent.example.com/")).toEqual(REFUSED);
});

test.each([
  "https://127.0.0.1/",
  "https://127.1/",
  "https://2130706433/",
  "https://0x7f000001/",
  "https://0177.0.0.1/",
  "https://[::1]/",
  "https://[::ffff:127.0.0.1]/",
  "https://[::127.0.0.1]/",
  "https://169.254.169.254/latest/meta-data/",
  "https://8.8.8.8/",
  "http://example.com/",
  "file:///etc/passwd",
])("a URL stored while it was allowed is not sent to anymore: %s", async (url) => {
  expect(whyUrlIsRefused(url, SETTINGS)).toBeDefined();
  const { resolver, queries } = await openNameServer(() => ["127.0.0.1"]);
  expect(await failureOf(createPost(SETTINGS, { resolver }), url)).toEqual(REFUSED);
  expect(queries).toEqual([]);
});

test("a name that changes its address between lookups never reaches the private one: each connection is made to the address that was checked", async () => {
  // 127.0.0.2 plays the public address.
  const allowed = await openListener("127.0.0.2");
  const forbidden = await openListener("127.0.0.1", allowed.port);
  let lookups = 0;
  const { resolver, queries } = await openNameServer(() => (lookups++ % 4 < 2 ? ["127.0.0.2"] : ["127.0.0.1"]));
  const post = createPost(SETTINGS, { resolver, allowedAddresses: ["127.0.0.2"] });
  const url = `https://rebinding.example.com:${allowed.port}/`;
  const failures = [];
  for (let count = 0; count < 10; count++) failures.push((await failureOf(post, url)).message);
  expect(new Set(failures)).toEqual(new Set([UNUSABLE_ADDRESS, "the connection was closed without an answer"]));
  expect(allowed.connections).toBeGreaterThan(3);
  expect(forbidden.connections).toBe(0);
  expect(queries).toHaveLength(10);
});

test("names are not read from the machine's hosts file, nor completed by its search domains", async () => {
  const { resolver, queries } = await openNameServer(() => []);
  const post = createPost(SETTINGS, { resolver });
  for (const host of ["localhost", "db"]) expect(await failureOf(post, `https://${host}/`)).toEqual(REFUSED);
  expect(queries).toEqual(["localhost", "db"]);
});
