import type { promises } from "node:dns";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { findWith } from "../../server/webhooks/addresses.js";
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

const CONNECTED = "the connection was closed without an answer";
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
  expect(new Set(failures)).toEqual(new Set([UNUSABLE_ADDRESS, CONNECTED]));
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

/** Listens in a thread that accepts nothing until it is released, which may be never. */
const BUSY_SERVER = `
  const { parentPort, workerData } = require("node:worker_threads");
  const server = require("node:net").createServer((socket) => socket.on("error", () => {}).destroy());
  server.listen({ host: workerData.host, port: 0, backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(workerData.isReleased, 0, 0);
  });`;

/** Opens an address whose queue of connections is full: the kernel answers to no further ones until it is released. */
async function openBusyAddress(host: string) {
  const isReleased = new Int32Array(new SharedArrayBuffer(4));
  const release = () => {
    Atomics.store(isReleased, 0, 1);
    Atomics.notify(isReleased, 0);
  };
  const worker = new Worker(BUSY_SERVER, { eval: true, workerData: { host, isReleased } });
  const sockets: Socket[] = [];
  onTestFinished(async () => {
    release();
    for (const socket of sockets) socket.destroy();
    await worker.terminate();
  });
  const port = await new Promise<number>((resolve) => worker.once("message", resolve));
  for (let isFull = false; !isFull; ) {
    const socket = connect(port, host).on("error", () => {});
    sockets.push(socket);
    isFull = await Promise.race([
      new Promise<false>((resolve) => socket.once("connect", () => resolve(false))),
      sleep(100, true),
    ]);
  }
  return { port, release };
}

/** How a delivery to the addresses of a name fails. That it was closed without an answer means that there was a connection. */
async function timeFailure(addresses: string[], port: number) {
  const { resolver } = await openNameServer(() => addresses);
  const start = performance.now();
  const post = createPost(SETTINGS, { resolver, allowedAddresses: addresses });
  const { message } = await failureOf(post, `https://receiver.example.com:${port}/`);
  return { message, seconds: (performance.now() - start) / 1000 };
}

test.each([
  ["IPv4", "127.0.0.2"],
  ["IPv6", "2001:db8::1"],
])(
  "a first address that takes longer than 250 ms is connected to, though the second, of %s, does not work",
  async (_, second) => {
    const { port, release } = await openBusyAddress("127.0.0.1");
    setTimeout(release, 400);
    const { message, seconds } = await timeFailure(["127.0.0.1", second], port);
    expect(message).toBe(CONNECTED);
    expect(seconds).toBeGreaterThan(0.4);
  },
);

test("a first address that does not answer leaves the second half of the 10 s", async () => {
  const { port } = await openBusyAddress("127.0.0.1");
  await openListener("127.0.0.2", port);
  const { message, seconds } = await timeFailure(["127.0.0.1", "127.0.0.2"], port);
  expect(message).toBe(CONNECTED);
  expect(seconds).toBeGreaterThan(4.5);
  expect(seconds).toBeLessThan(9);
});

test("an attempt that has connected to no address leaves no connection that is being opened", async () => {
  const { port } = await openBusyAddress("127.0.0.1");
  const connecting = () => process.getActiveResourcesInfo().filter((name) => name === "TCPConnectWrap").length;
  const before = connecting();
  const { message, seconds } = await timeFailure(["127.0.0.1"], port);
  expect(message).toBe("no answer within 10 s");
  expect(seconds).toBeLessThan(12);
  await expect.poll(connecting, { timeout: 2_000 }).toBe(before);
});

test("of a name with many addresses, four per family are used", async () => {
  const ipv4 = Array.from({ length: 1_000 }, (_, index) => `8.8.${index >> 8}.${index & 255}`);
  const ipv6 = ipv4.map((_, index) => `2606:4700::${(index + 1).toString(16)}`);
  const find = findWith({ resolve4: async () => ipv4, resolve6: async () => ipv6 } as never);
  const addresses = (await find("many.example.com")).map(({ address }) => address);
  expect(addresses).toEqual([...ipv4.slice(0, 4), ...ipv6.slice(0, 4)]);
});

test.each([
  ["8.8.8.8", 4],
  ["2606:4700::1", 6],
])("one family's query that is not answered leaves the addresses of the other: %s", async (address, family) => {
  const query = (of: number) => () => (of === family ? Promise.resolve([address]) : new Promise<never>(() => {}));
  const find = findWith({ resolve4: query(4), resolve6: query(6) } as never);
  await expect(find("half.example.com")).resolves.toEqual([{ address, family }]);
});

test("a lookup ends after 5 s, however long the name servers take", async () => {
  const never = () => new Promise<never>(() => {});
  const start = performance.now();
  await expect(findWith({ resolve4: never, resolve6: never })("slow.example.com")).rejects.toThrow(UNUSABLE_ADDRESS);
  expect(performance.now() - start).toBeGreaterThan(4_900);
  expect(performance.now() - start).toBeLessThan(8_000);
});
