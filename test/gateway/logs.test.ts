import { expect, test } from "vitest";
import type { LogLine } from "../support/gateway.js";
import { errorCodeOf } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import { startHolderGateway } from "./holder-gateway.js";

// `test/support/gateway.ts` also checks in every test file that no log line has a key or a holder's email address, and
// that every request, also a rejected one, has its own line.
const { gateway, holder, headOfCreate } = await startHolderGateway();

const UNKNOWN_ID = "0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f";
const EMAIL = "guest.of.the.logs@example.com";

test("each request has one log line with its correlation id, key id, operation and status", async () => {
  const answer = await gateway.request({ path: "/v1/forms?limit=1", key: holder.key });
  expect(await gateway.logLinesOf(answer)).toEqual([
    expect.objectContaining({
      msg: "request",
      correlationId: answer.headers["x-correlation-id"],
      keyId: holder.keyId,
      method: "GET",
      route: "/v1/forms",
      operation: "forms.list",
      status: 200,
      ms: expect.any(Number),
    }),
  ]);
});

test.each([
  ["GET", `/v1/forms/${UNKNOWN_ID}`, { route: "/v1/forms/{id}", operation: "forms.get" }],
  ["HEAD", "/v1/listings?limit=1", { route: "/v1/listings", operation: "listings.list" }],
  ["PUT", `/v1/forms/${UNKNOWN_ID}`, { route: "/v1/forms/{id}", operation: "forms.update" }],
  ["PATCH", "/v1/forms", { route: "/v1/forms" }],
  ["OPTIONS", "/v1/forms", { route: "/v1/forms" }],
  ["GET", "http://user:hunter2@example.com/v1/forms", { route: "/v1/forms", operation: "forms.list" }],
  ["GET", "/openapi.json", { route: "/openapi.json" }],
  ["GET", "/docs/nothing", { route: "/docs/{page}" }],
  ["GET", "/", { route: "/" }],
  ["GET", "/v1/form", { route: "unknown", path: "/v1/form" }],
  ["POST", "/api/V1/forms/", { route: "unknown", path: "/api/V1/forms/" }],
  ["GET", "//v1/forms", { route: "unknown", path: "//v1/forms" }],
  ["GET", "/v1/forms/hunter2/guests?x=hunter2", { route: "unknown", path: "/v1/forms/*/guests" }],
  ["GET", `/v1/listings/${UNKNOWN_ID}/forms`, { route: "unknown", path: "/v1/listings/*/forms" }],
  ["GET", "/V1StGXR8_Z5jdHi6B-myT", { route: "unknown", path: "/*" }],
  ["GET", "/abcdefghijklmnopqrstu", { route: "unknown", path: "/*" }],
  ["GET", "/guest@example.com/guest%40example.com", { route: "unknown", path: "/*/*" }],
  ["GET", "/v1/forms#hunter2", { route: "unknown", path: "/v1/*" }],
  ["GET", `/${"a/".repeat(20)}`, { route: "unknown", path: "/a/a/a/a/a/a/a/a/…" }],
])("a path is logged as its route template, or masked if it is unknown: %s %s", async (method, path, expected) => {
  // With a key, and without one: then only the method and path are known.
  for (const key of [holder.key, null]) {
    const answer = await gateway.request({ method, path, key });
    const [line] = (await gateway.logLinesOf(answer)).filter(({ msg }) => msg === "request");
    const { route, path: shown, operation }: Partial<LogLine> = line ?? {};
    expect({ route, path: shown, operation }).toEqual({ operation: undefined, path: undefined, ...expected });
    expect(line).toMatchObject({ level: 30, method });
    expect(JSON.stringify(line)).not.toMatch(/hunter2|example/);
  }
});

test("health checks are logged at debug level", async () => {
  for (const path of ["/livez", "/readyz"]) {
    const [line] = await gateway.logLinesOf(await gateway.request({ path }));
    expect(line).toMatchObject({ level: 20, msg: "request", route: path, status: 200 });
  }
});

test("a request whose client disconnects is logged as aborted", async () => {
  const wire = await gateway.openConnection();
  wire.write(`${headOfCreate("Content-Length: 100")}{`);
  const count = () => gateway.log.filter(({ status }) => status === "aborted").length;
  const before = count();
  // A response to a later request shows that this one has begun.
  await expect.poll(() => gateway.request({ path: "/livez" })).toMatchObject({ status: 200 });
  wire.close();
  await expect.poll(count).toBe(before + 1);
});

test("a 500 is logged with its cause and correlation id, and the response has neither cause nor stack", async () => {
  const { gateway: broken, services, listingId: id, create } = await startHolderGateway();
  broken.forbidInLog(EMAIL);
  await services.db.pool.query("ALTER TABLE creations RENAME TO gone");
  const answer = await create(uniqueStay(id, { guestEmail: EMAIL }));
  expect([answer.status, errorCodeOf(answer)]).toEqual([500, "INTERNAL_ERROR"]);
  expect(answer.headers["retry-after"]).toBeUndefined();
  const lines = await broken.logLinesOf(answer);
  expect(lines.map(({ msg }) => msg).sort()).toEqual(["request", "request failed"]);
  expect(JSON.stringify(lines)).toMatch(/creations/);
});
