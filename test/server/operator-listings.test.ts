import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { formIdsInScope, insertListingsWithForms, listingIdsInScope } from "../support/bulk.js";
import { openTestCore } from "../support/core.js";
import { asOperator, catchErrorCode, catchRejectedFields, makeListing } from "../support/factories.js";

const core = await openTestCore();
const { services, operator, sql, setRole, makeUser, makeOwner, asUser, runBehind, openProcess } = core;
const { onboarding } = operator;
const UNKNOWN_IDS = [randomUUID(), "x", ""];

describe("members", () => {
  test("a user has one role on a listing: the one set last", async () => {
    const { userId: ownerId, listingId: id } = await makeOwner();
    const member = await makeUser();
    for (const role of ["READER", "WRITER", "OWNER", "READER"] as const) {
      const ids = { listingId: id.toUpperCase(), userId: member.id.toUpperCase() };
      const set = await operator.members.set({ ...ids, role });
      expect(set).toEqual({ listingId: id, userId: member.id, role });
    }
    const sorted = (await operator.members.list({ listingId: id })).items.map(
      ({ userId, role }) => `${role} ${userId}`,
    );
    expect(sorted.sort()).toEqual([`OWNER ${ownerId}`, `READER ${member.id}`]);
    const removed = await operator.members.remove({ listingId: id, userId: member.id });
    expect(removed).toEqual({ listingId: id, userId: member.id, role: "READER" });
    expect((await operator.members.list({ listingId: id })).items).toHaveLength(1);
  });

  test("of concurrent removals of one membership, one succeeds and is audited, the others are RESOURCE_NOT_FOUND", async () => {
    const { listingId } = await makeOwner();
    const { id: userId } = await makeUser();
    for (let round = 1; round <= 5; round++) {
      await setRole(listingId, userId, "WRITER");
      const removals = Array.from({ length: 5 }, () => operator.members.remove({ listingId, userId }));
      const outcomes = await Promise.allSettled(removals);
      const failures = outcomes.flatMap((of) => (of.status === "rejected" ? [of.reason.serviceCode] : []));
      expect(failures).toEqual(Array(4).fill("RESOURCE_NOT_FOUND"));
      const trail = await operator.audit.trail({ subjectId: listingId, limit: 1000 });
      expect(trail.filter(({ action }) => action === "member.removed")).toHaveLength(round);
    }
  });

  test("an unknown user or listing is rejected", async () => {
    const { userId: ownerId, listingId: id } = await makeOwner();
    for (const unknown of UNKNOWN_IDS) {
      const set = (listingId: string, userId: string) =>
        catchRejectedFields(operator.members.set({ listingId, userId, role: "WRITER" }));
      expect(await set(id, unknown)).toEqual(["userId"]);
      expect(await set(unknown, ownerId)).toEqual(["listingId"]);
      const remove = operator.members.remove({ listingId: unknown, userId: ownerId });
      expect(await catchErrorCode(remove)).toBe("RESOURCE_NOT_FOUND");
    }
    expect(await catchRejectedFields(setRole(id, ownerId, "owner" as "OWNER"))).toEqual(["role"]);
  });
});

describe("listings", () => {
  test("all invalid fields of a new listing are reported together", async () => {
    const invalid = {
      title: "",
      address: " ",
      city: "\n",
      country: "c".repeat(201),
      zipCode: "z".repeat(21),
      timezone: "Mars/Olympus",
      maxPeopleInListing: 0,
      maxVehicles: -1,
      allowPets: "no" as unknown as boolean,
      language: "german",
    };
    const fields = await catchRejectedFields(makeListing(services, randomUUID(), invalid));
    expect(fields.sort()).toEqual(Object.keys(invalid).sort());
    for (const ownerId of UNKNOWN_IDS) {
      expect(await catchRejectedFields(makeListing(services, ownerId))).toEqual(["ownerId"]);
    }
    const { id } = await makeUser();
    for (const timezone of ["+02:00", "Berlin", "", "Europe/Atlantis", "MIT", "IST", "EST", "US/Pacific-New"]) {
      expect(await catchRejectedFields(makeListing(services, id, { timezone })), timezone).toEqual(["timezone"]);
    }
    for (const timezone of ["UTC", "GMT", "Asia/Kolkata", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]) {
      expect(await makeListing(services, id, { timezone })).toMatchObject({ timezone });
    }
  });

  test("an update changes only the given fields, null unsets a field, existing forms do not change, and the audit names the fields", async () => {
    const owner = await makeOwner({ maxPeopleInListing: 4, district: "Mitte" });
    const form = await owner.addForm({ numberOfGuests: 4 });
    const before = await operator.listings.getAny({ id: owner.listingId });
    const changed = await operator.listings.update({
      id: owner.listingId.toUpperCase(),
      title: "New title",
      district: null,
      maxPeopleInListing: 2,
    });
    expect(changed).toEqual({ ...before, title: "New title", district: null, maxPeopleInListing: 2 });
    expect(await owner.forms.get({ id: form.id })).toEqual(form);
    const closed = await operator.listings.deactivate({ id: owner.listingId });
    expect(closed).toEqual({ ...changed, active: false });
    expect(await operator.listings.update({ id: owner.listingId })).toEqual(closed);
    const trail = await operator.audit.trail({ subjectId: owner.listingId });
    expect(trail.map(({ actor, action, details }) => [actor, action, details])).toEqual([
      ["operator", "listing.updated", { fields: ["active"], active: false }],
      ["operator", "listing.updated", { fields: ["title", "district", "maxPeopleInListing"] }],
      ["operator", "listing.created", { ownerId: owner.userId }],
    ]);
    const invalid = { id: owner.listingId, title: "", timezone: "Mars/Base" };
    expect(await catchRejectedFields(operator.listings.update(invalid))).toEqual(["title", "timezone"]);
    expect(await catchRejectedFields(owner.create(owner.body))).toEqual(["listingId"]);
    for (const id of UNKNOWN_IDS) {
      expect(await catchErrorCode(operator.listings.update({ id, title: "x" }))).toBe("RESOURCE_NOT_FOUND");
      expect(await catchErrorCode(operator.listings.deactivate({ id }))).toBe("RESOURCE_NOT_FOUND");
    }
  });

  test("a language is stored in canonical form, and rejected if it is malformed, unknown or too long", async () => {
    const { listingId: id } = await makeOwner();
    const setLanguage = async (language: string | null) => (await operator.listings.update({ id, language })).language;
    expect(await operator.listings.getAny({ id })).toHaveProperty("language", null);
    for (const [given, stored] of [
      ["DE", "de"],
      [" pt-br ", "pt-BR"],
      ["EN-us", "en-US"],
      ["zh-hant-tw", "zh-Hant-TW"],
      ["deu", "de"],
      ["iw", "he"],
      ["GSW", "gsw"],
      ["es-419", "es-419"],
    ] as const) {
      expect(await setLanguage(given)).toBe(stored);
      expect(await operator.listings.find({ listing: id })).toHaveProperty("language", stored);
    }
    const noLanguage = "must be a language such as de or pt-BR";
    const isRejected = (given: string, issue: string) =>
      expect(setLanguage(given), given).rejects.toMatchObject({
        serviceCode: "VALIDATION_ERROR",
        errors: [{ field: "language", issue }],
      });
    for (const tag of ["", " ", "d", "xx", "xx-DE", "de_DE", "de-", "german", "none", "x-de", "*", "de,en"])
      await isRejected(tag, noLanguage);
    await isRejected(`de-x${"-abcdefgh".repeat(3)}-abcd`, "must be at most 35 characters");
    expect((await operator.listings.update({ id, title: "New" })).language).toBe("es-419");
    expect(await setLanguage(`de-x${"-abcdefgh".repeat(3)}-abc`)).toHaveLength(35);
    expect(await setLanguage(null)).toBeNull();
  });
});

const other = asOperator(await openProcess());

const place = { address: "a", city: "c", country: "c", zipCode: "z", timezone: "UTC" };

let serial = 0;

/** Rows of users and of listings that no other test names. */
function makeRows(count: number) {
  const id = `s${++serial}`;
  const numbers = Array.from({ length: count }, (_, index) => index);
  return {
    users: numbers.map((n) => ({ type: "user" as const, externalId: `${id}-${n}`, email: `${id}.${n}@example.com` })),
    listings: numbers.map((n) => ({ type: "listing" as const, externalId: `${id}-${n}`, title: "t", ...place })),
    memberships: numbers.map((n) => ({
      type: "membership" as const,
      listing: `${id}-${n}`,
      user: `${id}-${n}`,
      role: "OWNER" as const,
    })),
  };
}

const none = { created: 0, updated: 0, unchanged: 0 };

describe("onboarding.write", () => {
  test("concurrent writes of the same rows all succeed, return the same ids, and create and audit each row once", async () => {
    const [{ before }] = await sql("SELECT coalesce(max(id), 0)::text AS before FROM audit_entries");
    for (let round = 0; round < 5; round++) {
      const { users, listings, memberships } = makeRows(50);
      for (const rows of [users, listings, memberships]) {
        const reversed = [...rows].reverse();
        const results = await Promise.all([
          onboarding.write({ rows }),
          other.onboarding.write({ rows: reversed }),
          onboarding.write({ rows }),
        ]);
        const total = (outcome: "created" | "unchanged") => results.reduce((sum, counts) => sum + counts[outcome], 0);
        expect([total("created"), total("unchanged")]).toEqual([50, 100]);
        const [first, second, third] = results.map(({ ids }) => ids);
        expect([second?.toReversed(), third]).toEqual([first, first]);
      }
    }
    const repeated =
      "SELECT FROM audit_entries WHERE id > $1::bigint GROUP BY subject_id, action, details HAVING count(*) > 1";
    expect(await sql(repeated, before)).toEqual([]);
  });

  test("a batch with an invalid row writes nothing and names the row", async () => {
    const { users, memberships } = makeRows(3);
    const { email } = await makeUser();
    const taken = { type: "user" as const, email };
    await onboarding.write({ rows: [{ ...taken, externalId: "taken" }] });
    const rejected = onboarding.write({ rows: [...users, { ...taken, externalId: "other" }] });
    expect(await catchRejectedFields(rejected)).toEqual(["rows.3.email"]);
    const check = await onboarding.check({ lines: [{ line: 1, value: users[0] }] });
    expect(check.counts.users).toEqual({ ...none, created: 1 });
    const unknown = onboarding.write({ rows: memberships.slice(0, 1) });
    expect(await catchRejectedFields(unknown)).toEqual(["rows.0.listing", "rows.0.user"]);
    const mixed = onboarding.write({ rows: [...users, ...memberships] });
    expect(await catchRejectedFields(mixed)).toEqual(["rows"]);
  });

  test("an update sets only the fields that differ, so it keeps a concurrent change of another field", async () => {
    const { users, listings, memberships } = makeRows(1);
    for (const rows of [users, listings, memberships]) await onboarding.write({ rows });
    const user = await operator.users.find({ user: users[0]?.email ?? "" });
    const [id = ""] = await listingIdsInScope(services, user.id);
    const rows = listings.map((listing) => ({ ...listing, title: "New" }));
    const move = "UPDATE listings SET city = 'Ulm' WHERE id = $1";
    const written = await runBehind([move, id], () => onboarding.write({ rows }));
    expect(written).toEqual({ ...none, updated: 1, ids: [id] });
    expect(await operator.listings.getAny({ id })).toMatchObject({ city: "Ulm", title: "New" });
  });

  test("memberships of listings with few and with many forms put exactly these forms in scope", async () => {
    const owner = await makeUser();
    const member = await makeUser();
    for (const [listings, formsPerListing] of [
      [3, 20],
      [2, 150],
    ] as const) {
      await insertListingsWithForms(services, owner.id, { listings, formsPerListing, distinctTimes: 50 });
    }
    const ids = await listingIdsInScope(services, owner.id);
    const setAll = (role: "WRITER" | "READER") => {
      const row = { type: "membership", user: member.email, role } as const;
      return onboarding.write({ rows: ids.map((listing) => ({ ...row, listing })) });
    };
    expect(await setAll("WRITER")).toMatchObject({ ...none, created: 5 });
    const scoped = await sql(
      "SELECT form_id AS id FROM scoped_forms WHERE user_id = $1 ORDER BY created_at, form_id",
      member.id,
    );
    expect(scoped).toHaveLength(360);
    expect(scoped.map(({ id }) => id)).toEqual(await formIdsInScope(services, member.id));
    expect(await setAll("READER")).toMatchObject({ ...none, updated: 5 });
    expect((await asUser(member.id).forms.list({})).items).toEqual([]);
    for (const listing of ids) {
      const trail = await operator.audit.trail({ subjectId: listing });
      expect(trail.map(({ details }) => details)).toEqual([
        { userId: member.id, role: "READER" },
        { userId: member.id, role: "WRITER" },
      ]);
    }
  });
});
