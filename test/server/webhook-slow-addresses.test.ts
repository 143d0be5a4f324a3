import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { findWith } from "../../server/webhooks/addresses.js";
import { createPost, UNUSABLE_ADDRESS } from "../../server/webhooks/request.js";
import { openNameServer } from "../support/name-server.js";

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
async function failureOf(addresses: string[], port: number) {
  const { resolver } = await openNameServer(() => addresses);
  const post = createPost({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: false }, { resolver, allowedAddresses: addresses });
  const start = performance.now();
  const message = await post(`https://receiver.example.com:${port}/`, {}, "{}").then(
    () => "accepted",
    (error: Error) => error.message,
  );
  return { message, seconds: (performance.now() - start) / 1000 };
}

const CONNECTED = "the connection was closed without an answer";

test.each([
  ["IPv4", "127.0.0.2"],
  ["IPv6", "2001:db8::1"],
])(
  "a first address that takes longer than 250 ms is connected to, though the second, of %s, does not work",
  async (_, second) => {
    const { port, release } = await openBusyAddress("127.0.0.1");
    setTimeout(release, 400);
    const { message, seconds } = await failureOf(["127.0.0.1", second], port);
    expect(message).toBe(CONNECTED);
    expect(seconds).toBeGreaterThan(0.4);
  },
);

test("a first address that does not answer leaves the second half of the 10 s", async () => {
  const { port } = await openBusyAddress("127.0.0.1");
  const server = createServer((socket) => socket.destroy()).listen(port, "127.0.0.2");
  onTestFinished(() => void server.close());
  const { message, seconds } = await failureOf(["127.0.0.1", "127.0.0.2"], port);
  expect(message).toBe(CONNECTED);
  expect(seconds).toBeGreaterThan(4.5);
  expect(seconds).toBeLessThan(9);
});

test("an attempt that has connected to no address leaves no connection that is being opened", async () => {
  const { port } = await openBusyAddress("127.0.0.1");
  const connecting = () => process.getActiveResourcesInfo().filter((name) => name === "TCPConnectWrap").length;
  const before = connecting();
  const { message, seconds } = await failureOf(["127.0.0.1"], port);
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
