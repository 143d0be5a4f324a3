import { describe, expect, test } from "vitest";
import { appRouter } from "../../server/router.js";
import { makeKey, makeUser } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { exchange } from "../support/http-client.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { freePort } from "../support/network.js";
import { UUID } from "../support/public-fields.js";
import { errorCodeOf } from "../support/response.js";
import { fixedStay } from "../support/stays.js";
import { createInternalClient, errorOf, startInternalGateway, TOKEN } from "./internal-gateway.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

const { url, gateway } = await startInternalGateway();
const services = await gateway.services();
const operator = createInternalClient(url);
const { userId, listingId } = await makeListingOwner(services);
const user = createInternalClient(url, { userId });

/** Sends a request to the internal port, by default with the token. */
const send = (path: string, init: RequestInit = {}) =>
  fetch(url + path, {
    ...init,
    headers: { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json", ...init.headers },
  });

const post = (body: string, headers = {}): RequestInit => ({ method: "POST", body, headers });

test("a look-up of an address whose caller has gone ends, and is neither audited nor logged as a failure", async () => {
  const email = "guest@people.test";
  const lock = await holdLock(services, "LOCK TABLE forms IN ACCESS EXCLUSIVE MODE");
  const caller = new AbortController();
  const call = send("/trpc/people.find", { ...post(JSON.stringify({ email })), signal: caller.signal });
  await waitForBlocked(services, 1);
  caller.abort();
  await expect(call).rejects.toThrow("aborted");
  await expect.poll(() => gateway.log.some(({ operation }) => operation === "people.find")).toBe(true);
  await lock.rollback();
  // Look-ups run one after the other.
  await operator.people.find.mutate({ email });
  const lookUps = "SELECT FROM audit_entries WHERE action = 'person.looked_up'";
  expect((await services.db.pool.query(lookUps)).rowCount).toBe(1);
  expect(gateway.log.filter(({ msg }) => msg === "call failed")).toEqual([]);
});

describe("calls on behalf of a user", () => {
  test("the operations of the REST API work on behalf of a user, with an Idempotency-Key, and the log line has the user's id", async () => {
    const keyed = createInternalClient(url, { userId, headers: { "Idempotency-Key": "once" } });
    const form = await keyed.forms.create.mutate(fixedStay(listingId, { guestEmail: "guest@people.test" }));
    expect(form).toMatchObject({ listingId, status: "SENT", numberOfVehicles: null });
    const changed = fixedStay(listingId, { numberOfGuests: 3 });
    const reused = { serviceCode: "IDEMPOTENCY_KEY_REUSED", httpStatus: 422 };
    expect(await errorOf(keyed.forms.create.mutate(changed))).toMatchObject(reused);
    const updated = await user.forms.update.mutate({ id: form.id, ...changed });
    expect(await user.forms.get.query({ id: form.id })).toEqual(updated);
    expect(await user.forms.list.query({ listingId })).toEqual({ items: [updated], nextCursor: null });
    expect((await user.listings.list.query({})).items).toMatchObject([{ id: listingId }]);
    expect((await user.listings.get.query({ id: listingId })).id).toBe(listingId);
    const trail = await operator.audit.trail.query({ subjectId: form.id });
    expect(trail).toMatchObject([
      { actor: "user", action: "form.updated", userId },
      { actor: "user", action: "form.created", userId },
    ]);
    expect(JSON.stringify(trail)).not.toContain("people.test");
    const line = gateway.log.find(({ correlationId }) => correlationId === trail[1]?.correlationId);
    expect(line).toMatchObject({ operation: "forms.create", userId, status: 200 });
  });

  test("a user has only their own forms and listings, and may call no procedure of the operator", async () => {
    const other = createInternalClient(url, { userId: (await makeUser(services)).id });
    expect(await other.forms.list.query({})).toEqual({ items: [], nextCursor: null });
    const missing = { serviceCode: "RESOURCE_NOT_FOUND", httpStatus: 404 };
    expect(await errorOf(other.listings.get.query({ id: listingId }))).toMatchObject(missing);
    const forbidden = { serviceCode: "FORBIDDEN", httpStatus: 403 };
    expect(await errorOf(other.users.get.query({ id: userId }))).toMatchObject(forbidden);
  });

  test.each([UNKNOWN_ID, "someone", " "])("the unknown user %j is UNAUTHENTICATED", async (unknownId) => {
    const client = createInternalClient(url, { headers: { "X-User-Id": unknownId } });
    const unauthenticated = { serviceCode: "UNAUTHENTICATED", httpStatus: 401 };
    expect(await errorOf(client.listings.list.query({}))).toMatchObject(unauthenticated);
  });
});

describe("INTERNAL_TOKEN", () => {
  test("every path needs the token, and no other credential is accepted", async () => {
    const { key } = await makeKey(services, userId);
    const wrong = [`${TOKEN}x`, TOKEN.slice(0, -1), TOKEN.toUpperCase(), key].map((token) => `Bearer ${token}`);
    const authorizations = ["", "Bearer", `Basic ${TOKEN}`, TOKEN, ...wrong].map((value) => ({ Authorization: value }));
    const others = [{}, { "X-API-Key": key }, { "X-API-Key": TOKEN }, { "X-User-Id": userId }];
    for (const headers of [...authorizations, ...others] as Record<string, string>[]) {
      for (const path of ["/trpc/listings.list", "/trpc/nothing", "/trpc", "/metrics", "/", "/v1/forms"]) {
        const response = await fetch(url + path, { headers });
        const text = await response.text();
        expect([headers, path, response.status]).toEqual([headers, path, 401]);
        expect(response.headers.get("www-authenticate")).toBe("Bearer");
        expect(text).toContain("UNAUTHENTICATED");
        expect(text).toContain(response.headers.get("x-correlation-id"));
      }
    }
  });

  test("the public port serves neither procedures nor metrics, not even with the token", async () => {
    const { key } = await makeKey(services, userId);
    const procedures = Object.keys(appRouter._def.procedures);
    const paths = procedures.flatMap((name) => [`/trpc/${name}`, `/v1/trpc/${name}`, `/v1/${name}`]);
    const codes = new Set<string | undefined>();
    for (const credential of [TOKEN, key]) {
      for (const path of ["/metrics", "/trpc", ...paths]) {
        for (const sent of [{ method: "GET" }, { method: "POST", body: {} }]) {
          const headers = { "X-User-Id": userId };
          codes.add(errorCodeOf(await gateway.request({ ...sent, path, key: credential, headers })));
        }
      }
    }
    expect([...codes].sort()).toEqual(["RESOURCE_NOT_FOUND", "UNAUTHENTICATED"]);
  });

  test("without INTERNAL_TOKEN there is no internal port", async () => {
    const INTERNAL_PORT = await freePort();
    const plain = await startTestGateway({ INTERNAL_PORT });
    await expect(fetch(`http://127.0.0.1:${INTERNAL_PORT}/metrics`)).rejects.toThrow();
    expect((await plain.request({ path: "/livez" })).status).toBe(200);
  });
});

describe("errors of the internal port", () => {
  test.each(["authorization", "x-user-id", "idempotency-key"])("%s sent twice is VALIDATION_ERROR", async (name) => {
    const sent = { authorization: `Bearer ${TOKEN}`, "x-user-id": userId, "idempotency-key": "once" };
    const headers = Object.entries({ ...sent, "content-type": "application/json" }).flatMap((header) =>
      header[0] === name ? [...header, ...header] : header,
    );
    const { hostname, port } = new URL(url);
    const options = {
      hostname,
      port,
      path: "/trpc/forms.create",
      method: "POST",
      headers: ["host", hostname, ...headers],
    };
    const { status, text } = await exchange(options, ["{}"], 20_000);
    expect(status).toBe(400);
    expect(text).toContain(JSON.stringify([{ field: name, issue: "must be sent once" }]));
  });

  test("an error has the code, the rejected fields and the correlation id", async () => {
    const call = user.forms.create.mutate(fixedStay(listingId, { numberOfGuests: 0, checkInDate: "soon" }));
    expect(await errorOf(call)).toEqual({
      message: "The request is not valid: see errors.",
      code: "BAD_REQUEST",
      httpStatus: 400,
      serviceCode: "VALIDATION_ERROR",
      errors: [
        { field: "checkInDate", issue: expect.any(String) },
        { field: "numberOfGuests", issue: "must be at least 1" },
      ],
      correlationId: expect.stringMatching(UUID),
    });
  });

  const BATCH = Array.from({ length: 51 }, () => "listings.list").join(",");
  const LARGE = JSON.stringify({ name: "x".repeat(70_000) });
  const TEXT = { "Content-Type": "text/plain" };
  test.each<[string, number, string, string, RequestInit?]>([
    ["an unknown procedure", 404, "RESOURCE_NOT_FOUND", "/trpc/forms.steal?input=1"],
    ["no procedure", 404, "RESOURCE_NOT_FOUND", "/trpc"],
    ["input that is not JSON", 400, "VALIDATION_ERROR", "/trpc/users.get?input=%7Bx"],
    ["a broken escape", 400, "VALIDATION_ERROR", "/trpc/users.get%E0?input=1"],
    ["a batch that is too large", 400, "VALIDATION_ERROR", `/trpc/${BATCH}?batch=1&input=%7B%7D`],
    ["a GET of a mutation", 405, "RESOURCE_NOT_FOUND", "/trpc/users.create"],
    ["another method", 405, "RESOURCE_NOT_FOUND", "/trpc/users.create", { method: "PUT", body: "{}" }],
    ["a body that is not JSON", 400, "VALIDATION_ERROR", "/trpc/users.create", post("{x")],
    ["another content type", 415, "VALIDATION_ERROR", "/trpc/users.create", post("{}", TEXT)],
    ["a body that is too large", 413, "PAYLOAD_TOO_LARGE", "/trpc/users.create", post(LARGE)],
  ])("%s gets %i %s, without the text of a library", async (_name, httpStatus, serviceCode, path, init) => {
    const response = await send(path, init);
    const text = await response.text();
    expect([response.status, text]).toEqual([httpStatus, expect.stringContaining(serviceCode)]);
    const { error } = [JSON.parse(text)].flat()[0];
    const correlationId = response.headers.get("x-correlation-id");
    expect(error.data).toMatchObject({ serviceCode, httpStatus, correlationId });
    expect(text).not.toMatch(/stack|node_modules|zod|procedure found|unexpected|expected|prisma|\bat /i);
  });

  test("an internal error does not reveal its cause, which is logged", async () => {
    const broken = await startInternalGateway();
    const { db } = await broken.gateway.services();
    await db.pool.query("ALTER TABLE api_keys RENAME TO api_keys_gone");
    const error = await errorOf(createInternalClient(broken.url).keys.list.query({}));
    expect(error).toMatchObject({ serviceCode: "INTERNAL_ERROR", httpStatus: 500 });
    expect(JSON.stringify(error)).not.toMatch(/api_keys|prisma|stack/i);
    const lines = broken.gateway.log.filter(({ correlationId }) => correlationId === error.correlationId);
    expect(JSON.stringify(lines)).toMatch(/api_keys/);
  });

  test("the internal port allows no origin by CORS", async () => {
    const headers = { Origin: "https://evil.test", "Access-Control-Request-Method": "POST" };
    for (const method of ["GET", "OPTIONS"]) {
      const response = await send("/trpc/listings.list", { method, headers });
      const names = [...response.headers.keys()];
      expect(names.filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
  });
});
