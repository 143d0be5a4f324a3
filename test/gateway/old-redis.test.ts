import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startTestGateway } from "../support/gateway.js";

test("a Redis older than 6 is reported once, and rate limits are counted in the process", async () => {
  // The response of Redis 5 to the client's first command.
  const old = createServer((socket) => {
    socket.on("data", () =>
      socket.write("-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"),
    );
    socket.on("error", () => {});
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void old.close());
  await once(old, "listening");
  const { port } = old.address() as AddressInfo;
  const gateway = await startTestGateway({ REDIS_URL: `redis://127.0.0.1:${port}`, RATE_LIMIT_MAX: 2 });
  const { key } = await gateway.addKeyHolder();
  const list = async () => (await gateway.request({ path: "/v1/listings", key })).status;
  expect([await list(), await list(), await list()]).toEqual([200, 200, 429]);
  const lost = gateway.log.filter(({ msg }) => msg.startsWith("Redis is unavailable"));
  expect(lost.map(({ reason }) => reason)).toEqual(["it is older than Redis 6, the minimum version"]);
});
