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
import { FORM_FIELDS } from "../public-fields.js";
import { RETRIED_FAULTS, resetAfterProcessing } from "./fault-proxy.js";
import { useGateway } from "./gateway.js";
import { rejection } from "./setup.js";

// Runs the SDK against the real gateway and Postgres.
const context = useGateway();
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

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
    const first = await context.client().forms.list({ listingId, limit: 5 });
    const rest = context.client().forms.list({ listingId, cursor: first.nextCursor ?? "" });
    expect((await rest.toArray()).map((form) => form.id)).toEqual(created.slice(5));
  });
});

describe("a create makes exactly one form", () => {
  test.each(RETRIED_FAULTS)("a create makes exactly one form despite %s", async (_, fault) => {
    const before = await context.forms();
    context.proxy.injectNext(fault);
    const form = await context.client().forms.create(context.uniqueStay());
    expect((await context.forms()).slice(before.length)).toEqual([form]);
  });

  test("a failed create that is repeated with the same idempotencyKey makes exactly one form", async () => {
    const before = await context.forms();
    const stay = context.uniqueStay();
    const client = context.client({ maxRetries: 0 });
    context.proxy.injectNext(resetAfterProcessing);
    await rejection(client.forms.create(stay, { idempotencyKey: "booking 7" }));
    const { data, replayed } = await client.forms
      .create(stay, { idempotencyKey: "booking 7" })
      .withResponse();
    expect(replayed).toBe(true);
    expect((await context.forms()).slice(before.length)).toEqual([data]);
  });

  test("ten concurrent equal creates make exactly one form", async () => {
    const before = await context.forms();
    const stay = context.uniqueStay();
    const forms = await Promise.all(Array.from({ length: 10 }, () => context.client().forms.create(stay)));
    expect(new Set(forms.map((form) => form.id)).size).toBe(1);
    expect((await context.forms()).length - before.length).toBe(1);
  });
});

describe("each error of the service is thrown as its own class", () => {
  test("a read-only key can list and gets ForbiddenError for a create", async () => {
    const reader = context.client({ apiKey: context.readOnly });
    expect((await reader.listings.list()).items).toHaveLength(3);
    expect(await rejection(reader.forms.create(context.uniqueStay()))).toBeInstanceOf(ForbiddenError);
  });

  test("a revoked key and an unknown key get UnauthenticatedError with a correlation id", async () => {
    const { id, key } = await context.core.keys.issue({ userId: context.userId, mode: "READ_ONLY" });
    await context.core.keys.revoke({ id });
    for (const apiKey of [key, "nonsense"]) {
      const error = await rejection(context.client({ apiKey }).listings.list());
      expect(error).toBeInstanceOf(UnauthenticatedError);
      expect(error).toMatchObject({ status: 401, correlationId: expect.stringMatching(UUID) });
    }
  });

  test("ValidationError lists every rejected field", async () => {
    const stay = context.uniqueStay();
    const input = { ...stay, checkOutDate: stay.checkInDate, numberOfGuests: 0, guestMail: "a@b.c" };
    const error = await rejection(context.client().forms.create(input));
    expect(error).toBeInstanceOf(ValidationError);
    const fields = (error as ValidationError).errors.map(({ field }) => field);
    expect(fields).toEqual(expect.arrayContaining(["numberOfGuests", "guestMail"]));
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
  const short = useGateway(() => ({ RATE_LIMIT_MAX: "3", RATE_LIMIT_WINDOW_SECONDS: "6" }));
  const long = useGateway(() => ({ RATE_LIMIT_MAX: "3", RATE_LIMIT_WINDOW_SECONDS: "600" }));

  test("a call waits for the rate limit if the deadline allows it", async () => {
    const client = short.client({ baseUrl: short.url });
    const seen: number[] = [];
    for (let i = 0; i < 5; i++) seen.push((await client.listings.list()).items.length);
    expect(seen).toEqual([3, 3, 3, 3, 3]);
  });

  test("a call rejects immediately with RateLimitedError if Retry-After exceeds the deadline", async () => {
    const client = long.client({ baseUrl: long.url });
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
