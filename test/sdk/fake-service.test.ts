import { FORM_STATUSES } from "../../sdk/src/index.js";
import { compare, stay } from "./fake-worlds.js";

/** Bodies that differ from a valid one, and must be rejected or accepted alike. */
const BODIES: Record<string, unknown>[] = [
  { listingId: "none" },
  { listingId: undefined, checkInDate: undefined, numberOfGuests: undefined },
  { listingId: "00000000-0000-0000-0000-0000000000ff" },
  { checkInDate: "2030-07-01" },
  { checkInDate: "2030-02-31T15:00:00Z" },
  { checkInDate: "2030-07-01T24:00:00Z" },
  { checkInDate: "1969-12-31T23:59:59Z" },
  { checkInDate: 5 },
  { checkInDate: "2030-07-01T15:00+02:00" },
  { checkInDate: "2030-07-01T15:00.5Z" },
  { checkInDate: "2030-07-01T15Z" },
  { checkInDate: "2030-07-01T15:00" },
  { checkInDate: "2030-07-01T15:00+0200" },
  { checkInDate: "2030-07-08T09:00:00Z" },
  { checkInDate: "2030-07-08T10:00:00+02:00" },
  { checkOutDate: "2030-07-08T09:00:00.123456789-00:00" },
  { checkOutDate: null, numberOfGuests: "3" },
  { numberOfGuests: 0 },
  { numberOfGuests: 2.5 },
  { numberOfGuests: 2 ** 31 },
  { numberOfGuests: 2 ** 31 - 1 },
  { guestEmail: "ana" },
  { guestEmail: "ana@localhost" },
  { guestEmail: "a b@example.com" },
  { guestEmail: "á@example.com" },
  { guestEmail: "a..b@example.com" },
  { guestEmail: "ana@-example.com" },
  { checkInDate: "1969-12-31T23:30:00-01:00" },
  { checkOutDate: "9999-12-31T23:30:00-01:00" },
  { guestEmail: ` ${"x".repeat(64)}@example.com ` },
  { guestEmail: `${"x".repeat(65)}@example.com` },
  { guestEmail: null },
  { guestEmail: 5 },
  { guestMail: "ana@example.com" },
  { status: "COMPLETED", numberOfGuests: null },
];

await compare({
  async "create, fetch and update"({ client, addListing }, see) {
    const [loft, flat] = [await addListing({}), await addListing({})];
    await see(client.forms.create(stay(loft)));
    const [form] = (await client.forms.list()).items;
    const id = form?.id ?? "";
    await see(client.forms.retrieve(id.toUpperCase()));
    await see(client.forms.update(id, stay(loft, { numberOfGuests: 3, guestEmail: null })));
    await see(client.forms.update(id, stay(flat)));
    await see(client.forms.retrieve(id));
    await see(client.listings.retrieve("none"));
    await see(client.forms.retrieve("00000000-0000-0000-0000-0000000000ff"));
    await see(client.forms.update("none", stay(loft, { numberOfGuests: 0 })));
    await see(client.forms.update("00000000-0000-0000-0000-0000000000ff", stay(loft, { numberOfGuests: 0 })));
    await see(client.request("DELETE", `/v1/forms/${id}`));
    await see(client.request("GET", "/v1/guests"));
    await see(client.request("POST", "/v1/forms", { body: [] }));
  },
  async "equal creates are one form"({ client, addListing }, see) {
    const loft = await addListing({});
    for (const idempotencyKey of [undefined, "a", "b", "a"]) {
      await see(client.forms.create(stay(loft, { guestEmail: "Ana@EXAMPLE.com" }), { idempotencyKey }));
    }
    await see(
      client.forms.create(stay(loft, { checkInDate: new Date("2030-07-01T13:00:00Z") }), { idempotencyKey: "c" }),
    );
    await see(client.forms.create(stay(loft, { numberOfGuests: 3 }), { idempotencyKey: "a" }));
    await see(client.forms.list());
  },
  async "a new key creates a new form after an update or the end of the first"({ client, addListing, setStatus }, see) {
    const loft = await addListing({});
    const create = (idempotencyKey?: string) => client.forms.create(stay(loft), { idempotencyKey });
    const first = await create("a");
    await client.forms.update(first.id, stay(loft, { numberOfGuests: 3 }));
    await see(create());
    await see(create("a"));
    const second = await create("b");
    await see(create("b"));
    await see(create());
    await see(create("c"));
    await see(client.forms.update(second.id, stay(loft, { guestEmail: null })));
    await see(create("d"));
    await setStatus(second, "REJECTED");
    await see(create("c"));
    await see(create("e"));
    await see(client.forms.create(stay(loft, { numberOfGuests: 3 })));
    await see(client.forms.list());
    for (const [index, status] of FORM_STATUSES.entries()) {
      const numberOfGuests = 10 + index;
      const form = await client.forms.create(stay(loft, { numberOfGuests }));
      if (status !== "UNKNOWN") await setStatus(form, status);
      await see(client.forms.create(stay(loft, { numberOfGuests }), { idempotencyKey: `after ${status}` }));
    }
  },
  async "bodies that are not valid"({ client, addListing }, see) {
    const loft = await addListing({});
    for (const body of BODIES) await see(client.forms.create({ ...stay(loft), ...body }));
  },
  async "the rules of listings"({ client, readOnly, addListing }, see) {
    const [small, closed] = [await addListing({ maxPeopleInListing: 2 }), await addListing({ active: false })];
    await see(client.forms.create(stay(small, { numberOfGuests: 3 })));
    await see(client.forms.create(stay(closed)));
    const { id } = await client.forms.create(stay(small));
    await see(client.forms.update(id, stay(small, { numberOfGuests: 3 })));
    await see(client.forms.update(id, stay(closed, { numberOfGuests: 3 })));
    await see(readOnly.forms.create(stay(small, { numberOfGuests: 0 })));
    await see(readOnly.forms.update(id, stay(small)));
    await see(readOnly.forms.retrieve(id));
  },
  async pages({ client, addListing }, see) {
    const [loft, flat] = [await addListing({}), await addListing({})];
    for (const numberOfGuests of [1, 2, 3, 4, 5]) {
      await client.forms.create(stay(numberOfGuests % 2 ? loft : flat, { numberOfGuests }));
    }
    for (const limit of [-7, 0, 2, 1e9]) await see(client.forms.list({ limit }));
    await see(client.forms.list({ listingId: loft.id.toUpperCase(), limit: 2 }));
    await see(client.forms.list({ listingId: "00000000-0000-0000-0000-0000000000ff" }));
    const page = await client.forms.list({ listingId: loft.id, limit: 2 });
    await see(page.nextPage());
    await see(client.forms.list({ cursor: page.nextCursor ?? "" }));
    await see(client.forms.list({ cursor: "" }));
    await see(client.listings.list({ limit: 1 }));
    await see((await client.listings.list({ limit: 1 })).nextPage());
    await see(client.listings.list({ cursor: page.nextCursor ?? "" }));
    await see(client.forms.list({ listingId: "" }));
    await see(client.request("GET", "/v1/forms", { query: { status: "SENT", limit: 1.5, listingId: "none" } }));
    await see(client.request("GET", "/v1/listings", { query: { listingId: loft.id } }));
    await see(client.forms.list({ limit: 1.5 }));
  },
  async "a listing that leaves the scope"({ client, addListing, removeFromScope }, see) {
    const [loft, flat] = [await addListing({}), await addListing({})];
    const { id } = await client.forms.create(stay(loft), { idempotencyKey: "a" });
    const moved = await client.forms.create(stay(flat));
    await client.forms.update(moved.id, stay(loft, { numberOfGuests: 4 }));
    await removeFromScope(loft);
    await see(client.forms.retrieve(id));
    await see(client.forms.create(stay(loft), { idempotencyKey: "a" }));
    await see(client.forms.create(stay(flat, { numberOfGuests: 9 }), { idempotencyKey: "a" }));
    await see(client.forms.create(stay(flat)));
    await see(client.forms.update(moved.id, stay(flat)));
    await see(client.forms.list());
    await see(client.forms.list({ listingId: loft.id }));
    await see(client.listings.list());
  },
  async "a page after a listing that leaves the scope"({ client, addListing, removeFromScope }, see) {
    const [loft] = [await addListing({}), await addListing({}), await addListing({})];
    const page = await client.listings.list({ limit: 1 });
    await removeFromScope(loft);
    await see(page.nextPage());
  },
  async "vehicles and pets of a form that is moved"({ client, addListing, setParty }, see) {
    const [loft, flat] = [await addListing({}), await addListing({ maxVehicles: 1, allowPets: false })];
    const form = await client.forms.create(stay(loft));
    for (const party of [{ numberOfVehicles: 2 }, { numberOfVehicles: 1 }, { numberOfPets: 1 }, { numberOfPets: 0 }]) {
      await setParty(form, party);
      await see(client.forms.update(form.id, stay(flat)));
      await see(client.forms.update(form.id, stay(loft)));
    }
  },
});
