import { beforeAll, describe, expect, test } from "vitest";
import { appRouter } from "../../server/router.js";
import { asOperator, makeKey, makeListing, makeUser } from "../support/factories.js";
import { startTestGateway, type TestGateway } from "../support/gateway.js";
import { freePort } from "../support/network.js";
import { UUID } from "../support/public-fields.js";
import { errorCodeOf } from "../support/response.js";
import { fixedStay } from "../support/stays.js";
import {
  type Client,
  createInternalClient,
  errorOf,
  startInternalGateway,
  TOKEN,
} from "./internal-gateway.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

let url: string;
let gateway: TestGateway;
let operator: Client;
let userId: string;
let user: Client;
let listingId: string;

beforeAll(async () => {
  ({ url, gateway } = await startInternalGateway());
  operator = createInternalClient(url);
  const services = await gateway.services();
  userId = (await makeUser(services)).id;
  user = createInternalClient(url, { userId });
  listingId = (await makeListing(services, userId)).id;
});

/** Sends a request to the internal port, by default with the token. */
const send = (path: string, init: RequestInit = {}) =>
  fetch(url + path, {
    ...init,
    headers: { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json", ...init.headers },
  });

const post = (body: string, headers = {}): RequestInit => ({ method: "POST", body, headers });

describe("calls on behalf of a user", () => {
  test("the six operations of the REST API work on behalf of a user, and the log line has the user's id", async () => {
    const form = await user.forms.create.mutate(fixedStay(listingId, { guestEmail: "guest@people.test" }));
    expect(form).toMatchObject({ listingId, status: "SENT", numberOfVehicles: null });
    const changed = fixedStay(listingId, { numberOfGuests: 3 });
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
    const { correlationId } = trail[1] ?? {};
    expect(gateway.log.find((line) => line.correlationId === correlationId)).toMatchObject({
      operation: "forms.create",
      userId,
      status: 200,
    });
  });

  test("a user has only their own forms and listings, and may call no procedure of the operator", async () => {
    const other = createInternalClient(url, { userId: (await makeUser(await gateway.services())).id });
    expect(await other.forms.list.query({})).toEqual({ items: [], nextCursor: null });
    expect(await errorOf(other.listings.get.query({ id: listingId }))).toMatchObject({
      serviceCode: "RESOURCE_NOT_FOUND",
      httpStatus: 404,
    });
    expect(await errorOf(other.users.get.query({ id: userId }))).toMatchObject({
      serviceCode: "FORBIDDEN",
      httpStatus: 403,
    });
  });

  test("an equal create with an Idempotency-Key is replayed, one with a different body is IDEMPOTENCY_KEY_REUSED, and an invalid key is rejected", async () => {
    const keyed = createInternalClient(url, { userId, headers: { "Idempotency-Key": "once" } });
    const body = fixedStay(listingId, { numberOfGuests: 5 });
    const first = await keyed.forms.create.mutate(body);
    expect(await keyed.forms.create.mutate(body)).toEqual(first);
    expect(await errorOf(keyed.forms.create.mutate({ ...body, numberOfGuests: 6 }))).toMatchObject({
      serviceCode: "IDEMPOTENCY_KEY_REUSED",
      httpStatus: 422,
    });
    const long = createInternalClient(url, { userId, headers: { "Idempotency-Key": "x".repeat(256) } });
    expect(await errorOf(long.forms.create.mutate(body))).toMatchObject({ serviceCode: "VALIDATION_ERROR" });
  });

  test("calls in one batch succeed or fail independently", async () => {
    const batched = createInternalClient(url, { userId, batch: true });
    const [listing, missing] = await Promise.all([
      batched.listings.get.query({ id: listingId }),
      errorOf(batched.forms.get.query({ id: UNKNOWN_ID })),
    ]);
    expect(listing.id).toBe(listingId);
    expect(missing).toMatchObject({ serviceCode: "RESOURCE_NOT_FOUND" });
  });

  test("an unknown user and a malformed user id are UNAUTHENTICATED", async () => {
    for (const unknownId of [UNKNOWN_ID, "someone", " "]) {
      const client = createInternalClient(url, { headers: { "X-User-Id": unknownId } });
      expect(await errorOf(client.listings.list.query({}))).toMatchObject({
        serviceCode: "UNAUTHENTICATED",
        httpStatus: 401,
        correlationId: expect.stringMatching(UUID),
      });
    }
  });
});

test("without X-User-Id a call acts as the operator, with the same results as the core", async () => {
  const { users, listings, members, keys } = operator;
  const core = asOperator(await gateway.services());
  const host = await users.create.mutate({ email: "second@people.test" });
  expect(await core.users.find({ email: host.email })).toEqual(host);
  const listing = await listings.update.mutate({ id: listingId, title: "New", district: null });
  expect(await core.listings.getAny({ id: listingId })).toEqual(listing);
  await members.set.mutate({ listingId, userId: host.id, role: "READER" });
  expect(await members.list.query({ listingId })).toEqual(await core.members.list({ listingId }));
  const { key, ...issued } = await keys.issue.mutate({ userId: host.id, mode: "READ_ONLY" });
  const listed = await keys.list.query({ userId: host.id });
  expect(listed).toMatchObject({ items: [{ id: issued.id }] });
  expect(JSON.stringify(listed)).not.toContain(key);
  expect((await gateway.request({ path: "/v1/listings", key })).status).toBe(200);
  expect(await operator.notifications.count.query()).toEqual(await core.notifications.count());
});

describe("INTERNAL_TOKEN", () => {
  test("every path needs the token, and no other credential is accepted", async () => {
    const { key } = await makeKey(await gateway.services(), userId);
    const wrong = [
      [],
      [["Authorization", ""]],
      [["Authorization", "Bearer"]],
      [["Authorization", `Bearer ${TOKEN}x`]],
      [["Authorization", `Bearer ${TOKEN.slice(0, -1)}`]],
      [["Authorization", `Bearer ${TOKEN.toUpperCase()}`]],
      [["Authorization", `Basic ${TOKEN}`]],
      [["Authorization", TOKEN]],
      [["Authorization", `Bearer ${key}`]],
      [["X-API-Key", key]],
      [["X-API-Key", TOKEN]],
      [["X-User-Id", userId]],
    ] as [string, string][][];
    for (const headers of wrong) {
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

  test("no log line has the token, wherever it is sent and on both ports", async () => {
    const path = `/${TOKEN}?token=${TOKEN}`;
    const headers = { "X-API-Key": TOKEN, "User-Agent": TOKEN, Cookie: `token=${TOKEN}` };
    const before = gateway.log.length;
    const responses = [
      await send("/trpc/users.list", { headers }),
      await send("/trpc/users.list", { headers: { "X-User-Id": TOKEN } }),
      await send("/trpc/forms.create", post(TOKEN, { "Idempotency-Key": TOKEN })),
      await send(`/trpc${path}`),
      await send(path),
      await fetch(url + path, { headers: { Authorization: `Basic ${TOKEN}` } }),
    ].map((response) => response.headers.get("x-correlation-id"));
    for (const target of ["/v1/listings", `/v1${path}`, path]) {
      const { headers: received } = await gateway.request({ path: target, key: TOKEN, headers });
      responses.push(received["x-correlation-id"] ?? null);
    }
    const logged = () => gateway.log.slice(before);
    await expect
      .poll(() => logged().flatMap(({ msg, correlationId }) => (msg === "request" ? [correlationId] : [])))
      .toEqual(expect.arrayContaining(responses));
    expect(JSON.stringify(logged())).not.toContain(TOKEN);
  });
});

describe("errors of the internal port", () => {
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
  const CASES: [string, number, string, string, RequestInit?][] = [
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
  ];

  test.each(CASES)(
    "%s gets %i %s, without the text of a library",
    async (_name, status, serviceCode, path, init) => {
      const response = await send(path, init);
      const text = await response.text();
      expect([response.status, text]).toEqual([status, expect.stringContaining(serviceCode)]);
      const answer = JSON.parse(text);
      const { error } = Array.isArray(answer) ? answer[0] : answer;
      expect(error.data).toMatchObject({
        serviceCode,
        httpStatus: status,
        correlationId: response.headers.get("x-correlation-id"),
      });
      expect(text).not.toMatch(/stack|node_modules|zod|procedure found|unexpected|expected|prisma|\bat /i);
    },
  );

  test("an internal error does not reveal its cause, which is logged", async () => {
    const broken = await startInternalGateway();
    const { db } = await broken.gateway.services();
    await db.pool.query("ALTER TABLE api_keys RENAME TO api_keys_gone");
    const error = await errorOf(createInternalClient(broken.url).keys.list.query({}));
    expect(error).toMatchObject({
      serviceCode: "INTERNAL_ERROR",
      httpStatus: 500,
      message: "Internal error. Retry later; if it persists, report the correlationId.",
    });
    expect(JSON.stringify(error)).not.toMatch(/api_keys|prisma|stack/i);
    const lines = broken.gateway.log.filter(({ correlationId }) => correlationId === error.correlationId);
    expect(JSON.stringify(lines)).toMatch(/api_keys/);
  });

  test("the internal port allows no origin by CORS", async () => {
    const headers = { Origin: "https://evil.test" };
    const preflight = { ...headers, "Access-Control-Request-Method": "POST" };
    const answers = await Promise.all([
      send("/trpc/listings.list", { headers }),
      send("/trpc/listings.list", { method: "OPTIONS", headers: preflight }),
      fetch(`${url}/trpc/listings.list`, { method: "OPTIONS", headers }),
    ]);
    for (const { headers } of answers) {
      expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
  });
});

describe("public and internal port", () => {
  test("the public port serves neither procedures nor metrics, not even with the token", async () => {
    const { key } = await makeKey(await gateway.services(), userId);
    const pathsOf = (name: string) => [
      `/trpc/${name}`,
      `/${name}`,
      `/v1/${name}`,
      `/v1/trpc/${name}`,
      `/v1/${name.replace(".", "/")}`,
    ];
    const paths = ["/metrics", "/trpc", ...Object.keys(appRouter._def.procedures).flatMap(pathsOf)];
    const codes = new Set<string | undefined>();
    for (const credential of [TOKEN, key]) {
      for (const path of paths) {
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
