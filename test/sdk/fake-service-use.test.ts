import { expect, test } from "vitest";
import { ConnectionError, GuestForms, type Listing, RateLimitedError } from "../../sdk/src/index.js";
import { FakeService } from "../../sdk/src/testing.js";
import { UUID } from "../support/public-fields.js";

// Tests of programs that use the SDK, as they are written with the fake service.

const stay = (listing: Listing) => ({
  listingId: listing.id,
  checkInDate: "2030-07-01T15:00:00+02:00",
  checkOutDate: "2030-07-08T09:00:00Z",
  numberOfGuests: 2,
});

function start() {
  const service = new FakeService();
  const listing = service.addListing();
  const client = new GuestForms({ apiKey: "grf_rw_test", baseUrl: "https://fake.test", fetch: service.fetch });
  return { service, listing, client };
}

test("sees the requests, and what they have stored", async () => {
  const { service, listing, client } = start();
  const form = await client.forms.create(stay(listing), { idempotencyKey: "booking-1" });
  expect(service.requests).toMatchObject([
    { method: "POST", path: "/v1/forms", headers: { "idempotency-key": "booking-1" }, body: stay(listing) },
  ]);
  expect(service.forms).toEqual([form]);
});

test("changes a form as its guest would, and the program sees it", async () => {
  const { service, listing, client } = start();
  const { id } = await client.forms.create(stay(listing));
  Object.assign(service.forms[0] ?? {}, { status: "COMPLETED", numberOfPets: 1 });
  expect(await client.forms.retrieve(id)).toMatchObject({ status: "COMPLETED", numberOfPets: 1 });
  // A replay has the original response.
  expect(await client.forms.create(stay(listing))).toMatchObject({ status: "SENT", numberOfPets: null });
});

test("dates the changes that a test makes, unless it dates them itself", async () => {
  const { service, listing, client } = start();
  const created = await client.forms.create(stay(listing));
  const [form = created] = service.forms;
  expect(created.updatedAt).toBe(created.createdAt);
  form.guestUrl = "https://stays.example.com/1";
  expect((await client.forms.retrieve(form.id)).updatedAt).toBe(created.createdAt);
  form.status = "COMPLETED";
  const { items } = await client.forms.list();
  const [{ updatedAt } = created] = items;
  expect(Date.parse(updatedAt)).toBeGreaterThan(Date.parse(created.createdAt));
  expect((await client.forms.retrieve(form.id)).updatedAt).toBe(updatedAt);
  Object.assign(form, { status: "ACCEPTED", updatedAt: "2040-01-01T00:00:00.000Z" });
  expect((await client.forms.retrieve(form.id)).updatedAt).toBe("2040-01-01T00:00:00.000Z");
  const { updatedAt: cancelledAt } = await client.forms.cancel(form.id);
  expect(Date.parse(cancelledAt)).toBeGreaterThan(Date.parse("2040-01-01T00:00:00.000Z"));
});

test("keeps the external id of a form that the test has added", async () => {
  const { service, listing, client } = start();
  const { id, ...form } = await client.forms.create(stay(listing));
  const added = { ...form, id: id.replace("0", "a"), externalId: "booking-1" };
  service.forms.push(added);
  const updated = await client.forms.update(added.id, { ...stay(listing), numberOfGuests: 3 });
  expect(updated).toMatchObject({ externalId: "booking-1", numberOfGuests: 3 });
});

test("fails requests, with any error, before or after they are processed", async () => {
  const { service, listing, client } = start();
  const once = client.withOptions({ maxRetries: 0 });
  service.failNext("lost request", "lost response", { status: 429, retryAfter: 7 });
  await expect(once.forms.create(stay(listing))).rejects.toThrow(ConnectionError);
  expect(service.forms).toEqual([]);
  await expect(once.forms.create(stay(listing))).rejects.toThrow(ConnectionError);
  expect(service.forms).toHaveLength(1);
  const limited = await once.forms.list().then(undefined, (error: unknown) => error);
  expect(limited).toBeInstanceOf(RateLimitedError);
  expect(limited).toMatchObject({ status: 429, retryAfter: 7, correlationId: expect.stringMatching(UUID) });
  const errors = [{ field: "guestEmail", issue: "bounces" }];
  service.failNext({ status: 400, errors }, { status: 503, code: "INTERNAL_ERROR" });
  await expect(once.forms.list()).rejects.toMatchObject({ code: "VALIDATION_ERROR", errors });
  // The SDK retries it.
  expect((await client.forms.list()).items).toEqual(service.forms);
});

test("fails only requests with one method", async () => {
  const { service, listing, client } = start();
  const once = client.withOptions({ maxRetries: 0 });
  service.failNextOf("POST", "lost response");
  service.failNext({ status: 503 });
  await expect(once.listings.list()).rejects.toMatchObject({ status: 503 });
  expect((await once.listings.list()).items).toEqual([listing]);
  await expect(once.forms.create(stay(listing))).rejects.toThrow(ConnectionError);
  expect(service.forms).toHaveLength(1);
  expect(await once.forms.create(stay(listing))).toEqual(service.forms[0]);
});
