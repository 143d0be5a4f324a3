import { describe, expect, test } from "vitest";
import { asOperator, makeForm, makeKey, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { UUID } from "../support/public-fields.js";
import { commandsWith } from "../support/run-in-process.js";

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
const [{ formId: _, ...email } = { formId: "" }] = (await operator.emails.list({ formId: third.id })).items;
const shown = { ...third, hasGuestEmail: true, emails: [email] };

const page = <Item>(...items: Item[]) => ({ items, nextCursor: null });
const words = (command: string) => command.split(" ");

describe("commands that read", () => {
  const owns = { listingId: loft.id, userId: ana.id, role: "owner", listingTitle: "Loft", userEmail: ana.email };
  // Swedish dates are ISO 8601.
  const checkInDay = new Intl.DateTimeFormat("sv", { timeZone: hut.timezone }).format(
    new Date(third.checkInDate ?? ""),
  );
  test.each<[string, unknown]>([
    ["users list", page(ben, ana)],
    ["users find Ana@EXAMPLE.com", ana],
    [`users find ${ana.id.toUpperCase()}`, ana],
    ["listings list", page(hut, loft)],
    [`listings list --user ${ana.email}`, page(loft)],
    ["listings list --search LOF", page(loft)],
    ["users list --search ana", page(ana)],
    [`listings show ${hut.id}`, hut],
    [`members list --listing ${loft.id}`, page(owns)],
    [`members list --user ${ana.email}`, page(owns)],
    ["forms list", page(third, second, first)],
    [`forms list --listing ${hut.id}`, page(third)],
    [`forms list --user ${ana.email}`, page(second, first)],
    [`forms list --user ${ana.email} --listing ${hut.id}`, page()],
    [`forms list --status SENT --listing ${hut.id} --check-in ${checkInDay}`, page(third)],
    ["forms list --check-in 2020-01-01", page()],
    ["forms list --status ACCEPTED", page()],
    ["emails list --state sent", page()],
    [`forms show ${third.id}`, shown],
    [`forms show /${third.publicId}`, shown],
    ...[
      "register/{}",
      "{}-form",
      "form-{}",
      "{}/registration-complete?lang=de",
      "?url=https%3A%2F%2Fx%2F{}%2Fform",
    ].map((path): [string, unknown] => [
      `forms show https://a.example/${path.replace("{}", third.publicId ?? "")}`,
      shown,
    ]),
  ])("%s prints what the core returns, forms without the guest's address", async (command, expected) => {
    expect(await json(...words(command))).toEqual(expected);
  });

  test("without --json they print tables, newest first, properties by name, or that there is nothing", async () => {
    expect(await text("users", "list")).toMatch(
      new RegExp(
        `^ID +EXTERNAL ID +EMAIL +NAME +CREATED AT\n${ben.id} +- +ben@example.com +- +\\S+\n${ana.id} .* Ana `,
      ),
    );
    expect(await text("listings", "show", hut.id)).toMatch(/\ntitle: +Hut\n/);
    expect(await text("forms", "list", "--user", ana.id, "--listing", hut.id)).toBe("There are no forms.\n");
    const none = "There are no emails in state expired.\n";
    expect(await text("emails", "list", "--state", "expired")).toBe(none);
    const noneSent = "There are no emails in state sent.\n";
    expect(await text("emails", "list", "--state", "sent")).toBe(noneSent);
    const noneOfForm = "There are no emails in state failed of this form.\n";
    expect(await text("emails", "list", "--state", "failed", "--form", third.id)).toBe(noneOfForm);
  });

  test("forms show prints the emails about the form, or that there are none", async () => {
    expect(await text("forms", "show", third.id)).toMatch(
      /^id: [\s\S]*\n\nID +STATE +ATTEMPTS +RUN AT +SENT AT +LAST ERROR\n\d+ +waiting +0 +\S+Z +- +-\n$/,
    );
    const bare = await makeForm(services, ana.id, (await makeListing(services, ana.id)).id);
    expect(await text("forms", "show", bare.id)).toMatch(
      /^hasGuestEmail: +false\n\nThere are no emails about this form, and no address: /m,
    );
    const over = { checkInDate: "2020-07-01T15:00:00Z", checkOutDate: "2020-07-08T10:00:00Z", ...guest };
    const past = await makeForm(services, ana.id, bare.listingId, over);
    expect(await text("forms", "show", past.id)).toMatch(
      /^hasGuestEmail: +true\n\nThere are no emails about this form: its stay was over/m,
    );
    expect(await failure("emails", "send", past.id)).toEqual([2, "FORM: the stay is over: the invitation is not sent"]);
    await services.db.pool.query("DELETE FROM forms WHERE id = ANY ($1)", [[bare.id, past.id]]);
  });

  test("lists are paged, a list with more results prints how to get them, and emails list filters by state", async () => {
    await makeKey(services, ana.id);
    await makeKey(services, ana.id);
    for (const command of ["forms list", `keys list --user ${ana.email}`, "emails list --state waiting"]) {
      const list = [...words(command), "--limit", "1"];
      const start = await json(...list);
      const next = await json(...list, "--after", start.nextCursor);
      expect(next.items).toEqual([expect.not.objectContaining({ id: start.items[0].id })]);
      const more = `\n\nMore results: run this again with --after ${start.nextCursor}\n`;
      expect(await text(...list)).toContain(more);
      if (command === "forms list") {
        const otherList = await failure("users", "list", "--after", start.nextCursor);
        expect(otherList).toEqual([2, expect.stringMatching(/^--after: /)]);
      }
    }
  });

  test("trace prints the changes of a request and the log field to search for", async () => {
    const [{ correlationId } = { correlationId: "" }] = await operator.audit.trail({ subjectId: third.id });
    const traced = await operator.audit.trace({ correlationId });
    expect(traced.entries).toHaveLength(1);
    expect(await json("trace", correlationId)).toEqual(traced);
    const printed = await text("trace", correlationId);
    expect(printed).toContain(`"correlationId":"${correlationId}"`);
    expect(printed).toContain("ACTOR NAME");
    expect(await text("trace", UNKNOWN_ID)).toContain("No changes recorded");
  });
});

const NO_USER = "There is no user with this id, external id or email address.";
const NO_LISTING = "There is no listing with this id or external id.";
const NO_FORM = "There is no form with this id, public id or link.";

test.each<[string, number, string | RegExp]>([
  ...["nobody@example.com", UNKNOWN_ID, "x"].map((user): [string, number, string] => [
    `users find ${user}`,
    1,
    NO_USER,
  ]),
  [`users update ${ana.id}`, 2, "Give --email, --name or both."],
  ["users update nobody@example.com --name x", 1, NO_USER],
  [`users create --email ana@example.com`, 2, `--email: a user with this address already exists: ${ana.id}`],
  ...["0", "101", "x"].map((limit): [string, number, RegExp] => [`users list --limit ${limit}`, 2, /--limit/]),
  [`listings show ${UNKNOWN_ID}`, 1, NO_LISTING],
  [`listings deactivate ${UNKNOWN_ID}`, 1, NO_LISTING],
  ["members list", 2, "--listing: give either a listing or a user"],
  [`members set --listing ${loft.id} --user ${ben.id} --role OWNER`, 2, /Allowed choices are owner, writer/],
  [`members remove --listing ${hut.id} --user ${ana.id}`, 1, /This user has no role on this listing/],
  ["forms list --listing loft", 2, "--listing: no listing has this id or external id"],
  [`forms set-status ${first.id} ACEPTED`, 2, /STATUS: must be one of SENT, .*ACCEPTED/],
  [`forms set-status ${first.id} accepted`, 2, /STATUS: must be one of SENT, .*; if forced, 1 to 32 of/],
  [`forms set-party ${first.id}`, 2, "Give --vehicles, --pets or both."],
  ["forms list --after abc", 2, /^--after: must be the cursor printed after the previous page/],
  [`listings update ${loft.id}`, 2, "Give at least one option to change."],
  [
    "export --output /nonexistent/hosts.csv",
    1,
    "Cannot write /nonexistent/hosts.csv: there is no such folder. Choose another --output.",
  ],
  [`forms set-status ${UNKNOWN_ID} ACCEPTED`, 1, NO_FORM],
  [`forms set-party https://app.example.com/register/nothing --pets 1`, 1, NO_FORM],
  ["emails list --state lost", 2, /state/],
  ["forms list --status SEND", 2, /--status.*Allowed choices are SENT, /],
  ["forms list --check-in 2027-02-31", 2, "--check-in: must be a date from 1970 to 9999, such as 2027-07-01"],
  [`emails list --form ${UNKNOWN_ID}-`, 1, NO_FORM],
  [`emails send ${UNKNOWN_ID}`, 1, NO_FORM],
  [
    `keys issue --user ${ana.id} --mode read-only --expires-at tomorrow`,
    2,
    /^--expires-at: must be an ISO 8601 instant/,
  ],
  [`keys rotate ${UNKNOWN_ID}`, 1, /There is no key with this id/],
  ["keys revoke grf_rw_NoKey", 1, /There is no key with this id/],
  [`keys rotate ${UNKNOWN_ID} --grace 2weeks`, 2, /--grace.*s, m, h or d/],
  [`keys rotate ${UNKNOWN_ID} --grace 366d`, 2, /--grace: must be at most a year/],
  ["trace yesterday", 2, "ID: must be a UUID"],
])("%s exits with %d and one line: %s", async (command, code, message) => {
  const line = typeof message === "string" ? message : expect.stringMatching(message);
  expect(await failure(...words(command))).toEqual([code, line]);
});

test.each([
  "listings list",
  "members list",
  `members remove --listing ${UNKNOWN_ID}`,
  "forms list",
  "keys list",
  "keys issue --mode read-only",
])("%s rejects an unknown user and names the option", async (command) => {
  for (const user of ["nobody@example.com", UNKNOWN_ID, "a@b"]) {
    const unknown = [2, "--user: no user has this id, external id or email address"];
    expect(await failure(...words(command), "--user", user)).toEqual(unknown);
  }
});

test("--user that finds two users says so, and names both", async () => {
  const [one, two] = [await makeUser(services), await makeUser(services)];
  await services.db.pool.query("UPDATE users SET external_id = $1 WHERE id = $2", [one.email, two.id]);
  expect(await failure("keys", "list", "--user", one.email)).toEqual([
    2,
    expect.stringMatching(new RegExp(`^--user: two users have .*(${one.id}|${two.id}), (${one.id}|${two.id})$`)),
  ]);
});

describe("commands that write", () => {
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
    expect(await text("users", "erase", "eve.host@example.com")).toMatch(
      new RegExp(`revokedKeys: +1\nremovedMemberships: 1\n\nThese listings have no owner now.*\n.*\n${listing.id}\n$`),
    );
    expect(await text("users", "erase", id)).toMatch(/removedMemberships: 0\n$/);
    expect(await json("users", "show", id)).toMatchObject({ email: `${id}@erased.invalid`, name: null });
    expect(await failure("users", "erase", "eve.host@example.com")).toEqual([1, NO_USER]);
  });

  const place = ["--title", "Barn", "--address", "Weg 1", "--city", "Ulm", "--country", "Germany"];
  const required = [...place, "--zip-code", "89073", "--timezone", "Europe/Berlin"];

  test("listings create prints the listing with every field, and names each rejected option", async () => {
    const create = ["listings", "create", "--owner", ana.id, ...required];
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
  });

  test('listings update --language sets the language, which show and list print, and "" or none unsets it', async () => {
    const { id } = await makeListing(services, ben.id);
    const update = async (...options: string[]) => (await json("listings", "update", id, ...options)).language;
    for (const none of ["", "none"]) {
      expect(await update("--language", "DE-at")).toBe("de-AT");
      expect(await update("--city", "Graz")).toBe("de-AT");
      expect((await json("listings", "show", id)).language).toBe("de-AT");
      expect(await text("listings", "show", id)).toMatch(/^language: +de-AT$/m);
      expect((await json("listings", "list")).items).toContainEqual(expect.objectContaining({ id, language: "de-AT" }));
      expect(await update("--language", none)).toBeNull();
    }
    expect(await failure("listings", "update", id, "--language", "xx")).toEqual([
      2,
      "--language: must be a language such as de or pt-BR",
    ]);
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

  test("an import's own ids are shown, and every command takes them", async () => {
    const place = { address: "a", city: "c", country: "c", zipCode: "z", timezone: "UTC" };
    const { write } = operator.onboarding;
    await write({ rows: [{ type: "user", externalId: "host-1", email: "host.1@example.com" }] });
    await write({ rows: [{ type: "listing", externalId: "loft-1", title: "Imported", ...place }] });
    await write({ rows: [{ type: "membership", listing: "loft-1", user: "host-1", role: "OWNER" }] });
    const user = await json("users", "show", "host-1");
    expect(user).toMatchObject({ id: A_UUID, externalId: "host-1", email: "host.1@example.com" });
    const listing = await json("listings", "show", "loft-1");
    expect(listing).toMatchObject({ id: A_UUID, externalId: "loft-1", title: "Imported" });
    expect(await json("listings", "show", listing.id.toUpperCase())).toEqual(listing);
    expect(await json("listings", "list", "--user", "host-1")).toEqual(page(listing));
    expect(await text("listings", "list", "--user", "host-1")).toContain(`${listing.id}  loft-1`);
    const members = await json("members", "list", "--listing", "loft-1");
    expect(members.items).toMatchObject([{ userId: user.id, listingId: listing.id }]);
    expect(await json("forms", "list", "--listing", "loft-1", "--user", "host-1")).toEqual(page());
    expect(await json("listings", "update", "loft-1", "--city", "Ulm")).toEqual({ ...listing, city: "Ulm" });
    expect((await json("listings", "deactivate", "loft-1")).active).toBe(false);
    expect(await json("keys", "issue", "--user", "host-1", "--mode", "read-only")).toHaveProperty("key");
    await write({ rows: [{ type: "user", externalId: "Host.1@example.com", email: "other@example.com" }] });
    expect((await json("users", "show", "host.1@example.com")).id).toBe(user.id);
    const two = [2, expect.stringMatching(/^USER: two users have this address or external id: .{36}, .{36}$/)];
    expect(await failure("users", "show", "Host.1@example.com")).toEqual(two);
    expect(await failure("users", "erase", "Host.1@example.com")).toEqual(two);
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
    expect(await text("people", "show", "shown@example.com")).toMatch(new RegExp(`^ID .*\n${form.id}  SENT [^@]*$`));
    expect(await text("people", "show", "nobody@example.com")).toBe("No form has this address.\n");
  });

  test("forms set-party and set-status change a form, and forms trail prints both changes", async () => {
    const { id: listingId } = await makeListing(services, ana.id, { maxVehicles: 2 });
    const form = await makeForm(services, ana.id, listingId);
    const party = ["forms", "set-party", form.id, "--vehicles"];
    expect(await json(...party, "2", "--pets", "none")).toEqual({ ...form, numberOfVehicles: 2 });
    expect(await failure(...party, "3")).toEqual([2, "--vehicles: must be at most 2 on this listing"]);
    const status = ["forms", "set-status", form.id];
    expect(await json(...status, "CHECKED_OUT")).toMatchObject({ id: form.id, status: "CHECKED_OUT" });
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
    expect(await text("emails", "list", "--form", form.id)).toMatch(/^ID .* RUN AT +SENT AT +LAST ERROR\n/);
    await json("forms", "set-status", form.id, "COMPLETED");
    expect(await failure("emails", "send", form.id)).toEqual([
      2,
      "FORM: the form is no longer SENT: the invitation is not sent",
    ]);
  });

  test("forms set-status --from changes only a form in that status", async () => {
    const status = ["forms", "set-status", second.id, "ACCEPTED", "--from"];
    expect(await failure(...status, "COMPLETED")).toEqual([2, "--from: the form is SENT"]);
    expect(await json(...status, "SENT")).toMatchObject({ status: "ACCEPTED" });
  });

  test("forms set-status sets an unknown status with --force", async () => {
    expect(await text("forms", "set-status", first.id, "ON_HOLD", "--force")).toMatch(/status: +UNKNOWN\n/);
  });
});
