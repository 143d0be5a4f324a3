import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  asOperator,
  asUser,
  makeForm,
  makeKey,
  makeListing,
  makeUser,
  openTestServices,
} from "../support/factories.js";
import { UUID } from "../support/public-fields.js";
import { commandsWith } from "../support/run-in-process.js";
import { fixedStay } from "../support/stays.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";
const AN_INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const A_UUID = expect.stringMatching(UUID);

const services = await openTestServices();
const operator = asOperator(services);
const { text, json, failure } = commandsWith({ DATABASE_URL: services.db.url });

const ana = await makeUser(services, { email: "Ana@example.com", name: "Ana" });
const ben = await makeUser(services, { email: "ben@example.com" });
const loft = await makeListing(services, ana.id, { title: "Loft" });
const hut = await makeListing(services, ben.id, { title: "Hut" });
const guest = { guestEmail: "guest@example.com" };
/** Two on the loft and one on the hut. */
const first = await makeForm(services, ana.id, loft.id, guest);
const second = await makeForm(services, ana.id, loft.id, guest);
const third = await makeForm(services, ben.id, hut.id, guest);

const page = <Item>(...items: Item[]) => ({ items, nextCursor: null });
const fails = (code: number, message: string | RegExp) => [
  code,
  typeof message === "string" ? message : expect.stringMatching(message),
];

describe("commands that read", () => {
  test("users list prints all users, newest first", async () => {
    expect(await json("users", "list")).toEqual(page(ben, ana));
    expect(await text("users", "list")).toMatch(
      new RegExp(`^ID +EMAIL +NAME +CREATED AT\n${ben.id} +ben@example.com +- +\\S+\n${ana.id} .* Ana `),
    );
  });

  test("users find accepts an email address or an id", async () => {
    for (const user of ["Ana@EXAMPLE.com", ana.id.toUpperCase()])
      expect(await json("users", "find", user)).toEqual(ana);
    const missing = fails(1, "There is no user with this email address or id.");
    for (const user of ["nobody@example.com", UNKNOWN_ID, "x"])
      expect(await failure("users", "find", user)).toEqual(missing);
    expect(await failure("users", "find", "a@b")).toEqual(fails(2, "USER: must be an email address"));
  });

  test("listings list prints all listings or those in scope of a user's keys, and listings show prints one", async () => {
    expect(await json("listings", "list")).toEqual(page(hut, loft));
    expect(await json("listings", "list", "--user", ana.email)).toEqual(page(loft));
    expect(await json("listings", "show", hut.id)).toEqual(hut);
    expect(await text("listings", "show", hut.id)).toMatch(/\ntitle: +Hut\n/);
    const missing = fails(1, "There is no listing with this id.");
    expect(await failure("listings", "show", UNKNOWN_ID)).toEqual(missing);
  });

  test("members list prints the members of a listing, or the memberships of a user", async () => {
    const names = { listingTitle: "Loft", userEmail: ana.email };
    const member = { listingId: loft.id, userId: ana.id, role: "owner", ...names };
    expect(await json("members", "list", "--listing", loft.id)).toEqual(page(member));
    expect(await json("members", "list", "--user", ana.email)).toEqual(page(member));
    const either = fails(2, "--listing: give either a listing or a user");
    expect(await failure("members", "list")).toEqual(either);
  });

  test("forms list prints all forms, those of a listing or those in scope of a user's keys, and never an email address", async () => {
    const list = ["forms", "list"];
    const all = await json(...list);
    expect(all).toEqual(page(third, second, first));
    expect(JSON.stringify(all)).not.toContain("guest@");
    expect(await json(...list, "--listing", hut.id)).toEqual(page(third));
    expect(await json(...list, "--user", ana.email)).toEqual(page(second, first));
    const none = [...list, "--user", ana.email, "--listing", hut.id];
    expect(await json(...none)).toEqual(page());
    expect(await text(...none)).toBe("There are no forms.\n");
    expect(await json("forms", "show", third.id)).toEqual(third);
    expect(await failure(...list, "--listing", "loft")).toEqual(fails(2, "--listing: must be a UUID"));
  });

  test("lists are paged, a list with more results prints how to get them, and notifications filters by state", async () => {
    await makeKey(services, ana.id);
    await makeKey(services, ana.id);
    for (const list of [
      ["forms", "list"],
      ["keys", "list", "--user", ana.email],
      ["notifications", "--state", "waiting"],
    ]) {
      const start = await json(...list, "--limit", "1");
      const next = await json(...list, "--limit", "1", "--after", start.nextCursor);
      expect(next.items).toEqual([expect.not.objectContaining({ id: start.items[0].id })]);
      const more = `\n\nMore results: run this again with --after ${start.nextCursor}\n`;
      expect(await text(...list, "--limit", "1")).toContain(more);
    }
    const { nextCursor } = await json("forms", "list", "--limit", "1");
    expect(await failure("users", "list", "--after", nextCursor)).toEqual(fails(2, /^--after: /));
    for (const limit of ["0", "101", "x"])
      expect(await failure("users", "list", "--limit", limit)).toEqual(fails(2, /--limit/));
    const none = "There are no notifications in state expired.\n";
    expect(await text("notifications", "--state", "expired")).toBe(none);
    expect((await failure("notifications", "--state", "lost"))[0]).toBe(2);
  });

  test("trace prints the changes of a request and the log field to search for", async () => {
    const correlationId = randomUUID();
    await asUser(services, ana.id, { correlationId }).forms.create(fixedStay(loft.id));
    const { entries } = await operator.audit.trace({ correlationId });
    expect(entries).toHaveLength(1);
    const traced = { correlationId, logField: "correlationId", entries };
    expect(await json("trace", correlationId)).toEqual(traced);
    const printed = await text("trace", correlationId);
    expect(printed).toContain(`"correlationId":"${correlationId}"`);
    expect(await text("trace", UNKNOWN_ID)).toContain("No changes recorded");
    expect(await failure("trace", "yesterday")).toEqual(fails(2, "ID: must be a UUID"));
  });
});

test.each([
  ["listings", "list"],
  ["members", "list"],
  ["members", "remove", "--listing", UNKNOWN_ID],
  ["forms", "list"],
  ["keys", "list"],
  ["keys", "issue", "--mode", "read-only"],
])("%s %s rejects an unknown user and names the option", async (...args) => {
  const unknown = fails(2, "--user: no user has this id or email address");
  for (const user of ["nobody@example.com", UNKNOWN_ID, "a@b"])
    expect(await failure(...args, "--user", user)).toEqual(unknown);
});

describe("commands that write", () => {
  test("users create prints the user, and rejects an address that is already used", async () => {
    const user = await json("users", "create", "--email", "Ada@Example.COM", "--name", "Ada");
    expect(user).toMatchObject({ id: A_UUID, email: "Ada@example.com", name: "Ada" });
    expect(await failure("users", "create", "--email", "ada@example.com")).toEqual(
      fails(2, `--email: a user with this address already exists: ${user.id}`),
    );
  });

  const place = ["--title", "Barn", "--address", "Weg 1", "--city", "Ulm", "--country", "Germany"];
  const required = [...place, "--zip-code", "89073", "--timezone", "Europe/Berlin"];

  test("listings create prints the listing with every field, and names each rejected option", async () => {
    const create = ["listings", "create", "--owner", ana.id, ...required];
    const limits = ["--max-people", "4", "--max-vehicles", "0", "--allow-pets", "false"];
    const listing = await json(...create, "--district", "Mitte", ...limits, "--inactive");
    expect(listing).toEqual({
      id: A_UUID,
      publicId: expect.stringMatching(/^[\w-]{21}$/),
      title: "Barn",
      address: "Weg 1",
      city: "Ulm",
      country: "Germany",
      zipCode: "89073",
      district: "Mitte",
      timezone: "Europe/Berlin",
      active: false,
      maxPeopleInListing: 4,
      maxVehicles: 0,
      allowPets: false,
      createdAt: AN_INSTANT,
    });
    const unset = { active: true, district: null, maxPeopleInListing: null, allowPets: null };
    expect(await json(...create)).toMatchObject(unset);
    const faults = ["--timezone", "Mars/Base", "--max-people", "0"];
    const message = /^--timezone: must be an IANA.*; --max-people: must be at least 1$/;
    expect(await failure(...create, ...faults)).toEqual(fails(2, message));
  });

  test("listings update changes only the given fields, and listings deactivate makes a listing inactive", async () => {
    const listing = await makeListing(services, ana.id, { district: "Mitte", maxVehicles: 2 });
    const { id } = listing;
    const changes = ["--title", "New", "--district", "", "--max-people", "3", "--max-vehicles", "none"];
    expect(await json("listings", "update", id, ...changes, "--allow-pets", "false")).toEqual({
      ...listing,
      title: "New",
      district: null,
      maxPeopleInListing: 3,
      maxVehicles: null,
      allowPets: false,
    });
    expect((await json("listings", "deactivate", id)).active).toBe(false);
    expect((await json("listings", "update", id, "--active", "true")).active).toBe(true);
    const missing = fails(1, "There is no listing with this id.");
    expect(await failure("listings", "deactivate", UNKNOWN_ID)).toEqual(missing);
  });

  test("listings create, members and keys accept a user by id or email address", async () => {
    const owner = await makeUser(services, { email: "owner@example.com" });
    const barn = await json("listings", "create", "--owner", "owner@Example.com", ...required);
    expect(await json("listings", "list", "--user", owner.id)).toEqual(page(barn));
    for (const user of [ben.email, ben.id.toUpperCase()]) {
      const of = ["--listing", barn.id, "--user", user];
      expect(await json("members", "set", ...of, "--role", "reader")).toMatchObject({ userId: ben.id });
    }
    const { id } = await json("keys", "issue", "--user", owner.email, "--mode", "read-only");
    expect((await json("keys", "list", "--user", owner.email)).items).toMatchObject([{ id }]);
  });

  test("members set and members remove print the membership, with the role as it is typed", async () => {
    const of = ["--listing", loft.id, "--user", ben.id];
    const membership = { listingId: loft.id, userId: ben.id, role: "writer" };
    expect(await json("members", "set", ...of, "--role", "writer")).toEqual(membership);
    expect(await json("members", "remove", ...of)).toEqual(membership);
    const missing = fails(1, /This user has no role on this listing/);
    expect(await failure("members", "remove", ...of)).toEqual(missing);
    const choices = fails(2, /Allowed choices are owner, writer/);
    expect(await failure("members", "set", ...of, "--role", "OWNER")).toEqual(choices);
  });

  test("keys issue prints the key, and list never does", async () => {
    const { id: userId } = await makeUser(services);
    expect(await json("keys", "list", "--user", userId)).toEqual(page());
    const issue = ["keys", "issue", "--user", userId, "--mode"];
    const issued = await json(...issue, "read-write");
    expect(issued).toEqual({
      id: A_UUID,
      key: expect.stringMatching(/^grf_rw_[0-9A-Za-z]{49}$/),
      prefix: issued.key.slice(0, 12),
      mode: "read-write",
      expiresAt: null,
    });
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
    const tomorrow = fails(2, /^--expires-at: must be an ISO 8601 instant/);
    expect(await failure(...issue, "read-only", "--expires-at", "tomorrow")).toEqual(tomorrow);
  });

  test("keys rotate prints the new key and when the old one expires, and keys revoke when a key was revoked", async () => {
    const old = await makeKey(services, ana.id, { mode: "READ_ONLY" });
    const fresh = await json("keys", "rotate", old.id, "--grace", "2h");
    expect(fresh).toEqual({
      id: A_UUID,
      key: expect.stringMatching(/^grf_ro_/),
      prefix: fresh.key.slice(0, 12),
      mode: "read-only",
      expiresAt: null,
      replaces: { id: old.id, expiresAt: AN_INSTANT },
    });
    expect(await json("keys", "revoke", fresh.id)).toMatchObject({ id: fresh.id, revokedAt: AN_INSTANT });
    const hours = (Date.parse(fresh.replaces.expiresAt) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(1.9);
    expect(hours).toBeLessThanOrEqual(2);
    const rotate = ["keys", "rotate", UNKNOWN_ID];
    expect(await failure(...rotate)).toEqual(fails(1, /There is no key with this id/));
    expect(await failure(...rotate, "--grace", "2 weeks")).toEqual(fails(2, /--grace.*s, m, h or d/));
    expect(await failure(...rotate, "--grace", "366d")).toEqual(fails(2, /--grace: must be at most a year/));
  });

  test("forms set-party and set-status change a form, and forms trail prints both changes", async () => {
    const { id: listingId } = await makeListing(services, ana.id, { maxVehicles: 2 });
    const form = await makeForm(services, ana.id, listingId);
    const party = ["forms", "set-party", form.id, "--vehicles"];
    expect(await json(...party, "2", "--pets", "none")).toEqual({ ...form, numberOfVehicles: 2 });
    const atMost = fails(2, "--vehicles: must be at most 2 on this listing");
    expect(await failure(...party, "3")).toEqual(atMost);
    const status = ["forms", "set-status", form.id];
    expect(await json(...status, "CHECKED_OUT")).toMatchObject({ id: form.id, status: "CHECKED_OUT" });
    const trail = await operator.audit.trail({ subjectId: form.id });
    expect(await json("forms", "trail", form.id)).toEqual(trail);
  });

  test("forms set-status rejects an unknown status, and sets it with --force", async () => {
    const set = ["forms", "set-status", first.id];
    expect(await failure(...set, "ACEPTED")).toEqual(fails(2, /STATUS: must be one of SENT, .*ACCEPTED/));
    expect(await failure(...set, "accepted")).toEqual(fails(2, /STATUS: must be 1 to 32 of/));
    expect(await text(...set, "ON_HOLD", "--force")).toMatch(/status: +UNKNOWN\n/);
    const missing = fails(1, "There is no form with this id.");
    expect(await failure("forms", "set-status", UNKNOWN_ID, "ACCEPTED")).toEqual(missing);
  });
});
