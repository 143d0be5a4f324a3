import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { formIdsInScope, insertListingsWithForms, listingIdsInScope } from "../support/bulk.js";
import { asOperator, asUser, catchServiceError, makeUser, openTestServices } from "../support/factories.js";
import { holdLock, waitForBlocked } from "../support/locks.js";

let services: Services;
/** Another process on the same database. */
let otherServices: Services;

beforeAll(async () => {
  services = await openTestServices();
  otherServices = await openTestServices({ DATABASE_URL: services.db.url });
});

const place = { address: "a", city: "c", country: "c", zipCode: "z", timezone: "UTC" };

let serial = 0;

/** Rows of users and of listings that no other test names. */
function makeRows(count: number) {
  const id = `s${++serial}`;
  const numbers = Array.from({ length: count }, (_, index) => index);
  return {
    users: numbers.map((n) => ({
      type: "user" as const,
      externalId: `${id}-${n}`,
      email: `${id}.${n}@example.com`,
    })),
    listings: numbers.map((n) => ({
      type: "listing" as const,
      externalId: `${id}-${n}`,
      title: "t",
      ...place,
    })),
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
  test("concurrent writes of the same rows all succeed, and create and audit each row once", async () => {
    for (let round = 0; round < 5; round++) {
      const { users, listings, memberships } = makeRows(50);
      for (const rows of [users, listings, memberships]) {
        const reversed = [...rows].reverse();
        const results = await Promise.all([
          asOperator(services).onboarding.write({ rows }),
          asOperator(otherServices).onboarding.write({ rows: reversed }),
          asOperator(services).onboarding.write({ rows }),
        ]);
        const total = (outcome: "created" | "unchanged") =>
          results.reduce((sum, counts) => sum + counts[outcome], 0);
        expect([total("created"), total("unchanged")]).toEqual([50, 100]);
      }
    }
    const { rows: repeated } = await services.db.pool.query(
      "SELECT FROM audit_entries GROUP BY subject_id, action, details HAVING count(*) > 1",
    );
    expect(repeated).toEqual([]);
  });

  test("a user whose address another process takes during the write is found and gets the external id", async () => {
    const { users } = makeRows(20);
    const other = await holdLock(services, "INSERT INTO users (email) VALUES ($1)", [users[9]?.email]);
    const written = asOperator(services).onboarding.write({ rows: users });
    await waitForBlocked(services, 1);
    await other.commit();
    expect(await written).toEqual({ ...none, created: 19, updated: 1 });
    expect(await asOperator(services).onboarding.write({ rows: users })).toEqual({ ...none, unchanged: 20 });
  });

  test("a batch with an invalid row writes nothing and names the row", async () => {
    const { users, memberships } = makeRows(3);
    const { email } = await makeUser(services);
    const taken = { type: "user" as const, externalId: "taken", email };
    await asOperator(services).onboarding.write({ rows: [taken] });
    const write = asOperator(services).onboarding.write({
      rows: [...users, { ...taken, externalId: "other" }],
    });
    expect((await catchServiceError(write)).errors).toEqual([
      { field: "rows.3.email", issue: expect.stringMatching(/^another user has this address: /) },
    ]);
    const check = await asOperator(services).onboarding.check({ lines: [{ line: 1, value: users[0] }] });
    expect(check.counts.users).toEqual({ ...none, created: 1 });
    const unknown = asOperator(services).onboarding.write({ rows: memberships });
    expect((await catchServiceError(unknown)).errors?.map(({ field }) => field)).toEqual(
      [0, 1, 2].flatMap((index) => [`rows.${index}.listing`, `rows.${index}.user`]),
    );
    const mixed = asOperator(services).onboarding.write({ rows: [...users, ...memberships] });
    expect((await catchServiceError(mixed)).errors).toEqual([
      { field: "rows", issue: "must all have the same type" },
    ]);
  });

  test("an update sets only the fields that differ, so it keeps a concurrent change of another field", async () => {
    const { users, listings, memberships } = makeRows(1);
    for (const rows of [users, listings, memberships]) await asOperator(services).onboarding.write({ rows });
    const user = await asOperator(services).users.find({ email: users[0]?.email ?? "" });
    const [id = ""] = await listingIdsInScope(services, user.id);
    const other = await holdLock(services, "UPDATE listings SET city = 'Ulm' WHERE id = $1", [id]);
    const renamed = listings.map((listing) => ({ ...listing, title: "New" }));
    const written = asOperator(services).onboarding.write({ rows: renamed });
    await waitForBlocked(services, 1);
    await other.commit();
    expect(await written).toEqual({ ...none, updated: 1 });
    expect(await asOperator(services).listings.getAny({ id })).toMatchObject({ city: "Ulm", title: "New" });
  });

  test("memberships of listings with few and with many forms put exactly these forms in scope", async () => {
    const owner = await makeUser(services);
    const member = await makeUser(services);
    await insertListingsWithForms(services, owner.id, {
      listings: 3,
      formsPerListing: 20,
      distinctTimes: 50,
    });
    await insertListingsWithForms(services, owner.id, {
      listings: 2,
      formsPerListing: 150,
      distinctTimes: 50,
    });
    const ids = await listingIdsInScope(services, owner.id);
    const rows = (role: "WRITER" | "READER") =>
      ids.map((listing) => ({ type: "membership" as const, listing, user: member.email, role }));
    expect(await asOperator(services).onboarding.write({ rows: rows("WRITER") })).toEqual({
      ...none,
      created: 5,
    });
    const { rows: scoped } = await services.db.pool.query(
      "SELECT form_id AS id FROM scoped_forms WHERE user_id = $1 ORDER BY created_at, form_id",
      [member.id],
    );
    expect(scoped).toHaveLength(360);
    expect(scoped.map(({ id }) => id)).toEqual(await formIdsInScope(services, member.id));
    expect(await asOperator(services).onboarding.write({ rows: rows("READER") })).toEqual({
      ...none,
      updated: 5,
    });
    expect((await asUser(services, member.id).forms.list({})).items).toEqual([]);
    for (const listing of ids) {
      const trail = await asOperator(services).audit.trail({ subjectId: listing });
      expect(trail.map(({ details }) => details)).toEqual([
        { userId: member.id, role: "READER" },
        { userId: member.id, role: "WRITER" },
      ]);
    }
  });
});
