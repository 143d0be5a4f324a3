import { describe, expect, test } from "vitest";
import {
  ForbiddenError,
  IdempotencyKeyReusedError,
  InvalidCursorError,
  PayloadTooLargeError,
  RateLimitedError,
  ResourceNotFoundError,
  UnauthenticatedError,
  ValidationError,
} from "../../sdk/src/index.js";
import { asOperator, makeKey } from "../support/factories.js";
import { FORM_FIELDS, UUID } from "../support/public-fields.js";
import { rejection, useGateway } from "./setup.js";

const context = useGateway();

describe("the six operations", () => {
  test("the SDK creates, updates, retrieves and lists forms, and retrieves and lists listings", async () => {
    const client = context.client();
    const stay = context.uniqueStay();
    const { data: form, response, replayed } = await client.forms.create(stay).withResponse();
    expect(replayed).toBe(false);
    expect(response.headers).toMatchObject({
      location: `/v1/forms/${form.id}`,
      "x-correlation-id": expect.stringMatching(UUID),
    });
    expect(form).toMatchObject({
      id: expect.stringMatching(UUID),
      listingId: stay.listingId,
      publicId: expect.any(String),
      status: "SENT",
      checkInDate: stay.checkInDate,
      checkOutDate: (stay.checkOutDate as Date).toISOString(),
      numberOfGuests: 2,
      numberOfVehicles: null,
      numberOfPets: null,
      createdAt: expect.any(String),
    });
    expect(Object.keys(form)).toEqual(Object.keys(FORM_FIELDS));
    const moved = await client.forms.update(form.id, { ...stay, listingId: context.listings[1]?.id ?? "" });
    expect(moved).toEqual({ ...form, listingId: context.listings[1]?.id });
    expect(await client.forms.retrieve(form.id)).toEqual(moved);
    expect(await client.forms.list({ listingId: moved.listingId }).toArray()).toEqual([moved]);
    expect(await client.listings.list({ limit: 2 }).toArray()).toEqual(context.listings);
    expect(await client.listings.retrieve(moved.listingId)).toEqual(context.listings[1]);
    expect(context.proxy.requests.map(({ method, path }) => `${method} ${path}`).slice(0, 5)).toEqual([
      "POST /v1/forms",
      `PUT /v1/forms/${form.id}`,
      `GET /v1/forms/${form.id}`,
      `GET /v1/forms?listingId=${moved.listingId}`,
      "GET /v1/listings?limit=2",
    ]);
    expect(context.proxy.requests.at(-1)?.path).toBe(`/v1/listings/${moved.listingId}`);
  });

  test("for await yields each form of a listing exactly once, in order", async () => {
    const listingId = context.listings[2]?.id ?? "";
    const created: string[] = [];
    for (let i = 0; i < 7; i++)
      created.push((await context.client().forms.create({ ...context.uniqueStay(), listingId })).id);
    const seen: string[] = [];
    for await (const form of context.client().forms.list({ listingId, limit: 3 })) seen.push(form.id);
    expect(seen).toEqual(created);
    expect(context.proxy.requests.filter(({ method }) => method === "GET")).toHaveLength(3);
  });
});

describe("each error of the service is thrown as its own class", () => {
  test("a read-only key can list and gets ForbiddenError for a create", async () => {
    const reader = context.client({ apiKey: context.readOnly });
    expect((await reader.listings.list()).items).toHaveLength(3);
    expect(await rejection(reader.forms.create(context.uniqueStay()))).toBeInstanceOf(ForbiddenError);
  });

  test("a revoked key and an unknown key get UnauthenticatedError with a correlation id", async () => {
    const { userId } = await context.gateway.addKeyHolder();
    const { id, key } = await makeKey(await context.gateway.services(), userId);
    await asOperator(await context.gateway.services()).keys.revoke({ id });
    for (const apiKey of [key, "nonsense"]) {
      const error = await rejection(context.client({ apiKey }).listings.list());
      expect(error).toBeInstanceOf(UnauthenticatedError);
      expect(error).toMatchObject({ status: 401, correlationId: expect.stringMatching(UUID) });
    }
  });

  test("ValidationError lists every rejected field", async () => {
    const stay = { ...context.uniqueStay(), numberOfGuests: 0, guestMail: "a@b.c" };
    const error = await rejection(context.client().forms.create(stay));
    expect(error).toBeInstanceOf(ValidationError);
    expect((error as ValidationError).errors).toEqual([
      { field: "numberOfGuests", issue: "must be at least 1" },
      { field: "guestMail", issue: expect.any(String) },
    ]);
    expect((error as Error).message).toMatch(
      /^POST \/v1\/forms: 400 numberOfGuests: must be at least 1; guestMail: /,
    );
  });

  test("a missing resource, a cursor of another list, a reused key and an oversized body have their own classes", async () => {
    const client = context.client();
    const stay = context.uniqueStay();
    const form = await client.forms.create(stay, { idempotencyKey: "once" });
    const absent = form.id.replace(/^.{8}/, "00000000");
    expect(await rejection(client.forms.retrieve(absent))).toBeInstanceOf(ResourceNotFoundError);
    expect(await rejection(client.forms.retrieve("a/b?c"))).toBeInstanceOf(ResourceNotFoundError);
    expect(await rejection(client.forms.update(absent, stay))).toBeInstanceOf(ResourceNotFoundError);
    expect(await rejection(client.listings.retrieve(absent))).toBeInstanceOf(ResourceNotFoundError);
    const page = await client.listings.list({ limit: 1 });
    const otherList = client.forms.list({ cursor: page.nextCursor ?? "" });
    expect(await rejection(otherList)).toBeInstanceOf(InvalidCursorError);
    const other = client.forms.create({ ...stay, numberOfGuests: 3 }, { idempotencyKey: "once" });
    expect(await rejection(other)).toBeInstanceOf(IdempotencyKeyReusedError);
    const large = client.forms.create({ ...stay, guestEmail: "x".repeat(20_000) });
    expect(await rejection(large)).toBeInstanceOf(PayloadTooLargeError);
    expect(await rejection(client.forms.list({ listingId: "" }))).toBeInstanceOf(ValidationError);
  });
});

describe("the rate limit", () => {
  const short = useGateway(() => ({ RATE_LIMIT_MAX: "3", RATE_LIMIT_WINDOW_SECONDS: "4" }));
  const long = useGateway(() => ({ RATE_LIMIT_MAX: "3", RATE_LIMIT_WINDOW_SECONDS: "600" }));

  test("a call waits for the rate limit if the deadline allows it", async () => {
    const client = short.client();
    const pages = await Promise.all(Array.from({ length: 4 }, () => client.listings.list()));
    expect(pages.map(({ items }) => items.length)).toEqual([3, 3, 3, 3]);
    expect(short.proxy.requests.length, "requests and retries").toBeGreaterThan(4);
  });

  test("a call rejects immediately with RateLimitedError if Retry-After exceeds the deadline", async () => {
    const client = long.client();
    const errors = await Promise.all(
      Array.from({ length: 6 }, () =>
        client.listings.list().then(
          () => undefined,
          (error: unknown) => error,
        ),
      ),
    );
    const rejected = errors.filter((error) => error !== undefined);
    expect(rejected).toHaveLength(3);
    for (const error of rejected) {
      expect(error).toBeInstanceOf(RateLimitedError);
      expect((error as RateLimitedError).retryAfter).toBeGreaterThan(60);
    }
  });
});
