import type { FormInput, FormListParams, FormV1, Listing } from "../../sdk/src/index.js";
import { compare, stay } from "./fake-worlds.js";

// The life of a booking: its id, changes, and its end.

/** External ids that are not valid. */
const BAD_IDS: unknown[] = [
  "",
  " \u00a0 ",
  "a".repeat(256),
  `${"a".repeat(254)}\u{1f600}`,
  "a\tb",
  "a\u0085b",
  "a\0b",
  "a\ud83d",
  "a\u202eb",
  "a\u2066b",
  4711,
  ["a"],
  {},
  true,
];

const GOOD_IDS = [
  "a".repeat(255),
  `${"a".repeat(253)}\u{1f600}`,
  ` ${"a".repeat(255)}\n`,
  "a\u200bb",
  "A",
  "ö",
  "o\u0308",
];

/** Statuses that an operator can set. */
const STATUSES = ["COMPLETED", "ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT", "CANCELLED"];

const cancelled = (listing: Listing, changes: Partial<FormInput> = {}) =>
  ({ ...stay(listing, changes), cancelled: true }) as const;

await compare({
  async "equal stays with different external ids are different forms"({ client, addListing }, see) {
    const loft = await addListing({ externalId: "loft of equal stays" });
    await see(client.listings.retrieve(loft.id));
    await see(client.listings.list());
    for (const externalId of ["a", "b", undefined, null, " a ", "\n\u00a0b\ufeff", "A"]) {
      await see(client.forms.create(stay(loft, { externalId })));
    }
    for (const [idempotencyKey, externalId] of Object.entries({ k1: "a", k2: "b", k3: null })) {
      await see(client.forms.create(stay(loft, { externalId }), { idempotencyKey }));
      await see(client.forms.create(stay(loft, { externalId: "c" }), { idempotencyKey }));
    }
    await see(client.forms.list());
  },
  async "external ids that are valid or not"({ client, addListing }, see) {
    const loft = await addListing({});
    const { id } = await client.forms.create(stay(loft));
    for (const externalId of [...GOOD_IDS, ...BAD_IDS] as string[]) {
      await see(client.forms.create(stay(loft, { externalId })));
      await see(client.forms.update(id, stay(loft, { externalId })));
    }
    await see(client.forms.list());
  },
  async "an update keeps, changes or removes the external id"({ client, addListing }, see) {
    const loft = await addListing({});
    const input = stay(loft, { externalId: "a" });
    const { id } = await client.forms.create(input, { idempotencyKey: "first" });
    const changes = [{ numberOfGuests: 3 }, {}, { externalId: "b" }, {}, { externalId: " b " }, { externalId: null }];
    for (const [index, change] of changes.entries()) {
      await see(client.forms.update(id, { ...stay(loft), ...change }));
      await see(client.forms.update(id, { ...stay(loft), ...change }));
      for (const idempotencyKey of [undefined, "first", `new ${index}`])
        await see(client.forms.create(input, { idempotencyKey }));
    }
    await see(client.forms.retrieve(id));
    await see(client.forms.list());
  },
  async "an external id that an update adds does not make a form differ"({ client, addListing }, see) {
    const loft = await addListing({});
    const { id } = await client.forms.create(stay(loft), { idempotencyKey: "first" });
    await see(client.forms.update(id, stay(loft, { externalId: "adopted" })));
    for (const idempotencyKey of [undefined, "first", "second"])
      await see(client.forms.create(stay(loft), { idempotencyKey }));
    await see(client.forms.create(stay(loft, { externalId: "adopted" })));
    await see(client.forms.update(id, stay(loft, { externalId: "again" })));
    await see(client.forms.create(stay(loft), { idempotencyKey: "third" }));
    await see(client.forms.update(id, stay(loft, { numberOfGuests: 4 })));
    await see(client.forms.create(stay(loft), { idempotencyKey: "fourth" }));
    await see(client.forms.list());
  },
  async cancelling({ client, addListing }, see) {
    const [loft, flat] = [await addListing({}), await addListing({ maxPeopleInListing: 1, active: false })];
    const { id } = await client.forms.create(stay(loft, { externalId: "a" }), { idempotencyKey: "bound" });
    const other = { numberOfGuests: 9, externalId: "b", guestEmail: "other@example.com" };
    await see(client.forms.update(id, { ...cancelled(loft), numberOfGuests: 0 }));
    await see(client.forms.update(id, { ...cancelled(loft), externalId: "" }));
    await see(client.forms.update(id, { ...cancelled(loft), listingId: "00000000-0000-0000-0000-0000000000ff" }));
    for (const value of [false, null, "true", 1, {}])
      await see(client.forms.update(id, { ...stay(loft), cancelled: value as true }));
    await see(client.forms.create(cancelled(loft)));
    await see(client.forms.retrieve(id));
    await see(client.forms.update(id, cancelled(flat, other)));
    await see(client.forms.update(id, cancelled(loft)));
    await see(client.forms.cancel(id));
    await see(client.forms.retrieve(id));
    await see(client.forms.update(id, stay(loft, { externalId: "a" })));
    await see(client.forms.update(id, stay(flat, { numberOfGuests: 0 })));
    for (const idempotencyKey of [undefined, "bound", "new", "bound", undefined])
      await see(client.forms.create(stay(loft, { externalId: "a" }), { idempotencyKey }));
    await see(client.forms.create(stay(loft, other), { idempotencyKey: "bound" }));
    await see(client.forms.list());
  },
  async filters({ client, addListing, setStatus }, see) {
    const [loft, flat] = [await addListing({}), await addListing({})];
    const forms: FormV1[] = [];
    for (const day of [1, 2, 3, 4]) {
      const dates = { checkInDate: `2030-07-0${day}T15:00:00Z`, checkOutDate: "2030-07-20T10:00:00Z" };
      const externalId = day === 4 ? null : `booking-${day % 2}`;
      forms.push(await client.forms.create(stay(day === 2 ? flat : loft, { ...dates, externalId })));
    }
    const [first, second, third] = forms as [FormV1, FormV1, FormV1];
    await setStatus(second, "COMPLETED");
    await see(client.forms.retrieve(second.id));
    await client.forms.update(third.id, stay(loft, { numberOfGuests: 3, externalId: "booking-3" }));
    const { updatedAt } = await client.forms.retrieve(third.id);
    const filters = [
      { status: "SENT" },
      { status: "CANCELLED" },
      { externalId: "booking-1" },
      { externalId: " booking-1 " },
      { externalId: "Booking-1" },
      { updatedSince: first.updatedAt },
      { updatedSince: new Date(Date.parse(updatedAt) + 1) },
      { updatedSince: "2099-01-01T00:00:00Z" },
      { checkInFrom: "2030-07-02T15:00:00Z", checkInTo: "2030-07-04T17:00:00+02:00" },
      { checkInFrom: new Date("2030-07-02T15:00:00.001Z") },
      { checkInTo: "2030-07-02T15:00Z" },
      { listingId: loft.id, status: "SENT", checkInFrom: "2030-07-01T15:00:00Z", checkInTo: "2030-07-02T00:00:00Z" },
      { status: "UNKNOWN" },
      { status: "" },
      { externalId: "" },
      { externalId: "a\u0000" },
      { updatedSince: "2030-07-02" },
      { updatedSince: "2030-07-02T15:00:00 02:00" },
      { checkInFrom: "2030-07-02T15:00:00Z", checkInTo: "2030-07-02T15:00:00Z" },
      { checkInFrom: "x", checkInTo: "y", status: "z", listingId: "none", limit: "a" },
      { checkInDate: "2030-07-02T15:00:00Z", updatedBefore: "x" },
    ];
    for (const filter of filters) await see(client.forms.list(filter as FormListParams));
    const page = await client.forms.list({ status: "SENT", limit: 1 });
    await see(page.nextPage());
    await see(client.forms.list({ cursor: page.nextCursor ?? "" }));
    await see(client.forms.list({ status: "COMPLETED", cursor: page.nextCursor ?? "" }));
    for await (const { id } of client.forms.changesSince(second.createdAt, { listingId: flat.id }))
      await see(client.forms.retrieve(id));
  },
  async "cancelling with forms.cancel"({ client, readOnly, addListing }, see) {
    const loft = await addListing({});
    const form = await client.forms.create(stay(loft, { externalId: "a" }));
    await see(readOnly.forms.cancel(form.id));
    await see(client.forms.cancel("none"));
    await see(client.forms.cancel("00000000-0000-0000-0000-0000000000ff"));
    await see(client.forms.cancel(form.id.toUpperCase()));
    await see(client.forms.cancel(form.id));
    await see(client.forms.list());
  },
  async "cancelling from each status"({ client, addListing, setStatus }, see) {
    const loft = await addListing({});
    for (const [index, status] of STATUSES.entries()) {
      const form = await client.forms.create(stay(loft, { numberOfGuests: index + 1 }));
      await see(client.forms.retrieve(form.id));
      await setStatus(form, status);
      await see(client.forms.update(form.id, stay(loft, { numberOfGuests: 10 })));
      await see(client.forms.cancel(form.id));
      await see(client.forms.update(form.id, stay(loft, { numberOfGuests: 11 })));
      await see(client.forms.retrieve(form.id));
    }
  },
  async "the listing of a cancelled form leaves the scope"({ client, addListing, removeFromScope }, see) {
    const [loft, flat] = [await addListing({}), await addListing({})];
    const { id } = await client.forms.create(stay(loft), { idempotencyKey: "a" });
    const kept = await client.forms.create(stay(flat), { idempotencyKey: "b" });
    await removeFromScope(loft);
    await see(client.forms.cancel(id));
    await see(client.forms.update(id, cancelled(flat)));
    await see(client.forms.update(kept.id, cancelled(loft)));
    await see(client.forms.create(stay(flat, { numberOfGuests: 3 }), { idempotencyKey: "a" }));
    await see(client.forms.create(stay(flat, { numberOfGuests: 3 }), { idempotencyKey: "b" }));
  },
  async "the time of the last change"({ client, addListing, setStatus, setParty }, see) {
    const [loft, flat] = [await addListing({}), await addListing({})];
    const created = client.forms.create(stay(loft, { externalId: "a" }));
    await see(created);
    const form: FormV1 = await created;
    const { id } = form;
    const update = (changes: Partial<FormInput> = {}) => see(client.forms.update(id, stay(loft, changes)));
    await update();
    await update({ externalId: "a", guestEmail: null });
    await update({ checkInDate: "2030-07-01T13:00Z", checkOutDate: new Date("2030-07-08T09:00:00Z") });
    await update({ guestEmail: "bea@example.com" });
    await update({ numberOfGuests: 3 });
    await update({ numberOfGuests: 3 });
    await update({ numberOfGuests: 0 });
    await update({ listingId: flat.id });
    await setParty(form, { numberOfPets: 1 });
    await see(client.forms.retrieve(id));
    await see(client.forms.list());
    await setStatus(form, "COMPLETED");
    await see(client.forms.list({ listingId: flat.id }));
    await see(client.forms.retrieve(id));
    await setStatus(form, "SENT");
    await update({ listingId: flat.id });
    await see(client.forms.cancel(id));
    await see(client.forms.cancel(id));
    await see(client.forms.create(stay(loft, { externalId: "a" })));
  },
  async "instants without seconds"({ client, addListing }, see) {
    const loft = await addListing({});
    await see(client.forms.create(stay(loft)));
    await see(client.forms.create(stay(loft, { checkInDate: "2030-07-01T15:00+02:00" })));
    await see(client.forms.create(stay(loft, { checkOutDate: "2030-07-08T09:00Z" })));
    await see(client.forms.create(stay(loft, { checkOutDate: "2030-07-08T09:01Z" })));
    await see(client.forms.list());
  },
});
