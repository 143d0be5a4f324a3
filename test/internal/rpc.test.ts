import { beforeAll, describe, expect, test } from "vitest";
import { appRouter } from "../../server/router.js";
import { fixedStay } from "../factories.js";
import {
  addListing,
  type Client,
  createInternalClient,
  errorOf,
  type InternalGateway,
  startInternalGateway,
  TOKEN,
} from "./internal-gateway.js";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

let gateway: InternalGateway;
let operator: Client;
let userId: string;
let user: Client;
let listingId: string;

beforeAll(async () => {
  gateway = await startInternalGateway();
  operator = createInternalClient(gateway.url);
  userId = (await operator.users.create.mutate({ email: "host@people.test", name: "Ada" })).id;
  user = createInternalClient(gateway.url, { userId });
  listingId = (await addListing(operator, userId)).id;
});

describe("calls on behalf of a user", () => {
  test("the six operations of the REST API work on behalf of a user", async () => {
    const form = await user.forms.create.mutate(fixedStay(listingId, { guestEmail: "guest@people.test" }));
    expect(form).toMatchObject({ listingId, status: "SENT", numberOfVehicles: null });
    const updated = await user.forms.update.mutate({
      id: form.id,
      ...fixedStay(listingId, { numberOfGuests: 3 }),
    });
    expect(await user.forms.get.query({ id: form.id })).toEqual(updated);
    expect(await user.forms.list.query({ listingId })).toEqual({ items: [updated], nextCursor: null });
    const { items } = await user.listings.list.query({});
    expect(items.map(({ id }) => id)).toContain(listingId);
    expect((await user.listings.get.query({ id: listingId })).id).toBe(listingId);
  });

  test("forms and listings of another user are RESOURCE_NOT_FOUND", async () => {
    const form = await user.forms.create.mutate(fixedStay(listingId, { numberOfGuests: 4 }));
    const other = await operator.users.create.mutate({ email: "other@people.test" });
    const otherUser = createInternalClient(gateway.url, { userId: other.id });
    const notFound = { serviceCode: "RESOURCE_NOT_FOUND", httpStatus: 404 };
    expect(await errorOf(otherUser.forms.get.query({ id: form.id }))).toMatchObject(notFound);
    expect(await errorOf(otherUser.listings.get.query({ id: listingId }))).toMatchObject(notFound);
    expect(await errorOf(otherUser.forms.create.mutate(fixedStay(listingId)))).toMatchObject(notFound);
    expect(
      await errorOf(otherUser.forms.setStatus.mutate({ id: form.id, status: "COMPLETED" })),
    ).toMatchObject(notFound);
    expect(await errorOf(otherUser.forms.setParty.mutate({ id: form.id, numberOfPets: 1 }))).toMatchObject(
      notFound,
    );
    expect(await otherUser.forms.list.query({})).toEqual({ items: [], nextCursor: null });
  });

  test("an equal create with an Idempotency-Key is replayed, and one with a different body is IDEMPOTENCY_KEY_REUSED", async () => {
    const keyed = createInternalClient(gateway.url, { userId, headers: { "Idempotency-Key": "once" } });
    const body = fixedStay(listingId, { numberOfGuests: 5 });
    const first = await keyed.forms.create.mutate(body);
    expect(await keyed.forms.create.mutate(body)).toEqual(first);
    const other = { ...body, numberOfGuests: 6 };
    expect(await errorOf(keyed.forms.create.mutate(other))).toMatchObject({
      serviceCode: "IDEMPOTENCY_KEY_REUSED",
      httpStatus: 422,
    });
  });

  test("calls in one batch succeed or fail independently", async () => {
    const batched = createInternalClient(gateway.url, { userId, batch: true });
    const [listing, missing] = await Promise.all([
      batched.listings.get.query({ id: listingId }),
      errorOf(batched.forms.get.query({ id: UNKNOWN_ID })),
    ]);
    expect(listing.id).toBe(listingId);
    expect(missing).toMatchObject({ serviceCode: "RESOURCE_NOT_FOUND" });
  });

  test("an unknown user and a malformed user id are UNAUTHENTICATED", async () => {
    for (const unknownId of [UNKNOWN_ID, "someone", " "]) {
      const client = createInternalClient(gateway.url, { headers: { "X-User-Id": unknownId } });
      expect(await errorOf(client.listings.list.query({}))).toMatchObject({
        serviceCode: "UNAUTHENTICATED",
        httpStatus: 401,
        correlationId: expect.stringMatching(UUID),
      });
    }
  });

  test("procedures of the operator are FORBIDDEN on behalf of a user", async () => {
    const calls = [
      user.users.create.mutate({ email: "new@people.test" }),
      user.keys.list.query({}),
      user.audit.trail.query({ subjectId: listingId }),
      user.listings.deactivate.mutate({ id: listingId }),
    ];
    for (const failed of await Promise.all(calls.map(errorOf))) {
      expect(failed).toMatchObject({ serviceCode: "FORBIDDEN", httpStatus: 403 });
    }
  });
});

describe("calls as the operator", () => {
  test("the operator can create and change users, listings, members and keys", async () => {
    const { users, listings, members, keys } = operator;
    const host = await users.create.mutate({ email: "Second@People.Test" });
    expect(await users.get.query({ id: host.id.toUpperCase() })).toEqual(host);
    expect(await users.find.query({ email: "Second@people.test" })).toEqual(host);
    expect(await errorOf(users.find.query({ email: "none@people.test" }))).toMatchObject({ httpStatus: 404 });
    const listing = await addListing(operator, host.id, { district: "Mitte", maxPeopleInListing: 2 });
    expect(
      await listings.update.mutate({ id: listing.id, title: "New", district: null, maxPeopleInListing: 3 }),
    ).toEqual({ ...listing, title: "New", district: null, maxPeopleInListing: 3 });
    expect(await errorOf(listings.update.mutate({ id: UNKNOWN_ID, title: "New" }))).toMatchObject({
      serviceCode: "RESOURCE_NOT_FOUND",
    });
    expect((await listings.deactivate.mutate({ id: listing.id })).active).toBe(false);
    const hosts = createInternalClient(gateway.url, { userId: host.id });
    expect(await errorOf(hosts.forms.create.mutate(fixedStay(listing.id)))).toMatchObject({
      errors: [{ field: "listingId", issue: "the listing is not active" }],
    });
    expect((await listings.update.mutate({ id: listing.id, active: true })).active).toBe(true);
    await members.set.mutate({ listingId: listing.id, userId, role: "READER" });
    expect((await members.list.query({ listingId: listing.id })).items).toHaveLength(2);
    await members.remove.mutate({ listingId: listing.id, userId });
    expect((await members.list.query({ listingId: listing.id })).items).toMatchObject([
      { listingId: listing.id, userId: host.id, role: "OWNER" },
    ]);
    const issued = await keys.issue.mutate({ userId: host.id, mode: "READ_ONLY" });
    const rotated = await keys.rotate.mutate({ id: issued.id, graceSeconds: 0 });
    await keys.revoke.mutate({ id: rotated.id });
    const listed = await keys.list.query({ userId: host.id });
    expect(listed.map(({ id }) => id).sort()).toEqual([issued.id, rotated.id].sort());
    expect(JSON.stringify(listed)).not.toContain(issued.key);
  });

  test("the operator can read notifications, the trail of a form and the trace of a call", async () => {
    const client = createInternalClient(gateway.url, { userId });
    const form = await client.forms.create.mutate(
      fixedStay(listingId, { numberOfGuests: 7, guestEmail: "seven@people.test" }),
    );
    await operator.forms.setParty.mutate({ id: form.id, numberOfVehicles: 1 });
    await operator.forms.setStatus.mutate({ id: form.id, status: "ON_HOLD", force: true });
    const waiting = await operator.notifications.list.query();
    expect(waiting).toContainEqual(expect.objectContaining({ formId: form.id, state: "waiting" }));
    expect(await operator.notifications.count.query()).toMatchObject({ waiting: waiting.length, failed: 0 });

    const trail = await operator.audit.trail.query({ subjectId: form.id });
    expect(trail.map(({ action, actor, userId: who, details }) => ({ action, actor, who, details }))).toEqual(
      [
        {
          action: "form.status_set",
          actor: "operator",
          who: null,
          details: { from: "SENT", to: "ON_HOLD", correction: true },
        },
        { action: "form.party_set", actor: "operator", who: null, details: { fields: ["numberOfVehicles"] } },
        { action: "form.created", actor: "user", who: userId, details: { listingId } },
      ],
    );
    const [newest, middle, oldest] = trail;
    expect(
      await operator.audit.trail.query({ subjectId: form.id, limit: 1, before: newest?.id ?? "" }),
    ).toEqual([middle]);
    expect(await operator.audit.trail.query({ subjectId: UNKNOWN_ID })).toEqual([]);
    const { correlationId = "" } = oldest ?? {};
    expect(await operator.audit.trace.query({ correlationId })).toEqual({
      correlationId,
      logField: "correlationId",
      entries: [oldest],
    });
    expect(JSON.stringify(trail)).not.toContain("people.test");
    const line = gateway.lines
      .map((text) => JSON.parse(text))
      .find((one) => one.correlationId === correlationId);
    expect(line).toMatchObject({ operation: "forms.create", userId, status: 200 });
  });
});

describe("INTERNAL_TOKEN", () => {
  test("every path needs the token, and no other credential is accepted", async () => {
    const { key } = await operator.keys.issue.mutate({ userId, mode: "READ_WRITE" });
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
        const response = await fetch(gateway.url + path, { headers });
        const text = await response.text();
        expect([headers, path, response.status]).toEqual([headers, path, 401]);
        expect(response.headers.get("www-authenticate")).toBe("Bearer");
        expect(text).toContain("UNAUTHENTICATED");
        expect(text).toContain(response.headers.get("x-correlation-id"));
      }
    }
  });

  test("no log line has the token", () => {
    expect(gateway.lines.join("")).not.toContain(TOKEN);
  });
});

describe("errors of the internal port", () => {
  const send = (path: string, init: RequestInit = {}) =>
    fetch(`${gateway.url}${path}`, {
      ...init,
      headers: { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json", ...init.headers },
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

  const batchOf = (calls: number) => {
    const paths = Array.from({ length: calls }, () => "listings.list").join(",");
    return `/trpc/${paths}?batch=1&input=${encodeURIComponent("{}")}`;
  };
  const CASES: [string, number, string, () => Promise<Response>][] = [
    ["an unknown procedure", 404, "RESOURCE_NOT_FOUND", () => send("/trpc/forms.steal?input=1")],
    ["no procedure", 404, "RESOURCE_NOT_FOUND", () => send("/trpc")],
    ["input that is not JSON", 400, "VALIDATION_ERROR", () => send("/trpc/users.get?input=%7Bx")],
    ["a broken escape", 400, "VALIDATION_ERROR", () => send("/trpc/users.get%E0?input=1")],
    ["a GET of a mutation", 405, "RESOURCE_NOT_FOUND", () => send("/trpc/users.create")],
    [
      "an unsupported method",
      405,
      "RESOURCE_NOT_FOUND",
      () => send("/trpc/users.create", { method: "PUT", body: "{}" }),
    ],
    [
      "a body that is not JSON",
      400,
      "VALIDATION_ERROR",
      () => send("/trpc/users.create", { method: "POST", body: "{x" }),
    ],
    [
      "another content type",
      415,
      "VALIDATION_ERROR",
      () =>
        send("/trpc/users.create", { method: "POST", body: "{}", headers: { "Content-Type": "text/plain" } }),
    ],
    [
      "a body that is too large",
      413,
      "PAYLOAD_TOO_LARGE",
      () =>
        send("/trpc/users.create", { method: "POST", body: JSON.stringify({ name: "x".repeat(70_000) }) }),
    ],
    ["a batch that is too large", 400, "VALIDATION_ERROR", () => send(batchOf(51))],
    [
      "an invalid Idempotency-Key",
      400,
      "VALIDATION_ERROR",
      () =>
        send("/trpc/forms.create", {
          method: "POST",
          body: JSON.stringify(fixedStay(listingId)),
          headers: { "X-User-Id": userId, "Idempotency-Key": "x".repeat(256) },
        }),
    ],
  ];

  test.each(CASES)(
    "%s gets %i %s, without the text of a library",
    async (_name, status, serviceCode, call) => {
      const response = await call();
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
    const core = createInternalClient(broken.url);
    const { openTestServices } = await import("../factories.js");
    const { db } = await openTestServices({ DATABASE_URL: broken.databaseUrl });
    await db.pool.query("ALTER TABLE api_keys RENAME TO api_keys_gone");
    const error = await errorOf(core.keys.list.query({}));
    expect(error).toMatchObject({
      serviceCode: "INTERNAL_ERROR",
      httpStatus: 500,
      message: "Internal error. Retry later; if it persists, report the correlationId.",
    });
    expect(JSON.stringify(error)).not.toMatch(/api_keys|prisma|stack/i);
    const lines = broken.lines.filter((line) => line.includes(error.correlationId ?? "-"));
    expect(lines.join("")).toMatch(/api_keys/);
    await broken.stop();
  });

  test("the internal port allows no origin by CORS", async () => {
    const answers = await Promise.all([
      send("/trpc/listings.list", { headers: { Origin: "https://evil.test" } }),
      send("/trpc/listings.list", {
        method: "OPTIONS",
        headers: { Origin: "https://evil.test", "Access-Control-Request-Method": "POST" },
      }),
      fetch(`${gateway.url}/trpc/listings.list`, {
        method: "OPTIONS",
        headers: { Origin: "https://evil.test" },
      }),
    ]);
    for (const { headers } of answers) {
      expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
  });
});

describe("public and internal port", () => {
  test("the public port serves neither procedures nor metrics, not even with the token", async () => {
    const { key } = await operator.keys.issue.mutate({ userId, mode: "READ_WRITE" });
    const procedures = Object.keys(appRouter._def.procedures);
    const paths = [
      "/metrics",
      "/trpc",
      ...procedures.flatMap((name) => [
        `/trpc/${name}`,
        `/${name}`,
        `/v1/${name}`,
        `/v1/trpc/${name}`,
        `/v1/${name.replace(".", "/")}`,
      ]),
    ];
    const served = [];
    for (const credential of [TOKEN, key]) {
      const headers = { Authorization: `Bearer ${credential}`, "X-User-Id": userId };
      for (const method of ["GET", "POST"]) {
        for (const path of paths) {
          const init = method === "POST" ? { method, body: "{}" } : { method };
          const response = await fetch(gateway.publicUrl + path, {
            ...init,
            headers: { ...headers, "Content-Type": "application/json" },
          });
          const { code } = (await response.json()) as { code: string };
          if (!["UNAUTHENTICATED", "RESOURCE_NOT_FOUND"].includes(code)) served.push([path, code]);
        }
      }
    }
    expect(served).toEqual([]);
  });

  test("without INTERNAL_TOKEN there is no internal port", async () => {
    const plain = await startInternalGateway({ INTERNAL_TOKEN: "" });
    await expect(fetch(`${plain.url}/metrics`)).rejects.toThrow();
    expect((await fetch(`${plain.publicUrl}/livez`)).status).toBe(200);
    await plain.stop();
  });
});
