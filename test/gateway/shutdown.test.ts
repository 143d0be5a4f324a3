import { describe, expect, test } from "vitest";
import { makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { errorCodeOf } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";

describe("graceful shutdown", () => {
  test("requests in flight are finished, new requests get 503, and /readyz reports draining", async () => {
    const gateway = await startTestGateway();
    const { key, userId } = await gateway.addKeyHolder();
    const services = await gateway.services();
    const { id } = await makeListing(services, userId);
    const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [id]);

    const auth = `Host: x\r\nAuthorization: Bearer ${key}\r\n`;
    const body = JSON.stringify(uniqueStay(id));
    const busy = await gateway.openConnection();
    const json = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    busy.write(`POST /v1/forms HTTP/1.1\r\n${auth}${json}${body}`);
    await waitForBlocked(services, 1);
    // Keep-alive connections: two with an incomplete request, and one that is idle.
    const begun = await gateway.openConnection();
    begun.write(`GET /v1/listings HTTP/1.1\r\n${auth}\r\n`);
    expect((await begun.readResponse()).status).toBe(200);
    begun.write("GET /v1/forms HTTP/1.1\r\n");
    const probe = await gateway.openConnection();
    probe.write("GET /readyz HTTP/1.1\r\n");
    const idle = await gateway.openConnection();
    idle.write(`GET /v1/listings HTTP/1.1\r\n${auth}\r\n`);
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

  test("shutdown waits at most DRAIN_SECONDS, which is 10 by default", async () => {
    const gateway = await startTestGateway({ DRAIN_SECONDS: 1 });
    const { key } = await gateway.addKeyHolder();
    const wire = await gateway.openConnection();
    const head = [
      "POST /v1/forms HTTP/1.1",
      "Host: x",
      `X-API-Key: ${key}`,
      "Content-Type: application/json",
    ];
    wire.write([...head, "Content-Length: 100", "", "{"].join("\r\n"));
    await gateway.request({ path: "/livez" });
    const began = performance.now();
    await gateway.shutDown();
    await wire.closed;
    const took = performance.now() - began;
    expect(took).toBeGreaterThan(900);
    expect(took).toBeLessThan(4_000);
    const unset = await startTestGateway();
    expect(unset.settings.DRAIN_SECONDS).toBe(10);
  });
});
