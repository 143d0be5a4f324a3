import { describe, expect, test } from "vitest";
import { DATABASE_CHECKS } from "../../gateway/doctor/checks.js";
import { readSettings } from "../../server/config.js";
import { exampleFacts, variablesOf } from "../../server/emails/variables.js";
import { openTestCore } from "../support/core.js";
import { asOperator, catchRejectedFields, makeListing } from "../support/factories.js";

const { services, owner, operator, sql, openProcess } = await openTestCore();
const { userId } = owner;

// Like the packages of Debian 13, which lack old names without `zones-legacy`.
await sql("CREATE SCHEMA zones");
await sql(`CREATE VIEW zones.pg_timezone_names AS
  SELECT * FROM pg_catalog.pg_timezone_names WHERE name NOT IN ('Asia/Calcutta', 'Europe/Kiev')`);
await sql(
  `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path TO zones, pg_catalog, public', current_database()); END $$`,
);
const narrow = await openProcess();

const DAY = "2033-05-04";
const formIds = async (listingId?: string) =>
  (await operator.forms.listAll({ checkInDay: DAY, ...(listingId && { listingId }) })).items.map(({ id }) => id);

/** Sets a time zone as an older version, or SQL, has stored it. */
const storeTimeZone = (listingId: string, timezone: string) =>
  sql("UPDATE listings SET timezone = $2 WHERE id = $1", listingId, timezone);

describe("a time zone that is written", () => {
  test("is kept as it is sent, in the letter case of the database, if Intl and the database know it", async () => {
    const known = {
      "Asia/Calcutta": "Asia/Calcutta",
      "Asia/Kolkata": "Asia/Kolkata",
      "europe/BERLIN": "Europe/Berlin",
    };
    for (const [timezone, stored] of Object.entries(known)) {
      const listing = await makeListing(services, userId, { timezone });
      expect(listing.timezone).toBe(stored);
      expect(await operator.listings.update({ id: listing.id, timezone: timezone.toUpperCase() })).toEqual(listing);
      const row = { type: "listing", externalId: `l-${stored}`, ...place, timezone } as const;
      await operator.onboarding.write({ rows: [row] });
      expect(await operator.listings.find({ listing: row.externalId })).toMatchObject({ timezone: stored });
      expect(await operator.onboarding.write({ rows: [row] })).toMatchObject({ unchanged: 1 });
    }
  });

  test.each(["Asia/Calcutta", "europe/kiev"])(
    "is rejected if only Intl knows it, by create, update, and import: %s",
    async (timezone) => {
      const { listings, onboarding } = asOperator(narrow);
      const issue = expect.stringContaining("is not known to this database: use the current name of the zone");
      const rejected = { errors: [{ field: "timezone", issue }] };
      await expect(makeListing(narrow, userId, { timezone })).rejects.toMatchObject(rejected);
      await expect(listings.update({ id: owner.listingId, timezone })).rejects.toMatchObject(rejected);
      expect((await listings.getAny({ id: owner.listingId })).timezone).toBe("Europe/Berlin");
      const row = { type: "listing", externalId: timezone, ...place, timezone } as const;
      expect(await onboarding.check({ lines: [{ line: 7, value: row }] })).toMatchObject({
        errors: [{ line: 7, field: "timezone", issue }],
      });
      expect(await catchRejectedFields(onboarding.write({ rows: [row] }))).toEqual(["rows.0.timezone"]);
      expect(await makeListing(narrow, userId, { timezone: "Asia/Kolkata" })).toMatchObject({
        timezone: "Asia/Kolkata",
      });
    },
  );
});

const place = { title: "t", address: "a", city: "c", country: "c", zipCode: "z" };

describe("a stored time zone that neither Intl nor the database knows", async () => {
  const other = await owner.addForm({ checkInDate: `${DAY}T10:00:00Z`, checkOutDate: "2033-05-09T10:00:00Z" });
  const listing = await owner.addListing();
  const form = await owner.addForm({
    listingId: listing.id,
    // Already the next day in Berlin.
    checkInDate: `${DAY}T23:30:00Z`,
    checkOutDate: "2033-05-09T10:00:00Z",
    guestEmail: "guest@example.com",
  });
  await storeTimeZone(listing.id, "Asia/Nowhere");

  test("counts as UTC in lists by day, which have the forms of the other listings too", async () => {
    expect(await formIds()).toEqual([form.id, other.id]);
    expect(await formIds(listing.id)).toEqual([form.id]);
    await storeTimeZone(listing.id, "europe/berlin");
    expect(await formIds()).toEqual([other.id]);
    await storeTimeZone(listing.id, "Asia/Nowhere");
  });

  test("has its stored name in templates, and no other zone's", () => {
    const facts = exampleFacts();
    const unknown = { ...facts, listing: { ...facts.listing, timezone: "Asia/Nowhere" } };
    const { stay } = variablesOf(unknown, {}, { language: "en", locale: "en-GB" });
    expect(stay).toEqual({ checkIn: null, checkOut: null, deadline: null, timeZone: "Asia/Nowhere" });
  });

  test("leaves times out of emails, which are sent", async () => {
    const { text } = await operator.emails.preview({ formId: form.id });
    expect(text).toContain("Guests: ");
    expect(text).toContain(`/${form.publicId}`);
    expect(text).not.toMatch(/Check-in|Check-out|local to the property|\d\d:\d\d|2033/);
  });

  test("does not change when other fields are updated, and can be exported", async () => {
    expect(await operator.listings.update({ id: listing.id, title: "New" })).toMatchObject({
      timezone: "Asia/Nowhere",
    });
    const { rows } = await operator.onboarding.export({ type: "listing" });
    expect(rows).toContainEqual(expect.objectContaining({ id: listing.id, timezone: "Asia/Nowhere" }));
  });

  test("is found by doctor, which names at most three listings, also if only the database does not know it", async () => {
    const settings = readSettings({ DATABASE_URL: services.db.url });
    const check = (db = services.db) =>
      DATABASE_CHECKS["time zones"]({ settings, env: {}, processes: 1, worker: true }, db);
    expect(await check()).toMatchObject({
      status: "warning",
      message: expect.stringMatching(
        `: ${listing.id} \\(Asia/Nowhere\\)\\. Run .guest-forms listings update ID --timezone`,
      ),
    });
    await storeTimeZone(listing.id, "Europe/Berlin");
    expect(await check()).toMatchObject({ status: "ok" });
    for (const timezone of ["Asia/Calcutta", "Europe/Kiev"]) {
      await storeTimeZone((await owner.addListing()).id, timezone);
      await storeTimeZone((await owner.addListing()).id, timezone);
    }
    expect(await check()).toMatchObject({ status: "ok" });
    const { message } = await check(narrow.db);
    expect(message.match(/\((Asia\/Calcutta|Europe\/Kiev)\)/g)).toHaveLength(3);
    // Also those that earlier tests made.
    const { rows } = await services.db.pool.query(
      "SELECT FROM listings WHERE timezone IN ('Asia/Calcutta', 'Europe/Kiev')",
    );
    expect(message).toContain(` and ${rows.length - 3} more. Run`);
  });
});
