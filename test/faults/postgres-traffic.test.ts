import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { seededRandom } from "../support/statistics.js";
import { Traffic } from "./postgres-traffic.js";

/** Sends requests of one kind to a server that handles all of them with `respond`. */
async function trafficTo(kind: "list" | "create", respond: RequestListener): Promise<Traffic> {
  const server = createServer(respond).listen(0, "127.0.0.1");
  await once(server, "listening");
  const none = { create: 0, repeat: 0, update: 0, list: 0, fetch: 0, listing: 0 };
  const traffic = new Traffic({
    urls: [`http://127.0.0.1:${(server.address() as AddressInfo).port}`],
    key: "grf_rw_key",
    listingIds: ["00000000-0000-4000-8000-000000000001"],
    perSecond: 100,
    mix: { ...none, [kind]: 1 },
    random: seededRandom(1),
    expectsConnectionErrors: true,
  });
  onTestFinished(() => {
    traffic.close();
    server.close();
  });
  traffic.start();
  await expect
    .poll(() => traffic.samples.length + traffic.connectionErrors + traffic.violations.length)
    .toBeGreaterThan(3);
  await traffic.stop();
  return traffic;
}

const json =
  (status: number, body: unknown, headers = {}): RequestListener =>
  (_, response) =>
    void response
      .writeHead(status, {
        "Content-Type": "application/json",
        "X-Correlation-Id": CORRELATION_ID,
        ...headers,
      })
      .end(JSON.stringify(body));

const CORRELATION_ID = "00000000-0000-4000-8000-000000000002";
const unavailable = { code: "INTERNAL_ERROR", message: "Try again.", correlationId: CORRELATION_ID };

describe("the load of fault tests and the soak, if connections may break", () => {
  test.each<[string, "list" | "create", RequestListener, RegExp]>([
    [
      "a body with an undocumented field",
      "list",
      json(200, { items: [], nextCursor: null, more: 1 }),
      /additional/,
    ],
    ["a missing field", "list", json(200, { nextCursor: null }), /items/],
    ["an undocumented status", "create", json(207, {}), /207/],
    ["a 500", "list", json(500, unavailable), /500/],
    ["a 503 without Retry-After", "list", json(503, unavailable), /Retry-After/],
    ["a body that is not JSON", "list", (_, response) => void response.end("{"), /JSON/],
  ])("reports %s as a violation, not as a broken connection", async (_, kind, respond, problem) => {
    const { violations, connectionErrors } = await trafficTo(kind, respond);
    expect(violations.length).toBeGreaterThan(3);
    for (const violation of violations) expect(violation).toMatch(problem);
    expect(connectionErrors).toBe(0);
  });

  test.each<[string, RequestListener]>([
    ["closed before the response", (request) => void request.socket.destroy()],
    [
      "reset in the middle of the response",
      (request, response) => {
        response.writeHead(200, { "Content-Length": 100 }).write("{", () => request.socket.resetAndDestroy());
      },
    ],
  ])("counts a connection that is %s, and reports no violation", async (_, respond) => {
    const { violations, connectionErrors } = await trafficTo("list", respond);
    expect(violations).toEqual([]);
    expect(connectionErrors).toBeGreaterThan(3);
  });

  test("accepts a 503 with Retry-After", async () => {
    const { violations, connectionErrors, samples } = await trafficTo(
      "list",
      json(503, unavailable, { "Retry-After": "1" }),
    );
    expect({ violations, connectionErrors }).toEqual({ violations: [], connectionErrors: 0 });
    expect(samples.length).toBeGreaterThan(3);
  });
});
