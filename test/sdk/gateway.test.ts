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
import { FORM } from "../public-fields.js";
import { useGateway } from "./gateway.js";
import { RETRIED, resetAfter } from "./mischief.js";
import { rejection } from "./setup.js";

// The SDK against the real gateway and a real Postgres.
const world = useGateway();
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe("the six operations", () => {
  test("create, update, retrieve and list a form; retrieve and list listings", async () => {
    const client = world.client();
    const stay = world.stay();
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
    expect(Object.keys(form)).toEqual(Object.keys(FORM));
    const moved = await client.forms.update(form.id, { ...stay, listingId: world.listings[1]?.id ?? "" });
    expect(moved).toEqual({ ...form, listingId: world.listings[1]?.id });
    expect(await client.forms.retrieve(form.id)).toEqual(moved);
    expect(await client.forms.list({ listingId: moved.listingId }).toArray()).toEqual([moved]);
    expect(await client.listings.list({ limit: 2 }).toArray()).toEqual(world.listings);
    expect(await client.listings.retrieve(moved.listingId)).toEqual(world.listings[1]);
  });

  test("for await goes through all forms of a listing, once each and in order", async () => {
    const listingId = world.listings[2]?.id ?? "";
    const made: string[] = [];
    for (let i = 0; i < 7; i++)
      made.push((await world.client().forms.create({ ...world.stay(), listingId })).id);
    const seen: string[] = [];
    for await (const form of world.client().forms.list({ listingId, limit: 3 })) seen.push(form.id);
    expect(seen).toEqual(made);
    expect(world.mischief.requests.filter(({ method }) => method === "GET")).toHaveLength(3);
    const first = await world.client().forms.list({ listingId, limit: 5 });
    const rest = world.client().forms.list({ listingId, cursor: first.nextCursor ?? "" });
    expect((await rest.toArray()).map((form) => form.id)).toEqual(made.slice(5));
  });
});

describe("whatever comes between, a create makes exactly one form", () => {
  test.each(RETRIED)("%s", async (_, fault) => {
    const before = await world.forms();
    world.mischief.plan(fault);
    const form = await world.client().forms.create(world.stay());
    expect((await world.forms()).slice(before.length)).toEqual([form]);
  });

  test("a create given up and begun anew with the caller's own key", async () => {
    const before = await world.forms();
    const stay = world.stay();
    const client = world.client({ maxRetries: 0 });
    world.mischief.plan(resetAfter);
    await rejection(client.forms.create(stay, { idempotencyKey: "booking 7" }));
    const { data, replayed } = await client.forms
      .create(stay, { idempotencyKey: "booking 7" })
      .withResponse();
    expect(replayed).toBe(true);
    expect((await world.forms()).slice(before.length)).toEqual([data]);
  });

  test("ten equal creates at once", async () => {
    const before = await world.forms();
    const stay = world.stay();
    const forms = await Promise.all(Array.from({ length: 10 }, () => world.client().forms.create(stay)));
    expect(new Set(forms.map((form) => form.id)).size).toBe(1);
    expect((await world.forms()).length - before.length).toBe(1);
  });
});

describe("the service's refusals arrive as their classes", () => {
  test("a read-only key reads, and creates nothing", async () => {
    const reader = world.client({ apiKey: world.readOnly });
    expect((await reader.listings.list()).items).toHaveLength(3);
    expect(await rejection(reader.forms.create(world.stay()))).toBeInstanceOf(ForbiddenError);
  });

  test("a revoked key, and one that never was", async () => {
    const { id, key } = await world.core.keys.issue({ userId: world.userId, mode: "READ_ONLY" });
    await world.core.keys.revoke({ id });
    for (const apiKey of [key, "nonsense"]) {
      const error = await rejection(world.client({ apiKey }).listings.list());
      expect(error).toBeInstanceOf(UnauthenticatedError);
      expect(error).toMatchObject({ status: 401, correlationId: expect.stringMatching(UUID) });
    }
  });

  test("every rejected field is named", async () => {
    const stay = world.stay();
    const input = { ...stay, checkOutDate: stay.checkInDate, numberOfGuests: 0, guestMail: "a@b.c" };
    const error = await rejection(world.client().forms.create(input));
    expect(error).toBeInstanceOf(ValidationError);
    const fields = (error as ValidationError).errors.map(({ field }) => field);
    expect(fields).toEqual(expect.arrayContaining(["numberOfGuests", "guestMail"]));
  });

  test("what is not there, a foreign cursor, a reused key, a body too large", async () => {
    const client = world.client();
    const stay = world.stay();
    const form = await client.forms.create(stay, { idempotencyKey: "once" });
    const absent = form.id.replace(/^.{8}/, "00000000");
    expect(await rejection(client.forms.retrieve(absent))).toBeInstanceOf(ResourceNotFoundError);
    expect(await rejection(client.forms.retrieve("a/b?c"))).toBeInstanceOf(ResourceNotFoundError);
    expect(await rejection(client.forms.update(absent, stay))).toBeInstanceOf(ResourceNotFoundError);
    expect(await rejection(client.listings.retrieve(absent))).toBeInstanceOf(ResourceNotFoundError);
    const page = await client.listings.list({ limit: 1 });
    const foreign = client.forms.list({ cursor: page.nextCursor ?? "" });
    expect(await rejection(foreign)).toBeInstanceOf(InvalidCursorError);
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

  test("is waited out within the deadline", async () => {
    const client = short.client({ baseUrl: short.url });
    const seen: number[] = [];
    for (let i = 0; i < 5; i++) seen.push((await client.listings.list()).items.length);
    expect(seen).toEqual([3, 3, 3, 3, 3]);
  });

  test("is told at once where it outlasts the deadline", async () => {
    const hurried = long.client({ baseUrl: long.url });
    const errors = await Promise.all(
      Array.from({ length: 6 }, () =>
        hurried.listings.list().then(
          () => undefined,
          (error: unknown) => error,
        ),
      ),
    );
    const refused = errors.filter((error) => error !== undefined);
    expect(refused).toHaveLength(3);
    for (const error of refused) {
      expect(error).toBeInstanceOf(RateLimitedError);
      expect((error as RateLimitedError).retryAfter).toBeGreaterThan(60);
    }
  });
});
