import { expect, test } from "vitest";
import { readSettings } from "../../server/config.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { errorCodeOf } from "../support/response.js";
import { startHolderGateway } from "./holder-gateway.js";

test("requests in flight are finished, new requests get 503, and /readyz reports draining", async () => {
  const { gateway, services, holder, listingId, rawCreate } = await startHolderGateway();
  const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [listingId]);
  const auth = `Host: x\r\nAuthorization: Bearer ${holder.key}\r\n`;
  const busy = await gateway.openConnection();
  const { head, body } = rawCreate();
  busy.write(head + body);
  await waitForBlocked(services, 1);
  // Keep-alive connections: two with an incomplete request, and one that is idle.
  const [begun, probe, idle] = [
    await gateway.openConnection(),
    await gateway.openConnection(),
    await gateway.openConnection(),
  ];
  const list = `GET /v1/listings HTTP/1.1\r\n${auth}\r\n`;
  begun.write(list);
  expect((await begun.readResponse()).status).toBe(200);
  begun.write("GET /v1/forms HTTP/1.1\r\n");
  probe.write("GET /readyz HTTP/1.1\r\n");
  idle.write(list);
  expect((await idle.readResponse()).status).toBe(200);

  const began = performance.now();
  const stopped = gateway.shutDown();
  await idle.closed;
  begun.write(`${auth}\r\n`);
  const rejected = await begun.readResponse();
  expect([rejected.status, errorCodeOf(rejected)]).toEqual([503, "INTERNAL_ERROR"]);
  expect(rejected.headers.connection).toBe("close");
  expect(rejected.headers["retry-after"]).toMatch(/^[1-9]\d*$/);
  await begun.closed;
  probe.write("Host: x\r\n\r\n");
  const ready = await probe.readResponse("GET", "/readyz");
  expect([ready.status, ready.json]).toEqual([503, { status: "unavailable", reason: "draining" }]);
  await expect(gateway.openConnection()).rejects.toThrow("ECONNREFUSED");

  await lock.commit();
  expect((await busy.readResponse("POST")).status).toBe(201);
  await busy.closed;
  await stopped;
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(await gateway.countRows("forms")).toBe(1);
});

test("shutdown waits at most DRAIN_SECONDS, which is 15 by default", async () => {
  const { gateway, headOfCreate } = await startHolderGateway({ DRAIN_SECONDS: 1 });
  const wire = await gateway.openConnection();
  wire.write(`${headOfCreate("Content-Length: 100")}{`);
  await gateway.request({ path: "/livez" });
  const began = performance.now();
  await gateway.shutDown();
  await wire.closed;
  const took = performance.now() - began;
  expect(took).toBeGreaterThan(900);
  expect(took).toBeLessThan(4_000);
  expect(readSettings({}).DRAIN_SECONDS).toBe(15);
});
