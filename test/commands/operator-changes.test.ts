import { expect, test } from "vitest";
import { asOperator, makeForm, makeKey, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { UUID } from "../support/public-fields.js";
import { commandsWith } from "../support/run-in-process.js";

const AN_INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const A_UUID = expect.stringMatching(UUID);
const NO_USER = "There is no user with this id, external id or email address.";

const PLACE = {
  title: "Barn",
  address: "Weg 1",
  city: "Ulm",
  country: "Germany",
  zipCode: "89073",
  timezone: "Europe/Berlin",
};
/** The options that `listings create` requires, besides the owner. */
const REQUIRED = Object.entries(PLACE).flatMap(([name, value]) => [
  `--${name === "zipCode" ? "zip-code" : name}`,
  value,
]);

const services = await openTestServices();
const operator = asOperator(services);
const { text, json, failure } = commandsWith({ DATABASE_URL: services.db.url });

const ana = await makeUser(services, { email: "Ana@example.com", name: "Ana" });
const ben = await makeUser(services, { email: "ben@example.com" });
const loft = await makeListing(services, ana.id, { title: "Loft" });
const hut = await makeListing(services, ben.id, { title: "Hut" });
const guest = { guestEmail: "guest@example.com" };

const page = <Item>(...items: Item[]) => ({ items, nextCursor: null });

test("users create prints the user", async () => {
  const user = await json("users", "create", "--email", "Ada@Example.COM", "--name", "Ada");
  expect(user).toMatchObject({ id: A_UUID, email: "Ada@example.com", name: "Ada" });
});

test("users update and users erase name the user by any id or address, and erase says what it did", async () => {
  const { id } = await json("users", "create", "--email", "eve@example.com", "--name", "Eve");
  const update = await json("users", "update", "eve@example.com", "--email", "Eve.Host@example.com", "--name", "");
  expect(update).toMatchObject({ id, email: "Eve.Host@example.com", name: null });
  expect(await failure("users", "update", id, "--email", ana.email)).toEqual([
    2,
    `--email: a user with this address already exists: ${ana.id}`,
  ]);
  await makeKey(services, id);
  const listing = await makeListing(services, id);
  expect(await text("users", "erase", "eve.host@example.com", "--yes")).toMatch(
    new RegExp(`revokedKeys: +1\nremovedMemberships: 1\n\nThese listings have no owner now.*\n.*\n${listing.id}\n$`),
  );
  expect(await text("users", "erase", id, "--yes")).toMatch(/removedMemberships: 0\n$/);
  expect(await json("users", "show", id)).toMatchObject({ email: `${id}@erased.invalid`, name: null });
  expect(await failure("users", "erase", "eve.host@example.com")).toEqual([1, NO_USER]);
});

test("listings create prints the listing with every field, and names each rejected option", async () => {
  const create = ["listings", "create", "--owner", ana.id, ...REQUIRED];
  const limits = ["--max-people", "4", "--max-vehicles", "0", "--allow-pets", "false"];
  const listing = await json(...create, "--district", "Mitte", ...limits, "--language", "pt-br", "--inactive");
  expect(listing).toEqual({
    ...{ id: A_UUID, publicId: expect.stringMatching(/^[\w-]{21}$/), createdAt: AN_INSTANT },
    ...{ title: "Barn", address: "Weg 1", city: "Ulm", country: "Germany", zipCode: "89073", district: "Mitte" },
    ...{ timezone: "Europe/Berlin", active: false, maxPeopleInListing: 4, maxVehicles: 0, allowPets: false },
    ...{ externalId: null, language: "pt-BR" },
  });
  const unset = { active: true, district: null, maxPeopleInListing: null, allowPets: null, language: null };
  expect(await json(...create)).toMatchObject(unset);
  const faults = ["--timezone", "Mars/Base", "--max-people", "0", "--language", "de_DE"];
  const message =
    /^--timezone: must be an IANA.*; --max-people: must be at least 1; --language: must be a language such as de or pt-BR$/;
  expect(await failure(...create, ...faults)).toEqual([2, expect.stringMatching(message)]);
});

test("listings update changes only the given fields, and listings deactivate makes a listing inactive", async () => {
  const listing = await makeListing(services, ana.id, { district: "Mitte", maxVehicles: 2 });
  const { id } = listing;
  const changes = ["--title", "New", "--district", "", "--max-people", "3", "--max-vehicles", "none"];
  expect(await json("listings", "update", id, ...changes, "--allow-pets", "false", "--language", "DE-at")).toEqual({
    ...listing,
    title: "New",
    district: null,
    maxPeopleInListing: 3,
    maxVehicles: null,
    allowPets: false,
    language: "de-AT",
  });
  expect(await text("listings", "show", id)).toMatch(/^language: +de-AT$/m);
  for (const none of ["", "none"])
    expect((await json("listings", "update", id, "--language", none)).language).toBeNull();
  expect((await json("listings", "deactivate", id)).active).toBe(false);
  expect((await json("listings", "update", id, "--active", "true")).active).toBe(true);
});

test("every command takes a user by id, address or an import's external id, and a listing by id or external id", async () => {
  const { write } = operator.onboarding;
  await write({ rows: [{ type: "user", externalId: "host-1", email: "host.1@example.com" }] });
  await write({ rows: [{ type: "listing", externalId: "loft-1", ...PLACE, title: "Imported" }] });
  await write({ rows: [{ type: "membership", listing: "loft-1", user: "host-1", role: "OWNER" }] });
  const user = await json("users", "show", "host-1");
  expect(user).toMatchObject({ id: A_UUID, externalId: "host-1", email: "host.1@example.com" });
  const listing = await json("listings", "show", "loft-1");
  expect(listing).toMatchObject({ id: A_UUID, externalId: "loft-1", title: "Imported" });
  expect(await text("listings", "list", "--user", "host-1")).toContain(`${listing.id}  loft-1`);
  for (const [host, loft] of [
    ["host-1", "loft-1"],
    ["host.1@Example.com", listing.id],
    [user.id.toUpperCase(), listing.id.toUpperCase()],
  ]) {
    const of = ["--listing", loft, "--user", host];
    const membership = { userId: user.id, listingId: listing.id };
    expect(await json("users", "show", host)).toEqual(user);
    expect(await json("listings", "show", loft)).toEqual(listing);
    expect(await json("listings", "list", "--user", host)).toEqual(page(listing));
    expect((await json("members", "list", "--listing", loft)).items).toMatchObject([membership]);
    expect(await json("members", "set", ...of, "--role", "owner")).toMatchObject(membership);
    expect(await json("forms", "list", ...of)).toEqual(page());
    expect(await json("listings", "update", loft, "--city", listing.city)).toEqual(listing);
    const { id } = await json("keys", "issue", "--user", host, "--mode", "read-only");
    expect((await json("keys", "list", "--user", host)).items.at(-1)).toMatchObject({ id });
    const barn = await json("listings", "create", "--owner", host, ...REQUIRED);
    expect(await json("members", "remove", "--listing", barn.id, "--user", host, "--yes")).toMatchObject({
      role: "owner",
    });
  }
  expect((await json("listings", "deactivate", "loft-1")).active).toBe(false);
  await write({ rows: [{ type: "user", externalId: "Host.1@example.com", email: "other@example.com" }] });
  expect((await json("users", "show", "host.1@example.com")).id).toBe(user.id);
  const two = [2, expect.stringMatching(/^USER: two users have this address or external id: .{36}, .{36}$/)];
  for (const command of ["show", "erase"]) expect(await failure("users", command, "Host.1@example.com")).toEqual(two);
});

test("members set and members remove print the membership, with the role as it is typed", async () => {
  const of = ["--listing", loft.id, "--user", ben.id];
  const membership = { listingId: loft.id, userId: ben.id, role: "writer" };
  expect(await json("members", "set", ...of, "--role", "writer")).toEqual(membership);
  expect(await json("members", "remove", ...of)).toEqual(membership);
});

test("keys issue prints the key, and list never does", async () => {
  const { id: userId } = await makeUser(services);
  expect(await json("keys", "list", "--user", userId)).toEqual(page());
  const issue = ["keys", "issue", "--user", userId, "--mode"];
  const issued = await json(...issue, "read-write");
  const key = expect.stringMatching(/^grf_rw_[0-9A-Za-z]{49}$/);
  const prefix = issued.key.slice(0, 12);
  expect(issued).toEqual({ id: A_UUID, key, prefix, mode: "read-write", expiresAt: null });
  const optional = ["--label", "channel manager", "--expires-at", "2099-01-01T01:00:00+01:00"];
  expect(await text(...issue, "read-only", ...optional)).toMatch(
    /key: +grf_ro_\w{49}\n[\s\S]*expiresAt: +2099-01-01T00:00:00.000Z\n[\s\S]*not shown again/,
  );
  const keys = await json("keys", "list", "--user", userId);
  expect(keys.items).toMatchObject([
    { id: issued.id, userId, mode: "read-write", label: null, revokedAt: null, lastUsedAt: null },
    { mode: "read-only", label: "channel manager", expiresAt: "2099-01-01T00:00:00.000Z" },
  ]);
  const table = await text("keys", "list");
  expect(table).toMatch(/^ID +USER ID +PREFIX +MODE/);
  expect(table + JSON.stringify(keys)).not.toContain(issued.key);
});

test("keys rotate prints the new key and when the old one expires", async () => {
  const old = await makeKey(services, ana.id, { mode: "READ_ONLY" });
  const fresh = await json("keys", "rotate", old.id, "--grace", "2h");
  expect(fresh).toEqual({
    ...{ id: A_UUID, key: expect.stringMatching(/^grf_ro_/), prefix: fresh.key.slice(0, 12) },
    ...{ mode: "read-only", expiresAt: null, replaces: { id: old.id, expiresAt: AN_INSTANT } },
  });
  const hours = (Date.parse(fresh.replaces.expiresAt) - Date.now()) / 3_600_000;
  expect(hours).toBeGreaterThan(1.9);
  expect(hours).toBeLessThanOrEqual(2);
});

test("keys show, rotate and revoke take a key's id, its prefix or the whole key", async () => {
  const { id, key, prefix } = await makeKey(services, ben.id, { label: "leaked" });
  const user = { email: ben.email, name: null, externalId: null };
  expect(await json("keys", "show", key)).toMatchObject({ id, prefix, label: "leaked", mode: "read-write", user });
  const { key: _, ...successor } = await json("keys", "rotate", prefix);
  const revoked = await json("keys", "revoke", key);
  expect(revoked).toMatchObject({ id, revokedAt: AN_INSTANT, wasRevoked: false });
  expect(await json("keys", "revoke", key)).toEqual({ ...revoked, wasRevoked: true });
  expect(await text("keys", "revoke", key)).toMatch(/\n\nIt was already revoked\.\n$/);
  expect(await text("keys", "revoke", successor.prefix)).not.toMatch(/already/);
  expect(await json("keys", "revoke", successor.prefix)).toMatchObject({ id: successor.id, revokedAt: AN_INSTANT });
});

test("people show lists the forms that have an address, without it", async () => {
  const form = await makeForm(services, ben.id, hut.id, { guestEmail: "Shown@example.com", numberOfGuests: 4 });
  expect(await json("people", "show", "shown@EXAMPLE.com")).toEqual({ forms: [form], unreadable: 0 });
  expect(await text("people", "show", "shown@example.com")).toMatch(new RegExp(`^ID .*\n${form.id}  - +SENT [^@]*$`));
  expect(await text("people", "show", "nobody@example.com")).toBe("No form has this address.\n");
});

test("forms set-party and set-status change a form, and forms trail prints both changes", async () => {
  const { id: listingId } = await makeListing(services, ana.id, { maxVehicles: 2 });
  const form = await makeForm(services, ana.id, listingId);
  const party = ["forms", "set-party", form.id, "--vehicles"];
  const changed = await json(...party, "2", "--pets", "none");
  expect(changed).toEqual({ ...form, numberOfVehicles: 2, updatedAt: AN_INSTANT });
  expect(Date.parse(changed.updatedAt)).toBeGreaterThan(Date.parse(form.updatedAt));
  expect(await failure(...party, "3")).toEqual([2, "--vehicles: must be at most 2 on this listing"]);
  const status = ["forms", "set-status", form.id];
  expect(await json(...status, "CHECKED_OUT", "--yes")).toMatchObject({ id: form.id, status: "CHECKED_OUT" });
  const trail = await operator.audit.trail({ subjectId: form.id });
  expect(await json("forms", "trail", form.id)).toEqual(trail);
});

test("emails send sends a sent invitation again, which --form lists with the first, and rejects a form past SENT", async () => {
  const form = await makeForm(services, ben.id, hut.id, { ...guest, numberOfGuests: 3 });
  await services.db.pool.query(
    "UPDATE emails SET state = 'sent', next_attempt_at = NULL, ended_at = now() WHERE form_id = $1",
    [form.id],
  );
  const link = `https://a.example/${form.publicId}`;
  const added = await json("emails", "send", link);
  expect(added).toMatchObject({ formId: form.id, state: "waiting", sentAt: null });
  const { items } = await json("emails", "list", "--form", link);
  expect(items).toMatchObject([
    { state: "sent", sentAt: AN_INSTANT, runAt: null },
    { id: added.id, state: "waiting" },
  ]);
  expect(await text("emails", "list", "--form", form.id)).toMatch(
    /^ID .* RUN AT +SENT AT +MESSAGE ID +REPLY +LAST ERROR\n/,
  );
  await json("forms", "set-status", form.id, "COMPLETED");
  expect(await failure("emails", "send", form.id)).toEqual([
    2,
    "FORM: the form is no longer SENT: the invitation is not sent",
  ]);
});

test("forms set-status --from changes only a form in that status", async () => {
  const status = ["forms", "set-status", (await makeForm(services, ana.id, loft.id)).id, "ACCEPTED", "--from"];
  expect(await failure(...status, "COMPLETED")).toEqual([2, "--from: the form is SENT"]);
  expect(await json(...status, "SENT", "--yes")).toMatchObject({ status: "ACCEPTED" });
});

test("forms set-status sets an unknown status with --force", async () => {
  const { id } = await makeForm(services, ana.id, loft.id);
  expect(await text("forms", "set-status", id, "ON_HOLD", "--force", "--yes")).toMatch(/status: +UNKNOWN\n/);
});
